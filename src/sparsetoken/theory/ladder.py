"""What learning needs: the strength, or the samples, at which each method reaches a cosine or a test error.

The powers of L are those of Eq. (34), Eq. (35) and Eq. (37) of docs/theory.md and of the text there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._core.root_finding import ALWAYS, BEYOND, FOUND, falling_root
from .._core.validation import real_number, rejection
from ..classifiers import check_model
from ..plotting.show import axes_for, legend_above
from ..plotting.style import REFERENCE, colour, label
from ..results import Result
from ..task import Task
from ..training import Training, number_of_products
from .alignment import alignment
from .bayes.oracle import bayes_error, hardmax_error, pooled_error
from .forecast import forecast
from .recovery import method_of, recovery

METHODS = (
    *("pooled", "products:1", "products:2", "products:3", "eigenvector", "positive_eigenvector"),
    *("message_passing", "bayes"),
)
SEEN_BY_LENGTH = (
    *("trained:vectorized", "trained:pooled", "trained:attention", "products:1", "products:2", "eigenvector"),
    *("positive_eigenvector", "message_passing", "bayes", "known:pooled", "known:hardmax", "known:bayes"),
)
RANGES = {"strength": (1e-6, 1e9), "alpha": (1e-9, 1e12)}  # range in which they are sought
ACCURACY = 1e-3  # of a strength or sample size, relative, and of a trained classifier's error, which leaves about as much in it
_KNOWN: dict[str, Callable[[Task], float]] = {
    "pooled": pooled_error,
    "hardmax": hardmax_error,
    "bayes": lambda task: bayes_error(task)[0],
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Ladder(Result):
    """The strengths or samples per dimension that methods need, along one field of the task.

    Attributes
    ----------
    find, target : str
        What is needed, "strength" or "alpha", and for what: "cosine 0.5" or "test error 0.1".
    over, values : str, ndarray
        The field that varies, such as "length", and its values.
    needed, source : mapping
        Method -> what it needs at each of the values (infinite where nothing suffices, 0 where nothing is needed), and what the
        numbers come from.
    """

    find: str
    over: str
    values: np.ndarray
    target: str
    needed: Mapping[str, np.ndarray]
    source: Mapping[str, str]

    def exponents(self, method: str) -> np.ndarray:
        """Slopes of log needed on log value between neighbouring values."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.diff(np.log(self.needed[method])) / np.diff(np.log(self.values))

    def frame(self) -> Any:
        """A tidy pandas table: a row per method and value, with the exponent from the previous value and the source."""
        import pandas as pd

        parts = [
            pd.DataFrame(
                {
                    "method": method,
                    "label": label(method),
                    self.over: self.values,
                    self.find: needed,
                    "exponent": [math.nan, *self.exponents(method)],
                    "source": self.source[method],
                }
            )
            for method, needed in self.needed.items()
        ]
        return pd.concat(parts, ignore_index=True)

    def plot(self, ax: Any = None) -> Any:
        """What each method needs on logarithmic axes; dashed, the exponents of long bags where they are known."""
        ax = axes_for(ax)
        for place, (method, needed) in enumerate(self.needed.items()):
            shown = np.isfinite(needed) & (needed > 0)
            style = {"trained": "-.", "known": ":"}.get(method.partition(":")[0], "-")
            ax.loglog(self.values[shown], needed[shown], style, color=colour(method, place), label=label(method))
            guide = self._guide(method)
            if guide is not None and shown[-1]:
                line = needed[-1] * (self.values / self.values[-1]) ** guide
                ax.loglog(self.values, line, color=REFERENCE, linestyle="--", linewidth=0.7)
        ax.set(xlabel=self.over, ylabel=f"{self.find} for {self.target}")
        legend_above(ax)
        return ax

    def _guide(self, method: str) -> float | None:
        """The exponent of long bags: of a strength along the length only."""
        if (self.find, self.over) != ("strength", "length") or method.startswith(("known", "trained")):
            return None
        return long_bag_exponent(method, self.target.startswith("cosine"))

    def _words(self) -> str:
        ends = f"{self.over} {self.values[0]:g} to {self.values[-1]:g}"
        listed = (f"{m} {v[0]:.4g} to {v[-1]:.4g}" for m, v in self.needed.items())
        return f"{self.find} for {self.target}, {ends}: {', '.join(listed)}"


