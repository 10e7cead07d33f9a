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
from ..plotting.style import AXES, colour, label
from ..task import Task
from ..training import Training
from .accuracy import DEFAULT_ACCURACY, SAFETY, Accuracy, WarmStart
from .fixed_point.erm import erm
from .fixed_point.plain import ErmResult
from .forecast import forecast

Point = Mapping[str, Any]
Row = TypeVar("Row")


class ForecastGrid(Shown, list[dict[str, Any]]):
    """Forecasts over a grid: a list of rows (dictionaries) with a table and a plot.

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
        """The test error against the first field that holds numbers: one line per model and value of the others."""
        numeric = [name for name in self.over if all(isinstance(row[name], Real) for row in self)]
        if not numeric or not self:
            raise ValueError("a plot needs rows over a field that holds numbers")
        # The field with the most values makes the better axis; among equals the first.
        x = max(numeric, key=lambda name: len({row[name] for row in self}))
        others = [name for name in self.over if name != x]
        lines: dict[str, dict[tuple[str, ...], list[tuple[float, float]]]] = {}
        for row in self:
            points = lines.setdefault(row["model"], {}).setdefault(tuple(str(row[name]) for name in others), [])
            if not row["failure"]:
                points.append((row[x], row["test_error"]))
        ax = axes_for(ax)
        for place, (model, of_model) in enumerate(lines.items()):
            for k, (line, points) in enumerate(of_model.items()):
                name = ", ".join([label(model), *(f"{n} {v}" for n, v in zip(others, line))])
                # Shades tell the lines of one model apart once the four styles are used up.
                style, shade = ("-", "--", ":", "-.")[k % 4], 1.0 / (1 + k // 4)
                xs, errors = np.reshape(sorted(points), (-1, 2)).T
                ax.plot(
                    xs, errors, style, marker="o", markersize=3, alpha=shade, color=colour(model, place), label=name
                )
        values = [row[x] for row in self]
        if min(values) > 0 and max(values) / min(values) > 50:
            ax.set_xscale("log")
        ax.set(xlabel=AXES.get(x, x.replace("_", " ")), ylabel="test error")
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
        Rows in the order of models and points. A point that fails is a row with its message in `failure`.
    """
    models = (model,) if isinstance(model, str) else tuple(model)
    for name in models:
        classifier(name)
    Task.require(task)
    Training.require(training)
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
    size = max(1, -(-len(points) // (workers * 4)))  # more even work, at the price of one cold start per block
    blocks = [(name, points[i : i + size]) for name in models for i in range(0, len(points), size)]
    try:
        pickle.dumps((task, training, options))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"workers must be 1 with a loss or tokens that cannot be pickled: {error}") from None
    rows_of_block: dict[int, list[dict[str, Any]]] = {}
    sources = (shared_sources(),)
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=sources
    ) as pool:
        jobs = {pool.submit(_rows, task, training, *block, options): i for i, block in enumerate(blocks)}
        for job in as_completed(jobs):
            rows_of_block[jobs[job]] = job.result()
            advance(len(rows_of_block[jobs[job]]))
    return ForecastGrid((row for i in range(len(blocks)) for row in rows_of_block[i]), names)


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
    wanted = Accuracy.of(options.get("accuracy") or Accuracy())

    def solve(point: Point, start: WarmStart | None) -> tuple[dict[str, Any], ErmResult | None]:
        arguments = dict(options) if start is None else {**options, "accuracy": replace(wanted, warm_start=start)}
        try:
            t, tr = (
                whole.but(**{name: value for name, value in point.items() if name in whole.__dataclass_fields__})
                for whole in (task, training)
            )
            limit = forecast(t, tr, model, **arguments)
        except (ValueError, ArithmeticError) as error:
            return {**point, "model": model, "test_error": float("nan"), "failure": str(error)}, None
        finally:
            advance(1)
        result = limit.result if isinstance(limit.result, ErmResult) else None  # several heads start afresh
        return {**point, **limit.to_row(), "failure": ""}, result

    return sweep(points, solve, wanted.test_error)


def sweep(
    points: Iterable[Point],
    solve: Callable[[Point, WarmStart | None], tuple[Row, ErmResult | None]],
    accuracy: float = DEFAULT_ACCURACY,
) -> list[Row]:
    """Solve points in order, each from the previous solution; a new line starts from the first solution of the last line.

    Parameters
    ----------
    points : iterable of mappings
        Names -> values, the same names in the same order for every point; the last one varies along a line.
    solve : callable
        (point, warm start or None) -> (any result, the `ErmResult` behind it or None).
    accuracy : float
        The accuracy of the results, from which the first number of draws is chosen.

    """
    rows: list[Row] = []
    line, first, last = None, None, None  # the line's fixed values, and the starts that its first and last points give
    for point in points:
        begins = line != (line := list(point.values())[:-1])
        row, result = solve(point, first if begins else last)
        last = None if result is None else next_start(result, accuracy)
        first = last if begins else first
        rows.append(row)
    return rows


def next_start(result: ErmResult, accuracy: float) -> WarmStart | None:
    """A start for a neighbour, with the draws that the result took or fewer if those would have sufficed; None where V is
    infinite."""
    points = result.points
    if 3 * SAFETY * result.standard_error < accuracy:  # half the draws make less than twice the error
        points = points // 2 if points >= 2 * SECOND_LEVEL * result.law.first_points else result.law.first_points
    return WarmStart(result.fixed_point, points) if np.isfinite(result.fixed_point).all() else None


def erm_sweep(
    law: Law,
    alphas: Iterable[float],
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
) -> list[ErmResult]:
    """`erm` at each alpha = n/d, in the order given, every point starting from its neighbours' solutions.

    Parameters
    ----------
    law, alphas, ridge, loss, accuracy
        As in `erm`; `alphas` are the points' n/d.
    """

    def solve(point: Point, start: WarmStart | None) -> tuple[ErmResult, ErmResult]:
        return (erm(law, point["alpha"], ridge, loss, accuracy=accuracy, warm_start=start),) * 2

    return sweep([{"alpha": alpha} for alpha in alphas], solve, accuracy)
