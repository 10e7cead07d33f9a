"""Test error and its relatives of one trained classifier: its score's law in each class, and the averages over it.

The law of the score given the class (see `laws.measures`) is exact for the linear classifiers; for attention it is integrated
over by randomised quasi-Monte-Carlo points (T, S, kappa). No test set is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import qmc

from .._core.frozen import FrozenMapping
from .._core.replicates import standard_error
from ..laws.coloured import Query, Spectrum, coloured_law
from ..laws.draws import standard_normals
from ..laws.measures import ScoreLaw, auc_across, auc_within, fresh_measures, mean_and_scatter, point_law, shares_beaten
from ..laws.positions import draw_places, subset_law
from ..task import Task
from .samplers.reduced import seen_statistics

# Independent randomisations of the point set: their spread gives the standard error.
REPLICATES = 8
# Points per replicate: as many as these numbers allow, at L numbers per point, between a least number that keeps the standard
# error of a test error near 1e-4 and one beyond which it is far below the spread between trials.
POINT_NUMBERS = 2**14
LEAST_POINTS, MOST_POINTS = 2**9, 2**10
# Sobol points are kept for further trials, up to this many numbers (4 MB): making them takes longer than a small trial's
# training.
KEPT_NUMBERS = 2**20
SOBOL_BITS = 30  # of each coordinate of the points that are kept
# Points per replicate that the rarest kind of bags gets.
LEAST_OF_KIND = 2**5
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


def classes_of(
    task: Task, parts: Sequence[tuple[float, ScoreLaw, ScoreLaw]], auc: Callable[[ScoreLaw, ScoreLaw], np.ndarray]
) -> Measures:
    """Measures on bags of several kinds.

    Parameters
    ----------
    task : Task
        Prevalence and contamination.
    parts : sequence of (float, ScoreLaw, ScoreLaw)
        Each kind's probability, and the law of the score with and without signal.
    auc : callable
        How entries are paired for bags of one kind.

    Returns
    -------
    Measures
    """
    positive = _side_by_side([(p, signal) for p, signal, _ in parts])
    negative = _side_by_side([(p, noise) for p, _, noise in parts])
    if task.contamination:
        negative = _side_by_side([(1.0 - task.contamination, negative), (task.contamination, positive)])
    if len(parts) == 1 and not task.contamination:
        return summarised(positive, negative, task.prevalence, auc)
    return summarised(positive, negative, task.prevalence, _auc_of_kinds)


def _side_by_side(parts: Sequence[tuple[float, ScoreLaw]]) -> ScoreLaw:
    if len(parts) == 1:
        return parts[0][1]
    replicates = max(len(law.mean) for _, law in parts)
    columns = [
        [np.broadcast_to(v, (replicates, law.mean.shape[1])) for v in (law.mean, law.deviation, p * law.weight)]
        for p, law in parts
    ]
    return ScoreLaw(*(np.concatenate(arrays, axis=1) for arrays in zip(*columns)))


def _auc_of_kinds(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """P(score of a positive > score of a negative), the negative entries being another replicate's, which are independent."""
    return auc_within(
        positive, ScoreLaw(*(np.roll(np.broadcast_to(v, negative.mean.shape), 1, axis=0) for v in negative))
    )


def pooled_measures(task: Task, overlap: float, norm: float, bias: float) -> Measures:
    """<w, xbar> + b with overlap = <w, xi>: Gaussian for each kind of bags, with and without signal."""
    rho, parts = task.correlation, []
    for L, R, theta, p in task.kinds:
        scale = norm * math.sqrt(rho + (1.0 - rho) / L)
        parts.append((p, point_law(theta * R / L * overlap + bias, scale), point_law(bias, scale)))
    return classes_of(task, parts, auc_within)


