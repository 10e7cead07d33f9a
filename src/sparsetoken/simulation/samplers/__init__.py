"""Data sets drawn from a `Task`: `tensor` is the definition, `reduced` is exact in law and far cheaper."""

from .tensor import TensorData, sample_bags

SAMPLERS = ("reduced", "tensor")

__all__ = ["SAMPLERS", "TensorData", "sample_bags"]
