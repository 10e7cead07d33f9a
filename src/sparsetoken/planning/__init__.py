"""From the theory to a decision: best settings, expected results, inverse questions; learning curves on a user's bags."""

from .criterion import Criterion
from .evaluation_sizes import comparison_power, error_interval, sample_size_for_comparison, sample_size_for_error
from .extrapolation import BagsNeeded, Extrapolation, Interval
from .forecast_at import ForecastAt, forecast_at
from .learning_curve import MeasuredCurve, measure_curve
from .learning_curve_display import LearningCurveDisplay
from .outlook import LEARNERS, Outlook
from .plan import Expected, Plan, plan
from .plan_for_bags import BagsPlan, plan_for_bags
from .solve import Answer, solve
from .tuning import Settings, tune_attention, tune_linear

__all__ = [
    "LEARNERS",
    "Answer",
    "BagsNeeded",
    "BagsPlan",
    "Criterion",
    "Expected",
    "Extrapolation",
    "ForecastAt",
    "Interval",
    "LearningCurveDisplay",
    "MeasuredCurve",
    "Outlook",
    "Plan",
    "Settings",
    "comparison_power",
    "error_interval",
    "forecast_at",
    "measure_curve",
    "plan",
    "plan_for_bags",
    "sample_size_for_comparison",
    "sample_size_for_error",
    "solve",
    "tune_attention",
    "tune_linear",
]
