"""What a plan is judged by: test error, as trained or at the best threshold, balanced error, AUC, or sensitivity.

Every criterion has a `loss` form, to be minimised (the error itself, 1 - AUC, 1 - sensitivity). `error` is that of the
classifier as it was trained, bias included. `threshold_error` and `balanced_error` are those at the best threshold on the
score, and sensitivity that at the threshold of the given specificity: with rare positives the trained bias predicts
"negative" for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from .._core.averages import standard_error
from .._core.root_finding import least_on_grid
from .._core.validation import real_number
from ..laws.error_measures import ScoreLaw, auc_within, score_law, shares_beaten
from ..laws.populations import Population
from ..task import Task
from ..theory import ErmResult
from ..theory.bayes.oracle import bayes_error, log_likelihood_ratios, threshold_error

# Losses of attention below this depend on rarer draws than the theory's sampling contains, and are not resolved.
RESOLVED = 1e-4
_LABELS = {
    "error": "test error",
    "threshold_error": "test error at the best threshold",
    "balanced_error": "balanced error",
    "auc": "AUC",
    "sensitivity": "sensitivity at specificity",
}
KINDS = tuple(_LABELS)


@dataclass(frozen=True)
class Measured:
    """A criterion's loss and its standard error."""

    loss: float
    standard_error: float

    def resolved(self) -> Measured:
        """A loss computed from draws: values below RESOLVED are only known to be at most RESOLVED."""
        if self.loss >= RESOLVED:
            return self
        return Measured(RESOLVED, max(RESOLVED / 2.0, self.standard_error))


