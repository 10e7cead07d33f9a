"""Training a bag model: the exact limit of gradient descent step by step, its derivatives, and where it ends."""
