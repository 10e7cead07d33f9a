"""The separability threshold of several heads.

In the limit of separable data the prox of the fixed point (`theory.heads`) is that of the indicator of y r >= 0, whose
envelope is (-y h)_+^2/(2 tr(K V)). The equations are then those of a stationary point, in the readout's coordinates m, its
bias b and the two positive matrices Q and V, of

    1/alpha* = E[(-y h)_+^2 / tr(K V)] / tr(V^{-1} Q),     h = <m_T, T> + <m_S, S> + b + sqrt(tr(K (Q + m_S m_S^T))) G

which depends on neither the length of the readout nor that of V (both are held by adding (tr Q - 1)^2 + (tr V - 1)^2). For one
head V drops out and this is `theory.capacity`. The average over G is closed: with D^2 the variance and x = y M/D, it is
D^2 [(1 + x^2) Phi(-x) - x phi(x)].
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from scipy.optimize import minimize

from .._core.precision import in_double_precision
from ..laws.heads import HeadNodes, HeadsLaw
from .errors import ConvergenceError

_STEPS = 60  # of Newton's method, which takes some ten
_DONE = 1e-9  # gradient of log(1/alpha*) at a stationary point
_FLAT = 1e-10  # singular values of the Hessian, over the largest, below which a direction counts as flat
_LONGEST, _SHORTEST = 1.0, 1e-4  # longest step of any unknown, and least share of Newton's step
_ALIKE = 1e-9  # of K's size, added where heads are so much alike that its mean cannot be inverted


def _unpack(x: Any, H: int, D: int, E: int):
    below = H * (H + 1) // 2
    m_T, m_S, b, q, v = jnp.split(x, np.cumsum([H * D, H * E, 1, below]))
    rows = np.tril_indices(H)
    factors = [jnp.zeros((H, H)).at[rows].set(part) for part in (q, v)]
    return m_T.reshape(H, D), m_S.reshape(H, E), b[0], factors[0] @ factors[0].T, factors[1]


def _values(x, sizes: tuple[int, int, int], nodes: HeadNodes):
    """log(1/alpha*) of every replicate."""
    m_T, m_S, b, Q, factor = _unpack(x, *sizes)
    spread = Q + m_S @ m_S.T
    mean = jnp.einsum("bnij,ij->bn", nodes.T, m_T) + jnp.einsum("bnij,ij->bn", nodes.S, m_S) + b
    deviation = jnp.sqrt(jnp.einsum("bnij,ij->bn", nodes.K, spread))
    step = jnp.einsum("bnij,ij->bn", nodes.K, factor @ factor.T)
    ratio = nodes.y * mean / deviation
    density = jnp.exp(-0.5 * ratio**2) / jnp.sqrt(2 * jnp.pi)
    energy = deviation**2 * ((1 + ratio**2) * ndtr(-ratio) - ratio * density)
    solved = jax.scipy.linalg.cho_solve((factor, True), Q)
    return jnp.log((nodes.weight * energy / step).sum(1)) - jnp.log(jnp.trace(solved))


@partial(jax.jit, static_argnums=1)
def _pooled(x, sizes, nodes):
    # The mean over replicates of what is averaged, not of its logarithm.
    *_, Q, factor = _unpack(x, *sizes)
    held = (jnp.trace(Q) - 1.0) ** 2 + ((factor**2).sum() - 1.0) ** 2
    return jnp.log(jnp.mean(jnp.exp(_values(x, sizes, nodes)))) + held


_gradient = jax.jit(jax.grad(_pooled), static_argnums=1)
_hessian = jax.jit(jax.hessian(_pooled), static_argnums=1)


@in_double_precision
def heads_threshold(law: HeadsLaw, points: int, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """The stationary point on the law's draws of a level.

    Parameters
    ----------
    law : HeadsLaw
        Queries and signals.
    points : int
        Draws per replicate and class.
    start : ndarray or None
        The stationary point of another level.

    Returns
    -------
    tuple
        The unknowns, 1/alpha* of every replicate there, and the largest entry of the gradient of log(1/alpha*).
    """
    nodes = law.at(points)
    sizes = (law.heads, law.query_space.shape[1], law.signal_space.shape[1])
    x = _start(nodes, sizes) if start is None else start
    for _ in range(_STEPS):
        gradient = np.asarray(_gradient(x, sizes, nodes))
        if np.abs(gradient).max() <= _DONE:
            break
        # Heads that are alike leave directions that do not matter, which least squares does not touch.
        step = -np.linalg.lstsq(np.asarray(_hessian(x, sizes, nodes)), gradient, rcond=_FLAT)[0]
        scale, size = min(1.0, _LONGEST / np.abs(step).max()), np.linalg.norm(gradient)
        while scale > _SHORTEST and not np.linalg.norm(_gradient(x + scale * step, sizes, nodes)) < size:
            scale *= 0.5
        x = x + scale * step
    residual = float(np.abs(np.asarray(_gradient(x, sizes, nodes))).max())
    if not residual <= 100 * _DONE:
        raise ConvergenceError(f"capacity of {law.heads} heads: gradient {residual:.1e} after {_STEPS} Newton steps")
    return x, np.exp(np.asarray(_values(x, sizes, nodes))), residual


def _start(nodes: HeadNodes, sizes: tuple[int, int, int]) -> np.ndarray:
    """The solution for weights that overlap alike in all bags, K = E[K], with m and b at their minimum there."""
    H, D, E = sizes
    mean = np.einsum("bn,bnij->ij", nodes.weight, nodes.K) / len(nodes.K)
    mean = mean + _ALIKE * np.trace(mean) * np.eye(H)
    factor = np.linalg.cholesky(np.linalg.inv(mean))
    factor /= np.sqrt((factor**2).sum())  # trace 1
    rows = np.tril_indices(H)
    matrices = np.concatenate([factor[rows], factor[rows]])
    free = H * (D + E) + 1
    join = lambda m: np.concatenate([m, matrices])  # noqa: E731
    found = minimize(
        lambda m: float(_pooled(join(m), sizes, nodes)),
        np.zeros(free),
        jac=lambda m: np.asarray(_gradient(join(m), sizes, nodes))[:free],
        method="BFGS",
    )
    return join(found.x)
