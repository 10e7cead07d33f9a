"""The readout on a law of (T, S, kappa): its equations, Eq. (8) to Eq. (10) of docs/theory.md, and what is reported of it.

The unknowns are x = (m_q, m_u, log nu, b, log V), and alpha = n/dimension of the features. The first three equations are
divided by sqrt(E[kappa^2 l'^2]), the fourth is multiplied by alpha V, the fifth is one of logarithms. In the terms of
`prox_averages` A = (T, S, 1), K = (tau^2, kappa^2), m = (m_q, m_u, b), Q = (m_q^2, m_u^2 + nu^2) and V = (0, V): at a node T
may have a Gaussian spread tau, which adds m_q E[tau^2 l''/(1 + V kappa^2 l'')] to E[T l'].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..._core.arrays import namespace
from ..._core.averages import standard_error
from ..._core.validation import rejection
from ...laws.error_measures import ScoreLaw, fresh_measures, measures, score_law, score_laws
from ...laws.law import Law
from ...laws.populations import ClassColumns, Nodes, Population
from ...losses import Loss, get_loss
from ..accuracy import ConvergenceError
from .newton import at_rest
from .prox_averages import LARGEST_RESIDUAL, SAME, ScoreNodes, blocks_of
from .refinement import FixedPoint, ReadoutProblem, ReadoutResult
from .square_loss import is_square, solve_square


@dataclass(frozen=True)
class PlainEquations:
    """The equations of the module's text; their constants are (alpha, ridge)."""

    unknowns: int = 5
    logarithms: tuple[int, ...] = (2, 4)

    def fields(self, x):
        m_q, m_u, log_nu, b, log_V = x
        spread = jnp.stack([m_q**2, m_u**2 + jnp.exp(2 * log_nu)])
        return jnp.stack([m_q, m_u, b]), spread, jnp.stack([jnp.zeros_like(b), jnp.exp(log_V)])

    def residual(self, x, moments, constants):
        m_q, m_u, log_nu, _, log_V = x
        pull_T, pull_S, level, inside, bend, _, square, _ = moments
        alpha, ridge = constants
        V, D = jnp.exp(log_V), jnp.sqrt(square)
        return jnp.stack(
            [
                (ridge * m_q + pull_T + m_q * inside) / D,
                (m_u / (alpha * V) + pull_S) / D,
                level / D,
                alpha * V * (ridge + bend) - 1.0,
                2.0 * log_nu - jnp.log(alpha * square) - 2.0 * log_V,
            ]
        )


PLAIN = PlainEquations()


def plain_nodes(nodes: Nodes) -> tuple[Any, Any]:
    """The columns (T, S, 1) and overlaps (tau^2, kappa^2) of a law's nodes (NumPy or JAX arrays)."""
    xp = namespace(nodes.T, nodes.kappa)
    return xp.stack([nodes.T, nodes.S, xp.ones_like(nodes.T)]), xp.stack([nodes.tau**2, nodes.kappa**2])


@lru_cache(maxsize=3)  # a sweep reuses the nodes of two or three levels of refinement; 150 MB each at the finest
def _plain_blocks(nodes: Nodes) -> tuple[ScoreNodes, ...]:
    return blocks_of(nodes.y, *plain_nodes(nodes), nodes.weight, nodes.offset)


@dataclass(frozen=True, kw_only=True, repr=False)
class ErmResult(ReadoutResult[Law]):
    """Limits of the trained readout.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `tested`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there. `overlap` and `cosine` need a law with gamma in its parameters; standard errors come from the law's sampling.
    residual, iterations, alpha, ridge, points, law, loss, fixed_point, own_fixed_points, test_law, test_points, test_bias_shift
        As in `fixed_point.refinement.ReadoutResult`; the unknowns are x = (m_q, m_u, log nu, b, log V).
    V : float
        The step of the prox.
    """

    V: float

    def margin_densities(self, margins) -> dict[str, np.ndarray]:
        """Densities of the training margins y r and of the test margins y h at `margins`."""
        x, loss = self.fixed_point, get_loss(self.loss)
        densities = _margin_densities(x, loss, self.law.at(self.points)[0], margins)
        if self.test_law is None:
            return densities
        there = self.test_law.at(self.test_points)[0]
        tested = _margin_densities(shifted(x, self.test_bias_shift), loss, there, margins)
        return densities | {name: density for name, density in tested.items() if name.startswith("test")}


