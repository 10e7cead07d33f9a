"""How a law of (y, T, S, kappa) is held: weighted entries, in independent replicates for error bars.

T may still have a Gaussian spread tau inside an entry, which makes the pooled and vectorized laws exact with one entry a
class. A `Population` keeps the classes apart, for averages; `Nodes` join them, for the fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from .._core.arrays import namespace


class ClassColumns(NamedTuple):
    """Values of one class, arrays (replicates, entries); weights sum to 1 in each replicate.

    T      coordinate of the feature along the query's direction
    S      coordinate along u, the part of the signal's direction orthogonal to the query
    kappa  size of the isotropic rest
    tau    Gaussian spread that T still has inside an entry (zero for drawn entries)
    offset in (0, 1): shift of the quadrature over the readout noise at the entry
    """

    T: Any
    S: Any
    kappa: Any
    tau: Any
    weight: Any
    offset: Any

    @property
    def replicates(self) -> int:
        return self.T.shape[0]

    def average(self, values) -> Any:
        """Weighted mean of `values` over the entries of each replicate."""
        return (self.weight * values).sum(-1)


@dataclass(frozen=True, eq=False)
class Population:
    """The law of (T, S, kappa) given the class, and the prevalence pi = P(y = +1)."""

    positive: ClassColumns
    negative: ClassColumns
    prevalence: Any

    @property
    def replicates(self) -> int:
        return self.positive.replicates

    def classes(self) -> tuple[tuple[float, Any, ClassColumns], ...]:
        """(label, probability, columns) of both classes."""
        return (1.0, self.prevalence, self.positive), (-1.0, 1.0 - self.prevalence, self.negative)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Both classes together: arrays (replicates, nodes); weights sum to 1 in each replicate."""

    y: Any
    T: Any
    S: Any
    kappa: Any
    tau: Any
    weight: Any
    offset: Any

    def leaves(self) -> tuple:
        return (self.y, self.T, self.S, self.kappa, self.tau, self.weight, self.offset)


jax.tree_util.register_pytree_node(Nodes, lambda n: (n.leaves(), None), lambda _, leaves: Nodes(*leaves))


def nodes_of(population: Population) -> Nodes:
    """The population's entries as nodes of the fixed point, weights times class probabilities."""
    xp = namespace(population.positive.T, population.prevalence)
    parts: list[list[Any]] = [[] for _ in Nodes.__dataclass_fields__]
    for label, probability, columns in population.classes():
        T, S, kappa, tau, weight, offset = columns
        for part, values in zip(parts, (label, T, S, kappa, tau, probability * weight, offset)):
            part.append(xp.broadcast_to(xp.asarray(values), T.shape))
    return Nodes(*(xp.concatenate(part, axis=1) for part in parts))


def gaussian_population(prevalence, mean_positive, S_positive, kappa: float, tau: float) -> Population:
    """One exact entry a class: T = mean_positive 1{y=+1} + tau g, S = S_positive 1{y=+1}, the same kappa for both."""
    xp = namespace(prevalence, mean_positive, S_positive)

    def columns(T, S) -> ClassColumns:
        return ClassColumns(*(xp.full((1, 1), v) for v in (T, S, kappa, tau, 1.0, 0.5)))

    return Population(columns(mean_positive, S_positive), columns(0.0, 0.0), prevalence)
