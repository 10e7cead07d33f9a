"""The minimiser of the readout's problem: L-BFGS as long as it is expected to be faster, then Newton's method.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

Newton's systems are solved by a Cholesky factor of order d or n (`Features.inverse_hessian`), made of the samples on which the
loss bends: few for the smoothed hinge on data that are nearly separable. Convergence is judged on the gradient of F itself.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from ..losses import Square
from .objective import CACHED_BYTES, FitPoint, FitProblem

MAX_ITERATIONS = 2000  # passes of L-BFGS and steps of Newton's method together
NEWTON_STEPS = 5  # after L-BFGS, as a rule

GOING = "going"  # not a reason to stop


@dataclass(frozen=True)
class Solution:
    """Where the method ended, and why (`erm.REASONS`)."""

    point: FitPoint
    stopped: str
    iterations: int = 0


@np.errstate(invalid="ignore")  # a BLAS kernel may raise the flag for lanes whose results it throws away
def minimise(problem: FitProblem, start: FitPoint, tolerance: float) -> Solution:
    """Minimise F from a point."""
    n, d = problem.features.shape
    newton_possible = d <= n or problem.ridge > 0.0
    one_system = newton_possible and isinstance(problem.loss, Square)  # whose Hessian is the same everywhere
    at_rest = not problem.endless or not start.v[:-1].any()
    if at_rest and _at_rounding(problem, start, 2.0):
        return Solution(start, "precision")
    solution = Solution(start, GOING)
    # Without a ridge the Hessian may be singular, and L-BFGS runs to the end, unless there may be no minimum.
    newton_helps = newton_possible and (problem.ridge > 0.0 or problem.endless)
    if not one_system:
        solution = lbfgs(problem, start, tolerance, impatient=newton_helps)
    if solution.stopped == GOING and newton_possible:
        solution = newton(problem, solution, tolerance)
    if solution.stopped == GOING:
        solution = replace(solution, stopped="precision" if _at_rounding(problem, solution.point) else "stalled")
    return solution


def newton_price(problem: FitProblem, z: np.ndarray) -> float:
    """Passes over the features that take about as long as Newton's method from a point with outputs z."""
    n, d = problem.features.shape
    bent = int(np.count_nonzero(problem.curvatures(z)))
    if problem.features.few_samples:  # a Gram matrix once, and a factor in every step
        work = n * n * d + NEWTON_STEPS * 2 * bent**3 / 3
    elif problem.features.by_samples(bent):
        work = NEWTON_STEPS * (bent**2 * d + 2 * bent**3 / 3)
    else:
        work = NEWTON_STEPS * (bent * d * d + d**3 / 3)
    # Multiply-adds per feature that take as long as a pass over the features (one BLAS thread), in the cache and beyond it.
    per_pass = 20 if 8 * n * d > CACHED_BYTES else 8
    return work / (n * d * per_pass) + 3 * NEWTON_STEPS  # each step takes three passes besides its factor


def _at_rounding(problem: FitProblem, point: FitPoint, factor: float = 50.0) -> bool:
    """Whether the gradient is within a factor of its estimated rounding error: if no step descends there, it is the minimum."""
    return point.size <= factor * problem.rounding(point)


def _check(problem: FitProblem, point: FitPoint, tolerance: float) -> str:
    """The reason to stop, from the point alone, or "going"."""
    if problem.endless:
        return "unbounded" if problem.separates(point.z) else GOING
    return "gradient" if point.size <= tolerance * problem.gradient_scale(point) else GOING


class _Enough(Exception):
    """Ends SciPy's L-BFGS."""


