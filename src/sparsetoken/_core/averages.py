"""Means over trials and replicates with standard errors, their extrapolation to infinite dimension, and their text form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

TINY = 1e-10  # below it a probability or a loss counts as zero


def standard_error(values: Any, axis: int = 0, alone: float = math.nan) -> Any:
    """Standard error of the mean of independent replicates; `alone` where there is a single one."""
    values = np.asarray(values, dtype=np.float64)
    count = values.shape[axis]
    if count > 1:
        error = np.std(values, axis=axis, ddof=1) / math.sqrt(count)
    else:
        error = np.full(np.delete(values.shape, axis), alone)
    return float(error) if np.ndim(error) == 0 else error


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Mean and its standard error (NaN with fewer than two values; both NaN where a value is)."""
    x = np.array(list(values), dtype=np.float64)
    return float(x.mean()), standard_error(x)


def summarise(table: Any, by: str | Sequence[str], value: str) -> Any:
    """Mean, standard error and number of trials of a column, group by group."""
    by = [by] if isinstance(by, str) else list(by)
    groups = table.dropna(subset=[value]).groupby(by, sort=False, dropna=False)[value]
    out = groups.agg(["mean", "std", "count"]).reset_index()
    out["error"] = out["std"] / np.sqrt(out["count"])
    return out.drop(columns="std")


def combined_degrees(variances: Any, degrees: Any) -> float:
    """Degrees of freedom of a sum of independent estimates, after Welch and Satterthwaite."""
    variances, degrees = np.asarray(variances, float), np.asarray(degrees, float)
    total = float(variances.sum())
    return total**2 / float(np.sum(variances**2 / degrees)) if total > 0 else float(degrees.sum())


# Columns that are shares: they are extrapolated on the logit scale, which cannot leave [0, 1].
SHARES = frozenset({"auc", "sensitivity", "specificity", "test_error", "balanced_error", "train_error"})


def extrapolate(table: Any, by: Sequence[str], value: str) -> Any:
    """The value at d -> infinity from the two largest dimensions, under mean(d) = limit + c/d; of a share, its logit."""
    import pandas as pd  # imported here: most averages need no table
    from scipy.special import expit, logit

    rows = []
    for group, part in summarise(table, [*by, "d"], value).groupby(list(by), sort=False, dropna=False):
        part = part.sort_values("d")
        if len(part) < 2:
            continue
        small, large = part.iloc[-2], part.iloc[-1]
        weight = large["d"] / (large["d"] - small["d"])
        weights = np.array([weight, 1 - weight])
        means, errors = (np.array([large[name], small[name]], float) for name in ("mean", "error"))
        inside = value in SHARES and bool(((means > 0) & (means < 1)).all())
        limit = float(expit(weights @ logit(means)) if inside else weights @ means)
        slopes = limit * (1 - limit) / (means * (1 - means)) if inside else np.ones(2)  # of the limit in either mean
        pieces = (weights * np.maximum(slopes, 1.0) * errors) ** 2  # the wider of the two scales' errors
        degrees = combined_degrees(pieces, np.array([large["count"], small["count"]]) - 1)
        key = group if isinstance(group, tuple) else (group,)
        bias = large["mean"] - limit
        rows.append((*key, limit, np.sqrt(pieces.sum()), degrees, bias, large["d"], large["mean"], large["error"]))
    return pd.DataFrame(rows, columns=[*by, "limit", "error", "degrees", "bias", "d", "mean", "mean_error"])


def with_error(value: float, error: float = math.nan) -> str:
    """`0.0373 ± 0.0011`, to the digits the error supports; four digits alone where these are certain; a dash for no number."""
    if math.isnan(value):
        return "-"
    if 0 < value < TINY and not error >= TINY:
        return f"< {TINY:g}"
    if not math.isfinite(error) or error <= 5e-5 * abs(value):  # below the fourth digit
        return f"{value:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    if decimals > 8:
        digits = 1 if value == 0 else max(1, math.floor(math.log10(abs(value))) + decimals)
        return f"{value:.{digits}e} ± {error:.1e}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
