"""Each learner's loss at alpha = n/d samples, at its best settings, and with unlimited samples; its sensitivities.

attention         staged training, tuned (see `tuning`)
pooled            ridge-regularised linear readout of the mean token, best ridge, all samples
vectorized        the same of all tokens' coordinates
message_passing   simulated at given n and d where that is possible, else in the limit
optimal           what no method beats, in the limit
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..losses import Loss
from ..plotting.style import label
from ..task import Task
from ..theory import AccuracyError, BayesLimit, attention_law, bayes_limit, pooled_law
from ..theory.bayes.oracle import statistic
from ..training import Training
from .criterion import RESOLVED, Criterion, Measured
from .forecast_at import readout_loss, simulated_message_passing
from .tuning import Settings, mean_alignment, tune_attention, tune_linear

LEARNERS = ("attention", "pooled", "vectorized", "message_passing", "optimal")
TRAINED = ("attention", "pooled", "vectorized")
DRAWS = 4  # data sets on which message passing is simulated


def learners_of(task: Task) -> tuple[str, ...]:
    """The learners for a task's bags: all of them, except that the vectorized one needs one length and independent tokens."""
    plain = len({kind.length for kind in task.kinds}) == 1 and task.correlation == 0
    return LEARNERS if plain else tuple(learner for learner in LEARNERS if learner != "vectorized")


@dataclass
class Outlook:
    """Losses of all learners under one criterion; remembers attention's settings as starts for neighbouring problems.

    Attributes
    ----------
    criterion : Criterion
        What is judged.
    loss : str or Loss
        The training loss.
    d : int, optional
        Dimension: losses are then those to expect at n = alpha d and d. None: in the limit.
    """

    criterion: Criterion = field(default_factory=Criterion)
    loss: str | Loss = "logistic"
    d: int | None = None
    _settings: list[tuple[np.ndarray, Settings]] = field(default_factory=list, repr=False)
    _solved: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)

    def settings(self, learner: str, task: Task, alpha: float, thorough: bool = False) -> Settings:
        """A trained learner's best settings at alpha = n/d; for attention, `thorough` is that of `tune_attention`."""
        if learner != "attention":
            return self._once((learner, task, float(alpha)), lambda: self._linear(learner, task, alpha))
        return self._once((learner, task, float(alpha), thorough), lambda: self._attention(task, alpha, thorough))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._solved:
            self._solved[key] = make()
        return self._solved[key]

    def _linear(self, learner: str, task: Task, alpha: float) -> Settings:
        tuned = tune_linear(learner, task, alpha, self.criterion, self.loss, self.d)
        self.require_possible(learner, tuned.limit, task, alpha)
        return tuned

    def _attention(self, task: Task, alpha: float, thorough: bool) -> Settings:
        """Tuned from the nearest problem solved before, where one is near (a factor 2.5 in each number at the most)."""
        position = np.log([task.mean_length, task.mean_sparsity, task.mean_strength, task.prevalence, alpha])
        distances = [float(np.abs(position - other).max()) for other, _ in self._settings]
        near = None
        if distances and min(distances) < math.log(2.5) and not thorough:
            near = self._settings[int(np.argmin(distances))][1]
        tuned = tune_attention(task, alpha, self.criterion, self.loss, self.d, near=near, thorough=thorough)
        if tuned.limit.loss >= RESOLVED:
            self.require_possible("attention", tuned.limit, task, alpha)
        tuned = replace(tuned, measured=tuned.measured.resolved(), limit=tuned.limit.resolved())
        self._settings.append((position, tuned))
        return tuned

    def require_possible(self, learner: str, limit: Measured, task: Task, alpha: float) -> None:
        """Raise AccuracyError where a learner's limit is below what no method beats with the same samples."""
        best = self.in_the_limit("optimal", task, alpha)
        errors = [e for e in (best.standard_error, limit.standard_error) if np.isfinite(e)]
        # Four standard errors: one false alarm in 30,000.
        if limit.loss < best.loss - 4.0 * math.hypot(*errors) - 1e-6:
            raise AccuracyError(
                f"internal error: the forecast of {label(learner)} ({limit.loss:.3g}) is below the Bayes limit "
                f"({best.loss:.3g}) at length {task.length}, strength {task.strength:g}, n/d {alpha:g}"
            )

    def bayes(self, task: Task, alpha: float) -> BayesLimit:
        """The Bayes limit; computed once."""
        return self._once(("bayes", task, float(alpha)), lambda: bayes_limit(task, alpha))

    def in_the_limit(self, learner: str, task: Task, alpha: float) -> Measured:
        """Loss of message passing or of the Bayes limit for large n and d."""
        limit = self.bayes(task, alpha)
        prefix = "reachable_" if learner == "message_passing" else ""
        if self.criterion.weighs_prevalence:
            name = f"{prefix}test_error"
            return Measured(getattr(limit, name), limit.errors[name])
        overlap = getattr(limit, f"{prefix}overlap")
        return self.criterion.of_likelihood_ratio(task, task.mean_strength * overlap**0.5)

    def message_passing(self, task: Task, alpha: float) -> Measured | None:
        """Simulated loss of message passing at this n and d; None in the limit, or where it is not simulated."""
        d = self.d
        if d is None:
            return None
        n = max(2, round(alpha * d))
        simulated = partial(simulated_message_passing, task, n, d, self.criterion, DRAWS)
        return self._once(("message_passing", task, float(alpha)), simulated)

    def measured(self, learner: str, task: Task, alpha: float, thorough: bool = False) -> Measured:
        """The criterion's loss of a learner at its best settings."""
        if learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {learner!r}")
        if task.mean_strength == 0:
            return Measured(self.criterion.chance(task.prevalence), 0.0)
        if learner in TRAINED:
            return self.settings(learner, task, alpha, thorough).measured
        simulated = self.message_passing(task, alpha) if learner == "message_passing" else None
        return self.in_the_limit(learner, task, alpha) if simulated is None else simulated

    def limit(self, learner: str, task: Task) -> float:
        """Loss with unlimited samples, where the direction is known and only the representation limits it."""
        if task.mean_strength == 0:
            return self.criterion.chance(task.prevalence)
        if learner in ("pooled", "vectorized"):
            return self.criterion.of_gaussians(pooled_law(task).at(0)[0])
        if learner != "attention":
            return self.criterion.of_likelihood_ratio(task, task.mean_strength).loss
        laws = [attention_law(task, 1.0, k).make_population(1024) for k in np.geomspace(0.25, 60.0, 14).tolist()]
        scores = [(statistic(law.positive), statistic(law.negative)) for law in laws]
        return min(self.criterion.of_scores(*drawn, task.prevalence).loss for drawn in scores)


