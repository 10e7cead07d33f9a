"""Exact asymptotics of the convex readout in coloured noise.

Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d, on features
f = T a + S xi + kappa Sigma'^{1/2} z (see `laws.coloured`). The readout is the u of Eq. (20) of docs/theory.md plus noise of
covariance E[kappa^2 l'^2] M Sigma' M/n. M^{-1} is a diagonal matrix less one of rank one, so that everything is a sum over
eigenvalues. With D = ridge + c Sigma, rho = aD^{-1}xi/aD^{-1}a and y = xi - rho a, which has aD^{-1}y = 0,

    u = (m_a/aD^{-1}a) D^{-1} a - E[S l'] D^{-1} y

in which nothing grows as the ridge falls. The residuals are, with chi = yD^{-1}y and e = sum_j s_j q_j^2/D_j / sigma_q^2,

    F1 = (ridge e m_a/aD^{-1}a + E[T l'] + rho E[S l']) / sqrt(E[kappa^2 l'^2])
    F2 = (m_x - rho m_a + chi E[S l']) / (xiD^{-1}xi sqrt(E[kappa^2 l'^2])),     F3 = E[l'] / sqrt(E[kappa^2 l'^2])

and the differences of the logarithms of V and nu^2 from those of their right sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from ..._core.arrays import ROUNDING
from ...laws.coloured import ColouredLaw, whitened_law
from ...laws.error_measures import ScoreLaw, measures
from .newton import at_rest
from .prox_averages import ScoreNodes, blocks_of
from .refinement import ReadoutProblem, ReadoutResult


@dataclass(frozen=True, kw_only=True, repr=False)
class ColouredResult(ReadoutResult[ColouredLaw]):
    """Limits of the readout in coloured noise.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; `m_q`, `m_u` and `nu` are NaN, since w is not isotropic off the query and the signal.
    residual, iterations, alpha, ridge, points, law, loss, fixed_point, own_fixed_points, test_law, test_points, test_bias_shift
        As in `fixed_point.refinement.ReadoutResult`; the unknowns are x = (m_a, m_x, log nu, b, log V).
    m_a, m_x : float
        <w, a> with a = Sigma q/sigma_q, and <w, xi>.
    deviation : float
        sqrt(w^T Sigma' w): the score's deviation over kappa.
    V : float
        The step of the prox over kappa^2.
    """

    m_a: float
    m_x: float
    deviation: float
    V: float

    def _classifier(self) -> str:
        return f"{self.model} noise"


class _EigenSums(NamedTuple):
    """Sums over eigenvalues at given c, ridge, m_a and E[S l'], in the notation of the module's text."""

    rho: Any
    chi: Any
    xDx: Any
    floor: Any
    response: Any
    bend: Any
    norm_bend: Any
    form: Any
    square: Any


def _sums(c, ridge, m_a, pull_S, spectrum) -> _EigenSums:
    """The traces follow from tr[Sigma' M] = sum s/D - A22/A11 by differentiation in c (bend) and in the ridge (norm_bend)."""
    s, xx, qx, qq = spectrum
    D = ridge + c * s
    variance = (s * qq).sum()  # sigma_q^2
    share = s * qq / variance  # sums to 1; aD^{-1}a = sum of share s/D

    def A(j, k):
        """sum_j s^j q^2/D^k / sigma_q^2."""
        return (share * s ** (j - 1) / D**k).sum()

    e, aDa = A(1, 1), A(2, 1)
    ax, aa = s * qx / variance**0.5, s * share
    rho = (ax / D).sum() / aDa
    yy, ay = xx - 2.0 * rho * ax + rho**2 * aa, ax - rho * aa
    along = m_a / aDa
    return _EigenSums(
        rho=rho,
        chi=(yy / D).sum(),
        xDx=(xx / D).sum(),
        floor=ridge * e / aDa,
        response=(s / D).sum() - A(2, 2) / e,
        bend=(s**2 / D**2).sum() - 2.0 * A(3, 3) / e + (A(2, 2) / e) ** 2,
        norm_bend=(s / D**2).sum() - 2.0 * A(2, 3) / e + A(2, 2) * A(1, 2) / e**2,
        # aD^{-1} Sigma' D^{-1}a as a sum of squares: it vanishes in white noise and without a ridge
        form=pull_S**2 * (s * yy / D**2).sum()
        - 2.0 * pull_S * along * (s * ay / D**2).sum()
        + along**2 * (share * (s / D - aDa) ** 2).sum(),
        square=pull_S**2 * (yy / D**2).sum() - 2.0 * pull_S * along * (ay / D**2).sum() + along**2 * (aa / D**2).sum(),
    )


@dataclass(frozen=True)
class ColouredEquations:
    """The unknowns x = (m_a, m_x, log nu, b, log V); constants (n, ridge, eigenvalues, xi_j^2, q_j xi_j, q_j^2)."""

    unknowns: int = 5
    logarithms: tuple[int, ...] = (2, 4)

    def fields(self, x):
        m_a, m_x, log_nu, b, log_V = x
        return jnp.stack([m_a, m_x, b]), jnp.exp(2 * log_nu)[None], jnp.exp(log_V)[None]

    def residual(self, x, moments, constants):
        m_a, m_x, log_nu, _, log_V = x
        pull_T, pull_S, level, c, force, _ = moments
        samples, ridge, *spectrum = constants
        sums = _sums(c, ridge, m_a, pull_S, spectrum)
        scale = jnp.sqrt(force)
        return jnp.stack(
            [
                (sums.floor * m_a + pull_T + sums.rho * pull_S) / scale,
                (m_x - sums.rho * m_a + sums.chi * pull_S) / (sums.xDx * scale),
                level / scale,
                log_V - jnp.log(sums.response / samples),
                2.0 * log_nu - jnp.log(sums.form + force * sums.bend / samples),
            ]
        )


class ColouredReadout(ReadoutProblem):
    """The readout of a law in coloured noise."""

    equations = ColouredEquations()
    law: ColouredLaw

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, ...]:
        """Eigenvalues, xi_j^2, q_j xi_j and q_j^2."""
        spectrum, query = self.law.spectrum, self.law.query
        return spectrum.eigenvalues, spectrum.signal, query.cross, query.square

    @property
    def samples(self) -> float:
        """n."""
        return self.alpha * self.law.spectrum.dimension

    not_unique = 1.0, "in coloured noise where alpha is at most 1"

    def check_ridgeless(self) -> None:
        super().check_ridgeless()
        whitened_law(self.law)  # refuses noise that leaves directions out

    def constants(self, ridge: float) -> tuple:
        return self.samples, ridge, *self.spectrum

    def blocks(self, points: int) -> tuple[ScoreNodes, ...]:
        nodes = self.law.at(points)[1]
        columns = np.stack([nodes.T, nodes.S, np.ones_like(nodes.T)])
        return blocks_of(nodes.y, columns, nodes.kappa[None] ** 2, nodes.weight, nodes.offset)

    def guess(self, points: int, ridge: float) -> np.ndarray:
        nodes, eigenvalues = self.law.at(points)[1], self.spectrum[0]
        b, curvature, square = at_rest(self.loss, nodes.y, nodes.weight)
        kappa2 = float((nodes.weight * nodes.kappa**2).sum(1).mean())
        ratio = eigenvalues / (ridge + curvature * kappa2 * eigenvalues)
        V, nu2 = ratio.sum() / self.samples, kappa2 * square * (ratio**2).sum() / self.samples
        return np.array([0.0, 0.0, 0.5 * np.log(nu2), b, np.log(V)])

    def quantities(self, points: int, x: np.ndarray, train_loss: np.ndarray) -> dict[str, np.ndarray]:
        population = self.law.at(points)[0]
        rows = np.broadcast_to(x, (population.replicates, 5))
        m_a, m_x, log_nu, b, log_V = rows.T
        values = measures(self.loss, rows, population, self.scores_on(self.law, points, x))
        deviation, V = np.exp(log_nu), np.exp(log_V)
        values |= {"m_a": m_a, "m_x": m_x, "deviation": deviation, "V": V, "bias": b, "train_loss": train_loss}
        norms = [self._norm(row) for row in rows] if x.ndim > 1 else [self._norm(x)] * len(rows)
        values["norm_w"] = np.array(norms)
        return values | {"cosine_w": m_x / values["norm_w"]}

    def _norm(self, x: np.ndarray) -> float:
        """||w|| at a fixed point: c, E[S l'] and E[kappa^2 l'^2] follow from the unknowns by the equations read backwards."""
        m_a, m_x, log_nu, _, log_V = x
        ridge, eigenvalues = self.ridge, self.spectrum[0]

        def excess(log_c: float) -> float:
            return np.log(_sums(np.exp(log_c), ridge, m_a, 0.0, self.spectrum).response / self.samples) - log_V

        if ridge == 0:
            log_c = np.log((len(eigenvalues) - 1) / self.samples) - log_V  # tr[Sigma' M] = (d - 1)/c
        else:
            # Around ridge = c s, far beyond any c.
            low, high = np.log(ridge / eigenvalues.max()) + np.array([-40.0, 40.0])
            log_c = low if excess(low) <= 0 else brentq(excess, low, high)  # tr[Sigma' M] falls with c
        c = np.exp(log_c)
        sums = _sums(c, ridge, m_a, 0.0, self.spectrum)
        across = m_x - sums.rho * m_a
        pull_S = -across / sums.chi if sums.chi > ROUNDING * sums.xDx else 0.0  # else xi lies along a
        sums = _sums(c, ridge, m_a, pull_S, self.spectrum)
        noise = max(np.exp(2 * log_nu) - sums.form, 0.0) / sums.bend  # E[kappa^2 l'^2]/n
        return float(np.sqrt(sums.square + noise * sums.norm_bend))

    def result(self, values: dict[str, Any], errors: dict[str, Any], common: dict[str, Any]) -> ColouredResult:
        query = self.law.query
        common["overlap"] = {"w": values["m_x"], "q": query.overlap}
        common["cosine"]["q"] = query.overlap / query.norm
        return ColouredResult(**values, sharpness=self.law.sharpness, errors=errors, **common)

    def check_elsewhere(self, law: ColouredLaw) -> None:
        here = self.law
        if not isinstance(law, ColouredLaw) or law.spectrum is not here.spectrum or law.query is not here.query:
            raise ValueError("law must have the training's spectrum and query (the same objects), or be a task")

    def scores_on(self, law: ColouredLaw, points: int, x: np.ndarray, shift: float = 0.0) -> tuple[ScoreLaw, ScoreLaw]:
        population = law.at(points)[0]
        m_a, m_x, log_nu, b, _ = np.broadcast_to(x, (population.replicates, 5)).T[..., None]
        positive, negative = (
            ScoreLaw(m_a * c.T + m_x * c.S + b + shift, np.exp(log_nu) * c.kappa, c.weight)
            for c in (population.positive, population.negative)
        )
        return positive, negative


ColouredResult.problem = ColouredReadout
