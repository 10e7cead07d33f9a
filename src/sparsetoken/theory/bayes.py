"""What is possible when the direction is unknown and n = alpha d bags are given: the information-theoretic limit.

The positive bags' tokens form a rank-one spiked matrix with a block prior. In the limit the best estimate of xi has squared
cosine m with it, a fixed point of

    m = x/(1 + x),   x = alpha pi theta^2 M(theta^2 m),

where M(s) = E[sum_l v_l E[v_l | sqrt(s) v + noise]] under the prior "exactly R ones among L". Iteration from m = 0 ends at the
lowest fixed point, which message passing reaches; the optimum is the fixed point with the smallest

    i(m) = log(1 + x)/2 + alpha pi I(theta^2 m) + (alpha pi theta^2/2)(1 - m)(R - M),   I' = (R - M)/2.

Where they differ the problem is hard: solvable in principle, by no known fast method in between.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from .._core.validation import real_number
from ..laws.draws import EXPLICIT_TOKENS, token_draws
from ..laws.subsets import log_means_up_to
from ..task import Task
from .known_signal import bayes_error, log_sum_exp, points_for_every_token

_CHEBYSHEV_NODES = 33
HARD_GAP = 1e-3  # difference of squared cosines from which a phase counts as hard


@dataclass(frozen=True)
class BayesLimit:
    """The limits at alpha = n/d bags.

    overlap, test_error                      squared cosine and error of the best possible learner
    reachable_overlap, reachable_test_error  of message passing, the best known fast one
    hard                                     whether they differ
    errors                                   standard errors of the four numbers
    """

    overlap: float
    test_error: float
    reachable_overlap: float
    reachable_test_error: float
    hard: bool
    errors: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def signal_mass(length: int, sparsity: int, root: float, points: int) -> np.ndarray:
    """M(s) at s = root^2 for each replicate: the posterior mass on the true places, given sqrt(s) v + noise."""
    R, L = sparsity, length
    every = R > 1 and L - R > EXPLICIT_TOKENS
    draws = token_draws(L, R, points, every)
    if root == 0:
        return np.full(len(draws.signal), R * R / L)
    if R == 1:
        signal = draws.signal + root
        return np.exp(root * signal[..., 0] - log_sum_exp(draws, signal, root)).mean(1)
    if R == L:
        return np.full(len(draws.signal), float(R))
    # One signal token against the rest: P(v_1 = 1) = R x_1 e_{R-1}/(R x_1 e_{R-1} + (L - R) e_R), with e_r the averages
    # over r-subsets of the other L - 1 tokens.
    signal = draws.signal + root
    others = np.concatenate([signal[..., 1:], draws.noise], axis=-1)
    means = log_means_up_to(root * others, R)
    gain = np.log(R) + root * signal[..., 0] + means[..., R - 1]
    against = np.log(L - R) + means[..., R]
    return R * np.exp(gain - np.logaddexp(gain, against)).mean(1)


@lru_cache(maxsize=32)
def _mass_table(length: int, sparsity: int, highest: float, points: int) -> np.ndarray:
    """Chebyshev coefficients (nodes, replicates) of M as a function of the root of s on [0, highest]."""
    nodes = 0.5 * highest * (1 + np.cos(np.pi * (np.arange(_CHEBYSHEV_NODES) + 0.5) / _CHEBYSHEV_NODES))
    values = np.stack([signal_mass(length, sparsity, float(u), points) for u in nodes])
    return chebyshev.chebfit(2 * nodes / highest - 1, values, _CHEBYSHEV_NODES - 1)


def _points(task: Task) -> int:
    heavy = task.sparsity > 1 and task.length - task.sparsity > EXPLICIT_TOKENS
    if heavy:
        return points_for_every_token(task.length, 256, 2048)
    return 4096 if task.length <= 64 and task.sparsity == 1 else 2048 if task.length <= 64 else 512


def _fixed_points(task: Task, alpha: float, table: np.ndarray, highest: float):
    """Stable fixed points m of the pooled table in rising order, each with its free energy i(m)."""
    R, theta, pi = task.sparsity, task.strength, task.prevalence
    pooled = table.mean(1)
    mass = lambda m: chebyshev.chebval(2 * theta * np.sqrt(m) / highest - 1, pooled)  # noqa: E731
    m = np.linspace(0.0, 1.0, 4001) ** 2  # dense near zero, where weak fixed points sit
    x = alpha * pi * theta**2 * mass(m)
    gap = x / (1 + x) - m
    crossings = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    u = theta * np.sqrt(m)
    deficit = R - mass(m)
    information = np.concatenate([[0.0], np.cumsum(0.5 * (deficit[1:] * u[1:] + deficit[:-1] * u[:-1]) * np.diff(u))])
    found = []
    for c in crossings:
        root = m[c] + (m[c + 1] - m[c]) * gap[c] / (gap[c] - gap[c + 1])
        for _ in range(50):  # polish by the (stable) iteration itself
            x_root = alpha * pi * theta**2 * mass(root)
            root = x_root / (1 + x_root)
        x_root = alpha * pi * theta**2 * mass(root)
        energy = 0.5 * np.log1p(x_root) + alpha * pi * np.interp(theta * np.sqrt(root), u, information)
        energy += 0.5 * alpha * pi * theta**2 * (1 - root) * (R - mass(root))
        found.append((float(root), float(energy)))
    return found


def _overlap_error(task: Task, alpha: float, table: np.ndarray, highest: float, m: float) -> float:
    """Standard error of a fixed point: the replicates' maps differ by delta there, their roots by delta/(1 - slope)."""
    theta, pi = task.strength, task.prevalence

    def image(m):
        x = alpha * pi * theta**2 * chebyshev.chebval(2 * theta * np.sqrt(m) / highest - 1, table)
        return x / (1 + x)

    h = 1e-4 * max(m * (1 - m), 1e-6)
    slope = float((image(m + h) - image(m - h)).mean() / (2 * h))
    return float(np.std(image(m), ddof=1) / np.sqrt(table.shape[1]) / max(1 - slope, 1e-3))


