"""The convex problem of the readout, and the state of a point in it.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum). The bias b is not penalised. Vectors of gradient and direction have d + 1
entries, the bias last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..losses import Loss
from .features import Features

# A convex loss whose slope has its sign still at this margin has no minimiser that matters: e^-300 is nothing.
FAR_MARGIN = 300.0
# Slopes at such a margin: 300 for the square loss, 1 for the logistic one, e^300 for the exponential one.
STEEP = 1e12
# Rounding errors of sums in single precision, over those of their terms, if they were independent, and of their results: a
# guess, on the high side.
NOISE = 4.0


@dataclass(frozen=True)
class Point:
    """A point (w, b) of the problem.

    Attributes
    ----------
    w, b : ndarray, float
        Weights and bias.
    z : ndarray
        Outputs X w + b.
    r : ndarray
        The samples' pulls p_i l'(z_i; y_i).
    g : ndarray
        (dF/dw, dF/db); the last entry is 0 when the bias is not fitted.
    size : float
        ||g||.
    """

    w: np.ndarray
    b: float
    z: np.ndarray
    r: np.ndarray
    g: np.ndarray
    size: float


@dataclass(frozen=True)
class Problem:
    """F and its derivatives.

    Attributes
    ----------
    features : Features
        X, (n, d).
    labels : ndarray
        y, n times -1 or +1.
    weights : ndarray
        p, n numbers >= 0 that sum to 1.
    ridge : float
        lambda >= 0.
    loss : Loss
        l(z; y).
    fit_bias : bool
        Whether b is free; it stays 0 otherwise.
    """

    features: Features
    labels: np.ndarray
    weights: np.ndarray
    ridge: float
    loss: Loss
    fit_bias: bool

    def at(self, w: np.ndarray, b: float) -> Point:
        """Outputs and gradient at (w, b), in double precision."""
        if w.any():
            z, r, sums = self.features.both_products(w, b, self._pulls)
        else:
            z = np.full(self.features.shape[0], b)
            r = self._pulls(z, slice(None))
            sums = self.features.transposed_times(r)
        g = np.empty(len(w) + 1)
        g[:-1] = sums + self.ridge * w
        g[-1] = r.sum() if self.fit_bias else 0.0
        return Point(w, b, z, r, g, float(np.linalg.norm(g)))

    def moved(self, point: Point, v: np.ndarray, dz: np.ndarray | None = None) -> tuple[Point, np.ndarray, float]:
        """Outputs and gradient at (w, b) + v by adding changes to those at (w, b), and what that leaves uncertain.

        Changes may come from the single-precision copy of X: its rounding errors are a share of the change, not of the
        whole, and so become small with the steps.

        Parameters
        ----------
        point : Point
            (w, b).
        v : ndarray
            The step, d + 1 entries.
        dz : ndarray, optional
            X v, where it is known already: that saves half of the work.

        Returns
        -------
        point : Point
            (w, b) + v.
        dz : ndarray
            X v, the change of the outputs.
        noise : float
            About what rounding in single precision has added to the error of ||g||.
        """
        z, r = np.empty_like(point.z), np.empty_like(point.z)

        def pulls_change(dz: np.ndarray, rows: slice) -> np.ndarray:
            np.add(point.z[rows], dz, out=z[rows])
            r[rows] = self._pulls(z[rows], rows)
            return r[rows] - point.r[rows]

        if dz is None:
            dz, change, sums = self.features.both_products(v[:-1], float(v[-1]), pulls_change, rough=True)
        else:
            change = pulls_change(dz, slice(None))
            sums = self.features.transposed_times(change, rough=True)
        g = point.g.copy()
        g[:-1] += sums
        g[:-1] += self.ridge * v[:-1]
        if self.fit_bias:
            g[-1] += change.sum()
        spread = self._row_norm * math.sqrt(float(change @ change)) + math.sqrt(float(sums @ sums))
        noise = NOISE * float(np.finfo(np.float32).eps) * spread
        moved = Point(point.w + v[:-1], point.b + float(v[-1]), z, r, g, math.sqrt(float(g @ g)))
        return moved, dz, noise

    def _pulls(self, z: np.ndarray, rows: slice) -> np.ndarray:
        return self.weights[rows] * self.loss.slope(z, self.labels[rows])

    def value(self, z: np.ndarray, w: np.ndarray) -> float:
        """F at outputs z = X w + b."""
        return float(self.weights @ self.loss.value(z, self.labels)) + 0.5 * self.ridge * float(w @ w)

    def curvatures(self, z: np.ndarray, width: float = 0.0) -> np.ndarray:
        """D_i = p_i l'', or l'' averaged over [z - width, z + width]: what a step of that size meets where l'' jumps."""
        y, loss = self.labels, self.loss
        if width > 0.0:
            return self.weights * ((loss.slope(z + width, y) - loss.slope(z - width, y)) / (2.0 * width))
        return self.weights * np.maximum(loss.curvature(z, y), 0.0)

    def hessian_times(self, curvature: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(H v, X v) for H = sum_i D_i (x_i, 1)(x_i, 1)^T + ridge diag(1, ..., 1, 0); X v is the change of z along v."""
        total, dz = self.features.normal_product(v[:-1], float(v[-1]), curvature)
        out = np.empty_like(v)
        out[:-1] = total + self.ridge * v[:-1]
        out[-1] = np.dot(curvature, dz) if self.fit_bias else v[-1]
        return out, dz

    @cached_property
    def initial_pull(self) -> float:
        """Mean of |l'(0; y_i)| ||(x_i, 1)||: the size of one sample's share in the gradient at w = 0, b = 0."""
        negative, positive = np.abs(self.loss.slope(np.zeros(2), np.array([-1.0, 1.0])))
        balance = float(self.weights @ self.labels)  # weight of the positive samples less that of the others
        return 0.5 * float((1.0 + balance) * positive + (1.0 - balance) * negative) * self._row_norm

    @cached_property
    def _row_norm(self) -> float:
        """Root mean square of ||(x_i, 1)||, or of ||x_i|| without a bias."""
        return math.hypot(self.features.row_norm, 1.0 if self.fit_bias else 0.0)

    def gradient_scale(self, w: np.ndarray) -> float:
        """What the tolerance is relative to: ridge ||w||, or the initial pull where there is no ridge."""
        return self.ridge * float(np.linalg.norm(w)) if self.ridge > 0.0 else self.initial_pull

    def relative_gradient(self, point: Point) -> float:
        """||grad F|| over its scale, or over the initial pull at w = 0."""
        scale = self.gradient_scale(point.w) or self.initial_pull
        return point.size / scale if scale > 0.0 else 0.0

    def rounding(self, point: Point) -> float:
        """What rounding leaves uncertain in ||grad F||: relative errors of the outputs z and of the sums over samples."""
        moved = float(self.curvatures(point.z).sum()) * float(np.abs(point.z).max())
        spread = float(np.abs(point.r).sum()) + moved
        return float(np.finfo(np.float64).eps) * self._row_norm * spread

    def separates(self, z: np.ndarray) -> bool:
        """Whether every sample with a weight is on its label's side."""
        return bool(np.all((z * self.labels > 0.0) | (self.weights == 0.0)))


def explodes(loss: Loss) -> bool:
    """Whether l is as steep as the exponential loss on bags that are badly wrong: Newton's method cannot start there."""
    return abs(float(loss.slope(np.array([-FAR_MARGIN]), np.ones(1))[0])) > STEEP


def always_falls(loss: Loss) -> bool:
    """Whether l falls as the margin grows without end, as the logistic loss does: separable data then have no minimiser."""
    return float(loss.slope(np.array([FAR_MARGIN]), np.ones(1))[0]) < 0.0


def strictly_convex(loss: Loss) -> bool:
    """Whether l'' > 0 at all of 81 points of [-20, 20], for both labels: no flat or straight parts."""
    z, one = np.linspace(-20.0, 20.0, 81), np.ones(81)
    return bool(np.all(loss.curvature(z, one) > 0.0) and np.all(loss.curvature(z, -one) > 0.0))
