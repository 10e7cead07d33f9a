"""`forecast_at`: a criterion at given n and d, averaged over data sets (`theory.finite_size`), with its limit beside it.

What the average leaves out, of order 1/d, is part of the standard error. Beside it, simulated training at this n and d: plans
combine it with the forecast, and for message passing at finite size it is the only forecast.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.averages import standard_error
from .._core.frozen import Description
from .._core.validation import whole_number
from ..bags.sums_per_bag import starts_of
from ..classifiers import SIMULATED, check_model, has_query
from ..laws.draws import with_shared_part
from ..laws.law import Law, law_of_model
from ..simulation import simulate
from ..simulation.samplers import sample_bags
from ..simulation.samplers.drawn_bags import OneClassError, draw_bags
from ..simulation.seeds import stream, trial_seeds
from ..task import Task
from ..theory import WarmStart, alignment, bayes_limit, erm
from ..theory.alignment import enough
from ..theory.finite_size import GROUPS, POINTS, SHARES, laws_at_size, readouts_at_shares, sample_sizes
from ..training import Training
from .criterion import Criterion, Measured

# Of queries drawn while settings are chosen, of those behind the reported forecast, and of simulated data sets.
SEARCH_SEED, REPORT_SEED, SIMULATION_SEED = 0, 1, 2
TRIALS = 8  # data sets that are simulated
AFFORDABLE = 2**25  # numbers n L d of a data set for message passing: 134 MB in single precision, and seconds per fit
TEST_BAGS = 20_000  # for message passing: they add a standard error of at most .0035 per draw


def readout_loss(
    law: Law, training: Training, criterion: Criterion, d: int | None = None, near: np.ndarray | None = None
) -> tuple[Measured, np.ndarray]:
    """A readout's loss on a law of fixed draws, in the limit or (with d) on n1 = alpha1 d bags, averaged over the realised
    share of positives; and its fixed point, from which neighbours start (`near`)."""
    if d is None:
        start = None if near is None else WarmStart(near)
        result = erm(law, training.alpha1, training.ridge, training.loss, accuracy=1.0, warm_start=start)
        return criterion.of_readout(result), result.fixed_point
    n = max(2, round(training.alpha1 * d))
    shares = 129 if criterion.kind == "error" else SHARES  # the bias decides about the error as trained
    readouts = readouts_at_shares(law, n, training.alpha1, training.ridge, training.loss, near, shares)
    losses = readouts.weights @ criterion.losses_at(readouts.x, readouts.population)  # one per replicate
    error = max(readouts.standard_error, standard_error(losses, alone=0.0))
    return Measured(float(losses.mean()), error), readouts.start


@dataclass(frozen=True)
class ForecastAt(Description):
    """A classifier's expected result with n0 + n1 bags in dimension d.

    Attributes
    ----------
    model : str
        A name of `classifiers.SIMULATED`.
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


def remainder(loss: float, n: int, d: int) -> float:
    """Standard error for the neglected terms of a forecast at given size, of relative order 1/d and 1/n."""
    return 2.0 * loss * math.hypot(1 / n, 1 / d)  # the factor is confirmed by benchmarks/plans.py


def with_both_classes(trial: Callable[[int], Any], count: int, seed: int) -> Iterator[Any]:
    """`count` results of trial(seed), leaving out the draws whose labels are all alike."""

    def drawn(attempt: int) -> Iterator[Any]:
        for trial_seed in trial_seeds(seed, (attempt + 1) * count)[attempt * count :]:
            with suppress(OneClassError):
                yield trial(trial_seed)

    return enough(drawn, count)


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
    """
    check_model(model, SIMULATED)
    d, judged = whole_number("d", d, 2), Criterion.of(criterion)
    n0, n1, exact = sample_sizes(training, model, d)
    steps, laws = laws_at_size(task, exact, model, d, groups, points, seed)
    draws = 1 if steps is None else len(steps.cosines)
    near, parts = None, []
    for law in laws:
        part, near = readout_loss(law, exact, judged, d, near)
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
    return readout_loss(law, training, criterion, near=near)[0]


def simulated_losses(task: Task, training: Training, d: int, model: str, criterion: Criterion) -> list[float]:
    """Losses of a classifier trained on `TRIALS` data sets of this size; none where they are too large to simulate."""
    n0, n1 = round(training.alpha0 * d) if has_query(model) else 0, round(training.alpha1 * d)
    features = n1 * min(n1, d * (task.longest if model == "vectorized" else 1))
    if max(features, n0 + d) > 10_000_000:  # numbers in the readout's features, or in the gradient steps
        return []
    results = with_both_classes(lambda s: simulate(task, training, d, s, model), TRIALS, SIMULATION_SEED)
    return [_loss(task, result, criterion) for result in results]


def _loss(task: Task, result: Any, criterion: Criterion) -> float:
    """The criterion's loss of a simulated classifier."""
    if criterion.kind == "error":
        return float(result.test_error)
    if criterion.kind == "auc":
        return 1.0 - float(result.auc)
    cosine, sharpness = (result.steps.query_cosine, result.steps.sharpness) if result.steps else (1.0, 0.0)
    law = law_of_model(task, result.model, float(np.clip(cosine, -1, 1)), sharpness).on_draws(8 * POINTS)
    x = np.array([result.m_q, result.m_u, math.log(max(result.nu, 1e-300)), result.bias, 0.0])
    return float(criterion.losses_at(x[None], law.at(law.first_points)[0]).mean())


