"""The populations of (T, S, kappa) behind the laws, as functions of the task's and the query's numbers.

They run on Python floats or, for derivatives, on JAX scalars: everything but the whole numbers L and R may be one.
"""

from __future__ import annotations

import numpy as np

from .._core.arrays import namespace
from .draws import TokenDraws, bytes_of_draws, draw_blocks, token_draws
from .nodes import ClassColumns, Population, gaussian_population
from .statistics import Activation, drawn_population

# Draws that are used, and kept, as a whole; larger ones pass a piece at a time. At this size they still fit beside each
# other in the draws' cache.
WHOLE_BYTES = 48 * 2**20


def pooled_population(length: int, sparsity: int, strength, prevalence) -> Population:
    """The mean of the tokens: kappa^2 = 1/L, T = theta R/L 1{y=+1} + g/sqrt(L), S = 0 (with qhat = xi)."""
    return gaussian_population(prevalence, strength * sparsity / length, 0.0 * strength, length**-0.5, length**-0.5)


def vectorized_population(length: int, sparsity: int, strength, prevalence) -> Population:
    """All L d coordinates: kappa = 1, T = theta R/sqrt(L) 1{y=+1} + g, in dimension L d."""
    return gaussian_population(prevalence, strength * sparsity / length**0.5, 0.0 * strength, 1.0, 1.0)


def uniform_attention_population(
    length: int, sparsity: int, strength, prevalence, cosine, level: float = 1.0
) -> Population:
    """Attention whose weights do not depend on the tokens (k = 0, or softmax at L = 1): the mean, seen from the query.

    Parameters
    ----------
    length, sparsity : int
        L and R.
    strength, prevalence, cosine : float
        theta, pi and gamma.
    level : float
        L times the weight of every token: 1 in softmax, sigma(0) elementwise.

    Returns
    -------
    Population
        One exact entry per class.
    """
    xp = namespace(strength, prevalence, cosine)
    mean, scale = level * strength * sparsity / length, abs(level) * length**-0.5
    across = xp.sqrt(xp.maximum(1.0 - cosine**2, 0.0))
    return gaussian_population(prevalence, cosine * mean, mean * across, scale, scale)


def attended_population(
    length: int,
    sparsity: int,
    strength,
    prevalence,
    cosine,
    sharpness,
    activation: Activation | None = None,
    *,
    draws: TokenDraws | None = None,
    points: int = 0,
) -> Population:
    """Attention with a query of cosine gamma and inverse temperature k, on drawn tokens.

    Parameters
    ----------
    length, sparsity : int
        L and R.
    strength, prevalence, cosine, sharpness : float
        theta, pi, gamma and k.
    activation : callable, optional
        sigma of elementwise attention; softmax without one.
    draws : TokenDraws, optional
        The drawn tokens; by default those of `points`.
    points : int
        Draws per replicate, where no `draws` are given. However many, at most `WHOLE_BYTES` of tokens (and a few times that
        while they are computed with) are held at once.

    Returns
    -------
    Population
        Equally weighted draws in `REPLICATES` replicates.
    """
    given = (length, prevalence, strength, cosine, sharpness, activation)
    if draws is None and bytes_of_draws(length, sparsity, points) <= WHOLE_BYTES:
        draws = token_draws(length, sparsity, points, ordered=True)
    if draws is not None:
        return drawn_population(draws, *given)
    rows = [
        _joined([drawn_population(piece, *given) for piece in replicate], 1)
        for replicate in draw_blocks(length, sparsity, points)
    ]
    return _joined(rows, 0)


def _joined(parts: list[Population], axis: int) -> Population:
    """Populations of equally weighted draws, one behind the other: further draws (axis 1) or further replicates (axis 0)."""

    def columns(pieces: list[ClassColumns]) -> ClassColumns:
        T, S, kappa, offset = (
            np.concatenate([np.broadcast_to(getattr(piece, name), piece.T.shape) for piece in pieces], axis=axis)
            for name in ("T", "S", "kappa", "offset")
        )
        return ClassColumns(T, S, kappa, np.zeros((1, 1)), np.full((1, 1), 1.0 / T.shape[1]), offset)

    positive, negative = (columns([getattr(p, label) for p in parts]) for label in ("positive", "negative"))
    return Population(positive, negative, parts[0].prevalence)
