"""From the tokens' coordinates along the query to (T, S, kappa), for softmax and elementwise attention: Eq. (7) and Eq. (22)
of docs/theory.md, in NumPy or JAX.

Everything needed of a bag is three sums over its tokens, of w, w t and w^2 for weights w not yet normalised; the theory adds
the sums over tokens that it does not draw one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import ROUNDING, namespace
from ..activations import Weighting
from .draws import TokenDraws, TokenGroup, truncated_normal_rule

Activation = Callable[[Any], Any]


class TokenSums(NamedTuple):
    """Sums over tokens of weights w that are not normalised yet: of w, of w t and of w^2."""

    weight: Any
    first: Any
    square: Any

    def plus(self, other: TokenSums) -> TokenSums:
        """Sums over both sets of tokens."""
        return TokenSums(*(a + b for a, b in zip(self, other)))


def bag_statistics(
    t: Any, signal: Any, strength: Any, cosine: Any, sharpness: Any, activation: Activation | None = None
) -> tuple[Any, Any, Any]:
    """(T, S, kappa) of bags given all their tokens."""
    xp = namespace(t, signal, strength, cosine, sharpness)
    weigh = _weighing(sharpness, activation, xp)
    top = t.max(axis=-1) if activation is None else None
    w = weigh(t, _column(top))
    total = _sums(w, t, xp)
    marked = w[..., signal].sum(-1) if isinstance(signal, slice) else (w * signal).sum(-1)
    return _normalised(total, marked, _across(strength, cosine, xp), t.shape[-1], activation, xp)


def statistics_of_classes(
    draws: TokenDraws,
    length: int,
    strength,
    cosine,
    sharpness,
    activation: Activation | None = None,
    shared: float = 0.0,
) -> list[tuple[Any, Any, Any]]:
    """(T, S, kappa) of drawn bags with the signal, and of the same tokens without it."""
    xp = namespace(strength, cosine, sharpness)
    weigh = _weighing(sharpness, activation, xp)
    across = _across(strength, cosine, xp)
    classes = []
    for shift, seen in ((cosine * strength, across), (0.0, 0.0 * across)):
        marked, total = _bag_sums(draws, shift, shared * draws.common if shared else 0.0, weigh, activation, xp)
        if activation is not None:
            # The floor, far below any other kappa L, keeps a bag whose activations all vanish a valid node.
            total = total._replace(square=xp.maximum(total.square, 1e-6**2))
        if shared:
            total = total._replace(square=total.square + (shared * total.weight) ** 2)
        classes.append(_normalised(total, marked.weight, seen, length, activation, xp))
    return classes


def signal_masses(draws: TokenDraws, strength, cosine, sharpness) -> tuple[Any, Any]:
    """The share of softmax attention that falls on the places of the signal tokens, in drawn bags."""
    xp = namespace(strength, cosine, sharpness)
    weigh = _weighing(sharpness, None, xp)
    sums = (_bag_sums(draws, shift, 0.0, weigh, None, xp) for shift in (cosine * strength, 0.0))
    positive, negative = (marked.weight / total.weight for marked, total in sums)
    return positive, negative


def _bag_sums(draws: TokenDraws, shift, common, weigh, activation, xp) -> tuple[TokenSums, TokenSums]:
    """Sums over the signal tokens, `shift` higher than drawn, and over all of them, where all share `common`."""
    groups = ((draws.signals, shift + common), (draws.others, common))
    if isinstance(activation, Weighting):
        return _whole_bag_sums(groups, weigh, xp)
    # Softmax weights are relative to the bag's largest token, so that no exponential overflows.
    top = _largest(groups, xp) if activation is None else None
    marked, rest = (_group_sums(group, moved, weigh, top, xp) for group, moved in groups)
    return marked, marked.plus(rest)


def bulk_sums(values, weights, group: TokenGroup, xp):
    """Sums of statistics over each draw's bulk tokens: Gaussian with their exact mean and covariance."""
    mean = values @ weights
    centred = values - mean[..., None]
    covariance = (centred * weights) @ xp.swapaxes(centred, -1, -2)
    # Scaled to unit diagonal, the factor stays stable when the statistics are nearly collinear.
    size = xp.sqrt(xp.diagonal(covariance, axis1=-2, axis2=-1)) + 1e-150
    m = mean.shape[-1]
    # The addition is for statistics that are collinear (k = 0).
    factor = xp.linalg.cholesky(covariance / size[..., :, None] / size[..., None, :] + ROUNDING * np.eye(m))
    count, normals = group.bulk[..., None], group.normals[..., :m]
    turned = normals @ factor.T if factor.ndim == 2 else (factor @ normals[..., None])[..., 0]
    return count * mean + xp.sqrt(count) * turned * size


