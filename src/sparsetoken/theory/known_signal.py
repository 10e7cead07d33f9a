"""What is possible when the signal's direction xi is known: the representation's own limit.

Each classifier reduces a bag to one statistic of the tokens' coordinates t_l along xi and thresholds it at the best place:
pooled and vectorized (the sum), hard max (the largest), attention (T = sum p_l t_l at sharpness k), elementwise attention,
and the likelihood ratio (Bayes), which nobody beats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, log_ndtr, ndtr

from .._core.replicates import standard_error
from .._core.rootfind import ALWAYS, BEYOND, falling_root
from .._core.validation import real_number
from ..laws.law import Law, attention_law, elementwise_law
from ..laws.nodes import Population
from ..task import Task
from .signal_places import log_likelihood_ratios as subset_log_ratios

POINTS = 1024  # draws per replicate and class: standard errors of about 2e-5 on errors of a few percent
SHARPEST = 60.0  # of the search for the best sharpness; from about 30 on attention is hard max
_WEAKEST = 1e-6  # strength below which every error is that of guessing, to nine digits


@dataclass(frozen=True)
class Oracle:
    """Test errors when the signal direction xi is known, each at its best threshold.

    Attributes
    ----------
    pooled : float
        Error of thresholding the sum of the tokens' coordinates along xi, in closed form.
    vectorized : float
        The same as `pooled`: without knowledge of the places, all tokens count alike.
    hardmax : float
        Error of thresholding the largest coordinate, from its distribution functions.
    attention : float
        Error of softmax attention with query xi at `attention_sharpness`, by sampling.
    elementwise : float
        Error of elementwise attention with query xi at `elementwise_sharpness`, by sampling.
    bayes : float
        Error of the likelihood ratio, which no rule beats, by sampling.
    attention_sharpness : float
        The sharpness k of attention: the given one, or the best.
    elementwise_sharpness : float
        The sharpness k of elementwise attention: the given one, or the best.
    errors : dict of float
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
    errors: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def pooled_error(task: Task) -> float:
    """Sum of the tokens: two normals of unit variance, theta R/sqrt(L) apart, with the best threshold."""
    gap = task.strength * task.sparsity / task.length**0.5
    pi = task.prevalence
    if gap == 0:
        return min(pi, 1 - pi)
    threshold = gap / 2 + np.log((1 - pi) / pi) / gap
    return float(pi * ndtr(threshold - gap) + (1 - pi) * ndtr(-threshold))


def hardmax_error(task: Task) -> float:
    """Largest token: distribution functions Phi(x)^L and Phi(x)^(L-R) Phi(x-theta)^R, with the best threshold."""
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence

    def error(b):
        below_negative = L * log_ndtr(b)
        below_positive = (L - R) * log_ndtr(b) + R * log_ndtr(b - theta)
        return pi * np.exp(below_positive) - (1 - pi) * np.expm1(below_negative)

    grid = np.linspace(-6.0, 12.0 + theta, 4001)
    best = grid[np.argmin(error(grid))]
    step = grid[1] - grid[0]
    result = minimize_scalar(error, bounds=(best - step, best + step), method="bounded", options={"xatol": 1e-12})
    return float(min(result.fun, pi, 1 - pi))


def threshold_error(positive: np.ndarray, negative: np.ndarray, prevalence: float) -> tuple[float, float]:
    """Error of thresholding a drawn statistic (replicates, draws) at the best place, and its standard error.

    The threshold is chosen on all draws; ties with saying one class always are allowed.
    """
    pi = prevalence
    both = np.concatenate([positive.ravel(), negative.ravel()])
    jump = np.concatenate(
        [np.full(positive.size, pi / positive.size), np.full(negative.size, -(1 - pi) / negative.size)]
    )
    order = np.argsort(both)
    curve = (1 - pi) + np.cumsum(jump[order])  # error of "positive above" as the threshold passes each draw
    at = int(np.argmin(curve))
    trivial = min(pi, 1 - pi)
    if curve[at] >= trivial:
        return trivial, 0.0
    threshold = both[order][at]
    each = pi * (positive <= threshold).mean(1) + (1 - pi) * (negative > threshold).mean(1)
    return float(each.mean()), standard_error(each, alone=0.0)


def _law_error(law: Law, points: int) -> tuple[float, float]:
    population: Population = law.make_population(points)
    shape = lambda c: np.broadcast_to(c.T, c.T.shape)  # noqa: E731
    return threshold_error(shape(population.positive), shape(population.negative), law.prevalence)


def known_signal_error(
    task: Task, mechanism: str, sharpness: float, activation: Any = "sigmoid", points: int = POINTS
) -> tuple[float, float]:
    """Error of "attention" or "elementwise" with query xi at a sharpness k, and its standard error."""
    if mechanism == "attention" and (sharpness == 0 or task.length == 1):
        return pooled_error(task), 0.0
    law = (
        attention_law(task, 1.0, sharpness)
        if mechanism == "attention"
        else elementwise_law(task, 1.0, sharpness, activation)
    )
    return _law_error(law, points)


