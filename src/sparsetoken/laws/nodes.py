"""How a law of (y, T, S, kappa) is held: weighted entries, in independent replicates for error bars.

T may still have a Gaussian spread tau inside an entry, which makes the pooled and vectorized laws exact with one entry per
class. A `Population` keeps the classes apart, for averages; `Nodes` join them, for the fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .._core.arrays import namespace


class ClassColumns(NamedTuple):
    """Values of one class, arrays (replicates, entries).

    Attributes
    ----------
    T : array
        Coordinate of the feature along the query's direction.
    S : array
        Coordinate along u, the part of the signal's direction orthogonal to the query.
    kappa : array
        Size of the isotropic rest.
    tau : array
        Gaussian spread that T still has inside an entry (zero for drawn entries).
    weight : array
        Weights of the entries; they sum to 1 in each replicate.
    offset : array
        In (0, 1): shift of the quadrature over the readout noise at the entry.
    """

    T: Any
    S: Any
    kappa: Any
    tau: Any
    weight: Any
    offset: Any

    @property
    def replicates(self) -> int:
        """Number of independent replicates."""
        return self.T.shape[0]

    def average(self, values) -> Any:
        """Weighted mean of `values` over the entries of each replicate."""
        return (self.weight * values).sum(-1)


@dataclass(frozen=True, eq=False)
class Population:
    """The law of (T, S, kappa) given the class.

    Attributes
    ----------
    positive, negative : ClassColumns
        The entries of each class.
    prevalence : float
        pi = P(y = +1).
    """

    positive: ClassColumns
    negative: ClassColumns
    prevalence: Any

    @property
    def replicates(self) -> int:
        """Number of independent replicates."""
        return self.positive.replicates

    def classes(self) -> tuple[tuple[float, Any, ClassColumns], ...]:
        """(label, probability, columns) of both classes."""
        return (1.0, self.prevalence, self.positive), (-1.0, 1.0 - self.prevalence, self.negative)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Both classes together, arrays (replicates, nodes).

    Attributes
    ----------
    y : array
        The label, -1 or +1.
    T, S, kappa, tau, offset : array
        As in `ClassColumns`.
    weight : array
        Class probability times the entry's weight; they sum to 1 in each replicate.
    """

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
    """The population's entries as nodes of the fixed point, weights times class probabilities (NumPy or JAX arrays)."""
    xp = namespace(population.positive.T, population.prevalence)
    parts: list[list[Any]] = [[] for _ in Nodes.__dataclass_fields__]
    for label, probability, columns in population.classes():
        T, S, kappa, tau, weight, offset = columns
        for part, values in zip(parts, (label, T, S, kappa, tau, probability * weight, offset)):
            part.append(xp.broadcast_to(xp.asarray(values), T.shape))
    return Nodes(*(xp.concatenate(part, axis=1) for part in parts))


def gaussian_population(prevalence, mean_positive, S_positive, kappa: float, tau: float) -> Population:
    """One exact entry per class: T = mean_positive 1{y=+1} + tau g, S = S_positive 1{y=+1}, the same kappa for both.

    Parameters
    ----------
    prevalence : float
        pi.
    mean_positive, S_positive : float
        Mean of T, and S, of a positive bag; differentiable when JAX numbers.
    kappa, tau : float
        Size of the isotropic rest, and deviation of T.

    Returns
    -------
    Population
        One replicate: averages over it are exact.
    """
    xp = namespace(prevalence, mean_positive, S_positive)

    def columns(T, S) -> ClassColumns:
        return ClassColumns(*(xp.full((1, 1), v) for v in (T, S, kappa, tau, 1.0, 0.5)))

    return Population(columns(mean_positive, S_positive), columns(0.0, 0.0), prevalence)
