"""A law of (y, T, S, kappa) as weighted entries in independent replicates, whose scatter gives error bars: how it is held, and
how it is made for bags of one kind and for a task's mixture of kinds.

T may still have a Gaussian spread tau inside an entry, which makes the pooled and vectorized laws exact with one entry per
class. A `Population` keeps the classes apart, for averages; `Nodes` join them, for the fixed point. Labels that were flipped
are entries of the training under the other label.

Laws are made from Python floats or, for derivatives, from JAX scalars; only the whole numbers L and R are never traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import namespace
from ..task import BagKind, Task
from .bag_statistics import Activation, statistics_of_classes
from .draws import CACHE_BYTES, LEAST_POINTS, TokenDraws, bytes_of_draws, draw_blocks, token_draws


class ClassColumns(NamedTuple):
    """Values of one class, arrays (replicates, entries)."""

    T: Any
    S: Any
    kappa: Any
    tau: Any
    weight: Any
    offset: Any


@dataclass(frozen=True, eq=False)
class Population:
    """The law of (T, S, kappa) given the class."""

    positive: ClassColumns
    negative: ClassColumns
    prevalence: Any
    label_noise: float = 0.0
    training_share: Any = None

    @property
    def replicates(self) -> int:
        """Number of independent replicates."""
        return len(self.positive.T)

    def classes(self) -> tuple[tuple[float, Any, ClassColumns], ...]:
        """(label, probability, columns) of both classes: what fresh bags are tested on."""
        return (1.0, self.prevalence, self.positive), (-1.0, 1.0 - self.prevalence, self.negative)

    def training(self) -> tuple[tuple[float, Any, ClassColumns], ...]:
        """(label seen, probability, columns) of the training set; bags of each class under both labels where some are
        flipped."""
        if not self.label_noise:
            share = self.prevalence if self.training_share is None else self.training_share
            return (1.0, share, self.positive), (-1.0, 1.0 - share, self.negative)
        kept, flipped = 1.0 - self.label_noise, self.label_noise
        as_positive = self.prevalence * kept, (1.0 - self.prevalence) * flipped
        as_negative = self.prevalence * flipped, (1.0 - self.prevalence) * kept
        up = down = 1.0
        if self.training_share is not None:  # given the observed label, the bag does not depend on the share
            up = self.training_share / sum(as_positive)
            down = (1.0 - self.training_share) / sum(as_negative)
        return (
            (1.0, up * as_positive[0], self.positive),
            (1.0, up * as_positive[1], self.negative),
            (-1.0, down * as_negative[0], self.positive),
            (-1.0, down * as_negative[1], self.negative),
        )

    def mapped(self, change: Callable[[ClassColumns], ClassColumns]) -> Population:
        """With the values of both classes changed alike."""
        return replace(self, positive=change(self.positive), negative=change(self.negative))

    def as_tested(self) -> Population:
        """The same bags with their true labels at the true prevalence."""
        return replace(self, label_noise=0.0, training_share=None)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Both classes together, arrays (replicates, nodes)."""

    y: Any
    T: Any
    S: Any
    kappa: Any
    tau: Any
    weight: Any
    offset: Any

    def leaves(self) -> tuple:
        """The arrays, in the order of the fields."""
        return (self.y, self.T, self.S, self.kappa, self.tau, self.weight, self.offset)


def nodes_of(population: Population) -> Nodes:
    """The entries of the training set as nodes of the fixed point, weights times probabilities (NumPy or JAX arrays)."""
    xp = namespace(population.positive.T, population.prevalence)
    parts: list[list[Any]] = [[] for _ in Nodes.__dataclass_fields__]
    for label, probability, columns in population.training():
        T, S, kappa, tau, weight, offset = columns
        values = (xp.full(T.shape, label), T, S, kappa, tau, probability * weight, offset)
        for part, v in zip(parts, values):
            part.append(v if v.shape == T.shape else xp.broadcast_to(v, T.shape))
    return Nodes(*(xp.concatenate(part, axis=1) for part in parts))


def gaussian_population(prevalence, mean_positive, S_positive, kappa: float) -> Population:
    """One exact entry per class: T = mean_positive 1{y=+1} + kappa g, S = S_positive 1{y=+1}, the same kappa for both."""
    xp = namespace(prevalence, mean_positive, S_positive)

    def columns(T, S) -> ClassColumns:
        return ClassColumns(*(xp.full((1, 1), v) for v in (T, S, kappa, kappa, 1.0, 0.5)))

    return Population(columns(mean_positive, S_positive), columns(0.0, 0.0), prevalence)


