"""The fixed point of the trained readout: its equations, how they are solved, and standard errors of the result."""
