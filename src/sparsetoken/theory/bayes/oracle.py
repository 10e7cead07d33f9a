"""What is possible when the signal's direction xi is known: the limit of each representation, without any learning.

Each classifier reduces a bag to one statistic of the tokens' coordinates t_l along xi and thresholds it at the best place:
pooled and vectorized (the sum), hard max (the largest), attention (T = sum p_l t_l at sharpness k), elementwise attention,
and the likelihood ratio (Bayes), which nobody beats.

Eq. (13) of docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtr

from ..._core.averages import standard_error, with_error
from ..._core.root_finding import ALWAYS, BEYOND, falling_root, least_on_grid
from ..._core.validation import real_number, whole_number
from ...laws.draws import FAR, POINTS
from ...laws.law import attention_law, elementwise_law
from ...laws.populations import ClassColumns
from ...plotting.show import axes_for, draw_shares
from ...plotting.style import colour, label
from ...results import Result
from ...task import Task
from .channel import drawn_log_ratios
from .differing_bags import differing_bayes_error, differing_log_ratios
from .one_signal_token import one_token_error

_RULES = ("pooled", "vectorized", "elementwise", "attention", "hardmax", "bayes")


@dataclass(frozen=True, repr=False)
class Oracle(Result):
    """Test errors when the signal direction xi is known, each at its best threshold.

    Attributes
    ----------
    pooled, vectorized, hardmax : float
        The mean of the tokens' coordinates along xi, and the largest of them, in closed form.
    attention, elementwise, bayes : float
        Softmax and elementwise attention with query xi, and the likelihood ratio, which no rule beats, by sampling.
    attention_sharpness, elementwise_sharpness : float
        Their sharpness k: the given one, or the best.
    errors : mapping
        Standard errors of `attention`, `elementwise` and `bayes`.
    """

    pooled: float
    vectorized: float
    hardmax: float
    attention: float
    elementwise: float
    bayes: float
    attention_sharpness: float
    elementwise_sharpness: float
    errors: Mapping[str, float] = field(default_factory=dict)

    def _words(self) -> str:
        names = [name for name in _RULES if name != "vectorized"]  # which is as good as pooled
        shown = (f"{name} {with_error(getattr(self, name), self.errors.get(name, math.nan))}" for name in names)
        return f"test errors: {', '.join(shown)}"

    def frame(self) -> Any:
        """A pandas table, one row per rule: test error, its standard error (0 where it is exact) and sharpness."""
        import pandas as pd

        rows = [
            {
                "rule": name,
                "test_error": getattr(self, name),
                "standard_error": self.errors.get(name, 0.0),
                "sharpness": getattr(self, f"{name}_sharpness", math.nan),
            }
            for name in _RULES
        ]
        return pd.DataFrame(rows)

    def _shown_frame(self) -> Any:
        return self.frame()

    def plot(self, ax: Any = None) -> Any:
        """The rules' test errors with two standard errors."""
        table = self.frame()
        names, colours = map(label, _RULES), [colour(name) for name in _RULES]
        ax = draw_shares(axes_for(ax, (6.0, 3.6)), list(names), table["test_error"], table["standard_error"], colours)
        ax.set(title="the signal's direction is known", xlabel="test error")
        return ax


def pooled_error(task: Task) -> float:
    """Mean of the tokens: normals theta R/L apart (mixtures of them, for bags of several kinds), with the best threshold."""
    pi = task.prevalence
    if task.mean_strength == 0:
        return min(pi, 1 - pi)
    if task.differing is None:
        length, sparsity, strength, _ = task.kinds[0]
        gap = strength * sparsity / length**0.5
        threshold = gap / 2 + np.log((1 - pi) / pi) / gap
        return float(pi * ndtr(threshold - gap) + (1 - pi) * ndtr(-threshold))
    rho = task.correlation
    means = np.array([kind.strength * kind.sparsity / kind.length for kind in task.kinds])
    deviations = np.array([(rho + (1 - rho) / kind.length) ** 0.5 for kind in task.kinds])
    weights = np.array([kind.probability for kind in task.kinds])
    low, high = -FAR * deviations.max(), means.max() + FAR * deviations.max()
    return _best_threshold(
        task,
        lambda b: weights @ ndtr((b - means) / deviations),
        lambda b: weights @ ndtr(-b / deviations),
        np.linspace(low, high, 801),
    )


def _best_threshold(
    task: Task, below: Callable[[float], float], above: Callable[[float], float], places: np.ndarray
) -> float:
    """Least error of a threshold on a statistic: P(below | signal) and P(above | no signal) at a place are given."""
    pi, contaminated = task.prevalence, task.contamination

    def error(b: float) -> float:
        missed = below(b)
        return pi * missed + (1 - pi) * ((1 - contaminated) * above(b) + contaminated * (1 - missed))

    return min(least_on_grid(error, places, 1e-8)[1], pi, 1 - pi)


