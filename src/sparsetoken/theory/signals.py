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
from .alignment import FIELD_NODES, FIELD_WEIGHTS


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
        """The law of `heads` heads with such queries, each from data of its own.

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

        Returns
        -------
        HeadsLaw
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

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence of its bags, which are all alike otherwise.
    training : Training
        alpha0, the three rates, beta and the loss.
    signals : Signals, int or array (J, dimension)
        The signals, as `laws.signals.Signals.of` takes them.
    shares : array (J,), optional
        How often each is carried.
    carried : {"one", "independent", "all"}
        Which ones a positive bag carries.

    Returns
    -------
    SignalsAlignment
    """
    given = Signals.of(signals, shares, carried)
    task.require_plain("several signals")
    L, R, theta, _ = task.only_kind("several signals")
    given.check(R)
    loss, t, pi = training.loss_function, training, task.prevalence
    Xi = given.directions
    cases = list(given.contents(R))
    c_plus, c_minus = float(loss.slope(np.zeros(()), 1.0)), float(loss.slope(np.zeros(()), -1.0))
    mean_content = sum(p * n for n, p in cases)
    A = -t.eta_w * pi * c_plus * theta / L * (mean_content @ Xi)
    s2 = t.eta_w**2 * (pi * c_plus**2 + (1 - pi) * c_minus**2) / (t.alpha0 * L)
    b1 = -t.eta_b * (pi * c_plus + (1 - pi) * c_minus)
    g, norm_w = Xi @ A, float(np.sqrt(A @ A + s2))
    pull, spread = t.eta_w / (t.alpha0 * L), norm_w / np.sqrt(L)

    def moments(mean: float, label: float) -> tuple[float, float]:
        """E[h] and E[h^2] for fields of that mean."""
        h = loss.slope(mean + spread * FIELD_NODES, label * np.ones_like(FIELD_NODES))
        return float(FIELD_WEIGHTS @ h), float(FIELD_WEIGHTS @ h**2)

    h_minus, hh_minus = moments(-pull * c_minus + b1, -1.0)
    h, hh = (1 - pi) * h_minus, (1 - pi) * hh_minus
    attracted, scatter = np.zeros(len(given)), 0.0
    for n, p in cases:
        first, second = moments(theta / L * float(n @ g) - pull * c_plus + b1, 1.0)
        bent = n * g - n * (n @ g) / L  # D(n) g
        h, hh = h + pi * p * first, hh + pi * p * second
        attracted += pi * p * first * theta**2 * bent
        scatter += pi * p * second * theta**2 * float(g @ bent)
    B = attracted @ Xi + (L - 1) * h * A
    N = ((L - 1) * h) ** 2 * s2 + ((L - 1) * norm_w**2 * hh + scatter) / t.alpha0
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
