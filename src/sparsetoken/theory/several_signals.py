"""The two gradient steps where positive bags carry one or more of several signals.

A positive bag has n_j of its R signal tokens with signal xi_j. With Xi the matrix whose rows are the signals, D(n) =
diag(n) - n n^T/L, averages over the positive bags' contents n, and everything else as in `theory.alignment`:

    w1 = A + noise of variance s^2,   A = -eta_w pi c_+ (theta/L) Xi^T E[n],   s^2 = eta_w^2 E[c^2]/(alpha0 L)
    u+ = (theta/L) <n, g> - eta_w c_+/(alpha0 L) + b1 + ||w1|| G/sqrt(L),      g = Xi A
    B = pi theta^2 Xi^T E[h+ D(n)] g + (L - 1) E[h] A
    N = ((L - 1) E[h])^2 s^2 + [(L - 1) ||w1||^2 E[h^2] + pi theta^2 E[h+^2 <g, D(n) g>]]/alpha0
    q2 = -(eta_q beta/L) (B + noise of variance N)

because deviations of a bag's tokens from their mean are independent of the mean, hence of h. One signal gives
`theory.alignment`. From a zero start all heads point to the same mixture B of the signals.

Eq. (18) of docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..laws.heads import HeadsLaw, heads_law
from ..laws.signals import Signals
from ..results import NOT_PLAIN, TwoSteps, cosine_of
from ..task import Task
from ..training import Training
from .step_formulas import first_slopes, residual_moments, second_bias


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalsAlignment(TwoSteps):
    """What the two gradient steps give with several signals, in the limit.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`, the overlaps and cosines with signal j under "w:j" and "q:j" (j from 1).
    along : ndarray (dimension,)
        beta q2 in the space of the signals.
    across : float
        The length of beta q2 outside it.
    """

    along: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    across: float = field(compare=False, metadata=NOT_PLAIN)

    def law(self, task: Task, signals: Signals, heads: int = 1, sharpness: float | None = None) -> HeadsLaw:
        """The law of `heads` heads with such queries, each from separate data.

        Parameters
        ----------
        task : Task
            The bags.
        signals : Signals
            The signals, those of the steps.
        heads : int
            H. Their queries share the part in the space of the signals and are orthogonal off it.
        sharpness : float, optional
            k = beta ||q|| instead of the trained one.
        """
        trained = sharpness is None or sharpness == self.sharpness  # a query that vanishes has no other sharpness
        scale = 1.0 if trained else sharpness / self.sharpness  # type: ignore[operator]
        queries = scale * np.hstack([np.tile(self.along, (heads, 1)), self.across * np.eye(heads)])
        directions = np.hstack([signals.directions, np.zeros((len(signals), heads))])
        return heads_law(task, queries=queries, signals=directions, shares=signals.shares, carried=signals.carried)


def signals_alignment(
    task: Task, training: Training, signals: Any, shares: Any = None, carried: str = "one"
) -> SignalsAlignment:
    """Readout, bias and query after the two gradient steps on bags with several signals.

    Eq. (18) of docs/theory.md.

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence of its bags, which are all alike otherwise.
    training : Training
        alpha0, the three rates, beta and the loss.
    signals, shares, carried
        As in `Signals.of`.
    """
    checked = Signals.of(signals, shares, carried)
    training.require_steps("several signals")
    task.require_plain("several signals")
    L, R, theta, _ = task.only_kind("several signals")
    checked.check(R)
    loss, t, pi = training.loss_function, training, task.prevalence
    Xi = checked.directions
    cases = list(checked.contents(R))
    # Groups of bags: one for each content of the positive ones (rows n), and the negative ones (n = 0).
    n = np.array([*(content for content, _ in cases), np.zeros(len(checked))], dtype=float)
    p = np.array([*(pi * share for _, share in cases), 1 - pi])
    labels = np.append(np.ones(len(cases)), -1.0)
    c = first_slopes(loss, t.eta_b, labels, p)
    A = -t.eta_w * theta / L * ((p * c) @ n @ Xi)
    s2 = t.eta_w**2 * float(p @ c**2) / (t.alpha0 * L)
    g, norm_w = Xi @ A, float(np.sqrt(A @ A + s2))
    means, spreads = theta / L * (n @ g) - t.eta_w / (t.alpha0 * L) * c, np.full(len(p), norm_w / np.sqrt(L))
    b1 = float(second_bias(loss, t.eta_b, c, labels, p, means, spreads))
    h, hh = residual_moments(loss, labels, means + b1, spreads)
    bent = theta**2 * (n * g - n * (n @ g)[:, None] / L)  # theta^2 D(n) g
    mean = (L - 1) * float(p @ h)
    B = (p * h) @ bent @ Xi + mean * A
    N = mean**2 * s2 + ((L - 1) * norm_w**2 * float(p @ hh) + float((p * hh) @ bent @ g)) / t.alpha0
    scale = -t.eta_q * t.beta / L
    query, across = scale * B, abs(scale) * float(np.sqrt(N))
    norm_q = float(np.sqrt(query @ query + across**2))
    overlaps = {"w": g, "q": Xi @ query}
    named = {f"{name}:{j + 1}": float(v) for name, values in overlaps.items() for j, v in enumerate(values)}
    norms = {"w": norm_w, "q": norm_q}
    return SignalsAlignment(
        overlap=named,
        cosine={name: cosine_of(value, norms[name[0]]) for name, value in named.items()},
        norm=norms,
        bias=b1,
        sharpness=float(t.beta * norm_q),
        along=t.beta * query,
        across=t.beta * across,
    )
