"""Exact asymptotics of ridge-regularised convex ERM on any law of (T, S, kappa).

Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d. The fixed point is solved by
continuation in the ridge on a sampling of the law, which is then refined until the accuracy asked for is met. Every number
comes with the standard error that the law's sampling leaves in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.precision import in_double_precision
from .._core.validation import real_number
from ..jax_losses import traceable
from ..laws.law import MAXIMUM_POINTS, Law
from ..laws.measures import MEASURES, measures
from ..laws.nodes import Nodes, Population
from ..losses import Loss, get_loss
from .equations import AIM, TOLERANCE, Solution
from .errors import AccuracyError, ConvergenceError
from .newton import newton

DEFAULT_ACCURACY = 2e-4
SAFETY = 2.5  # the standard error aimed at is accuracy/2.5, so that `accuracy` bounds the error with probability 0.99
SECOND_LEVEL = 8  # the second level of refinement has at least that many times the first one's draws
_LARGE_RIDGE = 1e3
_ON_THE_WAY = 1e-3
_RATE = 0.85  # standard errors fall like points^-0.85 (measured; plain Monte Carlo would be 0.5)


@dataclass(frozen=True)
class ErmResult:
    """Limits of the trained readout.

    test_error, train_loss, train_error; norm_w = ||w||; bias = b; m_q, m_u, nu, V as in the fixed point (theory docs);
    auc, sensitivity, specificity, balanced_error; residual (largest entry of the undamped scaled residual) and iterations;
    standard_error of the test error, and `errors`, a map from every other field to its standard error.
    """

    test_error: float
    train_loss: float
    train_error: float
    norm_w: float
    bias: float
    m_q: float
    m_u: float
    nu: float
    V: float
    auc: float
    sensitivity: float
    specificity: float
    balanced_error: float
    residual: float
    iterations: int
    standard_error: float
    errors: dict[str, float] = field(repr=False)
    law: Law = field(repr=False, compare=False)
    alpha: float = 0.0
    ridge: float = 0.0
    loss: Loss | str = field(default="logistic", repr=False)
    points: int = 0
    # The fixed point on the first level's draws, where it was solved.
    coarse: np.ndarray | None = field(default=None, repr=False, compare=False)

    @property
    def offset(self) -> np.ndarray | None:
        """What refining the draws changed in the fixed point; a neighbour's is much the same."""
        return None if self.coarse is None else self.start - self.coarse

    @property
    def start(self) -> np.ndarray:
        """The fixed point as a start for a neighbouring problem."""
        return np.array([self.m_q, self.m_u, np.log(self.nu), self.bias, np.log(self.V)])

    def to_dict(self) -> dict[str, Any]:
        skip = {"law", "errors", "loss", "coarse"}
        plain = {k: v for k, v in self.__dict__.items() if k not in skip}
        return {**plain, "errors": dict(self.errors)}

    def margin_densities(self, margins) -> dict[str, np.ndarray]:
        """Densities of the training margins y r and of the test margins y h at `margins`; see `theory.margins`."""
        from .margins import margin_densities

        return margin_densities(self, margins)


def first_guess(loss: Loss, alpha: float, ridge: float, nodes: Nodes) -> np.ndarray:
    """A start for a large ridge, where w is nearly zero: bias from the prevalence, V and nu from their equations there."""
    weights = np.asarray(nodes.weight) / nodes.T.shape[0]
    kappa2 = float((weights * np.asarray(nodes.kappa) ** 2).sum())
    y = np.array([1.0, -1.0])
    weight = np.array([weights[np.asarray(nodes.y) == label].sum() for label in y])
    low, high = -20.0, 20.0
    for _ in range(60):
        b = 0.5 * (low + high)
        low, high = (b, high) if float((weight * loss.slope(np.full(y.shape, b), y)).sum()) < 0 else (low, b)
    slope, curvature = loss.slope(np.full(y.shape, b), y), loss.curvature(np.full(y.shape, b), y)
    V = 1.0 / (alpha * (ridge + kappa2 * max(float((weight * curvature).sum()), 1e-3)))
    nu2 = alpha * V**2 * kappa2 * max(float((weight * slope**2).sum()), 1e-6)
    return np.array([0.0, 0.0, 0.5 * np.log(nu2), b, np.log(V)])


def _residual(solution: Solution) -> float:
    return float(np.abs(np.asarray(solution.F)).max())


