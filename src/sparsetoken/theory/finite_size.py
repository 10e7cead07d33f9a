"""Trained readouts at given n and d, where data sets differ: Eq. (30) of docs/theory.md, averaged over groups of like queries.

In coloured noise the query is more than its cosine and sharpness: pairs of a query and a share are drawn, and a readout is
solved for each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.special import expit, logit
from scipy.stats import binom

from .._core.averages import standard_error
from ..classifiers import Classifier, check_model
from ..deployment import Deployment
from ..laws.coloured import Query, Spectrum, coloured_law
from ..laws.error_measures import fresh_measures, score_laws
from ..laws.law import Law, law_of_model
from ..laws.populations import Population
from ..losses import Loss
from ..task import Task
from ..training import Training
from .alignment import AlignmentLaw, alignment, law_of_draws
from .capacity import capacity
from .coloured_alignment import draw_steps
from .fixed_point.erm import erm
from .fixed_point.plain import geometry, quick_readout

POINTS = 128  # draws per replicate and class: standard errors of about 5e-4
GROUPS = 12  # groups of like queries that the readout is solved for
DRAWS = 512  # of the two steps
FINEST = 64  # times as many draws, of both kinds, at the finest sampling
READOUT_MEASURES = (
    *("test_error", "standard_error", "auc", "sensitivity", "specificity", "balanced_error"),
    *("train_loss", "train_error", "norm_w", "bias"),
)
SHARES = 17  # shares of positives in D1 that measures other than the error are averaged over


def class_shares(n: int, prevalence: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Realised shares of positives among n bags and their probabilities, both classes being present."""
    low, high = binom.ppf([1e-6, 1 - 1e-6], n, prevalence)
    counts = np.arange(max(1, int(low)), min(n - 1, max(int(high), 1)) + 1)
    weight = binom.pmf(counts, n, prevalence)
    if not weight.sum() > 0:  # n bags hardly ever hold the rarer class: exactly one of it
        return np.array([(1.0 if prevalence < 0.5 else n - 1.0) / n]), np.ones(1)
    groups = np.array_split(np.arange(len(counts)), min(most, len(counts)))
    total = np.array([weight[g].sum() for g in groups])
    mean = [np.average(counts[g], weights=weight[g] if weight[g].sum() > 0 else None) for g in groups]
    return np.array(mean) / n, total / total.sum()


class ReadoutsAtShares(NamedTuple):
    """Readouts x = (m_q, m_u, log nu, b, log V) trained at the realised shares of D1 (shares, 5), the shares' probabilities,
    what they are tested on, the standard error of the fixed points' test error, and a start for neighbours."""

    x: np.ndarray
    weights: np.ndarray
    population: Population
    standard_error: float
    start: np.ndarray


def readouts_at_shares(
    law: Law, n: int, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None, most: int = SHARES
) -> ReadoutsAtShares:
    """A readout on n bags for each realised share of positives: (1/n) sum l + (ridge/2) ||w||^2, bias unpenalised."""
    seen = law.prevalence if law.task is None else law.task.observed_prevalence
    shares, weights = class_shares(n, seen, most)
    low, high = logit(shares[0]), logit(shares[-1])
    count = min(3, len(shares))  # between these shares the fixed point is a polynomial in the share's log-odds
    nodes = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(np.pi * (np.arange(count) + 0.5) / count)  # Chebyshev's
    middle = count // 2
    points, error = np.empty((count, 5)), 0.0

    def at_share(share: float) -> Law:
        return replace(law, make_population=lambda points: replace(law.make_population(points), training_share=share))

    for i in sorted(range(count), key=lambda i: abs(i - middle)):
        readout = quick_readout(at_share(float(expit(nodes[i]))), alpha, ridge, loss, near)
        points[i] = readout.x
        near, error = points[middle], max(error, readout.standard_error)
    x = BarycentricInterpolator(nodes, points)(logit(shares))
    return ReadoutsAtShares(x, weights, law.at(law.first_points)[0], error, points[middle])


def like_queries(cosines: np.ndarray, sharpnesses: np.ndarray, groups: int) -> np.ndarray:
    """Drawn queries sorted by their cosine and split into equal groups of neighbours: the mean (gamma, k) of each."""
    order = np.argsort(cosines)
    alike = max(3, math.ceil(200 * float(cosines.std())))  # cosines that differ by 0.01 hardly move the error
    parts = np.array_split(np.stack([cosines, sharpnesses], 1)[order], min(groups, alike, len(order)))
    return np.array([part.mean(0) for part in parts])


class SampleSizes(NamedTuple):
    """n0 (0 without a query) and n1, whole numbers, and the training with exactly these n/d."""

    n0: int
    n1: int
    training: Training


def sample_sizes(training: Training, model: str, d: int) -> SampleSizes:
    """Bags of the two steps and of the readout at this d."""
    if training.schedule != "staged":
        raise ValueError(
            f"schedule must be 'staged' for a forecast at given d, got {training.schedule!r}; simulate instead"
        )
    n0, n1, query = round(training.alpha0 * d), round(training.alpha1 * d), check_model(model).has_query
    if not query:
        n0, n1 = 0, n0 + n1 if training.equal_samples else n1
    if n1 < 2 or (query and n0 < 2):
        raise ValueError(f"alpha0 and alpha1 must give at least 2 bags each at d = {d}, got {n0} and {n1}")
    return SampleSizes(n0, n1, training.but(alpha0=n0 / d if query else training.alpha0, alpha1=n1 / d))


