"""Strengths needed for a target error, read off two strengths, and how they grow with the length of the bags."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..._core.averages import combined_degrees
from ...study.claims import NotJudgeable
from ...study.criteria import fit_line
from .common import THEORY_DEGREES
from .scaling import TARGET


def crossings(table: Any, by: list[str], value: str, error: str, independent: bool = False) -> Any:
    """Strength for 10 % error, group by group: a line through the probits of the errors at two strengths.

    Predictions share their draws, so that their errors may point the same way: the larger one counts. Those of runs are
    independent, with degrees of freedom in the column `degrees`, and each counts with its share in the crossing.
    """
    rows = []
    for group, part in table.groupby(by):
        part = part.sort_values("strength")
        if len(part) < 2:
            raise NotJudgeable("one strength for " + ", ".join(f"{n} {v}" for n, v in zip(by, group)))
        if not part[value].between(0, 1, inclusive="neither").all():
            raise NotJudgeable("an error that is not between 0 and 1")
        x, p = part["strength"].to_numpy(), ndtri(part[value].to_numpy())
        slope = (p[1] - p[0]) / (x[1] - x[0])
        crossing = x[0] + (ndtri(TARGET) - p[0]) / slope
        errors = part[error].to_numpy() * np.sqrt(2 * np.pi) * np.exp(0.5 * p**2) / abs(slope)
        share = (crossing - x[0]) / (x[1] - x[0])
        shares = np.square(errors * [1 - share, share])
        variance, degrees = np.max(errors) ** 2, float(THEORY_DEGREES)
        if independent:
            variance, degrees = shares.sum(), combined_degrees(shares, part["degrees"])
        found = {"strength": crossing, "error": float(np.sqrt(variance)), "degrees": degrees}
        rows.append({**dict(zip(by, group)), **found})
    return pd.DataFrame(rows)


class Exponent(NamedTuple):
    """Slope of log strength against log length, with its standard error and the degrees of freedom of that."""

    slope: float
    error: float
    degrees: float


def exponents(rows: Any) -> dict[str, Exponent]:
    """Lines through log strength against log length, by model."""
    found = {}
    for model, part in rows.groupby("model"):
        if len(part) < 2:
            raise NotJudgeable(f"one length for {model}")
        x, error = np.log(part["length"].to_numpy()), (part["error"] / part["strength"]).to_numpy()
        line = fit_line(x, np.log(part["strength"]), error)
        # A point's share in the slope is its lever over its variance.
        lever = (x - np.average(x, weights=error**-2)) / error
        found[str(model)] = Exponent(line.slope, line.slope_error, combined_degrees(lever**2, part["degrees"]))
    return found
