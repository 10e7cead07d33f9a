"""Laws of (T, S, kappa), one for each classifier of bags, Eq. (7) of docs/theory.md: exactly, or through independent randomised
draws ("replicates") that give every average its error bar."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from .._core.validation import real_number
from ..activations import Weighting, get_activation
from ..classifiers import check_model
from ..task import Task
from .draws import EXPLICIT_TOKENS, REPLICATES
from .populations import (
    ClassColumns,
    Nodes,
    Population,
    attended_mixture,
    nodes_of,
    uniform_attention_mixture,
    vectorized_mixture,
)

# Draws per replicate and class at the first level of refinement: a solve takes a few hundredths of a second.
FIRST_POINTS = 256
MAXIMUM_POINTS = 1 << 15  # half a million bags per class in all: 30 MB of (T, S, kappa), minutes of solving
SECOND_LEVEL = 8  # the second level of refinement has at least that many times the first one's draws


Made = TypeVar("Made")


class SampledLaw(Generic[Made]):
    """What all kinds of laws share: draws at levels of refinement, `points` per replicate and class, each made once."""

    first_points: int
    _most: ClassVar[int] = MAXIMUM_POINTS

    @cached_property
    def _made(self) -> dict[int, Made]:
        return {}

    def _make(self, points: int) -> Made:
        raise NotImplementedError

    def at(self, points: int) -> Made:
        """The law's draws at a level of refinement; made once."""
        if points not in self._made:
            made = self._make(points)
            for old in [p for p in self._made if p > 4096]:
                del self._made[old]  # such a level, of more than 10 MB, can be a hundred megabytes: keep one
            self._made[points] = made
        return self._made[points]

    @property
    def refinable(self) -> bool:
        """Whether more draws can be had."""
        return self.first_points > 0

    @property
    def most_points(self) -> int:
        """Draws per replicate and class at the finest level; 0 for laws that cannot be refined."""
        return self._most if self.refinable else 0

    def elsewhere(self, task: Task, sharpness: float | None = None) -> Self:
        """The law of the same classifier on the bags of another task, its query as it is or of another sharpness."""
        raise NotImplementedError

    def finer(self, points: int, shortfall: float) -> int | None:
        """The next level for a standard error that is `shortfall` times too large; None where there is none. The second is at
        least eight times finer than the first, so that norms and V are good to a part in a thousand as well."""
        if points >= self.most_points:
            return None
        least = SECOND_LEVEL if points == self.first_points else 2
        # Standard errors fall like points^-0.85 (measured; plain Monte Carlo would be 0.5).
        return min(points * max(least, 2 ** round(np.log2(shortfall) / 0.85)), self.most_points)


@dataclass(frozen=True, eq=False)
class Law(SampledLaw[tuple[Population, Nodes]]):
    """A law of (y, T, S, kappa).

    Attributes
    ----------
    make_population : callable
        points -> Population, with `points` draws per replicate and class (fixed laws ignore it).
    prevalence : float
        pi = P(y = +1).
    first_points : int
        Draws of the first level of refinement; 0 for laws that cannot be refined.
    name : str
        What the law is called.
    parameters : dict
        The numbers behind it: `cosine`, gamma = cos(qhat, xi) (1 without a query, where qhat is xi), and a query's
        `sharpness`. A user's law has none, since xi is not known.
    dimension_factor : int
        Features have dimension_factor * d coordinates (L for the vectorized classifier, else 1), so that alpha is n/d for
        every law.
    task : Task or None
        What its bags are; None for a user's law.
    """

    make_population: Callable[[int], Population] = field(repr=False)
    prevalence: float
    first_points: int = 0
    name: str = "custom"
    parameters: dict[str, Any] = field(default_factory=dict)
    dimension_factor: int = 1
    task: Task | None = None

    @property
    def sharpness(self) -> float:
        """k of the query; NaN without one."""
        return self.parameters.get("sharpness", float("nan"))

    def _make(self, points: int) -> tuple[Population, Nodes]:
        population = self.make_population(points)
        return population, nodes_of(population)

    def elsewhere(self, task: Task, sharpness: float | None = None) -> Law:
        parameters = self.parameters
        with_query = "sharpness" in parameters and (self.name == "attention" or "activation" in parameters)
        if sharpness is not None and not with_query:
            raise ValueError(f"sharpness is for laws with a query, not for {self.name!r}")
        if with_query:
            k = parameters["sharpness"] if sharpness is None else sharpness
            if "activation" in parameters:
                return elementwise_law(task, parameters["cosine"], k, parameters["activation"], name=self.name)
            return attention_law(task, parameters["cosine"], k)
        makers = {"pooled": pooled_law, "vectorized": vectorized_law}
        if "cosine" not in parameters or self.name not in makers:
            raise ValueError(
                f"the law {self.name!r} is not known on the bags of a task: give the law of the test bags instead"
            )
        return makers[self.name](task)

    def on_draws(self, points: int) -> Law:
        """The law on that many draws per replicate and class, made once: quick, and smooth in its parameters."""
        if not self.refinable:
            return self
        population = self.make_population(points)
        return replace(self, make_population=partial(_given, population), first_points=0)


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


