"""The best settings of each trained learner at a given number of samples, by the theory.

The attention classifier's result depends on its training through four numbers: the query's cosine gamma, the sharpness k, and
the readout's alpha1 and ridge. So for every share of D0 the two learning rates of the first step are those that maximise
gamma (a closed form), the rate of the query's step is the one that gives k, and what is left,

    min over share, k, ridge of  loss(share, k, ridge),

is minimised by Nelder and Mead's method on log loss in z = (logit share, log k, log ridge), on a fixed set of draws. With a
dimension d, the loss is the one to expect at n = alpha d and d (`forecast_at`): the search averages over the realised shares of
positives in D0 and D1, and its ends are then compared, and moved a little, with queries drawn at this size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from .._core.root_finding import least_on_grid
from ..laws.law import law_of_model
from ..losses import Loss
from ..task import Task
from ..theory import AccuracyError, ConvergenceError, alignment, attention_law, erm
from ..training import Training
from .criterion import Criterion, Measured
from .forecast_at import (
    GROUPS,
    POINTS,
    REPORT_SEED,
    SEARCH_SEED,
    ForecastAt,
    forecast_at,
    readout_loss,
    remainder,
)

SHARES, SHARPNESSES, RIDGES = (0.02, 0.98), (0.05, 30.0), (1e-5, 10.0)  # searched
LEAST_BAGS = 4  # in D0 and in D1
# Largest numbers of bags, dimensions, bags per dimension and strength: beyond, fixed points take minutes or lose digits.
MOST_BAGS, MOST_DIMENSIONS, MOST_RATIO, MOST_STRENGTH = 10**9, 10**8, 100_000, 1000.0


@dataclass(frozen=True)
class Settings:
    """A trained learner's settings and what they lead to.

    Attributes
    ----------
    training : Training
        The `Training` to use (attention), or the readout's part of it (alpha1 = all samples).
    measured : Measured
        The criterion's loss to expect, and its standard error: at the given n and d where d was given, else in the limit.
    limit : Measured
        The loss in the limit of large n and d at the same n/d.
    share : float
        n0/(n0 + n1), of the samples that the two gradient steps get (0 for learners without a query).
    sharpness : float
        k = beta ||q2||.
    cosine : float
        gamma, the query's cosine with the signal (NaN without a query).
    scatter : float
        Standard deviation of the loss between queries drawn at this size.
    """

    training: Training
    measured: Measured
    limit: Measured
    share: float = 0.0
    sharpness: float = 0.0
    cosine: float = math.nan
    scatter: float = 0.0

    @property
    def loss(self) -> float:
        """The criterion's loss to expect."""
        return self.measured.loss

    def classifier(self, **options: Any) -> Any:
        """An `AttentionClassifier` with these settings; `options` are further parameters of it."""
        from ..estimators import AttentionClassifier

        t = self.training
        chosen: dict[str, Any] = {"split": self.share, "sharpness": self.sharpness, "ridge": t.ridge}
        return AttentionClassifier(**(chosen | {"eta_w": t.eta_w, "eta_b": t.eta_b, "loss": t.loss} | options))


def mean_alignment(task: Task, training: Training, n0: int | None = None) -> tuple[float, float]:
    """(gamma, ||q2||) after the two steps, averaged over the realised share of positives among n0 bags (None: at pi)."""
    shares = [task.prevalence]
    if n0 is not None:  # two points with the binomial's variance
        deviation = (task.prevalence * (1 - task.prevalence) / n0) ** 0.5
        shares = [float(np.clip(task.prevalence + s * deviation, 1 / n0, 1 - 1 / n0)) for s in (-1, 1)]
    steps = [alignment(task.but(prevalence=p), training) for p in shares]
    return float(np.mean([a.query_cosine for a in steps])), float(np.mean([a.norm["q"] for a in steps]))


@lru_cache(maxsize=1024)
def best_rates(
    task: Task, loss: str | Loss, alpha0: float, n0: int | None = None, centred: bool = True
) -> tuple[float, float | str]:
    """(eta_w, eta_b): the first step's rates that give the largest mean cosine of the query with the signal.

    Centred residuals ("auto") are taken where they do better (unless `centred` is false): with rare positives they do, while
    weak signals gain from a bias that leaves w1 in the query.
    """

    def cosine_at(eta_w: float, eta_b: float | str) -> float:
        return mean_alignment(task, Training(loss, alpha0=alpha0, eta_w=eta_w, eta_b=eta_b), n0)[0]

    def cosine(log_rates: Any) -> float:
        return cosine_at(*(float(rate) for rate in np.exp(log_rates)))

    # The first step moves a positive bag's score by about eta_w (theta R/L)^2/4. Where that is large the readout classifies all
    # positives correctly before the query's step, which then follows the negatives and turns away from the signal.
    largest = min(0.0, -2 * math.log(0.5 * task.mean_strength * task.mean_sparsity / task.mean_length))
    first = max(((largest, b) for b in np.linspace(np.log(0.3), np.log(40.0), 8)), key=cosine)
    bounds = [(largest + np.log(0.1), np.log(30.0)), (np.log(0.05), np.log(100.0))]
    options = {"xatol": 1e-2, "fatol": 1e-7, "maxfev": 80}
    best = minimize(lambda x: -cosine(x), first, method="Nelder-Mead", bounds=bounds, options=options)
    eta_w, eta_b = (float(rate) for rate in np.exp(best.x))
    small = math.exp(largest + math.log(0.1))  # the best cosine of centred steps is that of small rates
    return (small, "auto") if centred and cosine_at(small, "auto") >= cosine_at(eta_w, eta_b) else (eta_w, eta_b)


