"""The populations of (T, S, kappa) behind the laws: of bags of one kind, and of a task's mixture of kinds.

They run on Python floats or, for derivatives, on JAX scalars: everything but the whole numbers L and R may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core.arrays import namespace
from ..task import BagKind, Task
from .bag_statistics import Activation, drawn_population
from .draws import CACHE_BYTES, LEAST_POINTS, TokenDraws, bytes_of_draws, draw_blocks, token_draws
from .nodes import ClassColumns, Population, gaussian_population, mixed_population, with_shared_noise


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
    """A task's mixture of kinds of bags."""
    Task.require(task)
    rest = own_noise(task)
    scaled = [kind if rest == 1.0 else kind._replace(strength=kind.strength / rest) for kind in kinds or task.kinds]
    parts = [(kind.probability, single(kind)) for kind in scaled]
    mixed = mixed_population(parts, task.contamination, task.label_noise)
    return with_shared_noise(mixed, task.correlation if shared_noise else 0.0)


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
