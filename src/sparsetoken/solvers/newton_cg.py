"""Newton's method for the readout's problem, with inexact directions and an almost exact line search.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

Five separate parts: the inner solve (a Newton system by conjugate gradients), the line search, the full step that a good
factor allows instead of both, the check of convergence, and the policy that says when a factorisation of the Hessian pays
(`FactorPolicy`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .features import NotPositiveError
from .linear_systems import Cholesky, Preconditioner, Scaling, Secants, conjugate_gradients
from .problem import Point, Problem, always_falls, strictly_convex

# Largest relative residual left in a Newton system. CPU time on seven problems (logistic and smoothed hinge, tall, wide and
# nearly separable) together: 0.01 512 ms, 0.03 463, 0.1 385, 0.3 439, 0.5 555.
FORCING = 0.1
# The line search ends once the slope along the direction has fallen to this share. The same problems: 0.01 400 ms, 0.1 380,
# 0.3 441, 0.9 424.
LINE_SEARCH_SLOPE = 0.1
# Products per system with a fresh factor: in exact arithmetic and with an exact factor one would do.
FRESH_LIMIT = 200
# A fresh single-precision factor that still takes this many products, or this many Newton iterations, says that single
# precision does not carry; from there on everything is in double precision.
SINGLE_PRODUCTS, SINGLE_ITERATIONS = 15, 30
# Where the loss has kinks, the Hessian averages l'' over outputs  WIDTH sqrt(t) rms(dz)  to either side, dz and t being the
# last direction and step: samples about to cross a kink count. Against a width set only after steps below 1/2 this took
# 641 ms instead of 1541 (2000 x 1000, nearly separable, ridge 1e-4) and was never much slower on 16 problems with the
# smoothed hinge but for one (1000 x 900, nearly separable, ridge 1e-2: 111 ms instead of 61).
WIDTH = 0.3
# A full step is kept where it leaves no more than this share of the gradient, and tried again where the last one left no
# more than the next ones: before the first factor (L-BFGS, an evaluation per step), and with one. CPU time on 16 problems
# (logistic and smoothed hinge, tall to square), geometric mean of the ratios, known to 3%: kept 0.5 1.03, 0.9 0.97; without
# factor never 1.02, 0.4 1.03, 0.7 0.99; with one never 1.08, 0.2 and 0.5 0.99.
KEPT, TRIED_WITHOUT_FACTOR, TRIED_WITH_FACTOR = 0.7, 0.6, 0.35
# With so many samples per feature the policy looks ahead: the Hessian hardly changes any more, and one factor lasts. On such
# data it saves 10% (30,000 x 100 34 ms instead of 50), with fewer samples it doubles the time (2,500 x 1,000, ridge 1e-5).
SAMPLES_TO_LOOK_AHEAD = 20
# Points are evaluated in single precision while the last gradient was this many times the bound on its rounding errors
# (which mostly cancel), and once more in double precision where it turns out smaller than the bound. The same problems:
# never 1.15, 100 0.97, 3 1.02.
ROUGH = 10.0
# Without a ridge a small gradient may mean a minimum at infinity. There each Newton step still moves outputs by about 1
# (the logistic loss falls like e^-z); near a true minimum it moves them by the square root of the tolerance or less.
LARGEST_LAST_MOVE = 1e-2
# So many steps with a small gradient that still move outputs as much: Newton's method would long have converged.
DRIFTS = 10
# The gradient's rounding error is estimated to first order; a method that cannot descend within this factor of it is at the
# minimum to working precision, further away it is stuck.
ROUNDING_FACTOR = 50.0


@dataclass(frozen=True)
class Solution:
    """Where the method ended.

    Attributes
    ----------
    point : Point
        The last point, with its outputs and gradient.
    gradient_norm : float
        ||grad F|| / (ridge ||w||); where that is 0, relative to the mean of |l'(0)| ||x||.
    stopped : str
        Why the method ended, see `erm.REASONS`; "factor" where the policy asked for a factorisation that was not allowed.
    iterations, products, factorisations : int
        Work done.
    preconditioner : Preconditioner
        The last one in use.
    """

    point: Point
    gradient_norm: float
    stopped: str
    iterations: int = 0
    products: int = 0
    factorisations: int = 0
    preconditioner: Preconditioner | None = None


class FactorPolicy:
    """When to factorise the Hessian: whenever the products spent since the last time have cost as much as it would.

    Easy problems thus never pay for a factorisation, hard ones (separable, tiny ridge) pay for few; the total is at most
    twice that of the better of the two in hindsight.

    Parameters
    ----------
    price : float
        Cost of a factorisation, in products with the Hessian.
    looks_ahead : bool
        Whether the products expected on the rest of the way count as well.
    """

    def __init__(self, price: float, looks_ahead: bool = False):
        self.price, self.looks_ahead = price, looks_ahead
        self.spent = 0
        self.last = 0  # products of the last system

    def due(self, systems_left: float) -> bool:
        """Whether the next system is to get a fresh factor."""
        ahead = self.last * systems_left if self.looks_ahead and math.isfinite(systems_left) else 0.0
        return max(self.spent, ahead) >= self.price and not self._near_end(systems_left)

    def _near_end(self, systems_left: float) -> bool:
        """A factor that is due can wait where the rest of the way, at the last system's cost, is shorter than it."""
        return self.spent < 2 * self.price and 1.5 * self.last * (systems_left + 1.0) < self.price

    def limit(self, systems_left: float) -> int:
        """Products the next system may take without a fresh factor."""
        room = self.price - self.spent
        return max(3, math.ceil(max(room, 2 * self.last if self._near_end(systems_left) else 0)))

    def note(self, products: int) -> None:
        self.spent, self.last = self.spent + products, products

    def factorised(self) -> None:
        self.spent, self.last = 0, 1

    def demand(self) -> None:
        """Ask for a factor now: the last direction was spoilt by rounding."""
        self.spent = math.ceil(2 * self.price) + 1


