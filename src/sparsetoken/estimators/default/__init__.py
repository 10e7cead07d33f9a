"""The default learners `BagClassifier` and `BagRegressor`, and what they are made of."""
