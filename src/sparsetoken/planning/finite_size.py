"""Forecasts for given n and d.

The theory's limit takes n and d to infinity. Three things are different at a given size, and the first is by far the largest:

1. The share of positives among n bags is Binomial(n, pi)/n, not pi. A readout follows it with its bias, and with a large
   ridge (small w) the bias decides everything. So the readout is trained at the realised share, tested at pi, and
   the result averaged over the binomial law, both classes being present.
2. The query comes from n0 bags: its cosine gamma and sharpness k fluctuate with their labels and like 1/sqrt(d) besides.
   They are drawn from the exact law of the two gradient steps at this n0 and d, and the readout is averaged over them.
3. What is left, of order 1/d, is not forecast. A few simulations at the same n and d show it (`confirmation`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.special import logit
from scipy.stats import binom

from .._core.replicates import standard_error
from .._core.validation import whole_number
from ..laws.law import Law, law_of_model
from ..losses import Loss
from ..models import SIMULATED, check_model
from ..simulation import two_steps
from ..simulation.repeats import trial_seeds
from ..task import Task
from ..theory import ErmResult, WarmStart, alignment, erm
from ..theory.erm import fixed_point
from ..training import Training
from .criterion import Criterion, Measured

POINTS = 128  # draws per replicate and class: standard errors of about 5e-4
# Draws of the two gradient steps. Each takes O(n0 + d) numbers, of which there are at most _STEP_NUMBERS.
STEP_DRAWS = 384
_STEP_NUMBERS = 20_000_000
# Numbers in one of them, 50 MB. Queries scatter by a thousandth from there on: drawn at a smaller size of the same n0/d.
_NUMBERS_OF_A_DRAW = 1_000_000
_FEW_BAGS = 100  # whose number counts by itself: it is not scaled down
STEP_GROUPS = 12  # groups of like queries that the readout is solved for
_ALIKE = 0.01  # queries whose cosines differ by this much count as alike: it moves a test error by a few thousandths
ANCHORS = 3  # shares at which the fixed point is solved; between them it is a polynomial in the share's log-odds
_MOST_SHARES = 129  # shares that a result is averaged over; a small ridge needs few, a large one a fine grid
_FEW_SHARES = 9  # where the bias does not count, or each share costs a search of its own
_TAIL = 1e-6  # probability of the realised shares that are left out on each side
_TRIES = 40  # draws of the labels allowed for each one that holds both classes


def class_shares(n: int, prevalence: float, most: int = _MOST_SHARES) -> tuple[np.ndarray, np.ndarray]:
    """Realised shares of positives among n bags and their probabilities, both classes being present.

    Parameters
    ----------
    n : int
        Bags, at least 2.
    prevalence : float
        pi, with label noise that of the labels seen.
    most : int
        Neighbouring counts are put together so that no more shares than this are left.

    Returns
    -------
    tuple of ndarray
        Shares in rising order, and probabilities that sum to one.
    """
    low, high = binom.ppf([_TAIL, 1 - _TAIL], n, prevalence)
    counts = np.arange(max(1, int(low)), min(n - 1, max(int(high), 1)) + 1)
    weight = binom.pmf(counts, n, prevalence)
    if not weight.sum() > 0:  # so rare that the other class alone is all there is: one bag of it
        return np.array([(1.0 if prevalence < 0.5 else n - 1.0) / n]), np.ones(1)
    groups = np.array_split(np.arange(len(counts)), min(most, len(counts)))
    total = np.array([weight[g].sum() for g in groups])
    mean = np.array(
        [np.average(counts[g], weights=weight[g]) if weight[g].sum() > 0 else counts[g].mean() for g in groups]
    )
    return mean / n, total / total.sum()


def at_share(law: Law, share: float) -> Law:
    """The same law with another share of positive labels in training."""
    make = law.make_population
    return replace(law, make_population=lambda points: replace(make(points), training_share=share))


def on_fixed_draws(law: Law, points: int) -> Law:
    """The law on a fixed number of draws, made once: quick, and smooth in its parameters."""
    if not law.refinable:
        return law
    population = law.make_population(points)
    return replace(law, make_population=lambda _: population, first_points=0)


def solved(
    law: Law, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None
) -> tuple[ErmResult, np.ndarray]:
    """The readout's limit on a law of fixed draws, and its fixed point as a start for neighbours."""
    result = erm(law, alpha, ridge, loss, accuracy=1.0, warm_start=None if near is None else WarmStart(near))
    return result, result.fixed_point


@dataclass(frozen=True)
class AveragedReadout:
    """A readout averaged over the realised share of positives.

    Attributes
    ----------
    measured : Measured
        The criterion's loss at prevalence pi and the standard error that the law's sampling leaves in it.
    near : ndarray of shape (anchors, 5)
        The fixed points, the middle ones first: starts for neighbouring problems.
    """

    measured: Measured
    near: np.ndarray