class _Search:
    """Attention's loss at settings z = (logit share, log k, log ridge), each fixed point started from the last one."""

    def __init__(self, task: Task, alpha: float, criterion: Criterion, loss: str | Loss, d: int | None):
        self.task, self.alpha, self.criterion, self.loss, self.d = task, alpha, criterion, loss, d
        self.near: np.ndarray | None = None
        least = 0.0 if d is None else LEAST_BAGS / (alpha * d)
        shares = np.clip([least, 1 - least], *SHARES)
        self.low, self.high = np.array([logit(shares), np.log(SHARPNESSES), np.log(RIDGES)]).T

    def training(self, z: Iterable[float]) -> tuple[Training, float, float]:
        """The training at z, its gamma and k."""
        logit_share, log_k, log_ridge = (float(v) for v in z)
        alpha0 = float(expit(logit_share)) * self.alpha
        if self.d is not None:  # whole bags
            n = round(self.alpha * self.d)
            alpha0 = min(max(round(alpha0 * self.d), LEAST_BAGS), n - LEAST_BAGS) / self.d
        nearby = math.exp(0.25 * round(4 * math.log(alpha0)))  # the best rates hardly differ in between
        eta_w, eta_b = best_rates(
            self.task, self.loss, nearby, None if self.d is None else max(2, round(nearby * self.d))
        )
        unit = Training(
            self.loss, alpha0, self.alpha - alpha0, eta_w, eta_b, eta_q=1.0, beta=1.0, ridge=math.exp(log_ridge)
        )
        gamma, per_rate = mean_alignment(self.task, unit, None if self.d is None else round(alpha0 * self.d))
        k = math.exp(log_k)
        return unit.but(eta_q=k / per_rate if per_rate > 0 else 0.0), gamma, k

    def log_loss(self, z: Iterable[float]) -> float:
        """log loss at z on the search's fixed draws; that of twice chance where there is no fixed point."""
        training, gamma, k = self.training(z)
        law = attention_law(self.task, gamma, k).on_draws(POINTS // 4)
        try:
            measured, self.near = readout_loss(law, training, self.criterion, self.d, self.near)
        except (ConvergenceError, AccuracyError):
            return math.log(2 * self.criterion.chance(self.task.prevalence))
        return math.log(max(measured.loss, 1e-12))

    def ends(self, near: Settings | None, thorough: bool) -> list[np.ndarray]:
        """The end points of searches, the best first: from a neighbour's settings, or from the best of a small grid."""
        if near is not None:
            start = [logit(near.share), math.log(max(near.sharpness, SHARPNESSES[0])), math.log(near.training.ridge)]
            starts = [np.clip(start, self.low, self.high)]
        else:
            places = itertools.product(logit([0.2, 0.5]), np.log([0.8, 2.0, 5.0]), np.log([0.03, 1.0]))
            grid = [np.clip(place, self.low, self.high) for place in places]
            starts = sorted(grid, key=self.log_loss)[: 2 if thorough else 1]
        ends = []
        for start in starts:
            steps = np.array([[0, 0, 0], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 1.2]])  # the first
            simplex = start + steps * (1.0 if near is None else 0.5)
            simplex = np.where(simplex > self.high, 2 * start - simplex, simplex)  # away from a bound
            options = {"maxfev": 80 if near is None else 20, "xatol": 0.05, "fatol": 1e-3, "initial_simplex": simplex}
            bounds = list(zip(self.low, self.high))
            ends.append(minimize(self.log_loss, start, method="Nelder-Mead", bounds=bounds, options=options))
        return [end.x for end in sorted(ends, key=lambda end: end.fun)]


