"""From a law to the limits of its readout: the fixed point solved on draws that are refined until the accuracy is met.

It is solved on all replicates of a law together; the scatter of every quantity over the replicates' own fixed points gives
its standard error. `plain`, `heads` and `coloured` add their equations and what they report.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from ..._core.averages import standard_error
from ..._core.devices import double_precision
from ..._core.validation import real_number
from ...jax_losses import traceable
from ...laws.error_measures import ScoreLaw, fresh_measures, mean_and_scatter
from ...laws.law import SampledLaw
from ...losses import Loss, convex_loss
from ...results import NOT_PLAIN, ClassifierResult
from ...task import Task
from ..accuracy import DEFAULT_ACCURACY, Accuracy, WarmStart
from ..capacity import require_above_capacity
from .newton import LONGEST, Solver
from .prox_averages import Equations, ScoreNodes
from .square_loss import is_square

AnyLaw = TypeVar("AnyLaw", bound=SampledLaw)


class FixedPoint(NamedTuple):
    """The fixed point on one level's draws, and those of single replicates."""

    x: np.ndarray
    replicate_loss: np.ndarray
    own_x: np.ndarray
    own_loss: np.ndarray
    residual: float
    evaluations: int = 0


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadoutResult(ClassifierResult, Generic[AnyLaw]):
    """Limits of a trained readout, and how they were solved for.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `tested`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; standard errors come from the law's sampling.
    residual, iterations : float, int
        Largest entry of the undamped scaled residual, and the evaluations that it took.
    alpha, ridge, law, loss
        The problem.
    points : int
        Draws per replicate and class that the accuracy required; 0 for exact laws.
    fixed_point : ndarray (unknowns,)
        The unknowns as the solver holds them.
    own_fixed_points : ndarray (replicates, unknowns)
        The fixed point of each single replicate of the law's sampling.
    test_law : optional
        The law of the fresh bags, where it is another one than the training's (see `on`).
    test_points, test_bias_shift : int, float
        Draws per replicate and class of `test_law`, and what was added to the bias for the test.
    """

    problem: ClassVar[type[ReadoutProblem]]
    residual: float
    iterations: int
    alpha: float
    ridge: float
    points: int
    law: AnyLaw = field(compare=False, metadata=NOT_PLAIN)
    loss: Loss | str = field(metadata=NOT_PLAIN)
    fixed_point: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    own_fixed_points: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    test_law: AnyLaw | None = field(default=None, compare=False, metadata=NOT_PLAIN)
    test_points: int = field(default=0, metadata=NOT_PLAIN)
    test_bias_shift: float = field(default=0.0, metadata=NOT_PLAIN)

    @property
    def warm_start(self) -> WarmStart:
        """A start for neighbouring problems."""
        return WarmStart(self.fixed_point, self.points or None)

    def on(
        self,
        law: AnyLaw | Task,
        bias_shift: float = 0.0,
        *,
        accuracy: float = DEFAULT_ACCURACY,
        strict: bool = False,
    ) -> Self:
        """The same trained readout tested on another law.

        The measures on fresh bags are those of `law`, with standard errors from the sampling of both laws. Everything else
        stays that of the training; only where its draws are too few for the accuracy is the fixed point solved again on more
        of them, and moves within its standard errors.

        Parameters
        ----------
        law : law or Task
            The law of the test bags, of the training's kind, dimension and noise and with the same queries; a task means
            this classifier's law on its bags.
        bias_shift : float
            Added to the trained bias.
        accuracy, strict : float, bool
            As in `erm`.
        """
        shift = real_number("bias_shift", bias_shift, -np.inf, open_low=True)
        wanted = Accuracy(accuracy, strict)
        problem = type(self).problem(self.law, self.alpha, self.ridge, self.loss)
        test_law: Any = self.law.elsewhere(law) if isinstance(law, Task) else law
        problem.check_elsewhere(test_law)
        result, points = self, max(self.points, test_law.first_points) if test_law.refinable else 0
        while True:
            scores = (
                problem.scores_on(test_law, points, x, shift) for x in (result.fixed_point, result.own_fixed_points)
            )
            common, per_replicate = (
                {name: mean_and_scatter(v) for name, v in fresh_measures(*laws, test_law.prevalence).items()}
                for laws in scores
            )
            error, law_error = per_replicate["test_error"][1], common["test_error"][1]
            shortfall = wanted.shortfall(error)
            if shortfall <= 1 or not (test_law.refinable or problem.law.refinable):
                break
            finer, finer_training = test_law.finer(points, shortfall), problem.law.finer(result.points, shortfall)
            if finer is not None and (law_error**2 >= 0.5 * error**2 or finer_training is None):
                points = finer
            elif finer_training is not None:
                result = problem.limit(replace(wanted, warm_start=WarmStart(result.fixed_point, finer_training)))
            else:
                wanted.missed(error, "at the finest sampling")
                break
        errors = {name: scatter for name, (_, scatter) in per_replicate.items()}
        values: dict[str, Any] = {name: mean for name, (mean, _) in common.items()}
        return replace(
            result,
            **values,
            standard_error=errors.pop("test_error"),
            errors={**result.errors, **errors},
            test_law=test_law,
            test_points=points,
            test_bias_shift=shift,
            trained=_record(self.law, 0.0),
            tested=_record(test_law, shift),
        )

    def _setting(self) -> str:
        return f"{self._classifier()}, alpha={self.alpha:g}, ridge={self.ridge:g}"

    def _classifier(self) -> str:
        """The readout's features in words."""
        return self.model


