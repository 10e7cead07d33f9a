"""Test error and its relatives in closed form: no test set.

Given a trained classifier, its output on a fresh bag is Gaussian once the few numbers it really depends on are fixed:

    output | y, M = M + Sigma G,   G ~ N(0, 1),

and what is left is an expectation over the law of (M, Sigma), one law a class: exact for the linear classifiers, over
randomised quasi-Monte-Carlo points (T, S, kappa) for attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from ..task import Task
from .samplers.positions import draw_places, subset_law
from .samplers.reduced import mixture

# Independent randomisations of the point set: their spread gives the standard error.
REPLICATES = 8
# Points a replicate: as many as these numbers allow, at L numbers a point.
POINT_NUMBERS = 2**16
LEAST_POINTS, MOST_POINTS = 2**9, 2**12
# Draws of the signal tokens' places when there are too many subsets to list.
PLACE_DRAWS = 2**12


@dataclass(frozen=True)
class OutputLaw:
    """The law of (M, Sigma) in one class: arrays (replicates, points), and the points' probabilities."""

    mean: np.ndarray
    scale: np.ndarray
    probability: np.ndarray


@dataclass(frozen=True)
class Measures:
    """Population measures of a classifier; `standard_error` that of `test_error` as an integral."""

    test_error: float
    standard_error: float
    auc: float
    sensitivity: float
    specificity: float
    balanced_error: float


def above_zero(mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """P(mean + scale G > 0), with ties split evenly when the scale vanishes."""
    certain = np.where(mean > 0, np.inf, np.where(mean < 0, -np.inf, 0.0))
    return ndtr(np.divide(mean, scale, out=certain, where=scale > 0))


def measures(positive: OutputLaw, negative: OutputLaw, prevalence: float) -> Measures:
    """Error P(y output <= 0), sensitivity P(output > 0 | +), specificity, balanced error and AUC from the two laws."""
    sensitivity = np.sum(positive.probability * above_zero(positive.mean, positive.scale), axis=-1)
    specificity = np.sum(negative.probability * above_zero(-negative.mean, negative.scale), axis=-1)
    error = prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity)
    count = len(error)
    return Measures(
        test_error=float(error.mean()),
        standard_error=float(error.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0,
        auc=_auc(positive, negative),
        sensitivity=float(sensitivity.mean()),
        specificity=float(specificity.mean()),
        balanced_error=float(1.0 - 0.5 * (sensitivity.mean() + specificity.mean())),
    )


def _auc(positive: OutputLaw, negative: OutputLaw) -> float:
    """P(output of a positive bag > output of a negative one), the two independent."""
    if negative.mean.shape[-1] == 1 or positive.mean.shape[-1] == 1:
        pairs = [(negative.mean, negative.scale)]
    else:  # pair every positive point with negative points of other replicates, which are independent of it
        pairs = [(np.roll(negative.mean, k, axis=0), np.roll(negative.scale, k, axis=0)) for k in (1, 2, 3)]
    wins = [
        np.sum(positive.probability * above_zero(positive.mean - mean, np.hypot(positive.scale, scale)), axis=-1).mean()
        for mean, scale in pairs
    ]
    return float(np.mean(wins))


def _point(mean: float, scale: float) -> OutputLaw:
    return OutputLaw(np.array([[mean]]), np.array([[scale]]), np.ones(1))


def pooled_measures(task: Task, overlap: float, norm: float, bias: float) -> Measures:
    """<w, xbar> + b with overlap = <w, xi>: Gaussian in each class."""
    scale = norm / math.sqrt(task.length)
    shift = task.strength * task.sparsity / task.length * overlap
    return measures(_point(shift + bias, scale), _point(bias, scale), task.prevalence)


def vectorized_measures(
    task: Task, overlaps: np.ndarray, norm: float, bias: float, rng: np.random.Generator
) -> Measures:
    """<W, X> + b with overlaps_l = <W_l, xi>: a mixture over the subsets the signal tokens may form."""
    law = subset_law(task)
    if law is None:
        places = draw_places(rng, task, REPLICATES * PLACE_DRAWS).reshape(REPLICATES, PLACE_DRAWS, -1)
        probability = np.full(PLACE_DRAWS, 1.0 / PLACE_DRAWS)
    else:
        places, probability = law[0][None], law[1]
    mean = task.strength * overlaps[places].sum(axis=-1) + bias
    positive = OutputLaw(mean, np.full(mean.shape, norm), probability)
    return measures(positive, _point(bias, norm), task.prevalence)


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
    """<w, f_q(X)> + b with w's overlaps with qhat and u; see `sampling.reduced.mixture` for (T, S, kappa)."""
    length = task.length
    points = 2 ** int(math.log2(min(max(POINT_NUMBERS // length, LEAST_POINTS), MOST_POINTS)))
    rest = math.sqrt(max(0.0, norm**2 - overlap_q**2))
    laws = []
    normals = np.empty((REPLICATES, points, length))
    for k in range(REPLICATES):
        uniform = qmc.Sobol(length, scramble=True, rng=rng).random(points)
        normals[k] = ndtri(np.clip(uniform, 1e-16, 1.0 - 1e-16))
    for positive in (True, False):
        t = normals
        if positive:
            t = normals.copy()
            t[..., : task.sparsity] += cosine * task.strength
        big_t, s, kappa = mixture(task, t, positive, cosine, sharpness, activation)
        mean = overlap_q * big_t + overlap_u * s + bias
        laws.append(OutputLaw(mean, kappa * rest, np.full(points, 1.0 / points)))
    return measures(laws[0], laws[1], task.prevalence)
