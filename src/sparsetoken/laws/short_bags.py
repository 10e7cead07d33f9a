"""A quadrature rule for softmax attention on short bags, in the place of draws.

Softmax weights do not change when all tokens of a bag move together. So only how the L tokens differ from their mean has to be
integrated over, L - 1 dimensions; along the query the mean itself is a Gaussian spread 1/sqrt(L) of T inside a node (`tau`).
What is left is an analytic function times a Gaussian density, for which the trapezoidal rule is best: its error falls
exponentially with the number of nodes. In several dimensions its nodes are a lattice. Here tokens are whole multiples of a
spacing h, taken up to a common shift (the lattice A*_{L-1}); it has the symmetry of the problem, so that tokens of a group need
to be visited in falling order only.

The sum of a node's whole numbers, modulo L, splits the nodes into L coarser lattices of the same form. They are the law's
replicates: each integrates by itself, and their scatter is the error of such a coarse rule, while all of them together are
far more accurate (twice the spacing's error against the error itself, at L = 2). Error bars are therefore on the safe side.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from .draws import TokenDraws, TokenGroup
from .nodes import ClassColumns, Population
from .statistics import drawn_population

MOST_TOKENS = 5  # of a bag: beyond, nodes suffice only where weights are nearly equal
MOST_NODES = 4096  # per class: from here on draws are as quick
# Spacing of a coarse lattice's shortest waves times the sharpness k. Weights and kappa^2 = sum_l p_l^2 are analytic up to
# imaginary differences of pi/(2 k) between two tokens, so that a coarse lattice errs by about exp(-9.9/this), and all nodes
# together by exp(-9.9/(h k)).
_WANTED = 0.75
_WIDEST = 1.3  # beyond, a coarse lattice knows three digits only
_FLAT = 1.6  # the same spacing, however small k: a coarse lattice still integrates the normal density to 1e-6
_OUTSIDE = 1e-10  # probability of the bags that are left out


class TokenNodes(NamedTuple):
    """Nodes of the rule.

    Attributes
    ----------
    draws : TokenDraws
        The tokens less their mean, (L, nodes of a coarse lattice, ...); lattices with fewer nodes are filled up.
    weight : ndarray (L, nodes)
        They sum to 1 in each coarse lattice; 0 where it was filled up.
    """

    draws: TokenDraws
    weight: np.ndarray


def ruled_population(
    length: int, sparsity: int, strength: float, prevalence: float, cosine: float, sharpness: float
) -> Population:
    """Softmax attention with a query of cosine gamma and inverse temperature k, on the nodes of the rule.

    Parameters
    ----------
    length, sparsity : int
        L and R.
    strength, prevalence, cosine, sharpness : float
        theta, pi, gamma and k.

    Returns
    -------
    Population
        Of L replicates.

    Raises
    ------
    ValueError
        Where there is no rule (`spacing_of`).
    """
    spacing = spacing_of(length, sparsity, sharpness)
    if spacing is None:
        raise ValueError(
            f"there is no rule of {MOST_NODES} nodes for length {length}, sparsity {sparsity}, k {sharpness:g}"
        )
    draws, weight = token_nodes(length, sparsity, spacing)
    drawn = drawn_population(draws, length, prevalence, strength, cosine, sharpness)
    tau = np.full((1, 1), length**-0.5)

    def columns(c: ClassColumns) -> ClassColumns:
        return c._replace(tau=tau, weight=weight)

    return Population(columns(drawn.positive), columns(drawn.negative), prevalence)


def spacing_of(length: int, sparsity: int, sharpness: float) -> float | None:
    """h for a sharpness: the one wanted, or a wider one that `MOST_NODES` suffice for; None without any."""
    if not 1 < length <= MOST_TOKENS or not sharpness > 0:
        return None
    finer = ((length - 1.0) / (2.0 * length)) ** 0.5  # from A_{L-1}, a coarse lattice, to A*_{L-1}
    wanted, widest = (finer * min(part / sharpness, _FLAT) for part in (_WANTED, _WIDEST))
    least = wanted * (_expected_nodes(length, sparsity, wanted) / MOST_NODES) ** (1.0 / (length - 1))
    spacing = max(wanted, least)
    return spacing if spacing <= widest else None


def _radius(length: int) -> float:
    """Distance of the tokens from their mean, as a vector, beyond which bags are left out."""
    return float(chdtri(length - 1, _OUTSIDE)) ** 0.5


def _expected_nodes(length: int, sparsity: int, spacing: float) -> float:
    """The ball's volume over that of the lattice's cell, over the orders that each group of tokens may have."""
    n = length - 1
    ball = math.pi ** (0.5 * n) / math.gamma(0.5 * n + 1.0) * (_radius(length) / spacing) ** n
    return ball * length**0.5 / (math.factorial(sparsity) * math.factorial(length - sparsity))


@lru_cache(maxsize=8)
def token_nodes(length: int, sparsity: int, spacing: float) -> TokenNodes:
    """The nodes for bags of `length` tokens of which `sparsity` carry the signal; read-only arrays, made once.

    Parameters
    ----------
    length, sparsity : int
        L and R.
    spacing : float
        h.

    Returns
    -------
    TokenNodes
    """
    others = length - sparsity
    farthest = (_radius(length) / spacing) ** 2
    span = int((2.0 * farthest) ** 0.5)  # two tokens are never farther apart
    # The common shift is used up by the lowest token of a group being 0; all groups are built in rising order.
    whole = np.zeros((1, 1), dtype=np.int64)
    for place in range(1, length):
        lowest = np.full(len(whole), -span) if place == others else whole[:, -1]
        count = span + 1 - lowest
        row = np.repeat(np.arange(len(whole)), count)
        value = lowest[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        whole = np.hstack([whole[row], value[:, None]])
        whole = whole[_squares(whole) <= farthest]
    weight = np.exp(-0.5 * spacing**2 * _squares(whole))
    for group in (whole[:, :others], whole[:, others:]):  # over the orders that leave a group as it is
        alike = np.ones(len(whole))
        for j in range(1, group.shape[1]):
            alike = np.where(group[:, j] == group[:, j - 1], alike + 1.0, 1.0)
            weight /= alike
    tokens = spacing * (whole - whole.mean(1, keepdims=True))
    lattice = whole.sum(1) % length
    rows = [np.flatnonzero(lattice == c) for c in range(length)]
    shape = (length, max(map(len, rows)))
    filled, weights = np.zeros((*shape, length)), np.zeros(shape)
    for c, row in enumerate(rows):
        filled[c, : len(row)] = tokens[row]
        weights[c, : len(row)] = weight[row] / weight[row].sum()
    zeros, normals = np.zeros(shape), np.zeros((*shape, 3))
    signal, noise = (TokenGroup(part, zeros, normals) for part in (filled[..., others:], filled[..., :others]))
    draws = TokenDraws(signal, noise, np.full(shape, 0.5))
    for array in (*draws.leaves(), weights):
        array.flags.writeable = False
    return TokenNodes(draws, weights)


def _squares(whole: np.ndarray) -> np.ndarray:
    """Sums of squared differences from the mean of each row."""
    return (whole**2).sum(1) - whole.sum(1) ** 2 / whole.shape[1]