def hardmax_error(task: Task) -> float:
    """Largest token: distribution functions Phi(x)^L and Phi(x)^(L-R) Phi(x-theta)^R, averaged over the kinds of bags and the
    noise that tokens share, with the best threshold."""
    individual, shared = (1.0 - task.correlation) ** 0.5, task.correlation**0.5
    at, weight = np.polynomial.hermite_e.hermegauss(64) if shared else (np.zeros(1), np.ones(1))
    weight = weight / weight.sum()

    def below(b: float) -> float:
        x = (b - shared * at) / individual
        parts = (
            p * np.exp((L - R) * log_ndtr(x) + R * log_ndtr(x - theta / individual)) for L, R, theta, p in task.kinds
        )
        return float(weight @ sum(parts))

    def above(b: float) -> float:
        x = (b - shared * at) / individual
        return -float(weight @ sum(kind.probability * np.expm1(kind.length * log_ndtr(x)) for kind in task.kinds))

    top = max(kind.strength for kind in task.kinds)
    return _best_threshold(task, below, above, np.linspace(-6.0, 12.0 + top, 801))


def threshold_error(positive: np.ndarray, negative: np.ndarray, prevalence: float) -> tuple[float, float]:
    """Error of thresholding a drawn statistic (replicates, draws) at the place that is best on all draws (all bags in one class
    included), and its standard error."""
    pi = prevalence
    both = np.concatenate([positive.ravel(), negative.ravel()])
    jump = np.repeat([pi / positive.size, -(1 - pi) / negative.size], [positive.size, negative.size])
    order = np.argsort(both)
    curve = (1 - pi) + np.cumsum(jump[order])  # error of "positive above" as the threshold passes each draw
    at = int(np.argmin(curve))
    trivial = min(pi, 1 - pi)
    if curve[at] >= trivial:
        return trivial, 0.0
    threshold = both[order][at]
    each = pi * (positive <= threshold).mean(1) + (1 - pi) * (negative > threshold).mean(1)
    return float(each.mean()), standard_error(each, alone=0.0)


def statistic(columns: ClassColumns) -> np.ndarray:
    """Equally likely draws (replicates, draws) of T, its remaining Gaussian spread included; entries of unequal weights (bags
    of several kinds) are repeated in proportion."""
    T, tau = columns.T, np.broadcast_to(columns.tau, columns.T.shape)
    if columns.weight.shape[-1] > 1:
        weight = np.broadcast_to(columns.weight, T.shape)
        places = (np.arange(T.shape[1]) + 0.5) / T.shape[1]
        chosen = np.stack([np.searchsorted(np.cumsum(w), places * w.sum()).clip(0, len(w) - 1) for w in weight])
        T, tau = np.take_along_axis(T, chosen, axis=1), np.take_along_axis(tau, chosen, axis=1)
    return T + tau * np.random.default_rng(0).standard_normal(T.shape) if np.any(tau) else T


def known_signal_error(
    task: Task, mechanism: str, sharpness: float, activation: Any = "sigmoid", points: int = POINTS
) -> tuple[float, float]:
    """Error of "attention" or "elementwise" with query xi at a sharpness k, and its standard error."""
    if mechanism == "attention" and (sharpness == 0 or task.longest == 1):
        return pooled_error(task), 0.0
    setting = task, 1.0, sharpness
    law = attention_law(*setting) if mechanism == "attention" else elementwise_law(*setting, activation)
    population = law.make_population(points)
    return threshold_error(statistic(population.positive), statistic(population.negative), law.prevalence)


