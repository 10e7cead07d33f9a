"""From a difference and its margin to a verdict.

Every claim is judged at level LEVEL: where it holds exactly, the chance of `refuted` is at most LEVEL, however many points it
rests on (Bonferroni, Student's t for errors estimated from few trials).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import stats

from .._core.averages import with_error

LEVEL = 1e-3


def quantile(points: int = 1, degrees: float | np.ndarray = np.inf) -> Any:
    """Two-sided multiple of the standard error at LEVEL, shared by `points` comparisons (Student's t)."""
    return stats.t.isf(LEVEL / (2 * points), degrees)


def equal_verdict(difference: float, margin: float, resolution: float) -> str:
    """refuted: off by more than the margin; undecided: the margin is too wide to tell; else confirmed."""
    if not np.isfinite(difference) or not np.isfinite(margin):
        return "undecided"
    if abs(difference) > margin:
        return "refuted"
    return "undecided" if margin > resolution else "confirmed"


def within_verdict(difference: float, margin: float, tolerance: float) -> str:
    """Is the difference, known to within the margin, smaller than the tolerance? Undecided where both are possible."""
    if not np.isfinite(difference) or not np.isfinite(margin):
        return "undecided"
    if abs(difference) + margin <= tolerance:
        return "confirmed"
    return "refuted" if abs(difference) - margin > tolerance else "undecided"


def greater_verdict(difference: float, margin: float) -> str:
    """Is the difference positive? Undecided within the margin of zero."""
    if not np.isfinite(difference) or not np.isfinite(margin) or abs(difference) <= margin:
        return "undecided"
    return "confirmed" if difference > 0 else "refuted"


def worst(verdicts: Iterable[str]) -> str:
    """A claim of several parts: refuted if one part is, else undecided if one is."""
    present = set(verdicts)
    if not present:
        return "undecided"
    return next((v for v in ("refuted", "undecided") if v in present), "confirmed")


def format_value(value: float, error: float | None = None) -> str:
    """A number with its error to two digits, such as 0.0413 ± 0.0012."""
    return with_error(value, math.nan if error is None else error)
