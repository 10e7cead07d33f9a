"""What is possible when the direction is unknown and n = alpha d bags are given: Eq. (14) and Eq. (15) of docs/theory.md.

M and I are those of `channel`, for bags that differ those of `differing_bags`, with theta the mean strength. The map
m -> x/(1 + x) rises with m, which certifies the search: where its value at the low end of an interval lies above the high end,
the interval holds no fixed point. Every reported fixed point has been evaluated with M itself, never with a table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import expit, logit

from ..._core.arrays import ROUNDING
from ..._core.averages import standard_error
from ..._core.validation import real_number
from ...plotting.show import axes_for, draw_shares
from ...plotting.style import colour, label
from ...results import Result
from ...task import Task
from ..accuracy import AccuracyError
from .channel import Channel, channel, clear_of_noise
from .differing_bags import differing_channel
from .oracle import bayes_error

RESIDUAL = 1e-7  # |T(u) - u|/u allowed at a fixed point u = theta sqrt(m)
_PLACES = 24  # nodes of the first intervals, and of the table of M


@dataclass(frozen=True, repr=False)
class BayesLimit(Result):
    """The limits at alpha = n/d bags.

    Attributes
    ----------
    overlap, test_error : float
        Squared cosine of the best possible estimate of xi, and the test error of the best possible learner, counted against the
        true label. (Counted against labels flipped with probability eps it is eps + (1 - 2 eps) times that.)
    reachable_overlap, reachable_test_error : float
        The same of message passing, the best known fast learner.
    hard : bool
        Whether they differ.
    errors : mapping
        Standard errors of the four numbers (0 where a number is exact).
    residual : float
        Largest relative residual of the fixed points behind them.
    """

    overlap: float
    test_error: float
    reachable_overlap: float
    reachable_test_error: float
    hard: bool
    errors: Mapping[str, float] = field(default_factory=dict)
    residual: float = 0.0

    def _words(self) -> str:
        reached = f"test error {self.test_error:.4g}, squared cosine {self.overlap:.4g}"
        if not self.hard:
            return f"{reached}; message passing reaches it"
        return f"{reached}; hard: message passing reaches {self.reachable_test_error:.4g}, {self.reachable_overlap:.4g}"

    def plot(self, ax: Any = None) -> Any:
        """The two test errors: the best possible one, and message passing's."""
        values = {"bayes": "test_error", "message_passing": "reachable_test_error"}
        ax = draw_shares(
            axes_for(ax, (6.0, 2.2)),
            [label(name) for name in values],
            [getattr(self, field) for field in values.values()],
            [self.errors.get(field, 0.0) for field in values.values()],
            [colour(name) for name in values],
        )
        ax.set_xlabel("test error, with two standard errors")
        return ax


@lru_cache(maxsize=64)
def _mass_table(drawn: Channel, highest: float) -> Callable[[Any], Any]:
    """M as a quick function of the root of s, from its interpolated log-odds: to find the fixed points, not to report them."""
    nodes = highest * np.linspace(0.0, 1.0, _PLACES)
    share = [drawn.rough_mass(u) / drawn.most for u in nodes]
    odds = logit(np.clip(share, 1e-300, 1.0 - ROUNDING))
    rule = PchipInterpolator(nodes, np.maximum.accumulate(odds))
    return lambda root: drawn.most * expit(rule(np.minimum(root, highest)))


