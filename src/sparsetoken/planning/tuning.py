"""The best settings of each learner at a given number of samples, by the theory.

The attention classifier's result depends on its training through four numbers: the query's cosine gamma, the sharpness k, and
the readout's alpha1 and ridge. So for every share of D0 the two learning rates of the first step are those that maximise
gamma (a closed form), the rate of the query's step is the one that gives k, and what is left,

    min over share, k, ridge of  loss(share, k, ridge),

is minimised by L-BFGS-B on log loss from several starts, in z = (logit share, log k, log ridge), on a fixed set of draws,
where the loss is smooth and its slopes are differences of neighbouring fixed points.

With a dimension d the loss is the one to expect at n = alpha d and d, not in the limit (`finite_size`): the search averages
over the realised shares of positives in D0 and D1, and the ends of the search are then compared, and moved a little, with
queries drawn at this size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit

from ..laws.law import law_of_model
from ..losses import Loss
from ..task import Task
from ..theory import AccuracyError, ConvergenceError, alignment, attention_law, erm
from ..training import Training
from .criterion import Criterion, Measured
from .finite_size import POINTS as FORECAST_POINTS
from .finite_size import STEP_GROUPS, ForecastAt, averaged_readout, forecast_at, on_fixed_draws, solved

POINTS = 32  # draws per replicate and class while settings are sought: 512 per class, the same throughout
ACCURACY = 5e-4  # of the test error in the forecasts that are reported
SHARES, SHARPNESSES, RIDGES = (0.02, 0.98), (0.05, 30.0), (1e-5, 10.0)
LEAST_BAGS = 4  # in D0 and in D1
MOST_BAGS, MOST_DIMENSIONS = 10**9, 10**8  # more than anybody has; beyond, 1/n and n/d lose their digits
MOST_RATIO = 100_000  # n/d: long before, the direction is known for certain, and fixed points take minutes beyond
MOST_STRENGTH = (
    1000.0  # long before, no classifier is wrong any more; from ten times this on fixed points are lost in rounding
)
SEARCH_SEED, REPORT_SEED, CONFIRM_SEED = 0, 1, 2  # of drawn queries while choosing, of those reported, of simulations
_STARTS = [(share, k, 0.03) for share in (0.2, 0.5) for k in (0.8, 2.0, 5.0)]
_STEP = 1e-3  # of the differences, in z
_RATES_GRID = 0.25  # best rates are computed at these steps of log alpha0 and hardly differ in between
_MEAN_SIGNAL = (
    0.5  # times the mean token's shift theta R/L: up to here a rate eta_w of 1 keeps scores of the order of 1
)
_COARSE = 0.02  # a reported loss whose sampling error is more than this share of it is computed again on more draws
_MORE_POINTS = (1024, 4096)
# Factors on (k, ridge) tried on queries drawn at the given size: the search knows their mean only.
_MOVES = [(1.0, 3.0), (1.0, 1 / 3), (0.65, 1.0), (1.5, 1.0)]


@dataclass(frozen=True)
class Settings:
    """A trained learner's settings and what they lead to.

    Attributes
    ----------
    model : str
        "attention", "pooled" or "vectorized".
    training : Training
        The `Training` to use (attention), or the readout's part of it (alpha1 = all samples).
    share : float
        n0/(n0 + n1), of the samples that the two gradient steps get (0 for learners without a query).
    sharpness : float
        k = beta ||q2||.
    cosine : float
        gamma, the query's cosine with the signal (NaN without a query).
    measured : Measured
        The criterion's loss to expect, and its standard error: at the given n and d where d was given, else in the limit.
    limit : Measured
        The loss in the limit of large n and d at the same n/d.
    point : tuple of float
        Where the search ended, a start for neighbouring problems.
    evaluations, failures : int
        Losses computed on the way, and how many had no fixed point.
    start : ndarray of shape (anchors, 5), optional
        Fixed points near the end; see `AveragedReadout`.
    """

    model: str
    training: Training
    share: float
    sharpness: float
    cosine: float
    measured: Measured
    limit: Measured
    point: tuple[float, ...] = ()
    evaluations: int = 0
    failures: int = 0
    start: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def loss(self) -> float:
        """The criterion's loss to expect."""
        return self.measured.loss


def _shares_of_first_set(task: Task, n0: int | None) -> tuple[float, ...]:
    """Realised shares of positives in D0, one deviation to either side of pi (two points have the binomial's variance)."""
    if n0 is None:
        return (task.prevalence,)
    deviation = (task.prevalence * (1 - task.prevalence) / n0) ** 0.5
    return tuple(float(np.clip(task.prevalence + s * deviation, 1 / n0, 1 - 1 / n0)) for s in (-1, 1))


