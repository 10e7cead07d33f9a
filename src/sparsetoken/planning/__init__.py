"""From the theory to a decision: best settings, expected results, inverse questions."""

from .advice import Expected, Plan, plan
from .criterion import Criterion
from .estimate import Estimate, estimate
from .finite_size import Confirmation, ForecastAt, confirm, forecast_at
from .from_bags import BagsPlan, Check, plan_for_bags
from .learners import LEARNERS, Outlook
from .questions import Answer
from .tuning import Settings, tune_attention, tune_linear

__all__ = [
    "LEARNERS",
    "Answer",
    "BagsPlan",
    "Check",
    "Confirmation",
    "Criterion",
    "Estimate",
    "Expected",
    "ForecastAt",
    "Outlook",
    "Plan",
    "Settings",
    "confirm",
    "estimate",
    "forecast_at",
    "plan",
    "plan_for_bags",
    "tune_attention",
    "tune_linear",
]
