"""Bags whose tokens are never drawn: products with the tokens are drawn instead, one after another, with the exact joint law.

Gradient descent sees its tokens Z (N = n L rows, d columns, independent standard normals) only through products Z v and
Z^T u, where every v and u may depend on all the answers before it. What has been answered so far is kept as

    E (d x i), orthonormal, and its images Z E        everything asked from the right lies in the span of E,
    F (N x j), orthonormal, and its images Z^T F      everything asked from the left lies in the span of F.

Given these, the matrix is Gaussian and free in all other directions: for a unit vector e orthogonal to E

    Z e = F (Z^T F)^T e + (I - F F^T) g,    g ~ N(0, I_N) fresh,

and likewise with the two sides exchanged. The law is exact at every finite N and d. After T steps with r directions each
the memory is (N + d) x 2 r T numbers instead of N x d, and the time (N + d) (r T)^2 operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import token_weights
from ...laws.draws import with_shared_part
from ...task import Task
from ..seeds import stream
from .drawn_bags import draw_bags

GROWTH = 8  # rows by which the stored bases grow: copying them then takes a few per cent of the time
# A direction whose part outside the span is below this share of its length lies in the span to rounding. Dropping that part
# changes the product by rounding error; nothing larger may be dropped.
ROUNDING = 64 * np.finfo(np.float64).eps


class ImplicitGaussian:
    """A matrix Z of independent standard normals, known only through its products so far, which are those of one matrix."""

    def __init__(self, rows: int, columns: int, rng: np.random.Generator):
        self.shape, self.rng = (rows, columns), rng
        self._right, self._left = _Asked(columns, rows), _Asked(rows, columns)
        self._closed = False

    @property
    def stored_numbers(self) -> int:
        """How many numbers are kept for both bases and their images."""
        return self._right.allocated + self._left.allocated

    def right(self, directions: np.ndarray) -> np.ndarray:
        """Z @ directions."""
        return self._answer(directions, self._right, self._left)

    def left(self, vectors: np.ndarray) -> np.ndarray:
        """Z.T @ vectors."""
        return self._answer(vectors, self._left, self._right)

    def grouped(self, weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Weighted sums over groups of neighbouring rows, the last question: sum of weights[j] Z[j] over each group's rows j.

        The n x d answer is drawn given everything answered before, and is not remembered: nothing may be asked after it.
        With P the n x N matrix of the weights, K^2 = P P^T diagonal and W = K^-1 P F,

            P Z = (P Z E) E^T + [P F (Z^T F)^T + K (I - W W^T)^(1/2) G] (I - E E^T),    G (n x d) fresh normals.
        """
        self._require_open()
        self._closed = True
        count, starts = len(sizes), np.concatenate([[0], np.cumsum(sizes)[:-1]])
        E, ZE = self._right.basis, self._right.images
        F, ZtF = self._left.basis, self._left.images
        along_E = np.add.reduceat(ZE * weights, starts, axis=1).T  # P Z E
        along_F = np.add.reduceat(F * weights, starts, axis=1).T  # P F
        kappa = np.sqrt(np.add.reduceat(weights**2, starts))
        W = np.divide(along_F, kappa[:, None], out=np.zeros_like(along_F), where=kappa[:, None] > 0)
        squares, vectors = np.linalg.eigh(W.T @ W)
        # (I - W W^T)^(1/2) = I - W M W^T; the eigenvalues of W^T W lie in [0, 1]
        M = (vectors / (1.0 + np.sqrt(np.clip(1.0 - squares, 0.0, 1.0)))) @ vectors.T
        answer = self.rng.standard_normal((count, E.shape[1]))
        correction = M @ (W.T @ answer)
        rows_at_a_time = 2**10  # their temporaries stay in the cache
        for first in range(0, count, rows_at_a_time):
            which = slice(first, first + rows_at_a_time)
            block = kappa[which, None] * (answer[which] - W[which] @ correction) + along_F[which] @ ZtF
            answer[which] = block + (along_E[which] - block @ E.T) @ E
        return answer

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("nothing may be asked after `grouped`, whose answer is not remembered")

    def _answer(self, asked: np.ndarray, side: _Asked, other: _Asked) -> np.ndarray:
        self._require_open()
        answer = np.empty((side.images.shape[1], asked.shape[1]), order="F")
        for k in range(asked.shape[1]):
            scale = float(np.abs(asked[:, k]).max())
            if scale == 0.0:
                answer[:, k] = 0.0
                continue
            coefficients, rest = side.coordinates(asked[:, k] / scale)
            if rest is not None:
                side.append(rest, self._image(rest, other))
            answer[:, k] = scale * (coefficients @ side.images)
        return answer

    def _image(self, vector: np.ndarray, other: _Asked) -> np.ndarray:
        """The product with a unit vector orthogonal to all asked before: F (Z^T F)^T e + (I - F F^T) g."""
        image = self.rng.standard_normal(other.basis.shape[1])
        image += (other.images @ vector - other.basis @ image) @ other.basis
        return image


