"""Test measures of a bag model: no test set, only what a fresh bag depends on.

A classifier with directions Theta meets a fresh bag through its fields H = X Theta. They are

    H = theta v m^T + U,   rows of U independent N(0, C),   m = Theta^T xi,   C = Theta^T Theta,

v the indicator of the signal tokens (zero if y = -1): exact at every d, given (m, C, b). Where the score is affine in
some columns of H (the readout's, in the built-in models) it is Gaussian given the other columns, and its sign is averaged in
closed form; what is left is an average over randomised quasi-Monte-Carlo points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from .. import bag_models
from .._core.precision import double_precision
from ..bag_models import BagModel
from ..laws.measures import above_zero
from ..laws.positions import draw_places
from ..task import Task

# Independent randomisations of the points: their spread gives the standard errors.
REPLICATES = 8
# Points per replicate and class: where the sign of the score is averaged in closed form, 8 x 2^11 leave about 1e-4 of the test
# error; where it is counted, 8 x 2^14 leave about 3e-4. Seeds differ by far more.
SMOOTHED_POINTS, COUNTED_POINTS, LEAST_POINTS = 2**11, 2**14, 2**9
# Normals kept per class (32 MB, and no more than that again for the signal's places): long bags and many directions get fewer
# points, though never fewer than the least.
KEPT_NORMALS = 2**22
# Quasi-random coordinates; beyond these many their uniformity in pairs is no better than that of plain random numbers.
SOBOL_COORDINATES = 1000
# Scores drawn per point for the AUC, where a point leaves the score Gaussian: the AUC ranks whole scores.
SCORES_PER_POINT = 2
# Directions that differ from a combination of others by less than this (in units of their variance) are that combination.
DEGENERATE = 1e-12

TEST_MEASURES = ("test_error", "auc", "sensitivity", "specificity")

# Columns of H in which the built-in scores are affine. These scores also do not care about the order of the tokens.
AFFINE_COLUMNS: dict[Callable[..., Any], slice] = {
    bag_models.attention_score: slice(1, 2),
    bag_models.pooled_score: slice(0, 1),
    bag_models.heads_score: slice(1, None, 2),
    bag_models.gated_score: slice(2, 3),
    bag_models.two_layer_score: slice(3, 4),
    bag_models.thresholded_score: slice(1, 2),
    bag_models.tied_score: slice(0, 0),
}


class Measure(NamedTuple):
    """A test measure and the standard error of its numerical integration (0 where it is a closed form)."""

    value: float
    error: float


class FreshBags:
    """Points that stand for fresh bags of a task; `measures` evaluates a classifier on them.

    The same points serve every classifier that is asked about, so that differences between the steps of a training are far
    more precise than the values themselves.

    Parameters
    ----------
    task : Task
        What the bags are.
    model : BagModel
        The classifier's form. A model that is not built in may depend on the order of the tokens and has its errors counted.
    rng : numpy.random.Generator
        Randomises the points.
    """

    def __init__(self, task: Task, model: BagModel, rng: np.random.Generator):
        self.task, self.model = task, model
        columns = np.arange(model.rank)
        self.affine = columns[AFFINE_COLUMNS.get(model.score, slice(0, 0))]
        self.other = np.setdiff1d(columns, self.affine)
        coordinates = task.length * len(self.other)
        if coordinates == 0:  # the score is Gaussian as it is: one point says everything
            shape = (1, 1, task.length, 0)
        else:
            most = SMOOTHED_POINTS if len(self.affine) else COUNTED_POINTS
            points = min(max(KEPT_NORMALS // (REPLICATES * coordinates), LEAST_POINTS), most)
            shape = (REPLICATES, 2 ** int(math.log2(points)), task.length, len(self.other))
        # Each class has normals of its own: pairs of points are then pairs of independent bags, which the AUC needs.
        drawn = [_normals(rng, (*shape[:2], coordinates + 1)) for _ in range(2)]
        self.normals = [normals[..., 1:].reshape(shape) for normals in drawn]
        shifts = np.arange(SCORES_PER_POINT) / SCORES_PER_POINT
        self.residuals = [_standard_normal((ndtr(normals[..., :1]) + shifts) % 1.0) for normals in drawn]
        if model.score in AFFINE_COLUMNS:
            places = np.tile(np.arange(task.sparsity), (shape[0] * shape[1], 1))
        else:
            places = draw_places(rng, task, shape[0] * shape[1])
        signal = np.zeros((len(places), task.length))
        signal[np.arange(len(places))[:, None], places] = 1.0
        self.signal = signal.reshape(*shape[:2], task.length)

    def measures(self, overlap: np.ndarray, gram: np.ndarray, bias: float) -> dict[str, Measure]:
        """The `TEST_MEASURES` of the classifier with these overlaps m (r,), Gram matrix C (r, r) and bias."""
        (positive, positive_scale), (negative, negative_scale) = self._score_laws(overlap, gram, bias)
        sensitivity = above_zero(positive, positive_scale).mean(axis=1)
        specificity = above_zero(-negative, negative_scale).mean(axis=1)
        prevalence = self.task.prevalence
        error = prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity)
        if positive.size == 1:
            auc = above_zero(positive - negative, np.hypot(positive_scale, negative_scale))[:, 0]
        else:
            if len(self.affine):
                positive = (positive[..., None] + positive_scale[..., None] * self.residuals[0]).reshape(REPLICATES, -1)
                negative = (negative[..., None] + negative_scale[..., None] * self.residuals[1]).reshape(REPLICATES, -1)
            auc = np.array([_rank_auc(one, other) for one, other in zip(positive, negative, strict=True)])
        found = dict(zip(TEST_MEASURES, (error, auc, sensitivity, specificity), strict=True))
        return {name: _summary(replicates) for name, replicates in found.items()}

    def _score_laws(self, overlap: np.ndarray, gram: np.ndarray, bias: float) -> list[tuple[np.ndarray, np.ndarray]]:
        """For either class, mean and deviation of the score given the fields the points stand for."""
        root, regression, covariance = conditional_law(gram, self.affine, self.other)
        score_law = _compiled_score_law(self.model, tuple(self.affine.tolist()), tuple(self.other.tolist()))
        laws = []
        with double_precision():
            for strength, normals in zip((self.task.strength, 0.0), self.normals, strict=True):
                found = [
                    score_law(e, v, strength * overlap, root, regression, covariance, bias)
                    for e, v in zip(normals, self.signal, strict=True)
                ]
                laws.append((np.array([mean for mean, _ in found]), np.array([scale for _, scale in found])))
        return laws


def conditional_law(
    gram: np.ndarray, affine: np.ndarray, other: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How rows of N(0, gram) split: (root, regression, covariance).

    The `other` coordinates are root @ normals; given them, u, the `affine` ones have mean u @ regression and this covariance.
    Zero, parallel and otherwise dependent directions are allowed.
    """
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    unit = np.where(size > 0, size, 1.0)
    scaled = gram / np.outer(unit, unit)
    values, vectors = np.linalg.eigh(scaled[np.ix_(other, other)])
    kept = values > DEGENERATE
    root = (unit[other, None] * vectors) * np.sqrt(np.where(kept, values, 0.0))
    inverse = (vectors * np.divide(1.0, values, out=np.zeros_like(values), where=kept)) @ vectors.T
    across = scaled[np.ix_(other, affine)]
    regression = (inverse @ across) * unit[affine] / unit[other, None]
    rest = scaled[np.ix_(affine, affine)] - across.T @ inverse @ across
    return root, regression, rest * np.outer(unit[affine], unit[affine])


