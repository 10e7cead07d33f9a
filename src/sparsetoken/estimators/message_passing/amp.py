"""Approximate message passing for the signal direction, on the tokens A of the positive bags (unit noise).

    B_x = (theta/sqrt d) A^T vhat - (theta^2/d) (sum var_v) xhat_old
    xhat = B_x / (1 + theta^2 |vhat|^2/d),   var_x = 1/(1 + theta^2 |vhat|^2/d)
    B_v = (theta/sqrt d) A xhat - theta^2 var_x vhat_old
    vhat, var_v = posterior mean and variance of v under its prior, with evidence B_v - theta^2 |xhat|^2/(2d)

from vhat = expected share of signal tokens. The subtracted terms make B_v the field of a bag *without its own
contribution* to xhat: on training bags it has the law it would have on fresh ones. That is what allows strength and
sparsity to be judged on the training bags themselves. A bag of weight k counts as k copies of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..._core.arrays import namespace
from ...bags.segments import lengths_of
from ..power_iteration import largest_eigenvalue
from .noise import WhitenedTokens
from .witness_prior import ExactCount, IndependentRate

Prior = ExactCount | IndependentRate

TOLERANCE = 1e-4  # of the relative change of xhat
SMALLEST = 1e-100  # an estimate this short has vanished
LARGEST = 1e100  # evidence beyond this is cut off: sums over a bag stay finite
STRENGTH_TOLERANCE = 3e-3  # relative; a tenth of the strength's own standard error on a thousand bags
STRENGTHS = (0.05, 30.0)  # from invisible to beyond doubt
# Variance of the signal tokens along their widest direction, in units of noise's, above which one direction does not describe
# them. On data drawn from the model it is 0.9 to 1.0 (d = 50 to 300, theta = 3 and 5), on musk1 3, on digit bags 5 to 90.
ONE_DIRECTION = 2.0


@dataclass(frozen=True)
class MessageState:
    """Where message passing has arrived.

    Attributes
    ----------
    signal : ndarray
        xhat / sqrt(d): the estimate of xi, its squared length estimating the squared cosine m.
    fields : array
        Token fields of the positive bags, each without its own contribution, in units of unit noise.
    share : array
        Posterior signal probabilities of the positive bags' tokens.
    iterations : int
        Iterations spent.
    converged : bool
        Whether the last one changed xhat by no more than the tolerance.
    """

    signal: np.ndarray
    fields: Any
    share: Any
    iterations: int
    converged: bool

    @property
    def overlap(self) -> float:
        """m = |xhat|^2 / d."""
        return float(self.signal @ self.signal)


def pass_messages(
    tokens: Any,
    starts: np.ndarray,
    weights: np.ndarray,
    strength: float,
    prior: Prior,
    share: Any = None,
    iterations: int = 50,
) -> MessageState:
    """Iterate the equations at the module's head to their fixed point (halving the step where they oscillate).

    Parameters
    ----------
    tokens : array of shape (tokens, d), or WhitenedTokens
        Tokens of the positive bags, their noise white.
    starts : ndarray
        First row of each bag.
    weights : ndarray
        One weight per bag. A bag of weight zero has no part in the estimate, and the fields of a bag that was never seen.
    strength : float
        theta.
    prior : ExactCount or IndependentRate
        Which tokens carry the signal.
    share : array, optional
        Posterior signal probabilities to start from; the prior's otherwise.
    iterations : int
        The most iterations.

    Returns
    -------
    MessageState
        Where they arrived.
    """
    d = tokens.shape[1]
    dtype = tokens.dtype
    xp = namespace(tokens.tokens if isinstance(tokens, WhitenedTokens) else tokens)
    lengths = lengths_of(starts, len(tokens))
    theta, scale = strength, strength / np.sqrt(d)
    copies = xp.asarray(np.repeat(weights, lengths))
    v = xp.asarray(np.repeat(prior.expected_share(lengths), lengths) if share is None else share)
    x = np.zeros(d)
    damping, last, converged, count = 1.0, np.inf, False, 0
    for count in range(1, iterations + 1):
        precision = 1.0 + theta**2 * float(copies @ (v * v)) / d
        spread = float(copies @ (v * (1.0 - v)))
        target = (
            scale * np.asarray((copies * v).astype(dtype) @ tokens, dtype=np.float64) - theta**2 / d * spread * x
        ) / precision
        fresh = target if count == 1 else damping * target + (1.0 - damping) * x
        size = float(np.linalg.norm(target))
        change = float(np.linalg.norm(target - x)) / size if size > SMALLEST else 0.0
        if change > last:
            damping = max(0.5 * damping, 0.05)
        last, x = change, fresh
        squared = float(x @ x) / d
        field = scale * (tokens @ x.astype(dtype)).astype(np.float64) - theta**2 / precision * copies * v
        v_new = prior.marginals(field - 0.5 * theta**2 * squared, starts)
        v = xp.asarray(v_new) if damping == 1.0 else damping * v_new + (1.0 - damping) * v
        if change <= TOLERANCE:
            converged = True
            break
    length = np.sqrt(squared)
    # Along an estimate that has vanished (all tokens are alike) nothing is known of any token.
    fields = field / (theta * length) if length > SMALLEST else xp.zeros_like(field)
    return MessageState(x / np.sqrt(d), fields, v, count, converged)


@dataclass(frozen=True)
class Effort:
    """How long to iterate.

    Attributes
    ----------
    rounds : int
        Of strength and messages.
    iterations : int
        Of the messages in each round.
    """

    rounds: int
    iterations: int


SEARCH, FINAL = Effort(3, 12), Effort(8, 50)  # to compare priors, and to settle the chosen one


@dataclass(frozen=True)
class Fit:
    """A fit of the model.

    Attributes
    ----------
    strength : float
        theta.
    prior : ExactCount or IndependentRate
        Which tokens carry the signal.
    passed : MessageState
        The messages that go with them.
    loss : float
        The labels' mean logistic loss on the fields.
    """

    strength: float
    prior: Prior
    passed: MessageState
    loss: float

    def ratios(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """Log likelihood ratios of bags that the fit has not seen, their noise white."""
        evidence = token_evidence(tokens, self.passed.signal, self.strength)
        return np.asarray(self.prior.posterior(evidence, starts)[0])


def token_evidence(tokens: Any, signal: np.ndarray, strength: float) -> Any:
    """Log likelihood ratio "signal against noise" of single tokens: theta <x, s> - theta^2 |s|^2 / 2.

    Parameters
    ----------
    tokens : array of shape (tokens, d)
        Tokens whose noise is white.
    signal : ndarray
        s, the estimate of xi, its squared length being the expected squared cosine.
    strength : float
        theta.

    Returns
    -------
    array of shape (tokens,)
        In double precision.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # tokens that nobody scaled may be of any size
        fields = (tokens @ signal.astype(tokens.dtype)).astype(np.float64)
    return evidence_of_fields(fields, signal, strength)


