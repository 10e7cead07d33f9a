"""From the theory to a decision: best settings, expected results, inverse questions."""

from .advice import Expected, Plan, plan
from .confirmation import Confirmation, confirm
from .criterion import Criterion
from .displays import LearningCurveDisplay
from .estimate import Estimate, estimate
from .evaluation_sizes import comparison_power, comparison_set_size, error_interval, test_set_size
from .extrapolation import BagsNeeded, Extrapolation, Interval
from .finite_size import ForecastAt, forecast_at
from .forecast_checks import Check
from .from_bags import BagsPlan, Reasons, plan_for_bags
from .learners import LEARNERS, Outlook
from .learning_curve import MeasuredCurve, measure_curve
from .power import Solution, solve
from .questions import Answer
from .tuning import Settings, tune_attention, tune_linear

__all__ = [
    "LEARNERS",
    "Answer",
    "BagsNeeded",
    "BagsPlan",
    "Check",
    "Confirmation",
    "Criterion",
    "Estimate",
    "Expected",
    "Extrapolation",
    "ForecastAt",
    "Interval",
    "LearningCurveDisplay",
    "MeasuredCurve",
    "Outlook",
    "Plan",
    "Reasons",
    "Settings",
    "Solution",
    "comparison_power",
    "comparison_set_size",
    "confirm",
    "error_interval",
    "estimate",
    "forecast_at",
    "measure_curve",
    "plan",
    "plan_for_bags",
    "solve",
    "test_set_size",
    "tune_attention",
    "tune_linear",
]