def long_bag_exponent(method: str, cosine: bool = True) -> float | None:
    """The power of L with which the strength grows at fixed alpha; None for the information limit, which is logarithmic."""
    if method == "pooled":
        return 0.5
    if method == "bayes":
        return None
    k = number_of_products(method.removeprefix("fresh_")) if cosine else None
    return 0.25 if k is None else (k + 1) / (4 * k + 2)


def _trained(task: Task, alpha: float, model: str, training: Training) -> Any:
    share = alpha / (training.alpha0 + training.alpha1)
    chosen = training.but(alpha0=share * training.alpha0, alpha1=share * training.alpha1, equal_samples=True)
    if check_model(model).has_query and (k := alignment(task, chosen).sharpness) > 0:
        # The query's rate such that k = sqrt(2 log L), the size of the largest noise score.
        chosen = chosen.but(eta_q=chosen.eta_q * math.sqrt(2 * math.log(task.longest)) / k)
    return forecast(task, chosen, model, accuracy=ACCURACY, with_capacity=False)


class _Goal(NamedTuple):
    """The target, a cosine or a test error, and the training of trained classifiers."""

    measure: str
    value: float
    training: Training

    def gap(self, task: Task, alpha: float, method: str) -> float:
        """A method's distance from the target: positive until it is reached."""
        if self.measure == "cosine":
            return self.value - self._cosine(task, alpha, method)
        return self._error(task, alpha, method) - self.value

    def _cosine(self, task: Task, alpha: float, method: str) -> float:
        name, _, rest = method.partition(":")
        if name == "trained":
            cosine = _trained(task, alpha, rest, self.training).cosine
            return cosine.get("q", cosine["w"])
        return 1.0 if name == "known" else float(method_of(method).squared_cosine(task, alpha)) ** 0.5

    def _error(self, task: Task, alpha: float, method: str) -> float:
        name, _, rest = method.partition(":")
        if name == "trained":
            return float(_trained(task, alpha, rest, self.training).test_error)
        return _KNOWN[rest](task) if name == "known" else recovery(task, alpha, method).test_error


def _goal(task: Task, cosine: float | None, test_error: float | None, training: Training | None) -> _Goal:
    if cosine is not None and test_error is not None:
        raise ValueError("give either cosine or test_error, not both")
    if test_error is None:
        value = real_number("cosine", 0.5 if cosine is None else cosine, 0.0, 1.0, open_low=True, open_high=True)
        return _Goal("cosine", value, training or Training())
    value = real_number("test_error", test_error, 0.0, min(task.prevalence, 1 - task.prevalence), open_low=True)
    return _Goal("test error", value, training or Training())


def _source(method: str) -> str:
    """What the method's numbers come from; a ValueError where there is no such method."""
    name, _, rest = method.partition(":")
    if name == "trained":
        return f"forecast of {check_model(rest).name}"
    if name == "known":
        if rest not in _KNOWN:
            raise rejection("method", method, f"one of {', '.join(f'known:{known}' for known in _KNOWN)}")
        return "sampled" if rest == "bayes" else "closed form"
    return method_of(method).source


