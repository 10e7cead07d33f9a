"""Exact asymptotics in coloured noise: the two gradient steps, and the convex readout.

The readout minimises (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d, on features
f = T a + S xi + kappa Sigma'^{1/2} z (see `laws.coloured`). Unknowns are m_a = <w, a>, m_x = <w, xi>, nu with
nu^2 = w^T Sigma' w, the bias b and the prox step V. With h = m_a T + m_x S + b + kappa nu G, r + V kappa^2 l'(r; y) = h and

    c = E[kappa^2 l''/(1 + V kappa^2 l'')],   M = (ridge + c Sigma')^{-1},   G = [[aMa, aMx], [xMa, xMx]]

    F1, F2 = (G^{-1} (m_a, m_x) + (E[T l'], E[S l'])) / D,          D = sqrt(E[kappa^2 l'^2])
    F3 = E[l'] / D
    F4 = log V - log(tr[Sigma' M]/n)
    F5 = log nu^2 - log(u^T Sigma' u + D^2 tr[(M Sigma')^2]/n),     u = -M (E[T l'] a + E[S l'] xi)

Traces and forms are sums over eigenvalues: M differs from a diagonal matrix by one rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..jax_losses import traceable
from ..laws.coloured import Query, Spectrum
from ..laws.law import Law
from ..laws.nodes import Nodes
from ..losses import Loss, get_loss
from ..task import Task
from ..training import Training
from .alignment import _field_moments
from .equations import prox_averages, quadrature


@dataclass(frozen=True, eq=False)
class ColouredAlignment:
    """What the two gradient steps give in coloured noise, in the limit.

    Attributes
    ----------
    cos_w, norm_w, bias : float
        cos(w1, xi), ||w1|| and b1.
    cos_q, norm_q, overlap_q : float
        gamma = cos(q2, xi), ||q2|| and <q2, xi>.
    query : Query
        q2's weights on the eigenvalues, for `laws.coloured.coloured_law`.
    """

    cos_w: float
    norm_w: float
    bias: float
    cos_q: float
    norm_q: float
    overlap_q: float
    query: Query


def coloured_alignment(task: Task, training: Training, spectrum: Spectrum) -> ColouredAlignment:
    """The two gradient steps on D0 in coloured noise.

    w1 = a xi + noise of covariance s^2 Sigma/d, s^2 = eta_w^2 E[c^2]/(alpha0 L). Given w1, with omega^2 = w1^T Sigma w1 the
    query is -(eta_q beta/L) times

        pi E[h+] theta^2 R(1 - R/L) a xi + (L-1) E[h] Sigma w1 + noise of covariance N Sigma/n0
        N = (L-1) omega^2 E[h^2] + pi E[h+^2] theta^2 a^2 R(1 - R/L)

    because deviations from a bag's mean are independent of the mean, hence of h. Sigma = 1 gives `theory.alignment`.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        Rates, alpha0, loss and beta.
    spectrum : Spectrum
        Eigenvalues of Sigma and the signal's weights.

    Returns
    -------
    ColouredAlignment
    """
    loss, t = training.loss_function, training
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    s, x, d = spectrum.eigenvalues, spectrum.signal, spectrum.dimension
    c_plus, c_minus = float(loss.slope(0.0, 1.0)), float(loss.slope(0.0, -1.0))
    a = -t.eta_w * pi * c_plus * theta * R / L
    s2 = t.eta_w**2 * (pi * c_plus**2 + (1 - pi) * c_minus**2) / (t.alpha0 * L)
    b1 = -t.eta_b * (pi * c_plus + (1 - pi) * c_minus)
    noise_w = s2 * s / d  # variance of w1's coordinates
    omega2 = float(a**2 * (x @ s) + noise_w @ s)
    pull = t.eta_w * s.mean() / (t.alpha0 * L)
    h_plus, h, hh_plus, hh = map(
        float,
        _field_moments(loss, pi, a * theta * R / L - pull * c_plus + b1, -pull * c_minus + b1, np.sqrt(omega2 / L)),
    )
    rr = R * (1 - R / L)
    along = pi * h_plus * theta**2 * rr * a + (L - 1) * h * a * s  # coefficient of xi_j
    scatter = ((L - 1) * omega2 * hh + pi * hh_plus * theta**2 * a**2 * rr) / (t.alpha0 * d)
    scale = -t.eta_q * t.beta / L
    square = scale**2 * (along**2 * x + ((L - 1) * h * s) ** 2 * noise_w + scatter * s)
    cross = scale * along * x
    norm_w, norm_q = float(np.sqrt(a**2 + noise_w.sum())), float(np.sqrt(square.sum()))
    overlap = float(cross.sum())
    return ColouredAlignment(
        a / norm_w if norm_w > 0 else float("nan"),
        norm_w,
        b1,
        overlap / norm_q if norm_q > 0 else float("nan"),
        norm_q,
        overlap,
        Query(cross, square),
    )


def _forms(c, ridge, s, xx, qx, qq):
    """aMa, aMx, xMx, tr[Sigma' M], tr[(Sigma' M)^2] and the forms u^T Sigma' u needs, as sums over eigenvalues.

    M = D^-1 + g D^-1 a a^T D^-1 with D = ridge + c s and g = c/(1 - c a^T D^-1 a); the denominator is
    (ridge/sigma_q^2) sum s q^2/D, which keeps its digits where ridge is small.
    """
    D = ridge + c * s
    var = (s * qq).sum()  # sigma_q^2
    aDa, aDDa, aDDDa = ((s**2 * qq / D**k).sum() / var for k in (1, 2, 3))
    aDx, aDDx = ((s * qx / D**k).sum() / jnp.sqrt(var) for k in (1, 2))
    xDx, xDDx = ((xx / D**k).sum() for k in (1, 2))
    rest = ridge * (s * qq / D).sum() / var
    g = c / rest
    aMa, aMx, xMx = aDa / rest, aDx / rest, xDx + g * aDx**2
    tr1 = (1 / D).sum() + g * aDDa
    tr2 = (1 / D**2).sum() + 2 * g * aDDDa + (g * aDDa) ** 2
    # M^2 on (a, x): M a = D^-1 a/rest, M x = D^-1 x + g aDx D^-1 a
    aMMa = aDDa / rest**2
    aMMx = (aDDx + g * aDx * aDDa) / rest
    xMMx = xDDx + 2 * g * aDx * aDDx + (g * aDx) ** 2 * aDDa
    return aMa, aMx, xMx, tr1, tr2, aMMa, aMMx, xMMx


def _moments(loss: Loss, x, nodes: Nodes, grid):
    m_a, m_x, log_nu, b, log_V = x
    mean = m_a * nodes.T + m_x * nodes.S + b
    deviation = jnp.exp(log_nu) * nodes.kappa
    step = jnp.exp(log_V) * nodes.kappa**2
    first, second, third, value = prox_averages(loss, mean, deviation, step, nodes.y, *grid)
    rows = (
        nodes.T * first,
        nodes.S * first,
        first,
        nodes.kappa**2 * second / deviation,
        nodes.kappa**2 * third,
        value,
    )
    return jnp.stack([(nodes.weight * v).sum(-1) for v in rows], axis=-1)


def _equations(x, averages, n, ridge, weights):
    """F of the module's text from one set of averages."""
    m_a, m_x, log_nu, _, log_V = x
    pull_T, pull_S, level, c, force, _ = averages
    s = weights[0]
    aMa, aMx, xMx, tr1, tr2, aMMa, aMMx, xMMx = _forms(c, ridge, *weights)
    D = jnp.sqrt(force)
    determinant = aMa * xMx - aMx**2
    first = (xMx * m_a - aMx * m_x) / determinant + pull_T
    second = (aMa * m_x - aMx * m_a) / determinant + pull_S
    d = s.shape[0]
    response = (d - ridge * tr1) / c  # tr[Sigma' M], because c Sigma' M = 1 - ridge M
    bend = (d - 2 * ridge * tr1 + ridge**2 * tr2) / c**2
    # u^T Sigma' u = (u^T M^-1 u - ridge u^T u)/c with u = -M p
    uMu = pull_T**2 * aMa + 2 * pull_T * pull_S * aMx + pull_S**2 * xMx
    uu = pull_T**2 * aMMa + 2 * pull_T * pull_S * aMMx + pull_S**2 * xMMx
    nu2 = (uMu - ridge * uu) / c + force * bend / n
    return jnp.stack([first / D, second / D, level / D, log_V - jnp.log(response / n), 2 * log_nu - jnp.log(nu2)])
