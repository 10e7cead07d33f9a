"""Test measures of a bag model in the limit: a fresh bag depends on the overlaps, the Gram matrix and the bias alone.

Its fields are H = theta v m^T + U with independent rows N(0, C), m = Theta^T xi and C = Theta^T Theta. Where the score is
affine in some columns of H (a readout's), it is Gaussian given the others and its sign is averaged in closed form; where it
is affine in a common shift of one column (the log-mean-exp of the tied model), that shift is averaged so. Both are found by
trying, so a model of one's own profits as well. The rest is an average over scrambled Sobol points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy.special import ndtri
from scipy.stats import qmc

from .._core.precision import in_double_precision
from .dynamics import innovation_root

MEASURES = ("test_error", "auc", "sensitivity", "specificity")
# Points per class and replicate: counted signs need more of them than averaged ones.
SMOOTHED_POINTS, COUNTED_POINTS = 2**10, 2**13
# Beyond this many coordinates Sobol points are no more even, in pairs, than plain random numbers.
SOBOL_COORDINATES = 256
# Pairings of positive with negative points, for the AUC.
PAIRINGS = 4
# Width of the rounding that stands in for a jump where a counted sign is differentiated, in standard deviations of the score.
ROUNDING = 0.1


class Split(NamedTuple):
    """Which fields of a score are averaged in closed form.

    columns  in which the score is jointly affine
    shift    a column in whose common shift over the tokens it is affine, where there are no such columns
    """

    columns: tuple[int, ...]
    shift: int | None

    @property
    def counted(self) -> bool:
        """Whether nothing can be averaged in closed form."""
        return not self.columns and self.shift is None


@lru_cache(maxsize=64)
@in_double_precision
def split_of(score: Callable[..., Any], rank: int, length: int) -> Split:
    """Try at random fields which second differences of the score vanish; `score` is a function of (H, bias)."""
    rng = np.random.default_rng(0)
    H = jnp.asarray(rng.standard_normal((8, length, rank)))
    value = jax.jit(jax.vmap(lambda H: score(H, 0.3)))

    def affine(move: np.ndarray) -> bool:
        values = [np.asarray(value(H + size * move)) for size in (-1.5, 0.0, 1.5)]
        bend, change = values[0] - 2 * values[1] + values[2], values[2] - values[0]
        return bool((np.abs(bend) <= 1e-9 * (1.0 + np.abs(change))).all())

    columns: list[int] = []
    for column in reversed(range(rank)):
        move = np.zeros((8, length, rank))
        move[..., [*columns, column]] = rng.standard_normal((8, length, 1 + len(columns)))
        if affine(move):
            columns.append(column)
    if columns:
        return Split(tuple(sorted(columns)), None)
    for column in reversed(range(rank)):
        move = np.zeros((8, length, rank))
        move[..., column] = 1.0
        if affine(move):
            return Split((), column)
    return Split((), None)


class FreshDraws(NamedTuple):
    """Normals (2, r', L, points) of the fields drawn, for positive and negative bags, and places (L, points) of the signal."""

    normals: Any
    places: Any


def fresh_draws(rng: np.random.Generator, split: Split, rank: int, places: Callable[[int], np.ndarray]) -> FreshDraws:
    """One replicate's points; `places(count)` gives indicators (L, count) of the signal tokens of positive bags."""
    drawn = rank - len(split.columns)
    points = 1 if drawn == 0 else COUNTED_POINTS if split.counted else SMOOTHED_POINTS
    v = places(points)
    length = len(v)
    coordinates = drawn * length
    normals = np.zeros((2, coordinates, points))
    leading = min(coordinates, SOBOL_COORDINATES)
    for block in normals:
        if leading:
            u = qmc.Sobol(leading, scramble=True, rng=rng).random(points)
            block[:leading] = ndtri(np.clip(u, 1e-16, 1 - 1e-16)).T
        block[leading:] = rng.standard_normal((coordinates - leading, points))
    shaped: np.ndarray = normals.reshape(2, length, drawn, points).swapaxes(1, 2)
    shaped[0] = signal_first(shaped[0], v)
    return FreshDraws(shaped, v)


def signal_first(draws: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Draws (..., L, n) with the leading tokens' moved to the signal's places (L, n).

    The averages depend on the signal tokens most, and the leading coordinates of Sobol points are the most even ones.
    """
    order = np.argsort(np.argsort(-places, axis=0, kind="stable"), axis=0)
    return np.take_along_axis(draws, order.reshape(*[1] * (draws.ndim - 2), *order.shape), axis=-2)


def score_law(score: Any, split: Split, m: Any, gram: Any, bias: Any, theta: Any, normals: Any, places: Any) -> Any:
    """Mean and deviation of the score at each point, given the fields drawn; normals (r', L, points)."""
    r, length = gram.shape[0], places.shape[0]
    smooth = split.columns if split.shift is None else (split.shift,)
    order = np.array([c for c in range(r) if c not in smooth] + list(smooth), dtype=int)
    back = np.argsort(order)
    sorted_gram = gram[order][:, order]
    root, _ = innovation_root(sorted_gram, jnp.diag(sorted_gram))
    first = r - len(smooth)
    if split.shift is not None:
        normals = normals.at[-1].add(-normals[-1].mean(0))
    else:
        normals = jnp.concatenate([normals, jnp.zeros((len(split.columns), *normals.shape[1:]))])
    H = jnp.einsum("ca,aln->cln", root[back], normals) + theta * m[:, None, None] * places

    def of_bag(F):
        return score(F.T, bias)

    z, slope = jax.vmap(jax.value_and_grad(of_bag), -1, (0, -1))(H)
    slope = slope[order[first:]]
    F = root[first:, first:]
    if split.shift is not None:
        variance = (F[0, 0] * slope[0].sum(0)) ** 2 / length
    else:
        variance = (jnp.einsum("ca,cln->aln", F, slope) ** 2).sum((0, 1))
    return z, variance


def _above(mean: Any, variance: Any, rounding: Any) -> Any:
    """P(score > 0), ties counted half, for Gaussian scores; `rounding` is the width used where the variance is zero."""
    spread = variance > 0
    deviation = jnp.sqrt(jnp.where(spread, variance, 1.0))
    step = jnp.where(mean == 0, 0.5, jnp.where(mean > 0, 1.0, 0.0))
    # The value of the step with the slope of a rounded one: derivatives of a counted sign.
    rounded = ndtr(mean / jax.lax.stop_gradient(jnp.maximum(rounding, 1e-300)))
    step = step + rounded - jax.lax.stop_gradient(rounded)
    return jnp.where(spread, ndtr(jnp.where(spread, mean, 0.0) / deviation), step)


def fresh_measures(
    score: Any, split: Split, m: Any, gram: Any, bias: Any, theta: Any, pi: Any, draws: FreshDraws
) -> Any:
    """The `MEASURES` of one classifier, (4,), from its overlaps m (r,), Gram matrix (r, r) and bias."""
    law = lambda strength, normals: score_law(score, split, m, gram, bias, strength, normals, draws.places)  # noqa: E731
    (positive, v_positive), (negative, v_negative) = law(theta, draws.normals[0]), law(0.0, draws.normals[1])
    width = lambda z: ROUNDING * jnp.std(z) if split.counted else 0.0  # noqa: E731
    sensitivity = _above(positive, v_positive, width(positive)).mean()
    specificity = _above(-negative, v_negative, width(negative)).mean()
    error = pi * (1 - sensitivity) + (1 - pi) * (1 - specificity)
    # Every positive point is paired with `pairings` negative ones, spread evenly.
    points = positive.shape[0]
    pairings = min(PAIRINGS, points)
    partner = (np.arange(points) + np.arange(pairings)[:, None] * points // pairings) % points
    above = _above(positive - negative[partner], v_positive + v_negative[partner], width(positive))
    return jnp.stack([error, above.mean(), sensitivity, specificity])