@dataclass(frozen=True)
class Criterion:
    """What a plan is judged by.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    specificity : float, optional
        In (0, 1): the specificity at which sensitivity is read; needed for that kind, and for no other.
    """

    kind: str = "error"
    specificity: float | None = None

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"criterion must be one of {', '.join(KINDS)} (sensitivity@0.95), got {self.kind!r}")
        if (self.specificity is not None) != (self.kind == "sensitivity"):
            raise ValueError("criterion sensitivity, and only it, is read at a specificity: sensitivity@0.95")
        if self.specificity is not None:
            real_number("specificity", self.specificity, 0.0, 1.0, open_low=True, open_high=True)

    @classmethod
    def of(cls, value: Criterion | str) -> Criterion:
        """A Criterion, or its name: error, threshold_error, balanced_error, auc, sensitivity@0.95."""
        if isinstance(value, Criterion):
            return value
        kind, separator, level = str(value).partition("@")
        if not separator:
            return cls(kind)
        try:
            specificity = float(level)
        except ValueError:
            raise ValueError(f"criterion {value!r}: the specificity after @ must be a number in (0, 1)") from None
        return cls(kind, specificity)

    def __str__(self) -> str:
        return self.kind if self.specificity is None else f"{self.kind}@{self.specificity:g}"

    @property
    def label(self) -> str:
        """The criterion in words, as on an axis."""
        return _LABELS[self.kind] + ("" if self.specificity is None else f" {self.specificity:g}")

    @property
    def with_article(self) -> str:
        """The label with "a" or "an" before it."""
        return f"{'an' if self.label[0] in 'Aa' else 'a'} {self.label}"

    @property
    def larger_is_better(self) -> bool:
        return self.kind in ("auc", "sensitivity")

    @property
    def weighs_prevalence(self) -> bool:
        """Whether a positive counts by how often it occurs."""
        return self.kind in ("error", "threshold_error")

    def shown(self, loss: float) -> float:
        """The criterion's value for a loss, and a loss for a value: the map is its own inverse."""
        return 1.0 - loss if self.larger_is_better else loss

    def chance(self, prevalence: float) -> float:
        """Loss of chance."""
        if self.weighs_prevalence:
            return min(prevalence, 1 - prevalence)
        return 0.5 if self.specificity is None else self.specificity

    def target_loss(self, target: float, prevalence: float) -> float:
        """Loss form of a target, which must lie between chance and perfection."""
        low, high = sorted((self.shown(0.0), self.shown(self.chance(prevalence))))
        value = real_number(f"target {self.label}", target, low, high, open_low=True, open_high=True)
        return self.shown(value)

    # -- measurements ------------------------------------------------------------------------------------------------

    def of_readout(self, result: ErmResult) -> Measured:
        """Of a trained readout's limit."""
        if self.kind == "error":
            return Measured(result.test_error, result.standard_error)
        if self.kind == "auc":
            return Measured(1.0 - result.auc, result.errors["auc"])
        population, _ = result.law.at(result.points)
        each = self.losses_at(result.fixed_point[None], population)[0]
        scatter = standard_error(each, alone=0.0)
        # The scatter is that at the common fixed point; the fixed point's own error is taken from the trained threshold.
        return Measured(float(each.mean()), float(np.hypot(scatter, result.errors["balanced_error"])))

    def losses_at(self, x: np.ndarray, population: Population) -> np.ndarray:
        """Losses of readouts, rows (m_q, m_u, log nu, b, log V) of x, on a population: (readouts, replicates)."""
        rows = []
        for readout in x:
            positive, negative = (
                ScoreLaw(*score_law(readout, c), c.weight) for c in (population.positive, population.negative)
            )
            cut = 0.0 if self.kind == "error" else None  # as trained
            rows.append(self._of_mixtures(positive, negative, population.prevalence, cut))
        return np.stack(rows)

    def _of_mixtures(
        self, positive: ScoreLaw, negative: ScoreLaw, prevalence: float, cut: float | None = None
    ) -> np.ndarray:
        """Loss of each replicate at a threshold, by default the best; classes are Gaussian mixtures, a row per replicate."""
        if self.kind == "auc":
            return 1.0 - auc_within(positive, negative)

        def above(scores: ScoreLaw, threshold: float) -> np.ndarray:
            return scores.average(ndtr((scores.mean - threshold) / scores.deviation))

        low = min(float((m - 8 * s).min()) for m, s, _ in (positive, negative))
        high = max(float((m + 8 * s).max()) for m, s, _ in (positive, negative))
        if self.kind == "sensitivity":
            assert self.specificity is not None
            wanted = 1.0 - self.specificity
            cut = brentq(lambda c: above(negative, c).mean() - wanted, low, high, xtol=1e-12 * (high - low))
            return 1.0 - above(positive, cut)
        pi = prevalence if self.weighs_prevalence else 0.5

        def wrong(c):
            return pi * (1.0 - above(positive, c)) + (1 - pi) * above(negative, c)

        if cut is None:
            cut, _ = least_on_grid(lambda c: wrong(c).mean(), np.linspace(low, high, 60), 3e-5)
        return wrong(cut)

    def of_scores(self, positive: np.ndarray, negative: np.ndarray, prevalence: float) -> Measured:
        """Of drawn scores, (replicates, draws) for each class."""
        if not self.larger_is_better:
            return Measured(*threshold_error(positive, negative, prevalence if self.weighs_prevalence else 0.5))
        if self.kind == "sensitivity":
            assert self.specificity is not None
            each = (positive <= np.quantile(negative, self.specificity)).mean(1)
        else:
            each = np.array([1.0 - shares_beaten(p, n).mean() for p, n in zip(positive, negative)])
        return Measured(float(each.mean()), standard_error(each, alone=0.0))

    def of_likelihood_ratio(self, task: Task, strength: float) -> Measured:
        """Of the likelihood ratio at a known direction and an effective strength theta sqrt(m)."""
        if strength == 0:
            return Measured(self.chance(task.prevalence), 0.0)
        if not self.larger_is_better:
            return Measured(*bayes_error(task if self.weighs_prevalence else task.but(prevalence=0.5), strength))
        return self.of_scores(*log_likelihood_ratios(task, strength), task.prevalence)

    def of_gaussians(self, population: Population) -> float:
        """Of thresholding T itself on a law of normals (pooling with a known direction)."""
        positive, negative = (ScoreLaw(c.T, c.tau, c.weight) for c in (population.positive, population.negative))
        return float(self._of_mixtures(positive, negative, population.prevalence)[0])