def lbfgs(problem: FitProblem, start: FitPoint, tolerance: float, impatient: bool) -> Solution:
    """SciPy's L-BFGS from a point; the bias counts like a feature of typical size.

    With `impatient` it ends as soon as Newton's method is expected to be faster, which is looked at every five passes.
    """
    units = np.ones(len(start.v))
    units[-1] = math.sqrt(problem.features.mean_square) or 1.0
    best, stopped, sizes = start, _check(problem, start, tolerance), [start.size]
    if stopped != GOING:
        return Solution(start, stopped)

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, stopped
        point = start if len(sizes) == 1 else problem.at(units * u)
        sizes.append(point.size)
        best = point if point.value <= best.value else best
        stopped = _check(problem, point, tolerance)
        if stopped == GOING and len(sizes) > MAX_ITERATIONS:
            stopped = "iterations"
        if stopped != GOING or (impatient and len(sizes) % 5 == 0 and newton_is_quicker()):
            raise _Enough
        return point.value, units * point.g

    def newton_is_quicker() -> bool:
        price, goal = newton_price(problem, best.z), tolerance * problem.gradient_scale(best)
        first, last = len(sizes) // 4, len(sizes) - 1
        if last < price / NEWTON_STEPS:
            return False
        rate = math.log(sizes[first] / best.size) / (last - first)
        return goal == 0.0 or math.log(best.size / goal) > price * rate

    options = {"maxiter": MAX_ITERATIONS, "maxfun": 2 * MAX_ITERATIONS, "ftol": 0.0, "gtol": 0.0}
    with suppress(_Enough):
        minimize(objective, start.v / units, method="L-BFGS-B", jac=True, options=options)
    return Solution(best, stopped, len(sizes) - 1)


def newton(problem: FitProblem, start: Solution, tolerance: float) -> Solution:
    """Newton's method: steps until the gradient is small, nothing descends any more, or the iterations are used up.

    Without a ridge a small gradient may mean a minimum at infinity. There each step still moves outputs by about 1 (the
    logistic loss falls like e^-z); near a true minimum they soon move by less than 0.01, within ten steps.
    """
    point, iterations = start.point, start.iterations
    drifts, last_size, moves = 0, math.inf, (math.inf, math.inf)
    while True:
        stopped = _check(problem, point, tolerance)
        at_rest = not problem.endless or max(moves) <= 0.01 or not point.v[:-1].any()
        small = point.size <= tolerance * problem.gradient_scale(point)
        slow = point.size > 0.5 * last_size
        if stopped == GOING and small:
            drifts += 1
            stopped = "gradient" if at_rest else "unbounded" if drifts > 10 else GOING
        elif stopped == GOING and at_rest and slow and _at_rounding(problem, point, 2.0):
            stopped = "precision"
        if stopped == GOING and iterations >= MAX_ITERATIONS:
            stopped = "iterations"
        if stopped != GOING:
            return Solution(point, stopped, iterations)
        last_size = point.size
        iterations += 1
        v = problem.newton_direction(point)
        dz = problem.features.times(v[:-1]) + v[-1]
        t = line_search(problem, point, v, dz)
        if t == 0.0:
            near = at_rest and _at_rounding(problem, point)
            stopped = "precision" if near else "unbounded" if problem.endless and small else "stalled"
            return Solution(point, stopped, iterations)
        point, moves = problem.at(point.v + t * v), (moves[1], t * float(np.abs(dz).max()))


def line_search(problem: FitProblem, point: FitPoint, v: np.ndarray, dz: np.ndarray) -> float:
    """t > 0 with |phi'(t)| <= |phi'(0)|/10, phi(t) = F along the direction; 0 when phi does not fall.

    Newton's method on phi', kept inside a bracket. It costs vectors of n numbers and no pass over the features.
    """
    y, ridge = problem.labels, problem.ridge
    linear, quadratic = ridge * float(point.v[:-1] @ v[:-1]), ridge * float(v[:-1] @ v[:-1])
    slope_at_zero = float(point.r @ dz) + linear
    if not slope_at_zero < 0.0:
        return 0.0
    pdz = problem.weights * dz
    t, low, high = 1.0, 0.0, math.inf
    for _ in range(40):  # bisection alone would take the bracket to 1e-12 of its width
        z = point.z + t * dz
        slope = float(pdz @ problem.loss.slope(z, y)) + linear + t * quadratic
        if abs(slope) <= 0.1 * abs(slope_at_zero):
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        bend = float((pdz * dz) @ problem.loss.curvature(z, y)) + quadratic
        there = t - slope / bend if bend > 0.0 else math.inf
        if math.isinf(high):
            t = min(max(there, 1.5 * t), 4.0 * t)
        else:
            t = there if low < there < high else 0.5 * (low + high)
    return t