class _Map:
    """T(u) = theta sqrt(x/(1 + x)) in u = theta sqrt(m): the fixed points' map, direct or from the table."""

    def __init__(self, task: Task, alpha: float):
        self.task, self.alpha, self.theta = task, alpha, task.mean_strength
        self.gain = alpha * task.prevalence * self.theta**2  # x = gain * M
        if task.differing is None:
            length, sparsity, *_ = task.kinds[0]
            self.channel: Channel = channel(length, sparsity)
            highest = clear_of_noise(length)
        else:
            self.channel, highest = differing_channel(task), self.theta
        self.table = None if self.channel.exact else _mass_table(self.channel, highest)
        self.parts = 2 if self.table is None else 16  # that intervals are split into

    def image(self, mass: Any) -> Any:
        x = self.gain * mass
        return self.theta * np.sqrt(x / (1.0 + x))

    def quick(self, u: np.ndarray) -> np.ndarray:
        """T at several u: directly, or from the table."""
        if self.table is not None:
            return self.image(self.table(u))
        return np.array([self.direct(at) for at in u.tolist()])

    def direct(self, u: float) -> float:
        return float(self.image(self.channel.mass(u).mean()))

    def replicates(self, u: float) -> np.ndarray:
        return self.image(self.channel.mass(u))

    def slope(self, u: float) -> float:
        """T'(u), by differences of the quick map."""
        h = 1e-4 * u
        low, high = self.quick(np.array([u - h, u + h]))
        return float(high - low) / (2 * h)

    def crossings(self) -> list[tuple[float, float]]:
        """Narrow intervals that hold a stable fixed point (T(u) - u falls through zero), in rising order."""
        # Between the images of the least and the largest M. Equal ratios: while u is small nothing but the scale changes.
        low, high = (1 - 1e-6) * self.image(self.channel.least), (1 + 1e-6) * self.image(self.channel.most)
        u = low * (high / low) ** np.linspace(0.0, 1.0, _PLACES)
        T = self.quick(u)
        a, b, Ta, Tb = u[:-1], u[1:], T[:-1], T[1:]
        share = np.arange(self.parts + 1) / self.parts
        intervals: list[tuple[float, float]] = []
        while len(a):
            possible = (Ta <= b) & (Tb >= a)
            narrow = b - a <= 2e-4 * b  # not split further
            stable = possible & narrow & (Ta > a) & (Tb <= b)
            intervals += zip(a[stable].tolist(), b[stable].tolist())
            a, b, Ta, Tb = (v[possible & ~narrow] for v in (a, b, Ta, Tb))
            ends = a[:, None] + (b - a)[:, None] * share
            inner = self.quick(ends[:, 1:-1].ravel()).reshape(len(a), -1) if len(a) else ends[:, 1:-1]
            values = np.hstack([Ta[:, None], inner, Tb[:, None]])
            a, b, Ta, Tb = ends[:, :-1].ravel(), ends[:, 1:].ravel(), values[:, :-1].ravel(), values[:, 1:].ravel()
        return sorted(intervals)

    def polished(self, a: float, b: float) -> float:
        """The fixed point near [a, b] on M itself."""
        if self.channel.exact:

            def gap(u):
                return self.direct(u) - u

            return float(brentq(gap, a, b, xtol=1e-13 * b, rtol=1e-13)) if gap(b) < 0 else b
        u = 0.5 * (a + b)
        value = self.direct(u)
        slope = min(self.slope(u), 0.99)
        for _ in range(60):  # a chord step, at most a tenth of the way; plain iteration is its slowest case
            if abs(value - u) <= 0.1 * RESIDUAL * u:
                break
            following = float(np.clip(u + (value - u) / (1.0 - slope), 0.9 * u, 1.1 * u))
            image = self.direct(following)
            if following != u:
                slope = float(np.clip((image - value) / (following - u), -1.0, 0.99))
            u, value = following, image
        return u

    def energy(self, u: float) -> float:
        """i(m), which is smallest at the optimum."""
        M = float(self.channel.mass(u).mean())
        x, m = self.gain * M, (u / self.theta) ** 2
        weight = self.alpha * self.task.prevalence
        hidden = 0.5 * self.gain * (1.0 - m) * (self.channel.most - M)
        return float(0.5 * np.log1p(x) + weight * self.channel.information(u) + hidden)


def bayes_limit(task: Task, alpha: float) -> BayesLimit:
    """Best possible and best reachable overlap and test error at alpha = n/d bags.

    Eq. (14) and Eq. (15) of docs/theory.md. Raises an `AccuracyError` where a fixed point cannot be found within tolerance.

    Parameters
    ----------
    task, alpha : Task, float
        What the data is, and n/d, positive.
    """
    Task.require(task)
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    if task.mean_strength == 0:
        e = min(task.prevalence, 1 - task.prevalence)
        names = ("overlap", "test_error", "reachable_overlap", "reachable_test_error")
        return BayesLimit(0.0, e, 0.0, e, False, dict.fromkeys(names, 0.0))
    search = _Map(task, alpha)
    points = [search.polished(a, b) for a, b in search.crossings()]
    if not points:
        raise AccuracyError(
            f"no fixed point of the Bayes limit was found at length {task.length}, strength {task.strength}, alpha {alpha:g}"
        )
    reachable = points[0]
    best = min(points, key=search.energy) if len(points) > 1 else reachable
    hard = (best**2 - reachable**2) / search.theta**2 > 1e-3
    optimum, errors, residual = _described(search, best if hard else reachable)
    fast, fast_errors, off = _described(search, reachable) if hard else (optimum, errors, residual)
    return BayesLimit(
        **optimum,
        **{f"reachable_{name}": value for name, value in fast.items()},
        hard=bool(hard),
        errors=errors | {f"reachable_{name}": error for name, error in fast_errors.items()},
        residual=max(residual, off),
    )


def _described(search: _Map, u: float) -> tuple[dict[str, float], dict[str, float], float]:
    """Overlap and test error at a fixed point, their standard errors, and its residual."""
    task, theta = search.task, search.theta
    off = abs(search.direct(u) / u - 1.0)
    if not off <= RESIDUAL:
        raise AccuracyError(
            f"the Bayes limit's fixed point is found only to {off:.1e} at length {task.length}, sparsity {task.sparsity}, "
            f"strength {task.strength}, alpha {search.alpha:g}: this lies at the edge of a phase, move one of them a little"
        )
    u_error = 0.0
    if not search.channel.exact:  # the replicates' maps differ by delta there, their roots by delta/(1 - slope)
        u_error = standard_error(search.replicates(u), alone=0.0) / max(1.0 - search.slope(u), 1e-3)
    error, sampling = bayes_error(task, u)
    if u_error > 0:  # how the error moves with u: two digits are enough, and few draws
        up, down = (bayes_error(task, side * u, 64)[0] for side in (1.01, 0.99))
        sampling = float(np.hypot(sampling, (up - down) / (0.02 * u) * u_error))
    values = {"overlap": min((u / theta) ** 2, 1.0), "test_error": error}
    return values, {"overlap": 2 * u * u_error / theta**2, "test_error": sampling}, off
