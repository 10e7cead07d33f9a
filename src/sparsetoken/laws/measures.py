"""Error measures of a trained readout on a population: test error, sensitivity, specificity, AUC, training error.

At an entry of the population the score is Gaussian with mean m_q T + m_u S + b and deviation s; the classifier says +1 when it
is positive. All measures are closed forms there and are averaged over the entries of each replicate.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from ..losses import Loss
from .nodes import ClassColumns, Population

PAIRINGS = 2
_ALL_PAIRS = 1 << 18
MEASURES = ("test_error", "train_error", "sensitivity", "specificity", "balanced_error", "auc")


def score_law(x: np.ndarray, columns: ClassColumns) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of the score at each entry; x = (m_q, m_u, log nu, b, log V), or one such row a replicate."""
    m_q, m_u, log_nu, b, _ = (c[..., None] for c in np.moveaxis(np.asarray(x), -1, 0))
    mean = m_q * columns.T + m_u * columns.S + b
    deviation = np.sqrt(m_q**2 * columns.tau**2 + columns.kappa**2 * (m_u**2 + np.exp(2 * log_nu)))
    return mean, deviation


def measures(loss: Loss, x: np.ndarray, population: Population) -> np.ndarray:
    """The `MEASURES` of each replicate, (replicates, 6)."""
    x = np.asarray(x)
    right, trained_wrong, scores = [], [], []
    for label, _, columns in population.classes():
        mean, deviation = score_law(x, columns)
        right.append(columns.average(ndtr(label * mean / deviation)))
        # r has the wrong sign exactly when y h < V kappa^2 y l'(0; y)
        pull = label * float(loss.slope(0.0, label)) * np.exp(x[..., 4:5]) * columns.kappa**2
        trained_wrong.append(columns.average(ndtr((pull - label * mean) / deviation)))
        scores.append((mean, deviation))
    pi = population.prevalence
    sensitivity, specificity = right
    test_error = pi * (1 - sensitivity) + (1 - pi) * (1 - specificity)
    train_error = pi * trained_wrong[0] + (1 - pi) * trained_wrong[1]
    balanced = 1 - 0.5 * (sensitivity + specificity)
    auc = _auc(scores, population)
    return np.stack([test_error, train_error, sensitivity, specificity, balanced, auc], axis=-1)


def _auc(scores, population: Population) -> np.ndarray:
    """P(score of a positive > score of a negative) for each replicate: all pairs when few, else random pairings."""
    (m1, s1), (m0, s0) = scores
    w1, w0 = population.positive.weight, population.negative.weight
    n1, n0 = m1.shape[1], m0.shape[1]
    if n1 * n0 * len(m1) <= _ALL_PAIRS:
        above = ndtr((m1[:, :, None] - m0[:, None, :]) / np.sqrt(s1[:, :, None] ** 2 + s0[:, None, :] ** 2))
        return (w1[:, :, None] * w0[:, None, :] * above).sum((1, 2))
    rng = np.random.default_rng(0)
    size = max(n1, n0)
    total = np.zeros(len(m1))
    for _ in range(PAIRINGS):
        i, j = rng.permutation(size) % n1, rng.permutation(size) % n0
        weight = np.broadcast_to(w1, m1.shape)[:, i] * np.broadcast_to(w0, m0.shape)[:, j]
        above = ndtr((m1[:, i] - m0[:, j]) / np.sqrt(s1[:, i] ** 2 + s0[:, j] ** 2))
        total += (weight * above).sum(1) / weight.sum(1)
    return total / PAIRINGS