def bayes_limit(task: Task, alpha: float) -> BayesLimit:
    """Best possible and best reachable overlap and test error at alpha = n/d bags; see `BayesLimit`."""
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    pi, theta = task.prevalence, task.strength
    if theta == 0:
        e = min(pi, 1 - pi)
        return BayesLimit(0.0, e, 0.0, e, False, dict.fromkeys(_NAMES, 0.0))
    points = _points(task)
    table = _mass_table(task.length, task.sparsity, theta, points)
    found = _fixed_points(task, alpha, table, theta)
    reachable = found[0][0]
    best = min(found, key=lambda pair: pair[1])[0]
    hard = best - reachable > HARD_GAP
    if not hard:
        best = reachable
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    for prefix, m in (("", best), ("reachable_", reachable)):
        if prefix and not hard:
            values[f"{prefix}overlap"], values[f"{prefix}test_error"] = values["overlap"], values["test_error"]
            errors[f"{prefix}overlap"], errors[f"{prefix}test_error"] = errors["overlap"], errors["test_error"]
            continue
        error, sampling = bayes_error(task, theta * m**0.5)
        m_error = _overlap_error(task, alpha, table, theta, m)
        h = 0.02 * m
        drift = (
            bayes_error(task, theta * min(1.0, m + h) ** 0.5)[0] - bayes_error(task, theta * (m - h) ** 0.5)[0]
        ) / (min(1.0, m + h) - (m - h))
        values[f"{prefix}overlap"], errors[f"{prefix}overlap"] = m, m_error
        values[f"{prefix}test_error"] = error
        errors[f"{prefix}test_error"] = float(np.hypot(sampling, drift * m_error))
    return BayesLimit(**values, hard=bool(hard), errors=errors)


_NAMES = ("overlap", "test_error", "reachable_overlap", "reachable_test_error")
