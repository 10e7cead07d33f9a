"""Bags with one signal token: the error of the likelihood ratio test at known direction.

With x_l = exp(theta t_l) the likelihood ratio of a bag is LR = sum_l x_l/(L exp(theta^2/2)), and the error is
E[min(pi LR, 1 - pi)] over bags without signal. All tokens of such a bag are alike, so that this is L times the part of the
mean in which the first token is the largest. Given the others, with A the sum of their x and B the largest of them, the mean
over the first one is in closed form: with C = L exp(theta^2/2) (1 - pi)/pi and t = max(B, log(C - A)/theta),

    pi (Phi(t - theta) - Phi(B - theta)) + pi A exp(-theta^2/2) (Phi(t) - Phi(B)) + L (1 - pi) Phi(-t).

What is left is a mean over the L - 1 others, which vary as they do in any bag: errors of 10^-9 and below come from the tails of
the first token, and none of the others has to be rare. With two tokens it is an integral over one number.

A weak signal makes min(pi LR, 1 - pi) nearly a constant, and which token is the largest the main source of scatter. There the
two means that are known to be 1, of L Phi(-B) and of Phi(theta - B) + A exp(-theta^2/2) Phi(-B), serve as control variates.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from .._core.replicates import standard_error
from ..laws.draws import token_draws
from .subset_sums import log_sum_exp

_SIGMAS = 9.5  # beyond this many deviations lies 1e-21 of the normal law
# Noise tokens per bag that are as large as the signal token from which the signal counts as weak; measured, like the number of
# bags, for standard errors no larger than those of the likelihood ratio's own draws at L from 3 to 10^6.
_LIKE_NOISE = 0.3
_WEAK_POINTS = 2
_RULE = np.polynomial.legendre.leggauss(128)  # to rounding, up to the strengths at which the error is below 1e-100


def one_token_error(length: int, strength: float, prevalence: float, points: int) -> tuple[float, float]:
    """The error of the module's text, and its standard error.

    Parameters
    ----------
    length : int
        L, at least 2.
    strength : float
        theta > 0.
    prevalence : float
        pi.
    points : int
        Bags per replicate where L > 2, twice as many where the signal is weak.

    Returns
    -------
    tuple of float
        The error, and its standard error: 0 for two tokens, where the error is exact.
    """
    trivial = min(prevalence, 1 - prevalence)
    if length == 2:
        return min(_two_tokens(strength, prevalence), trivial), 0.0
    weak = length * ndtr(-strength) > _LIKE_NOISE
    draws = token_draws(length, 1, _WEAK_POINTS * points if weak else points)
    largest, log_A = draws.noise[..., 0], log_sum_exp(draws, draws.noise[..., :0], strength)
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
    """Share of the bags in which another token alone decides, where it is so small that none of the drawn ones is such."""
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
    share = np.exp(np.minimum(log_A - log_C, 0.0))  # of the bound that the others have used up
    with np.errstate(divide="ignore"):
        t = np.maximum(largest, (log_C + np.log1p(-share)) / theta)
    missed = ndtr(t - theta) - ndtr(largest - theta)
    # Where the others alone exceed the bound, t is the largest of them and their share does not matter.
    elsewhere = np.exp(np.minimum(log_A, log_C) - 0.5 * theta**2) * (ndtr(t) - ndtr(largest))
    return pi * (missed + elsewhere) + (length * (1 - pi)) * ndtr(-t)


def _two_tokens(theta: float, pi: float) -> float:
    """The integral over the other token: a smooth part, and beyond B = log(C/2)/theta nothing but Phi(-B)."""
    bend = 0.5 * theta + (math.log1p(-pi) - math.log(pi)) / theta
    beyond = (1 - pi) * float(ndtr(-bend)) ** 2
    low, high = -_SIGMAS, min(bend, theta + _SIGMAS)
    if high <= low:
        return beyond
    nodes, weights = _RULE
    B = low + 0.5 * (high - low) * (nodes + 1)
    density = np.exp(-0.5 * B * B) * (0.5 * (high - low) / math.sqrt(2 * math.pi) * weights)
    return float(density @ _given_others(2, theta, pi, B, theta * B)) + beyond