def tune_attention(
    task: Task,
    alpha: float,
    criterion: Criterion | str = "error",
    loss: str | Loss = "logistic",
    d: int | None = None,
    *,
    near: Settings | None = None,
    thorough: bool = True,
) -> Settings:
    """The staged attention classifier's best settings with alpha = n/d samples in all.

    Parameters
    ----------
    task : Task
        What the data is.
    alpha : float
        n/d.
    criterion, loss
        As for `plan`; the criterion's loss form is minimised.
    d : int, optional
        Dimension: the loss is then the one to expect at n = alpha d and d. None: in the limit.
    near : Settings, optional
        Of a neighbouring problem, where the search then starts.
    thorough : bool
        Whether to search from two starts, try neighbours on queries drawn at this size, and forecast on many draws.

    Raises
    ------
    ConvergenceError
        If no settings have a fixed point.
    """
    search = _Search(task, alpha, Criterion.of(criterion), loss, d)
    ends = search.ends(near, thorough)
    return _in_the_limit(search, ends[0], thorough) if d is None else _at_given_size(search, d, ends, thorough)


def _in_the_limit(search: _Search, z: np.ndarray, thorough: bool) -> Settings:
    training, gamma, k = search.training(z)
    law = attention_law(search.task, gamma, k)
    if thorough:
        measured = search.criterion.of_readout(erm(law, training.alpha1, training.ridge, search.loss))
    else:
        measured, _ = readout_loss(law.on_draws(POINTS // 4), training, search.criterion, near=search.near)
    return Settings(training, measured, measured, training.alpha0 / search.alpha, k, gamma)


def _at_given_size(search: _Search, d: int, ends: list[np.ndarray], thorough: bool) -> Settings:
    """The best of the search's ends and their neighbours on queries drawn at n and d, forecast on other draws."""

    def forecast_of(training: Training, groups: int, seed: int, points: int = POINTS) -> ForecastAt | None:
        try:
            return forecast_at(
                search.task, training, d, criterion=search.criterion, groups=groups, points=points, seed=seed
            )
        except (ConvergenceError, AccuracyError):
            return None

    def loss(training: Training) -> float:
        forecast = forecast_of(training, 3, SEARCH_SEED)
        return math.inf if forecast is None else search.criterion.shown(forecast.value)

    candidates = [search.training(z)[0] for z in ends]
    training = candidates[0]
    if thorough:
        lowest, best = min((loss(candidate), i) for i, candidate in enumerate(candidates))
        training = candidates[best]
        # Their neighbours are tried because the search uses the mean of queries drawn at this size only.
        for k, ridge in ((1.0, 3.0), (1.0, 1 / 3), (0.65, 1.0), (1.5, 1.0)):
            moved = training.but(eta_q=training.eta_q * k, ridge=float(np.clip(training.ridge * ridge, *RIDGES)))
            if (there := loss(moved)) < lowest:
                lowest, training = there, moved
    forecast = forecast_of(training, GROUPS if thorough else 3, REPORT_SEED)
    if thorough and forecast is not None and forecast.limit_error > 0.02 * search.criterion.shown(forecast.value):
        forecast = forecast_of(training, GROUPS // 2, REPORT_SEED, 16 * POINTS)  # small losses need many draws
    if forecast is None:
        raise ConvergenceError("no settings of attention have a fixed point here")
    gamma, norm = mean_alignment(search.task, training, forecast.n0)
    measured = Measured(search.criterion.shown(forecast.value), forecast.standard_error)
    limit = Measured(search.criterion.shown(forecast.limit), forecast.limit_error)
    share = training.alpha0 / search.alpha
    return Settings(training, measured, limit, share, training.beta * norm, gamma, forecast.scatter)


def tune_linear(
    model: str,
    task: Task,
    alpha: float,
    criterion: Criterion | str = "error",
    loss: str | Loss = "logistic",
    d: int | None = None,
) -> Settings:
    """The best ridge of the pooled or vectorized classifier with all alpha = n/d samples.

    Parameters
    ----------
    model : str
        "pooled" or "vectorized".
    task, alpha, criterion, loss, d
        As for `tune_attention`.
    """
    law, judged = law_of_model(task, model), Criterion.of(criterion)
    near: np.ndarray | None = None

    def training(log_ridge: float) -> Training:
        return Training(loss, alpha0=alpha, alpha1=alpha, ridge=math.exp(log_ridge))

    def measured(log_ridge: float, d: int | None) -> Measured:
        nonlocal near
        found, near = readout_loss(law, training(log_ridge), judged, d, near)
        return found

    # From the largest ridge, where a fixed point is found at once.
    place, _ = least_on_grid(lambda x: measured(-x, d).loss, -np.log(np.geomspace(*RIDGES[::-1], 8)), 0.02)
    best = measured(-place, d)
    if d is not None:
        beyond = remainder(best.loss, max(2, round(alpha * d)), d)
        best = Measured(best.loss, math.hypot(best.standard_error, beyond))
    return Settings(training(-place), best, measured(-place, None))
