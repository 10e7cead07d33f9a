"""Measurements of speed and memory, ours next to what people would use instead: `python -m benchmarks --help`."""