def _margin_densities(x: np.ndarray, loss: Loss, population: Population, margins) -> dict[str, np.ndarray]:
    """Those of r at an entry of the law are those of h = r + V kappa^2 l'(r; y) times dh/dr; on fresh bags V counts as zero."""
    at = np.atleast_1d(np.asarray(margins, dtype=float))
    if not np.isfinite(at).all() or at.ndim != 1:
        raise ValueError("margins must be a list of finite numbers")
    parts = {"test": (population.classes(), 0.0), "train": (population.training(), np.exp(x[4]))}
    out: dict[str, np.ndarray] = {}
    for name, (classes, V) in parts.items():
        shares = dict.fromkeys((1.0, -1.0), 0.0)
        density = {label: np.zeros_like(at) for label in shares}
        for label, probability, columns in classes:
            shares[label] += probability
            density[label] += probability * _margin_density(label * at, label, V, loss, x, columns)
        out[name] = density[1.0] + density[-1.0]
        out[f"{name}_positive"], out[f"{name}_negative"] = (density[label] / shares[label] for label in shares)
    return out


def _margin_density(
    r: np.ndarray, label: float, V: float, loss: Loss, x: np.ndarray, columns: ClassColumns
) -> np.ndarray:
    """The density at r of the prox of the score, over the entries of a class."""
    if not np.isfinite(V):  # an interpolator's training margins are all 1
        return np.zeros_like(r)
    mean, deviation = score_law(x, columns)
    weight = np.broadcast_to(columns.weight, mean.shape) / len(mean)
    step = V * np.broadcast_to(columns.kappa, mean.shape) ** 2
    # Of 16,384 entries the noise is below what a plot can show. They are the first draws of every replicate: a low-discrepancy
    # sequence stays balanced when cut short. Where weights are unequal there are several sequences, and all are kept.
    keep = max(1, (1 << 14) // len(mean)) if columns.weight.shape[-1] == 1 else mean.shape[1]
    mean, deviation, step, weight = (a[:, :keep].reshape(-1) for a in (mean, deviation, step, weight))
    y = np.full_like(r, label)
    slope, curvature = np.asarray(loss.slope(r, y)), np.asarray(loss.curvature(r, y))
    densities = []
    for at, s, c in zip(r, slope, curvature):
        z = (at + step * s - mean) / deviation
        densities.append(weight @ (np.exp(-0.5 * z * z) / deviation * (1 + step * c)))
    return np.array(densities) / (weight.sum() * np.sqrt(2 * np.pi))


class PlainReadout(ReadoutProblem):
    """The readout of a law of (T, S, kappa)."""

    equations = PLAIN
    law: Law

    def constants(self, ridge: float) -> tuple:
        return self.alpha / self.law.dimension_factor, ridge

    def blocks(self, points: int) -> tuple[ScoreNodes, ...]:
        return _plain_blocks(self.law.at(points)[1])

    def guess(self, points: int, ridge: float) -> np.ndarray:
        nodes = self.law.at(points)[1]
        alpha, kappa2 = self.alpha / self.law.dimension_factor, float((nodes.weight * nodes.kappa**2).sum(1).mean())
        b, curvature, square = at_rest(self.loss, nodes.y, nodes.weight)
        V = 1.0 / (alpha * (ridge + kappa2 * curvature))
        return np.array([0.0, 0.0, 0.5 * np.log(alpha * V**2 * kappa2 * square), b, np.log(V)])

    def closed_form(self, points: int) -> FixedPoint | None:
        if not is_square(self.loss):
            return None
        nodes = self.law.at(points)[1]
        replicates, alpha = len(nodes.T), self.alpha / self.law.dimension_factor
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            pooled = single = solve_square(alpha, self.ridge, nodes)
            if replicates > 1:
                single = solve_square(alpha, self.ridge, nodes, each=True, near=float(np.exp(pooled.x[0, 4])))
        residual = float(pooled.residual[0])
        if np.isnan(pooled.x).any() or np.isnan(single.x).any() or not residual <= LARGEST_RESIDUAL:
            raise ConvergenceError(
                f"alpha={alpha:g}, ridge={self.ridge:g} or the strength is so large or small that the fixed point is lost "
                "in rounding errors"
            )
        return FixedPoint(
            pooled.x[0], np.broadcast_to(pooled.train_loss, replicates), single.x, single.train_loss, residual
        )

    def quantities(self, points: int, x: np.ndarray, train_loss: np.ndarray) -> dict[str, np.ndarray]:
        population, gamma = self.law.at(points)[0], self.law.parameters.get("cosine")
        values = measures(self.loss, x, population, self.scores_on(self.law, points, x))
        rows = np.broadcast_to(x, (population.replicates, 5))
        values |= geometry(rows, gamma) | {"V": np.exp(rows[:, 4])}
        mistakes = np.where(np.isinf(values["V"]), 0.0, values["train_error"])  # an interpolator makes none
        return values | {"train_error": mistakes, "train_loss": train_loss}

    def result(self, values: dict[str, Any], errors: dict[str, Any], common: dict[str, Any]) -> ErmResult:
        if "sharpness" in self.law.parameters:
            common["cosine"]["q"] = self.law.parameters["cosine"]
        return ErmResult(**values, sharpness=self.law.sharpness, errors=errors, **common)

    def check_elsewhere(self, law: Law) -> None:
        if not isinstance(law, Law):
            raise rejection("law", law, "a Law or a Task")
        check_same_geometry(self.law, law)

    def scores_on(self, law: Law, points: int, x: np.ndarray, shift: float = 0.0) -> tuple[ScoreLaw, ScoreLaw]:
        return score_laws(shifted(x, shift), law.at(points)[0])


ErmResult.problem = PlainReadout


def check_same_geometry(trained: Law, tested: Law) -> None:
    """Raise ValueError unless (m_q, m_u, nu) of a readout trained on one law mean the same on the other."""
    if tested.dimension_factor != trained.dimension_factor:
        raise ValueError(
            f"law must have features of the training's dimension ({trained.dimension_factor} d), "
            f"got {tested.dimension_factor} d"
        )
    here, there = trained.parameters.get("cosine"), tested.parameters.get("cosine")
    if here is not None and there is not None and abs(here - there) > SAME:
        raise ValueError(f"law must be seen by the training's query (cosine {here:g}), got cosine {there:g}")


def geometry(x: np.ndarray, cosine: float | None) -> dict[str, np.ndarray]:
    """Overlaps, bias and norm of readouts x (rows), and where the query's cosine with xi is known those with xi."""
    m_q, m_u, log_nu, b, _ = x.T
    nu = np.exp(log_nu)
    values = {"m_q": m_q, "m_u": m_u, "nu": nu, "bias": b, "norm_w": np.sqrt(m_q**2 + m_u**2 + nu**2)}
    if cosine is None:
        return values
    overlap = cosine * m_q + max(0.0, 1.0 - cosine**2) ** 0.5 * m_u
    return values | {"overlap_w": overlap, "cosine_w": overlap / values["norm_w"]}


def shifted(x: np.ndarray, bias_shift: float) -> np.ndarray:
    """Fixed points (m_q, m_u, log nu, b, log V) with another bias."""
    moved = np.array(x, dtype=float)
    moved[..., 3] += bias_shift
    return moved


class QuickReadout(NamedTuple):
    """A readout on the draws of a law as they are: test error with its standard error, and the fixed point x."""

    test_error: float
    standard_error: float
    x: np.ndarray


def quick_readout(
    law: Law, alpha: float, ridge: float, loss: str | Loss, near: np.ndarray | None = None
) -> QuickReadout:
    """`erm` (its objective) on the first draws of a law (`Law.on_draws` fixes fewer), for the test error alone, no refinement:
    a few milliseconds from a neighbour's fixed point `near`."""
    problem = PlainReadout(law, alpha, ridge, loss)
    if ridge == 0:
        problem.check_ridgeless()
    solution = problem.solve(law.first_points, near)
    population = law.at(law.first_points)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        error, single = (readout_errors(x, population) for x in (solution.x, solution.own_x))
    return QuickReadout(float(np.mean(error)), standard_error(single, alone=0.0), solution.x)


def readout_errors(x: np.ndarray, population: Population) -> np.ndarray:
    """The test error of the readout x for each replicate of a population."""
    return fresh_measures(*score_laws(x, population), population.prevalence, with_auc=False)["test_error"]
