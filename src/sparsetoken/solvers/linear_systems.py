"""One Newton system H v = -g: preconditioners and conjugate gradients."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .features import Coordinates, NotPositiveError
from .problem import Problem

# Shares of the mean diagonal added, one after the other, until a Hessian that is singular to rounding has a factor. Only
# the preconditioner changes, never the system that is solved.
JITTERS = (1e-14, 1e-11, 1e-8, 1e-5, 1e-2)


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
    """A preconditioner corrected by steps taken and the changes of the gradient they made (L-BFGS, all pairs kept).

    Parameters
    ----------
    inner : Preconditioner
        What is corrected.
    scaled : bool
        Whether its overall size is unknown, and taken from the last pair.
    """

    def __init__(self, inner: Preconditioner, scaled: bool):
        self.inner, self.scaled, self.gain = inner, scaled, 1.0
        self.pairs: list[tuple[np.ndarray, np.ndarray, float]] = []

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        """From now on `solve(change)` is `step`, unless rounding hides the curvature along it."""
        product = float(step @ change)
        if product > 0.0:
            self.pairs.append((step, change, product))
            if self.scaled:
                self.gain = product / float(change @ self.inner.solve(change))

    def solve(self, r: np.ndarray) -> np.ndarray:
        shares = []
        for step, change, product in reversed(self.pairs):
            shares.append(float(step @ r) / product)
            r = r - shares[-1] * change
        out = self.gain * self.inner.solve(r)
        for (step, change, product), share in zip(self.pairs, reversed(shares)):
            out += (share - float(change @ out) / product) * step
        return out


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
