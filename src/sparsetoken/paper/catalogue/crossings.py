"""Strengths at which something happens, read off two strengths, and how they grow with the length of the bags."""

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


def crossing(x: Any, y: Any, errors: Any, degrees: Any = None) -> dict[str, float]:
    """Where the line through two points (x, y) is zero, with its error.

    Predictions share their draws, so that their errors may point the same way: the larger one counts. Those of runs are
    independent, with degrees of freedom that are given, and each counts with its share in the crossing.
    """
    slope = (y[1] - y[0]) / (x[1] - x[0])
    at = x[0] - y[0] / slope
    errors = np.asarray(errors) / abs(slope)
    share = (at - x[0]) / (x[1] - x[0])
    shares = np.square(errors * [1 - share, share])
    if degrees is None:
        return {"strength": at, "error": float(np.max(errors)), "degrees": float(THEORY_DEGREES)}
    return {"strength": at, "error": float(np.sqrt(shares.sum())), "degrees": combined_degrees(shares, degrees)}


def two_strengths(table: Any, by: list[str]) -> Any:
    """Each group's values of `by`, by name, and its rows at two strengths, the lower one first."""
    for group, part in table.groupby(by):
        named = dict(zip(by, group))
        if len(part) < 2:
            raise NotJudgeable("one strength for " + ", ".join(f"{n} {v}" for n, v in named.items()))
        yield named, part.sort_values("strength")


def crossings(table: Any, by: list[str], value: str, error: str, independent: bool = False) -> Any:
    """Strength for 10 % error, group by group: a line through the probits of the errors at two strengths.

    The rows of independent runs have their degrees of freedom in the column `degrees`; see `crossing`.
    """
    rows = []
    for named, part in two_strengths(table, by):
        if not part[value].between(0, 1, inclusive="neither").all():
            raise NotJudgeable("an error that is not between 0 and 1")
        p = ndtri(part[value].to_numpy())
        errors = part[error].to_numpy() * np.sqrt(2 * np.pi) * np.exp(0.5 * p**2)
        degrees = part["degrees"] if independent else None
        rows.append({**named, **crossing(part["strength"].to_numpy(), p - ndtri(TARGET), errors, degrees)})
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