def drawn_population(
    draws: TokenDraws,
    length: int,
    prevalence,
    strength,
    cosine,
    sharpness,
    activation: Activation | None = None,
    shared: float = 0.0,
) -> Population:
    """The population of (T, S, kappa) of drawn bags, both classes on the same tokens."""
    classes = statistics_of_classes(draws, length, strength, cosine, sharpness, activation, shared)
    equal = np.full((1, 1), 1.0 / draws.offset.shape[1])
    positive, negative = (ClassColumns(*values, np.zeros((1, 1)), equal, draws.offset) for values in classes)
    return Population(positive, negative, prevalence)


def attended_population(
    kind: BagKind,
    prevalence,
    cosine,
    sharpness,
    activation: Activation | None = None,
    *,
    draws: TokenDraws | None = None,
    points: int = 0,
    shared: float = 0.0,
) -> Population:
    """Attention with a query of cosine gamma and inverse temperature k, on given draws or on `points` of them."""
    length, sparsity, strength, _ = kind
    setting = (length, prevalence, strength, cosine, sharpness, activation)
    common = shared > 0
    # Draws that fit next to each other in the cache are used, and kept, as a whole; larger ones pass a piece at a time.
    if draws is None and bytes_of_draws(length, sparsity, points) <= CACHE_BYTES // 3:
        draws = token_draws(length, sparsity, points, ordered=True, common=common)
    if draws is not None:
        return drawn_population(draws, *setting, shared)
    rows = [
        _joined([drawn_population(piece, *setting, shared) for piece in replicate], 1)
        for replicate in draw_blocks(length, sparsity, points, common)
    ]
    return _joined(rows, 0)


def own_noise(task: Task) -> float:
    """sqrt(1 - rho), the size of a token's individual noise."""
    return (1.0 - task.correlation) ** 0.5


def population_of(
    task: Task,
    single: Callable[[BagKind], Population],
    kinds: Sequence[BagKind] | None = None,
    *,
    shared_noise: bool = True,
) -> Population:
    """A task's mixture of kinds of bags; `shared_noise`: whether the tokens' shared noise is still to be added."""
    Task.require(task)
    rest, contaminated = own_noise(task), task.contamination
    scaled = [kind if rest == 1.0 else kind._replace(strength=kind.strength / rest) for kind in kinds or task.kinds]
    parts = [(kind.probability, single(kind)) for kind in scaled]
    positive = _side_by_side([(p, part.positive) for p, part in parts])
    negative = _side_by_side([(p, part.negative) for p, part in parts])
    if contaminated:
        negative = _side_by_side([(1.0 - contaminated, negative), (contaminated, positive)])
    mixed = Population(positive, negative, parts[0][1].prevalence, task.label_noise)
    return _with_shared_noise(mixed, task.correlation) if shared_noise and task.correlation else mixed


def vectorized_mixture(task: Task, prevalence: Any, kinds: Sequence[BagKind] | None = None) -> Population:
    """All L d coordinates: kappa = 1, T = theta R/sqrt(L) 1{y=+1} + g, in dimension L d; one length, independent tokens."""

    def single(kind: BagKind) -> Population:
        L, R, theta, _ = kind
        return gaussian_population(prevalence, theta * R / L**0.5, 0.0 * theta, 1.0)

    return population_of(task, single, kinds)


def uniform_attention_mixture(
    task: Task, prevalence: Any, cosine: Any, level: float = 1.0, kinds: Sequence[BagKind] | None = None
) -> Population:
    """`level` times the mean of the tokens: pooling, with gamma = 1, and attention whose weights do not see the tokens."""

    def single(kind: BagKind) -> Population:
        L, R, theta, _ = kind
        xp, mean = namespace(theta, prevalence, cosine), theta * R / L
        return gaussian_population(prevalence, cosine * mean, mean * xp.sqrt(xp.maximum(1.0 - cosine**2, 0.0)), L**-0.5)

    mixed = population_of(task, single, kinds)
    return mixed if level == 1.0 else _scaled(mixed, level)


