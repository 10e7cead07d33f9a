"""From differences and their margins to verdicts, and criteria that many claims share: agreement, a slope, an order.

Every claim is judged at level LEVEL: where it holds exactly, the chance of `refuted` is at most LEVEL, however many points it
rests on (Bonferroni, Student's t for errors estimated from few trials). Study files name criteria as data.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pandas as pd
from scipy import stats

from .._core.averages import extrapolate, summarise, with_error
from .._core.validation import real_number
from .claims import Judgement, NotJudgeable, TableError, Tables, in_words, need
from .kind_registry import of_type

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


def compare(simulated: Any, predicted: Any, value: str, on: Sequence[str], predicted_error: str | None = None) -> Any:
    """Simulation against prediction, point by point.

    With two dimensions in the simulated table the comparison is at d -> infinity (see `extrapolate`); with one, at that
    dimension.
    """
    on = list(on)
    if "d" in simulated and simulated["d"].nunique() >= 2:
        measured = extrapolate(simulated, on, value).rename(columns={"limit": "measured"})
    else:
        measured = summarise(simulated, on, value).rename(columns={"mean": "measured"})
        measured["degrees"] = measured["count"] - 1
    errors = predicted[predicted_error].fillna(0.0) if predicted_error else 0.0
    joined = measured.merge(predicted[on].assign(predicted=predicted[value], predicted_error=errors), on=on)
    if len(joined) < len(measured) or not len(joined):
        raise NotJudgeable(f"{value}: predictions for {len(joined)} of {len(measured)} measured points")
    joined["error"] = np.hypot(joined["error"], joined["predicted_error"])
    joined["difference"] = joined["measured"] - joined["predicted"]
    return joined


def judge_agreement(
    simulated: Any,
    predicted: Any,
    value: str,
    on: Sequence[str],
    resolution: float,
    predicted_error: str | None = None,
    relative: bool = False,
) -> Judgement:
    """Do simulation and prediction agree at every point?"""
    points = compare(simulated, predicted, value, on, predicted_error)
    scale = points["predicted"].abs() if relative else pd.Series(1.0, index=points.index)
    margin = quantile(len(points), points["degrees"].to_numpy(float)) * points["error"]
    verdicts = [equal_verdict(d, m, resolution * s) for d, m, s in zip(points["difference"], margin, scale)]
    at = (points["difference"].abs() / margin.where(margin > 0)).fillna(np.inf).idxmax()
    row = points.loc[at]
    distance = abs(row["difference"]) / row["error"] if row["error"] > 0 else np.inf
    where = ", ".join(in_words(name, row[name]) for name in on)
    note = (
        f"{len(points)} points; margins at most {(margin / scale).max():.2g}{' of the value' if relative else ''}; "
        f"furthest at {where}: {distance:.1f} standard errors"
    )
    return Judgement(worst(verdicts), with_error(row["predicted"]), with_error(row["measured"], row["error"]), note)


@dataclass(frozen=True)
class LineFit:
    """A straight line fitted by weighted least squares, with errors of slope and intercept."""

    slope: float
    slope_error: float
    intercept: float
    intercept_error: float


def fit_line(x: Any, y: Any, error: Any = None) -> LineFit:
    """Weighted least squares of y = intercept + slope x; without errors they come from the scatter about the line."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    weight = None if error is None else 1.0 / np.asarray(error, float)
    line, covariance = np.polyfit(x, y, 1, w=weight, cov="unscaled")
    if error is None:
        covariance *= np.sum((np.polyval(line, x) - y) ** 2) / (len(x) - 2) if len(x) > 2 else np.nan
    errors = np.sqrt(np.diag(covariance))
    return LineFit(float(line[0]), float(errors[0]), float(line[1]), float(errors[1]))


