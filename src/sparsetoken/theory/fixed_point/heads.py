"""Exact asymptotics of ridge-regularised convex ERM on the features of several heads.

Objective: (1/n) sum_i l(sum_h <w_h, f_ih> + b; y_i) + (ridge/2) sum_h ||w_h||^2, bias unpenalised, n = alpha d.

The equations are Eq. (17) of docs/theory.md. Those of m_T (H x D), m_S (H x E) and b are divided by the root of tr(B)/H, with
B = E[K l'(r)^2]. V = A A^T is held by its triangular factor, A = exp(logarithms) times a unit triangle, and its equation is
A^T V^{-1} A = 1. Q, which is singular for heads that are alike, is held by the logarithms of its diagonal and its
correlations, and so is its equation. In the terms of `prox_averages`, A holds T, S and 1, and K the lower triangle of the
overlaps. For H = 1 these are the equations of `plain`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.devices import in_double_precision
from ...laws.error_measures import ScoreLaw, trained_measures
from ...laws.heads import HeadsLaw, head_scores
from ...results import entries
from .newton import at_rest
from .prox_averages import SAME, ScoreNodes, blocks_of
from .refinement import ReadoutProblem, ReadoutResult


@dataclass(frozen=True, kw_only=True, repr=False)
class HeadsResult(ReadoutResult[HeadsLaw]):
    """Limits of the readout of several heads.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; norm_w^2 is the sum over heads. With one signal, "w" is compared with (xi, .., xi)/sqrt(H). `m_q`, `m_u` and
        `nu` are NaN. `errors` has an entry for every entry of a matrix, such as `V_0_1`.
    residual, iterations, alpha, ridge, points, law, loss, fixed_point, own_fixed_points, test_law, test_points, test_bias_shift
        As in `fixed_point.refinement.ReadoutResult`.
    m_T : ndarray (H, D)
        The heads' readouts in the space of the queries, basis `law.query_space`.
    m_S : ndarray (H, E)
        In the space of the signals' parts orthogonal to the queries, basis `law.signal_space`.
    Q : ndarray (H, H)
        Overlaps <w_g, w_h> of what is orthogonal to both spaces.
    V : ndarray (H, H)
        The response: tr(K V) is the step of the prox.
    signal_overlap : ndarray (H, J)
        <w_h, xi_j>.
    """

    m_T: np.ndarray = field(compare=False)
    m_S: np.ndarray = field(compare=False)
    Q: np.ndarray = field(compare=False)
    V: np.ndarray = field(compare=False)
    signal_overlap: np.ndarray = field(compare=False)

    def _classifier(self) -> str:
        return f"{self.law.heads} heads"


def _outside(vectors: np.ndarray, basis: np.ndarray) -> float:
    """The largest part of a vector outside a space, over the largest vector."""
    if vectors.shape[1] != len(basis):
        return np.inf
    rest = vectors - vectors @ basis @ basis.T
    return float(np.abs(rest).max() / max(np.abs(vectors).max(), 1e-300))


class _Unknowns(NamedTuple):
    """The unknowns by name; `factor` is V's triangular factor."""

    m_T: Any
    m_S: Any
    b: Any
    factor: Any
    log_Q: Any
    correlations: Any

    @property
    def V(self):
        return self.factor @ self.factor.T

    @property
    def Q(self):
        size = jnp.exp(0.5 * self.log_Q)
        return size[:, None] * self.correlations * size


