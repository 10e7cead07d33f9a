"""What each learner reaches at alpha = n/d samples, at its best settings, and with unlimited samples.

attention         staged training, tuned (see `tuning`)
pooled            ridge-regularised linear readout of the mean token, best ridge, all samples
vectorized        the same of all tokens' coordinates
message_passing   the best known fast method
optimal           what no method beats, fast or not
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from ..losses import Loss
from ..task import Task
from ..theory import AccuracyError, BayesLimit, attention_law, bayes_limit, pooled_law
from ..theory.known_signal import statistic
from .criterion import RESOLVED, Criterion, Measured
from .tuning import ACCURACY, Settings, tune_attention, tune_linear

LEARNERS = ("attention", "pooled", "vectorized", "message_passing", "optimal")
# What the vectorized classifier needs of bags: one length, and independent tokens.
_ONE_OF = ("length", "correlation")
NAMES = {
    "attention": "attention",
    "pooled": "pooled",
    "vectorized": "vectorized",
    "message_passing": "message passing",
    "optimal": "Bayes limit",
}
_NEAR = np.log(2.5)  # settings of a problem at most this far away (in logs) are a good enough start
_LIMIT_SHARPNESSES = np.geomspace(0.25, 60.0, 14)
_LIMIT_POINTS = 1024
_DOUBT = 4.0  # standard errors by which a forecast may fall below the Bayes limit: one false alarm in 30,000


def learners_of(task: Task) -> tuple[str, ...]:
    """The learners that can be used on a task's bags: all, but the vectorized one where tokens have no places of their own."""
    try:
        task.require_plain("the vectorized classifier", *_ONE_OF)
    except ValueError:
        return tuple(learner for learner in LEARNERS if learner != "vectorized")
    return LEARNERS


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
    doubtful : bool
        Whether forecasts are held against the Bayes limit, which takes seconds where bags differ.
    """

    criterion: Criterion = field(default_factory=Criterion)
    loss: str | Loss = "logistic"
    d: int | None = None
    _known: list[tuple[np.ndarray, Settings]] = field(default_factory=list, repr=False)
    _solved: dict[tuple[Task, float, float | None], Settings] = field(default_factory=dict, repr=False)
    _limits: dict[tuple[Task, float], BayesLimit] = field(default_factory=dict, repr=False)
    doubtful: bool = True

    def attention(self, task: Task, alpha: float, accuracy: float | None = None, starts: int = 1) -> Settings:
        """Tuned attention, from the nearest problem solved before where there is one.

        Parameters
        ----------
        task : Task
            The task.
        alpha : float
            n/d.
        accuracy : float, optional
            Of the final forecast; None leaves a coarser one.
        starts : int
            Runs of the search.

        Returns
        -------
        Settings
            The best settings found.

        Raises
        ------
        AccuracyError
            If they are better than the Bayes limit: an internal error.
        """
        key = (task, float(alpha), accuracy)
        if key in self._solved:
            return self._solved[key]
        here = np.log([task.mean_length, task.mean_sparsity, task.mean_strength, task.prevalence, alpha])
        distances = [float(np.abs(here - there).max()) for there, _ in self._known]
        near = self._known[int(np.argmin(distances))][1] if distances and min(distances) < _NEAR else None
        found = tune_attention(task, alpha, self.criterion, self.loss, near, accuracy, starts, self.d)
        if found.limit.loss >= RESOLVED:
            self.require_possible("attention", found.limit, task, alpha)
        found = replace(found, measured=found.measured.resolved(), limit=found.limit.resolved())
        self._known.append((here, found))
        self._solved[key] = found
        return found

    def linear(self, learner: str, task: Task, alpha: float) -> Settings:
        """Tuned pooled or vectorized classifier."""
        found = tune_linear(learner, task, alpha, self.criterion, self.loss, self.d)
        self.require_possible(learner, found.limit, task, alpha)
        return found

    def require_possible(self, learner: str, limit: Measured, task: Task, alpha: float) -> None:
        """Raise AccuracyError where a learner's limit is below what no method beats with the same samples."""
        if not self.doubtful:
            return
        best = self.measured("optimal", task, alpha)
        errors = [e for e in (best.standard_error, limit.standard_error) if np.isfinite(e)]
        if limit.loss < best.loss - _DOUBT * math.hypot(*errors) - 1e-6:
            raise AccuracyError(
                f"internal error: the forecast of {NAMES[learner]} ({limit.loss:.3g}) is below the Bayes limit "
                f"({best.loss:.3g}) at length {task.length}, strength {task.strength:g}, n/d {alpha:g}"
            )

    def bayes(self, task: Task, alpha: float) -> BayesLimit:
        """The Bayes limit; computed once."""
        key = (task, float(alpha))
        if key not in self._limits:
            self._limits[key] = bayes_limit(task, alpha)
        return self._limits[key]

    def measured(self, learner: str, task: Task, alpha: float, accuracy: float | None = None) -> Measured:
        """The criterion's loss of a learner at its best settings."""
        if task.mean_strength == 0:
            return Measured(self.criterion.chance(task), 0.0)
        if learner == "attention":
            return self.attention(task, alpha, accuracy).measured
        if learner in ("pooled", "vectorized"):
            return self.linear(learner, task, alpha).measured
        if learner not in LEARNERS:
            raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {learner!r}")
        limit = self.bayes(task, alpha)
        prefix = "reachable_" if learner == "message_passing" else ""
        if self.criterion.weighs_prevalence:
            name = f"{prefix}test_error"
            return Measured(getattr(limit, name), limit.errors[name])
        overlap = getattr(limit, f"{prefix}overlap")
        return self.criterion.of_likelihood_ratio(task, task.mean_strength * overlap**0.5)

    def limit(self, learner: str, task: Task) -> float:
        """Loss with unlimited samples: the direction is known then, the representation is what remains."""
        if task.mean_strength == 0:
            return self.criterion.chance(task)
        if learner in ("pooled", "vectorized"):
            return self.criterion.of_gaussians(pooled_law(task).at(0)[0])
        if learner == "attention":
            losses = []
            for k in _LIMIT_SHARPNESSES:
                population = attention_law(task, 1.0, float(k)).make_population(_LIMIT_POINTS)
                scores = statistic(population.positive), statistic(population.negative)
                losses.append(self.criterion.of_scores(*scores, task.prevalence).loss)
            return min(losses)
        return self.criterion.of_likelihood_ratio(task, task.mean_strength).loss


__all__ = ["ACCURACY", "LEARNERS", "NAMES", "Outlook"]
