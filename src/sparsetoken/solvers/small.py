"""Newton's method as it stands in textbooks, for problems so small that every factorisation is cheaper than avoiding it.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

On some hundred samples of ten features `newton_cg`, which saves passes over large features, spends nearly all of its time on
deciding how. Here each step factors the Hessian, and is shortened where it would go too far.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dposv

from .newton_cg import WIDTH, Solution
from .numpy_features import NumpyFeatures
from .problem import Problem, strictly_convex

# Multiplications of one Hessian, n (d + 1)^2, up to which a step with it takes little longer than its fixed costs. CPU time
# over that of `newton_cg`, on clouds with logistic and smoothed hinge loss and ridges of 0.001 to 1: 200 x 10 0.25 to 0.5,
# 1,500 x 20 0.46 to 0.92, 4,000 x 10 0.6 to 1.1, 2,000 x 30 0.7 to 1.4.
SMALL = 5e5
STEPS = 30  # in which it converges, or something is odd about the problem
_SHORTENED = 30  # times in one step
# As in `newton_cg`: a step is shortened where it turns the slope along it round to more than this share.
_SLOPE_LEFT = 0.5
_FIRST_WIDTH = 0.5  # over which curvatures with jumps are averaged at the start


def is_small(problem: Problem) -> bool:
    """Whether `solve_small` is the quicker way: few numbers in double precision, no fewer samples than features, a ridge."""
    features = problem.features
    n, d = features.shape
    plain = isinstance(features, NumpyFeatures) and not features.single
    return plain and d < n and n * (d + 1) ** 2 <= SMALL and problem.ridge > 0.0


def solve_small(
    problem: Problem, w: np.ndarray, b: float, tolerance: float, max_iterations: int = STEPS
) -> Solution | None:
    """Minimise F from (w, b).

    Parameters
    ----------
    problem : Problem
        F, with `is_small`.
    w, b : ndarray, float
        Where to start.
    tolerance : float
        Stop once ||grad F|| <= tolerance * ridge ||w||.
    max_iterations : int
        Steps at most; more than `STEPS` are never taken.

    Returns
    -------
    Solution or None
        None where it does not converge as it should (a Hessian that is singular to rounding, a gradient lost in rounding
        errors): `newton_cg` knows what to do there.
    """
    p, y, ridge, loss = problem.weights, problem.labels, problem.ridge, problem.loss
    n, d = problem.features.shape
    columns = d + problem.fit_bias
    x = np.ones((n, columns))
    x[:, :d] = problem.features.on_host()
    penalty = np.full(columns, ridge)
    penalty[d:] = 0.0
    width = 0.0 if strictly_convex(loss) else _FIRST_WIDTH
    v = np.append(w, b)[:columns]
    z = x @ v
    r = p * loss.slope(z, y)
    for steps in range(min(max_iterations, STEPS) + 1):
        g = x.T @ r
        g += penalty * v
        if g @ g <= (tolerance * ridge) ** 2 * (v[:d] @ v[:d]):
            point = problem.at(v[:d].copy(), float(v[d]) if problem.fit_bias else 0.0)
            left = problem.relative_gradient(point)
            return Solution(point, left, "gradient", steps, 0, steps) if left <= tolerance else None
        hessian = (x * problem.curvatures(z, width)[:, None]).T @ x
        hessian.reshape(-1)[:: columns + 1] += penalty
        _, step, info = dposv(hessian, g)
        slope = -float(g @ step)
        if info or not slope < 0.0:
            return None
        t, dz = 1.0, x @ step
        for _ in range(_SHORTENED):
            following = z - t * dz
            r = p * loss.slope(following, y)
            along = -float(r @ dz) - float((penalty * (v - t * step)) @ step)
            if along <= -_SLOPE_LEFT * slope:
                break
            t *= max(0.1, slope / (slope - along))  # where a straight line through both slopes meets zero
        else:
            return None
        if not math.isfinite(along):
            return None
        v, z = v - t * step, following
        if width > 0.0:
            width = WIDTH * t**0.5 * math.sqrt(float(dz @ dz) / n)
    return None
