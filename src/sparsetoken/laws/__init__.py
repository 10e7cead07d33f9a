"""Laws of (T, S, kappa): what a classifier sees of a bag."""
