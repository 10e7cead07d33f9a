"""Laws of (T, S, kappa): every classifier of a bag is one of them.

Given a query of cosine gamma with the signal, a bag's feature is  f = T qhat + S u + kappa z  with z standard normal on the
space orthogonal to qhat, and u the part of the signal's direction orthogonal to qhat. A law knows the joint distribution of
(y, T, S, kappa): exactly, or through independent randomised draws ("replicates") that give every average its error bar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from .._core.validation import real_number
from ..activations import get_activation
from ..task import Task
from .draws import REPLICATES, token_draws
from .nodes import ClassColumns, Nodes, Population, gaussian_population, nodes_of
from .statistics import elementwise_population, softmax_population

FIRST_POINTS = 256  # draws a replicate and class at the first level of refinement
MAXIMUM_POINTS = 1 << 15
_KEPT_POINTS = 4096


@dataclass(frozen=True, eq=False)
class Law:
    """A law of (y, T, S, kappa).

    make_population   points -> Population, with `points` draws a replicate and class (fixed laws ignore it)
    prevalence        pi = P(y = +1)
    first_points      draws of the first level of refinement; 0 for laws that cannot be refined
    dimension_factor  features have dimension_factor * d coordinates (L for the vectorized classifier, else 1), so that
                      alpha is n/d for every law
    """

    make_population: Callable[[int], Population] = field(repr=False)
    prevalence: float
    first_points: int = 0
    name: str = "custom"
    parameters: dict[str, Any] = field(default_factory=dict)
    dimension_factor: int = 1

    @cached_property
    def _made(self) -> dict[int, tuple[Population, Nodes]]:
        return {}

    def at(self, points: int) -> tuple[Population, Nodes]:
        """The population at a level of refinement, and its nodes; made once."""
        if points not in self._made:
            population = self.make_population(points)
            for old in [p for p in self._made if p > _KEPT_POINTS]:
                del self._made[old]  # such a level can be a hundred megabytes: keep one
            self._made[points] = (population, nodes_of(population))
        return self._made[points]

    @property
    def refinable(self) -> bool:
        return self.first_points > 0


def _check_samples(name: str, sample) -> np.ndarray:
    try:
        rows = np.asarray(sample, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of rows (T, S, kappa)") from None
    if rows.ndim != 2 or rows.shape[1] != 3 or len(rows) == 0:
        raise ValueError(f"{name} must be an array of rows (T, S, kappa), got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} must be finite")
    if (rows[:, 2] <= 0).any():
        raise ValueError(f"{name} must have kappa > 0 in its third column")
    return rows


def law_from_samples(positive, negative, prevalence: float, *, dimension_factor: int = 1, name: str = "samples") -> Law:
    """A law from independent draws of (T, S, kappa), one row a draw, for each class.

    The draws are dealt into 16 groups, whose scatter gives the standard errors; they cannot be refined.
    """
    pi = real_number("prevalence", prevalence, 0.0, 1.0, open_low=True, open_high=True)
    classes = [_check_samples("positive", positive), _check_samples("negative", negative)]
    groups = REPLICATES
    for rows, label in zip(classes, ("positive", "negative")):
        if len(rows) < 2 * groups:
            raise ValueError(f"{label} must have at least {2 * groups} draws for error bars, got {len(rows)}")
    population = Population(_dealt(classes[0], groups), _dealt(classes[1], groups), pi)
    return Law(lambda _: population, pi, name=name, dimension_factor=dimension_factor)


def _dealt(rows: np.ndarray, groups: int) -> ClassColumns:
    """Rows dealt into groups of nearly equal size; short groups are padded with weight zero."""
    size = -(-len(rows) // groups)
    table = np.repeat(rows[:1], groups * size, axis=0).reshape(groups, size, 3)
    weight = np.zeros((groups, size))
    for b in range(groups):
        part = rows[b::groups]
        table[b, : len(part)] = part
        weight[b, : len(part)] = 1.0 / len(part)
    offset = np.random.default_rng(len(rows)).random(weight.shape)
    T, S, kappa = np.moveaxis(table, -1, 0)
    return ClassColumns(T, S, kappa, np.zeros((1, 1)), weight, offset)


def law_from_nodes(
    positive, negative, prevalence: float, *, weights=None, dimension_factor: int = 1, name="nodes"
) -> Law:
    """A law from quadrature nodes, rows (T, S, kappa) for each class; `weights` = (positive, negative), each normalised.

    The nodes are taken as exact: standard errors are zero.
    """
    pi = real_number("prevalence", prevalence, 0.0, 1.0, open_low=True, open_high=True)
    rows = [_check_samples("positive", positive), _check_samples("negative", negative)]
    if weights is None:
        weights = [np.ones(len(r)) for r in rows]
    columns = []
    for w, r in zip(weights, rows):
        w = np.asarray(w, dtype=float)
        if w.shape != (len(r),) or (w < 0).any() or not np.isfinite(w).all() or w.sum() <= 0:
            raise ValueError("weights must be non-negative, one a node, with a positive sum in each class")
        offset = (0.5 + 0.6180339887498949 * np.arange(len(r))) % 1.0
        T, S, kappa = r.T[:, None]
        columns.append(ClassColumns(T, S, kappa, np.zeros((1, 1)), (w / w.sum())[None], offset[None]))
    population = Population(columns[0], columns[1], pi)
    return Law(lambda _: population, pi, name=name, dimension_factor=dimension_factor)


def pooled_law(task: Task) -> Law:
    """The mean of the tokens: kappa^2 = 1/L, T = theta R/L 1{y=+1} + g/sqrt(L), S = 0 (with qhat = xi)."""
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    population = gaussian_population(pi, theta * R / L, 0.0, L**-0.5, L**-0.5)
    return Law(lambda _: population, pi, name="pooled")


def vectorized_law(task: Task) -> Law:
    """All L d coordinates: kappa = 1, T = theta R/sqrt(L) 1{y=+1} + g, in dimension L d. Uniform positions only."""
    if task.positions.kind != "uniform":
        raise ValueError(
            f"the vectorized theory needs uniform positions (its symmetry), got {task.positions.kind!r}; simulate instead"
        )
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    population = gaussian_population(pi, theta * R / L**0.5, 0.0, 1.0, 1.0)
    return Law(lambda _: population, pi, name="vectorized", dimension_factor=L)


def _check_query(cosine: float, sharpness: float) -> tuple[float, float]:
    return real_number("cosine", cosine, -1.0, 1.0), real_number("sharpness", sharpness, 0.0)


def attention_law(task: Task, cosine: float, sharpness: float) -> Law:
    """Softmax attention with a query of cosine gamma and inverse temperature k = beta ||q|| (`sharpness`).

    Exact (one entry a class) where the weights do not depend on the tokens: k = 0, or L = 1.
    """
    gamma, k = _check_query(cosine, sharpness)
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    parameters = {"cosine": gamma, "sharpness": k}
    if k == 0 or L == 1:
        population = gaussian_population(
            pi, gamma * theta * R / L, theta * (1 - gamma**2) ** 0.5 * R / L, L**-0.5, L**-0.5
        )
        return Law(lambda _: population, pi, name="attention", parameters=parameters)
    make = lambda points: softmax_population(token_draws(L, R, points), pi, theta, gamma, k)  # noqa: E731
    return Law(make, pi, FIRST_POINTS, "attention", parameters)


def elementwise_law(task: Task, cosine: float, sharpness: float, activation="sigmoid") -> Law:
    """Elementwise attention, f = (1/L) sum_l sigma(k t_l) x_l, with a query of cosine gamma and k = beta ||q||."""
    gamma, k = _check_query(cosine, sharpness)
    sigma = get_activation(activation)
    L, R, theta, pi = task.length, task.sparsity, task.strength, task.prevalence
    make = lambda points: elementwise_population(sigma, L, token_draws(L, R, points), pi, theta, gamma, k)  # noqa: E731
    parameters = {"cosine": gamma, "sharpness": k, "activation": activation}
    return Law(make, pi, FIRST_POINTS, "elementwise", parameters)