@dataclass(frozen=True)
class Slope:
    """d loss/d log parameter of attention, with its standard error, for strength, samples, length or prevalence."""

    parameter: str
    slope: float
    standard_error: float

    @property
    def change(self) -> float:
        """The loss's change when the parameter grows by a tenth."""
        return self.slope * math.log(1.1)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, and the change."""
        return asdict(self) | {"change_for_ten_percent_more": self.change}


def sensitivities(task: Task, training: Training, criterion: Criterion, d: int | None = None) -> list[Slope]:
    """Slopes of attention's loss, the steepest first: central differences of the theory on common random draws.

    At the best settings the loss does not change with them to first order, so the slope at fixed settings is that of the best
    loss as well.
    """

    def measured(task: Task, training: Training) -> Measured:
        n0 = None if d is None else max(2, round(training.alpha0 * d))
        gamma, norm = mean_alignment(task, training, n0)
        law = attention_law(task, gamma, training.beta * norm).on_draws(256)
        return readout_loss(law, training, criterion, d)[0]

    slopes = []
    for name in ("strength", "samples", "length", "prevalence"):
        sides = [_moved(task, training, name, log_step) for log_step in (0.05, -0.05)]
        width = sides[0][2] - sides[1][2]
        if width == 0:  # a single token, which cannot be fewer
            continue
        up, down = (measured(*side[:2]) for side in sides)
        # Common draws make the difference more precise than its two ends; their errors in quadrature are an upper bound.
        error = float(np.hypot(up.standard_error, down.standard_error)) / width
        slopes.append(Slope(name, (up.loss - down.loss) / width, error))
    return sorted(slopes, key=lambda slope: -abs(slope.slope))


def _moved(task: Task, training: Training, name: str, log_step: float) -> tuple[Task, Training, float]:
    """Task and training with one parameter changed, and its actual change (in logs)."""
    factor = math.exp(log_step)
    if name == "samples":
        return task, training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor), log_step
    if name == "length":
        jump = max(1, round(task.mean_length * abs(factor - 1)))
        least = max(kind.sparsity for kind in task.kinds)
        moved = task.at_length(max(least, task.mean_length + (jump if log_step > 0 else -jump)))
        return moved, training, math.log(moved.mean_length / task.mean_length)
    if name == "prevalence":
        factor = min(factor, 0.5 * (1 + 1 / task.prevalence))  # stays below one
        return task.but(prevalence=task.prevalence * factor), training, math.log(factor)
    return task.at_strength(task.mean_strength * factor), training, log_step