def averaged_readout(
    law: Law,
    n: int,
    alpha: float,
    ridge: float,
    loss: str | Loss,
    criterion: Criterion,
    *,
    anchors: int = ANCHORS,
    near: np.ndarray | None = None,
    errors: bool = True,
) -> AveragedReadout:
    """A ridge-regularised readout on n bags: trained at the realised share of positives, tested at pi, averaged.

    Objective: (1/n) sum l + (ridge/2) ||w||^2, bias unpenalised.

    Parameters
    ----------
    law : Law
        The features' law at prevalence pi, on fixed draws.
    n : int
        Bags of the readout.
    alpha : float
        n/d.
    ridge : float
        lambda.
    loss : str or Loss
        The loss.
    criterion : Criterion
        What is averaged.
    anchors : int
        Shares at which the fixed point is solved.
    near : ndarray, optional
        The fixed points of a neighbouring problem; where it has as many anchors, each starts from its own.
    errors : bool
        Whether the standard error counts the fixed point's own; a search does without it.

    Returns
    -------
    AveragedReadout
        The averaged loss.
    """
    seen = law.prevalence if law.task is None else law.task.observed_prevalence
    shares, weights = class_shares(n, seen, _MOST_SHARES if criterion.kind == "error" else _FEW_SHARES)
    low, high = logit(shares[0]), logit(shares[-1])
    count = min(anchors, len(shares))
    # Chebyshev nodes, the middle ones first, so that every solution starts from a near one.
    nodes = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    order = sorted(range(count), key=lambda i: abs(i - (count - 1) / 2))
    fixed: dict[int, np.ndarray] = {}
    middle: ErmResult | None = None
    for place, i in enumerate(order):
        if near is not None and (not fixed or len(near) == count):
            start = near[place]
        else:
            start = fixed[min(fixed, key=lambda j: abs(j - i))] if fixed else None
        here = at_share(law, 1 / (1 + math.exp(-nodes[i])))
        if errors and middle is None:
            middle, fixed[i] = solved(here, alpha, ridge, loss, start)
        else:
            fixed[i] = fixed_point(here, alpha, ridge, loss, start)
    rule = BarycentricInterpolator(nodes, np.stack([fixed[i] for i in range(count)]))
    x = rule(logit(shares))
    population, _ = law.at(law.first_points)
    each = criterion.losses_at(x, population)  # (shares, replicates)
    mean = weights @ each
    scatter = standard_error(mean, alone=0.0)
    own = 0.0
    if middle is not None:
        own = middle.errors["balanced_error"] if criterion.kind != "auc" else middle.errors["auc"]
    return AveragedReadout(Measured(float(mean.mean()), max(scatter, own)), np.stack([fixed[i] for i in order]))


@dataclass(frozen=True)
class ForecastAt:
    """What a classifier is expected to reach with n0 + n1 bags in dimension d.

    Attributes
    ----------
    model : str
        A name of `models.SIMULATED`.
    criterion : str
        What `value` is.
    n0, n1, d : int
        Bags of the two gradient steps (0 without a query) and of the readout, and the tokens' dimension.
    value, standard_error : float
        Mean over data sets of this size, and the standard error of its computation.
    limit, limit_error : float
        The value in the limit of large n and d at the same n/d, and its standard error.
    scatter : float
        Standard deviation of the value between queries (0 without one).
    """

    model: str
    criterion: str
    n0: int
    n1: int
    d: int
    value: float
    standard_error: float
    limit: float
    limit_error: float
    scatter: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self)


def scaled_down(bags: int, factor: float) -> int:
    """A number of bags in a problem scaled down by a factor; few bags stay as many."""
    return max(round(factor * bags), min(bags, _FEW_BAGS))


def drawn_queries(task: Task, training: Training, d: int, draws: int, seed: int) -> list[tuple[float, float]]:
    """(gamma, k) of independent draws of the two gradient steps at this d, both classes being present in D0."""
    n0 = round(training.alpha0 * d)
    if n0 + d > _NUMBERS_OF_A_DRAW:
        size = max(2, round(_NUMBERS_OF_A_DRAW / (n0 + d) * d))
        training, d = training.but(alpha0=scaled_down(n0, size / d) / size), size
    unit = training.but(
        eta_q=1.0, beta=1.0, ridge=1.0, alpha1=1.0
    )  # q2 is proportional to eta_q beta, k to eta_q beta^2
    scale = training.eta_q * training.beta**2
    return [(cosine, scale * norm) for cosine, norm in _unit_queries(task, unit, d, draws, seed)]


@lru_cache(maxsize=64)
def _unit_queries(task: Task, training: Training, d: int, draws: int, seed: int) -> tuple[tuple[float, float], ...]:
    """The same at eta_q = beta = 1: shared by all settings that differ in sharpness and readout alone."""
    trials = with_both_classes(lambda s: two_steps(task, training, d, s), draws, seed)
    return tuple((float(np.clip(steps.query_cosine, -1.0, 1.0)), steps.sharpness) for steps in trials)


