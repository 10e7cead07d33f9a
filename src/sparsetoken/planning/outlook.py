"""Each learner's loss at alpha = n/d samples, at its best settings, and with unlimited samples; its sensitivities.

attention         staged training, tuned (see `tuning`)
pooled            ridge-regularised linear readout of the mean token, best ridge, all samples
vectorized        the same of all tokens' coordinates
message_passing   the best known fast method: simulated at given n and d where that is possible, else in the limit
optimal           what no method beats, fast or not, in the limit
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..losses import Loss
from ..task import Task
from ..theory import AccuracyError, BayesLimit, attention_law, bayes_limit, pooled_law
from ..theory.bayes.oracle import statistic
from ..training import Training
from .criterion import RESOLVED, Criterion, Measured
from .forecast_at import averaged_readout, solved
from .simulations import simulated_message_passing
from .tuning import Settings, mean_alignment, tune_attention, tune_linear

LEARNERS = ("attention", "pooled", "vectorized", "message_passing", "optimal")
TRAINED = ("attention", "pooled", "vectorized")
NAMES = {
    "attention": "attention",
    "pooled": "pooled",
    "vectorized": "vectorized",
    "message_passing": "message passing",
    "optimal": "Bayes limit",
}
DRAWS = 4  # data sets on which message passing is simulated
_NEAR = np.log(2.5)  # settings of a problem at most this far away (in logs) are a good enough start
_DOUBT = 4.0  # standard errors by which a forecast may fall below the Bayes limit: one false alarm in 30,000
_STEP = 0.05  # of the logarithm, in differences


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

    def at_dimension(self, d: int) -> Outlook:
        """The same in another dimension, with the same settings as starts."""
        return Outlook(self.criterion, self.loss, d, self._settings)

    def attention(self, task: Task, alpha: float, thorough: bool = False) -> Settings:
        """Tuned attention, from the nearest problem solved before where there is one.

        Parameters
        ----------
        task : Task
            The task.
        alpha : float
            n/d.
        thorough : bool
            Whether the search is the longer one of `tune_attention`.

        Returns
        -------
        Settings
            The best settings found.

        Raises
        ------
        AccuracyError
            If they are better than the Bayes limit: an internal error.
        """
        key = ("attention", task, float(alpha), thorough)
        if key not in self._solved:
            position = np.log([task.mean_length, task.mean_sparsity, task.mean_strength, task.prevalence, alpha])
            distances = [float(np.abs(position - other).max()) for other, _ in self._settings]
            near = None
            if distances and min(distances) < _NEAR and not thorough:
                near = self._settings[int(np.argmin(distances))][1]
            tuned = tune_attention(task, alpha, self.criterion, self.loss, self.d, near=near, thorough=thorough)
            if tuned.limit.loss >= RESOLVED:
                self.require_possible("attention", tuned.limit, task, alpha)
            tuned = replace(tuned, measured=tuned.measured.resolved(), limit=tuned.limit.resolved())
            self._settings.append((position, tuned))
            self._solved[key] = tuned
        return self._solved[key]

    def linear(self, learner: str, task: Task, alpha: float) -> Settings:
        """Tuned pooled or vectorized classifier."""
        key = (learner, task, float(alpha))
        if key not in self._solved:
            tuned = tune_linear(learner, task, alpha, self.criterion, self.loss, self.d)
            self.require_possible(learner, tuned.limit, task, alpha)
            self._solved[key] = tuned
        return self._solved[key]

    def settings(self, learner: str, task: Task, alpha: float, thorough: bool = False) -> Settings:
        """Of a trained learner."""
        if learner == "attention":
            return self.attention(task, alpha, thorough)
        return self.linear(learner, task, alpha)

    def require_possible(self, learner: str, limit: Measured, task: Task, alpha: float) -> None:
        """Raise AccuracyError where a learner's limit is below what no method beats with the same samples."""
        best = self.in_the_limit("optimal", task, alpha)
        errors = [e for e in (best.standard_error, limit.standard_error) if np.isfinite(e)]
        if limit.loss < best.loss - _DOUBT * math.hypot(*errors) - 1e-6:
            raise AccuracyError(
                f"internal error: the forecast of {NAMES[learner]} ({limit.loss:.3g}) is below the Bayes limit "
                f"({best.loss:.3g}) at length {task.length}, strength {task.strength:g}, n/d {alpha:g}"
            )

    def bayes(self, task: Task, alpha: float) -> BayesLimit:
        """The Bayes limit; computed once."""
        key = ("bayes", task, float(alpha))
        if key not in self._solved:
            self._solved[key] = bayes_limit(task, alpha)
        return self._solved[key]

    def in_the_limit(self, learner: str, task: Task, alpha: float) -> Measured:
        """Loss of message passing or of the Bayes limit for large n and d."""
        limit = self.bayes(task, alpha)
        prefix = "reachable_" if learner == "message_passing" else ""
        if self.criterion.weighs_prevalence:
            name = f"{prefix}test_error"
            return Measured(getattr(limit, name), limit.errors[name])
        overlap = getattr(limit, f"{prefix}overlap")
        return self.criterion.of_likelihood_ratio(task, task.mean_strength * overlap**0.5)

    def message_passing(self, task: Task, alpha: float, draws: int = DRAWS) -> Measured | None:
        """Simulated loss of message passing at this n and d; None in the limit, or where it is not simulated."""
        if self.d is None:
            return None
        key = ("message_passing", task, float(alpha), draws)
        if key not in self._solved:
            n = max(2, round(alpha * self.d))
            self._solved[key] = simulated_message_passing(task, n, self.d, self.criterion, draws)
        return self._solved[key]

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
        if learner == "attention":
            losses = []
            for k in np.geomspace(0.25, 60.0, 14):
                population = attention_law(task, 1.0, float(k)).make_population(1024)
                scores = statistic(population.positive), statistic(population.negative)
                losses.append(self.criterion.of_scores(*scores, task.prevalence).loss)
            return min(losses)
        return self.criterion.of_likelihood_ratio(task, task.mean_strength).loss


@dataclass(frozen=True)
class Slope:
    """d loss/d log parameter of attention, with its standard error, for strength, samples, length or prevalence."""

    parameter: str
    slope: float
    standard_error: float

    @property
    def change(self) -> float:
        """The loss's change when the parameter grows by a tenth."""
        return self.slope * float(np.log(1.1))

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
        if d is None:
            return criterion.of_readout(solved(law, training.alpha1, training.ridge, training.loss))
        n1 = max(2, round(training.alpha1 * d))
        return averaged_readout(law, n1, training.alpha1, training, criterion)[0]

    slopes = []
    for name in ("strength", "samples", "length", "prevalence"):
        sides = [_moved(task, training, name, sign * _STEP) for sign in (1, -1)]
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
    factor = float(np.exp(log_step))
    if name == "samples":
        return task, training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor), log_step
    if name == "length":
        jump = max(1, round(task.mean_length * abs(factor - 1)))
        least = max(kind.sparsity for kind in task.kinds)
        moved = task.at_length(max(least, task.mean_length + (jump if log_step > 0 else -jump)))
        return moved, training, float(np.log(moved.mean_length / task.mean_length))
    if name == "prevalence":
        factor = min(factor, 0.5 * (1 + 1 / task.prevalence))  # stays below one
        return task.but(prevalence=task.prevalence * factor), training, float(np.log(factor))
    return task.at_strength(task.mean_strength * factor), training, log_step
