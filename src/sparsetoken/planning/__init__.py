"""From the theory to a decision: best settings, expected results, inverse questions."""

from .advice import Expected, Plan, plan
from .criterion import Criterion
from .estimate import Estimate, estimate
from .from_bags import BagsPlan, Check, plan_for_bags
from .learners import LEARNERS, Outlook
from .questions import Answer
from .tuning import Settings, tune_attention, tune_linear

__all__ = [
    "LEARNERS",
    "Answer",
    "BagsPlan",
    "Check",
    "Criterion",
    "Estimate",
    "Expected",
    "Outlook",
    "Plan",
    "Settings",
    "estimate",
    "plan",
    "plan_for_bags",
    "tune_attention",
    "tune_linear",
]
