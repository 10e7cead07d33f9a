"""A large Gaussian matrix that is never drawn: its products are, one after another, with exactly the right joint law.

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

import numpy as np

from ..._core.validation import whole_number

# Rows by which the stored bases grow: large enough for matrix-vector products to run at the memory's speed, small enough
# for the unused rest not to count.
GROWTH = 8
# Rows of the last question's answer that are made at a time: their temporaries stay in the cache.
BLOCK_ROWS = 2**10
# A direction whose part outside the span is below this share of its length lies in the span to rounding (two passes of
# orthogonalisation over some hundred basis vectors leave a few units in the last place). Dropping that part changes the
# product by rounding error; nothing larger may be dropped.
ROUNDING = 64 * np.finfo(np.float64).eps


class ImplicitGaussian:
    """A matrix Z of independent standard normals, known only through the products that were asked for.

    Answers are consistent: the same question has the same answer, answers are linear in the question, and
    u^T (Z v) = (Z^T u)^T v, all to rounding error.

    Parameters
    ----------
    rows, columns : int
        The shape (N, d) of Z.
    rng : numpy.random.Generator
        Where the normals come from.
    """

    def __init__(self, rows: int, columns: int, rng: np.random.Generator):
        self.rows, self.columns = whole_number("rows", rows, 1), whole_number("columns", columns, 1)
        self.rng = rng
        self._right = _Asked(self.columns, self.rows)
        self._left = _Asked(self.rows, self.columns)
        self._closed = False

    @property
    def shape(self) -> tuple[int, int]:
        """(N, d)."""
        return self.rows, self.columns

    @property
    def stored_numbers(self) -> int:
        """How many numbers are kept for both bases and their images."""
        return sum(rows.allocated for side in (self._right, self._left) for rows in (side.basis, side.images))

    def right(self, directions: np.ndarray) -> np.ndarray:
        """Z @ directions.

        Parameters
        ----------
        directions : ndarray of shape (d, r)
            The directions, as columns; zero, parallel and repeated ones are welcome.

        Returns
        -------
        ndarray of shape (N, r)
            The products, drawn given everything answered before.
        """
        return self._answer("directions", directions, self._right, self._left)

    def left(self, vectors: np.ndarray) -> np.ndarray:
        """Z.T @ vectors.

        Parameters
        ----------
        vectors : ndarray of shape (N, r)
            The vectors, as columns; zero, parallel and repeated ones are welcome.

        Returns
        -------
        ndarray of shape (d, r)
            The products, drawn given everything answered before.
        """
        return self._answer("vectors", vectors, self._left, self._right)

    def grouped(self, weights: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Weighted sums over groups of neighbouring rows, the last question: sum of weights[j] Z[j] over each group's rows j.

        The n x d answer is drawn given everything answered before, and is not remembered: nothing may be asked after it.
        With P the n x N matrix of the weights, K^2 = P P^T diagonal and W = K^-1 P F,

            P Z = (P Z E) E^T + [P F (Z^T F)^T + K (I - W W^T)^(1/2) G] (I - E E^T),    G (n x d) fresh normals.

        Parameters
        ----------
        weights : ndarray of shape (N,)
            One per row.
        sizes : ndarray of shape (n,)
            Rows of each group, at least one, N in all.

        Returns
        -------
        ndarray of shape (n, d)
        """
        weights = np.asarray(weights, dtype=np.float64)
        sizes = np.asarray(sizes)
        if weights.shape != (self.rows,):
            raise ValueError(f"weights must be an array of shape ({self.rows},), got {weights.shape}")
        if sizes.ndim != 1 or sizes.sum() != self.rows or sizes.min() < 1:
            raise ValueError(f"sizes must be whole numbers >= 1 that sum to {self.rows}, got {sizes!r}")
        self._require_open()
        self._closed = True
        count, starts = len(sizes), np.concatenate([[0], np.cumsum(sizes)[:-1]])
        E, ZE = self._right.basis.matrix(), self._right.images.matrix()
        F, ZtF = self._left.basis.matrix(), self._left.images.matrix()
        along_E = np.add.reduceat(ZE * weights, starts, axis=1).T  # P Z E
        along_F = np.add.reduceat(F * weights, starts, axis=1).T  # P F
        kappa = np.sqrt(np.add.reduceat(weights**2, starts))
        W = np.divide(along_F, kappa[:, None], out=np.zeros_like(along_F), where=kappa[:, None] > 0)
        squares, vectors = np.linalg.eigh(W.T @ W)
        # (I - W W^T)^(1/2) = I - W M W^T; the eigenvalues of W^T W lie in [0, 1]
        M = (vectors / (1.0 + np.sqrt(np.clip(1.0 - squares, 0.0, 1.0)))) @ vectors.T
        answer = self.rng.standard_normal((count, self.columns))
        correction = M @ (W.T @ answer)
        for first in range(0, count, BLOCK_ROWS):
            which = slice(first, first + BLOCK_ROWS)
            block = kappa[which, None] * (answer[which] - W[which] @ correction) + along_F[which] @ ZtF
            answer[which] = block + (along_E[which] - block @ E.T) @ E
        return answer

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("nothing may be asked after `grouped`, whose answer is not remembered")

    def _answer(self, name: str, asked: np.ndarray, side: _Asked, other: _Asked) -> np.ndarray:
        asked = np.asarray(asked, dtype=np.float64)
        if asked.ndim != 2 or asked.shape[0] != side.basis.size:
            raise ValueError(f"{name} must be an array of shape ({side.basis.size}, r), got shape {asked.shape}")
        self._require_open()
        answer = np.empty((side.images.size, asked.shape[1]), order="F")
        for k in range(asked.shape[1]):
            scale = float(np.abs(asked[:, k]).max())
            if scale == 0.0:
                answer[:, k] = 0.0
                continue
            coefficients, rest = side.coordinates(asked[:, k] / scale)
            if rest is not None:
                side.append(rest, self._image(rest, other))
            answer[:, k] = scale * side.images.combination(coefficients)
        return answer

    def _image(self, vector: np.ndarray, other: _Asked) -> np.ndarray:
        """The product with a unit vector orthogonal to all asked before: F (Z^T F)^T e + (I - F F^T) g."""
        image = self.rng.standard_normal(other.basis.size)
        image += other.basis.combination(other.images.products(vector) - other.basis.products(image))
        return image