def best_sharpness(
    task: Task, mechanism: str, activation: Any = "sigmoid", points: int = POINTS
) -> tuple[float, float, float]:
    """The k that minimises the known-signal error on a logarithmic scale up to 60: (k, error, standard error)."""
    error = lambda log_k: known_signal_error(task, mechanism, float(np.exp(log_k)), activation, points)[0]  # noqa: E731
    grid = np.log([0.1, 0.25, 0.6, 1.0, 1.5, 2.25, 3.4, 5.0, 8.0, 16.0, SHARPEST])
    values = [error(g) for g in grid]
    i = int(np.argmin(values))
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    result = minimize_scalar(error, bounds=(low, high), method="bounded", options={"xatol": 0.02, "maxiter": 14})
    k = float(np.exp(result.x if result.fun < values[i] else grid[i]))
    return (k, *known_signal_error(task, mechanism, k, activation, points))


def log_likelihood_ratios(task: Task, strength: float, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """log of the average over R-subsets of exp(theta sum t_l - R theta^2/2), for drawn positives and negatives.

    Parameters
    ----------
    task : Task
        Gives L and R.
    strength : float
        theta.
    points : int
        Bags per replicate and class.

    Returns
    -------
    tuple of ndarray of shape (replicates, bags)
        Of positive and of negative bags.
    """
    positive, negative = (
        subset_log_ratios(task.length, task.sparsity, (strength,), shift, points)[0] for shift in (strength, 0.0)
    )
    return positive, negative


def bayes_error(task: Task, strength: float | None = None, points: int = POINTS) -> tuple[float, float]:
    """Test error of the likelihood ratio test at known direction, and its standard error.

    It is E[min(pi LR, 1 - pi)] over negative bags, LR the likelihood ratio. Bags are drawn in equal parts from three
    strengths, 0, theta and one between them at which the test is in doubt, each weighed by its density in the mixture: so
    that tails of 10^-9 and below are met by as many draws as errors of a tenth.

    Parameters
    ----------
    task : Task
        Gives L, R and the prevalence, and the strength where none is given.
    strength : float, optional
        theta, or theta sqrt(m) where the direction is known up to a squared cosine m.
    points : int
        Bags per replicate and part.

    Returns
    -------
    tuple of float
        The error and its standard error (0 where it is a closed form).
    """
    theta = task.strength if strength is None else float(strength)
    L, R, pi = task.length, task.sparsity, task.prevalence
    trivial = min(pi, 1 - pi)
    if theta == 0:
        return trivial, 0.0
    if R == L:
        return pooled_error(task.but(strength=theta)), 0.0
    log_subsets = gammaln(L + 1) - gammaln(R + 1) - gammaln(L - R + 1)
    doubt = theta / 2 + (log_subsets + np.log((1 - pi) / pi)) / (R * theta)
    between = float(np.clip(doubt, 0.2 * theta, 0.8 * theta))
    each = np.zeros(1)
    for shift in (theta, between, 0.0):
        log_ratio, log_between = subset_log_ratios(L, R, (theta, between), shift, points)
        mixture = np.logaddexp(np.logaddexp(log_ratio, log_between), 0.0)
        each = each + np.exp(np.minimum(np.log(pi) + log_ratio, np.log1p(-pi)) - mixture).mean(1)
    return float(min(each.mean(), trivial)), standard_error(each, alone=0.0)


def oracle(task: Task, sharpness: float | None = None, *, activation: Any = "sigmoid", points: int = POINTS) -> Oracle:
    """Test errors of every classifier when the signal direction xi is known, each at its best threshold.

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

    Returns
    -------
    Oracle
        The errors, the sharpnesses and the standard errors.

    Raises
    ------
    ValueError
        If the sharpness is negative, or there is no such activation.
    """
    if sharpness is not None:
        real_number("sharpness", sharpness, 0.0)
        k_attention = k_elementwise = float(sharpness)
        attention, e_attention = known_signal_error(task, "attention", k_attention, points=points)
        elementwise, e_elementwise = known_signal_error(task, "elementwise", k_elementwise, activation, points)
    else:
        k_attention, attention, e_attention = best_sharpness(task, "attention", points=points)
        k_elementwise, elementwise, e_elementwise = best_sharpness(task, "elementwise", activation, points)
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


def strength_needed(task: Task, target_error: float, error: Callable[[Task], float], highest: float = 1e4) -> float:
    """The strength theta at which a falling error meets the target, to one part in ten thousand.

    Parameters
    ----------
    task : Task
        All fields but the strength are kept; the search begins at its strength.
    target_error : float
        Between 0 and the error of saying one class always.
    error : callable
        Task -> error, falling with the strength.
    highest : float
        The largest strength searched.

    Returns
    -------
    float
        The strength; inf where the target is not met up to `highest`.

    Raises
    ------
    ValueError
        If the target lies outside its range, or is met at every strength: then `error` is not one of this task.
    """
    real_number("target_error", target_error, 0.0, min(task.prevalence, 1 - task.prevalence), open_low=True)
    gap = lambda theta: error(task.but(strength=theta)) - target_error  # noqa: E731
    status, theta = falling_root(gap, task.strength or 1.0, _WEAKEST, highest, precision=1e-4)
    if status == ALWAYS:
        raise ValueError(
            f"error is {target_error:g} or less at every strength from {theta:g} on, so no strength is needed"
        )
    return float("inf") if status == BEYOND else theta
