"""Exact asymptotics of ridge-regularised convex ERM on any law of (T, S, kappa).

Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d. The fixed point is found on a
sampling of the law (by Newton's method and a walk down the ridge; in closed form for the square loss), which is then refined
until the accuracy asked for is met. Every number comes with the standard error that the law's sampling leaves in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, overload

import numpy as np

from .._core.precision import in_double_precision
from .._core.validation import real_number, rejection
from ..jax_losses import traceable
from ..laws.coloured import ColouredLaw
from ..laws.heads import HeadsLaw
from ..laws.law import MAXIMUM_POINTS, SECOND_LEVEL, Law, same_mechanism
from ..laws.measures import MEASURES, measures
from ..laws.nodes import Population
from ..losses import Loss, convex_loss, get_loss
from ..results import NOT_PLAIN
from ..task import Task
from .capacity import require_above_capacity
from .coloured import ColouredResult, coloured_erm
from .continuation import WarmStart, solve
from .deployment import check_same_geometry, measures_at, shifted
from .equations import TOLERANCE
from .errors import AccuracyError, ConvergenceError
from .heads import HeadsResult, heads_erm
from .margins import margin_densities
from .newton import newton_in_blocks
from .readout_result import ReadoutResult
from .refinement import DEFAULT_ACCURACY, SAFETY, Answer, Refined, answer_of, refine, summarise
from .square_loss import is_square, solve_square
from .square_loss_few import solve_few

# The closed form meets its equations to rounding; where it misses them by more, numbers have lost all their digits.
_CLOSED_RESIDUAL = 1e-5
# The first level's draws leave standard errors of about 1e-4 in the test error of most laws, SAFETY times less than this.
_FIRST_LEVEL_ACCURACY = 3e-4
_LOGARITHMS = (2, 4)  # log nu and log V among the unknowns


@dataclass(frozen=True, kw_only=True, repr=False)
class ErmResult(ReadoutResult[Law]):
    """Limits of the trained readout.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `tested`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there. `overlap` and `cosine` need a law that knows gamma; standard errors come from the law's sampling.
    residual, iterations, alpha, ridge, points, law, loss, fixed_point, own_fixed_points, test_law
        As in `readout_result.ReadoutResult`; the unknowns are x = (m_q, m_u, log nu, b, log V).
    V : float
        The step of the prox.
    coarse : array (5,), optional
        The fixed point on the first level's draws, where it was solved.
    test_points : int
        Draws per replicate and class of `test_law`.
    test_bias_shift : float
        What was added to the bias for the test.
    """

    V: float
    coarse: np.ndarray | None = field(default=None, compare=False, metadata=NOT_PLAIN)
    test_points: int = field(default=0, metadata=NOT_PLAIN)
    test_bias_shift: float = field(default=0.0, metadata=NOT_PLAIN)

    @property
    def warm_start(self) -> WarmStart:
        """What a neighbouring problem may start from."""
        found = super().warm_start
        return found if self.coarse is None else replace(found, offset=self.fixed_point - self.coarse)

    @staticmethod
    def _record(law: Law, bias_shift: float) -> dict[str, Any]:
        task = {"prevalence": float(law.prevalence)} if law.task is None else law.task.to_dict()
        return {**task, "sharpness": law.parameters.get("sharpness", float("nan")), "bias_shift": bias_shift}

    def margin_densities(self, margins) -> dict[str, np.ndarray]:
        """Densities of the training margins y r and of the test margins y h at `margins`; see `theory.margins`."""
        x, loss = self.fixed_point, get_loss(self.loss)
        found = margin_densities(x, loss, self.law.at(self.points)[0], margins)
        if self.test_law is None:
            return found
        there = self.test_law.at(self.test_points)[0]
        tested = margin_densities(shifted(x, self.test_bias_shift), loss, there, margins)
        return found | {name: density for name, density in tested.items() if name.startswith("test")}

    def on(self, law: Law | Task, bias_shift: float = 0.0, *, accuracy: float = DEFAULT_ACCURACY) -> ErmResult:
        """The same trained readout tested on another law.

        Test error, sensitivity, specificity, balanced error and AUC are those of (m_q, m_u, nu, b + bias_shift) on fresh bags
        of `law`, with standard errors from the sampling of both laws. Everything else stays that of the training; only
        where its draws are too few for the accuracy is the fixed point solved again on more of them, and moves within its
        standard errors.

        Parameters
        ----------
        law : Law or Task
            The law of the test bags, seen by the same query; a task stands for this classifier's law on its bags.
        bias_shift : float
            Added to the trained bias.
        accuracy : float
            Absolute error allowed on the test error.

        Returns
        -------
        ErmResult
            With `test_law`, `trained` and `tested` filled in.

        Raises
        ------
        ValueError
            If the readout's coordinates have no meaning on `law`: features of another dimension, or another query.
        AccuracyError
            Where the accuracy is not met at the finest sampling of the laws.
        """
        shift = real_number("bias_shift", bias_shift, -np.inf, open_low=True)
        accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
        there = same_mechanism(self.law, law) if isinstance(law, Task) else law
        if not isinstance(there, Law):
            raise rejection("law", law, "a Law or a Task")
        check_same_geometry(self.law, there)
        readout, points = self, max(self.points, there.first_points) if there.refinable else 0
        while True:
            x, own_x = readout.fixed_point, readout.own_fixed_points
            found = measures_at(shifted(x, shift), shifted(own_x, shift), there.at(points)[0])
            shortfall = found.errors["test_error"] * SAFETY / accuracy
            if not np.isfinite(shortfall):
                shortfall = SECOND_LEVEL
            if shortfall <= 1:
                break
            finer_test, finer_training = there.finer(points, shortfall), self.law.finer(readout.points, shortfall)
            if finer_test is not None and (found.law_dominates or finer_training is None):
                points = finer_test
            elif finer_training is not None:
                start = replace(readout.warm_start, points=finer_training)
                readout = erm(self.law, self.alpha, self.ridge, self.loss, accuracy=accuracy, warm_start=start)
            elif there.refinable or self.law.refinable:
                raise AccuracyError(
                    f"accuracy {accuracy:g} on the test error is not reached: standard error "
                    f"{found.errors['test_error']:.1e} at the finest sampling; ask for at least "
                    f"{SAFETY * found.errors['test_error']:.1e}"
                )
            else:
                break
        return readout._tested_on(there, shift, found.values, found.errors, test_points=points, test_bias_shift=shift)


def _fields(
    loss: Loss, x: np.ndarray, train_loss: np.ndarray, population: Population, gamma: float | None
) -> dict[str, np.ndarray]:
    """Every reported quantity for each replicate, at its own x (rows) or at a common one."""
    values = dict(zip(MEASURES, measures(loss, x, population).T))
    m_q, m_u, log_nu, b, log_V = np.broadcast_to(x, (population.replicates, 5)).T
    nu, V = np.exp(log_nu), np.exp(log_V)
    values |= {"m_q": m_q, "m_u": m_u, "nu": nu, "V": V, "bias": b, "norm_w": np.sqrt(m_q**2 + m_u**2 + nu**2)}
    if gamma is not None:
        values["overlap_w"] = gamma * m_q + max(0.0, 1.0 - gamma**2) ** 0.5 * m_u
        values["cosine_w"] = values["overlap_w"] / values["norm_w"]
    values["train_error"] = np.where(np.isinf(V), 0.0, values["train_error"])  # an interpolator makes none
    return values | {"train_loss": train_loss}


@overload
def erm(
    law: Law,
    alpha: float,
    ridge: float,
    loss: str | Loss = ...,
    *,
    accuracy: float = ...,
    warm_start: WarmStart | None = ...,
) -> ErmResult:
    """With a law of (T, S, kappa)."""


@overload
def erm(
    law: HeadsLaw,
    alpha: float,
    ridge: float,
    loss: str | Loss = ...,
    *,
    accuracy: float = ...,
    warm_start: WarmStart | None = ...,
) -> HeadsResult:
    """With several heads."""


@overload
def erm(
    law: ColouredLaw,
    alpha: float,
    ridge: float,
    loss: str | Loss = ...,
    *,
    accuracy: float = ...,
    warm_start: WarmStart | None = ...,
) -> ColouredResult:
    """In coloured noise."""


def erm(
    law: Law | HeadsLaw | ColouredLaw,
    alpha: float,
    ridge: float,
    loss: str | Loss = "logistic",
    *,
    accuracy: float = DEFAULT_ACCURACY,
    warm_start: WarmStart | None = None,
) -> ErmResult | HeadsResult | ColouredResult:
    """Test error, training loss, norms and error measures of ridge-regularised ERM.

    Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2 with an unpenalised bias.

    Parameters
    ----------
    law : Law, HeadsLaw or ColouredLaw
        The law of (T, S, kappa), that of several heads side by side (`heads_law`), or one in coloured noise (`coloured_law`).
    alpha : float
        n/d, samples per dimension of a token.
    ridge : float
        lambda. Zero is allowed for the square loss (the minimum-norm interpolator below alpha = 1) and, for other losses,
        above capacity; in coloured noise for the square loss above alpha = 1 only. It must be positive for several heads.
    loss : str or Loss
        l, by its name or as an object.
    accuracy : float
        Absolute error allowed on the test error (the standard error is brought below 0.4 of it).
    warm_start : WarmStart, optional
        That of a neighbouring result.

    Returns
    -------
    ErmResult, HeadsResult or ColouredResult
        By the kind of law.

    Raises
    ------
    ConvergenceError
        Where no fixed point is found.
    AccuracyError
        Where the accuracy is not met at the finest sampling of the law.
    """
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    ridge = real_number("ridge", ridge, 0.0)
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    given = convex_loss(loss)
    if isinstance(law, HeadsLaw):
        return heads_erm(law, alpha, ridge, given, accuracy, warm_start)
    if isinstance(law, ColouredLaw):
        return coloured_erm(law, alpha, ridge, given, accuracy, warm_start)
    solver: _Solver
    if is_square(given):
        solver = _ClosedForm(law, alpha, ridge, accuracy)
    else:
        solver = _General(law, alpha, ridge, given)
    gamma = law.parameters.get("cosine")

    def summary(answer: Answer, points: int) -> tuple[dict[str, Any], dict[str, Any]]:
        return summarise(answer, lambda x, loss: _fields(given, x, loss, law.at(points)[0], gamma))

    found = None
    if is_square(given) and not law.refinable:
        found = solve_few(solver.alpha, ridge, law.make_population(0), gamma)
    elif is_square(given) and law.has_rule and (warm_start is None or (warm_start.points or 0) <= law.first_points):
        found = _on_rule(solver, summary, accuracy)
    if found is None:
        setting = f"alpha={alpha:g}, ridge={ridge:g}"
        found = refine(law, solver.begin(warm_start), solver.at, summary, accuracy, setting)
    errors = dict(found.errors)
    numbers: dict[str, Any] = dict(found.values)
    overlap = {"w": numbers.pop("overlap_w")} if "overlap_w" in numbers else {}
    cosine = {"w": numbers.pop("cosine_w")} if "cosine_w" in numbers else {}
    if "sharpness" in law.parameters:
        cosine["q"] = law.parameters["cosine"]
    return ErmResult(
        model=law.name,
        **numbers,
        overlap=overlap,
        cosine=cosine,
        sharpness=law.parameters.get("sharpness", float("nan")),
        residual=found.answer.residual,
        iterations=found.spent,
        standard_error=errors.pop("test_error"),
        errors=errors,
        law=law,
        alpha=alpha,
        ridge=ridge,
        loss=loss,
        points=found.points,
        coarse=solver.coarse,
        fixed_point=found.answer.x,
        own_fixed_points=np.atleast_2d(found.answer.own_x),
    )


def _on_rule(
    solver: _Solver, summary: Callable[[Answer, int], tuple[dict[str, Any], dict[str, Any]]], accuracy: float
) -> Refined | None:
    """The answer on the nodes of the law's quadrature rule; None where they are too few for the accuracy.

    The rule's replicates are few, and two of them may agree by chance in one number, hardly in all of them.
    """
    try:
        answer = solver.at(0)
    except ConvergenceError:
        return None
    values, errors = summary(answer, 0)
    worst = np.max([errors[name] for name in ("test_error", "sensitivity", "specificity")])  # NaN where one is
    return Refined(answer, values, errors, 0, 0) if SAFETY * worst <= accuracy else None


def fixed_point(law: Law, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None) -> np.ndarray:
    """The fixed point of `erm` on the first draws of a law, without measures and their errors: the inner step of searches.

    Parameters
    ----------
    law : Law
        The law of (T, S, kappa).
    alpha, ridge, loss
        As for `erm`.
    near : ndarray, optional
        The fixed point of a neighbouring problem.

    Returns
    -------
    ndarray of shape (5,)
        (m_q, m_u, log nu, b, log V).

    Raises
    ------
    ConvergenceError
        Where no fixed point is found.
    """
    given = convex_loss(loss)
    solver: _Solver = _ClosedForm(law, alpha, ridge) if is_square(given) else _General(law, alpha, ridge, given)
    points = solver.begin(None if near is None else WarmStart(near))
    return np.asarray(solver.at(points).x)


class _Solver:
    """A way to the fixed point at one level of refinement after the other."""

    coarse: np.ndarray | None = None

    def __init__(self, law: Law, alpha: float, ridge: float):
        self.law, self.alpha, self.ridge = law, alpha / law.dimension_factor, ridge

    def begin(self, warm_start: WarmStart | None) -> int:
        """The level to begin with."""
        first = self.law.first_points
        if warm_start is None or warm_start.points is None:
            return first
        return max(first, min(warm_start.points, MAXIMUM_POINTS))

    def at(self, points: int) -> Answer:
        """The fixed point at a level."""
        raise NotImplementedError


class _ClosedForm(_Solver):
    """The square loss: every level by itself, and no start to carry over."""

    def __init__(self, law: Law, alpha: float, ridge: float, accuracy: float = np.inf):
        super().__init__(law, alpha, ridge)
        self.accuracy = accuracy

    def begin(self, warm_start: WarmStart | None) -> int:
        first = self.law.first_points
        points = super().begin(warm_start)
        # No solution has to be found on few draws first; they are worth their time only where they may be enough.
        return SECOND_LEVEL * first if points == first and self.accuracy < _FIRST_LEVEL_ACCURACY else points

    def at(self, points: int) -> Answer:
        nodes = self.law.at(points)[1]
        replicates = nodes.T.shape[0]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = solve_square(self.alpha, self.ridge, nodes)
            near = float(np.exp(found.x[0, 4]))
            own = found if replicates == 1 else solve_square(self.alpha, self.ridge, nodes, each=True, near=near)
        if np.isnan(found.x).any() or np.isnan(own.x).any() or not found.residual[0] <= _CLOSED_RESIDUAL:
            raise ConvergenceError(
                f"alpha={self.alpha:g}, ridge={self.ridge:g} or the strength is so large or small that the fixed point is lost "
                "in rounding errors"
            )
        loss = np.broadcast_to(found.train_loss, replicates)
        return Answer(found.x[0], loss, own.x, own.train_loss, float(found.residual[0]), 0)


class _General(_Solver):
    """Any other loss: Newton's method, from the last level's solution, a neighbour's, or by a walk down the ridge."""

    def __init__(self, law: Law, alpha: float, ridge: float, loss: Loss):
        if ridge == 0:
            require_above_capacity(law, alpha)
        super().__init__(law, alpha, ridge)
        self.loss = _traceable(loss)
        self.x: np.ndarray | None = None

    @in_double_precision
    def begin(self, warm_start: WarmStart | None) -> int:
        points, first = super().begin(warm_start), self.law.first_points
        if warm_start is None or not warm_start.usable:
            return points
        self.x = warm_start.x
        if warm_start.offset is not None and points > first:
            start = warm_start.x - warm_start.offset
            near = newton_in_blocks(self.loss, self.law.at(first)[1], start, self.alpha, self.ridge)
            if near.residual <= TOLERANCE:
                self.x, self.coarse = near.x + warm_start.offset, near.x
        return points

    @in_double_precision
    def at(self, points: int) -> Answer:
        solution = solve(self.loss, self.alpha, self.ridge, self.law.at(points)[1], self.x)
        self.x = np.asarray(solution.x)
        if points == self.law.first_points:
            self.coarse = self.x
        return answer_of(solution, _LOGARITHMS)


_traceable: Callable[[Loss], Loss] = in_double_precision(traceable)
