"""The minimiser of the readout's problem: L-BFGS as long as that is cheaper than a factorisation, then Newton's method.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

Newton's systems are solved by conjugate gradients whose preconditioner is the last Cholesky factor; a new factor is made where
the old one needs too many products. Convergence is judged on the gradient of F itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from ..losses import Square
from .problem import FitPoint, FitProblem, Solve

# A factorisation of order k takes as long as about k / 12 + 2 passes over the features (one BLAS thread; between k / 6 where
# they fit into the cache and k / 17 where they do not).
PASSES_PER_ORDER = 1 / 12
# With so few unknowns a factorisation takes no longer than the passes around it: Newton's method from the start.
FEW_UNKNOWNS = 60
# Largest relative residual left in a Newton system.
FORCING = 0.1
# The line search ends once the slope along the direction has fallen to this share.
SLOPE_LEFT = 0.1
# A method that cannot descend within this factor of the gradient's estimated rounding error is at the minimum.
ROUNDING_FACTOR = 50.0
# Without a ridge a small gradient may mean a minimum at infinity. There each Newton step still moves outputs by about 1 (the
# logistic loss falls like e^-z); near a true minimum two steps soon move them by less than this, within so many steps.
SMALL_MOVE, DRIFTS = 1e-2, 10

GOING = "going"  # not a reason to stop


@dataclass(frozen=True)
class Solution:
    """Where the method ended, and why (`erm.REASONS`)."""

    point: FitPoint
    stopped: str
    iterations: int = 0


@np.errstate(invalid="ignore")  # a BLAS kernel may raise the flag for lanes whose results it throws away
def minimise(problem: FitProblem, start: FitPoint, tolerance: float, max_iterations: int) -> Solution:
    """Minimise F from a point."""
    n, d = problem.features.shape
    newton_possible = d <= n or problem.ridge > 0.0
    one_system = newton_possible and isinstance(problem.loss, Square)  # whose Hessian is the same everywhere
    found = Solution(start, GOING)
    # Without a ridge the Hessian may be singular, and L-BFGS has all the time it needs, unless there may be no minimum.
    newton_helps = newton_possible and (problem.ridge > 0.0 or problem.endless)
    if not one_system and (min(n, d) > FEW_UNKNOWNS or not newton_helps):
        found = lbfgs(problem, start, tolerance, max_iterations, _price(problem) if newton_helps else max_iterations)
    if found.stopped == GOING and newton_possible:
        found = _Newton(problem, tolerance, max_iterations, found).solve()
    if found.stopped == GOING:
        found = replace(found, stopped="precision" if _at_rounding(problem, found.point) else "stalled")
    return found


def _price(problem: FitProblem) -> int:
    """Passes over the features that take as long as a factorisation."""
    return math.ceil(PASSES_PER_ORDER * min(problem.features.shape)) + 2


def _at_rounding(problem: FitProblem, point: FitPoint, factor: float = ROUNDING_FACTOR) -> bool:
    return point.size <= factor * problem.rounding(point)


def _bias_scaling(problem: FitProblem) -> Solve:
    gains = np.ones(problem.features.shape[1] + 1)
    gains[-1] = problem.features.mean_square or 1.0
    return lambda r: gains * r


def _check(problem: FitProblem, point: FitPoint, tolerance: float) -> str:
    """The reason to stop at a point that can be told from the point alone, or "going"."""
    if problem.endless:
        return "unbounded" if problem.separates(point.z) else GOING
    return "gradient" if point.size <= tolerance * problem.gradient_scale(point) else GOING


def lbfgs(problem: FitProblem, start: FitPoint, tolerance: float, max_iterations: int, patience: int) -> Solution:
    """SciPy's L-BFGS from a point; the bias counts like a feature of typical size.

    After `patience` steps it goes on only while it promises to be done in as many again, at the rate so far.
    """
    units = np.ones(len(start.v))
    units[-1] = math.sqrt(problem.features.mean_square) or 1.0
    last, stopped, steps = start, _check(problem, start, tolerance), 0
    if stopped != GOING:
        return Solution(start, stopped)

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal last
        if not np.array_equal(last.v, units * u):  # the start is known
            last = problem.at(units * u)
        return last.value, units * last.g

    def after_step(u: np.ndarray) -> None:
        nonlocal stopped, steps
        steps += 1
        stopped = _check(problem, last, tolerance)
        if stopped == GOING and steps == max_iterations:
            stopped = "iterations"
        if stopped != GOING or (steps >= patience and not on_course()):
            raise StopIteration

    def on_course() -> bool:
        goal = tolerance * problem.gradient_scale(last)
        rate = math.log(start.size / last.size) / steps
        return goal > 0.0 and math.log(last.size / goal) <= patience * rate

    options = {"maxiter": max_iterations, "maxfun": 10 * max_iterations, "ftol": 0.0, "gtol": 0.0}
    done = minimize(objective, start.v / units, method="L-BFGS-B", jac=True, callback=after_step, options=options)
    point = last if np.array_equal(last.v, units * done.x) else problem.at(units * done.x)
    return Solution(point, stopped, steps)


class _Newton:
    """Newton's method with conjugate gradients and an almost exact line search."""

    def __init__(self, problem: FitProblem, tolerance: float, max_iterations: int, start: Solution):
        self.problem, self.tolerance, self.max_iterations = problem, tolerance, max_iterations
        self.point, self.iterations = start.point, start.iterations
        # After L-BFGS the first systems are tried without a factor, the bias counting like a feature of typical size.
        self.inverse: Solve | None = _bias_scaling(problem) if start.iterations else None

    def solve(self) -> Solution:
        """Steps until the gradient is small, nothing descends any more, or the iterations are used up."""
        problem, drifts, last_size, moves = self.problem, 0, math.inf, (math.inf, math.inf)
        while True:
            stopped = _check(problem, self.point, self.tolerance)
            at_rest = not problem.endless or max(moves) <= SMALL_MOVE or not self.point.v[:-1].any()
            small = self.point.size <= self.tolerance * problem.gradient_scale(self.point)
            if stopped == GOING and small:
                drifts += 1
                stopped = "gradient" if at_rest else "unbounded" if drifts > DRIFTS else GOING
            elif (
                stopped == GOING
                and at_rest
                and self.point.size > 0.5 * last_size
                and _at_rounding(problem, self.point, 2.0)
            ):
                stopped = "precision"
            if stopped == GOING and self.iterations >= self.max_iterations:
                stopped = "iterations"
            if stopped != GOING:
                return Solution(self.point, stopped, self.iterations)
            last_size = self.point.size
            self.iterations += 1
            moves = (moves[1], self._step())
            if moves[1] == 0.0:
                near = at_rest and _at_rounding(problem, self.point)
                stopped = "precision" if near else "unbounded" if problem.endless and small else "stalled"
                return Solution(self.point, stopped, self.iterations)

    def _step(self) -> float:
        """One step; by how much the outputs move at most, 0 where nothing descends."""
        curvature = self.problem.curvatures(self.point.z)
        for fresh in (self.inverse is None, True):
            if fresh:
                self.inverse = self._factorised(curvature)
            v, dz = self._direction(curvature)
            t = line_search(self.problem, self.point, v, dz)
            if t > 0.0:
                self.point = self.problem.at(self.point.v + t * v)
                return t * float(np.abs(dz).max())
            if fresh:
                break
        return 0.0

    def _factorised(self, curvature: np.ndarray) -> Solve:
        # Curvatures may be tiny as a whole (separable data, tiny ridge): the factor sees them relative to the largest.
        problem, scale = self.problem, float(curvature.max()) or 1.0
        inverse = problem.features.inverse_hessian(curvature / scale, problem.ridge / scale, problem.fit_bias)
        return lambda r: inverse(r) / scale

    def _direction(self, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v with ||H v + g|| <= relative ||g|| and its change of outputs.

        The system is solved no more exactly than the distance to the minimum is worth: a residual of sqrt(relative gradient)
        keeps convergence faster than linear. A factor that takes as many products as a new one would is thrown away.
        """
        problem, g = self.problem, self.point.g
        assert self.inverse is not None
        relative = min(FORCING, math.sqrt(problem.relative_gradient(self.point)))
        limit = _price(problem)
        v, dz, products = conjugate_gradients(problem, curvature, self.inverse, g, relative, limit)
        if products >= limit:
            self.inverse = None
        return v, dz


def conjugate_gradients(
    problem: FitProblem, curvature: np.ndarray, inverse: Solve, g: np.ndarray, relative: float, limit: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """v with ||H v + g|| <= relative ||g||, or the best after `limit` products (any iterate is a descent direction)."""
    v, dz, r = np.zeros_like(g), np.zeros(problem.features.shape[0]), -g
    s = inverse(r)
    direction, rs = s, float(r @ s)
    goal = relative * np.linalg.norm(g)
    products = 0
    while products < limit and rs > 0.0:
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
        s = inverse(r)
        rs, rs_before = float(r @ s), rs
        direction = s + (rs / rs_before) * direction
    return v, dz, products


def line_search(problem: FitProblem, point: FitPoint, v: np.ndarray, dz: np.ndarray) -> float:
    """t > 0 with |phi'(t)| <= SLOPE_LEFT |phi'(0)|, phi(t) = F along the direction; 0 when phi does not fall.

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
        if abs(slope) <= SLOPE_LEFT * abs(slope_at_zero):
            break
        low, high = (t, high) if slope < 0.0 else (low, t)
        bend = float((pdz * dz) @ problem.loss.curvature(z, y)) + quadratic
        there = t - slope / bend if bend > 0.0 else math.inf
        if math.isinf(high):
            t = min(max(there, 1.5 * t), 4.0 * t)
        else:
            t = there if low < there < high else 0.5 * (low + high)
    return t
