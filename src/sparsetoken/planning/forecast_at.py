"""`forecast_at`: a criterion at given n and d, averaged over data sets (`theory.finite_size`), with its limit beside it.

What the average leaves out, of order 1/d, is part of the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.averages import standard_error
from .._core.frozen import Description
from .._core.validation import whole_number
from ..classifiers import SIMULATED, check_model
from ..laws.law import Law, law_of_model
from ..losses import Loss
from ..simulation.samplers.drawn_bags import OneClassError
from ..simulation.seeds import trial_seeds
from ..task import Task
from ..theory import ErmResult, WarmStart, alignment, erm
from ..theory.alignment import enough
from ..theory.finite_size import GROUPS, POINTS, SHARES, laws_at_size, readouts_at_shares, sample_sizes
from ..training import Training
from .criterion import Criterion, Measured

# Of queries drawn while settings are chosen, of those behind the reported forecast, and of simulated data sets.
SEARCH_SEED, REPORT_SEED, SIMULATION_SEED = 0, 1, 2


def solved(law: Law, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None) -> ErmResult:
    """The readout's limit on a law of fixed draws, started from a neighbour's fixed point."""
    return erm(law, alpha, ridge, loss, accuracy=1.0, warm_start=None if near is None else WarmStart(near))


def averaged_readout(
    law: Law, n: int, alpha: float, training: Training, criterion: Criterion, near: np.ndarray | None = None
) -> tuple[Measured, np.ndarray]:
    """A readout on n bags, averaged over the realised share of positives, and its fixed point as a start for neighbours."""
    shares = 129 if criterion.kind == "error" else SHARES  # the bias decides about the error as trained
    readouts = readouts_at_shares(law, n, alpha, training.ridge, training.loss, near, shares)
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