class _Asked:
    """What was asked from one side: an orthonormal basis of the questions and the basis vectors' images, as rows."""

    def __init__(self, size: int, image_size: int):
        self.count, self._rooms = 0, [np.empty((0, size)), np.empty((0, image_size))]

    @property
    def basis(self) -> np.ndarray:
        return self._rooms[0][: self.count]

    @property
    def images(self) -> np.ndarray:
        return self._rooms[1][: self.count]

    @property
    def allocated(self) -> int:
        return sum(room.size for room in self._rooms)

    def append(self, vector: np.ndarray, image: np.ndarray) -> None:
        if self.count == len(self._rooms[0]):
            self._rooms = [np.concatenate([room, np.empty((GROWTH, room.shape[1]))]) for room in self._rooms]
        for room, row in zip(self._rooms, (vector, image)):
            room[self.count] = row
        self.count += 1

    def coordinates(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Coordinates in the basis, and the unit vector the basis lacks (its coordinate comes last) or None.

        Columns come here one by one, each against all before it: a rank-deficient block such as [0, w] keeps w.
        """
        rest = vector.copy()
        coefficients = np.zeros(self.count)
        for _ in range(2):  # the second pass removes the rounding error of the first
            along = self.basis @ rest
            rest -= along @ self.basis
            coefficients += along
        length = float(np.linalg.norm(rest))
        if not length > ROUNDING * float(np.linalg.norm(vector)):
            return coefficients, None
        return np.append(coefficients, length), rest / length


class ImplicitBags:
    """A data set of n labelled bags X = theta v xi^T + A Z.

    The signal's part is explicit, the noise Z of all tokens is an `ImplicitGaussian`, and A makes the tokens of a bag
    correlated (the identity for most tasks). Unlike the features of `reduced`, such bags may be trained on many times. Bags
    of one length come together, and arrays over bags come as lists with one entry per length.
    """

    def __init__(self, task: Task, count: int, signal: np.ndarray, seed: int, dataset: str):
        self.bags = draw_bags(task, count, seed, dataset).in_order_of_length()
        self.labels, self.count, self.signal = self.bags.labels, count, signal
        self.rho = task.correlation
        self.lengths = self.bags.lengths.astype(np.intp)
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.groups = [(which, slice(starts[which.start], starts[which.stop]), L) for which, L in self.bags.by_length()]
        self.carrying, places, self.strength = self.bags.places(stream(seed, f"places{dataset}"))
        self.carriers = starts[self.carrying] + places  # rows of Z with the signal
        self.noise = ImplicitGaussian(int(starts[-1]), len(signal), stream(seed, f"tokens{dataset}"))

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """A V for values (N, r), bag by bag: A^2 = (1 - rho) I + rho 11^T is the covariance of a bag's tokens."""
        if not self.rho:
            return values
        out = np.empty_like(values)
        for _, rows, L in self.groups:
            part = with_shared_part(values[rows].reshape(-1, L, values.shape[1]), self.rho)
            out[rows] = part.reshape(-1, values.shape[1])
        return out

    def fields(self, theta: np.ndarray) -> list[np.ndarray]:
        """X Theta for directions (d, r): (n, L, r) for the bags of each length."""
        fields = self._spread(self.noise.right(theta))
        fields[self.carriers] += self.strength[:, None] * (self.signal @ theta)
        return [fields[rows].reshape(-1, L, theta.shape[1]) for _, rows, L in self.groups]

    def pull(self, weights: list[np.ndarray]) -> np.ndarray:
        """sum_i X_i^T W_i for weights (n, L, r) of the bags of each length: (d, r)."""
        flat = np.concatenate([part.reshape(-1, part.shape[2]) for part in weights])
        along = self.strength @ flat[self.carriers]
        return self.noise.left(self._spread(flat)) + np.outer(self.signal, along)

    def attended(self, query: np.ndarray, activation: Callable[[Any], Any] | None = None) -> np.ndarray:
        """Features sum_l p_l x_l (n, d), `query` being beta q and `activation` None for softmax: the last question.

        Given all products so far, exact in law; n d numbers are drawn, not n L d.
        """
        weights = [token_weights(part[..., 0], activation) for part in self.fields(query[:, None])]
        flat = np.concatenate([part.ravel() for part in weights])
        features = self.noise.grouped(self._spread(flat[:, None])[:, 0], self.lengths)
        shares = np.zeros(self.count)
        np.add.at(shares, self.carrying, self.strength * flat[self.carriers])
        features += np.outer(shares, self.signal)
        return features
