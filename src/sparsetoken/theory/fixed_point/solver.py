"""How a fixed point is found: Newton's method, from a neighbour's solution or by continuation in the ridge.

At a large ridge w is nearly zero and a guess lies close enough for Newton's method. From there the ridge is lowered in steps
that shrink where the method fails. A neighbouring problem's solution usually makes the continuation unnecessary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ...losses import Loss
from ..errors import ConvergenceError
from .equations import TOLERANCE, Equations, Iterate, ScoreNodes, evaluate

_AIM = 3e-9  # what Newton's method tries for: a little better than the tolerance
SUFFICIENT = 1e-4  # share of the predicted fall of ||F|| that a step must bring (Armijo)
_SHORTEST = 1e-5  # of the full Newton step: shorter ones do not converge
_LONGEST = 2.0  # step of an unknown that is a logarithm: a factor of 7
_LARGEST_BIAS = 20.0  # end of the bracket of the first guess's bias: prevalences down to e^-20
_LEAST_CURVATURE, _LEAST_SQUARE = 1e-3, 1e-6  # floors of l'' and l'^2 in the first guess, for losses flat at its bias
_SMALLEST_RIDGE = 1e-10  # from where a ridge of zero is reached in one step
_STUCK = 0.97  # a step's factor above which continuation gives up: 1.3 % of a decade


class Pace(NamedTuple):
    """How the ridge is lowered: the residual that is good enough on the way, evaluations per step, and the first factor."""

    residual: float
    evaluations: int
    factor: float


# A rough solution is nearly always a good enough start for the next ridge. Where it is not (nearly separable draws, on which
# Newton's method takes a hundred small steps), continuation along exact ones converges.
QUICK, CAREFUL = Pace(1e-3, 60, 0.1), Pace(1e-7, 300, 0.3)


class Solver:
    """Newton's method and continuation in the ridge on one set of nodes.

    `constants(ridge)` are those of the equations' residual, `guess(ridge)` a start for a large ridge, and `setting` says in
    messages what was solved. `begun` says whether a finite residual was ever met.
    """

    def __init__(
        self,
        equations: Equations,
        loss: Loss,
        blocks: tuple[ScoreNodes, ...],
        constants: Callable[[float], tuple],
        guess: Callable[[float], np.ndarray],
        setting: str,
    ):
        self.equations, self.loss, self.blocks = equations, loss, blocks
        self.constants, self.guess, self.setting = constants, guess, setting
        self.evaluations, self.tried, self.begun = 0, list[str](), False

    def solve(self, ridge: float, start: np.ndarray | None = None) -> Iterate:
        """The fixed point, from `start` if that converges, else by continuation in the ridge."""
        # Overflow and division by zero leave a residual that is not finite, which no step accepts.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A neighbour's may be an interpolator's, with V infinite, or that of heads whose queries span another space.
            if start is not None and np.isfinite(start).all() and len(start) == self.equations.unknowns:
                solution = self.newton(start, ridge, _AIM, CAREFUL.evaluations)
                if solution.residual <= TOLERANCE:
                    return solution
                self.tried.append(f"warm start: residual {solution.residual:.1e}")
            return self._walk(ridge, QUICK) or self._walk(ridge, CAREFUL) or self._give_up()

    def newton(self, x: np.ndarray, ridge: float, aim: float, most: int) -> Iterate:
        """From x with step reduction on ||F||, until the largest entry of the scaled residual F is below `aim`.

        Also stops when no step reduces ||F||: the caller judges the residual.
        """
        constants = self.constants(ridge)
        longest = np.full(len(x), np.inf)
        longest[list(self.equations.logarithms)] = _LONGEST
        best = evaluate(self.equations, self.loss, np.asarray(x, dtype=float), self.blocks, constants)
        direction, step, spent = _direction(best, longest), 1.0, 1
        while best.residual > aim and spent < most and step > _SHORTEST and direction is not None:
            trial = evaluate(self.equations, self.loss, best.x + step * direction, self.blocks, constants)
            spent += 1
            better = np.linalg.norm(trial.F) < (1 - SUFFICIENT * step) * np.linalg.norm(best.F)
            if better and np.isfinite(trial.J).all():
                best, direction, step = trial, _direction(trial, longest), min(1.0, 4.0 * step)
            else:  # also where the residual is not a number
                step *= 0.25
        self.evaluations += spent
        self.begun |= bool(np.isfinite(best.residual))
        return best

    def _walk(self, ridge: float, pace: Pace) -> Iterate | None:
        """Solve at a large ridge, then lower it in steps that shrink where Newton's method fails; None where that stops."""
        floor = max(ridge, _SMALLEST_RIDGE)
        current = max(ridge, 1.0)

        def solved(start: np.ndarray, here: float) -> tuple[Iterate, bool]:
            last = here <= floor
            found = self.newton(start, here, _AIM if last else pace.residual, pace.evaluations)
            return found, found.residual <= (TOLERANCE if last else pace.residual)

        solution, good = solved(self.guess(current), current)
        while not good and current < 1e3 * max(ridge, 1.0):
            self.tried.append(f"ridge {current:.3g} from a cold start: residual {solution.residual:.1e}")
            current *= 10.0
            solution, good = solved(self.guess(current), current)
        factor = pace.factor
        while good and current > floor and factor <= _STUCK:
            target = max(current * factor, floor)
            attempt, arrived = solved(solution.x, target)
            if arrived:
                solution, current = attempt, target
                factor = max(factor**1.5, 0.3 * pace.factor)
            else:
                self.tried.append(f"ridge {current:.3g} -> {target:.3g}: residual {attempt.residual:.1e}")
                factor = np.sqrt(factor)
        if not good or current > floor:
            return None
        if ridge < floor:
            solution = self.newton(solution.x, ridge, _AIM, pace.evaluations)
        return solution if solution.residual <= TOLERANCE else None

    def _give_up(self) -> Iterate:
        if not self.begun:
            raise ConvergenceError(
                f"alpha, ridge or the strength is so large or small that the fixed point is lost in rounding errors "
                f"({self.setting})"
            )
        raise ConvergenceError(f"no fixed point at {self.setting}; tried " + "; ".join(self.tried[-6:]))


def _direction(at: Iterate, longest: np.ndarray) -> np.ndarray | None:
    """Newton's step, shortened where a logarithm would move too far; None where the Jacobian is singular."""
    try:
        step = np.linalg.solve(at.J[:-1], -at.F)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(step).all() or not step.any():
        return None
    return step / max(1.0, np.max(np.abs(step) / longest))


class AtRest(NamedTuple):
    """A readout without weights: its bias, and the averages of l'' and l'^2 over the labels there."""

    bias: float
    curvature: float
    square: float


def at_rest(loss: Loss, positive: float) -> AtRest:
    """The readout without weights that a share `positive` of positive labels leaves."""
    y, share = np.array([1.0, -1.0]), np.array([positive, 1.0 - positive])

    def mean_slope(b: float) -> float:
        return float(share @ loss.slope(np.full(2, b), y))

    low, high = -_LARGEST_BIAS, _LARGEST_BIAS
    if mean_slope(low) < 0 < mean_slope(high):
        b = brentq(mean_slope, low, high)
    else:  # one class alone, as far as the bracket shows
        b = high if mean_slope(high) <= 0 else low
    places = np.full(2, b)
    curvature, square = share @ loss.curvature(places, y), share @ loss.slope(places, y) ** 2
    return AtRest(b, max(float(curvature), _LEAST_CURVATURE), max(float(square), _LEAST_SQUARE))
