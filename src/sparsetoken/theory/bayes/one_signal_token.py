"""Bags with one signal token: the error of the likelihood ratio test at known direction, Eq. (13) of docs/theory.md.

It is L times the part of the mean over bags without signal in which the first token is the largest. Given the others, with A
the sum of their x_l = exp(theta t_l) and B the largest of them, the mean over the first one is in closed form: with
C = L exp(theta^2/2) (1 - pi)/pi and t = max(B, log(C - A)/theta),

    pi (Phi(t - theta) - Phi(B - theta)) + pi A exp(-theta^2/2) (Phi(t) - Phi(B)) + L (1 - pi) Phi(-t).

A weak signal makes min(pi LR, 1 - pi) nearly a constant, and which token is the largest the main source of scatter. There the
two means that are known to be 1, of L Phi(-B) and of Phi(theta - B) + A exp(-theta^2/2) Phi(-B), serve as control variates.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from ..._core.averages import standard_error
from ...laws.bag_statistics import bulk_sums
from ...laws.draws import TokenGroup, token_draws, truncated_normal_rule


def one_token_error(length: int, strength: float, prevalence: float, points: int) -> tuple[float, float]:
    """The error of the module's text, and its standard error."""
    trivial = min(prevalence, 1 - prevalence)
    # Weak: that many noise tokens are as large as the signal token. Here, and with twice the bags, standard errors are no
    # larger than those of sampling the likelihood ratio, at L from 3 to 10^6.
    weak = length * ndtr(-strength) > 0.3
    others = token_draws(length, 1, 2 * points if weak else points).others
    largest, log_A = others.tokens[..., 0], _log_sum_exp(others, strength)
    values = _given_others(length, strength, prevalence, largest, log_A)
    if weak:
        above = ndtr(-largest)
        density = ndtr(strength - largest) + np.exp(log_A - 0.5 * strength**2) * above
        values = _controlled(values, length * above - 1.0, density - 1.0)
    each = values.mean(1)
    error = float(min(each.mean(), trivial))
    return error, math.hypot(
        standard_error(each, alone=0.0), error * _unseen(length, strength, prevalence, values.size)
    )


def _unseen(length: int, theta: float, pi: float, bags: int) -> float:
    """Share of the bags that another token decides alone, where this is so rare that no drawn bag shows it."""
    share = (length - 1) * float(ndtr(-_log_bound(length, theta, pi) / theta))
    return share if share * bags < 1 else 0.0


def _log_bound(length: int, theta: float, pi: float) -> float:
    """log C: the sum of x from which a bag counts as positive."""
    return math.log(length) + 0.5 * theta**2 + math.log1p(-pi) - math.log(pi)


def _controlled(values: np.ndarray, *controls: np.ndarray) -> np.ndarray:
    """Values less the multiple of each control, of mean zero, that leaves the least scatter."""
    centred = [(c - c.mean()).ravel() for c in controls]
    scatter = np.array([[a @ b for b in centred] for a in centred])
    slopes = np.linalg.lstsq(scatter, np.array([a @ values.ravel() for a in centred]), rcond=1e-12)[0]
    for slope, control in zip(slopes, controls):
        values = values - slope * control
    return values


def _given_others(length: int, theta: float, pi: float, largest: np.ndarray, log_A: np.ndarray) -> np.ndarray:
    """The mean over the first token where it is the largest, times L."""
    log_C = _log_bound(length, theta, pi)
    share = np.exp(np.minimum(log_A - log_C, 0.0))  # share of the bound that the other tokens use up
    with np.errstate(divide="ignore"):
        t = np.maximum(largest, (log_C + np.log1p(-share)) / theta)
    missed = ndtr(t - theta) - ndtr(largest - theta)
    # Where the others alone exceed the bound, t is the largest of them and their share does not matter.
    elsewhere = np.exp(np.minimum(log_A, log_C) - 0.5 * theta**2) * (ndtr(t) - ndtr(largest))
    return pi * (missed + elsewhere) + (length * (1 - pi)) * ndtr(-t)


def _log_sum_exp(group: TokenGroup, k: float) -> np.ndarray:
    """log sum_l exp(k t_l) over each drawn bag's tokens of a group, its bulk included."""
    scaled = k * group.tokens
    top = scaled.max(-1)
    total = top + np.log(np.exp(scaled - top[..., None]).sum(-1))
    if group.has_bulk:
        t, weights = truncated_normal_rule(group.ceiling)
        sums = bulk_sums(np.exp(k * (t - group.ceiling))[None], weights, group, np)[..., 0]
        total = np.logaddexp(total, k * group.ceiling + np.log(np.maximum(sums, 1e-300)))
    return total
