"""The two gradient steps with several signals, and in coloured noise.

Eq. (18) and Eq. (21) of docs/theory.md, in whose notation the code is; one signal in white noise gives `theory.alignment`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..laws.coloured import Query, Spectrum
from ..laws.heads import HeadsLaw, heads_law
from ..laws.signals import Signals
from ..losses import balancing_bias
from ..results import NOT_PLAIN, TwoSteps, cosine_of, two_steps_from
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
        """The law of `heads` heads with such queries, each from separate data, so that they are orthogonal off the signals
        (those of the steps); `sharpness` is k = beta ||q|| instead of the trained one."""
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
    task, training : Task, Training
        As in `alignment`; bags that are alike.
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


@dataclass(frozen=True, kw_only=True, repr=False)
class ColouredAlignment(TwoSteps):
    """What the two gradient steps give in coloured noise, in the limit.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`: of w1 under "w", of q2 under "q".
    query : Query
        q2's weights on the eigenvalues, for `coloured_law`.
    """

    query: Query = field(compare=False, metadata=NOT_PLAIN)


def coloured_alignment(task: Task, training: Training, spectrum: Spectrum) -> ColouredAlignment:
    """The two gradient steps on D0 in coloured noise.

    Eq. (21) of docs/theory.md. The largest eigenvalues must stay bounded as d grows. Where a few of them hold a share of
    tr Sigma^2 at any d, omega and the query fluctuate between data sets at every d, and what is given here is the query at the
    mean omega^2; `forecast` then averages over drawn queries.

    Parameters
    ----------
    task, training : Task, Training
        As in `alignment`; bags that are alike.
    spectrum : Spectrum
        Eigenvalues of Sigma and the signal's coordinates.
    """
    training.require_steps("coloured noise")
    loss, t = training.loss_function, training
    L, R, theta, _ = task.only_kind("coloured noise")
    pi = task.prevalence
    s, x, d = spectrum.eigenvalues, spectrum.signal, spectrum.dimension
    labels, p = np.array([1.0, -1.0]), np.array([pi, 1 - pi])
    c = first_slopes(loss, t.eta_b, labels, p)
    a = -t.eta_w * pi * float(c[0]) * theta * R / L
    s2 = t.eta_w**2 * float(p @ c**2) / (t.alpha0 * L)
    noise_w = s2 * s / d  # variance of w1's coordinates
    omega2 = float(a**2 * (x @ s) + noise_w @ s)
    pull = t.eta_w * s.mean() / (t.alpha0 * L)  # each sample's own weight in w1
    means, spreads = np.array([a * theta * R / L, 0.0]) - pull * c, np.full(2, np.sqrt(omega2 / L))
    b1 = float(second_bias(loss, t.eta_b, c, labels, p, means, spreads))
    each, squares = residual_moments(loss, labels, means + b1, spreads)
    (h_plus, hh_plus), h, hh = (float(each[0]), float(squares[0])), float(p @ each), float(p @ squares)
    rr = R * (1 - R / L)
    along = pi * h_plus * theta**2 * rr * a + (L - 1) * h * a * s  # coefficient of xi_j
    scatter = ((L - 1) * omega2 * hh + pi * hh_plus * theta**2 * a**2 * rr) / (t.alpha0 * d)
    scale = -t.eta_q * t.beta / L
    query = Query(scale * along * x, scale**2 * (along**2 * x + ((L - 1) * h * s) ** 2 * noise_w + scatter * s))
    norm_w = float(np.sqrt(a**2 + noise_w.sum()))
    return ColouredAlignment(**two_steps_from(a, norm_w, query.overlap, query.norm, b1, t.beta), query=query)


def noise_directions(spectrum: Spectrum) -> float:
    """(tr Sigma^2)^2/tr Sigma^4: 2 over this is the relative variance of w1^T Sigma w1 between data sets, for pure noise."""
    squares = (spectrum.eigenvalues / spectrum.eigenvalues.max()) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())


def draw_steps(
    task: Task, training: Training, spectrum: Spectrum, n0: int, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray]:
    """(w1, b1, q2) on n0 drawn bags with this share of positives, exact in law, in the eigenbasis of Sigma.

    Of a bag's tokens only what the steps depend on is drawn: the field of its mean, given their weighted sum g, and of the
    deviations from it along w1 the component e1 along the signal tokens and the squared length e2.
    """
    t, loss, xi, root = training, training.loss_function, spectrum.direction, np.sqrt(spectrum.eigenvalues)
    L, R, theta, _ = task.only_kind("coloured noise")
    positive = np.arange(n0) < round(share * n0)
    labels, equal = np.where(positive, 1.0, -1.0), np.full(n0, 1.0 / n0)
    c = first_slopes(loss, t.eta_b, labels, equal)
    size, shift = float(np.linalg.norm(c)), positive * theta * R / L

    g = root * rng.standard_normal(spectrum.dimension)
    w1 = -t.eta_w / n0 * (size * L**-0.5 * g + float(c @ shift) * xi)
    overlap, omega = float(w1 @ xi), float(np.linalg.norm(root * w1))

    noise = rng.standard_normal(n0)
    noise -= c * float(c @ noise) / size**2
    fields = (c / size * float(g @ w1) + omega * noise) * L**-0.5 + overlap * shift
    b1 = float(balancing_bias(loss, fields, labels, equal)) if isinstance(t.eta_b, str) else -t.eta_b * float(c.mean())
    if omega == 0.0 or L == 1:
        return w1, b1, np.zeros(spectrum.dimension)
    h = loss.slope(fields + b1, labels)

    e1 = rng.standard_normal(n0)
    e2 = e1**2 + 2.0 * rng.standard_gamma((L - 2) / 2.0, n0)
    spread = positive * theta * np.sqrt(R * (1.0 - R / L))
    push = overlap * spread
    along_xi = float(h @ (spread * (push + omega * e1)))
    along_w = float(h @ (push * e1 + omega * e2))
    rest = float(np.sqrt(h**2 @ (push**2 + 2.0 * omega * push * e1 + omega**2 * e2)))
    w_hat = root * w1 / omega
    across = rng.standard_normal(spectrum.dimension)
    across -= w_hat * float(w_hat @ across)
    total = along_xi * xi + root * (along_w * w_hat + rest * across)
    return w1, b1, -t.eta_q * t.beta / (n0 * L) * total
