"""The best settings of each learner at a given number of samples, by the theory.

The attention classifier's limit depends on its training through four numbers: the query's cosine gamma, the sharpness k, and
the readout's alpha1 and ridge. So for every share of D0 the two learning rates of the first step are those that maximise
gamma (a closed form), the rate of the query's step is the one that gives k, and what is left,

    min over share, k, ridge of  loss(share, k, ridge),

is minimised by L-BFGS-B on log loss from several starts, in z = (logit share, log k, log ridge), on a fixed set of draws,
where the loss is smooth and its slopes are differences of neighbouring fixed points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit

from ..losses import Loss
from ..task import Task
from ..theory import (
    ConvergenceError,
    ErmResult,
    Law,
    WarmStart,
    alignment,
    attention_law,
    erm,
    pooled_law,
    vectorized_law,
)
from ..training import Training
from .criterion import Criterion, Measured

POINTS = 128  # draws a replicate and class while settings are sought
ACCURACY = 5e-4  # of the test error in the forecasts that are reported
SHARES, SHARPNESSES, RIDGES = (0.02, 0.98), (0.05, 30.0), (1e-5, 10.0)
_STARTS = [(share, k, 0.03) for share in (0.2, 0.5) for k in (0.8, 2.0, 5.0)]
_STEP = 1e-3  # of the differences, in z


@dataclass(frozen=True)
class Settings:
    """A trained learner's settings and what they lead to.

    training       the `Training` to use (attention), or the readout's part of it (alpha1 = all samples)
    share          n0/(n0 + n1), of the samples the two gradient steps get (0 for learners without a query)
    sharpness      k = beta ||q2||
    cos_q          gamma, the query's cosine with the signal
    measured       the criterion's loss and its standard error
    point          where the search ended, a start for neighbouring problems
    evaluations, failures   fixed points computed on the way, and how many did not converge
    """

    model: str
    training: Training
    share: float
    sharpness: float
    cos_q: float
    measured: Measured
    point: tuple[float, ...] = ()
    evaluations: int = 0
    failures: int = 0
    start: WarmStart | None = field(default=None, repr=False, compare=False)

    @property
    def loss(self) -> float:
        return self.measured.loss


@lru_cache(maxsize=4096)
def best_rates(task: Task, loss: str | Loss, alpha0: float) -> tuple[float, float, float]:
    """(eta_w, eta_b, gamma): the first step's rates that give the largest cosine of the query with the signal."""

    def cosine(log_rates) -> float:
        eta_w, eta_b = np.exp(log_rates)
        return alignment(task, Training(loss, alpha0=alpha0, eta_w=float(eta_w), eta_b=float(eta_b))).query_cosine

    grid = [(np.log(w), b) for w in (1.0,) for b in np.linspace(np.log(0.3), np.log(40.0), 8)]
    first = max(grid, key=cosine)
    bounds = [(np.log(0.1), np.log(30.0)), (np.log(0.05), np.log(100.0))]
    options = {"xatol": 1e-3, "fatol": 1e-8, "maxfev": 120}
    found = minimize(lambda x: -cosine(x), first, method="Nelder-Mead", bounds=bounds, options=options)
    eta_w, eta_b = (float(rate) for rate in np.exp(found.x))
    return eta_w, eta_b, -float(found.fun)


def _fixed(law: Law) -> Law:
    """The law on a fixed number of draws: quick, and smooth in its parameters."""
    if not law.refinable:
        return law
    return replace(law, make_population=lambda _: law.make_population(POINTS), first_points=0)


