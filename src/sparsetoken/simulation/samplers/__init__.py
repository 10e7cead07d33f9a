"""Data sets drawn from a `Task`: `tensor` is the definition, `reduced` is exact in law and far cheaper."""

from .drawn_bags import SAMPLERS
from .tensor import TensorData, sample_bags

__all__ = ["SAMPLERS", "TensorData", "sample_bags"]
