"""Forecasts over a grid of settings: neighbours start from each other's solutions, blocks of points run side by side."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from numbers import Real
from typing import Any

import numpy as np

from .._core.validation import whole_number
from ..laws.law import Law
from ..losses import Loss
from ..models import check_model
from ..task import Task
from ..training import Training
from .erm import DEFAULT_ACCURACY, SAFETY, SECOND_LEVEL, ErmResult, erm
from .forecast import forecast

Point = dict[str, Any]
_BLOCKS_A_WORKER = 4  # more even work, at the price of one cold start a block


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
    """Forecasts on the grid spanned by `over` (names of Task or Training fields -> values), one flat row a point and model.

    Points next to each other share their laws' random numbers and start from each other's solutions. `progress` is called
    with (done, total). A point that fails is a row with its message in `failure`; the others are unaffected. `workers` > 1
    spreads the grid over that many processes (a script then needs the usual `if __name__ == "__main__":`); each takes a
    few seconds to start, which pays from some hundreds of points. Further options go to `forecast`.
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
    size = max(1, -(-len(points) // (workers * _BLOCKS_A_WORKER)))
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
    """One thread a process: the processes are the parallelism."""
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
    path = _Path(options.get("accuracy", DEFAULT_ACCURACY))
    rows = []
    for point in points:
        row, result = _row(task, training, model, point, path.start(point), options)
        path.add(point, result)
        rows.append(row)
        advance(1)
    return rows


def erm_sweep(
    law: Law,
    alphas: Iterable[float],
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
) -> list[ErmResult]:
    """`erm` at each alpha = n/d, in the order given, every point starting from its neighbours' solutions."""
    path = _Path(accuracy)
    results = []
    for alpha in alphas:
        point = {"alpha": alpha}
        results.append(erm(law, alpha, ridge, loss, accuracy=accuracy, **path.start(point)))
        path.add(point, results[-1])
    return results


class _Path:
    """Solutions met on the way through a grid, and where the next one is likely to lie.

    Along a line (all fields fixed but the last) the last two solutions are extended; a new line starts from the beginning of
    the one before it. The draws a point took are what its neighbour begins with, or half of them if those had sufficed.
    """

    def __init__(self, accuracy: float) -> None:
        self.accuracy = accuracy
        self.line: list[tuple[Point, ErmResult | None]] = []

    def start(self, point: Point) -> dict[str, Any]:
        """`start`, `points` and `offset` for `erm`; nothing where there is nothing to go by."""
        if not self.line:
            return {}
        first, last = self.line[0][1], self.line[-1][1]
        if self._begins_a_line(point):
            return {} if first is None else self._from(first)
        if last is None:
            return {}
        found, before, reach = self._from(last), self.line[-2][1] if len(self.line) > 1 else None, self._reach(point)
        if before is not None and reach != 0.0:
            found["start"] = last.start + reach * (last.start - before.start)
            if last.offset is not None and before.offset is not None and last.points == before.points:
                found["offset"] = last.offset + reach * (last.offset - before.offset)
        return found

    def _from(self, result: ErmResult) -> dict[str, Any]:
        return {"start": result.start, "points": self._points(result), "offset": result.offset}

    def _reach(self, point: Point) -> float:
        """The distance of the new point in units of the last step (at most twice that); 0 where there was none."""
        if len(self.line) == 1:
            return 0.0
        axis = list(point)[-1]
        here, there, further = self.line[-2][0][axis], self.line[-1][0][axis], point[axis]
        if not all(isinstance(value, Real) for value in (here, there, further)) or here == there:
            return 0.0
        return float(np.clip((further - there) / (there - here), -2.0, 2.0))

    def _points(self, result: ErmResult) -> int:
        # Half the draws have less than twice the standard error, which is itself known to a fifth or so.
        ample = 3 * SAFETY * result.standard_error < self.accuracy
        least = SECOND_LEVEL * result.law.first_points
        if not ample:
            return result.points
        return result.points // 2 if result.points >= 2 * least else result.law.first_points

    def _begins_a_line(self, point: Point) -> bool:
        return any(point[name] != self.line[-1][0][name] for name in list(point)[:-1])

    def add(self, point: Point, result: ErmResult | None) -> None:
        if result is not None and not np.isfinite(result.start).all():
            result = None
        if self.line and self._begins_a_line(point):
            self.line.clear()
        self.line.append((point, result))
        del self.line[1:-2]


def _row(task, training, model, point, start, options) -> tuple[dict[str, Any], ErmResult | None]:
    try:
        t = task.but(**{k: v for k, v in point.items() if k in task.__dataclass_fields__})
        tr = training.but(**{k: v for k, v in point.items() if k in training.__dataclass_fields__})
        found = forecast(t, tr, model, **start, **options)
    except (ValueError, ArithmeticError) as error:
        return {**point, "model": model, "test_error": float("nan"), "failure": str(error)}, None
    return {**point, **found.to_row(), "failure": ""}, found.result
