"""How well a classifier does on fresh bags: test error, sensitivity, specificity, balanced error and AUC, in closed form.

Given the few numbers that it depends on, the score of a fresh bag is Gaussian,

    score | y, M = M + D G,   G ~ N(0, 1),

and the classifier predicts +1 where it is positive. What is left is an average over the law of mean M and deviation D in each
class, held in independent replicates whose scatter gives the standard errors. Theory and simulation differ only in where the
law comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import minimize
from scipy.special import ndtr

from .._core.arrays import namespace
from .._core.averages import standard_error
from .._core.root_finding import least_on_grid
from ..losses import Loss
from ..trajectories import mistakes
from .populations import ClassColumns, Nodes, Population

MEASURES = ("test_error", "auc", "sensitivity", "specificity")  # of bag models, in this order
_ALL_PAIRS = 1 << 18  # pairs of a positive and a negative entry that are all compared: some ten milliseconds
# Steps of the integral over scores in units of the least deviation: exact to 1e-8. Scores farther than this many deviations
# from an entry's mean do not count.
_DENSITY_STEP, _DENSITY_REACH = 0.7, 6.5
# The means are sorted into bins of a sixth of the least deviation, the logarithms of the deviations into at
# most 16: the AUC is then right to some 3e-6, less than its standard error on thousands of draws (2e-5).
_MEANS_PER_DEVIATION, _DEVIATIONS, _DEVIATION_STEP = 6, 16, 0.01
_MOST_BINS = 1 << 21  # times the steps of the integral, or times the replicates


class ScoreLaw(NamedTuple):
    """The law of (M, D) in one class."""

    mean: np.ndarray
    deviation: np.ndarray
    weight: np.ndarray

    def average(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean of `values` over the entries of each replicate."""
        return np.sum(self.weight * values, axis=-1)


def point_law(mean: float, deviation: float) -> ScoreLaw:
    """A Gaussian score: one entry."""
    return ScoreLaw(np.array([[mean]]), np.array([[deviation]]), np.ones((1, 1)))


def above_zero(mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """P(mean + deviation G > 0), with ties split evenly where the deviation vanishes."""
    if np.min(deviation) > 0:
        return ndtr(mean / deviation)
    certain = np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0))
    return ndtr(np.divide(mean, deviation, out=certain, where=deviation > 0))


def fresh_measures(
    positive: ScoreLaw, negative: ScoreLaw, prevalence: float, with_auc: bool = True
) -> dict[str, np.ndarray]:
    """Measures on fresh bags from the score's law in either class, one value per replicate."""
    sensitivity = positive.average(above_zero(positive.mean, positive.deviation))
    specificity = negative.average(above_zero(-negative.mean, negative.deviation))
    measured = {
        "test_error": prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity),
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_error": 1.0 - 0.5 * (sensitivity + specificity),
    }
    return measured | {"auc": auc_within(positive, negative)} if with_auc else measured


def mean_and_scatter(replicates: np.ndarray) -> tuple[float, float]:
    """Mean over replicates and its standard error (0 for one replicate, which is exact)."""
    return float(np.mean(replicates)), standard_error(replicates, alone=0.0)


