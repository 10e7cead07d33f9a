"""How well a classifier does on fresh bags: test error, sensitivity, specificity, balanced error and AUC, in closed form.

Once the few numbers that it really depends on are fixed, the score of a fresh bag is Gaussian,

    score | y, M = M + D G,   G ~ N(0, 1),

and the classifier says +1 where it is positive. What is left is an average over the law of mean M and deviation D in each
class, held in independent replicates whose scatter gives the standard errors. Theory and simulation differ only in where the
law comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import ndtr

from .._core.averages import standard_error
from ..losses import Loss
from .nodes import ClassColumns, Population

# What `measures` gives, in this order.
MEASURES = ("test_error", "train_error", "sensitivity", "specificity", "balanced_error", "auc")
# Pairs of a positive and a negative entry that are all compared; above, entries are paired at random. 2^18 pairs take some
# ten milliseconds.
_ALL_PAIRS = 1 << 18
# Steps of the integral over scores in units of the least deviation: exact to 1e-8. Scores farther than this many deviations
# from an entry's mean do not count.
_DENSITY_STEP, _DENSITY_REACH = 0.7, 6.5
# The means are sorted into bins of a sixth of the least deviation, the logarithms of the deviations into at
# most 16: the AUC is then right to some 3e-6, less than its standard error on thousands of draws (2e-5 if all were alike).
_MEANS_PER_DEVIATION, _DEVIATIONS, _DEVIATION_STEP = 6, 16, 0.01
_MOST_BINS = 1 << 21  # times the steps of the integral, or times the replicates
# Random pairings of the entries of a replicate: a second one lowers the variance, more hardly do.
PAIRINGS = 2


class ScoreLaw(NamedTuple):
    """The law of (M, D) in one class."""

    mean: np.ndarray
    deviation: np.ndarray
    weight: np.ndarray

    def average(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean of `values` over the entries of each replicate."""
        return np.sum(self.weight * values, axis=-1)


def point_law(mean: float, deviation: float) -> ScoreLaw:
    """A score that is Gaussian as it is: one entry."""
    return ScoreLaw(np.array([[mean]]), np.array([[deviation]]), np.ones((1, 1)))


def above_zero(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """P(mean + deviation G > 0), with ties split evenly where the deviation vanishes."""
    if np.min(deviation) > 0:
        return ndtr(mean / deviation)
    certain = np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0))
    return ndtr(np.divide(mean, deviation, out=certain, where=deviation > 0))