@dataclass(frozen=True)
class _Pace:
    """How the ridge is lowered: residual allowed on the way, evaluations allowed a step, and the first step's factor.

    On the way a rough solution is nearly always enough of a start for the next. Where it is not (nearly separable draws,
    which Newton's method crosses in a hundred small steps), a walk along exact ones arrives.
    """

    residual: float
    evaluations: int
    factor: float


_QUICK, _CAREFUL = _Pace(_ON_THE_WAY, 60, 0.1), _Pace(1e-7, 300, 0.3)


def continuation(
    loss: Loss, alpha: float, ridge: float, nodes: Nodes, tried: list[str], pace: _Pace = _QUICK
) -> Solution:
    """Solve at a large ridge, then lower it in steps that shrink where Newton's method fails."""

    def solved(start: np.ndarray, here: float, last: float) -> Solution:
        aim = AIM if here <= last else pace.residual
        return newton(loss, nodes, start, alpha, here, aim, pace.evaluations)

    current = max(ridge, 1.0)
    solution = None
    while current <= _LARGE_RIDGE * max(ridge, 1.0):
        guess = first_guess(loss, alpha, current, nodes)
        solution = solved(guess, current, ridge)
        tried.append(f"ridge {current:.3g} from a cold start: residual {_residual(solution):.1e}")
        if _residual(solution) <= pace.residual:
            break
        current *= 10.0
    assert solution is not None
    spent = int(solution.iterations)
    factor = pace.factor
    floor = ridge if ridge > 0 else 1e-10
    while _residual(solution) <= pace.residual and current > floor:
        target = max(current * factor, floor)
        attempt = solved(solution.x, target, floor)
        spent += int(attempt.iterations)
        if _residual(attempt) <= (pace.residual if target > floor else TOLERANCE):
            solution, current = attempt, target
            factor = max(factor**1.5, 0.3 * pace.factor)
            continue
        tried.append(f"ridge {current:.3g} -> {target:.3g}: residual {_residual(attempt):.1e}")
        factor = np.sqrt(factor)
        if factor > 0.97:
            break
    if ridge == 0 and current == floor:
        solution = newton(loss, nodes, solution.x, alpha, 0.0)
        current = 0.0
    if current != ridge:
        raise ConvergenceError(
            f"no fixed point at alpha={alpha:g}, ridge={ridge:g}, loss {loss.name}: stopped at ridge {current:.3g}; tried "
            + "; ".join(tried[-6:])
        )
    return solution._replace(iterations=spent)


def solve_nodes(
    loss: Loss, alpha: float, ridge: float, nodes: Nodes, start: np.ndarray | None, tried: list[str]
) -> Solution:
    """The fixed point on given nodes, from `start` if that works, else by continuation."""
    if start is not None:
        solution = newton(loss, nodes, start, alpha, ridge, max_iterations=_CAREFUL.evaluations)
        if _residual(solution) <= TOLERANCE:
            return solution
        tried.append(f"warm start: residual {_residual(solution):.1e}")
    try:
        solution = continuation(loss, alpha, ridge, nodes, tried)
    except ConvergenceError:
        solution = continuation(loss, alpha, ridge, nodes, tried, _CAREFUL)
    if not _residual(solution) <= TOLERANCE:
        raise ConvergenceError(
            f"residual {_residual(solution):.1e} > {TOLERANCE:g} at alpha={alpha:g}, ridge={ridge:g}, loss {loss.name}; tried "
            + "; ".join(tried[-6:])
        )
    return solution


def _fields(loss: Loss, x: np.ndarray, train_loss: np.ndarray, population: Population) -> dict[str, np.ndarray]:
    """Every reported quantity for each replicate, at its own x (rows) or at a common one."""
    values = dict(zip(MEASURES, measures(loss, x, population).T))
    m_q, m_u, log_nu, b, log_V = np.moveaxis(np.broadcast_to(x, (population.replicates, 5)), -1, 0)
    nu, V = np.exp(log_nu), np.exp(log_V)
    values |= {"m_q": m_q, "m_u": m_u, "nu": nu, "V": V, "bias": b, "norm_w": np.sqrt(m_q**2 + m_u**2 + nu**2)}
    return values | {"train_loss": train_loss}


