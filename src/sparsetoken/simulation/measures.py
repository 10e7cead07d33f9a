"""Test error and its relatives of one trained classifier: its score's law in each class, and the averages over it.

The law of the score given the class (see `laws.measures`) is exact for the linear classifiers; for attention it is integrated
over by randomised quasi-Monte-Carlo points (T, S, kappa). No test set is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from .._core.frozen import FrozenMapping
from .._core.replicates import standard_error
from ..laws.coloured import Query, Spectrum, coloured_law
from ..laws.measures import ScoreLaw, auc_across, auc_within, fresh_measures, mean_and_scatter, point_law
from ..laws.positions import draw_places, subset_law
from ..task import Task
from .samplers.reduced import mixture

# Independent randomisations of the point set: their spread gives the standard error.
REPLICATES = 8
# Points per replicate: as many as these numbers allow, at L numbers per point, between a least number that keeps the standard
# error of a test error near 1e-4 and one beyond which it is far below the spread between trials.
POINT_NUMBERS = 2**16
LEAST_POINTS, MOST_POINTS = 2**9, 2**12
# Normals held at a time (128 MB): with more, the points of a replicate come in parts.
HELD_NORMALS = 2**24
# Tokens that have quasi-random numbers in bags too long for a Sobol sequence of all.
SOBOL_TOKENS = 64
# Draws of the signal tokens' places per replicate when there are too many subsets to list.
PLACE_DRAWS = 2**12
# Draws per replicate of the law in coloured noise: standard errors of a test error near 1e-4.
COLOURED_POINTS = 2**9


@dataclass(frozen=True)
class Measures:
    """Population measures of one classifier, under the names of `results.ClassifierResult`.

    Attributes
    ----------
    test_error, standard_error : float
        P(wrong sign) on a fresh bag, and the standard error of its numerical integration.
    auc, sensitivity, specificity, balanced_error : float
        As named.
    errors : mapping
        Their standard errors.
    """

    test_error: float
    standard_error: float
    auc: float
    sensitivity: float
    specificity: float
    balanced_error: float
    errors: FrozenMapping[str, float]


def summarised(positive: ScoreLaw, negative: ScoreLaw, prevalence: float, auc: Callable = auc_within) -> Measures:
    """Means and standard errors over the replicates of both laws."""
    replicates = fresh_measures(positive, negative, prevalence, auc)
    pairs = {name: mean_and_scatter(values) for name, values in replicates.items()}
    errors = {name: error for name, (_, error) in pairs.items()}
    standard_error = errors.pop("test_error")
    return Measures(
        **{name: mean for name, (mean, _) in pairs.items()},
        standard_error=standard_error,
        errors=FrozenMapping(errors),
    )


def pooled_measures(task: Task, overlap: float, norm: float, bias: float) -> Measures:
    """<w, xbar> + b with overlap = <w, xi>: Gaussian in each class."""
    scale = norm / math.sqrt(task.length)
    shift = task.strength * task.sparsity / task.length * overlap
    return summarised(point_law(shift + bias, scale), point_law(bias, scale), task.prevalence)


def vectorized_measures(
    task: Task, overlaps: np.ndarray, norm: float, bias: float, rng: np.random.Generator
) -> Measures:
    """<W, X> + b with overlaps_l = <W_l, xi>: a mixture over the subsets the signal tokens may form."""
    law = subset_law(task)
    if law is None:
        places = draw_places(rng, task, REPLICATES * PLACE_DRAWS).reshape(REPLICATES, PLACE_DRAWS, -1)
        probability = np.full((1, PLACE_DRAWS), 1.0 / PLACE_DRAWS)
    else:
        places, probability = law[0][None], law[1][None]
    mean = task.strength * overlaps[places].sum(axis=-1) + bias
    positive = ScoreLaw(mean, np.full(mean.shape, norm), probability)
    return summarised(positive, point_law(bias, norm), task.prevalence)


def attention_measures(
    task: Task,
    cosine: float,
    sharpness: float,
    overlap_q: float,
    overlap_u: float,
    norm: float,
    bias: float,
    activation: Callable[[Any], Any] | None,
    rng: np.random.Generator,
) -> Measures:
    """Measures of <w, f_q(X)> + b for softmax or elementwise attention.

    Parameters
    ----------
    task : Task
        What the data is.
    cosine, sharpness : float
        gamma = cos(q, xi), and k = beta ||q||.
    overlap_q, overlap_u : float
        m_q and m_u, the coordinates of w along qhat and u.
    norm, bias : float
        ||w|| and b.
    activation : callable, optional
        Of elementwise attention; None for softmax.
    rng : numpy.random.Generator
        Randomises the points.

    Returns
    -------
    Measures
    """
    points = 2 ** int(math.log2(min(max(POINT_NUMBERS // task.length, LEAST_POINTS), MOST_POINTS)))
    rest = math.sqrt(max(0.0, norm**2 - overlap_q**2))
    mean, scale = np.empty((2, REPLICATES, points)), np.empty((2, REPLICATES, points))
    for k in range(REPLICATES):
        for which, t in _normals(rng, points, task.length):
            negative = mixture(task, t, False, cosine, sharpness, activation)
            t[:, : task.sparsity] += cosine * task.strength
            positive = mixture(task, t, True, cosine, sharpness, activation)
            for i, (big_t, s, kappa) in enumerate((positive, negative)):
                mean[i, k, which] = overlap_q * big_t + overlap_u * s + bias
                scale[i, k, which] = kappa * rest
    weight = np.full((1, points), 1.0 / points)
    laws = [ScoreLaw(mean[i], scale[i], weight) for i in range(2)]
    return summarised(laws[0], laws[1], task.prevalence, auc_across)


def _normals(rng: np.random.Generator, points: int, length: int) -> Iterator[tuple[slice, np.ndarray]]:
    """(which points, their L standard normals), in parts: a scrambled Sobol sequence.

    Sobol's sequence is tabulated for at most 21,201 coordinates. In longer bags it serves the leading tokens, the signal's
    among them, and the others have independent numbers: among so many alike, no single one matters.
    """
    leading = length if length <= qmc.Sobol.MAXDIM else SOBOL_TOKENS
    sobol = qmc.Sobol(leading, scramble=True, rng=rng)
    part = min(points, 2 ** max(0, int(math.log2(max(1, HELD_NORMALS // length)))))
    for first in range(0, points, part):
        normals = ndtri(np.clip(sobol.random(part), 1e-16, 1.0 - 1e-16))
        if leading < length:
            normals = np.hstack([normals, rng.standard_normal((part, length - leading))])
        yield slice(first, first + part), normals


def counted_measures(positive: np.ndarray, negative: np.ndarray, prevalence: float) -> Measures:
    """Measures from scores of test bags, each of which was scored with and without the signal.

    Parameters
    ----------
    positive, negative : ndarray (m,)
        Scores with and without the signal, bag by bag.
    prevalence : float
        pi = P(y = +1).

    Returns
    -------
    Measures
        With standard errors over bags.
    """
    missed, false = positive <= 0.0, negative > 0.0
    count = len(positive)
    order = np.sort(negative)
    below = 0.5 * (np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")) / count
    auc = float(below.mean())

    above = np.sort(positive)
    places = 0.5 * (np.searchsorted(above, negative, "left") + np.searchsorted(above, negative, "right")) / count
    wrong = prevalence * missed + (1.0 - prevalence) * false
    balanced = 0.5 * missed + 0.5 * false
    errors = {
        "auc": math.hypot(
            standard_error(below), standard_error(places)
        ),  # DeLong's variance, without the covariance of the pairs
        "sensitivity": standard_error(missed * 1.0),
        "specificity": standard_error(false * 1.0),
        "balanced_error": standard_error(balanced),
    }
    return Measures(
        test_error=float(wrong.mean()),
        standard_error=standard_error(wrong),
        auc=auc,
        sensitivity=float(1.0 - missed.mean()),
        specificity=float(1.0 - false.mean()),
        balanced_error=float(balanced.mean()),
        errors=FrozenMapping(errors),
    )


def coloured_measures(
    task: Task,
    w: np.ndarray,
    bias: float,
    signal: np.ndarray,
    root: np.ndarray,
    query: np.ndarray | None,
    activation: Callable[[Any], Any] | None,
) -> Measures:
    """Measures in Gaussian noise of covariance diag(root^2).

    Parameters
    ----------
    task : Task
        What the test bags are.
    w : ndarray (d,) or (L d,)
        The readout; with L d entries that of the vectorized model.
    bias : float
        b.
    signal, root : ndarray (d,)
        xi and the root of the noise's variances.
    query : ndarray (d,) or None
        beta q of the test; None for models without one.
    activation : callable, optional
        Of elementwise attention; None for softmax.

    Returns
    -------
    Measures
    """
    if len(w) > len(signal):
        tokens = w.reshape(task.length, -1)
        return vectorized_measures(
            task, tokens @ signal, float(np.linalg.norm(root * tokens)), bias, np.random.default_rng(0)
        )
    if query is None or not (root * query).any():  # all tokens alike, at a weight of sigma(0)/L
        level = 1.0 if query is None or activation is None else float(activation(np.zeros(1))[0])
        return pooled_measures(task, level * float(w @ signal), abs(level) * float(np.linalg.norm(root * w)), bias)
    law = coloured_law(task, Spectrum(root**2, signal), Query(query * signal, query**2), 1.0, activation)
    population = law.statistics.make_population(COLOURED_POINTS)
    a = root**2 * query / np.linalg.norm(root * query)
    along, across = float(w @ a), float(w @ signal)
    rest = math.sqrt(max(0.0, float(((root * w) ** 2).sum()) - along**2))  # sqrt(w^T Sigma' w)
    laws = [
        ScoreLaw(along * columns.T + across * columns.S + bias, rest * columns.kappa, columns.weight)
        for _, _, columns in population.classes()
    ]
    return summarised(laws[0], laws[1], task.prevalence, auc_across)
