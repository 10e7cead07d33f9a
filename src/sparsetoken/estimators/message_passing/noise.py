"""The noise of the tokens, estimated from bags without signal, and tokens made white by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ...bags.bags import Bags
from ...bags.scratch import row_blocks, rowwise

# Shares of the identity in the covariance to choose from: at most a factor of two or so apart where it matters, down to
# where rounding errors of the smallest variances begin.
SHRINKAGES = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
# Variances below this share of the largest one are rounding errors of zero.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Noise:
    """x -> (x - mean) @ whitening, or (x - mean) / scale where whitening is None.

    Attributes
    ----------
    mean : ndarray
        Of the noise.
    whitening : ndarray or None
        Symmetric inverse root of the covariance.
    scale : float
        Standard deviation, where nothing else is whitened.
    shrinkage : float
        The share of the identity in the covariance (1: nothing to whiten).
    """

    mean: np.ndarray
    whitening: np.ndarray | None
    scale: float
    shrinkage: float

    def whitened(self, tokens: Any) -> Any:
        """The tokens (NumPy's or JAX's) with this noise made white."""
        dtype = tokens.dtype
        mean, scale = self.mean.astype(dtype), dtype.type(self.scale)
        matrix = None if self.whitening is None else self.whitening.astype(dtype)

        def white(x):
            return (x - mean) / scale if matrix is None else (x - mean) @ matrix

        return rowwise(white, tokens, tokens.shape[1], dtype)

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """The whitening times a vector, or times each column of a matrix."""
        return vectors / self.scale if self.whitening is None else self.whitening @ vectors

    transposed_times = times  # the whitening is symmetric


@dataclass(frozen=True)
class TriangularNoise:
    """x -> whitening (x - mean) with a triangular whitening: `Noise` up to a rotation, which messages do not feel.

    A triangle takes a tenth of the time of a symmetric root.

    Attributes
    ----------
    mean : ndarray
        Of the noise.
    whitening : ndarray
        The inverse of the covariance's lower triangular root.
    shrinkage : float
        The share of the identity in the covariance.
    """

    mean: np.ndarray
    whitening: np.ndarray
    shrinkage: float

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """The whitening times a vector, or times each column of a matrix."""
        return self.whitening @ vectors

    def transposed_times(self, vectors: np.ndarray) -> np.ndarray:
        """The transposed whitening times a vector, or times each column of a matrix."""
        return self.whitening.T @ vectors


@dataclass(frozen=True)
class FewTokensNoise:
    """`Noise` of fewer tokens than features: whitening = scale^-1 I + directions^T diag(gains) directions.

    Attributes
    ----------
    mean : ndarray
        Of the noise.
    scale : float
        Standard deviation along directions in which the tokens do not vary.
    directions : ndarray of shape (rank, features)
        Orthonormal directions in which they do.
    gains : ndarray of shape (rank,)
        Inverse standard deviations along these, less 1 / scale.
    shrinkage : float
        The share of the identity in the covariance.
    """

    mean: np.ndarray
    scale: float
    directions: np.ndarray
    gains: np.ndarray
    shrinkage: float

    def times(self, vectors: np.ndarray) -> np.ndarray:
        """The whitening times a vector, or times each column of a matrix."""
        along = self.directions @ vectors
        return vectors / self.scale + self.directions.T @ (self.gains * along.T).T

    transposed_times = times  # the whitening is symmetric

    def dense(self) -> Noise:
        """The same noise with its whitening as a matrix."""
        whitening = self.directions.T @ (self.gains[:, None] * self.directions)
        whitening[np.diag_indices(len(self.mean))] += 1.0 / self.scale
        return Noise(self.mean, whitening, 1.0, self.shrinkage)


AnyNoise = Noise | TriangularNoise | FewTokensNoise


class WhitenedTokens:
    """Tokens with their noise made white, for products with vectors alone: x -> W (x - mean) is never computed.

    Parameters
    ----------
    tokens : array of shape (tokens, d)
        The tokens as they are, NumPy's or JAX's, not far from their mean in units of the noise.
    noise : Noise, TriangularNoise or FewTokensNoise
        Their noise.
    """

    __array_ufunc__ = None  # an array on the left leaves the product to this class

    def __init__(self, tokens: Any, noise: AnyNoise):
        self.tokens, self.noise = tokens, noise
        self.shape, self.dtype = tokens.shape, tokens.dtype

    def __len__(self) -> int:
        return len(self.tokens)

    def __matmul__(self, vectors: np.ndarray) -> Any:
        white = self.noise.transposed_times(vectors.astype(np.float64))
        return self.tokens @ white.astype(self.dtype) - (self.noise.mean @ white).astype(self.dtype)

    def __rmatmul__(self, weights: Any) -> np.ndarray:
        total = np.asarray(weights @ self.tokens, dtype=np.float64)
        return self.noise.times(total - float(weights.sum(dtype=np.float64)) * self.noise.mean)


def whitened_bags(noise: Noise | None, bags: Bags) -> Bags:
    """The bags with this noise made white; as they are where there is none."""
    return bags if noise is None else bags.with_tokens(noise.whitened(bags.tokens))


def centred_bags(bags: Bags, center: np.ndarray) -> Bags:
    """The bags with this point taken off every token."""
    shift = center.astype(bags.dtype)
    return bags.with_tokens(rowwise(lambda tokens: tokens - shift, bags.tokens, bags.n_features, bags.dtype))


def single_bags(bags: Bags) -> Bags:
    """The bags with their tokens in single precision; themselves where they are already."""
    if bags.dtype == np.float32:
        return bags
    return bags.with_tokens(rowwise(lambda tokens: tokens, bags.tokens, bags.n_features, np.float32))


def estimate_noise(tokens: Any) -> Noise:
    """The noise of these tokens, as `NoiseTokens` estimates it.

    Parameters
    ----------
    tokens : array of shape (tokens, features)
        NumPy's or JAX's.

    Returns
    -------
    Noise
        In double precision.
    """
    return NoiseTokens(tokens).noise()


class NoiseTokens:
    """Tokens taken to be noise: their mean and shrunk covariance  C = (1 - s) S + s tr(S)/d I, of all or without some.

    The share s is the one at which the covariance of one half of the tokens makes the other half likeliest:
    max over s of  -(1/2) sum_j [log c_j + a_j / c_j],  c_j the eigenvalues of C, a_j the other half's variances along
    its eigenvectors. White noise is thus left alone however few its tokens, while directions of little noise, the ones
    that matter most, keep their size where the tokens are many. The halves are every second token and the others.

    Sums of products are made once, over features or, where these are more than the tokens, over tokens: what remains
    without some of the tokens follows from them and those few.

    Parameters
    ----------
    tokens : array of shape (tokens, features)
        NumPy's or JAX's.
    """

    def __init__(self, tokens: Any):
        n = len(tokens)
        self.tokens = tokens
        self.center = np.asarray(sum(tokens[block].sum(axis=0, dtype=np.float64) for block in row_blocks(tokens))) / n
        self._sums: list[_Sums] | None = None
        self._products: tuple[np.ndarray, np.ndarray] | None = None

    def noise(self) -> Noise:
        """Of all tokens."""
        n, d = self.tokens.shape
        found = _of_sums(self._all_sums(), self.center) if n > d else self._of_few(np.arange(n))
        return found.dense() if isinstance(found, FewTokensNoise) else found

    def without(self, rows: np.ndarray, shrinkage: float) -> AnyNoise:
        """Of all tokens but these, at a given share of the identity.

        Parameters
        ----------
        rows : ndarray of int
            Numbers of the tokens to leave out, not all of them.
        shrinkage : float
            The share s, such as that of all tokens. It is one of a dozen numbers, and choosing it anew without a few of the
            tokens takes an eigendecomposition.

        Returns
        -------
        Noise, TriangularNoise or FewTokensNoise
            In double precision.
        """
        n, d = self.tokens.shape
        if n <= d:
            return self._of_few(np.delete(np.arange(n), rows), shrinkage)
        step = next(row_blocks(self.tokens)).stop
        blocks, halves, left = [rows[i : i + step] for i in range(0, len(rows), step)], self._all_sums(), n - len(rows)
        if shrinkage == 1.0:  # the variances' sum is all that is asked for
            total, squares = halves[0].total + halves[1].total, sum(float(np.trace(half.products)) for half in halves)
            for block in blocks:
                x = np.asarray(self.tokens[block] - self.center)
                total, squares = total - x.sum(axis=0), squares - float(np.einsum("ij,ij->", x, x))
            average = (squares - float(total @ total) / left) / (left * d)
            return _white(self.center + total / left, average)
        rest = halves[0].plus(halves[1]).less(self._summed(blocks))
        shift = rest.total / left
        covariance = rest.about(shift) / left
        average = float(np.trace(covariance)) / d
        covariance *= 1.0 - shrinkage
        covariance[np.diag_indices(d)] += shrinkage * average
        return _triangular(self.center + shift, covariance, shrinkage)

    def _all_sums(self) -> list[_Sums]:
        if self._sums is None:
            blocks = list(row_blocks(self.tokens))
            self._sums = [
                self._summed([slice(block.start + (half - block.start) % 2, block.stop, 2) for block in blocks])
                for half in (0, 1)
            ]
        return self._sums

    def _summed(self, blocks: list[Any]) -> _Sums:
        d = self.tokens.shape[1]
        count, total, products = 0, np.zeros(d), np.zeros((d, d))
        for block in blocks:
            x = self.tokens[block] - self.center
            count += len(x)
            total += np.asarray(x.sum(axis=0))
            products += np.asarray(x.T @ x)
        return _Sums(count, total, products)

    def _of_few(self, kept: np.ndarray, shrinkage: float | None = None) -> Noise | FewTokensNoise:
        """Of these tokens, from products of tokens with each other; with the given share of the identity, if there is one."""
        if self._products is None:
            x = np.asarray(self.tokens - self.center)
            self._products = x, x @ x.T
        (x, products), n, d = self._products, len(kept), self.tokens.shape[1]
        among = np.zeros(len(x))
        among[kept] = 1.0 / n
        shift = among @ x
        mean = self.center + shift
        if shrinkage == 1.0:
            squares = float(np.diagonal(products)[kept].sum()) - n * float(shift @ shift)
            return _white(mean, squares / (n * d))
        inner = products[np.ix_(kept, kept)]
        inner = inner - inner.mean(axis=0)
        inner -= inner.mean(axis=1)[:, None]
        average = float(np.trace(inner)) / (n * d)
        if shrinkage is None:
            shrinkage = _share_of_few(inner, kept, d) if average > 0.0 else 1.0
        if shrinkage == 1.0 or not average > 0.0:
            return _white(mean, average)
        values, vectors = np.linalg.eigh(inner / n)
        varies = values > ROUNDING * values[-1]
        values, least = values[varies], shrinkage * average
        directions = (vectors[:, varies] / np.sqrt(n * values)).T @ (x[kept] - shift)
        gains = 1.0 / np.sqrt((1.0 - shrinkage) * values + least) - 1.0 / np.sqrt(least)
        return FewTokensNoise(mean, float(np.sqrt(least)), directions, gains, shrinkage)


@dataclass(frozen=True)
class _Sums:
    """Of some tokens x: how many there are, sum x and sum x x^T, x as seen from a common center."""

    count: int
    total: np.ndarray
    products: np.ndarray

    def plus(self, other: _Sums) -> _Sums:
        """The sums of both."""
        return _Sums(self.count + other.count, self.total + other.total, self.products + other.products)

    def less(self, other: _Sums) -> _Sums:
        """The sums without those of the others."""
        return _Sums(self.count - other.count, self.total - other.total, self.products - other.products)

    def about(self, point: np.ndarray) -> np.ndarray:
        """sum (x - point) (x - point)^T."""
        rest = self.total - 0.5 * self.count * point
        return self.products - np.stack([rest, point], axis=1) @ np.stack([point, rest])


def _of_sums(halves: list[_Sums], center: np.ndarray) -> Noise:
    """The noise of tokens of both halves."""
    n, d = sum(half.count for half in halves), len(center)
    shift = (halves[0].total + halves[1].total) / n
    first, second = (half.about(shift) for half in halves)
    average = float(np.trace(first) + np.trace(second)) / (n * d)
    shrinkage = 1.0
    if average > 0.0 and n >= 4 and all(half.count for half in halves):
        variances, directions = np.linalg.eigh(first / halves[0].count)
        other = np.sum(directions * (second @ directions), axis=0) / halves[1].count
        shrinkage = _best_shrinkage(np.maximum(variances, 0.0), other, d)
    if shrinkage == 1.0:  # noise is white, there is a handful of tokens, or all of them are alike
        return _white(center + shift, average)
    covariance = (first + second) / n
    variances, directions = np.linalg.eigh((1.0 - shrinkage) * covariance + shrinkage * average * np.eye(d))
    return Noise(center + shift, (directions / np.sqrt(variances)) @ directions.T, 1.0, shrinkage)


def _white(mean: np.ndarray, variance: float) -> Noise:
    """White noise; of unit size where the tokens do not vary."""
    return Noise(mean, None, float(np.sqrt(max(variance, 0.0))) or 1.0, 1.0)


def _triangular(mean: np.ndarray, covariance: np.ndarray, shrinkage: float) -> TriangularNoise | Noise:
    """The noise with this covariance; a symmetric root where sums that nearly cancel have left no positive one."""
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        variances, directions = np.linalg.eigh(covariance)
        if not variances[-1] > 0.0:
            return _white(mean, 0.0)
        variances = np.maximum(variances, ROUNDING * variances[-1])
        return Noise(mean, (directions / np.sqrt(variances)) @ directions.T, 1.0, shrinkage)
    return TriangularNoise(mean, solve_triangular(root, np.eye(len(mean)), lower=True), shrinkage)


def _share_of_few(inner: np.ndarray, kept: np.ndarray, d: int) -> float:
    """The share of the identity for tokens with these inner products, whose numbers tell the halves."""
    first, second = np.flatnonzero(kept % 2 == 0), np.flatnonzero(kept % 2)
    if len(kept) < 4 or not len(first) or not len(second):
        return 1.0
    values, vectors = np.linalg.eigh(inner[np.ix_(first, first)] / len(first))
    varies = values > ROUNDING * values[-1]
    values = values[varies]
    # Along direction j, the sum over the first half's tokens of their entries in vector j.
    along = inner[np.ix_(second, first)] @ (vectors[:, varies] / np.sqrt(len(first) * values))
    other = np.sum(along**2, axis=0) / len(second)
    left = max(float(np.trace(inner[np.ix_(second, second)])) / len(second) - float(other.sum()), 0.0)
    return _best_shrinkage(values, other, d, left)


def _best_shrinkage(variances: np.ndarray, other: np.ndarray, d: int, left: float = 0.0) -> float:
    """The share s at which one covariance explains another best (see `NoiseTokens`).

    `variances` are the former's along its eigenvectors, `other` the latter's along the same; the former has none along the
    remaining ones of all d directions, and the latter so much as is `left` in all of them together.
    """
    average = float(variances.sum()) / d
    if not average > 0.0:
        return 1.0
    values = []
    for s in SHRINKAGES:
        c, least = (1.0 - s) * variances + s * average, s * average
        outside = (d - len(variances)) * np.log(least) + left / least
        values.append(-float(np.sum(np.log(c) + other / c)) - outside)
    return SHRINKAGES[int(np.argmax(values))]
