"""What is possible at all: with a known signal direction, and with one that must be learned."""