def shares_beaten(scores: np.ndarray, others: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """For each score the share of the others (by `weight`, which sums to 1) below it, ties counted half.

    Its mean over the scores is P(score > other), an AUC.
    """
    order = np.argsort(others)
    ranked = others[order]
    below = np.append(0.0, np.cumsum(np.full(len(others), 1.0 / len(others)) if weight is None else weight[order]))
    return 0.5 * (below[np.searchsorted(ranked, scores, "left")] + below[np.searchsorted(ranked, scores, "right")])


def auc_within(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """P(score of a positive > score of a negative) for each replicate: over all pairs when few, else by an integral from the
    entries' histogram, or by ranks of drawn scores where these are nearly certain."""
    (m1, s1, w1), (m0, s0, w0) = positive, negative
    n1, n0 = m1.shape[1], m0.shape[1]
    if n1 * n0 * max(len(m1), len(m0)) <= _ALL_PAIRS:
        above = above_zero(m1[:, :, None] - m0[:, None, :], np.hypot(s1[:, :, None], s0[:, None, :]))
        return (w1[:, :, None] * w0[:, None, :] * above).sum((1, 2))
    integrated = _auc_by_bins(positive, negative)
    return _auc_by_ranks(positive, negative) if integrated is None else integrated


def _auc_by_ranks(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray:
    """The AUC from one score drawn at every entry, over all pairs within each replicate."""
    rng = np.random.default_rng(0)
    rows = []
    for mean, deviation, weight in (positive, negative):
        if np.isinf(deviation).any():  # nothing but noise
            return np.full(len(mean), 0.5)
        rows.append((mean + deviation * rng.standard_normal(mean.shape), np.broadcast_to(weight, mean.shape)))
    return np.array([w1 @ shares_beaten(s1, s0, w0) for s1, w1, s0, w0 in zip(*rows[0], *rows[1])])


def _auc_by_bins(positive: ScoreLaw, negative: ScoreLaw) -> np.ndarray | None:
    """The AUC by the trapezoidal rule, from the histogram of (mean, log deviation) of each class; None where that is too large.

    An entry is divided between its two neighbouring means, less the variance that this adds to it, and among three
    neighbouring deviations by the weights of quadratic interpolation.
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
    table = np.zeros(replicates * count)
    for k, share in enumerate((0.5 * t * (t - 1.0), 1.0 - t * t, 0.5 * t * (t + 1.0))):
        for shift, weight in ((bins.means * k, lower), (bins.means * k + 1, upper)):
            table[shift:] += np.bincount(place, (share * weight).ravel(), len(table))[: len(table) - shift]
    return table.reshape(replicates, count)


def score_law(x: Any, columns: ClassColumns | Nodes) -> tuple[Any, Any]:
    """Mean and deviation of a trained readout's score at each entry (NumPy or JAX)."""
    xp = namespace(x, columns.T)
    m_q, m_u, log_nu, b, _ = (c[..., None] for c in xp.moveaxis(xp.asarray(x), -1, 0))
    mean = m_q * columns.T + m_u * columns.S + b
    deviation = xp.sqrt(m_q**2 * columns.tau**2 + columns.kappa**2 * (m_u**2 + xp.exp(2 * log_nu)))
    return mean, deviation


def score_laws(x: np.ndarray, population: Population) -> tuple[ScoreLaw, ScoreLaw]:
    """The law of a readout's score on fresh bags in the positive and in the negative class; `x` as in `score_law`."""
    positive, negative = (ScoreLaw(*score_law(x, c), c.weight) for c in (population.positive, population.negative))
    return positive, negative


def measures(loss: Loss, x: np.ndarray, population: Population, laws: Sequence[ScoreLaw]) -> dict[str, np.ndarray]:
    """Measures of a readout trained on a population, on fresh bags (`laws`, of either class) and training bags, for each
    replicate; x ends with log V."""
    steps = [np.exp(x[..., -1:]) * columns.kappa**2 for _, _, columns in population.classes()]
    positive, negative = zip(laws, steps)
    return trained_measures(loss, positive, negative, population.prevalence, population.label_noise)


def trained_measures(
    loss: Loss,
    positive: tuple[ScoreLaw, np.ndarray],
    negative: tuple[ScoreLaw, np.ndarray],
    prevalence: float,
    label_noise: float = 0.0,
) -> dict[str, np.ndarray]:
    """Measures of a trained readout from the law of its scores, the training error among them, one value per replicate."""
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


def logistic_shift(scores: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """c/a of the logistic regression of labels on a z + c, which adds to the bias: it minimises

    sum_i p_i log(1 + exp(-y_i (a z_i + c))),    p_i: weights that sum to one.
    """
    size = float(np.sqrt(weights @ scores**2)) or 1.0

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        margin = y * (x[0] * scores / size + x[1])
        slope = -weights * y * np.exp(-np.logaddexp(0.0, margin))
        return float(weights @ np.logaddexp(0.0, -margin)), np.array([slope @ scores / size, slope.sum()])

    # Scores unrelated to the labels leave the slope at its bound: the shift then predicts the larger class.
    options = {"ftol": 1e-14, "gtol": 1e-9}
    a, c = minimize(
        loss, [size, 0.0], jac=True, method="L-BFGS-B", bounds=[(1e-3, None), (None, None)], options=options
    ).x
    return float(c * size / a)


def best_bias(error: Callable[[float], Any], bias: float, scores: np.ndarray) -> tuple[float, float]:
    """Where the test error is least as a function of the bias, within the reach of the scores, and its value there."""
    reach = float(np.abs(scores).max())
    return least_on_grid(error, np.linspace(bias - reach, bias + reach, 17))  # it has one wide valley


def errors_by_bias(
    error: Callable[[float], float], bias: float, scores: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> dict[str, float]:
    """The least test error on fresh bags and that at the refitted bias, with these biases.

    `scores` are those of the training bags, each as if it had been left out; a bias adds to the score.
    """
    refitted = bias + logistic_shift(scores, y, weights)
    best, least = best_bias(error, bias, scores)
    return {
        "best_bias": best,
        "best_bias_error": least,
        "refitted_bias": refitted,
        "refitted_error": error(refitted),
        "leave_one_out_error": float(weights @ mistakes(scores, y)),
    }