def _weighing(k, activation: Activation | None, xp) -> Callable[[Any, Any], Any]:
    """(t, reference) -> weights that are not normalised: exp(k (t - reference)), or sigma(k t)."""
    if activation is None:
        return lambda t, reference: xp.exp(k * (t - reference))
    return lambda t, reference: activation(k * xp.asarray(t))


def _column(values):
    return None if values is None else values[..., None]


def _sums(w, t, xp) -> TokenSums:
    def dot(a, b):
        return xp.einsum("...l,...l->...", a, b)

    return TokenSums(w.sum(-1), dot(w, t), dot(w, w))


def _largest(groups, xp):
    """The largest token of each bag, or the ceiling of a bulk where that is higher."""
    tops = []
    for group, shift in groups:
        if group.tokens.shape[-1]:
            tops.append(xp.asarray(group.tokens).max(axis=-1) + shift)
        if group.has_bulk:
            tops.append(group.ceiling + shift)
    top = tops[0]
    for other in tops[1:]:
        top = xp.maximum(top, other)
    return top


def _group_sums(group: TokenGroup, shift, weigh, top, xp) -> TokenSums:
    """Sums over a group's tokens, each `shift` higher than drawn: a number, or one for each draw."""
    per_draw = np.ndim(shift) > 0
    by_node = shift[..., None] if per_draw else shift
    t = group.tokens + by_node
    if not group.has_bulk:
        return _sums(weigh(t, _column(top)), t, xp)
    present = xp.isfinite(group.tokens)
    t = xp.where(present, t, 0.0 if top is None else _column(top))
    explicit = _sums(xp.where(present, weigh(t, _column(top)), 0.0), t, xp)
    nodes, weights = truncated_normal_rule(group.ceiling)
    # In softmax the bulk is weighted relative to its ceiling first; the factor `drop` makes it relative to the bag's largest
    # token.
    w = weigh(nodes + by_node, group.ceiling + shift)
    sums = bulk_sums(xp.stack([w, (nodes + by_node) * w, w * w], axis=-2), weights, group, xp)
    weight, first, square = sums[..., 0], sums[..., 1], xp.maximum(sums[..., 2], 0.0)
    if top is not None:
        drop = weigh(group.ceiling + shift, top)
        weight, first, square = drop * xp.maximum(weight, 0.0), drop * first, drop**2 * square
    return explicit.plus(TokenSums(weight, first, square))


def _whole_bag_sums(groups, weigh, xp) -> tuple[TokenSums, TokenSums]:
    """Sums over the signal tokens and over all of them, where a token's weight depends on the whole bag."""
    parts = [group.tokens + (shift[..., None] if np.ndim(shift) else shift) for group, shift in groups]
    if any(group.has_bulk for group, _ in groups):
        raise ValueError("a user's weighting needs all tokens of a bag drawn one by one")
    t = xp.concatenate(parts, axis=-1)
    w, count = weigh(t, None), parts[0].shape[-1]
    return _sums(w[..., :count], t[..., :count], xp), _sums(w, t, xp)


def _across(strength, cosine, xp):
    """theta sqrt(1 - gamma^2), the signal's strength orthogonal to the query."""
    return strength * xp.sqrt(xp.maximum(1.0 - cosine**2, 0.0))


def _normalised(total: TokenSums, marked, across, length: int, activation: Activation | None, xp):
    """(T, S, kappa) of weights divided by their sum in softmax, by L elementwise."""
    scale = total.weight if activation is None else length
    return total.first / scale, across * marked / scale, xp.sqrt(total.square) / scale
