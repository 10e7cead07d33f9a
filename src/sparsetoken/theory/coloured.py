"""Exact asymptotics in coloured noise: the two gradient steps, and the convex readout.

Objective: (1/n) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, n = alpha d, on features
f = T a + S xi + kappa Sigma'^{1/2} z (see `laws.coloured`). Unknowns are m_a = <w, a>, m_x = <w, xi>, nu with
nu^2 = w^T Sigma' w, the bias b and the prox step V. With h = m_a T + m_x S + b + kappa nu G, r + V kappa^2 l'(r; y) = h and

    c = E[kappa^2 l''/(1 + V kappa^2 l'')],   M = (ridge + c Sigma')^{-1},   u = -M (E[T l'] a + E[S l'] xi)

the readout is u plus noise of covariance E[kappa^2 l'^2] M Sigma' M/n:

    m_a = <a, u>,   m_x = <xi, u>,   E[l'] = 0,   V = tr[Sigma' M]/n
    nu^2 = u^T Sigma' u + E[kappa^2 l'^2] tr[(M Sigma')^2]/n

Sigma' has a null direction and M^{-1} is a diagonal matrix less one of rank one, so that everything is a sum over eigenvalues.
With D = ridge + c Sigma, rho = aD^{-1}xi/aD^{-1}a and y = xi - rho a, which has aD^{-1}y = 0,

    u = (m_a/aD^{-1}a) D^{-1} a - E[S l'] D^{-1} y

in which nothing grows as the ridge falls. The residuals are, with chi = yD^{-1}y and e = sum_j s_j q_j^2/D_j / sigma_q^2,

    F1 = (ridge e m_a/aD^{-1}a + E[T l'] + rho E[S l']) / sqrt(E[kappa^2 l'^2])
    F2 = (m_x - rho m_a + chi E[S l']) / (xiD^{-1}xi sqrt(E[kappa^2 l'^2])),     F3 = E[l'] / sqrt(E[kappa^2 l'^2])

and the differences of the logarithms of V and nu^2 from those of their right sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from .._core.precision import in_double_precision
from .._core.validation import real_number
from ..jax_losses import traceable
from ..laws.coloured import ColouredLaw, Query, Spectrum, coloured_law, whitened_law
from ..laws.law import MAXIMUM_POINTS
from ..laws.measures import ScoreLaw, fresh_measures, trained_measures
from ..laws.nodes import Nodes, Population
from ..losses import Loss, get_loss
from ..results import NOT_PLAIN, TwoSteps, two_steps_from
from ..task import Task
from ..training import Training
from .alignment import field_moments
from .capacity import require_above_capacity
from .continuation import WarmStart, at_rest
from .deployment import tested_elsewhere
from .linear_scores import ScoreNodes, solve_scores
from .readout_result import ReadoutResult
from .refinement import DEFAULT_ACCURACY, Answer, answer_of, refine, summarise
from .square_loss import is_square

_FAR = 40.0  # reach of the bracket of log c around the place where ridge and c s are alike
_DEGENERATE = 1e-13  # chi over its largest possible value below which xi lies along a


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
        Eigenvalues of Sigma and the signal's coordinates.

    Returns
    -------
    ColouredAlignment
    """
    loss, t = training.loss_function, training
    L, R, theta, _ = task.only_kind("coloured noise")
    pi = task.prevalence
    s, x, d = spectrum.eigenvalues, spectrum.signal, spectrum.dimension
    c_minus, c_plus = map(float, loss.slope(np.zeros(2), np.array([-1.0, 1.0])))
    a = -t.eta_w * pi * c_plus * theta * R / L
    s2 = t.eta_w**2 * (pi * c_plus**2 + (1 - pi) * c_minus**2) / (t.alpha0 * L)
    b1 = -t.eta_b * (pi * c_plus + (1 - pi) * c_minus)
    noise_w = s2 * s / d  # variance of w1's coordinates
    omega2 = float(a**2 * (x @ s) + noise_w @ s)
    pull = t.eta_w * s.mean() / (t.alpha0 * L)  # each sample's own weight in w1
    h_plus, h, hh_plus, hh = map(
        float,
        field_moments(loss, pi, a * theta * R / L - pull * c_plus + b1, -pull * c_minus + b1, np.sqrt(omega2 / L)),
    )
    rr = R * (1 - R / L)
    along = pi * h_plus * theta**2 * rr * a + (L - 1) * h * a * s  # coefficient of xi_j
    scatter = ((L - 1) * omega2 * hh + pi * hh_plus * theta**2 * a**2 * rr) / (t.alpha0 * d)
    scale = -t.eta_q * t.beta / L
    query = Query(scale * along * x, scale**2 * (along**2 * x + ((L - 1) * h * s) ** 2 * noise_w + scatter * s))
    norm_w = float(np.sqrt(a**2 + noise_w.sum()))
    return ColouredAlignment(**two_steps_from(a, norm_w, query.overlap, query.norm, b1, t.beta), query=query)


