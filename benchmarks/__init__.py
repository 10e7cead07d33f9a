"""Measurements of speed and memory. `python -m benchmarks [name ...]` runs all of them or some."""
