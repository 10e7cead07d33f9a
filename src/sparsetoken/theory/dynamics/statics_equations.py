"""The equations between the order parameters of joint training's end, and how they are solved on one set of draws.

Eq. (39) of docs/theory.md, iterated on (m, Q - m m^T, V^{-1}), with hatm = -alpha theta E sum_l v_l dl/dH_l: damped steps until
the residual is small, then Anderson's mixing. The end is stable (no small change moves training to another one) where the
replicon of Eq. (40) is below one; there K = C^T (-df/domega) C with C C^T = V.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...laws.bag_model_measures import innovation_root
from .one_bag import LocalAverages, LocalBags, LocalModel, OrderParameters, left_out_scores, local_averages
from .problem import TrainingProblem

TOLERANCE = 1e-6  # of the undamped change of the order parameters, relative to the largest of their kind
STEPS = 120  # fifteen to forty are usual
# Damped steps lead to the nearest fixed point, also past the place where another one has just vanished; mixing would turn back
# there, and takes over once the residual is small.
DAMPING, SMALL = 0.3, 0.1
DEPTH = 6  # of Anderson's mixing: as many earlier steps count


@dataclass(frozen=True)
class EndPoint:
    """A fixed point on one set of draws, or where the iteration gave up."""

    at: OrderParameters
    averages: LocalAverages
    pulls: tuple[Any, ...]
    residual: float
    steps: int

    @property
    def converged(self) -> bool:
        """Whether the undamped equations hold: within the tolerance, or up to jumps of two bags between minima."""
        return self.residual <= max(TOLERANCE, 2.0 / sum(map(len, self.pulls)))  # each of N moves an average by 1/N


@dataclass(frozen=True)
class EndEquations:
    """The equations on one replicate's bags."""

    problem: TrainingProblem
    alpha: float
    decay: np.ndarray
    groups: tuple[LocalBags, ...]

    @property
    def compiled(self) -> tuple[LocalModel, float, float]:
        """What `local_averages` takes first."""
        problem = self.problem
        model = LocalModel(problem.score, problem.loss, problem.task.correlation)
        return model, problem.task.mean_strength, float(problem.plan.sharpness)

    def cold(self, start: Mapping[str, float] | None) -> EndPoint:
        """A start with the norms and cosines that `start` names (zero elsewhere), before any iteration."""
        model = self.problem.model
        norms = np.array(model.start_norms(start))
        m = norms * np.array(model.start_cosines(start))
        precision = np.eye(model.rank) / 0.4  # V is small, so that every bag's function is convex
        at = OrderParameters(m, np.diag(norms**2 - m**2), precision, np.asarray(model.start_bias(start)))
        return EndPoint(at, None, self.no_pulls(), np.inf, 0)  # type: ignore[arg-type]

    def no_pulls(self) -> tuple[Any, ...]:
        """Zero for every bag: its fields as if it had been left out."""
        return tuple(jnp.zeros(group.normals.shape) for group in self.groups)

    def applied(self, at: OrderParameters, pulls: Any) -> tuple[OrderParameters, LocalAverages, tuple[Any, ...]]:
        """The right sides at `at`, the bias that belongs to it, and the averages behind them."""
        found, bias, pulls = local_averages(*self.compiled, _as_jax(at), self.groups, pulls)
        averages = LocalAverages(*map(np.asarray, found))
        response = 0.5 * (averages.response + averages.response.T)
        precision = self.alpha * (np.diag(self.decay) + response)
        V = np.linalg.inv(precision)
        S = self.alpha * V @ averages.products @ V
        m = self.alpha * self.problem.task.mean_strength * V @ averages.pull
        return OrderParameters(m, 0.5 * (S + S.T), precision, np.asarray(bias)), averages, pulls

    def solve(self, start: EndPoint) -> EndPoint:
        """The fixed point that the iteration from `start` reaches, or the step with the least residual."""
        at, pulls = start.at, start.pulls
        points: list[np.ndarray] = []
        changes: list[np.ndarray] = []
        best = replace(start, residual=np.inf)
        for step in range(1, STEPS + 1):
            new, averages, pulls = self.applied(at, pulls)
            at, residual = at._replace(bias=new.bias), _residual(at, new)
            if residual < best.residual:
                best = EndPoint(at, averages, pulls, residual, step)
            if residual <= TOLERANCE or not np.isfinite(residual):
                break
            x = packed(at)
            if residual > SMALL:
                points, changes = [], []
            points, changes = [*points, x][-DEPTH - 1 :], [*changes, packed(new) - x][-DEPTH - 1 :]
            damp = unpacked(x + DAMPING * changes[-1], len(at.m), at.bias)
            mix = residual < SMALL and len(points) > 1
            trial = unpacked(_mixed(points, changes), len(at.m), at.bias) if mix else damp
            if not _possible(trial):
                trial, points, changes = damp, [], []
            at = trial
        return best

    def jumps(self, end: EndPoint) -> np.ndarray:
        """What jumps of bags between minima would add to V^{-1}, by Stein's lemma, relative to its largest entry."""
        gram = end.at.S + np.outer(end.at.m, end.at.m)
        root = np.asarray(innovation_root(gram, np.diag(gram))[0])
        pairs = zip(self.groups, end.pulls, strict=True)
        whole = sum(np.einsum("n,nla,nlb->ab", bags.weight, pull, bags.normals) for bags, pull in pairs)
        response = end.averages.response
        return (whole + response @ root) / (np.abs((np.diag(self.decay) + response) @ root).max() or 1.0)

    def replicon(self, end: EndPoint) -> float:
        """Spectral radius of alpha E sum_ll' K_ll' (x) K_ll'."""
        C = np.linalg.cholesky(np.linalg.inv(end.at.precision))
        r = len(C)
        both = np.kron(C, C)
        table = both.T @ np.asarray(end.averages.pairs).reshape(r * r, r * r) @ both
        return float(self.alpha * np.abs(np.linalg.eigvals(table)).max())

    def left_out_scores(self, end: EndPoint) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores of the bags as if they had been left out, with their labels and weights."""
        scores = left_out_scores(*self.compiled, _as_jax(end.at), self.groups)
        return (
            np.concatenate([np.asarray(z) for z in scores]),
            np.concatenate([np.asarray(group.y) for group in self.groups]),
            np.concatenate([np.asarray(group.weight) for group in self.groups]),
        )


def _as_jax(at: OrderParameters) -> OrderParameters:
    return jax.tree_util.tree_map(lambda a: jnp.asarray(a, dtype=float), at)


def packed(at: OrderParameters) -> np.ndarray:
    """m and the upper triangles of S and V^{-1} as one vector."""
    upper = np.triu_indices(len(at.m))
    return np.concatenate([at.m, at.S[upper], at.precision[upper]])


def unpacked(x: np.ndarray, r: int, bias: Any) -> OrderParameters:
    """The order parameters of such a vector."""
    upper = np.triu_indices(r)
    places = np.zeros((r, r), dtype=int)
    places[upper] = places.T[upper] = np.arange(len(upper[0]))
    S, precision = x[r:].reshape(2, -1)[:, places]
    return OrderParameters(x[:r], S, precision, bias)


def _residual(old: OrderParameters, new: OrderParameters) -> float:
    """The largest undamped change, of each kind relative to the kind's largest entry."""
    parts = zip((old.m, old.S, old.precision), (new.m, new.S, new.precision))
    return max(float(np.abs(b - a).max() / (np.abs(b).max() + 1e-3)) for a, b in parts)


def _mixed(points: list[np.ndarray], changes: list[np.ndarray]) -> np.ndarray:
    """Anderson's mixing: the combination of steps whose changes cancel best, and its change."""
    dX = np.array([points[-1] - x for x in points[:-1]]).T
    dF = np.array([changes[-1] - f for f in changes[:-1]]).T
    c = np.linalg.lstsq(dF, changes[-1], rcond=1e-8)[0]
    return points[-1] + changes[-1] - (dX + dF) @ c


def _possible(at: OrderParameters) -> bool:
    """Whether V and S can be covariances, up to slightly negative eigenvalues of S, which are dropped from its root."""
    least = np.linalg.eigvalsh(at.S)[0]
    return bool(np.linalg.eigvalsh(at.precision)[0] > 0 and least > -0.01 * np.abs(at.S).max())
