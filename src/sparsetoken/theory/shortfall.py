"""What both separability thresholds minimise: the mean square by which margins fall short of zero.

A margin that is Gaussian with mean a and variance v = s^2 falls short by (-a - s G)_+. Its mean square is closed,

    e = (v + a^2) Phi(-x) - a s phi(x),   x = a/s
    e_a = 2 (a Phi - s phi),   e_v = Phi,   e_aa = 2 Phi,   e_av = -phi/s,   e_vv = phi a/(2 s^3)

and averages of it over bags are smooth and convex in the readout: Newton's method with step halving finds their minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

_FLAT = 1e-12  # added to the Hessian, relative to its diagonal: picks zero for a direction that does not matter
_DONE = 1e-22  # predicted decrease, relative to the value, below which rounding is all that is left
_ROUNDING = 1e-14  # increase of the value, relative, that rounding may have made
_SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)
_SHORTEST = 1e-10  # of the full Newton step


class Shortfall(NamedTuple):
    """The mean square shortfall of margins, and what its derivatives are made of.

    Attributes
    ----------
    square : ndarray
        e.
    tail, density : ndarray
        Phi(-x) and phi(x).
    mean, deviation : ndarray
        a and s.
    """

    square: np.ndarray
    tail: np.ndarray
    density: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def shortfall(a: np.ndarray, v: np.ndarray) -> Shortfall:
    """The mean square shortfall of margins N(a, v)."""
    s = np.sqrt(v)
    x = a / s
    tail, density = ndtr(-x), np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
    return Shortfall((v + a * a) * tail - a * s * density, tail, density, a, s)


def least(
    objective: Callable[[np.ndarray], tuple[float, Any]],
    derivatives: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]],
    p: np.ndarray,
    enough: float,
    steps: int,
) -> tuple[np.ndarray, Any, float]:
    """Newton's method with step halving on a convex function, from p.

    Parameters
    ----------
    objective : callable
        p -> the value, and whatever the derivatives are made of.
    derivatives : callable
        (p, what `objective` gave besides) -> gradient and Hessian.
    p : ndarray (k,)
        Where to start.
    enough : float
        The method ends as soon as the value is below, wherever that is.
    steps : int
        Newton steps allowed.

    Returns
    -------
    tuple
        The minimiser, what `objective` gives there besides the value, and the largest entry of the gradient, each over
        the root of its own second derivative times the value (0 where the value is below `enough`).
    """
    value, there = objective(p)
    residual = np.inf
    for _ in range(steps):
        if value < enough:
            return p, there, 0.0
        gradient, hessian = derivatives(p, there)
        # The Hessian is singular where a part of the features vanishes; the tiny addition leaves its coordinates at zero.
        # Relative to each diagonal entry, because the bias counts in units of kappa, which nearly vanishes in some bags.
        size = np.sqrt(np.diagonal(hessian))
        size = np.where(size > 0, size, 1.0)
        residual = float(np.abs(gradient / size).max() / np.sqrt(value))
        step = -np.linalg.solve(hessian / np.outer(size, size) + _FLAT * np.eye(len(p)), gradient / size) / size
        slope, scale = gradient @ step, 1.0
        if -slope <= _DONE * value:
            break
        while True:
            trial, there = objective(p + scale * step)
            # Near the minimum the decrease drowns in rounding, and the full step is right.
            if trial <= value * (1 + _ROUNDING) + _SUFFICIENT * scale * slope or scale < _SHORTEST:
                break
            scale *= 0.5
        p, value = p + scale * step, trial
    return p, there, 0.0 if value < enough else residual