def law_from_samples(positive, negative, prevalence: float) -> Law:
    """A law from independent draws of (T, S, kappa).

    Parameters
    ----------
    positive, negative : array (draws, 3)
        One row (T, S, kappa) per draw of each class. They are split into 16 groups, whose scatter gives the standard
        errors; they cannot be refined.
    prevalence : float
        pi = P(y = +1).
    """
    pi = real_number("prevalence", prevalence, 0.0, 1.0, open_low=True, open_high=True)
    classes = [_check_samples("positive", positive), _check_samples("negative", negative)]
    groups = REPLICATES
    for rows, label in zip(classes, ("positive", "negative")):
        if len(rows) < 2 * groups:
            raise ValueError(f"{label} must have at least {2 * groups} draws for error bars, got {len(rows)}")
    population = Population(_grouped(classes[0], groups), _grouped(classes[1], groups), pi)
    return law_of_population(population, name="samples")


def law_of_population(
    population: Population,
    dimension_factor: int = 1,
    name: str = "custom",
    task: Task | None = None,
    **parameters: Any,
) -> Law:
    """A law with one fixed population."""
    return Law(
        partial(_given, population),
        population.prevalence,
        name=name,
        parameters=parameters,
        dimension_factor=dimension_factor,
        task=task,
    )


def _grouped(rows: np.ndarray, groups: int) -> ClassColumns:
    """Rows split into groups of nearly equal size; short groups are padded with weight zero."""
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


def law_from_nodes(positive, negative, prevalence: float, *, weights=None) -> Law:
    """A law from quadrature nodes of (T, S, kappa), taken as exact: standard errors are zero.

    Parameters
    ----------
    positive, negative : array (nodes, 3)
        One row (T, S, kappa) per node of each class.
    prevalence : float
        pi = P(y = +1).
    weights : pair of arrays, optional
        Weights of the positive and of the negative nodes, each normalised here; equal by default.
    """
    pi = real_number("prevalence", prevalence, 0.0, 1.0, open_low=True, open_high=True)
    rows = [_check_samples("positive", positive), _check_samples("negative", negative)]
    if weights is None:
        weights = [np.ones(len(r)) for r in rows]
    columns = []
    for w, r in zip(weights, rows):
        w = np.asarray(w, dtype=float)
        if w.shape != (len(r),) or (w < 0).any() or not np.isfinite(w).all() or w.sum() <= 0:
            raise ValueError("weights must be non-negative, one per node, with a positive sum in each class")
        offset = (0.5 + 0.6180339887498949 * np.arange(len(r))) % 1.0  # the golden ratio spreads shifts evenly
        T, S, kappa = r.T[:, None]
        columns.append(ClassColumns(T, S, kappa, np.zeros((1, 1)), (w / w.sum())[None], offset[None]))
    return law_of_population(Population(columns[0], columns[1], pi), name="nodes")