def mean_alignment(task: Task, training: Training, n0: int | None = None) -> tuple[float, float]:
    """(gamma, ||q2||) after the two steps, averaged over the realised share of positives among n0 bags (None: at pi)."""
    found = [alignment(task.but(prevalence=p), training) for p in _shares_of_first_set(task, n0)]
    return float(np.mean([a.query_cosine for a in found])), float(np.mean([a.norm["q"] for a in found]))


@lru_cache(maxsize=1024)
def best_rates(task: Task, loss: str | Loss, alpha0: float, n0: int | None = None) -> tuple[float, float]:
    """(eta_w, eta_b): the first step's rates that give the largest mean cosine of the query with the signal.

    At pi = 1/2 the limit does not depend on eta_b; at a given n0 it does, since the bias has to make up for the realised
    share of positives before the query is learnt.

    Parameters
    ----------
    task : Task
        The task.
    loss : str or Loss
        The loss.
    alpha0 : float
        n0/d.
    n0 : int, optional
        Bags of D0; None for the limit.

    Returns
    -------
    tuple of float
        The rates.
    """

    def cosine(log_rates) -> float:
        eta_w, eta_b = np.exp(log_rates)
        return mean_alignment(task, Training(loss, alpha0=alpha0, eta_w=float(eta_w), eta_b=float(eta_b)), n0)[0]

    # The first step moves a positive bag's score by about eta_w (theta R/L)^2/4. Where that is large the readout is right about
    # all positives before the query's step, which then follows the negatives and turns away from the signal.
    largest = min(0.0, -2 * math.log(_MEAN_SIGNAL * task.mean_strength * task.mean_sparsity / task.mean_length))
    grid = [(largest, b) for b in np.linspace(np.log(0.3), np.log(40.0), 8)]
    first = max(grid, key=cosine)
    bounds = [(largest + np.log(0.1), np.log(30.0)), (np.log(0.05), np.log(100.0))]
    options = {"xatol": 1e-2, "fatol": 1e-7, "maxfev": 80}
    found = minimize(lambda x: -cosine(x), first, method="Nelder-Mead", bounds=bounds, options=options)
    eta_w, eta_b = (float(rate) for rate in np.exp(found.x))
    return eta_w, eta_b


