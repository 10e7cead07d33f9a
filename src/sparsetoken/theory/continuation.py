"""The way to the fixed point: a first guess where it is easy, a walk down the ridge, and starts from neighbouring problems.

At a large ridge w is nearly zero and a guess lies close enough for Newton's method. From there the ridge is lowered in steps
that shrink where the method fails. A neighbouring problem's solution (`WarmStart`) usually makes the walk unnecessary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.arrays import namespace
from .._core.loops import repeat
from ..laws.nodes import Nodes
from ..losses import Loss
from .equations import AIM, TOLERANCE, Solution
from .errors import ConvergenceError
from .newton import EVALUATIONS, newton_in_blocks

ON_THE_WAY = 1e-3  # residual at which a solution on the way down is good enough a start for the next ridge
_LARGEST_RIDGE = 1e3  # times max(ridge, 1): where the cold start gives up
_SMALLEST_RIDGE = 1e-10  # from where a ridge of zero is reached in one step
_LARGEST_BIAS = 20.0  # end of the bracket of the first guess's bias: prevalences down to e^-20
_SECTIONS, _NARROWINGS = 32, 12  # the bracket is cut into this many sections, this many times: to 2^-60 of its width
_LEAST_CURVATURE, _LEAST_SQUARE = 1e-3, 1e-6  # floors of l'' and l'^2 in the first guess, for losses flat at its bias
_MENTIONED = 6  # attempts that a failure's message names


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A neighbouring problem's solution, as a start.

    Attributes
    ----------
    x : array (unknowns,)
        Its fixed point: (m_q, m_u, log nu, b, log V), or the unknowns of several heads or of coloured noise.
    points : int, optional
        Draws per replicate to begin with; the law's first level by default.
    offset : array (unknowns,), optional
        What refining the draws from the first level changed in the fixed point, which is much the same for a neighbour.
        With it the few draws of the first level are solved first, and only the rest of the way is walked on all.
    """

    x: np.ndarray
    points: int | None = None
    offset: np.ndarray | None = None

    @property
    def usable(self) -> bool:
        """Whether the fixed point is finite (that of an interpolator has V infinite)."""
        return bool(np.isfinite(self.x).all())

    def extended(self, before: WarmStart, reach: float) -> WarmStart:
        """The start `reach` times as far ahead of this one as this one is of `before`; this one where unknowns differ."""
        if self.x.shape != before.x.shape:
            return self
        x = self.x + reach * (self.x - before.x)
        if self.offset is None or before.offset is None or self.points != before.points:
            return replace(self, x=x)
        return replace(self, x=x, offset=self.offset + reach * (self.offset - before.offset))


@dataclass(frozen=True)
class Pace:
    """How the ridge is lowered.

    On the way a rough solution is nearly always enough of a start for the next. Where it is not (nearly separable draws,
    which Newton's method crosses in a hundred small steps), a walk along exact ones arrives.

    Attributes
    ----------
    residual : float
        Residual allowed on the way.
    evaluations : int
        Evaluations allowed per step.
    factor : float
        The first step's factor; steps grow to 0.3 times that where they succeed.
    """

    residual: float
    evaluations: int
    factor: float


QUICK, CAREFUL = Pace(ON_THE_WAY, 60, 0.1), Pace(1e-7, 300, 0.3)
_GROWN = 0.3  # the longest step's factor over the first one's
_STUCK = 0.97  # a step's factor above which the walk gives up: 1.3 % of a decade


def first_guess(loss: Loss, alpha, ridge, nodes: Nodes):
    """A start for a large ridge, where w is nearly zero: bias from the prevalence, V and nu from their equations there.

    Parameters
    ----------
    loss : Loss
        l.
    alpha, ridge : float
        n/dimension and lambda.
    nodes : Nodes
        The law's nodes, NumPy or JAX arrays (then traceable).

    Returns
    -------
    array (5,)
        x = (m_q, m_u, log nu, b, log V).
    """
    xp = namespace(nodes.T)
    weight = nodes.weight / nodes.T.shape[-2]
    b, curvature, square = at_rest(loss, xp.where(nodes.y > 0, weight, 0.0).sum())
    kappa2 = (weight * nodes.kappa**2).sum()
    V = 1.0 / (alpha * (ridge + kappa2 * curvature))
    return xp.stack([0.0 * b, 0.0 * b, 0.5 * xp.log(alpha * V**2 * kappa2 * square), b, xp.log(V)])


def at_rest(loss: Loss, positive):
    """The bias of a readout without weights, and the averages of l'' and l'^2 there.

    Parameters
    ----------
    loss : Loss
        l.
    positive : array ()
        P(y = +1), a NumPy or JAX number (then traceable).

    Returns
    -------
    tuple of arrays ()
        b with E[l'(b; y)] = 0, E[l''(b; y)] and E[l'(b; y)^2].
    """
    xp = namespace(positive)
    share = xp.stack([positive, 1.0 - positive])

    def mean(f, b):
        """E[f(b; y)] over the labels at every place of b."""
        places = xp.broadcast_to(b, (2, *b.shape))
        y = np.broadcast_to(np.array([1.0, -1.0]).reshape(2, *[1] * b.ndim), places.shape)
        return xp.tensordot(share, xp.asarray(f(places, y)), 1)

    def narrow(bracket):
        low, width = bracket
        inside = low + width * np.arange(1, _SECTIONS) / _SECTIONS
        below = (mean(loss.slope, inside) < 0).sum()  # the mean slope is increasing
        return low + width * below / _SECTIONS, width / _SECTIONS

    bracket = (xp.asarray(-_LARGEST_BIAS), xp.asarray(2 * _LARGEST_BIAS))
    b = xp.asarray(repeat(_NARROWINGS, narrow, bracket, xp)[0])
    square = xp.maximum(mean(lambda z, y: loss.slope(z, y) ** 2, b), _LEAST_SQUARE)
    return b, xp.maximum(mean(loss.curvature, b), _LEAST_CURVATURE), square