def attended_mixture(
    task: Task,
    prevalence: Any,
    cosine: Any,
    sharpness: Any,
    activation: Activation | None = None,
    points: int = 0,
    *,
    draws: Sequence[TokenDraws] | None = None,
    kinds: Sequence[BagKind] | None = None,
) -> Population:
    """`attended_population` of every kind of bags of a task, each with its share of the draws."""
    rho, rest = task.correlation, own_noise(task)
    k = sharpness * rest  # in units of a token's own noise
    tokens_of_kinds: Sequence[TokenDraws | None] = draws or [None] * len(task.kinds)
    counts = points_of_kinds(task, points) if points else [0] * len(task.kinds)
    source = iter(zip(tokens_of_kinds, counts, strict=True))
    elementwise = activation is not None
    shared = rho**0.5 / rest if elementwise else 0.0

    def single(kind: BagKind) -> Population:
        tokens, count = next(source)
        return attended_population(kind, prevalence, cosine, k, activation, draws=tokens, points=count, shared=shared)

    if not elementwise or not rho:
        return population_of(task, single, kinds)
    # The shared noise is in T and in kappa already (`drawn_population`): what is left is the size of a token's own noise.
    return _scaled(population_of(task, single, kinds, shared_noise=False), rest)


def _scaled(population: Population, factor: float) -> Population:
    """The population with all features `factor` times as large."""
    size = abs(factor)
    return population.mapped(
        lambda c: c._replace(T=factor * c.T, S=factor * c.S, kappa=size * c.kappa, tau=size * c.tau)
    )


def points_of_kinds(task: Task, points: int) -> list[int]:
    """Draws per replicate of each kind of bags, powers of two: about `points` in all."""
    if len(task.kinds) == 1:
        return [points]
    wanted = [max(LEAST_POINTS, kind.probability * points) for kind in task.kinds]
    return [min(points, 1 << int(np.ceil(np.log2(count)))) for count in wanted]


def draws_of_kinds(task: Task, points: int, elementwise: bool = False) -> list[TokenDraws]:
    """Each kind's tokens, for `attended_mixture`."""
    common = elementwise and task.correlation > 0
    return [
        token_draws(kind.length, kind.sparsity, count, ordered=True, common=common)
        for kind, count in zip(task.kinds, points_of_kinds(task, points))
    ]


def _joined(parts: list[Population], axis: int) -> Population:
    """Populations of equally weighted draws, one behind the other: further draws (axis 1) or further replicates (axis 0)."""

    def columns(pieces: list[ClassColumns]) -> ClassColumns:
        T, S, kappa, offset = (
            np.concatenate([np.broadcast_to(getattr(piece, name), piece.T.shape) for piece in pieces], axis=axis)
            for name in ("T", "S", "kappa", "offset")
        )
        return ClassColumns(T, S, kappa, np.zeros((1, 1)), np.full((1, 1), 1.0 / T.shape[1]), offset)

    positive, negative = (columns([getattr(p, label) for p in parts]) for label in ("positive", "negative"))
    return Population(positive, negative, parts[0].prevalence)


def _side_by_side(parts: Sequence[tuple[float, ClassColumns]]) -> ClassColumns:
    if len(parts) == 1:
        return parts[0][1]
    xp = namespace(*(columns.T for _, columns in parts), *(columns.kappa for _, columns in parts))

    def joined(name: str) -> Any:
        values = [(p if name == "weight" else 1.0) * xp.asarray(getattr(columns, name)) for p, columns in parts]
        return xp.concatenate([xp.broadcast_to(v, c.T.shape) for v, (_, c) in zip(values, parts)], axis=1)

    return ClassColumns(*(joined(name) for name in ClassColumns._fields))


def _with_shared_noise(population: Population, correlation: float) -> Population:
    """The population of bags whose tokens share noise that their weights do not see, from that of bags without it, of strength
    theta/sqrt(1 - rho) and sharpness k sqrt(1 - rho)."""
    rest = 1.0 - correlation

    def columns(c: ClassColumns) -> ClassColumns:
        xp = namespace(c.T, c.kappa)

        def spread(v):
            return xp.sqrt(correlation + rest * xp.asarray(v) ** 2)

        return c._replace(T=rest**0.5 * c.T, S=rest**0.5 * c.S, kappa=spread(c.kappa), tau=spread(c.tau))

    return population.mapped(columns)
