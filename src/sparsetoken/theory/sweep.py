"""Sweeps: neighbours start from each other's solutions, and blocks of a grid run side by side.

`sweep` is the one loop behind all of them; it needs a function from a point and a `WarmStart` to a result.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from .._core.user_code import load_source, shared_sources
from .._core.validation import whole_number
from .._core.workers import keep_to_one_thread
from ..classifiers import classifier
from ..laws.law import SECOND_LEVEL, Law
from ..losses import Loss
from ..plotting.show import Shown, axes_for, legend_above
from ..plotting.style import colour, label
from ..task import Task
from ..training import Training
from .fixed_point.erm import erm
from .fixed_point.plain import ErmResult
from .fixed_point.readout import DEFAULT_ACCURACY, SAFETY, Accuracy, WarmStart
from .forecast import forecast

Point = Mapping[str, Any]
Row = TypeVar("Row")
_BLOCKS_PER_WORKER = 4  # more even work, at the price of one cold start per block
_FURTHEST = 2.0  # times the shortest of the last steps: how far ahead solutions are extrapolated
_AMPLE = 3  # a standard error this many times smaller than needed: half the draws (less than twice the error) suffice


class ForecastGrid(Shown, list[dict[str, Any]]):
    """Forecasts over a grid: a list of rows (dictionaries) that shows itself.

    Parameters
    ----------
    rows : iterable of dict
        One row per model and point.
    over : sequence of str
        The fields that vary, in order; the last one varies fastest.

    Attributes
    ----------
    over : tuple of str
        The fields that vary.
    """

    def __init__(self, rows: Iterable[dict[str, Any]] = (), over: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self.over = tuple(over)

    def __repr__(self) -> str:
        models = ", ".join(dict.fromkeys(row["model"] for row in self))
        axes = ", ".join(f"{name} ({len({str(row[name]) for row in self})} values)" for name in self.over)
        failed = sum(bool(row["failure"]) for row in self)
        errors = [row["test_error"] for row in self if not row["failure"]]
        span = f", test error {min(errors):.4g} to {max(errors):.4g}" if errors else ""
        return f"ForecastGrid({models} over {axes or 'one point'}{span}{f', {failed} failed' if failed else ''})"

    def frame(self) -> Any:
        """A pandas table, one row per model and point."""
        import pandas as pd

        return pd.DataFrame(list(self))

    def _shown_frame(self) -> Any:
        table = self.frame()
        main = ("test_error", "standard_error", "auc", "train_loss", "cosine_q", "capacity", "failure")
        kept = [name for name in main if name in table and table[name].notna().any() and (table[name] != "").any()]
        return table[["model", *self.over, *kept]] if len(table) else table

    def plot(self, ax: Any = None) -> Any:
        """The test error against the first field that holds numbers: one line per model and value of the others.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        numeric = [name for name in self.over if all(isinstance(row[name], Real) for row in self)]
        if not numeric or not self:
            raise ValueError("a plot needs rows over a field that holds numbers")
        # The field with the most values makes the better axis; among equals the first.
        x = max(numeric, key=lambda name: len({row[name] for row in self}))
        others = [name for name in self.over if name != x]
        ax = axes_for(ax)
        models = list(dict.fromkeys(row["model"] for row in self))
        styles = ("-", "--", ":", "-.")
        lines = list(dict.fromkeys(tuple(str(row[name]) for name in others) for row in self))
        for place, model in enumerate(models):
            for k, line in enumerate(lines):
                rows = [r for r in self if r["model"] == model and tuple(str(r[n]) for n in others) == line]
                rows = sorted((r for r in rows if not r["failure"]), key=lambda r: r[x])
                words = ", ".join([label(model), *(f"{n} {v}" for n, v in zip(others, line))])
                # Shades tell the lines of one model apart once the four styles are used up.
                style = {"linestyle": styles[k % 4], "alpha": 1.0 / (1 + k // 4), "marker": "o", "markersize": 3}
                ax.plot(
                    [r[x] for r in rows],
                    [r["test_error"] for r in rows],
                    color=colour(model, place),
                    label=words,
                    **style,
                )
        values = [row[x] for row in self]
        if min(values) > 0 and max(values) / min(values) > 50:
            ax.set_xscale("log")
        ax.set(xlabel=x, ylabel="test error")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
        legend_above(ax)
        return ax


class ErmSweep(Shown, list[ErmResult]):
    """Results of `erm` along alpha: a list that shows itself.

    Parameters
    ----------
    results : iterable of ErmResult
        One per alpha.
    alphas : iterable of float
        n/d of each.

    Attributes
    ----------
    alphas : tuple of float
        n/d of each.
    """

    def __init__(self, results: Iterable[ErmResult] = (), alphas: Iterable[float] = ()) -> None:
        super().__init__(results)
        self.alphas = tuple(alphas)

    def __repr__(self) -> str:
        if not self:
            return "ErmSweep(no points)"
        ends = [f"test error {one.test_error:.4g} at alpha {alpha:g}" for one, alpha in zip(self, self.alphas)]
        return f"ErmSweep({self[0].model}, {len(self)} points: {ends[0]} ... {ends[-1]})"

    def frame(self) -> Any:
        """A pandas table, one row per alpha, with the columns of `ErmResult.to_row`."""
        import pandas as pd

        return pd.DataFrame([{"alpha": alpha, **one.to_row()} for one, alpha in zip(self, self.alphas)])

    def _shown_frame(self) -> Any:
        columns = ["alpha", "test_error", "standard_error", "auc", "train_loss", "train_error", "norm_w", "bias"]
        table = self.frame()
        return table[columns] if len(table) else table

    def plot(self, ax: Any = None) -> Any:
        """Test error, with two standard errors, and training error against alpha.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_for(ax)
        paint = colour(self[0].model) if self else None
        ax.errorbar(
            self.alphas,
            [one.test_error for one in self],
            [2 * one.standard_error for one in self],
            color=paint,
            marker="o",
            markersize=3,
            label="test error",
        )
        ax.plot(self.alphas, [one.train_error for one in self], "--", color=paint, label="training error")
        ax.set(xlabel="α = n/d", ylabel=f"error, {label(self[0].model)}" if self else "error")
        ax.set_ylim(bottom=0)
        ax.grid(alpha=0.3)
        legend_above(ax)
        return ax


def forecast_grid(
    task: Task,
    training: Training,
    model: str | Sequence[str] = "attention",
    *,
    over: Mapping[str, Iterable[float]],
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    **options: Any,
) -> ForecastGrid:
    """Forecasts on the grid spanned by `over`, one flat row per point and model.

    Points next to each other share their laws' random numbers and start from each other's solutions.

    Parameters
    ----------
    task, training : Task, Training
        What all points have in common.
    model : str or sequence of str
        Classifiers, as in `forecast`.
    over : mapping
        Names of Task or Training fields -> values; the last one varies fastest.
    progress : callable, optional
        Called with (done, total).
    workers : int
        Processes to spread the grid over (a script then needs the usual `if __name__ == "__main__":`); each takes a few
        seconds to start, which pays from some hundreds of points.
    **options
        Further options of `forecast`.

    Returns
    -------
    ForecastGrid
        A list of rows (dictionaries) that shows itself, in the order of models and points. A point that fails is a row with
        its message in `failure`; the others are unaffected.
    """
    models = (model,) if isinstance(model, str) else tuple(model)
    for name in models:
        classifier(name)
    names = list(over)
    for name in names:
        if name not in task.__dataclass_fields__ and name not in training.__dataclass_fields__:
            raise ValueError(
                f"over: no field {name!r} in Task ({', '.join(task.__dataclass_fields__)}) or "
                f"Training ({', '.join(training.__dataclass_fields__)})"
            )
    workers = whole_number("workers", workers, 1)
    points = [dict(zip(names, values)) for values in product(*over.values())]
    done, total = 0, len(points) * len(models)

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    if workers == 1:
        rows = [row for name in models for row in _rows(task, training, name, points, options, advance)]
        return ForecastGrid(rows, names)
    size = max(1, -(-len(points) // (workers * _BLOCKS_PER_WORKER)))
    blocks = [(name, points[i : i + size]) for name in models for i in range(0, len(points), size)]
    try:
        pickle.dumps((task, training, options))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"workers must be 1 with a loss or tokens that cannot be pickled: {error}") from None
    found: dict[int, list[dict[str, Any]]] = {}
    own = (shared_sources(),)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=own) as pool:
        jobs = {pool.submit(_rows, task, training, *block, options): i for i, block in enumerate(blocks)}
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            advance(len(found[jobs[job]]))
    return ForecastGrid((row for i in range(len(blocks)) for row in found[i]), names)


def _start_worker(sources: Sequence[str]) -> None:
    """One thread per process, and the user's files executed."""
    keep_to_one_thread()
    for source in sources:
        load_source(source)


def _rows(
    task: Task,
    training: Training,
    model: str,
    points: Sequence[Point],
    options: Mapping[str, Any],
    advance: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """Rows of neighbouring points of one model."""

    def solve(point: Point, start: WarmStart | None) -> tuple[dict[str, Any], ErmResult | None]:
        found = _row(task, training, model, point, start, options)
        advance(1)
        return found

    return sweep(points, solve, _accuracy(options).test_error)


def _accuracy(options: Mapping[str, Any]) -> Accuracy:
    return Accuracy.of(options.get("accuracy") or Accuracy())


def _row(task, training, model, point, start, options) -> tuple[dict[str, Any], ErmResult | None]:
    try:
        t = task.but(**{k: v for k, v in point.items() if k in task.__dataclass_fields__})
        tr = training.but(**{k: v for k, v in point.items() if k in training.__dataclass_fields__})
        if start is not None:
            options = {**options, "accuracy": replace(_accuracy(options), warm_start=start)}
        found = forecast(t, tr, model, **options)
    except (ValueError, ArithmeticError) as error:
        return {**point, "model": model, "test_error": float("nan"), "failure": str(error)}, None
    result = found.result if isinstance(found.result, ErmResult) else None  # several heads start afresh
    return {**point, **found.to_row(), "failure": ""}, result


def sweep(
    points: Iterable[Point],
    solve: Callable[[Point, WarmStart | None], tuple[Row, ErmResult | None]],
    accuracy: float = DEFAULT_ACCURACY,
) -> list[Row]:
    """Solve points in the order given, each from its neighbours' solutions.

    Parameters
    ----------
    points : iterable of mappings
        Names -> values, the same names in the same order for every point; the last one varies along a line.
    solve : callable
        (point, warm start or None) -> (anything wanted of it, the `ErmResult` behind it or None where there is none).
    accuracy : float
        That of the results, by which the draws to begin with are chosen.

    Returns
    -------
    list
        What `solve` gave first, point by point.
    """
    path = SweepPath(accuracy)
    rows = []
    for point in points:
        row, result = solve(point, path.start(point))
        path.add(point, result)
        rows.append(row)
    return rows


def erm_sweep(
    law: Law,
    alphas: Iterable[float],
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
) -> ErmSweep:
    """`erm` at each alpha = n/d, in the order given, every point starting from its neighbours' solutions.

    Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2 with an unpenalised bias, n = alpha d.

    Parameters
    ----------
    law : Law
        The law of (T, S, kappa).
    alphas : iterable of float
        n/d of the points.
    ridge : float
        lambda.
    loss : str or Loss
        l, by its name or as an object.
    accuracy : float
        Absolute error allowed on the test error.

    Returns
    -------
    ErmSweep
        A list of `ErmResult` that shows itself.
    """

    def solve(point: Point, start: WarmStart | None) -> tuple[ErmResult, ErmResult]:
        found = erm(law, point["alpha"], ridge, loss, accuracy=accuracy, warm_start=start)
        return found, found

    alphas = list(alphas)
    return ErmSweep(sweep([{"alpha": alpha} for alpha in alphas], solve, accuracy), alphas)


class SweepPath:
    """Solutions found so far on a grid, and where the next one is likely to lie.

    Along a line (all fields fixed but the last) the last solutions are extrapolated; a new line starts from the beginning of
    the one before it. The draws that a point took are what its neighbour begins with, or half of them if those would have
    sufficed.
    """

    def __init__(self, accuracy: float) -> None:
        self.accuracy = accuracy
        self.line: list[tuple[Point, WarmStart | None]] = []

    def start(self, point: Point) -> WarmStart | None:
        """The start for a point; None where there is nothing to go by."""
        if not self.line:
            return None
        if self._begins_a_line(point):
            return self.line[0][1]
        last = self.line[-1][1]
        return None if last is None else self._extrapolated(point, last)

    def add(self, point: Point, result: ErmResult | None) -> None:
        """Take note of a point's solution, None where there is none."""
        if self.line and self._begins_a_line(point):
            self.line.clear()
        self.line.append((point, None if result is None else self._from(result)))
        del self.line[1:-3]

    def _from(self, result: ErmResult) -> WarmStart | None:
        start = result.warm_start
        return replace(start, points=self._points(result)) if np.isfinite(start.x).all() else None

    def _points(self, result: ErmResult) -> int:
        least = SECOND_LEVEL * result.law.first_points
        if _AMPLE * SAFETY * result.standard_error >= self.accuracy:
            return result.points
        return result.points // 2 if result.points >= 2 * least else result.law.first_points

    def _extrapolated(self, point: Point, last: WarmStart) -> WarmStart:
        """The polynomial through up to three solutions, read off at a point that is not much farther ahead than their steps."""
        axis = list(point)[-1]
        known = [(p[axis], s.x) for p, s in self.line[-3:] if s is not None and s.x.shape == last.x.shape]
        if not all(isinstance(at, Real) for at in (point[axis], *(at for at, _ in known))):
            return last
        at = np.array([float(place) for place, _ in known])
        steps = np.abs(np.diff(at))
        if not len(steps) or not steps.all() or abs(point[axis] - at[-1]) > _FURTHEST * steps.min():
            return last
        weights = [np.prod((point[axis] - np.delete(at, i)) / (at[i] - np.delete(at, i))) for i in range(len(at))]
        return replace(last, x=sum(w * x for w, (_, x) in zip(weights, known)))

    def _begins_a_line(self, point: Point) -> bool:
        return any(point[name] != self.line[-1][0][name] for name in list(point)[:-1])