def pooled_law(task: Task) -> Law:
    """The mean of the tokens: kappa^2 = 1/L, T = theta R/L 1{y=+1} + g/sqrt(L), S = 0 (with qhat = xi)."""
    return law_of_population(
        uniform_attention_mixture(task, task.prevalence, 1.0), name="pooled", task=task, cosine=1.0
    )


def vectorized_law(task: Task) -> Law:
    """All L d coordinates: kappa = 1, T = theta R/sqrt(L) 1{y=+1} + g, in dimension L d. Uniform positions only, bags of one
    length, and independent tokens."""
    task.require_plain("the vectorized classifier, which has weights for every token", "length")
    task.require_plain("the vectorized classifier, whose features would have two noise levels", "correlation")
    if task.positions.kind != "uniform":
        raise ValueError(
            f"the vectorized theory needs uniform positions (its symmetry), got {task.positions.kind!r}; simulate instead"
        )
    return law_of_population(vectorized_mixture(task, task.prevalence), task.longest, "vectorized", task, cosine=1.0)


def _check_query(cosine: float, sharpness: float) -> tuple[float, float]:
    return real_number("cosine", cosine, -1.0, 1.0), real_number("sharpness", sharpness, 0.0)


def attention_law(task: Task, cosine: float, sharpness: float) -> Law:
    """Softmax attention with a given query; exact where the weights do not depend on the tokens (k = 0, or L = 1).

    Eq. (7) of docs/theory.md.

    Parameters
    ----------
    task : Task
        The bags.
    cosine, sharpness : float
        gamma, the query's cosine with the signal, and k = beta ||q||, the inverse temperature.
    """
    Task.require(task)
    gamma, k = _check_query(cosine, sharpness)
    if k == 0 or task.longest == 1:
        population = uniform_attention_mixture(task, task.prevalence, gamma)
        return law_of_population(population, name="attention", task=task, cosine=gamma, sharpness=k)
    parameters = {"cosine": gamma, "sharpness": k}
    make = partial(attended_mixture, task, task.prevalence, gamma, k, None)
    return Law(make, task.prevalence, FIRST_POINTS, "attention", parameters, task=task)


def elementwise_law(
    task: Task, cosine: float, sharpness: float, activation: Any = "sigmoid", *, name: str = "elementwise"
) -> Law:
    """Elementwise attention, f = (1/L) sum_l sigma(k t_l) x_l, with a given query; exact at k = 0, unless the weights vanish.

    Parameters
    ----------
    task, cosine, sharpness
        As in `attention_law`.
    activation : str, callable or Weighting
        sigma, by its name or as a function of an array; a `Weighting` of all tokens of a bag, where these are at most
        `EXPLICIT_TOKENS`.
    name : str
        What the law is called.
    """
    Task.require(task)
    gamma, k = _check_query(cosine, sharpness)
    sigma = get_activation(activation)
    parameters = {"cosine": gamma, "sharpness": k, "activation": activation}
    if k == 0 and not isinstance(sigma, Weighting) and (level := float(sigma(np.zeros(1))[0])) != 0:
        population = uniform_attention_mixture(task, task.prevalence, gamma, level)
        return law_of_population(population, name=name, task=task, **parameters)
    if isinstance(sigma, Weighting) and task.longest > EXPLICIT_TOKENS:
        raise ValueError(
            f"length must be at most {EXPLICIT_TOKENS} for weights that depend on all tokens of a bag, which are all drawn, "
            f"got {task.longest}"
        )
    make = partial(attended_mixture, task, task.prevalence, gamma, k, sigma)
    return Law(make, task.prevalence, FIRST_POINTS, name, parameters, task=task)


def law_of_model(task: Task, model: str, cosine: float = 1.0, sharpness: float = 0.0) -> Law:
    """The law of a classifier by its name."""
    chosen = check_model(model)
    if not chosen.has_query:
        return pooled_law(task) if model == "pooled" else vectorized_law(task)
    if chosen.weighting is None:
        return attention_law(task, cosine, sharpness)
    return elementwise_law(task, cosine, sharpness, chosen.weighting, name=model)


def _given(population: Population, points: int) -> Population:
    return population