def vectorized_measures(
    task: Task, overlaps: np.ndarray, norm: float, bias: float, rng: np.random.Generator
) -> Measures:
    """<W, X> + b with overlaps_l = <W_l, xi>: a mixture over the subsets the signal tokens may form."""
    parts = []
    for kind in task.kinds:
        plain = task.single(kind)
        law = subset_law(plain)
        if law is None:
            places = draw_places(rng, plain, REPLICATES * PLACE_DRAWS).reshape(REPLICATES, PLACE_DRAWS, -1)
            probability = np.full((1, PLACE_DRAWS), 1.0 / PLACE_DRAWS)
        else:
            places, probability = law[0][None], law[1][None]
        mean = kind.strength * overlaps[places].sum(axis=-1) + bias
        parts.append((kind.probability, ScoreLaw(mean, np.full(mean.shape, norm), probability), point_law(bias, norm)))
    return classes_of(task, parts, auc_within)


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
    rho, rest = task.correlation, math.sqrt(max(0.0, norm**2 - overlap_q**2))
    own = math.sqrt(1.0 - rho)
    # What tokens share moves elementwise weights and has a coordinate of its own; softmax leaves it as a Gaussian in T.
    drawn = bool(rho) and activation is not None
    parts = []
    for length, sparsity, strength, probability in task.kinds:
        points = _points(length, probability)
        mean, scale = np.empty((2, REPLICATES, points)), np.empty((2, REPLICATES, points))
        for k in range(REPLICATES):
            for which, normals in _normals(rng, points, length + drawn):
                t, shared = (own * normals[:, 1:], math.sqrt(rho) * normals[:, 0]) if drawn else (own * normals, 0.0)
                for i, shift in enumerate((0.0, cosine * strength)):
                    t[:, :sparsity] += shift
                    along, across, kappa = seen_statistics(
                        t, shared, slice(sparsity), strength, cosine, sharpness, rho, activation
                    )
                    mean[i, k, which] = overlap_q * along + overlap_u * across * i + bias
                    scale[i, k, which] = (
                        kappa * rest if drawn or not rho else np.hypot(kappa * rest, overlap_q * math.sqrt(rho))
                    )
        weight = np.full((1, points), 1.0 / points)
        parts.append((probability, ScoreLaw(mean[1], scale[1], weight), ScoreLaw(mean[0], scale[0], weight)))
    return classes_of(task, parts, auc_across)


def _points(length: int, probability: float) -> int:
    """Points per replicate of bags of one kind, a power of two: fewer the longer and the rarer they are."""
    points = 2 ** int(math.log2(min(max(POINT_NUMBERS // length, LEAST_POINTS), MOST_POINTS)))
    return max(LEAST_OF_KIND, 2 ** math.ceil(math.log2(points * probability)))


def _normals(rng: np.random.Generator, points: int, length: int) -> Iterator[tuple[slice, np.ndarray]]:
    """(which points, their L standard normals), in parts: a scrambled Sobol sequence.

    Sobol's sequence is tabulated for at most 21,201 coordinates. In longer bags it serves the leading tokens, the signal's
    among them, and the others have independent numbers: among so many alike, no single one matters.
    """
    leading = length if length <= qmc.Sobol.MAXDIM else SOBOL_TOKENS
    part = min(points, 2 ** max(0, int(math.log2(max(1, HELD_NORMALS // length)))))
    kept = points * leading <= KEPT_NUMBERS
    # SciPy's own: with tens of thousands of coordinates `laws.sobol` holds several times its matrices.
    sobol = None if kept else qmc.Sobol(leading, scramble=True, rng=rng)
    if sobol is None:
        # In an order of their own, so that those at one place in two replicates are independent: the AUC pairs them.
        shift, order = rng.integers(2**SOBOL_BITS, size=leading, dtype=np.uint32), rng.permutation(points)
    for first in range(0, points, part):
        if sobol is None:
            integers = _sobol_integers(points, leading)[order[first : first + part]] ^ shift
            normals = standard_normals((integers + 0.5) / 2**SOBOL_BITS)
        else:
            normals = standard_normals(sobol.random(part))
        if leading < length:
            normals = np.hstack([normals, rng.standard_normal((part, length - leading))])
        yield slice(first, first + part), normals


@lru_cache(maxsize=8)
def _sobol_integers(points: int, coordinates: int) -> np.ndarray:
    """Scrambled Sobol points as integers of `SOBOL_BITS` bits; flipping random bits in each coordinate randomises them anew."""
    uniforms = qmc.Sobol(coordinates, scramble=True, bits=SOBOL_BITS, rng=np.random.default_rng(0)).random(points)
    return (uniforms * 2**SOBOL_BITS).astype(np.uint32)


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
    below, places = shares_beaten(positive, negative), shares_beaten(negative, positive)
    wrong = prevalence * missed + (1.0 - prevalence) * false
    balanced = 0.5 * missed + 0.5 * false
    errors = {
        # DeLong's variance, without the covariance of the pairs.
        "auc": math.hypot(standard_error(below), standard_error(places)),
        "sensitivity": standard_error(missed * 1.0),
        "specificity": standard_error(false * 1.0),
        "balanced_error": standard_error(balanced),
    }
    return Measures(
        test_error=float(wrong.mean()),
        standard_error=standard_error(wrong),
        auc=float(below.mean()),
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
        tokens = w.reshape(task.longest, -1)
        return vectorized_measures(
            task, tokens @ signal, float(np.linalg.norm(root * tokens)), bias, np.random.default_rng(0)
        )
    if query is None or not (root * query).any():  # all tokens alike, at a weight of sigma(0)/L
        level = 1.0 if query is None or activation is None else float(activation(np.zeros(task.longest))[0])
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
