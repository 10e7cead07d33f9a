"""The message-passing classifier: Bayes-optimal on the model, with all it needs estimated from bags."""