def log_likelihood_ratios(task: Task, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """log of the average over R-subsets of exp(theta sum t_l - R theta^2/2), for drawn positives and negatives."""
    if task.differing is not None:
        return differing_log_ratios(task, strength / task.mean_strength, POINTS)
    length, sparsity, *_ = task.kinds[0]
    positive, negative = (
        drawn_log_ratios(length, sparsity, (strength,), shift, POINTS)[0][0] for shift in (strength, 0.0)
    )
    return positive, negative


def bayes_error(task: Task, strength: float | None = None, points: int = POINTS) -> tuple[float, float]:
    """Test error of the likelihood ratio test at known direction, Eq. (13) of docs/theory.md, and its standard error.

    Bags are drawn in equal parts from three strengths, 0, theta and one between them at which the test is uncertain, each
    weighted by its density in the mixture: tails of 10^-9 need no more draws than errors of a tenth. The mean over a bag's
    mean token is in closed form.
    """
    theta = task.mean_strength if strength is None else float(strength)
    pi = task.prevalence
    trivial = min(pi, 1 - pi)
    if theta == 0:
        return trivial, 0.0
    if task.differing is not None:
        return differing_bayes_error(task, theta / task.mean_strength, points)
    L, R, *_ = task.kinds[0]
    if R == L:
        return pooled_error(task.but(strength=theta)), 0.0
    if R == 1:
        return one_token_error(L, theta, pi, points)
    log_subsets = gammaln(L + 1) - gammaln(R + 1) - gammaln(L - R + 1)
    doubt = theta / 2 + (log_subsets + np.log((1 - pi) / pi)) / (R * theta)
    between = float(np.clip(doubt, 0.2 * theta, 0.8 * theta))
    each = np.zeros(1)
    for shift in (theta, between, 0.0):
        (log_ratio, log_between), mean_token = drawn_log_ratios(L, R, (theta, between), shift, points)
        if mean_token is None:
            wrong = np.minimum(np.log(pi) + log_ratio, np.log1p(-pi))
        else:
            # The mean token g/sqrt(L) is independent of how the others differ from it, and log LR is a line in it.
            slope, log_odds = theta * R / L**0.5, np.log1p(-pi) - np.log(pi)
            at_zero = log_ratio - theta * R * mean_token
            log_ratio = at_zero + 0.5 * slope**2
            log_between = log_between - between * R * mean_token + 0.5 * (between * R) ** 2 / L
            edge = (log_odds - at_zero) / slope
            wrong = np.logaddexp(np.log(pi) + log_ratio + log_ndtr(edge - slope), np.log1p(-pi) + log_ndtr(-edge))
        mixture = np.logaddexp(np.logaddexp(log_ratio, log_between), 0.0)
        each = each + np.exp(wrong - mixture).mean(1)
    return float(min(each.mean(), trivial)), standard_error(each, alone=0.0)


def oracle(task: Task, sharpness: float | None = None, *, activation: Any = "sigmoid", points: int = POINTS) -> Oracle:
    """Test errors of every classifier when the signal direction xi is known, each at its best threshold.

    Eq. (13) of docs/theory.md.

    Parameters
    ----------
    task : Task
        What the bags are.
    sharpness : float, optional
        k = beta ||q|| of both attention models, at least 0; by default each has the one that is best for it.
    activation : str or callable
        Of elementwise attention.
    points : int
        Draws per replicate and class for the errors that are sampled.
    """
    Task.require(task)
    k = None if sharpness is None else real_number("sharpness", sharpness, 0.0)
    points = whole_number("points", points, 1)

    def attended(mechanism: str) -> tuple[float, float, float]:
        """Sharpness, error and standard error."""

        def at(k: float) -> tuple[float, float]:
            return known_signal_error(task, mechanism, k, activation, points)

        if k is not None:
            return k, *at(k)
        # From about 30 on attention is hard max.
        grid = np.log([0.1, 0.25, 0.6, 1.0, 1.5, 2.25, 3.4, 5.0, 8.0, 16.0, 60.0])
        best = math.exp(least_on_grid(lambda log_k: at(math.exp(log_k))[0], grid, 0.02)[0])
        return best, *at(best)

    k_attention, attention, e_attention = attended("attention")
    k_elementwise, elementwise, e_elementwise = attended("elementwise")
    bayes, e_bayes = bayes_error(task, points=points)
    pooled = pooled_error(task)
    return Oracle(
        pooled=pooled,
        vectorized=pooled,
        hardmax=hardmax_error(task),
        attention=attention,
        elementwise=elementwise,
        bayes=bayes,
        attention_sharpness=k_attention,
        elementwise_sharpness=k_elementwise,
        errors={"attention": e_attention, "elementwise": e_elementwise, "bayes": e_bayes},
    )


def strength_needed(task: Task, target_error: float, error: Callable[[Task], float]) -> float:
    """The strength theta at which a falling error meets the target, to one part in ten thousand; inf where none to 10^4 does.

    Parameters
    ----------
    task : Task
        All fields but the strength are kept; the search begins at its strength. Strengths that differ between bags move in
        proportion, and what is found is their mean.
    target_error : float
        Between 0 and the error of always predicting the more frequent class.
    error : callable
        Task -> error, falling with the strength.
    """
    real_number("target_error", target_error, 0.0, min(task.prevalence, 1 - task.prevalence), open_low=True)

    def gap(theta):
        return error(task.at_strength(theta)) - target_error

    # At 1e-6 every error is that of guessing, to nine digits.
    status, theta = falling_root(gap, task.mean_strength or 1.0, 1e-6, 1e4, precision=1e-4)
    if status == ALWAYS:
        raise ValueError(
            f"error is {target_error:g} or less at every strength from {theta:g} on, so no strength is needed"
        )
    return float("inf") if status == BEYOND else theta
