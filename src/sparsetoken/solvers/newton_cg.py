"""Newton's method for the readout's problem, with inexact directions and an almost exact line search.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

Five separate parts: the inner solve (a Newton system by conjugate gradients), the line search, the quasi-Newton step that
replaces both as soon as one step has shown the way, the check of convergence, and the policy that says when a factorisation of
the Hessian pays (`FactorPolicy`).

Constants below were chosen by the work they cost, in evaluations of F (one in double precision counts as two in single, a
factorisation as what it took on this data), on 32 problems: logistic and smoothed hinge on clouds of 10,000 x 50, 5,000 x 200,
15,000 x 20, 7,000 x 90, 50,000 x 10, 2,500 x 400, 20,000 x 300, 2,000 x 1,000, 500 x 2,000, 1,200 x 1,100 (ridge 1e-4 to 1,
partly nearly separable), and on features of the task. Figures are geometric means, relative to the choice. They were confirmed
on the other shapes, features and ridges of the benchmark `readout_odd`.
"""

from __future__ import annotations

import math
from collections import deque
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
# A fresh single-precision factor that still takes this many products, or this many Newton systems, say that single precision
# does not carry; from there on everything is in double precision.
SINGLE_PRODUCTS, SINGLE_SYSTEMS = 15, 30
# Where the loss has kinks, the Hessian averages l'' over outputs  WIDTH sqrt(t) rms(dz)  to either side, dz and t being the
# last direction and step: samples about to cross a kink count. Against a width set only after steps below 1/2 this took
# 641 ms instead of 1541 (2000 x 1000, nearly separable, ridge 1e-4) and was never much slower on 16 problems with the
# smoothed hinge but for one (1000 x 900, nearly separable, ridge 1e-2: 111 ms instead of 61).
WIDTH = 0.3
# A step that the last factor and the steps since then suggest is taken whole where it changes the slope along it to no more
# than this share, up or down; otherwise the line search has its say. Work on 32 problems (below): down to 0.3 1.05, 0.5 1,
# 0.7 1.03, 0.9 1.05; up to 0.3 1.01, 0.7 1.04.
SLOPE_LEFT = 0.5
# Over this many of the last steps the rate at which the gradient falls is taken. The same problems: 8 1.00, 12 1.01.
STEPS_JUDGED = 4
# Points are reached by adding changes in single precision while the gradient is this many times what its rounding errors have
# come to, and summed anew in double precision there and where the tolerance is met. The same problems: 3 1.04.
ROUGH = 10.0
# Rounding errors this many times as large as expected: something else is wrong with single precision (underflow, say).
WRONG = 100.0
# Without a ridge a small gradient may mean a minimum at infinity. There each Newton step still moves outputs by about 1
# (the logistic loss falls like e^-z); near a true minimum it moves them by the square root of the tolerance or less.
LARGEST_LAST_MOVE = 1e-2
# This many steps with a small gradient that still move outputs as much: Newton's method would long have converged.
DRIFTS = 10
# A share of the gradient that counts as nothing, for logarithms.
TINY = 1e-300
# The gradient's rounding error is estimated to first order; a method that cannot descend within this factor of it is at the
# minimum to working precision, further away it is stuck.
ROUNDING_FACTOR = 50.0
# Rounding errors are estimated on the high side: while steps still leave less than this share of the gradient, they go on.
STILL_FALLS = 0.5


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
    twice that of the better of the two in hindsight. An evaluation of F counts as a product.

    Parameters
    ----------
    price : float
        Cost of a factorisation, in products with the Hessian.
    """

    def __init__(self, price: float):
        self.price = price
        self.spent = 0.0
        self.last = 0.0  # products of the last system, or what steps without one need in its place

    def due(self, systems_left: float) -> bool:
        """Whether the next step is to get a fresh factor."""
        return self.spent >= self.price and not self._near_end(systems_left)

    def _near_end(self, systems_left: float) -> bool:
        """A factor that is due can wait where the rest of the way costs no more than it, and then a product per system.

        Work on the 32 problems with the rest of the way alone: 1.01, with 1.5 times that: 1.03.
        """
        return self.spent < 2 * self.price and (self.last - 1.0) * (systems_left + 1.0) < self.price

    def limit(self, systems_left: float) -> int:
        """Products the next system may take without a fresh factor."""
        room = self.price - self.spent
        return max(3, math.ceil(max(room, 2 * self.last if self._near_end(systems_left) else 0)))

    def note(self, products: int) -> None:
        """A system took this many products."""
        self.spent, self.last = self.spent + products, products

    def note_step(self, left: float) -> None:
        """A step without a system took an evaluation; such steps leave this share of the gradient each."""
        self.spent += 1
        if left < 1.0:
            self.last = math.log(FORCING) / math.log(max(left, FORCING**2))
        else:
            self.last = math.inf

    def factorised(self) -> None:
        self.spent, self.last = 0.0, 1.0

    def demand(self) -> None:
        """Ask for a factor now: the last direction was spoilt by rounding."""
        self.spent = 2 * self.price + 1


class NewtonCG:
    """Minimise F from a given point.

    Parameters
    ----------
    problem : Problem
        F.
    tolerance : float
        Stop once ||grad F|| <= tolerance * ridge ||w||.
    max_iterations : int
        Steps at most.
    price : float
        Cost of a factorisation in products, for the policy.
    may_factorise : bool
        False: end with "factor" where the policy asks for a factorisation.
    preconditioner : Preconditioner, optional
        The first one; by default only the bias is scaled.
    trusted : bool
        Whether that is as good as a factor of the Hessian, and steps follow it at once.
    """

    def __init__(
        self,
        problem: Problem,
        tolerance: float,
        max_iterations: int,
        price: float | None = None,
        may_factorise: bool = True,
        preconditioner: Preconditioner | None = None,
        trusted: bool = False,
    ):
        self.problem, self.tolerance, self.max_iterations = problem, tolerance, max_iterations
        features = problem.features
        self.policy = FactorPolicy(features.factor_price(features.shape[1]) if price is None else price)
        self.may_factorise = may_factorise
        self.preconditioner: Preconditioner = preconditioner or Scaling(problem)
        self.endless = problem.ridge == 0.0 and always_falls(problem.loss)
        self.kinked = not strictly_convex(problem.loss)
        self.iterations = self.products = self.factorisations = self.systems = 0
        self.width = 0.0  # the loss's curvature is averaged over outputs this far to either side
        self.last_move, self.drifts = math.inf, 0
        # Whether points may be reached by adding changes in single precision.
        self.rough = not problem.features.exact and not self.endless
        # What rounding has come to since the last point summed in double precision, and the steps since then.
        self.noise, self.age = 0.0, 0
        # The last factor and what was learnt since. Not where there may be no minimum: there the length of each step is
        # looked at, and such a step might leave for infinity.
        self.secants = None if self.endless else Secants(self.preconditioner, scaled=not trusted)
        self.left: deque[float] = deque(maxlen=STEPS_JUDGED)  # shares of the gradient that the last such steps left
        self.last_size = 0.0  # ||grad F|| when it was last compared with rounding errors
        self.fresh = False  # whether the last system had a factor of its own Hessian, in double precision

    # BLAS kernels may raise the flag of an invalid operation for lanes whose results they throw away (seen once, for
    # finite features and weights in single precision): what is not finite is found by the checks, not by that flag. A step that
    # is far too long may overflow (the exponential loss), and is then shortened by the line search.
    @np.errstate(invalid="ignore", over="ignore")
    def solve(self, w: np.ndarray, b: float) -> Solution:
        """Run from (w, b) until the check of convergence or the policy says stop."""
        self._move_to(w, b)
        while True:
            if self.problem.features.exact and self.rough:
                self._sharpen()
                self.rough = False
            stopped = self.check_convergence()
            if stopped is None and self.iterations == self.max_iterations:
                stopped = "iterations"
            if stopped is not None:
                break
            self.iterations += 1
            stopped = self._iterate()
            if stopped is not None:
                break
        self._sharpen()  # what is reported is known in double precision
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
        """One step, quasi-Newton or Newton's own; the reason to give up, or None."""
        systems_left = self._systems_left()
        due = self.policy.due(systems_left)
        known = self.secants is not None and (self.secants.pairs > 0 or not self.secants.scaled)
        if not due and self.secants is not None and known and self.quasi_newton_step(self.secants):
            return None
        curvature = self._curvature()
        if due and not self.may_factorise:
            return "factor"
        try:
            if due:
                self._factorise(curvature)
                if self.secants is not None and self.quasi_newton_step(self.secants):
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
        self.point, self.scale = self.problem.at(w, b), self.problem.gradient_scale(w)
        self.noise, self.age = 0.0, 0

    def _move_by(self, v: np.ndarray, dz: np.ndarray | None = None) -> np.ndarray:
        """Go on by v; dz = X v where it is known already, and returned."""
        before = self.point
        # Where single precision is about to end, as the last steps promise, double precision at once saves an evaluation.
        ends = dz is None and before.size * self._rate() <= max(self.tolerance * self.scale, ROUGH * self.noise)
        if ends or not self.rough:
            self._move_to(before.w + v[:-1], before.b + float(v[-1]))
            return self.point.z - before.z
        self.point, dz, noise = self.problem.moved(before, v, dz)
        self.scale = self.problem.gradient_scale(self.point.w)
        self.noise, self.age = self.noise + noise, self.age + 1
        if not self.point.size > max(self.tolerance * self.scale, ROUGH * self.noise):
            self._sharpen()
        return dz

    def _rate(self) -> float:
        """The share of the gradient that each of the last quasi-Newton steps left; 1 before the first."""
        return math.prod(self.left) ** (1.0 / len(self.left)) if self.left else 1.0

    def _sharpen(self) -> None:
        """The same point in double precision, and whether single precision is worth going on with."""
        if self.age == 0:
            return
        rough, noise, age = self.point, self.noise, self.age
        self._move_to(rough.w, rough.b)
        error = float(np.linalg.norm(rough.g - self.point.g))
        lasts = age > 1 or self.point.size <= self.tolerance * self.scale
        self.rough = self.rough and lasts and error <= WRONG * noise

    def quasi_newton_step(self, secants: Secants) -> bool:
        """Take the step that the last factor and the steps since then suggest, as a whole if it may be; whether it was taken.

        It costs one evaluation, where Newton's own step costs at least one product, a line search and the curvatures as
        well. A line search after it costs half of one: the outputs along the step are known by then.
        """
        before, rest = self.point, (self.scale, self.noise, self.age)
        v = -secants.solve(before.g)
        slope = float(v @ before.g)
        if not slope < 0.0:
            self.secants = None
            return False
        dz = self._move_by(v)
        left = float(v @ self.point.g) / slope
        if not abs(left) <= SLOPE_LEFT:
            self.point, (self.scale, self.noise, self.age) = before, rest
            # The first guess is where a straight line through both slopes meets zero, within bounds.
            t = self.line_search(v, dz, 4.0 if left >= 0.75 else max(0.1, 1.0 / (1.0 - left)))
            v, slope, dz = t * v, t * slope, self._move_by(t * v, t * dz)
            left = float(v @ self.point.g) / slope if slope < 0.0 else math.nan
        # Without a ridge, which bounds such steps, they have to pay.
        if not (abs(left) < 1.0 and (self.problem.ridge > 0.0 or self.point.size < before.size)):
            self.point, (self.scale, self.noise, self.age) = before, rest
            self.secants = None
            return False
        self.left.append(max(self.point.size / before.size, TINY))
        self.policy.note_step(self._rate())
        secants.add(v, self.point.g - before.g)
        self._set_width(dz)
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
        falls, self.last_size = self.point.size < STILL_FALLS * self.last_size, self.point.size
        return "precision" if not falls and self.point.size <= 2.0 * self.problem.rounding(self.point) else None

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
            self.left.clear()

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
        self.systems += 1
        self.policy.note(used)
        self.fresh = due and self.problem.features.exact
        if (due and used > SINGLE_PRODUCTS) or self.systems > SINGLE_SYSTEMS:
            self.problem.features.be_exact()
        return v, dz

    def line_search(self, v: np.ndarray, dz: np.ndarray, t: float = 1.0) -> float:
        """t > 0 with |phi'(t)| <= 0.1 |phi'(0)|, phi(t) = F along the direction; 0 when phi does not fall.

        The argument t is the first guess. The secant method on phi', kept inside a bracket. It costs vectors of n numbers, no
        pass over the features, and an almost exact minimum along each direction saves whole systems. Without a ridge it is
        Newton's method instead, whose steps are shorter: where the minimum is at infinity no step may go so far that the
        next one looks like the last.
        """
        problem, point, y = self.problem, self.point, self.problem.labels
        linear, quadratic = problem.ridge * float(point.w @ v[:-1]), problem.ridge * float(v[:-1] @ v[:-1])
        slope0 = float(point.r @ dz) + linear
        if not slope0 < 0.0:
            return 0.0
        pdz = problem.weights * dz
        low, high, last, last_slope = 0.0, math.inf, 0.0, slope0
        for _ in range(40):  # bisection alone would take the bracket to 1e-12 of its width
            z = point.z + t * dz
            slope = float(pdz @ problem.loss.slope(z, y)) + linear + t * quadratic
            if abs(slope) <= LINE_SEARCH_SLOPE * abs(slope0):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)
            if problem.ridge == 0.0:
                bend = float((pdz * dz) @ problem.loss.curvature(z, y)) + quadratic
            else:
                bend = (slope - last_slope) / (t - last) if t != last else 0.0
            last, last_slope = t, slope
            there = t - slope / bend if bend > 0.0 else math.inf
            if math.isinf(high):
                t = min(max(there, 1.5 * t), 4.0 * t)
            else:
                t = there if low < there < high else 0.5 * (low + high)
        return t

    def _step(self, t: float, v: np.ndarray, dz: np.ndarray) -> None:
        self.last_move = t * float(np.abs(dz).max())
        before = self.point
        self._move_by(t * v, t * dz)
        self._set_width(math.sqrt(t) * dz)
        if self.secants is not None:
            self.secants.add(t * v, self.point.g - before.g)

    def _set_width(self, moved: np.ndarray) -> None:
        if self.kinked:
            self.width = WIDTH * math.sqrt(float(moved @ moved) / len(moved))
