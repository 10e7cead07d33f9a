"""How a fixed point is found: Newton's method, from a neighbour's solution or by continuation from a large ridge, where w is
nearly zero and a guess lies close enough."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.root_finding import NEWTON_STEPS
from ...losses import Loss, balancing_bias
from ..accuracy import ConvergenceError
from .prox_averages import Equations, Iterate, ScoreNodes, evaluate

SUFFICIENT = 1e-4  # share of the predicted fall that a step must bring (Armijo)
SHORTEST = 1e-5  # of the full Newton step: shorter ones do not converge
LONGEST = 2.0  # step of an unknown that is a logarithm: a factor of 7


class Solver:
    """Newton's method and continuation on one set of nodes. `constants(ridge)` are those of the residual, `guess(ridge)` is a
    start for a large ridge, `setting` names the problem in messages; `begun`: whether a residual was ever finite."""

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
        self.evaluations, self.begun = 0, False

    def solve(self, ridge: float, start: np.ndarray | None = None) -> Iterate:
        """The fixed point, from `start` if that converges, else by continuation in the ridge."""
        # Overflow and division by zero leave a residual that is not finite, which no step accepts.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A neighbour may be an interpolator, with V infinite, or have heads whose queries span another space.
            if start is not None and np.isfinite(start).all() and len(start) == self.equations.unknowns:
                solution = self.newton(start, ridge)
                if solution.converged:
                    return solution
            return self._walk(ridge)

    def newton(self, x: np.ndarray, ridge: float) -> Iterate:
        """From x with step reduction on ||F||, until F is within the tolerance or no step reduces it: see `converged`."""
        constants = self.constants(ridge)
        longest = np.full(len(x), np.inf)
        longest[list(self.equations.logarithms)] = LONGEST
        best = evaluate(self.equations, self.loss, np.asarray(x, dtype=float), self.blocks, constants)
        direction, step, spent = _direction(best, longest), 1.0, 1
        while not best.converged and spent < NEWTON_STEPS and step > SHORTEST and direction is not None:
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

    def _walk(self, ridge: float) -> Iterate:
        """Solve at a large ridge, then lower it in steps that shrink where Newton's method fails."""
        floor, current, factor = ridge or 1e-10, max(ridge, 1.0), 0.1  # from 1e-10 zero is reached in one step
        solution = self.newton(self.guess(current), current)
        while not solution.converged and current < 1e3 * max(ridge, 1.0):
            current *= 10.0
            solution = self.newton(self.guess(current), current)
        while solution.converged and current > ridge and factor <= 0.97:  # 1.3 % of a decade
            target = max(current * factor, floor) if current > floor else ridge
            attempt = self.newton(solution.x, target)
            if attempt.converged:
                solution, current, factor = attempt, target, max(factor**1.5, 0.03)
            else:
                factor = np.sqrt(factor)
        if solution.converged and current == ridge:
            return solution
        if not self.begun:
            raise ConvergenceError(
                f"alpha, ridge or the strength is so large or small that the fixed point is lost in rounding errors "
                f"({self.setting})"
            )
        reached = f"came down to ridge {current:.3g}" if solution.converged else "found none at larger ridges either"
        raise ConvergenceError(f"no fixed point was found at {self.setting}: Newton's method {reached}")


def _direction(at: Iterate, longest: np.ndarray) -> np.ndarray | None:
    """Newton's step, shortened where a logarithm would move too far; None where the Jacobian is singular."""
    try:
        step = np.linalg.solve(at.J[:-1], -at.F)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(step).all() or not step.any():
        return None
    return step / max(1.0, np.max(np.abs(step) / longest))


def at_rest(loss: Loss, labels: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    """The bias of a readout without weights on nodes with these labels and weights (replicates, nodes), and the averages of
    l'' and l'^2 there."""
    positive = float(weight[labels > 0].sum() / len(weight))
    y, share = np.array([1.0, -1.0]), np.array([positive, 1.0 - positive])
    b = float(balancing_bias(loss, np.zeros(2), y, share))
    places = np.full(2, b)
    curvature, square = share @ loss.curvature(places, y), share @ loss.slope(places, y) ** 2
    return b, max(float(curvature), 1e-3), max(float(square), 1e-6)  # floors for losses flat at the bias
