"""Averages over trials: means with standard errors by group, and their extrapolation to infinite dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def summarise(table: Any, by: str | Sequence[str], value: str) -> Any:
    """Mean, standard error and number of trials of a column, group by group.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per trial.
    by : str or sequence of str
        Columns whose combinations make the groups.
    value : str
        The column to average; its missing values are left out.

    Returns
    -------
    pandas.DataFrame
        Columns `by`, `mean`, `count` and `error`, in order of appearance. The error of a single trial is NaN: it is not
        known.
    """
    by = [by] if isinstance(by, str) else list(by)
    groups = table.dropna(subset=[value]).groupby(by, sort=False, dropna=False)[value]
    out = groups.agg(["mean", "std", "count"]).reset_index()
    out["error"] = out["std"] / np.sqrt(out["count"])
    return out.drop(columns="std")


def combined_degrees(variances: Any, degrees: Any) -> float:
    """Degrees of freedom of a sum of independent estimates, after Welch and Satterthwaite.

    Parameters
    ----------
    variances : array
        What each contributes to the variance of the sum.
    degrees : array
        Degrees of freedom of each of these variances.

    Returns
    -------
    float
        At least the least of `degrees` and at most their sum, which it is where all variances vanish.
    """
    variances, degrees = np.asarray(variances, float), np.asarray(degrees, float)
    total = float(variances.sum())
    return total**2 / float(np.sum(variances**2 / degrees)) if total > 0 else float(degrees.sum())


def extrapolate(table: Any, by: Sequence[str], value: str) -> Any:
    """The value at d -> infinity from the two largest dimensions, under mean(d) = limit + c/d.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per trial, with a column `d`.
    by : sequence of str
        Columns whose combinations make the groups.
    value : str
        The column to extrapolate.

    Returns
    -------
    pandas.DataFrame
        Columns `by`, `limit`, `error` (standard error of the limit), `degrees` (its degrees of freedom, after Welch and
        Satterthwaite), `bias` (c/d at the larger dimension), `d` (that dimension), `mean` and `mean_error` (there).
        Groups with a single dimension are left out.
    """
    rows = []
    for group, part in summarise(table, [*by, "d"], value).groupby(list(by), sort=False, dropna=False):
        part = part.sort_values("d")
        if len(part) < 2:
            continue
        small, large = part.iloc[-2], part.iloc[-1]
        weight = large["d"] / (large["d"] - small["d"])
        limit = weight * large["mean"] + (1 - weight) * small["mean"]
        pieces = np.array([(weight * large["error"]) ** 2, ((1 - weight) * small["error"]) ** 2])
        degrees = combined_degrees(pieces, np.array([large["count"], small["count"]]) - 1)
        key = group if isinstance(group, tuple) else (group,)
        rows.append(
            {
                **dict(zip(by, key)),
                "limit": limit,
                "error": np.sqrt(pieces.sum()),
                "degrees": degrees,
                "bias": large["mean"] - limit,
                "d": large["d"],
                "mean": large["mean"],
                "mean_error": large["error"],
            }
        )
    columns = [*by, "limit", "error", "degrees", "bias", "d", "mean", "mean_error"]
    return pd.DataFrame(rows, columns=columns)