def fresh_measures(
    positive: ScoreLaw,
    negative: ScoreLaw,
    prevalence: float,
    auc: Callable[[ScoreLaw, ScoreLaw], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Measures on fresh bags from the score's law in either class, one value per replicate."""
    sensitivity = positive.average(above_zero(positive.mean, positive.deviation))
    specificity = negative.average(above_zero(-negative.mean, negative.deviation))
    return {
        "test_error": prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_error": 1.0 - 0.5 * (sensitivity + specificity),
        "auc": (auc or auc_within)(positive, negative),
    }


def mean_and_scatter(replicates: np.ndarray) -> tuple[float, float]:
    """Mean over replicates and its standard error (0 for one replicate, which is exact)."""
    return float(np.mean(replicates)), standard_error(replicates, alone=0.0)


def _wins(positive: tuple[Any, Any], negative: tuple[Any, Any]) -> np.ndarray:
    """P(score of a positive > score of a negative) for pairs of entries (mean, deviation)."""
    return above_zero(positive[0] - negative[0], np.hypot(positive[1], negative[1]))


def shares_beaten(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """For each score the share of the others that lie below it, ties counted half; their mean is P(score > other), an AUC."""
    ordered = np.sort(others)
    return 0.5 * (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")) / len(ordered)


def auc_within(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """P(score of a positive > score of a negative) for each replicate.

    All pairs when few; else the integral of the positive score's density times the negative score's distribution function,
    from the entries' histogram; random pairings where scores are nearly certain.
    """
    (m1, s1, w1), (m0, s0, w0) = positive, negative
    n1, n0 = m1.shape[1], m0.shape[1]
    if n1 * n0 * max(len(m1), len(m0)) <= _ALL_PAIRS:
        above = _wins((m1[:, :, None], s1[:, :, None]), (m0[:, None, :], s0[:, None, :]))
        return (w1[:, :, None] * w0[:, None, :] * above).sum((1, 2))
    integrated = _auc_by_bins(positive, negative)
    return _auc_of_pairs(positive, negative) if integrated is None else integrated


def _auc_of_pairs(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """The AUC from random pairs, each replicate's own: pairs that all share would leave an error that their scatter misses."""
    (m1, s1, w1), (m0, s0, w0) = positive, negative
    size = max(m1.shape[1], m0.shape[1])
    rng = np.random.default_rng(0)
    total = np.zeros(len(m1))
    for r in range(len(m1)):
        for _ in range(PAIRINGS):
            i, j = rng.permutation(size) % m1.shape[1], rng.permutation(size) % m0.shape[1]
            weight = np.broadcast_to(w1, m1.shape)[r, i] * np.broadcast_to(w0, m0.shape)[r, j]
            above = _wins((m1[r, i], s1[r, i]), (m0[r, j], s0[r, j]))
            total[r] += (weight * above).sum() / weight.sum() / PAIRINGS
    return total


def _auc_by_bins(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray | None:
    """The AUC by the trapezoidal rule, from the histogram of (mean, log deviation) of each class; None where that is too large.

    An entry is shared out among its two neighbouring means, less the variance that this adds to it, and among three
    neighbouring deviations by the weights of quadratic interpolation. All replicates then share one table of densities and
    distribution functions.
    """
    laws = (positive, negative)
    least, most = min(float(law.deviation.min()) for law in laws), max(float(law.deviation.max()) for law in laws)
    low, high = min(float(law.mean.min()) for law in laws), max(float(law.mean.max()) for law in laws)
    if not (least > 0 and np.isfinite(high - low) and np.isfinite(most)):
        return None
    width = least / _MEANS_PER_DEVIATION
    least *= (1.0 - 0.25 / _MEANS_PER_DEVIATION**2) ** 0.5  # midway between two means
    beyond = _DENSITY_REACH * most / width
    stride = max(1, int(_DENSITY_STEP * _MEANS_PER_DEVIATION))
    means, replicates = (high - low) / width + 2.0, len(positive.mean)
    span = float(np.log(most / least))
    deviations = int(np.clip(span / _DEVIATION_STEP + 1.0, 2, _DEVIATIONS)) + 1
    if not means * deviations * max(replicates, (means + 2.0 * beyond) / stride) <= _MOST_BINS:
        return None
    bins = _Bins(low, width, int(means), least, (deviations - 1) / span, deviations)
    sizes = bins.least * np.exp(np.arange(deviations) / bins.per)[:, None]
    z = np.arange(-int(beyond) - bins.means, bins.means + int(beyond) + 1) * width / sizes
    tables = np.exp(-0.5 * z * z) / (sizes * np.sqrt(2.0 * np.pi)), ndtr(z)
    density, below = (
        _histogram(law, bins)
        @ sliding_window_view(table, bins.means, axis=1)[:, ::stride, ::-1]
        .swapaxes(0, 1)
        .reshape(-1, bins.means * deviations)
        .T
        for law, table in zip(laws, tables)
    )
    return (density * below).sum(1) * (stride * width)


class _Bins(NamedTuple):
    """Where the means and deviations of a histogram lie."""

    low: float
    width: float
    means: int
    least: float
    per: float
    deviations: int


def _histogram(law: ScoreLaw, bins: _Bins) -> np.ndarray:
    """Weights by deviation and mean, (replicates, deviations * means)."""
    part = (law.mean - bins.low) * (1.0 / bins.width)
    at = part.astype(np.int64)
    part -= at
    upper = law.weight * part
    lower = law.weight - upper
    variance = law.deviation**2 - bins.width**2 * (part - part * part)
    t = np.log(variance * bins.least**-2.0) * (0.5 * bins.per)
    size = np.clip((t + 0.5).astype(np.int64), 1, bins.deviations - 2)
    t -= size
    replicates, count = len(at), bins.deviations * bins.means
    place = (at + bins.means * (size - 1) + count * np.arange(replicates)[:, None]).ravel()
    found = np.zeros(replicates * count)
    for k, share in enumerate((0.5 * t * (t - 1.0), 1.0 - t * t, 0.5 * t * (t + 1.0))):
        for shift, weight in ((bins.means * k, lower), (bins.means * k + 1, upper)):
            found[shift:] += np.bincount(place, (share * weight).ravel(), len(found))[: len(found) - shift]
    return found.reshape(replicates, count)


def score_law(x: np.ndarray, columns: ClassColumns) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of a trained readout's score at each entry of a class."""
    m_q, m_u, log_nu, b, _ = (c[..., None] for c in np.moveaxis(np.asarray(x), -1, 0))
    mean = m_q * columns.T + m_u * columns.S + b
    deviation = np.sqrt(m_q**2 * columns.tau**2 + columns.kappa**2 * (m_u**2 + np.exp(2 * log_nu)))
    return mean, deviation


def score_laws(x: np.ndarray, population: Population) -> tuple[ScoreLaw, ScoreLaw]:
    """The law of a readout's score on fresh bags in the positive and in the negative class; `x` as in `score_law`."""
    positive, negative = (ScoreLaw(*score_law(x, c), c.weight) for c in (population.positive, population.negative))
    return positive, negative


def measures(loss: Loss, x: np.ndarray, population: Population) -> np.ndarray:
    """The `MEASURES` of a readout trained on a population, fresh bags and training bags, for each replicate."""
    x = np.asarray(x)
    steps = [np.exp(x[..., 4:5]) * columns.kappa**2 for _, _, columns in population.classes()]
    positive, negative = zip(score_laws(x, population), steps)
    values = trained_measures(loss, positive, negative, population.prevalence, population.label_noise)
    return np.stack([values[name] for name in MEASURES], axis=-1)


def trained_measures(
    loss: Loss,
    positive: tuple[ScoreLaw, np.ndarray],
    negative: tuple[ScoreLaw, np.ndarray],
    prevalence: float,
    label_noise: float = 0.0,
) -> dict[str, np.ndarray]:
    """The `MEASURES` of a trained readout from the law of its scores, one value per replicate."""
    values = fresh_measures(positive[0], negative[0], prevalence)

    def wrong(label: float, law: ScoreLaw, step: np.ndarray) -> np.ndarray:
        # r has the wrong sign exactly when y h < step y l'(0; y)
        pull = label * float(loss.slope(np.zeros(1), np.array([label]))[0]) * step
        return law.average(above_zero(pull - label * law.mean, law.deviation))

    shares = []
    for label, (law, step) in ((1.0, positive), (-1.0, negative)):
        share = wrong(label, law, step)
        if label_noise:
            share = (1.0 - label_noise) * share + label_noise * wrong(-label, law, step)
        shares.append(share)
    return values | {"train_error": prevalence * shares[0] + (1 - prevalence) * shares[1]}