class _Asked:
    """What was asked from one side: an orthonormal basis of the questions, and the basis vectors' images."""

    def __init__(self, size: int, image_size: int):
        self.basis, self.images = _Rows(size), _Rows(image_size)

    def append(self, vector: np.ndarray, image: np.ndarray) -> None:
        self.basis.append(vector)
        self.images.append(image)

    def coordinates(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Coordinates in the basis, and the unit vector the basis lacks (its coordinate comes last) or None.

        Columns come here one by one, each against all before it: a rank-deficient block such as [0, w] keeps w.
        """
        rest = vector.copy()
        coefficients = np.zeros(self.basis.count)
        for _ in range(2):  # the second pass removes the rounding error of the first
            along = self.basis.products(rest)
            rest -= self.basis.combination(along)
            coefficients += along
        length = float(np.linalg.norm(rest))
        if not length > ROUNDING * float(np.linalg.norm(vector)):
            return coefficients, None
        return np.append(coefficients, length), rest / length


class _Rows:
    """Vectors of one size, stored as rows of a few matrices so that adding one never copies the others."""

    def __init__(self, size: int):
        self.size, self.count = size, 0
        self._blocks: list[np.ndarray] = []

    @property
    def allocated(self) -> int:
        return sum(block.size for block in self._blocks)

    def append(self, vector: np.ndarray) -> None:
        if self.count == len(self._blocks) * GROWTH:
            self._blocks.append(np.empty((GROWTH, self.size)))
        self._blocks[-1][self.count % GROWTH] = vector
        self.count += 1

    def _filled(self) -> list[tuple[slice, np.ndarray]]:
        starts = range(0, self.count, GROWTH)
        stops = [min(start + GROWTH, self.count) for start in starts]
        return [
            (slice(start, stop), block[: stop - start])
            for start, stop, block in zip(starts, stops, self._blocks, strict=True)
        ]

    def matrix(self) -> np.ndarray:
        """All rows as one array (a copy)."""
        return np.concatenate([np.empty((0, self.size)), *(block for _, block in self._filled())])

    def products(self, vector: np.ndarray) -> np.ndarray:
        """Inner products of every row with the vector."""
        found = np.empty(self.count)
        for which, block in self._filled():
            found[which] = block @ vector
        return found

    def combination(self, coefficients: np.ndarray) -> np.ndarray:
        """The sum of the rows times the coefficients."""
        total = np.zeros(self.size)
        for which, block in self._filled():
            total += coefficients[which] @ block
        return total