def summarise(loss: Loss, solution: Solution, population: Population) -> tuple[dict[str, float], dict[str, float]]:
    """Values and standard errors at a solved fixed point.

    A replicate by itself would have its fixed point at x - J^-1 F_b to first order, F_b its own residual at x; the scatter
    of the quantities evaluated there, over the root of the number of replicates, is the standard error.
    """
    x, J = np.asarray(solution.x), np.asarray(solution.J)
    replicate_loss = np.asarray(solution.replicate_loss)
    common = _fields(loss, x, replicate_loss, population)
    values = {name: float(np.mean(v)) for name, v in common.items()}
    replicates = population.replicates
    if replicates == 1:
        return values, dict.fromkeys(values, 0.0)
    shift = -np.linalg.solve(J[:5], np.asarray(solution.replicate_F).T).T
    shift[:, [2, 4]] = np.clip(shift[:, [2, 4]], -1.0, 1.0)
    own = _fields(loss, x + shift, replicate_loss + shift @ J[5], population)
    errors = {name: float(np.std(v, ddof=1) / np.sqrt(replicates)) for name, v in own.items()}
    return values, errors


def refined(points: int, shortfall: float, law: Law) -> int:
    """The next level for a standard error that is `shortfall` times too large.

    The first level is for finding the solution; the second is at least eight times finer, so that the norms and V, which
    `accuracy` does not control, are good to a part in a thousand as well.
    """
    least = SECOND_LEVEL if points == law.first_points else 2
    return min(points * max(least, 2 ** round(np.log2(shortfall) / _RATE)), MAXIMUM_POINTS)


@in_double_precision
def erm(
    law: Law,
    alpha: float,
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
    start: np.ndarray | None = None,
    points: int | None = None,
    offset: np.ndarray | None = None,
) -> ErmResult:
    """Test error, training loss, norms and error measures of ridge-regularised ERM, alpha = n/d samples a dimension.

    Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2 with an unpenalised bias. `accuracy` is the absolute error
    allowed on the test error (the standard error is brought below 0.4 of it). `start`, `points` and `offset` are a
    neighbouring result's: its solution, the draws a replicate it took, and what refining them changed, to begin with (with an
    offset the few draws of the first level are solved first, and only the rest of the way is walked on all). `ridge=0` is
    allowed for the square loss (closed form; the minimum-norm interpolator below alpha = 1) and, for other losses, above
    capacity.
    """
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    ridge = real_number("ridge", ridge, 0.0)
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    given = get_loss(loss)
    if ridge == 0 and given.name == "square":
        from .ridgeless import ridgeless_square

        return ridgeless_square(law, alpha, given, accuracy)
    function = traceable(given)
    alpha_law = alpha / law.dimension_factor
    tried: list[str] = []
    if ridge == 0:
        from .capacity import require_above_capacity

        require_above_capacity(law, alpha)
    x, spent, coarse = start, 0, None
    points = law.first_points if points is None else max(law.first_points, min(points, MAXIMUM_POINTS))
    if start is not None and offset is not None and points > law.first_points:
        near = newton(function, law.at(law.first_points)[1], start - offset, alpha_law, ridge)
        if _residual(near) <= TOLERANCE:
            x, coarse = near.x + offset, near.x
    while True:
        population, nodes = law.at(points)
        solution = solve_nodes(function, alpha_law, ridge, nodes, x, tried)
        x, spent = np.asarray(solution.x), spent + int(solution.iterations)
        coarse = x if points == law.first_points else coarse
        values, errors = summarise(given, solution, population)
        shortfall = errors["test_error"] * SAFETY / accuracy
        if not np.isfinite(shortfall):  # a replicate without loss of its own has no error bar: more draws
            shortfall = SECOND_LEVEL
        if shortfall <= 1 or not law.refinable:
            break
        if points >= MAXIMUM_POINTS:
            raise AccuracyError(
                f"accuracy {accuracy:g} on the test error is not reached: standard error {errors['test_error']:.1e} at "
                f"{points} draws a replicate (alpha={alpha:g}, ridge={ridge:g}); ask for at least "
                f"{SAFETY * errors['test_error']:.1e}"
            )
        points = refined(points, shortfall, law)
    return ErmResult(
        **values,
        residual=_residual(solution),
        iterations=spent,
        standard_error=errors.pop("test_error"),
        errors=errors,
        law=law,
        alpha=alpha,
        ridge=ridge,
        loss=loss,
        points=points,
        coarse=coarse,
    )
