"""Exact asymptotics: the infinite twin of `simulate` (d, n -> infinity with n/d fixed)."""

from ..laws.law import Law, attention_law, elementwise_law, law_from_nodes, law_from_samples, pooled_law, vectorized_law
from .alignment import Alignment, alignment
from .bayes import BayesLimit, bayes_limit
from .capacity import Capacity, capacity
from .continuation import WarmStart
from .erm import ErmResult, erm
from .errors import AccuracyError, ConvergenceError
from .forecast import Forecast, forecast
from .gradient import Gradient, gradient
from .known_signal import Oracle, oracle, strength_needed
from .sweep import erm_sweep, forecast_grid, sweep
from .trajectory import trajectory

__all__ = [
    "AccuracyError",
    "Alignment",
    "BayesLimit",
    "Capacity",
    "ConvergenceError",
    "ErmResult",
    "Forecast",
    "Gradient",
    "Law",
    "Oracle",
    "WarmStart",
    "alignment",
    "attention_law",
    "bayes_limit",
    "capacity",
    "elementwise_law",
    "erm",
    "erm_sweep",
    "forecast",
    "forecast_grid",
    "gradient",
    "law_from_nodes",
    "law_from_samples",
    "oracle",
    "pooled_law",
    "strength_needed",
    "sweep",
    "trajectory",
    "vectorized_law",
]
