"""The convex readout: ridge-regularised empirical risk minimisation at finite size."""