class ReadoutProblem(ABC):
    """The convex readout of one law: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d."""

    def __init__(self, law: Any, alpha: float, ridge: float, loss: str | Loss):
        self.law, self.alpha, self.ridge, self.loss_given = law, alpha, ridge, loss
        self.loss = convex_loss(loss)

    @property
    @abstractmethod
    def equations(self) -> Equations:
        """The law's unknowns and equations."""

    @property
    def not_unique(self) -> tuple[float, str]:
        """The n/d up to which the square loss has many minimisers without a ridge, and where that is, in words."""
        return 0.0, ""

    def check_ridgeless(self) -> None:
        """Raise ValueError where there is no unique minimiser without a ridge."""
        if not is_square(self.loss):
            require_above_capacity(self.law, self.alpha)
        elif not self.alpha > self.not_unique[0]:
            raise ValueError(
                f"ridge must be positive {self.not_unique[1]}, got alpha {self.alpha:g}: the square loss has many minimisers "
                "there; a small ridge gives the shortest one"
            )

    @abstractmethod
    def constants(self, ridge: float) -> tuple:
        """What the equations need beside the moments."""

    @abstractmethod
    def blocks(self, points: int) -> tuple[ScoreNodes, ...]:
        """The law's nodes at a level of refinement."""

    @abstractmethod
    def guess(self, points: int, ridge: float) -> np.ndarray:
        """A start for a large ridge, where w is nearly zero: bias from the prevalence, the rest from the equations there."""

    @abstractmethod
    def quantities(self, points: int, x: np.ndarray, train_loss: np.ndarray) -> dict[str, np.ndarray]:
        """Every reported quantity for each replicate, at its own x (rows) or at a common one."""

    @abstractmethod
    def result(self, values: dict[str, Any], errors: dict[str, Any], common: dict[str, Any]) -> Any:
        """The public result from values and standard errors by name, and what all results have in common: `overlap` and
        `cosine` have "w" there."""

    @abstractmethod
    def check_elsewhere(self, law: Any) -> None:
        """Raise ValueError unless a readout trained on this law can be tested on that one: its coordinates mean the same."""

    @abstractmethod
    def scores_on(self, law: Any, points: int, x: np.ndarray, shift: float = 0.0) -> tuple[ScoreLaw, ScoreLaw]:
        """The law of the readout's score on fresh bags of a law, of the positive class and of the negative one; x as in
        `quantities`, its bias moved by `shift`."""

    def closed_form(self, points: int) -> FixedPoint | None:
        """The fixed point at a level of refinement, for a loss that needs no iteration."""
        return None

    def limit(self, accuracy: Accuracy) -> Any:
        """The result, on one level of refinement after the other until the test error's standard error is small enough."""
        if self.ridge == 0:
            self.check_ridgeless()
        law, start = self.law, accuracy.warm_start
        points, x, spent = law.first_points, None, 0
        if start is not None:
            x = start.x
            if start.points is not None:
                points = max(points, min(start.points, law.most_points))
        while True:
            solved = self.solve(points, x)
            x, spent = solved.x, spent + solved.evaluations
            values, errors = self._summary(solved, points)
            error = errors["test_error"]
            shortfall = accuracy.shortfall(error)
            if shortfall <= 1 or not law.refinable:
                break
            finer = law.finer(points, shortfall)
            if finer is None:
                accuracy.missed(error, f"at {points} draws per replicate ({self.setting})")
                break
            points = finer
        common: dict[str, Any] = {
            name: {"w": values.pop(f"{name}_w")} for name in ("overlap", "cosine") if f"{name}_w" in values
        }
        common |= {
            "model": law.name,
            "standard_error": errors.pop("test_error"),
            "residual": solved.residual,
            "iterations": spent,
            "alpha": self.alpha,
            "ridge": self.ridge,
            "points": points,
            "law": law,
            "loss": self.loss_given,
            "fixed_point": solved.x,
            "own_fixed_points": np.atleast_2d(solved.own_x),
        }
        return self.result(values, errors, common)

    @property
    def setting(self) -> str:
        """The problem in words, for messages."""
        return f"alpha={self.alpha:g}, ridge={self.ridge:g}, loss {self.loss.name}, law {self.law.name}"

    def solve(self, points: int, start: np.ndarray | None) -> FixedPoint:
        """The fixed point at a level of refinement, from `start` if that works."""
        exact = self.closed_form(points)
        if exact is not None:
            return exact
        with double_precision():
            solver = self.solver(points, self.blocks(points))
            solution = solver.solve(self.ridge, start)
        # A single replicate has its fixed point at x - J^-1 F_b to first order, with F_b its residual at x.
        x, J, loss, places = solution.x, solution.J, solution.replicate_loss, list(self.equations.logarithms)
        shift = -np.linalg.solve(J[:-1], solution.replicate_F.T).T
        # Beyond, the linearisation behind a replicate's error bar means nothing.
        shift[:, places] = np.clip(shift[:, places], -LONGEST, LONGEST)
        return FixedPoint(x, loss, x + shift, loss + shift @ J[-1], solution.residual, solver.evaluations)

    def solver(self, points: int, blocks: tuple[ScoreNodes, ...]) -> Solver:
        """Newton's method on nodes of a level."""
        loss, setting = traceable(self.loss), self.setting
        return Solver(self.equations, loss, blocks, self.constants, lambda ridge: self.guess(points, ridge), setting)

    def _summary(self, solution: FixedPoint, points: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values at a fixed point, and standard errors from the scatter at the replicates' own fixed points."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            common = self.quantities(points, solution.x, solution.replicate_loss)
            values = {name: _plain(np.mean(v, axis=0)) for name, v in common.items()}
            if len(solution.replicate_loss) == 1:  # exact
                return values, {name: _plain(np.zeros(np.shape(v))) for name, v in values.items()}
            single = self.quantities(points, solution.own_x, solution.own_loss)
            scatter = {name: standard_error(v) for name, v in single.items()}
        # What is infinite in the limit (V of an interpolator) has no error.
        return values, {name: _plain(np.where(np.isfinite(values[name]), v, 0.0)) for name, v in scatter.items()}


def _record(law: Any, bias_shift: float) -> dict[str, Any]:
    """The description of a law that a result shows under `trained` or `tested`."""
    task = {"prevalence": float(law.prevalence)} if law.task is None else law.task.to_dict()
    return {**task, "sharpness": law.sharpness, "bias_shift": bias_shift}


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)