class _Search:
    """The losses met on the way, each fixed point started from the last one that was found."""

    def __init__(self, task: Task, alpha: float, loss: str | Loss, criterion: Criterion, start=None):
        self.task, self.alpha, self.loss, self.criterion = task, alpha, loss, criterion
        self.start = start
        self.evaluations = self.failures = 0

    def value(self, z: Iterable[float]) -> float:
        """Loss at z; twice that of chance where there is no fixed point, which no search ends at."""
        training, gamma, k = self.training(z)
        law = _fixed(attention_law(self.task, gamma, k))
        self.evaluations += 1
        try:
            result = erm(law, training.alpha1, training.ridge, self.loss, accuracy=1.0, warm_start=self.start)
        except ConvergenceError:
            self.failures += 1
            return 2 * self.criterion.chance(self.task)
        self.start = WarmStart(result.fixed_point)
        return max(self.criterion.of_readout(result).loss, 1e-12)

    def training(self, z: Iterable[float]) -> tuple[Training, float, float]:
        """The training that z = (logit share, log k, log ridge) stands for, its gamma and k."""
        logit_share, log_k, log_ridge = (float(v) for v in z)
        share, k, ridge = float(expit(logit_share)), math.exp(log_k), math.exp(log_ridge)
        alpha0 = share * self.alpha
        eta_w, eta_b, gamma = best_rates(self.task, self.loss, alpha0)
        unit = Training(self.loss, alpha0, self.alpha - alpha0, eta_w, eta_b, eta_q=1.0, beta=1.0, ridge=ridge)
        per_rate = alignment(self.task, unit).norm["q"]
        return unit.but(eta_q=k / per_rate if per_rate > 0 else 0.0), gamma, k

    def log_value_and_slope(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        here = math.log(self.value(z))
        slope = np.array([math.log(self.value(z + _STEP * e)) - here for e in np.eye(3)]) / _STEP
        return here, slope


_BOUNDS = [tuple(logit(SHARES)), tuple(np.log(SHARPNESSES)), tuple(np.log(RIDGES))]


def tune_attention(
    task: Task,
    alpha: float,
    criterion: Criterion,
    loss: str | Loss = "logistic",
    near: Settings | None = None,
    accuracy: float | None = ACCURACY,
    starts: int = 2,
) -> Settings:
    """The staged attention classifier's best settings with alpha = n/d samples in all.

    From the best `starts` of a small grid, to which the settings of a neighbouring problem (`near`) are added; the search
    is shorter then. `accuracy` is that of the test error in the final forecast; None leaves the search's own coarse value.
    """
    search = _Search(task, alpha, loss, criterion, None if near is None else near.start)
    points = [np.array([logit(s), math.log(k), math.log(ridge)]) for s, k, ridge in _STARTS]
    if near is not None:
        points.append(np.asarray(near.point))
    firsts = [points[i] for i in np.argsort([search.value(p) for p in points])[:starts]]
    options = {"maxiter": 40 if near is None else 8, "ftol": 3e-4, "gtol": 1e-3}
    ends = [
        minimize(search.log_value_and_slope, z, jac=True, method="L-BFGS-B", bounds=_BOUNDS, options=options)
        for z in firsts
    ]
    best = min(ends, key=lambda end: end.fun)
    training, gamma, k = search.training(best.x)
    if accuracy is None:
        measured = Measured(math.exp(best.fun), math.nan)
    else:
        result = erm(attention_law(task, gamma, k), training.alpha1, training.ridge, loss, accuracy=accuracy)
        measured = criterion.of_readout(result)
    share = training.alpha0 / alpha
    return Settings(
        "attention", training, share, k, gamma, measured, tuple(map(float, best.x)), search.evaluations, search.failures,
        search.start,
    )  # fmt: skip


def tune_linear(model: str, task: Task, alpha: float, criterion: Criterion, loss: str | Loss = "logistic") -> Settings:
    """The best ridge of the pooled or vectorized classifier with all alpha = n/d samples."""
    law = pooled_law(task) if model == "pooled" else vectorized_law(task)
    memory: dict[str, Any] = {"start": None, "count": 0}

    def solve(log_ridge: float) -> ErmResult:
        result = erm(law, alpha, math.exp(log_ridge), loss, warm_start=memory["start"])
        memory["start"], memory["count"] = WarmStart(result.fixed_point), memory["count"] + 1
        return result

    value = lambda log_ridge: criterion.of_readout(solve(log_ridge)).loss  # noqa: E731
    grid = np.log(np.geomspace(*RIDGES, 8))
    losses = [value(r) for r in grid[::-1]][::-1]
    at = int(np.argmin(losses))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    found = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 0.05, "maxiter": 12})
    log_ridge = float(found.x if found.fun <= losses[at] else grid[at])
    measured = criterion.of_readout(solve(log_ridge))
    training = Training(loss, alpha0=alpha, alpha1=alpha, ridge=math.exp(log_ridge))
    return Settings(model, training, 0.0, 0.0, math.nan, measured, (log_ridge,), memory["count"])