def laws_at_size(
    task: Task,
    training: Training,
    model: str,
    d: int,
    groups: int = GROUPS,
    points: int = POINTS,
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[AlignmentLaw | None, list[Law]]:
    """The law of the two steps at this d (None without a query), and the classifier's law for each group of like queries."""
    if not check_model(model).has_query:
        return None, [law_of_model(task, model).on_draws(points)]
    steps = alignment(task, training, d=d, draws=draws, seed=seed)
    queries = like_queries(np.clip(steps.cosines, -1.0, 1.0), training.beta * steps.norms, groups)
    return steps, [law_of_model(task, model, float(gamma), float(k)).on_draws(points) for gamma, k in queries]


def averaged_measures(
    task: Task, training: Training, model: str, d: int, refinement: int = 1
) -> tuple[AlignmentLaw | None, dict[str, float], dict[str, float], dict[str, float]]:
    """A classifier's measures on fresh bags at this d, on `refinement` times the usual draws: the steps, and means, standard
    errors and spreads over data sets."""
    _, n1, exact = sample_sizes(training, model, d)
    steps, laws = laws_at_size(task, exact, model, d, points=refinement * POINTS, draws=refinement * DRAWS)
    tables, near = [], None
    for law in laws:
        readouts = readouts_at_shares(law, n1, exact.alpha1, exact.ridge, exact.loss, near)
        near = readouts.start
        tables.append(_measures(readouts, law.parameters.get("cosine", 1.0)))
    means, errors, spread = {}, {}, {}
    for name in tables[0]:
        each = np.array([table[name] for table in tables])  # (groups, shares, replicates)
        averaged = np.average(each, axis=1, weights=readouts.weights).mean(0)
        means[name] = float(averaged.mean())
        variance = np.average((each - averaged) ** 2, axis=1, weights=readouts.weights).mean()
        spread[name] = math.sqrt(variance)
        drawn = 0.0 if steps is None else spread[name] / math.sqrt(len(steps.cosines))
        errors[name] = math.hypot(standard_error(averaged, alone=0.0), drawn)
    return steps, means, errors, spread


def _measures(readouts: ReadoutsAtShares, cosine: float) -> dict[str, np.ndarray]:
    """Measures of the readouts on fresh bags and their geometry, (shares, replicates) each."""
    rows = [fresh_measures(*score_laws(x, readouts.population), readouts.population.prevalence) for x in readouts.x]
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    shape = table["test_error"].shape
    return table | {name: np.broadcast_to(v[:, None], shape) for name, v in geometry(readouts.x, cosine).items()}


def coloured_measures(
    task: Task,
    training: Training,
    chosen: Classifier,
    spectrum: Spectrum,
    test: Deployment | None,
    with_capacity: bool,
    refinement: int = 1,
) -> tuple[AlignmentLaw | None, dict[str, float], dict[str, float], dict[str, float]]:
    """`averaged_measures` in coloured noise, at the covariance's dimension, of a readout that may be tested elsewhere."""
    d = spectrum.dimension
    n0, n1, exact = sample_sizes(training, chosen.name, d)
    rng = np.random.default_rng(0)
    shares = class_shares(n1, task.prevalence, n1)
    first_shares = class_shares(n0, task.prevalence, n0) if chosen.has_query else None
    # Draws of the law are common to all data sets: their error does not average out.
    accuracy = max(2e-4, 1e-3 / math.sqrt(refinement))
    rows, drawn, query = [], [], Query(spectrum.direction, np.ones(d))
    for _ in range(refinement * 64):  # data sets, of a readout each
        if first_shares is not None:
            w1, b1, q2 = draw_steps(task, exact, spectrum, n0, rng.choice(first_shares[0], p=first_shares[1]), rng)
            query, xi = Query(q2 * spectrum.direction, q2**2), spectrum.direction
            drawn.append([w1 @ xi, np.linalg.norm(w1), b1, q2 @ xi, np.linalg.norm(q2)])
        law = coloured_law(task, spectrum, query, exact.beta if chosen.has_query else 0.0, chosen.weighting)
        law = replace(law, training_share=float(rng.choice(shares[0], p=shares[1])))
        result = erm(law, exact.alpha1, exact.ridge, exact.loss, accuracy=accuracy)
        if test is not None:
            test.check_query(query.norm)
            result = result.on(law.elsewhere(test.bags, test.sharpness), test.bias_shift, accuracy=accuracy)
        row = {name: getattr(result, name) for name in READOUT_MEASURES}
        row |= {"overlap_w": result.overlap["w"], "cosine_w": result.cosine["w"]}
        rows.append(row | ({"capacity": capacity(law).alpha} if with_capacity else {}))
    table = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    sampling = float(table.pop("standard_error").mean())
    means = {name: float(values.mean()) for name, values in table.items()}
    spread = {name: float(values.std(ddof=1)) for name, values in table.items()}
    errors = {name: float(standard_error(values)) for name, values in table.items()}
    errors["test_error"] = math.hypot(errors["test_error"], sampling)
    return law_of_draws(np.array(drawn).T, d, n0, exact.beta) if drawn else None, means, errors, spread
