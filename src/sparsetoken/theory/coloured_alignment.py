"""The two gradient steps in coloured noise: their limit, in the notation of Eq. (21) of docs/theory.md, and drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..laws.coloured import Query, Spectrum
from ..losses import balancing_bias
from ..results import NOT_PLAIN, TwoSteps, two_steps_from
from ..task import Task
from ..training import Training
from .two_step_formulas import first_slopes, residual_moments, second_bias


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