class ValueWithError(NamedTuple):
    """A number with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    degrees: float = np.inf

    def __str__(self) -> str:
        return with_error(self.value, self.error)

    def scaled(self, factor: float) -> ValueWithError:
        """The estimate times a number."""
        return ValueWithError(factor * self.value, abs(factor) * self.error, self.degrees)

    def minus(self, other: ValueWithError | float) -> ValueWithError:
        """Its difference from an independent estimate, or from a number, which has no error."""
        value, error, degrees = other if isinstance(other, ValueWithError) else ValueWithError(other, 0.0)
        return ValueWithError(self.value - value, math.hypot(self.error, error), min(self.degrees, degrees))


def limits_of(table: Any, by: str | Sequence[str], value: str) -> dict[Any, ValueWithError]:
    """Group -> the value at d -> infinity; groups of one column have its values as keys, else tuples."""
    rows = extrapolate(table, [by] if isinstance(by, str) else list(by), value)
    return _estimates(rows, by, rows["limit"], rows["error"], rows["degrees"])


def means_of(table: Any, by: str | Sequence[str], value: str) -> dict[Any, ValueWithError]:
    """Group -> the mean over its trials."""
    rows = summarise(table, by, value)
    return _estimates(rows, by, rows["mean"], rows["error"], rows["count"] - 1)


def predictions_of(
    table: Any, by: str | Sequence[str], value: str, error: str, degrees: float
) -> dict[Any, ValueWithError]:
    """Group -> the predicted value of its row, with the standard error in the column `error`."""
    return _estimates(table, by, table[value], table[error], repeat(degrees))


def _estimates(
    rows: Any, by: str | Sequence[str], values: Any, errors: Any, degrees: Iterable[float]
) -> dict[Any, ValueWithError]:
    keys = rows[by] if isinstance(by, str) else zip(*(rows[name] for name in by))
    return dict(zip(keys, map(ValueWithError, map(float, values), map(float, errors), degrees)))


def _difference(a: ValueWithError | float, b: ValueWithError | float, comparisons: int) -> tuple[float, float]:
    """a - b and its margin."""
    gap = (a if isinstance(a, ValueWithError) else ValueWithError(a, 0.0)).minus(b)
    return gap.value, float(quantile(comparisons, gap.degrees)) * gap.error


def larger(a: ValueWithError | float, b: ValueWithError | float, comparisons: int = 1) -> str:
    """The verdict on a > b, one of so many comparisons of a claim."""
    return greater_verdict(*_difference(a, b, comparisons))


def near(a: ValueWithError, b: ValueWithError | float, tolerance: float, comparisons: int = 1) -> str:
    """The verdict on |a - b| <= tolerance, one of so many comparisons of a claim."""
    return within_verdict(*_difference(a, b, comparisons), tolerance)


def judge_slope(fit: LineFit, predicted: float, resolution: float, note: str = "") -> Judgement:
    """Is the slope of a fitted line the predicted one?"""
    verdict = equal_verdict(fit.slope - predicted, float(quantile()) * fit.slope_error, resolution)
    return Judgement(verdict, with_error(predicted), with_error(fit.slope, fit.slope_error), note)


class NamedCriterion(NamedTuple):
    """A criterion written as data, with the tables and columns that it needs."""

    judge: Callable[[Tables], Judgement]
    needs: tuple[tuple[str, tuple[str, ...]], ...]


def named_criterion(parameters: Mapping[str, Any]) -> NamedCriterion:
    """A criterion written as data (study files): agreement, slope or below; see docs/studies.md."""
    arguments = dict(parameters)
    kind = arguments.pop("kind", None)
    makers: dict[str, Callable[..., NamedCriterion]] = {
        "agreement": agreement_criterion,
        "slope": slope_criterion,
        "below": below_criterion,
    }
    if kind not in makers:
        raise ValueError(f"criterion kind must be one of {', '.join(makers)}, got {kind!r}")
    taken, types = inspect.signature(makers[kind]).parameters, get_type_hints(makers[kind])
    missing = [name for name, p in taken.items() if p.default is p.empty and name not in arguments]
    unknown = [name for name in arguments if name not in taken]
    if missing or unknown:
        wrong = f"needs {', '.join(missing)}" if missing else f"has no {', '.join(map(repr, unknown))}"
        raise ValueError(f"criterion {kind!r} {wrong}; it takes {', '.join(taken)}")
    return makers[kind](**{name: of_type(types[name], value, name) for name, value in arguments.items()})


def agreement_criterion(
    *,
    table: str,
    theory: str,
    value: str,
    on: list[str],
    resolution: float,
    relative: bool = False,
    predicted_error: str | None = None,
    where: Mapping[str, Any] | None = None,
) -> NamedCriterion:
    """Table `table` agrees with table `theory` in `value` at every combination of `on`, of the rows `where`.

    `predicted_error` is the column with the standard errors of the theory.
    """
    resolution, where = real_number("resolution", resolution, 0.0, open_low=True), where or {}

    def criterion(tables: Tables) -> Judgement:
        simulated, predicted = (select(need(tables, name, [*on, value]), where) for name in (table, theory))
        return judge_agreement(simulated, predicted, value, on, resolution, predicted_error, relative)

    columns = (*on, value, *where)
    return NamedCriterion(criterion, ((table, columns), (theory, (*columns, *filter(None, [predicted_error])))))


def slope_criterion(
    *, table: str, x: str, value: str, slope: float, resolution: float, where: Mapping[str, Any] | None = None
) -> NamedCriterion:
    """log(value) against log(x) has that slope."""
    slope, resolution = real_number("slope", slope, -np.inf), real_number("resolution", resolution, 0.0, open_low=True)
    where = where or {}

    def criterion(tables: Tables) -> Judgement:
        means = summarise(select(need(tables, table, [x, value]), where), x, value)
        if len(means) < 2 or (means["mean"] <= 0).any():
            raise NotJudgeable(f"{value} must be positive at two points or more for a slope")
        errors = means["error"] / means["mean"]
        weighted = bool(np.isfinite(errors).all() and (errors > 0).all())
        fit = fit_line(np.log(means[x]), np.log(means["mean"]), errors if weighted else None)
        return judge_slope(fit, slope, resolution)

    return NamedCriterion(criterion, ((table, (x, value, *where)),))


def below_criterion(
    *, table: str, value: str, column: str, low: Any, high: Any, on: list[str] | None = None
) -> NamedCriterion:
    """The mean of `value` where column == low lies below that where column == high, at every combination of `on`."""
    on = on or []

    def criterion(tables: Tables) -> Judgement:
        means = summarise(need(tables, table, [*on, column, value]), [*on, column], value)
        low_rows, high_rows = (select(means, {column: side}).drop(columns=column) for side in (low, high))
        how = "inner" if on else "cross"
        pairs = low_rows.merge(high_rows, how, on=on or None, suffixes=("_low", "_high"))
        if not len(pairs):
            raise NotJudgeable(f"no rows with {column} = {low} and {high}")
        degrees = np.minimum(pairs["count_low"], pairs["count_high"]) - 1
        difference = pairs["mean_high"] - pairs["mean_low"]
        margin = quantile(len(pairs), np.asarray(degrees, float)) * np.hypot(pairs["error_low"], pairs["error_high"])
        ratio = difference / margin
        at = (ratio if ratio.notna().any() else difference).idxmin()  # single trials have no error, and so no margin
        return Judgement(
            worst(greater_verdict(d, m) for d, m in zip(difference, margin)),
            f"{value} of {low} < {high}",
            f"{with_error(pairs['mean_low'][at], pairs['error_low'][at])} < "
            f"{with_error(pairs['mean_high'][at], pairs['error_high'][at])} (closest)",
        )

    return NamedCriterion(criterion, ((table, (*on, column, value)),))


def select(table: Any, where: Mapping[str, Any]) -> Any:
    """Rows whose columns have the given values."""
    for column, value in where.items():
        if column not in table:
            raise TableError(f"there is no column {column!r}; there are {', '.join(map(str, table))}")
        table = table[table[column] == value]
    return table