class _Search:
    """The losses met on the way, each fixed point started from the last one that was found."""

    def __init__(self, task: Task, alpha: float, loss: str | Loss, criterion: Criterion, d: int | None, start=None):
        self.task, self.alpha, self.loss, self.criterion, self.d = task, alpha, loss, criterion, d
        self.start = start
        self.evaluations = self.failures = 0
        share = (
            SHARES if d is None else tuple(np.clip([LEAST_BAGS / (alpha * d), 1 - LEAST_BAGS / (alpha * d)], *SHARES))
        )
        self.bounds = [tuple(logit(share)), tuple(np.log(SHARPNESSES)), tuple(np.log(RIDGES))]

    def value(self, z: Iterable[float]) -> float:
        """Loss at z; twice that of chance where there is no fixed point, which no search ends at."""
        training, gamma, k = self.training(z)
        law = on_fixed_draws(attention_law(self.task, gamma, k), POINTS)
        self.evaluations += 1
        try:
            if self.d is None:
                near = None if self.start is None else self.start[0]
                result, x = solved(law, training.alpha1, training.ridge, self.loss, near)
                found, self.start = self.criterion.of_readout(result).loss, x[None]
            else:
                n1 = max(2, round(training.alpha1 * self.d))
                averaged = averaged_readout(
                    law, n1, training.alpha1, training.ridge, self.loss, self.criterion, anchors=2, near=self.start,
                    errors=False,
                )  # fmt: skip
                found, self.start = averaged.measured.loss, averaged.near
        except (ConvergenceError, AccuracyError):
            self.failures += 1
            return 2 * self.criterion.chance(self.task)
        return max(found, 1e-12)

    def training(self, z: Iterable[float]) -> tuple[Training, float, float]:
        """The training that z = (logit share, log k, log ridge) stands for, its gamma and k."""
        logit_share, log_k, log_ridge = (float(v) for v in z)
        k, ridge = math.exp(log_k), math.exp(log_ridge)
        alpha0 = float(expit(logit_share)) * self.alpha
        near = math.exp(_RATES_GRID * round(math.log(alpha0) / _RATES_GRID))
        n0 = None if self.d is None else max(2, round(near * self.d))
        eta_w, eta_b = best_rates(self.task, self.loss, near, n0)
        unit = Training(self.loss, alpha0, self.alpha - alpha0, eta_w, eta_b, eta_q=1.0, beta=1.0, ridge=ridge)
        gamma, per_rate = mean_alignment(self.task, unit, None if self.d is None else max(2, round(alpha0 * self.d)))
        return unit.but(eta_q=k / per_rate if per_rate > 0 else 0.0), gamma, k

    def log_value_and_slope(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """log loss and its slope by differences."""
        here = math.log(self.value(z))
        slope = np.array([math.log(self.value(z + _STEP * e)) - here for e in np.eye(3)]) / _STEP
        return here, slope

    def in_whole_bags(self, training: Training) -> Training:
        """The training with n0 and n1 whole numbers that add up to n."""
        assert self.d is not None
        n = round(self.alpha * self.d)
        n0 = min(max(round(training.alpha0 * self.d), LEAST_BAGS), n - LEAST_BAGS)
        return training.but(alpha0=n0 / self.d, alpha1=(n - n0) / self.d)

    def expected(
        self, z: Iterable[float], groups: int, seed: int, move: tuple[float, float], points: int = FORECAST_POINTS
    ) -> tuple[ForecastAt, Training] | None:
        """(forecast at n and d, training) at z, with k and ridge multiplied by `move`; None where there is no fixed point."""
        assert self.d is not None
        training = self.in_whole_bags(self.training(z)[0])
        ridge = float(np.clip(training.ridge * move[1], *RIDGES))
        training = training.but(eta_q=training.eta_q * move[0], ridge=ridge)
        self.evaluations += 1
        try:
            found = forecast_at(
                self.task, training, self.d, criterion=self.criterion, groups=groups, points=points, seed=seed,
                near=self.start,
            )  # fmt: skip
        except (ConvergenceError, AccuracyError):
            self.failures += 1
            return None
        return found, training


def tune_attention(
    task: Task,
    alpha: float,
    criterion: Criterion,
    loss: str | Loss = "logistic",
    near: Settings | None = None,
    accuracy: float | None = ACCURACY,
    starts: int = 2,
    d: int | None = None,
) -> Settings:
    """The staged attention classifier's best settings with alpha = n/d samples in all.

    Parameters
    ----------
    task : Task
        The task.
    alpha : float
        n/d.
    criterion : Criterion
        What is minimised (its loss form).
    loss : str or Loss
        The training loss.
    near : Settings, optional
        Of a neighbouring problem: another start (the only one where a single run is asked for), and the search is shorter.
    accuracy : float, optional
        Of the test error in the final forecast; None leaves a coarser one.
    starts : int
        How many of the best points of a small grid the search is run from.
    d : int, optional
        Dimension: the loss is then the one to expect at n = alpha d and d. None: in the limit.

    Returns
    -------
    Settings
        The best settings found.
    """
    search = _Search(task, alpha, loss, criterion, d, None if near is None else near.start)
    low, high = np.array(search.bounds).T
    points = [np.clip([logit(s), math.log(k), math.log(ridge)], low, high) for s, k, ridge in _STARTS]
    if near is not None:
        here = np.clip(np.asarray(near.point), low, high)
        points = [here] if starts == 1 else [here, *points]
    firsts = points
    if len(points) > starts:
        firsts = [points[i] for i in np.argsort([search.value(p) for p in points])[:starts]]
    options = {"maxiter": 15 if near is None else 6, "ftol": 1e-3, "gtol": 3e-3}
    ends = [
        minimize(search.log_value_and_slope, z, jac=True, method="L-BFGS-B", bounds=search.bounds, options=options)
        for z in firsts
    ]
    ends.sort(key=lambda end: end.fun)
    if d is None:
        return _in_the_limit(search, ends[0], accuracy)
    return _at_given_size(search, [end.x for end in ends], accuracy is not None)


def _in_the_limit(search: _Search, end: Any, accuracy: float | None) -> Settings:
    training, gamma, k = search.training(end.x)
    if accuracy is None:
        measured = Measured(math.exp(end.fun), math.nan)
    else:
        law = attention_law(search.task, gamma, k)
        measured = search.criterion.of_readout(
            erm(law, training.alpha1, training.ridge, search.loss, accuracy=accuracy)
        )
    return Settings(
        "attention", training, training.alpha0 / search.alpha, k, gamma, measured, measured, tuple(map(float, end.x)),
        search.evaluations, search.failures, search.start,
    )  # fmt: skip


def _at_given_size(search: _Search, ends: list[np.ndarray], fully: bool) -> Settings:
    """The best of the search's ends and their neighbours on queries drawn at n and d, forecast on other draws."""
    assert search.d is not None
    judged = search.criterion
    best: tuple[float, np.ndarray, tuple[float, float], tuple[ForecastAt, Training]] | None = None

    def consider(z: np.ndarray, move: tuple[float, float]) -> None:
        nonlocal best
        found = search.expected(z, 4 if fully else 3, SEARCH_SEED, move)
        if found is not None and (best is None or judged.shown(found[0].value) < best[0]):
            best = (judged.shown(found[0].value), z, move, found)

    for z in ends:
        consider(z, (1.0, 1.0))
    if best is None:
        raise ConvergenceError("no settings of attention have a fixed point here")
    if fully:
        z = best[1]
        for k, ridge in _MOVES:
            at = best[2]
            consider(z, (at[0] * k, at[1] * ridge))
    final: tuple[ForecastAt, Training] | None
    _, z, move, final = best
    if fully:
        final = search.expected(z, STEP_GROUPS, REPORT_SEED, move)
        for points in _MORE_POINTS:  # small losses rest on few of the draws
            if final is not None and final[0].limit_error > _COARSE * judged.shown(final[0].value):
                final = search.expected(z, STEP_GROUPS // 2, REPORT_SEED, move, points)
    if final is None:
        raise ConvergenceError("the best settings of attention have no fixed point on other draws")
    forecast, training = final
    gamma, norm = mean_alignment(search.task, training, forecast.n0)
    point = (
        float(logit(training.alpha0 / search.alpha)),
        math.log(max(norm, SHARPNESSES[0])),
        math.log(training.ridge),
    )
    return Settings(
        "attention", training, training.alpha0 / search.alpha, training.beta * norm, gamma, *_losses(judged, forecast),
        point, search.evaluations, search.failures, search.start,
    )  # fmt: skip


def _losses(criterion: Criterion, forecast: ForecastAt) -> tuple[Measured, Measured]:
    """The loss to expect and the one in the limit."""
    expected = Measured(criterion.shown(forecast.value), forecast.standard_error)
    return expected, Measured(criterion.shown(forecast.limit), forecast.limit_error)


def tune_linear(
    model: str,
    task: Task,
    alpha: float,
    criterion: Criterion,
    loss: str | Loss = "logistic",
    d: int | None = None,
) -> Settings:
    """The best ridge of the pooled or vectorized classifier with all alpha = n/d samples.

    Parameters
    ----------
    model : str
        "pooled" or "vectorized".
    task : Task
        The task.
    alpha : float
        n/d.
    criterion : Criterion
        What is minimised (its loss form).
    loss : str or Loss
        The training loss.
    d : int, optional
        Dimension: the loss is then the one to expect at n = alpha d and d. None: in the limit.

    Returns
    -------
    Settings
        With alpha1 = alpha and the best ridge.
    """
    law = law_of_model(task, model)
    memory: dict[str, Any] = {"start": None, "count": 0}

    def near() -> np.ndarray | None:
        return None if memory["start"] is None else memory["start"][0]

    def measured(log_ridge: float, errors: bool = True) -> Measured:
        memory["count"] += 1
        if d is None:
            result, x = solved(law, alpha, math.exp(log_ridge), loss, near())
            memory["start"] = x[None]
            return criterion.of_readout(result)
        n = max(2, round(alpha * d))
        found = averaged_readout(
            law, n, alpha, math.exp(log_ridge), loss, criterion, near=memory["start"], errors=errors
        )
        memory["start"] = found.near
        return found.measured

    def value(log_ridge):
        return measured(log_ridge, errors=False).loss

    grid = np.log(np.geomspace(*RIDGES, 8))
    losses = [value(r) for r in grid[::-1]][::-1]
    at = int(np.argmin(losses))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    found = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 0.05, "maxiter": 12})
    log_ridge = float(found.x if found.fun <= losses[at] else grid[at])
    limit = criterion.of_readout(solved(law, alpha, math.exp(log_ridge), loss, near())[0])
    training = Training(loss, alpha0=alpha, alpha1=alpha, ridge=math.exp(log_ridge))
    expected = limit if d is None else measured(log_ridge)
    return Settings(model, training, 0.0, 0.0, math.nan, expected, limit, (log_ridge,), memory["count"])


def staged_classifier(settings: Settings, **options: Any) -> Any:
    """The estimator with a plan's settings; `options` are further parameters of `AttentionClassifier`."""
    from ..estimators import AttentionClassifier

    training = settings.training
    chosen: dict[str, Any] = {"split": settings.share, "sharpness": settings.sharpness, "ridge": training.ridge}
    chosen |= {"eta_w": training.eta_w, "eta_b": training.eta_b, "loss": training.loss}
    return AttentionClassifier(**(chosen | options))
