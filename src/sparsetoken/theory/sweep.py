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

from .._core.validation import whole_number
from ..laws.law import SECOND_LEVEL, Law
from ..losses import Loss
from ..models import check_model
from ..task import Task
from ..training import Training
from .continuation import WarmStart
from .erm import ErmResult, erm
from .forecast import forecast
from .refinement import DEFAULT_ACCURACY, SAFETY

Point = Mapping[str, Any]
Row = TypeVar("Row")
_BLOCKS_PER_WORKER = 4  # more even work, at the price of one cold start per block
_FURTHEST = 2.0  # times the last step: how far ahead two solutions are extended
_AMPLE = 3  # a standard error so many times smaller than needed lets half the draws (less than twice the error) suffice


def forecast_grid(
    task: Task,
    training: Training,
    model: str | Sequence[str] = "attention",
    *,
    over: Mapping[str, Iterable[float]],
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    **options: Any,
) -> list[dict[str, Any]]:
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
    list of dict
        In the order of models and points. A point that fails is a row with its message in `failure`; the others are
        unaffected.
    """
    models = (model,) if isinstance(model, str) else tuple(model)
    for name in models:
        check_model(name)
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
        return [row for name in models for row in _rows(task, training, name, points, options, advance)]
    size = max(1, -(-len(points) // (workers * _BLOCKS_PER_WORKER)))
    blocks = [(name, points[i : i + size]) for name in models for i in range(0, len(points), size)]
    try:
        pickle.dumps((task, training, options))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"workers must be 1 with a loss or activation that cannot be pickled: {error}") from None
    found: dict[int, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker) as pool:
        jobs = {pool.submit(_rows, task, training, *block, options): i for i, block in enumerate(blocks)}
        for job in as_completed(jobs):
            found[jobs[job]] = job.result()
            advance(len(found[jobs[job]]))
    return [row for i in range(len(blocks)) for row in found[i]]


def _start_worker() -> None:
    """One thread per process: the processes are the parallelism."""
    import os

    import scipy.linalg  # noqa: F401  (loads SciPy's own BLAS, so that the limit reaches it)
    from threadpoolctl import threadpool_limits

    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    threadpool_limits(1)


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

    return sweep(points, solve, options.get("accuracy", DEFAULT_ACCURACY))


def _row(task, training, model, point, start, options) -> tuple[dict[str, Any], ErmResult | None]:
    try:
        t = task.but(**{k: v for k, v in point.items() if k in task.__dataclass_fields__})
        tr = training.but(**{k: v for k, v in point.items() if k in training.__dataclass_fields__})
        found = forecast(t, tr, model, warm_start=start, **options)
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
    path = Path(accuracy)
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
) -> list[ErmResult]:
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
    list of ErmResult
    """

    def solve(point: Point, start: WarmStart | None) -> tuple[ErmResult, ErmResult]:
        found = erm(law, point["alpha"], ridge, loss, accuracy=accuracy, warm_start=start)
        return found, found

    return sweep([{"alpha": alpha} for alpha in alphas], solve, accuracy)


class Path:
    """Solutions met on the way through a grid, and where the next one is likely to lie.

    Along a line (all fields fixed but the last) the last two solutions are extended; a new line starts from the beginning of
    the one before it. The draws that a point took are what its neighbour begins with, or half of them if those would have
    sufficed.

    Parameters
    ----------
    accuracy : float
        Absolute error allowed on the test error.
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
        before, reach = self.line[-2][1] if len(self.line) > 1 else None, self._reach(point)
        if last is None or before is None or reach == 0.0:
            return last
        return last.extended(before, reach)

    def add(self, point: Point, result: ErmResult | None) -> None:
        """Take note of a point's solution, None where there is none."""
        if self.line and self._begins_a_line(point):
            self.line.clear()
        self.line.append((point, None if result is None else self._from(result)))
        del self.line[1:-2]

    def _from(self, result: ErmResult) -> WarmStart | None:
        start = result.warm_start
        return replace(start, points=self._points(result)) if start.usable else None

    def _points(self, result: ErmResult) -> int:
        least = SECOND_LEVEL * result.law.first_points
        if _AMPLE * SAFETY * result.standard_error >= self.accuracy:
            return result.points
        return result.points // 2 if result.points >= 2 * least else result.law.first_points

    def _reach(self, point: Point) -> float:
        """The distance of the new point in units of the last step (at most twice that); 0 where there was none."""
        if len(self.line) == 1:
            return 0.0
        axis = list(point)[-1]
        here, there, further = self.line[-2][0][axis], self.line[-1][0][axis], point[axis]
        if not all(isinstance(value, Real) for value in (here, there, further)) or here == there:
            return 0.0
        return float(np.clip((further - there) / (there - here), -_FURTHEST, _FURTHEST))

    def _begins_a_line(self, point: Point) -> bool:
        return any(point[name] != self.line[-1][0][name] for name in list(point)[:-1])