@dataclass(frozen=True, kw_only=True, repr=False)
class ColouredResult(ReadoutResult[ColouredLaw]):
    """Limits of the readout in coloured noise.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; there is no m_q and m_u, and `nu` is NaN because the rest is not isotropic.
    residual, iterations, alpha, ridge, points, law, loss, fixed_point, own_fixed_points, test_law
        As in `readout_result.ReadoutResult`; the unknowns are x = (m_a, m_x, log nu, b, log V).
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

    def on(
        self, law: ColouredLaw | Task, bias_shift: float = 0.0, *, accuracy: float = DEFAULT_ACCURACY
    ) -> ColouredResult:
        """The same trained readout tested on another law.

        Parameters
        ----------
        law : ColouredLaw or Task
            The law of the test bags, in the training's noise and with its query, whatever beta; a task stands for this
            classifier on its bags.
        bias_shift : float
            Added to the trained bias.
        accuracy : float
            Absolute error allowed on the test error.

        Returns
        -------
        ColouredResult
            With the measures on fresh bags of `law`; everything else stays that of the training.

        Raises
        ------
        ValueError
            If noise, signal or query are others there.
        AccuracyError
            Where the accuracy is not met at the finest sampling of the law.
        """
        shift = real_number("bias_shift", bias_shift, -np.inf, open_low=True)
        known = self.law
        if isinstance(law, Task):
            there = coloured_law(law, known.spectrum, known.query, known.beta, known.activation)
        else:
            there = law
            same = isinstance(law, ColouredLaw) and law.spectrum is known.spectrum and law.query is known.query
            if not same:
                raise ValueError("law must have the training's spectrum and query (the same objects), or be a task")

        def measured(points: int, x: np.ndarray) -> dict[str, np.ndarray]:
            population = there.at(points)[0]
            m_a, m_x, log_nu, b, _ = np.broadcast_to(x, (population.replicates, 5)).T[..., None]
            laws = [
                ScoreLaw(m_a * c.T + m_x * c.S + b + shift, np.exp(log_nu) * c.kappa, c.weight)
                for _, _, c in population.classes()
            ]
            return fresh_measures(laws[0], laws[1], there.prevalence)

        def solve(start: WarmStart) -> Any:
            return coloured_erm(self.law, self.alpha, self.ridge, get_loss(self.loss), accuracy, start)

        readout, values, errors = tested_elsewhere(self, there, measured, solve, accuracy)
        return readout._tested_on(there, shift, values, errors)

    def _classifier(self) -> str:
        return f"{self.model} noise"

    @staticmethod
    def _record(law: ColouredLaw, bias_shift: float) -> dict[str, Any]:
        task = {} if law.task is None else law.task.to_dict()
        return {**task, "sharpness": law.beta * law.query.norm, "bias_shift": bias_shift}


class _Readout(NamedTuple):
    """Sums over eigenvalues at given c, ridge, m_a and E[S l'], in the notation of the module's text.

    Attributes
    ----------
    rho, chi, xDx : array ()
        As in the text.
    floor : array ()
        ridge e/aD^{-1}a = 1/aMa.
    response, bend, norm_bend : array ()
        tr[Sigma' M], tr[(M Sigma')^2] and tr[M Sigma' M].
    form, square : array ()
        u^T Sigma' u and u^T u.
    """

    rho: Any
    chi: Any
    xDx: Any
    floor: Any
    response: Any
    bend: Any
    norm_bend: Any
    form: Any
    square: Any


def _readout(c, ridge, m_a, pull_S, spectrum) -> _Readout:
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
    return _Readout(
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
class _ColouredEquations:
    """The unknowns x = (m_a, m_x, log nu, b, log V)."""

    logarithms: tuple[int, ...] = (2, 4)

    def fields(self, x):
        m_a, m_x, log_nu, b, log_V = x
        return jnp.stack([m_a, m_x, b, jnp.exp(2 * log_nu), jnp.exp(log_V)])

    def residual(self, x, moments, samples, ridge, given):
        m_a, m_x, log_nu, _, log_V = x
        pull_T, pull_S, level, c, force, _ = moments
        found = _readout(c, ridge, m_a, pull_S, given)
        scale = jnp.sqrt(force)
        return jnp.stack(
            [
                (found.floor * m_a + pull_T + found.rho * pull_S) / scale,
                (m_x - found.rho * m_a + found.chi * pull_S) / (found.xDx * scale),
                level / scale,
                log_V - jnp.log(found.response / samples),
                2.0 * log_nu - jnp.log(found.form + force * found.bend / samples),
            ]
        )


_EQUATIONS = _ColouredEquations()


def _score_nodes(nodes: Nodes) -> ScoreNodes:
    columns = np.stack([nodes.T, nodes.S, np.ones(nodes.T.shape)], axis=-1)
    y, weight, offset = (np.array(np.broadcast_to(v, nodes.T.shape)) for v in (nodes.y, nodes.weight, nodes.offset))
    return ScoreNodes(y, columns, nodes.kappa[..., None] ** 2, weight, offset)


def coloured_erm(
    law: ColouredLaw, alpha: float, ridge: float, loss: Loss, accuracy: float, warm_start: WarmStart | None = None
) -> ColouredResult:
    """The readout in coloured noise, for `theory.erm`.

    Parameters
    ----------
    law : ColouredLaw
        From `coloured_law`.
    alpha, ridge : float
        n/d and lambda; zero above capacity, for the square loss above alpha = 1.
    loss : Loss
        l.
    accuracy : float
        Absolute error allowed on the test error.
    warm_start : WarmStart, optional
        That of a neighbouring result.

    Returns
    -------
    ColouredResult
    """
    if ridge == 0:
        if not is_square(loss):
            require_above_capacity(law, alpha)
        elif not alpha > 1:
            raise ValueError(
                f"ridge must be positive in coloured noise where alpha is at most 1, got alpha {alpha:g}: the square loss has "
                "many minimisers there; a small ridge gives the shortest one"
            )
        whitened_law(law)  # refuses noise that leaves directions out
    spectrum, query = law.spectrum, law.query
    samples = alpha * spectrum.dimension
    weights = (spectrum.eigenvalues, spectrum.signal, query.cross, query.square)
    state: dict[str, np.ndarray | None] = {"x": warm_start.x if warm_start is not None and warm_start.usable else None}
    points = max(law.first_points, min(warm_start.points or 0, MAXIMUM_POINTS)) if warm_start else law.first_points
    setting = f"alpha={alpha:g}, loss {loss.name}, coloured noise"

    @in_double_precision
    def at(points: int) -> Answer:
        nodes = _score_nodes(law.at(points)[1])
        guess = partial(_guess, loss, samples, nodes, spectrum.eigenvalues)
        solution = solve_scores(_EQUATIONS, traceable(loss), nodes, samples, ridge, weights, guess, state["x"], setting)
        state["x"] = np.asarray(solution.x)
        return answer_of(solution, _EQUATIONS.logarithms)

    def summary(answer: Answer, points: int):
        def norm(x):
            return _norm(x, samples, ridge, weights)

        return summarise(answer, lambda x, train_loss: _fields(loss, x, train_loss, law.at(points)[0], norm))

    found = refine(law, points, at, summary, accuracy, f"alpha={alpha:g}, ridge={ridge:g}, coloured noise")
    values, errors = dict(found.values), dict(found.errors)
    norm_q, overlap_q = query.norm, query.overlap
    return ColouredResult(
        model=law.name,
        overlap={"w": values["m_x"], "q": overlap_q},
        cosine={"w": values.pop("cosine_w"), "q": overlap_q / norm_q},
        **values,
        sharpness=law.beta * norm_q,
        residual=found.answer.residual,
        iterations=found.spent,
        standard_error=errors.pop("test_error"),
        errors=errors,
        alpha=alpha,
        ridge=ridge,
        points=found.points,
        law=law,
        loss=loss,
        fixed_point=found.answer.x,
        own_fixed_points=np.atleast_2d(found.answer.own_x),
    )


def _guess(loss: Loss, samples: float, nodes: ScoreNodes, eigenvalues: np.ndarray, ridge: float) -> np.ndarray:
    """A start for a large ridge, where w is nearly zero: the bias of the class shares, V and nu from their equations there."""
    share = np.where(nodes.y > 0, nodes.weight, 0.0).sum() / len(nodes.y)
    b, curvature, square = map(float, at_rest(loss, share))
    kappa2 = float((nodes.weight * nodes.overlaps[..., 0]).sum()) / len(nodes.y)
    ratio = eigenvalues / (ridge + curvature * kappa2 * eigenvalues)
    V, nu2 = ratio.sum() / samples, kappa2 * square * (ratio**2).sum() / samples
    return np.array([0.0, 0.0, 0.5 * np.log(nu2), b, np.log(V)])


def _norm(x: np.ndarray, samples: float, ridge: float, spectrum: tuple[np.ndarray, ...]) -> float:
    """||w|| at a fixed point: c, E[S l'] and E[kappa^2 l'^2] follow from the unknowns by the equations read backwards."""
    m_a, m_x, log_nu, _, log_V = x

    def excess(log_c: float) -> float:
        return np.log(_readout(np.exp(log_c), ridge, m_a, 0.0, spectrum).response / samples) - log_V

    if ridge == 0:
        log_c = np.log((len(spectrum[0]) - 1) / samples) - log_V  # tr[Sigma' M] = (d - 1)/c
    else:
        low, high = np.log(ridge / spectrum[0].max()) + np.array([-_FAR, _FAR])
        log_c = low if excess(low) <= 0 else brentq(excess, low, high)  # tr[Sigma' M] falls with c
    c = np.exp(log_c)
    found = _readout(c, ridge, m_a, 0.0, spectrum)
    across = m_x - found.rho * m_a
    pull_S = -across / found.chi if found.chi > _DEGENERATE * found.xDx else 0.0
    found = _readout(c, ridge, m_a, pull_S, spectrum)
    noise = max(np.exp(2 * log_nu) - found.form, 0.0) / found.bend  # E[kappa^2 l'^2]/n
    return float(np.sqrt(found.square + noise * found.norm_bend))


def _fields(
    loss: Loss,
    x: np.ndarray,
    train_loss: np.ndarray,
    population: Population,
    norm: Callable[[np.ndarray], float],
) -> dict[str, np.ndarray]:
    """Every reported quantity for each replicate, at its own x (rows) or at a common one."""
    rows = np.broadcast_to(x, (population.replicates, 5))
    m_a, m_x, log_nu, b, log_V = rows.T
    deviation, V = np.exp(log_nu), np.exp(log_V)
    classes = []
    for _, _, columns in population.classes():
        mean = m_a[:, None] * columns.T + m_x[:, None] * columns.S + b[:, None]
        law = ScoreLaw(mean, deviation[:, None] * columns.kappa, columns.weight)
        classes.append((law, V[:, None] * columns.kappa**2))
    values = trained_measures(loss, classes[0], classes[1], population.prevalence)
    values |= {"m_a": m_a, "m_x": m_x, "deviation": deviation, "V": V, "bias": b, "train_loss": train_loss}
    values["norm_w"] = np.array([norm(row) for row in rows] if x.ndim > 1 else [norm(x)] * len(rows))
    return values | {"cosine_w": m_x / values["norm_w"]}