@dataclass(frozen=True)
class Problem:
    """A fixed point to be found, as the walk down the ridge needs it.

    Attributes
    ----------
    newton : callable
        (x, ridge, aim, evaluations) -> Solution, Newton's method from x.
    guess : callable
        ridge -> x, a start for a large ridge.
    setting : str
        What the problem is, for messages.
    """

    newton: Callable[[Any, float, float, int], Solution]
    guess: Callable[[float], Any]
    setting: str


def walk_down(problem: Problem, ridge: float, tried: list[str], pace: Pace = QUICK) -> Solution:
    """Solve at a large ridge, then lower it in steps that shrink where Newton's method fails.

    Parameters
    ----------
    problem : Problem
        What is solved.
    ridge : float
        lambda to arrive at.
    tried : list of str
        Takes a line for every attempt that failed.
    pace : Pace
        How the ridge is lowered.

    Returns
    -------
    Solution
        At `ridge`.

    Raises
    ------
    ConvergenceError
        Where the walk does not arrive.
    """

    def solved(start: np.ndarray, here: float, last: float) -> Solution:
        return problem.newton(start, here, AIM if here <= last else pace.residual, pace.evaluations)

    current = max(ridge, 1.0)
    solution = None
    while current <= _LARGEST_RIDGE * max(ridge, 1.0):
        solution = solved(problem.guess(current), current, ridge)
        tried.append(f"ridge {current:.3g} from a cold start: residual {solution.residual:.1e}")
        if solution.residual <= pace.residual:
            break
        current *= 10.0
    assert solution is not None
    spent = int(solution.iterations)
    factor = pace.factor
    floor = ridge if ridge > 0 else _SMALLEST_RIDGE
    while solution.residual <= pace.residual and current > floor:
        target = max(current * factor, floor)
        attempt = solved(solution.x, target, floor)
        spent += int(attempt.iterations)
        if attempt.residual <= (pace.residual if target > floor else TOLERANCE):
            solution, current = attempt, target
            factor = max(factor**1.5, _GROWN * pace.factor)
            continue
        tried.append(f"ridge {current:.3g} -> {target:.3g}: residual {attempt.residual:.1e}")
        factor = np.sqrt(factor)
        if factor > _STUCK:
            break
    if ridge == 0 and current == floor:
        solution = problem.newton(solution.x, 0.0, AIM, EVALUATIONS)
        spent += int(solution.iterations)
        current = 0.0
    if current != ridge:
        raise ConvergenceError(
            f"no fixed point at ridge={ridge:g}, {problem.setting}: stopped at ridge {current:.3g}; tried "
            + "; ".join(tried[-_MENTIONED:])
        )
    return solution._replace(iterations=spent)


def solve(loss: Loss, alpha: float, ridge: float, nodes: Nodes, start: np.ndarray | None = None) -> Solution:
    """The fixed point on given nodes, from `start` if that works, else by walking down the ridge.

    Parameters
    ----------
    loss : Loss
        l, traceable by JAX.
    alpha, ridge : float
        n/dimension and lambda.
    nodes : Nodes
        The law's nodes.
    start : array (5,), optional
        A neighbouring problem's fixed point.

    Returns
    -------
    Solution
        With a residual within `TOLERANCE`.

    Raises
    ------
    ConvergenceError
        Where neither the quick nor the careful walk arrives.
    """
    problem = Problem(
        lambda x, here, aim, evaluations: newton_in_blocks(loss, nodes, x, alpha, here, aim, evaluations),
        lambda here: first_guess(loss, alpha, here, nodes),
        f"alpha={alpha:g}, loss {loss.name}",
    )
    return solve_problem(problem, ridge, start)


def solve_problem(problem: Problem, ridge: float, start: np.ndarray | None = None) -> Solution:
    """The fixed point of a problem, from `start` if that works, else by walking down the ridge.

    Parameters
    ----------
    problem : Problem
        What is solved.
    ridge : float
        lambda.
    start : array (unknowns,), optional
        A neighbouring problem's fixed point.

    Returns
    -------
    Solution
        With a residual within `TOLERANCE`.

    Raises
    ------
    ConvergenceError
        Where neither the quick nor the careful walk arrives.
    """
    tried: list[str] = []
    if start is not None:
        solution = problem.newton(start, ridge, AIM, CAREFUL.evaluations)
        if solution.residual <= TOLERANCE:
            return solution
        tried.append(f"warm start: residual {solution.residual:.1e}")
    try:
        solution = walk_down(problem, ridge, tried)
    except ConvergenceError:
        solution = walk_down(problem, ridge, tried, CAREFUL)
    if not solution.residual <= TOLERANCE:
        raise ConvergenceError(
            f"residual {solution.residual:.1e} > {TOLERANCE:g} at ridge={ridge:g}, {problem.setting}; tried "
            + "; ".join(tried[-_MENTIONED:])
        )
    return solution