def evidence_of_fields(fields: Any, signal: np.ndarray, strength: float) -> Any:
    """`token_evidence` of tokens whose fields <x, s> are known already."""
    evidence = strength * fields - 0.5 * strength**2 * float(signal @ signal)
    return namespace(evidence).nan_to_num(namespace(evidence).clip(evidence, -LARGEST, LARGEST), nan=0.0)


def training_ratios(
    positive_starts: np.ndarray, noise_tokens: Any, noise_starts: np.ndarray, fit: Fit
) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihood ratios of the positive training bags (own contribution removed) and of the negative ones.

    Parameters
    ----------
    positive_starts : ndarray
        First row of each positive bag among the fit's fields.
    noise_tokens : array of shape (tokens, d)
        Tokens of the negative bags, their noise white.
    noise_starts : ndarray
        First row of each negative bag.
    fit : Fit
        The fit.

    Returns
    -------
    tuple of ndarrays
        One ratio per positive bag, and one per negative bag.
    """
    effective = fit.strength * np.sqrt(fit.passed.overlap)
    positive, _ = fit.prior.posterior(effective * fit.passed.fields - 0.5 * effective**2, positive_starts)
    return np.asarray(positive), fit.ratios(noise_tokens, noise_starts)


def fit_strength(
    tokens: Any,
    starts: np.ndarray,
    weights: np.ndarray,
    prior: Prior,
    first: float,
    fixed: bool,
    learn_rate: bool,
    effort: Effort,
) -> tuple[float, Prior, MessageState]:
    """Alternate messages at the current strength with the strength (and rate) that makes the fields likeliest.

    The fields of signal tokens are N(mu, 1), mu = theta sqrt(m), those of noise tokens N(0, 1): mu maximises the
    positive bags' mean log likelihood ratio, and theta = mu / sqrt(m) with m the messages' own estimate.

    Parameters
    ----------
    tokens : array of shape (tokens, d)
        Tokens of the positive bags, their noise white.
    starts : ndarray
        First row of each bag.
    weights : ndarray
        One weight per bag.
    prior : ExactCount or IndependentRate
        Which tokens carry the signal.
    first : float
        The strength to start from.
    fixed : bool
        Whether the strength stays as it is.
    learn_rate : bool
        Whether the prior's rate is learnt along.
    effort : Effort
        How long to iterate.

    Returns
    -------
    tuple
        Strength, prior and messages.
    """
    theta = first
    passed = pass_messages(tokens, starts, weights, theta, prior, None, effort.iterations)
    for _ in range(0 if fixed and not learn_rate else effort.rounds):
        before = theta, prior
        if not fixed:
            here = prior
            mu = minimize_scalar(
                lambda m: -float(weights @ here.log_ratio(m * passed.fields - 0.5 * m * m, starts)),  # noqa: B023
                bounds=(0.05, 15.0),
                method="bounded",
                options={"xatol": STRENGTH_TOLERANCE},
            ).x
            theta = float(np.clip(mu / max(np.sqrt(passed.overlap), 1e-3), *STRENGTHS))
        if learn_rate:
            prior = IndependentRate(float(np.clip(passed.share.mean(), 1e-4, 1.0 - 1e-4)))
        still = abs(theta / before[0] - 1.0) < STRENGTH_TOLERANCE
        if still and (not learn_rate or abs(prior.rate / before[1].rate - 1.0) < 0.02):  # type: ignore[union-attr]
            break
        passed = pass_messages(tokens, starts, weights, theta, prior, passed.share, effort.iterations)
    return theta, prior, passed


def excess_variance(tokens: Any, share: Any) -> float:
    """Largest variance of the signal tokens about their mean, over that of as much white noise: 1 where one direction suffices.

    Parameters
    ----------
    tokens : array of shape (tokens, d)
        Tokens of the positive bags, their noise white.
    share : array
        Their posterior signal probabilities.

    Returns
    -------
    float
        Largest eigenvalue of the covariance of the tokens weighted by their shares, over (1 + sqrt(d / n))^2 with n the
        effective number of tokens, (sum share)^2 / sum share^2.
    """
    p = np.asarray(share, dtype=np.float64)
    n = float(p.sum() ** 2 / max(float(p @ p), np.finfo(float).tiny))
    p = p / max(p.sum(), np.finfo(float).tiny)
    mean = np.asarray(p.astype(tokens.dtype) @ tokens, dtype=np.float64)
    d = tokens.shape[1]

    def covariance_times(v: np.ndarray) -> np.ndarray:
        along = np.asarray(tokens @ v.astype(tokens.dtype), dtype=np.float64) - float(mean @ v)
        return np.asarray((p * along).astype(tokens.dtype) @ tokens, dtype=np.float64) - float(p @ along) * mean

    variance = largest_eigenvalue(covariance_times, d)
    return variance / (1.0 + np.sqrt(d / n)) ** 2 if 0.0 < variance < np.inf else 1.0


def mean_shift(tokens: Any, noise_tokens: Any) -> float:
    """How far the mean of the positive bags' tokens, share theta xi, lies from that of the others', its noise taken off."""
    gap = np.asarray(tokens.mean(axis=0, dtype=np.float64) - noise_tokens.mean(axis=0, dtype=np.float64))
    squared = float(gap @ gap) - tokens.shape[1] * (1.0 / len(tokens) + 1.0 / len(noise_tokens))
    return float(np.sqrt(max(squared, 0.0)))
