"""From the theory to a decision: best settings, expected results, inverse questions."""

from .advice import Expected, Plan, plan
from .criterion import Criterion
from .learners import LEARNERS, Outlook
from .questions import Answer
from .tuning import Settings, tune_attention, tune_linear

__all__ = [
    "LEARNERS",
    "Answer",
    "Criterion",
    "Expected",
    "Outlook",
    "Plan",
    "Settings",
    "plan",
    "tune_attention",
    "tune_linear",
]