def ladder(
    task: Task,
    alpha: float = 4.0,
    methods: Sequence[str] = METHODS,
    *,
    over: Mapping[str, Iterable[float]] | None = None,
    find: str = "strength",
    cosine: float | None = None,
    test_error: float | None = None,
    training: Training | None = None,
) -> Ladder:
    """The strength (or alpha = n/d) at which each method reaches a cosine or a test error, along a field of the task.

    Eq. (35) and Eq. (37) of docs/theory.md are its limits for long bags.

    Parameters
    ----------
    task : Task
        What all points have in common.
    alpha : float
        n/d of all bags together; with find="alpha", the first guess.
    methods : sequence of str
        Those of `recovery`; "trained:attention" and so on for the forecast of a classifier, its query with the sharpness
        k = sqrt(2 log L); "known:pooled", "known:hardmax" and "known:bayes" for a known signal.
    over : mapping, optional
        One field of the task, or "alpha", -> its values; by default lengths of 100 to a million.
    find : {"strength", "alpha"}
        What is sought.
    cosine, test_error : float, optional
        The target: one of them, a cosine of 1/2 by default.
    training : Training, optional
        Of the trained classifiers: D0's share of the bags, rates, ridge and loss.
    """
    Task.require(task)
    if find not in RANGES:
        raise rejection("find", find, f"one of {', '.join(RANGES)}")
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    goal = _goal(task, cosine, test_error, training)
    field, values = _axis(over, find)
    sources = {method: _source(method) for method in methods}
    needed = {method: _along(task, alpha, method, field, values, find, goal) for method in methods}
    target = f"{goal.measure} {goal.value:g}"
    return Ladder(find=find, over=field, values=values, target=target, needed=needed, source=sources)


def strengths_by_length(
    task: Task,
    training: Training,
    lengths: Iterable[int],
    test_error: float = 0.1,
    methods: Sequence[str] = SEEN_BY_LENGTH,
) -> Ladder:
    """The strength needed against the length for everything in one picture; `frame()` is one tidy table.

    Parameters
    ----------
    task, training
        As in `ladder`; all methods have the training's alpha0 + alpha1 bags per dimension.
    lengths : iterable of int
        L.
    test_error, methods
        As in `ladder`.
    """
    alpha = training.alpha0 + training.alpha1
    return ladder(task, alpha, methods, over={"length": lengths}, test_error=test_error, training=training)


def _axis(over: Mapping[str, Iterable[float]] | None, find: str) -> tuple[str, np.ndarray]:
    """The field and its values."""
    given = {"length": [10**i for i in range(2, 7)]} if over is None else over
    allowed = [name for name in ("length", "sparsity", "strength", "prevalence", "alpha") if name != find]
    if len(given) != 1 or next(iter(given)) not in allowed:
        raise rejection("over", list(given), f"one of {', '.join(allowed)} with its values")
    field, values = next(iter(given.items()))
    return field, np.array([real_number(field, value, 0.0, open_low=True) for value in values])


def _along(task: Task, alpha: float, method: str, field: str, values: np.ndarray, find: str, goal: _Goal) -> np.ndarray:
    """What one method needs at each value; each search starts at the extrapolation of the previous answers."""
    found: list[float] = []
    first = alpha if find == "alpha" else (task.mean_strength or 1.0)
    for i, value in enumerate(values.tolist()):
        bags = task if field == "alpha" else task.but(**{field: value})
        samples = value if field == "alpha" else alpha

        def gap(x: float, bags: Task = bags, samples: float = samples) -> float:
            at = (bags.at_strength(x), samples) if find == "strength" else (bags, x)
            return goal.gap(*at, method)

        status, needed = falling_root(gap, _ahead(values[: i + 1], found, first), *RANGES[find], precision=ACCURACY)
        found.append({FOUND: needed, BEYOND: math.inf, ALWAYS: 0.0}[status])
    return np.array(found)


def _ahead(values: np.ndarray, found: list[float], first: float) -> float:
    """The line through the last two answers on logarithmic axes, read off at the next value."""
    known = [x for x in found[-2:] if 0 < x < math.inf]
    if len(known) < 2:
        return known[-1] if known else first
    low, high, here = np.log(values[-3:])
    return known[1] * (known[1] / known[0]) ** float((here - high) / (high - low)) if high != low else known[1]