def fewest_simulated_bags(task: Task) -> int:
    """n with eight expected bags of the rarer class: a draw then lacks a class once in thousands."""
    return math.ceil(8 / min(task.prevalence, 1 - task.prevalence))


def simulated_message_passing(task: Task, n: int, d: int, criterion: Criterion, draws: int) -> Measured | None:
    """Loss of `MessagePassingClassifier` on drawn bags of this size; None where it is not simulated.

    Only test errors are, and only from `fewest_simulated_bags` on.
    """
    if not criterion.weighs_prevalence or n < fewest_simulated_bags(task):
        return None
    return message_passing_error(task, n, d, SIMULATION_SEED, draws)


def message_passing_error(task: Task, n: int, d: int, seed: int, draws: int) -> Measured:
    """Mean test error of message passing on n bags in d dimensions, everything estimated from the bags.

    Data sets of more than `AFFORDABLE` numbers are replaced by data sets of the same n/d and L in fewer dimensions d', and
    error(d) = limit + (d'/d) (error(d') - limit), at least the limit.
    """
    shrink = min(1.0, (AFFORDABLE / (n * task.longest * d)) ** 0.5)
    small_d, small_n = max(2, round(shrink * d)), max(2, round(shrink * n))
    limit = bayes_limit(task, n / d).reachable_test_error
    gaps = [shrink * (_error_of_a_draw(task, small_n, small_d, seed + k) - limit) for k in range(draws)]
    loss = limit + float(np.mean(gaps))
    tested = shrink * math.sqrt(loss * (1 - loss) / (draws * TEST_BAGS))
    error = max(standard_error(np.array(gaps)), tested)
    return Measured(loss if shrink == 1.0 else max(loss, limit), math.hypot(error, remainder(loss, n, d)))


def _error_of_a_draw(task: Task, n: int, d: int, seed: int) -> float:
    """Test error of one fit, about the true label, on fresh bags of which only the product with the estimate is drawn."""
    from ..estimators import MessagePassingClassifier
    from ..estimators.base import TrainingWarning

    tokens, labels, signal = sample_bags(task, n, d, seed)
    model = MessagePassingClassifier(scale=False)
    with warnings.catch_warnings(action="ignore", category=TrainingWarning):  # a weak signal is expected here
        model.fit([bag.astype(np.float32) for bag in tokens], labels)
    weights, origin = _affine_field(model)
    bags = draw_bags(task, TEST_BAGS, seed + 2**32, "_test").in_order_of_length()
    starts = starts_of(bags.lengths.astype(np.intp))
    rng = stream(seed, "tokens_test")
    along = rng.standard_normal(int(bags.lengths.sum()))
    if task.correlation:
        for which, length in bags.by_length():
            rows = slice(starts[which.start], starts[which.start] + length * (which.stop - which.start))
            part = along[rows].reshape(-1, length, 1)
            along[rows] = with_shared_part(part, task.correlation).ravel()
    along *= float(np.linalg.norm(weights))
    owners, places, strength = bags.places(stream(seed, "places_test"))
    along[starts[owners] + places] += strength * float(signal @ weights)
    evidence = model.strength_ * (along - origin) - 0.5 * model.strength_**2 * model.overlap_
    odds = model.calibration_(model.side_ * model.prior_.posterior(evidence, starts)[0])
    return float(np.mean((odds > 0) != (bags.truth > 0)))


def _affine_field(model: Any) -> tuple[np.ndarray, float]:
    """(w, c) with <x, w> - c the field of a token x along the signal, scaled and whitened."""
    noise, scaler = model.noise_, model.scaler_
    assert noise is not None and scaler is not None  # whiten is True
    white = noise.whitening @ model.signal_
    weights = white / scaler.scale_
    return weights, float(scaler.mean_ @ weights + noise.mean @ white + model.ratio_.offset)


def mean_loss(losses: Sequence[float], scatter: float = 0.0) -> Measured:
    """Mean of simulated losses; `scatter` is the standard deviation between data sets by the forecast.

    A few trials of a skewed law have a small mean and a small deviation together, hence the larger of the two deviations.
    """
    deviation = max(float(np.std(losses, ddof=1)), scatter)
    return Measured(float(np.mean(losses)), deviation / math.sqrt(len(losses)))


def combined(forecast: Measured, simulated: Measured) -> Measured:
    """The mean of both, weighted by their errors; its error is scaled up where they differ by more than their errors."""
    errors = np.maximum([forecast.standard_error, simulated.standard_error], 1e-12)
    weights = errors**-2 / np.sum(errors**-2)
    loss = float(weights @ [forecast.loss, simulated.loss])
    tension = abs(forecast.loss - simulated.loss) / float(np.hypot(*errors))
    return Measured(loss, float(np.sum(errors**-2) ** -0.5) * max(1.0, tension))
