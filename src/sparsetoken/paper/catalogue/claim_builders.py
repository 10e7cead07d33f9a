"""What the studies' claims are made of: tables in pairs, values of tables, judgements, and claims that many studies have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.averages import with_error
from ...plotting.panels import Panel
from ...study.claims import Claim, Judgement, NotJudgeable, Source, Tables, claim, need
from ...study.criteria import (
    LineFit,
    ValueWithError,
    fit_line,
    judge_agreement,
    judge_slope,
    larger,
    predictions_of,
    quantile,
    select,
    within_verdict,
    worst,
)
from ...study.study import SIZES, Grid, Study
from . import STUDIES, THEORY_DEGREES, Resolution


def study(
    name: str,
    grids: Mapping[str, Sequence[Grid]],
    draw: Callable[[Tables], Sequence[Panel]],
    findings: Callable[[Tables], str],
    claims: Sequence[Claim],
) -> Study:
    """The study of that name, with its title, question, notes and times from `studies.toml`."""
    entry = STUDIES[name]
    cost = dict(zip(SIZES, entry["seconds"]))
    return Study(name, entry["title"], entry["question"], grids, draw, findings, claims, cost, entry.get("notes", ""))


def exact(
    id: str,
    source: Source,
    on: Sequence[str],
    resolution: float = Resolution.FINE,
    value: str = "test_error",
    error: str | None = "standard_error",
    relative: bool = False,
) -> Callable[[Callable[[Tables], Any]], Claim]:
    """Theory and simulation agree, at every combination of `on`: the claim made of a function that gives both tables."""

    of = f"{resolution:.0%} of it" if relative else f"{resolution:g}"
    rest = f"extrapolated to d → ∞, within the margin at level 0.1 %; resolution {of}"

    def made(parts: Callable[[Tables], Any]) -> Claim:
        def criterion(tables: Tables) -> Judgement:
            simulated, predicted = parts(tables)
            return judge_agreement(simulated, predicted, value, on, resolution, error, relative)

        stated = claim(id, source)(parts)
        return replace(stated, rule=f"{stated.rule}, {rest}", criterion=criterion)

    return made


def pair(
    tables: Tables, value: str = "test_error", simulated: str = "simulated", predicted: str = "predicted"
) -> tuple[Any, Any]:
    """Two tables with that column: what was simulated, and its theory."""
    return need(tables, simulated, [value]), need(tables, predicted, [value])


def value_at(tables: Tables, name: str, value: str = "test_error", **where: Any) -> float:
    """The value in the row of a table with these columns, the first where several rows have the same."""
    rows = select(need(tables, name, [value]), where)
    if not len(rows):
        raise NotJudgeable(f"table {name!r} lacks the row with {', '.join(f'{k} = {v}' for k, v in where.items())}")
    return float(rows[value].iloc[0])


def with_alpha(table: Any) -> Any:
    """The table with the column `alpha`: all samples of a staged training."""
    return table.assign(alpha=table["alpha0"] + table["alpha1"])


def complete(rows: Any, wanted: Sequence[str]) -> Any:
    """The rows of these names, in order; a claim that lacks one of them cannot be judged."""
    missing = [name for name in wanted if name not in rows.index]
    if missing:
        raise NotJudgeable(f"no prediction for {', '.join(missing)}")
    return rows.loc[list(wanted)]


def theory_of(
    table: Any, by: str | Sequence[str], value: str = "test_error", error: str | None = None
) -> dict[Any, ValueWithError]:
    """Group -> a predicted value of its row, with its standard error (by default, of a trajectory)."""
    return predictions_of(table, by, value, error or f"{value}_se", THEORY_DEGREES)


def both(parts: Mapping[str, Judgement]) -> Judgement:
    """Several judgements of one claim as one, each under its name."""
    return Judgement(
        worst(part.verdict for part in parts.values()),
        "; ".join(f"{name} {part.predicted}".strip() for name, part in parts.items()),
        "; ".join(f"{name} {part.measured}".strip() for name, part in parts.items()),
        "; ".join(f"{name}: {part.note}" for name, part in parts.items()),
    )


def ordered(pairs: Sequence[tuple[Any, Any]], *words: str) -> Judgement:
    """Each first value above its second, beyond the margin; `words` are what was predicted, measured and noted."""
    return Judgement(worst(larger(high, low, len(pairs)) for high, low in pairs), *words)


def decided(holds: Any, *words: str) -> Judgement:
    """Whether exact numbers, which have no margins, are as stated; `words` as in `ordered`."""
    return Judgement("confirmed" if holds else "refuted", *words)


def provided(holds: Any, judged: Judgement) -> Judgement:
    """A judgement that is refuted unless something else holds as well."""
    return judged if holds else replace(judged, verdict="refuted")


def near_slope(fit: LineFit, predicted: float, tolerance: float, note: str) -> Judgement:
    """The slope of exact numbers: its scatter is small, and the tolerance allows for the approach to the limit."""
    verdict = within_verdict(fit.slope - predicted, float(quantile()) * fit.slope_error, tolerance)
    return Judgement(verdict, f"{predicted:g}, within {tolerance:g}", with_error(fit.slope, fit.slope_error), note)


def log_fit(found: Mapping[Any, ValueWithError]) -> LineFit:
    """The line through the logarithms of values over those of their places."""
    values, errors = (np.array([getattr(v, name) for v in found.values()]) for name in ("value", "error"))
    return fit_line(np.log(list(found)), np.log(values), errors / values)


def power_law(fit: LineFit, predicted: float, resolution: float, note: str = "") -> Judgement:
    """Is the exponent, the slope of a line through logarithms, the predicted one?"""
    return replace(judge_slope(fit, predicted, resolution, note), predicted=f"exponent {predicted:g}")


def listed(values: Mapping[Any, Any], name: str = "") -> str:
    """Values with their settings: "0.03 (α = 2), 0.02 (α = 4)"."""
    shown = {k: f"{k:g}" if isinstance(k, int | float) else str(k) for k in values}
    digits = {k: f"{v:.4f}" if isinstance(v, float) else str(v) for k, v in values.items()}
    return ", ".join(f"{digits[k]} ({f'{name} = ' if name else ''}{shown[k]})" for k in values)


def sharp(length: Any) -> Any:
    """sqrt(2 log L): the size of the largest noise score, and the sharpness that grows with it."""
    return np.sqrt(2 * np.log(length))


def first_crossing(x: Any, gap: Any) -> float:
    """Where a gap that is given at points x first falls to zero, by linear interpolation; nan where it does not."""
    x, gap = np.asarray(x, float), np.asarray(gap, float)
    at = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    if not len(at):
        return float("nan")
    i = at[0]
    return float(x[i] + (x[i + 1] - x[i]) * gap[i] / (gap[i] - gap[i + 1]))
