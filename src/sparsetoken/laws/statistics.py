"""From drawn tokens to a population of (T, S, kappa), for softmax and elementwise attention.

With t_l the tokens' coordinates along the query (shifted by gamma theta on the signal tokens when y = +1) and p_l the
attention weights,

    T = sum_l p_l t_l,   S = theta sqrt(1 - gamma^2) sum_{signal l} p_l,   kappa^2 = sum_l p_l^2.

The formulas run on NumPy numbers or, for derivatives, on JAX ones: `xp` follows from theta, gamma and k.
"""

from __future__ import annotations

import numpy as np

from .._core.arrays import namespace
from .draws import TokenDraws, truncated_normal_rule
from .nodes import ClassColumns, Population

KAPPA_FLOOR = 1e-6


def softmax_population(draws: TokenDraws, pi, theta, gamma, k) -> Population:
    """p = softmax(k t). Weights are computed relative to the bag's largest token, so that no exponential overflows."""
    xp = namespace(pi, theta, gamma, k)
    noise = xp.where(xp.isfinite(draws.noise), draws.noise, 0.0)
    absent = xp.where(xp.isfinite(draws.noise), 0.0, -np.inf)
    out_of_line = xp.sqrt(xp.maximum(1.0 - gamma**2, 0.0))
    columns = []
    for y, shift in ((1.0, gamma * theta), (-1.0, 0.0)):
        signal = xp.asarray(draws.signal + shift)
        top = signal.max(axis=-1)
        if noise.shape[-1]:
            top = xp.maximum(top, (noise + absent).max(axis=-1))
        if draws.has_bulk:
            top = xp.maximum(top, draws.ceiling)
        e_signal = xp.exp(k * (signal - top[..., None]))
        e_noise = xp.exp(k * (noise - top[..., None]) + absent)
        A0 = e_signal.sum(-1) + e_noise.sum(-1)
        A1 = (e_signal * signal).sum(-1) + (e_noise * noise).sum(-1)
        A2 = (e_signal**2).sum(-1) + (e_noise**2).sum(-1)
        if draws.has_bulk:
            t, weights = truncated_normal_rule(draws.ceiling)
            e = xp.exp(k * (t - draws.ceiling))
            sums = bulk_sums(xp.stack([e, t * e, e * e]), weights, draws, xp)
            drop = xp.exp(k * (draws.ceiling - top))
            A0 = A0 + drop * xp.maximum(sums[..., 0], 0.0)
            A1 = A1 + drop * sums[..., 1]
            A2 = A2 + drop**2 * xp.maximum(sums[..., 2], 0.0)
        S = theta * out_of_line * e_signal.sum(-1) / A0 if y > 0 else xp.zeros_like(A0)
        columns.append(_drawn(draws, A1 / A0, S, xp.sqrt(A2) / A0))
    return Population(columns[0], columns[1], pi)


def elementwise_population(activation, length: int, draws: TokenDraws, pi, theta, gamma, k) -> Population:
    """p_l = sigma(k t_l)/L."""
    xp = namespace(pi, theta, gamma, k)
    present = xp.isfinite(draws.noise)
    noise = xp.where(present, draws.noise, 0.0)
    out_of_line = xp.sqrt(xp.maximum(1.0 - gamma**2, 0.0))
    p_noise = xp.where(present, activation(k * noise), 0.0)
    N1, N2 = (p_noise * noise).sum(-1), (p_noise**2).sum(-1)
    if draws.has_bulk:
        t, weights = truncated_normal_rule(draws.ceiling)
        p = activation(k * xp.asarray(t))
        sums = bulk_sums(xp.stack([p * t, p * p]), weights, draws, xp)
        N1, N2 = N1 + sums[..., 0], N2 + xp.maximum(sums[..., 1], 0.0)
    columns = []
    for y, shift in ((1.0, gamma * theta), (-1.0, 0.0)):
        signal = xp.asarray(draws.signal + shift)
        p_signal = activation(k * signal)
        T = (N1 + (p_signal * signal).sum(-1)) / length
        S = theta * out_of_line * p_signal.sum(-1) / length if y > 0 else xp.zeros_like(T)
        # A bag whose activations all vanish has the feature zero; a floor on kappa keeps it a valid node.
        kappa = xp.sqrt(xp.maximum(N2 + (p_signal**2).sum(-1), KAPPA_FLOOR**2)) / length
        columns.append(_drawn(draws, T, S, kappa))
    return Population(columns[0], columns[1], pi)


def bulk_sums(values, weights, draws: TokenDraws, xp):
    """Sums of m statistics over each draw's bulk tokens, (B, P, m): Gaussian with their exact mean and covariance."""
    mean = values @ weights
    centred = values - mean[:, None]
    covariance = (centred * weights) @ centred.T
    # Scaled to unit diagonal, the factor stays stable when the statistics are nearly collinear.
    size = xp.sqrt(xp.diagonal(covariance)) + 1e-150
    m = len(mean)
    factor = xp.linalg.cholesky(covariance / size[:, None] / size[None, :] + 1e-12 * np.eye(m))
    count = draws.bulk[..., None]
    return count * mean + xp.sqrt(count) * (draws.normals[..., :m] @ factor.T) * size


def _drawn(draws: TokenDraws, T, S, kappa) -> ClassColumns:
    """Columns of equally weighted draws."""
    return ClassColumns(T, S, kappa, np.zeros((1, 1)), np.full((1, 1), 1.0 / T.shape[1]), draws.offset)
