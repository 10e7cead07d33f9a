"""`forecast_at`: a forecast at given n and d.

The theory's limit takes n and d to infinity. Three things are different at a given size, and the first is by far the largest:

1. The share of positives among n bags is Binomial(n, pi)/n, not pi. A readout follows it with its bias, and with a large
   ridge (small w) the bias decides everything. So the readout is trained at the realised share, tested at pi, and
   the result averaged over the binomial law, both classes being present.
2. The query comes from n0 bags: its cosine gamma and sharpness k fluctuate with their labels and like 1/sqrt(d) besides.
   They are drawn from the exact law of the two gradient steps at this n0 and d, and the readout is averaged over them.
3. What is left, of order 1/d, is not forecast: it is part of the standard error.

Eq. (30) of docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.special import expit, logit
from scipy.stats import binom

from .._core.averages import standard_error
from .._core.validation import whole_number
from ..classifiers import SIMULATED, check_model
from ..laws.law import Law, law_of_model
from ..losses import Loss
from ..simulation import two_steps
from ..simulation.repeats import trial_seeds
from ..simulation.samplers.drawn_bags import OneClassError
from ..task import Task
from ..theory import ErmResult, WarmStart, alignment, erm
from ..theory.fixed_point.plain import quick_readout
from ..training import Training
from .criterion import Criterion, Measured

POINTS = 128  # draws per replicate and class: standard errors of about 5e-4
REMAINDER = 2.0  # times 1/d and 1/n1: the relative standard error for what is not forecast (see benchmarks/plans.py)
QUERIES = 384  # draws of the two gradient steps, each of O(n0 + d) numbers
_NUMBERS_OF_QUERIES = 20_000_000  # in all of them; there are fewer where each is large
_NUMBERS_OF_A_QUERY = 1_000_000  # 50 MB; larger problems are scaled down, where queries scatter by a thousandth
GROUPS = 12  # groups of like queries that the readout is solved for
_ANCHORS = 3  # shares at which the fixed point is solved; between them it is a polynomial in the share's log-odds
_SHARES, _FEW_SHARES = 129, 9  # shares averaged over; few where the bias does not count or each costs a search
_TRIES = 40  # draws of the labels allowed for each one that holds both classes


def class_shares(n: int, prevalence: float, most: int = _SHARES) -> tuple[np.ndarray, np.ndarray]:
    """Realised shares of positives among n bags and their probabilities, both classes being present."""
    low, high = binom.ppf([1e-6, 1 - 1e-6], n, prevalence)
    counts = np.arange(max(1, int(low)), min(n - 1, max(int(high), 1)) + 1)
    weight = binom.pmf(counts, n, prevalence)
    if not weight.sum() > 0:  # so rare that the other class alone is all there is: one bag of it
        return np.array([(1.0 if prevalence < 0.5 else n - 1.0) / n]), np.ones(1)
    groups = np.array_split(np.arange(len(counts)), min(most, len(counts)))
    total = np.array([weight[g].sum() for g in groups])
    mean = [np.average(counts[g], weights=weight[g] if weight[g].sum() > 0 else None) for g in groups]
    return np.array(mean) / n, total / total.sum()


def at_share(law: Law, share: float) -> Law:
    """The same law with another share of positive labels in training."""
    make = law.make_population
    return replace(law, make_population=lambda points: replace(make(points), training_share=share))


def solved(law: Law, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None) -> ErmResult:
    """The readout's limit on a law of fixed draws, started from a neighbour's fixed point."""
    return erm(law, alpha, ridge, loss, accuracy=1.0, warm_start=None if near is None else WarmStart(near))


def averaged_readout(
    law: Law, n: int, alpha: float, training: Training, criterion: Criterion, near: np.ndarray | None = None
) -> tuple[Measured, np.ndarray]:
    """A readout on n bags, averaged over the realised share of positives, and its fixed point as a start for neighbours.

    Objective: (1/n) sum l + (ridge/2) ||w||^2, bias unpenalised; trained at the realised share, tested at pi.
    """
    seen = law.prevalence if law.task is None else law.task.observed_prevalence
    shares, weights = class_shares(n, seen, _SHARES if criterion.kind == "error" else _FEW_SHARES)
    low, high = logit(shares[0]), logit(shares[-1])
    count = min(_ANCHORS, len(shares))
    nodes = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(np.pi * (np.arange(count) + 0.5) / count)  # Chebyshev's
    middle = count // 2
    points, error = np.empty((count, 5)), 0.0
    for i in sorted(range(count), key=lambda i: abs(i - middle)):
        readout = quick_readout(at_share(law, float(expit(nodes[i]))), alpha, training.ridge, training.loss, near)
        points[i] = readout.x
        near, error = points[middle], max(error, readout.standard_error)
    x = BarycentricInterpolator(nodes, points)(logit(shares))
    losses = weights @ criterion.losses_at(x, law.at(law.first_points)[0])  # one per replicate
    return Measured(float(losses.mean()), max(error, standard_error(losses, alone=0.0))), points[middle]


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
        Mean over data sets of this size, and its standard error: that of the computation, and what is of order 1/d.
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


def remainder(loss: float, n: int, d: int) -> float:
    """Standard error for what a forecast at given size leaves out, of relative order 1/d and 1/n."""
    return REMAINDER * loss * math.hypot(1 / n, 1 / d)


def drawn_queries(task: Task, training: Training, d: int, draws: int, seed: int) -> list[tuple[float, float]]:
    """(gamma, k) of independent draws of the two gradient steps at this d, both classes being present in D0."""
    n0 = round(training.alpha0 * d)
    if n0 + d > _NUMBERS_OF_A_QUERY:
        size = max(2, round(_NUMBERS_OF_A_QUERY / (n0 + d) * d))
        few = max(round(n0 * size / d), min(n0, 100))  # a few bags stay as many
        training, d = training.but(alpha0=few / size), size
    # q2 is proportional to eta_q beta, k to eta_q beta^2.
    unit = training.but(eta_q=1.0, beta=1.0, ridge=1.0, alpha1=1.0)
    scale = training.eta_q * training.beta**2
    return [(cosine, scale * norm) for cosine, norm in _unit_queries(task, unit, d, draws, seed)]


@lru_cache(maxsize=64)
def _unit_queries(task: Task, training: Training, d: int, draws: int, seed: int) -> tuple[tuple[float, float], ...]:
    """The same at eta_q = beta = 1: shared by all settings that differ in sharpness and readout alone."""
    trials = with_both_classes(lambda s: two_steps(task, training, d, s), draws, seed)
    return tuple((float(np.clip(steps.query_cosine, -1.0, 1.0)), steps.sharpness) for steps in trials)


def like_queries(queries: list[tuple[float, float]], groups: int) -> list[tuple[float, float]]:
    """Queries sorted by their cosine and split into equal groups of neighbours: the mean (gamma, k) of each.

    The readout is a smooth function of them, so a few groups of many draws give its mean much better than a few draws.
    """
    ordered = np.array(sorted(queries))
    alike = max(3, math.ceil(200 * float(ordered[:, 0].std())))  # cosines that differ by 0.01 hardly move the error
    return [tuple(part.mean(0)) for part in np.array_split(ordered, min(groups, alike, len(ordered)))]


def with_both_classes(trial: Callable[[int], Any], count: int, seed: int) -> Iterator[Any]:
    """`count` results of trial(seed), leaving out the draws whose labels are all alike."""
    made = 0
    for attempt in range(_TRIES):
        for trial_seed in trial_seeds(seed, (attempt + 1) * count)[attempt * count :]:
            try:
                result = trial(trial_seed)
            except OneClassError:
                continue
            yield result
            made += 1
            if made == count:
                return
    raise ValueError("n must be larger for this prevalence: nearly every draw of the bags holds one class only")


def forecast_at(
    task: Task,
    training: Training,
    d: int,
    model: str = "attention",
    *,
    criterion: Criterion | str = "error",
    groups: int = GROUPS,
    points: int = POINTS,
    seed: int = 0,
) -> ForecastAt:
    """Forecast of `simulate(task, training, d, ...)`, averaged over data sets, at this d and not in the limit.

    Eq. (30) of docs/theory.md.

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
    groups : int
        Groups of like queries, of several hundred drawn, that the readout is solved for.
    points : int
        Draws per replicate and class of the law.
    seed : int
        Of the drawn steps.

    Returns
    -------
    ForecastAt
        The mean over data sets, and the limit beside it.

    Raises
    ------
    ValueError
        If the training is not staged, or leaves fewer than two bags for a stage.
    """
    query = check_model(model, SIMULATED).has_query
    if training.schedule != "staged":
        raise ValueError(
            f"schedule must be 'staged' for a forecast at given d, got {training.schedule!r}; simulate instead"
        )
    d, judged = whole_number("d", d, 2), Criterion.of(criterion)
    n0, n1 = round(training.alpha0 * d), round(training.alpha1 * d)
    if not query:
        n0, n1 = 0, n0 + n1 if training.equal_samples else n1
    if n1 < 2 or (query and n0 < 2):
        raise ValueError(f"alpha0 and alpha1 must give at least 2 bags each at d = {d}, got {n0} and {n1}")
    exact = training.but(alpha0=n0 / d if query else training.alpha0, alpha1=n1 / d)
    queries, draws = [(1.0, 0.0)], 1
    if query:
        draws = int(np.clip(_NUMBERS_OF_QUERIES // (n0 + d), 2 * groups, QUERIES))
        queries = like_queries(drawn_queries(task, exact, d, draws, seed), groups)
    near, parts = None, []
    for cosine, k in queries:
        law = law_of_model(task, model, cosine, k).on_draws(points)
        part, near = averaged_readout(law, n1, exact.alpha1, exact, judged, near)
        parts.append(part)
    losses = np.array([part.loss for part in parts])
    scatter = float(losses.std(ddof=1)) if len(losses) > 1 else 0.0
    loss = float(losses.mean())
    errors = scatter / math.sqrt(draws), float(np.mean([p.standard_error for p in parts])), remainder(loss, n1, d)
    limit = _in_the_limit(task, model, exact, judged, points, near)
    return ForecastAt(
        model, str(judged), n0, n1, d, judged.shown(loss), math.hypot(*errors),
        judged.shown(limit.loss), limit.standard_error, scatter,
    )  # fmt: skip


def _in_the_limit(
    task: Task, model: str, training: Training, criterion: Criterion, points: int, near: np.ndarray | None
) -> Measured:
    law = law_of_model(task, model)
    if check_model(model, SIMULATED).has_query:
        steps = alignment(task, training)
        law = law_of_model(task, model, steps.query_cosine, steps.sharpness).on_draws(points)
    return criterion.of_readout(solved(law, training.alpha1, training.ridge, training.loss, near))