@dataclass(frozen=True)
class HeadsEquations:
    """The unknowns x = (m_T, m_S, b, log diagonal and lower triangle of V's factor, log diagonal and correlations of Q)."""

    heads: int
    query_dimensions: int
    signal_dimensions: int

    @property
    def _sizes(self) -> tuple[int, ...]:
        H = self.heads
        below = H * (H - 1) // 2
        return H * self.query_dimensions, H * self.signal_dimensions, 1, H, below, H, below

    @property
    def unknowns(self) -> int:
        return sum(self._sizes)

    @property
    def logarithms(self) -> tuple[int, ...]:
        ends = np.cumsum(self._sizes)
        return (*range(ends[2], ends[3]), *range(ends[4], ends[5]))

    def unpack(self, x) -> _Unknowns:
        H = self.heads
        m_T, m_S, b, log_V, lower, log_Q, correlations = jnp.split(x, np.cumsum(self._sizes)[:-1])
        rows, columns = np.tril_indices(H, -1)
        triangle = jnp.eye(H).at[rows, columns].set(lower)
        below = jnp.zeros((H, H)).at[rows, columns].set(correlations)
        return _Unknowns(
            m_T.reshape(H, self.query_dimensions),
            m_S.reshape(H, self.signal_dimensions),
            b[0],
            jnp.exp(log_V)[:, None] * triangle,
            log_Q,
            below + below.T + jnp.eye(H),
        )

    def pack(self, b: float, V: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """The unknowns of a readout without overlaps."""
        below = np.tril_indices(self.heads, -1)
        factor = np.linalg.cholesky(V)
        diagonal, size = np.diagonal(factor), np.diagonal(Q)
        parts = [np.zeros(sum(self._sizes[:2])), [b], np.log(diagonal), (factor / diagonal[:, None])[below]]
        return np.concatenate([*parts, np.log(size), (Q / np.sqrt(np.outer(size, size)))[below]])

    def fields(self, x):
        u = self.unpack(x)
        rows, columns = np.tril_indices(self.heads)
        times = np.where(rows == columns, 1.0, 2.0)  # entries off the diagonal count twice in tr(K Q)
        spread = u.Q + u.m_S @ u.m_S.T
        m = jnp.concatenate([u.m_T.ravel(), u.m_S.ravel(), u.b[None]])
        return m, times * spread[rows, columns], times * u.V[rows, columns]

    def residual(self, x, moments, constants):
        H, (alpha, ridge) = self.heads, constants
        u = self.unpack(x)
        sizes = (*self._sizes[:3], H * (H + 1) // 2, H * (H + 1) // 2)
        pull_T, pull_S, level, C, B, _ = jnp.split(moments, np.cumsum(sizes))
        C, B = self._symmetric(C), self._symmetric(B)
        scale = jnp.sqrt(jnp.trace(B) / H)
        solve = partial(jax.scipy.linalg.solve_triangular, u.factor, lower=True)
        signal = solve(solve(u.m_S), trans=1) / alpha
        response = u.factor.T @ (alpha * (ridge * jnp.eye(H) + C)) @ u.factor - jnp.eye(H)
        target = alpha * u.V @ B @ u.V
        size = jnp.sqrt(jnp.diagonal(target))
        below = np.tril_indices(H, -1)
        return jnp.concatenate(
            [
                (ridge * u.m_T.ravel() + pull_T) / scale,
                (signal.ravel() + pull_S) / scale,
                level / scale,
                response[np.tril_indices(H)],
                u.log_Q - 2.0 * jnp.log(size),
                (u.correlations - target / size[:, None] / size)[below],
            ]
        )

    def _symmetric(self, entries):
        rows, columns = np.tril_indices(self.heads)
        below = jnp.zeros((self.heads, self.heads)).at[rows, columns].set(entries)
        return below.at[columns, rows].set(entries)


class HeadsReadout(ReadoutProblem):
    """The readout of several heads."""

    law: HeadsLaw

    @cached_property
    def equations(self) -> HeadsEquations:
        return HeadsEquations(self.law.heads, self.law.query_space.shape[1], self.law.signal_space.shape[1])

    @property
    def not_unique(self) -> tuple[float, str]:
        return self.law.heads, f"where alpha is at most the number of heads ({self.law.heads})"

    def check_ridgeless(self) -> None:
        H, queries = self.law.heads, self.law.queries
        apart = np.linalg.norm(queries[:, None] - queries, axis=-1) > SAME * np.abs(queries).max()
        if not apart[np.triu_indices(H, 1)].all():
            raise ValueError(
                "ridge must be positive where two heads have the same query: only the sum of their readouts is determined"
            )
        super().check_ridgeless()

    def constants(self, ridge: float) -> tuple:
        return self.alpha, ridge

    def blocks(self, points: int) -> tuple[ScoreNodes, ...]:
        nodes = self.law.at(points)
        rows, columns = np.tril_indices(self.law.heads)
        flat = [v.reshape(*nodes.y.shape, -1) for v in (nodes.T, nodes.S, np.ones_like(nodes.y))]
        linear, overlaps = (np.moveaxis(v, -1, 0) for v in (np.concatenate(flat, axis=-1), nodes.K[..., rows, columns]))
        return blocks_of(nodes.y, linear, overlaps, nodes.weight, nodes.offset)

    def guess(self, points: int, ridge: float) -> np.ndarray:
        nodes = self.law.at(points)
        b, curvature, square = at_rest(self.loss, nodes.y, nodes.weight)
        mean_K = np.einsum("bn,bnij->ij", nodes.weight, nodes.K) / len(nodes.K)
        V = np.linalg.inv(ridge * np.eye(self.law.heads) + curvature * mean_K) / self.alpha
        return self.equations.pack(b, V, self.alpha * square * V @ mean_K @ V)

    def quantities(self, points: int, x: np.ndarray, train_loss: np.ndarray) -> dict[str, np.ndarray]:
        law, nodes = self.law, self.law.at(points)
        m_T, m_S, b, Q, V = _readouts(self.equations, x, len(train_loss))
        step = np.einsum("bnij,bij->bn", nodes.K, V)
        positive, negative = zip(self.scores_on(law, points, x), np.split(step, 2, axis=1))
        values = trained_measures(self.loss, positive, negative, law.prevalence)
        values |= {"m_T": m_T, "m_S": m_S, "V": V, "Q": Q, "bias": b, "train_loss": train_loss}
        values["norm_w"] = np.sqrt((m_T**2).sum((1, 2)) + (m_S**2).sum((1, 2)) + np.trace(Q, axis1=1, axis2=2))
        values["signal_overlap"] = (m_T @ law.query_space.T + m_S @ law.signal_space.T) @ law.signals.T
        if len(law.signals) == 1:  # else there is no one direction to compare with
            values["overlap_w"] = values["signal_overlap"][:, :, 0].sum(1) / np.sqrt(law.heads)
            values["cosine_w"] = values["overlap_w"] / values["norm_w"]
        return values

    def result(self, values: dict[str, Any], errors: dict[str, Any], common: dict[str, Any]) -> HeadsResult:
        flat: dict[str, float] = {}
        for name, error in errors.items():
            flat |= {name: error} if np.ndim(error) == 0 else entries(name, error)
        return HeadsResult(**values, errors=flat, **common)

    def check_elsewhere(self, law: HeadsLaw) -> None:
        if not isinstance(law, HeadsLaw) or law.heads != self.law.heads:
            raise ValueError(f"law must be that of {self.law.heads} heads, or a task")
        basis = np.hstack([self.law.query_space, self.law.signal_space])
        lost = max(_outside(law.queries, basis), _outside(law.signals, basis))
        if len(law.queries.T) != len(basis) or lost > SAME:
            raise ValueError("law must have queries and signals in the space of the training's")

    def scores_on(self, law: HeadsLaw, points: int, x: np.ndarray, shift: float = 0.0) -> tuple[ScoreLaw, ScoreLaw]:
        nodes = law.at(points)
        m_T, m_S, b, Q, _ = _readouts(self.equations, x, len(nodes.y))
        W = m_T @ self.law.query_space.T + m_S @ self.law.signal_space.T
        seen = W @ law.query_space
        spread = Q + W @ W.transpose(0, 2, 1) - seen @ seen.transpose(0, 2, 1)
        positive, negative = head_scores(nodes, seen, W @ law.signal_space, b + shift, spread)
        return positive, negative


HeadsResult.problem = HeadsReadout


@in_double_precision
def _readouts(equations: HeadsEquations, x: np.ndarray, replicates: int) -> list[np.ndarray]:
    """m_T, m_S, b, Q and V of every replicate, at its own x (rows) or at a common one."""
    return [np.asarray(part) for part in _unpacked(equations, np.broadcast_to(x, (replicates, x.shape[-1])))]


@partial(jax.jit, static_argnums=0)
def _unpacked(equations: HeadsEquations, rows):
    u = jax.vmap(equations.unpack)(rows)
    return u.m_T, u.m_S, u.b, jax.vmap(lambda unknowns: unknowns.Q)(u), jax.vmap(lambda unknowns: unknowns.V)(u)
