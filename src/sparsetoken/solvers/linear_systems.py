"""One Newton system H v = -g: preconditioners and conjugate gradients."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from .features import Coordinates, NotPositiveError
from .problem import Problem

# Shares of the mean diagonal added, one after the other, until a Hessian that is singular to rounding has a factor. Only
# the preconditioner changes, never the system that is solved.
JITTERS = (1e-14, 1e-11, 1e-8, 1e-5, 1e-2)
# Pairs that `Secants` keeps: a bound on memory (16 MB for 10,000 features). Steps before the last hundred say little.
MOST_PAIRS = 100


class Preconditioner(Protocol):
    """An approximate inverse of the Hessian."""

    def solve(self, r: np.ndarray) -> np.ndarray: ...


class Scaling:
    """Before the first factorisation: the bias counts like a feature of typical size."""

    def __init__(self, problem: Problem):
        self.bias_gain = problem.features.mean_square or 1.0

    def solve(self, r: np.ndarray) -> np.ndarray:
        out = r.copy()
        out[-1] *= self.bias_gain
        return out


class Cholesky:
    """The inverse of the Hessian at given curvatures, in single precision where that is possible."""

    def __init__(self, problem: Problem, curvature: np.ndarray):
        # Curvatures may be tiny as a whole (separable data, tiny ridge): the factor sees them relative to the largest.
        self.scale = float(curvature.max()) or 1.0
        features = problem.features
        arguments = curvature / self.scale, problem.ridge / self.scale, problem.fit_bias
        try:
            self.inverse = features.hessian_factor(*arguments)
            return
        except NotPositiveError:
            features.be_exact()
        for jitter in (0.0, *JITTERS):
            try:
                self.inverse = features.hessian_factor(*arguments, jitter)
                return
            except NotPositiveError:
                continue
        raise NotPositiveError("the Hessian has no Cholesky factor")

    def solve(self, r: np.ndarray) -> np.ndarray:
        size = np.abs(r).max()
        if size == 0.0:
            return r
        return self.inverse(r / size) * (size / self.scale)


class Secants:
    """A preconditioner corrected by steps taken and the changes of the gradient they made (L-BFGS).

    In the compact form of Byrd, Nocedal and Schnabel (1994), for steps s_i, changes y_i, both scaled so that <s_i, y_i> = 1,
    and the preconditioner H0 = gain * inner: with S and P the rows s_i and inner y_i, R the upper triangle of <s_i, y_j> and
    Q = <y_i, inner y_j>,

        H r = H0 r + S^T R^-T ((1 + gain Q) u - gain P r) - gain P^T u,    u = R^-1 S r.

    Two products with all pairs at once, where the usual two loops take four for each. R's inverse gains a column per pair.

    Parameters
    ----------
    inner : Preconditioner
        What is corrected.
    scaled : bool
        Whether its overall size is unknown, and taken from the last pair.
    """

    def __init__(self, inner: Preconditioner, scaled: bool):
        self.inner, self.scaled, self.gain = inner, scaled, 1.0
        self.pairs = 0  # how many are kept
        self.rows = np.empty((0, 0))  # s_0, inner y_0, s_1, inner y_1, ...
        self.inverse, self.squares = np.empty((0, 0)), np.empty((0, 0))  # of R; Q

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        """From now on `solve(change)` is `step`, unless rounding hides the curvature along it."""
        product = float(step @ change)
        if not product > 0.0:
            return
        size = 1.0 / math.sqrt(product)
        if not math.isfinite(size):
            return
        self._make_room(len(step))
        m, y = self.pairs, size * change
        inner = self.inner.solve(y)
        with_new = self.rows[: 2 * m] @ y
        self.rows[2 * m], self.rows[2 * m + 1] = size * step, inner
        self.inverse[:m, m] = -(self.inverse[:m, :m] @ with_new[0::2])
        self.inverse[m, m] = 1.0
        self.squares[:m, m] = self.squares[m, :m] = with_new[1::2]
        self.squares[m, m] = y @ inner
        self.pairs = m + 1
        if self.scaled:
            self.gain = 1.0 / float(self.squares[m, m])

    def _make_room(self, length: int) -> None:
        """Space for one more pair; of `MOST_PAIRS` the later half is kept."""
        m, room = self.pairs, len(self.inverse)
        if m < room:
            return
        first = m // 2 if m >= MOST_PAIRS else 0
        m -= first
        room = min(max(8, 2 * m), MOST_PAIRS)
        rows, inverse, squares = np.empty((2 * room, length)), np.zeros((room, room)), np.zeros((room, room))
        if m:
            rows[: 2 * m] = self.rows[2 * first :]
        # The inverse of a triangle without its first rows and columns is the rest of its inverse.
        inverse[:m, :m], squares[:m, :m] = self.inverse[first:, first:], self.squares[first:, first:]
        self.rows, self.inverse, self.squares, self.pairs = rows, inverse, squares, m

    def solve(self, r: np.ndarray) -> np.ndarray:
        out = self.gain * self.inner.solve(r)
        m = self.pairs
        if m == 0:
            return out
        rows, inverse = self.rows[: 2 * m], self.inverse[:m, :m]
        products = rows @ r
        u = inverse @ products[0::2]
        shares = np.empty(2 * m)
        shares[0::2] = (u + self.gain * (self.squares[:m, :m] @ u - products[1::2])) @ inverse
        shares[1::2] = -self.gain * u
        return out + shares @ rows


class InCoordinates:
    """A preconditioner of the problem in n < d coordinates, for vectors of the problem in d."""

    def __init__(self, coordinates: Coordinates, inner: Preconditioner):
        self.coordinates, self.inner = coordinates, inner

    def solve(self, r: np.ndarray) -> np.ndarray:
        inside = self.inner.solve(np.append(self.coordinates.forward(r[:-1]), r[-1]))
        return np.append(self.coordinates.back(inside[:-1]), inside[-1])


def conjugate_gradients(
    problem: Problem,
    curvature: np.ndarray,
    preconditioner: Preconditioner,
    g: np.ndarray,
    relative: float,
    limit: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """v with ||H v + g|| <= relative ||g||, or the best after `limit` products (any iterate is a descent direction).

    Returns
    -------
    v : ndarray
        The direction, d + 1 entries.
    dz : ndarray
        X v, the change of the outputs along it.
    products : int
        Products with the Hessian spent.
    """
    v, dz, r = np.zeros_like(g), np.zeros(problem.features.shape[0]), -g
    s = preconditioner.solve(r)
    direction, rs = s, float(r @ s)
    goal = relative * np.linalg.norm(g)
    products = 0
    while products < limit:
        products += 1
        h, direction_z = problem.hessian_times(curvature, direction)
        bend = float(direction @ h)
        if not bend > 0.0:  # rounding: no curvature can be resolved along this direction
            break
        step = rs / bend
        v += step * direction
        dz += step * direction_z
        r -= step * h
        if np.linalg.norm(r) <= goal:
            break
        s = preconditioner.solve(r)
        rs, rs_old = float(r @ s), rs
        if not rs > 0.0:  # the preconditioner is not positive along this residual: rounding
            break
        direction = s + (rs / rs_old) * direction
    return v, dz, products