@lru_cache(maxsize=64)
def _compiled_score_law(model: BagModel, affine: tuple[int, ...], other: tuple[int, ...]) -> Callable[..., Any]:
    """Compiled (normals (P, L, r'), signal (P, L), theta m, root, regression, covariance, bias) -> mean and deviation."""
    import jax
    import jax.numpy as jnp

    columns = np.argsort(np.array([*other, *affine]))
    scores = jax.vmap(model, in_axes=(0, None))
    scores_and_slopes = jax.vmap(jax.value_and_grad(lambda H, bias: model(H, bias)), in_axes=(0, None))

    def score_law(e, v, shift, root, regression, covariance, bias):
        u = e @ root.T
        H = jnp.concatenate([u, u @ regression], axis=2)[:, :, columns] + v[:, :, None] * shift
        if not affine:
            score = scores(H, bias)
            return score, jnp.zeros_like(score)
        score, slope = scores_and_slopes(H, bias)
        slope = slope[:, :, np.array(affine)]
        variance = ((slope @ covariance) * slope).sum(axis=(1, 2))
        return score, jnp.sqrt(jnp.maximum(variance, 0.0))

    return jax.jit(score_law)


def _normals(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Standard normals (replicates, points, coordinates): scrambled Sobol points in each replicate."""
    _, points, coordinates = shape
    leading = min(coordinates, SOBOL_COORDINATES)
    normals = np.empty(shape)
    for block in normals:
        uniform = qmc.Sobol(leading, scramble=True, rng=rng).random(points)
        block[:, :leading] = _standard_normal(uniform)
        block[:, leading:] = rng.standard_normal((points, coordinates - leading))
    return normals


def _standard_normal(uniform: np.ndarray) -> np.ndarray:
    """Normals from uniforms, finite also where a uniform is 0."""
    return ndtri(np.clip(uniform, 1e-16, 1.0 - 1e-16))


def _rank_auc(positive: np.ndarray, negative: np.ndarray) -> float:
    """Share of all pairs in which the positive score is the larger, ties counted half."""
    positive, negative = np.sort(positive), np.sort(negative)  # sorted questions are answered from the cache
    below = np.searchsorted(negative, positive, "left") + np.searchsorted(negative, positive, "right")
    return float(below.mean()) / (2.0 * len(negative))


def _summary(replicates: np.ndarray) -> Measure:
    count = len(replicates)
    error = float(replicates.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return Measure(float(replicates.mean()), error)
