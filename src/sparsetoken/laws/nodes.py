"""How a law of (y, T, S, kappa) is held: weighted entries, in independent replicates for error bars.

T may still have a Gaussian spread tau inside an entry, which makes the pooled and vectorized laws exact with one entry per
class. A `Population` keeps the classes apart, for averages; `Nodes` join them, for the fixed point.
Bags of several kinds are entries of several kinds (`mixed_population`), and labels that were flipped are entries of the
training under the other label.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .._core.arrays import namespace

ROUNDING = 1e-12  # relative size of rounding errors


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


def mixed_population(
    parts: Sequence[tuple[float, Population]], contamination: float = 0.0, label_noise: float = 0.0
) -> Population:
    """Bags of several kinds."""
    prevalence = parts[0][1].prevalence
    positive = _side_by_side([(p, part.positive) for p, part in parts])
    negative = _side_by_side([(p, part.negative) for p, part in parts])
    if contamination:
        negative = _side_by_side([(1.0 - contamination, negative), (contamination, positive)])
    return Population(positive, negative, prevalence, label_noise)


def _side_by_side(parts: Sequence[tuple[float, ClassColumns]]) -> ClassColumns:
    if len(parts) == 1:
        return parts[0][1]
    xp = namespace(*(columns.T for _, columns in parts), *(columns.kappa for _, columns in parts))

    def joined(name: str) -> Any:
        values = [(p if name == "weight" else 1.0) * xp.asarray(getattr(columns, name)) for p, columns in parts]
        return xp.concatenate([xp.broadcast_to(v, c.T.shape) for v, (_, c) in zip(values, parts)], axis=1)

    return ClassColumns(*(joined(name) for name in ClassColumns._fields))


def with_shared_noise(population: Population, correlation: float) -> Population:
    """The population of bags whose tokens share noise that their weights do not see, from that of bags without it, of strength
    theta/sqrt(1 - rho) and sharpness k sqrt(1 - rho)."""
    if not correlation:
        return population
    rest = 1.0 - correlation

    def columns(c: ClassColumns) -> ClassColumns:
        xp = namespace(c.T, c.kappa)

        def spread(v):
            return xp.sqrt(correlation + rest * xp.asarray(v) ** 2)

        return c._replace(T=rest**0.5 * c.T, S=rest**0.5 * c.S, kappa=spread(c.kappa), tau=spread(c.tau))

    return population.mapped(columns)