class NewtonCG:
    """Minimise F from a given point.

    Parameters
    ----------
    problem : Problem
        F.
    tolerance : float
        Stop once ||grad F|| <= tolerance * ridge ||w||.
    max_iterations : int
        Newton iterations at most.
    price : float
        Cost of a factorisation in products, for the policy.
    may_factorise : bool
        False: end with "factor" where the policy asks for a factorisation.
    preconditioner : Preconditioner, optional
        The first one; by default only the bias is scaled.
    """

    def __init__(
        self,
        problem: Problem,
        tolerance: float,
        max_iterations: int,
        price: float | None = None,
        may_factorise: bool = True,
        preconditioner: Preconditioner | None = None,
    ):
        self.problem, self.tolerance, self.max_iterations = problem, tolerance, max_iterations
        features = problem.features
        n, d = features.shape
        self.policy = FactorPolicy(
            d / features.cholesky_price if price is None else price, n >= SAMPLES_TO_LOOK_AHEAD * d
        )
        self.may_factorise = may_factorise
        self.preconditioner: Preconditioner = preconditioner or Scaling(problem)
        self.endless = problem.ridge == 0.0 and always_falls(problem.loss)
        self.kinked = not strictly_convex(problem.loss)
        self.iterations = self.products = self.factorisations = 0
        self.width = 0.0  # the loss's curvature is averaged over outputs this far to either side
        self.last_move, self.drifts = math.inf, 0
        # Whether the next point may be evaluated in single precision.
        self.rough = not problem.features.exact and not self.endless
        # The last factor and what was learnt since, while full steps are worth a try. Never without a ridge: there the length
        # of each step is looked at, and a full one might leave for infinity.
        self.secants = None if self.endless else Secants(self.preconditioner, scaled=True)
        self.fresh = False  # whether the last system had a factor of its own Hessian, in double precision

    # BLAS kernels may raise the flag of an invalid operation for lanes whose results they throw away (seen once, for
    # finite features and weights in single precision): what is not finite is found by the checks, not by that flag.
    @np.errstate(invalid="ignore")
    def solve(self, w: np.ndarray, b: float) -> Solution:
        """Run from (w, b) until the check of convergence or the policy says stop."""
        self._move_to(w, b)
        while True:
            if self.problem.features.exact:
                self._sharpen()
            stopped = self.check_convergence()
            if stopped is None and self.iterations == self.max_iterations:
                stopped = "iterations"
            if stopped is not None:
                break
            self.iterations += 1
            stopped = self._iterate()
            if stopped is not None:
                break
        return Solution(
            self.point,
            self.problem.relative_gradient(self.point),
            stopped,
            self.iterations,
            self.products,
            self.factorisations,
            self.preconditioner,
        )

    def _iterate(self) -> str | None:
        """One step, full or Newton's own; the reason to give up, or None."""
        if self.secants is not None and self.secants.pairs and self.full_step(self.secants):
            return None
        curvature, systems_left = self._curvature(), self._systems_left()
        due = self.policy.due(systems_left)
        if due and not self.may_factorise:
            return "factor"
        try:
            if due:
                self._factorise(curvature)
                if self.secants is not None and self.full_step(self.secants):
                    return None
            v, dz = self.inner_solve(curvature, systems_left, due)
        except NotPositiveError:
            return self.reason_to_give_up()
        t = self.line_search(v, dz)
        if t > 0.0:
            self._step(t, v, dz)
            return None
        if self.fresh:
            return self.reason_to_give_up()
        # Rounding spoilt the direction: once more, in double precision and with a fresh factor.
        self.problem.features.be_exact()
        self.policy.demand()
        return None if self.may_factorise else "factor"

    def _move_to(self, w: np.ndarray, b: float) -> None:
        self.point, self.scale = self.problem.at(w, b, self.rough), self.problem.gradient_scale(w)
        self.is_rough = self.rough
        if self.is_rough:
            noise = self.problem.roughness(self.point)
            self.rough = self.point.size > ROUGH * noise
            if self.point.size <= max(noise, self.tolerance * self.scale):
                self._sharpen()

    def _sharpen(self) -> None:
        """The same point in double precision."""
        self.rough = False
        if self.is_rough:
            self._move_to(self.point.w, self.point.b)

    def full_step(self, secants: Secants) -> bool:
        """Try the whole step that the last factor and the steps since then suggest; whether it was taken.

        It costs one evaluation, where Newton's own step costs at least one product, a line search and the curvatures as
        well. What it leaves of the gradient says whether it was good: F is convex.
        """
        before, rest = self.point, (self.scale, self.rough, self.is_rough)
        v = -secants.solve(before.g)
        self._move_to(before.w + v[:-1], before.b + float(v[-1]))
        left = self.point.size / before.size
        if not left <= (TRIED_WITHOUT_FACTOR if secants.scaled else TRIED_WITH_FACTOR):
            self.secants = None
        if not left <= KEPT:
            self.point, (self.scale, self.rough, self.is_rough) = before, rest
            return False
        secants.add(v, self.point.g - before.g)
        self._set_width(self.point.z - before.z)
        return True

    def check_convergence(self) -> str | None:
        """The reason to stop here, or None."""
        if self.endless and self.problem.separates(self.point.z):
            return "unbounded"
        if self.point.size <= self.tolerance * self.scale:
            if not self.endless or self._at_rest():
                return "gradient"
            self.drifts += 1
            if self.drifts > DRIFTS:
                return "unbounded"
        # Rounding is estimated only where it may matter: the estimate costs a pass over the samples.
        small = self.point.size <= 1e-9 * (self.scale + self.problem.initial_pull)
        if not small or (self.endless and not self._at_rest()):
            return None
        return "precision" if self.point.size <= 2.0 * self.problem.rounding(self.point) else None

    def _at_rest(self) -> bool:
        """Whether the last Newton step was short, or the point has not moved from w = 0, where nothing drifts."""
        return self.last_move <= LARGEST_LAST_MOVE or not self.point.w.any()

    def reason_to_give_up(self) -> str:
        """Why no direction leads further down."""
        if self.endless and not self._at_rest():
            return "stalled"
        near = self.point.size <= ROUNDING_FACTOR * self.problem.rounding(self.point)
        return "precision" if near else "stalled"

    def _curvature(self) -> np.ndarray:
        curvature = self.problem.curvatures(self.point.z, self.width)
        if not curvature.max() > 0.0:  # every sample on a flat or straight part of the loss
            self.width = max(self.width, 1.0)
            curvature = self.problem.curvatures(self.point.z, self.width)
        return curvature

    def _systems_left(self) -> float:
        """Newton systems until the tolerance is met, if each leaves the largest residual allowed."""
        goal = self.tolerance * self.scale
        if self.point.size <= goal:
            return 0.0
        return math.log(self.point.size / goal) / -math.log(FORCING) if goal > 0.0 else math.inf

    def _factorise(self, curvature: np.ndarray) -> None:
        self.preconditioner = Cholesky(self.problem, curvature)
        self.factorisations += 1
        self.policy.factorised()
        if not self.endless:
            self.secants = Secants(self.preconditioner, scaled=False)

    def inner_solve(self, curvature: np.ndarray, systems_left: float, due: bool) -> tuple[np.ndarray, np.ndarray]:
        """A Newton direction v and X v, with the factor at hand, which is fresh where it was due.

        The system is solved no more exactly than the distance to the minimum (a residual of sqrt(relative gradient)
        keeps convergence faster than linear) or the tolerance is worth.
        """
        forcing = FORCING
        if self.scale > 0.0:
            enough = 0.3 * self.tolerance * self.scale / self.point.size
            forcing = max(min(FORCING, math.sqrt(self.point.size / self.scale)), enough)
        limit = FRESH_LIMIT if due else self.policy.limit(systems_left)
        v, dz, used = conjugate_gradients(self.problem, curvature, self.preconditioner, self.point.g, forcing, limit)
        self.products += used
        self.policy.note(used)
        self.fresh = due and self.problem.features.exact
        if (due and used > SINGLE_PRODUCTS) or self.iterations > SINGLE_ITERATIONS:
            self.problem.features.be_exact()
        return v, dz

    def line_search(self, v: np.ndarray, dz: np.ndarray) -> float:
        """t > 0 with |phi'(t)| <= 0.1 |phi'(0)|, phi(t) = F along the direction; 0 when phi does not fall.

        Newton's method on phi', kept inside a bracket. It costs vectors of n numbers, no pass over the features, and an
        almost exact minimum along each direction saves whole systems.
        """
        problem, point, y = self.problem, self.point, self.problem.labels
        linear, quadratic = problem.ridge * float(point.w @ v[:-1]), problem.ridge * float(v[:-1] @ v[:-1])
        slope0 = float(point.r @ dz) + linear
        if not slope0 < 0.0:
            return 0.0
        pdz = problem.weights * dz
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(40):  # bisection alone would take the bracket to 1e-12 of its width
            zt = point.z + t * dz
            slope = float(pdz @ problem.loss.slope(zt, y)) + linear + t * quadratic
            if abs(slope) <= LINE_SEARCH_SLOPE * abs(slope0):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)
            bend = float((pdz * dz) @ problem.loss.curvature(zt, y)) + quadratic
            newton = t - slope / bend if bend > 0.0 else math.inf
            if math.isinf(high):
                t = min(max(newton, 1.5 * t), 4.0 * t)
            else:
                t = newton if low < newton < high else 0.5 * (low + high)
        return t

    def _step(self, t: float, v: np.ndarray, dz: np.ndarray) -> None:
        self.last_move = t * float(np.abs(dz).max())
        before = self.point
        self._move_to(before.w + t * v[:-1], before.b + t * float(v[-1]))
        self._set_width(math.sqrt(t) * dz)
        if self.secants is not None:
            self.secants.add(t * v, self.point.g - before.g)

    def _set_width(self, moved: np.ndarray) -> None:
        if self.kinked:
            self.width = WIDTH * math.sqrt(float(moved @ moved) / len(moved))
