"""Training step by step: the exact limit of gradient descent, and its derivatives."""