def like_queries(queries: list[tuple[float, float]], groups: int) -> list[tuple[float, float]]:
    """Queries sorted by their cosine and dealt into equal groups of neighbours: the mean (gamma, k) of each.

    The readout is a smooth function of them, so a few groups of many draws give its mean much better than a few draws.
    """
    ordered = np.array(sorted(queries))
    alike = max(3, math.ceil(2 * float(ordered[:, 0].std()) / _ALIKE))
    return [tuple(part.mean(0)) for part in np.array_split(ordered, min(groups, alike, len(ordered)))]


def with_both_classes(trial: Callable[[int], Any], count: int, seed: int) -> Iterator[Any]:
    """`count` results of trial(seed), leaving out the draws whose labels are all alike."""
    made = tried = 0
    while made < count and tried < _TRIES * count:
        for one in trial_seeds(seed, tried + count - made)[tried:]:  # the first seeds do not depend on their number
            tried += 1
            try:
                result = trial(one)
            except ValueError as error:
                if "holds only" not in str(error):
                    raise
                continue
            made += 1
            yield result
    if made < count:
        raise ValueError("n must be larger for this prevalence: nearly every draw of the bags holds one class only")


def forecast_at(
    task: Task,
    training: Training,
    d: int,
    model: str = "attention",
    *,
    criterion: Criterion | str = "error",
    activation: Any = "sigmoid",
    equal_samples: bool = False,
    groups: int = STEP_GROUPS,
    points: int = POINTS,
    seed: int = 0,
    near: np.ndarray | None = None,
) -> ForecastAt:
    """Forecast of `simulate(task, training, d, ...)`, averaged over data sets, at this d and not in the limit.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        Staged; n0 = alpha0 d and n1 = alpha1 d bags.
    d : int
        Dimension of a token.
    model : str
        "attention", "elementwise", "pooled" or "vectorized".
    criterion : Criterion or str
        What is forecast; see `Criterion`.
    activation : str or callable
        Of the elementwise model.
    equal_samples : bool
        Give pooled and vectorized classifiers D0 as well.
    groups : int
        Groups of like queries, of several hundred drawn, that the readout is solved for.
    points : int
        Draws per replicate and class of the law.
    seed : int
        Of the drawn steps.
    near : ndarray of shape (anchors, 5), optional
        The readout's fixed points in a neighbouring problem, as starts; see `AveragedReadout`.

    Returns
    -------
    ForecastAt
        The mean over data sets, and the limit beside it.
    """
    query = check_model(model, SIMULATED).has_query
    if training.schedule != "staged":
        raise ValueError(
            f"schedule must be 'staged' for a forecast at given d, got {training.schedule!r}; simulate instead"
        )
    d, judged = whole_number("d", d, 2), Criterion.of(criterion)
    n0, n1 = round(training.alpha0 * d), round(training.alpha1 * d)
    if not query:
        n1, n0 = (n0 + n1 if equal_samples else n1), 0
    if n1 < 2 or (query and n0 < 2):
        raise ValueError(f"alpha0 and alpha1 must give at least 2 bags each at d = {d}, got {n0} and {n1}")
    alpha, ridge, loss = n1 / d, training.ridge, training.loss

    def averaged(law: Law) -> Measured:
        nonlocal near
        found = averaged_readout(on_fixed_draws(law, points), n1, alpha, ridge, loss, judged, near=near)
        near = found.near
        return found.measured

    def in_the_limit(law: Law) -> Measured:
        return judged.of_readout(solved(law, alpha, ridge, loss, None if near is None else near[0])[0])

    if not query:
        law = law_of_model(task, model)
        measured = averaged(law)
        limit = in_the_limit(law)
        value = judged.shown(measured.loss)
        known = judged.shown(limit.loss), limit.standard_error
        return ForecastAt(model, str(judged), 0, n1, d, value, measured.standard_error, *known)
    exact = training.but(alpha0=n0 / d, alpha1=n1 / d)
    draws = int(np.clip(_STEP_NUMBERS // (n0 + d), 2 * groups, STEP_DRAWS))
    queries = like_queries(drawn_queries(task, exact, d, draws, seed), groups)
    found = [averaged(law_of_model(task, model, cosine, k, activation)) for cosine, k in queries]
    losses = np.array([m.loss for m in found])
    scatter = float(losses.std(ddof=1)) if len(losses) > 1 else 0.0
    steps = alignment(task, exact)
    law = on_fixed_draws(law_of_model(task, model, steps.query_cosine, steps.sharpness, activation), points)
    limit = in_the_limit(law)
    error = math.hypot(scatter / math.sqrt(draws), float(np.mean([m.standard_error for m in found])))
    value, known = judged.shown(float(losses.mean())), (judged.shown(limit.loss), limit.standard_error)
    return ForecastAt(model, str(judged), n0, n1, d, value, error, *known, scatter)
