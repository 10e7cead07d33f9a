"""Coloured noise: tokens theta v_l xi + Sigma^{1/2} z_l, seen by attention with a query that is independent of the bags.

In the eigenbasis of Sigma everything is a sum over eigenvalues s_j with weights of the signal and the query on them: xi_j^2,
q_j xi_j and q_j^2. A bag's feature f = T a + S xi + kappa Sigma'^{1/2} z is that above Eq. (20) of docs/theory.md; unlike in
`laws.law`, T is the noise alone and S the signal as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.arrays import ROUNDING
from .._core.validation import real_number, rejection
from ..activations import get_activation
from ..task import Task
from .bag_statistics import Activation
from .law import FIRST_POINTS, Law, SampledLaw, attention_law, elementwise_law, pooled_law
from .populations import Nodes, Population, attended_population, nodes_of
from .signals import real_array


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The noise's covariance by its eigenvalues, and the signal's coordinates in its eigenbasis; made by `Spectrum.of`.

    Attributes
    ----------
    eigenvalues : ndarray (d,)
        s_j >= 0.
    direction : ndarray (d,)
        xi_j, a unit vector.
    basis : ndarray (d, d), optional
        The eigenvectors as columns; None where everything is given in the eigenbasis.
    """

    eigenvalues: np.ndarray
    direction: np.ndarray
    basis: np.ndarray | None = field(default=None, repr=False)

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.eigenvalues)

    @property
    def signal(self) -> np.ndarray:
        """xi_j^2, the signal's weights on the eigenvalues."""
        return self.direction**2

    @classmethod
    def of(cls, covariance: Any, signal: Any = None) -> Spectrum:
        """The spectrum of a covariance.

        Parameters
        ----------
        covariance : array (d, d) or (d,)
            A covariance matrix, or its eigenvalues.
        signal : array (d,), optional
            The signal's direction, of any length: in the coordinates of the matrix, or in the eigenbasis where eigenvalues
            are given. Spread evenly over the eigenvalues when not given.
        """
        values = real_array("covariance", covariance)
        basis = None
        if values.ndim == 2 and values.shape[0] == values.shape[1]:
            size = np.abs(values).max(initial=0.0)
            if not np.allclose(values, values.T, rtol=0.0, atol=1e-8 * size):
                raise ValueError("covariance must be symmetric")
            values, basis = np.linalg.eigh(values)
            values = np.where(np.abs(values) <= ROUNDING * size, np.maximum(values, 0.0), values)
        elif values.ndim != 1:
            raise ValueError(f"covariance must be a square matrix or a list of eigenvalues, got shape {values.shape}")
        if (values < 0).any() or (values > 0).sum() < 2:
            raise ValueError("covariance must have no negative eigenvalue and at least two positive ones")
        if signal is None:
            return cls(values, np.full(len(values), len(values) ** -0.5), basis)
        direction = _in_basis("signal", signal, len(values), basis)
        return cls(values, direction / np.linalg.norm(direction), basis)

    @classmethod
    def from_bags(cls, bags: Any, signal: Any = None, shrinkage: float | None = None) -> Spectrum:
        """The spectrum of bags without the signal, estimated from their tokens.

        Eigenvalues of a sample covariance are spread too widely, and therefore shrunk towards their mean mu,
        (1 - rho) s_j + rho mu, with the rho of least expected squared error for independent tokens (Ledoit and Wolf 2004). This
        removes most of the excess spread, and less where tokens of one bag are correlated: with fewer than about 10 d tokens,
        check the results with `simulate`.

        Parameters
        ----------
        bags : Bags, list of arrays (n_i, d), or array (N, d)
            Bags without the signal, or all their tokens.
        signal : array (d,), optional
            The signal's direction, in the coordinates of the tokens; spread evenly over the eigenvalues when not given.
        shrinkage : float, optional
            rho, from 0 (the sample covariance) to 1; estimated when not given.
        """
        from sklearn.covariance import ledoit_wolf_shrinkage, shrunk_covariance

        tokens = getattr(bags, "tokens", bags)
        if isinstance(tokens, list | tuple):
            tokens = np.concatenate([real_array("bags", bag) for bag in tokens])
        x = real_array("bags", tokens)
        x = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x
        if x.ndim != 2 or len(x) < 3:
            raise ValueError(f"bags must hold at least three tokens of several features, got shape {x.shape}")
        x = x - x.mean(axis=0)
        rho = ledoit_wolf_shrinkage(x, True) if shrinkage is None else real_number("shrinkage", shrinkage, 0.0, 1.0)
        return cls.of(shrunk_covariance(x.T @ x / len(x), rho), signal)

    def query(self, direction: Any) -> Query:
        """The weights of a query given as a vector with its length, in the coordinates that the signal was given in."""
        q = _in_basis("query", direction, self.dimension, self.basis)
        return Query(q * self.direction, q**2)


def spectrum_of(covariance: Any, signal: Any = None, dimension: int | None = None) -> Spectrum:
    """A Spectrum from a covariance: a matrix, its eigenvalues, a Spectrum (which includes a signal), or "power:a", which has
    `dimension` eigenvalues, by default as many as the signal has coordinates, or 1000."""
    if isinstance(covariance, Spectrum):
        if signal is not None:
            raise ValueError("signal must not be given together with a Spectrum, which has its own signal")
        return covariance
    if isinstance(covariance, str):
        covariance = power_spectrum(covariance, dimension or (1000 if signal is None else len(signal)))
    return Spectrum.of(covariance, signal)


def power_spectrum(text: str, dimension: int) -> np.ndarray:
    """Eigenvalues proportional to j^-a, j = 1 .. d, with mean 1."""
    name, _, exponent = text.partition(":")
    if name != "power":
        raise rejection("covariance", text, "a matrix, a list of eigenvalues, a Spectrum or 'power:a'")
    try:
        number = float(exponent)
    except ValueError:
        raise rejection("the exponent of covariance 'power:a'", exponent, "a number >= 0") from None
    values = np.arange(1.0, dimension + 1) ** -real_number("the exponent of covariance 'power:a'", number, 0.0)
    return values / values.mean()


def _in_basis(name: str, vector: Any, dimension: int, basis: np.ndarray | None) -> np.ndarray:
    coordinates = real_array(name, vector)
    if coordinates.shape != (dimension,) or not coordinates.any():
        raise ValueError(f"{name} must have {dimension} coordinates, not all zero, got shape {coordinates.shape}")
    return coordinates if basis is None else basis.T @ coordinates


@dataclass(frozen=True, eq=False)
class Query:
    """A query's weights on the eigenvalues, those of a vector (`Spectrum.query`) or their limits (`coloured_alignment`).

    Attributes
    ----------
    cross, square : ndarray (d,)
        q_j xi_j and q_j^2.
    """

    cross: np.ndarray
    square: np.ndarray

    @property
    def norm(self) -> float:
        """||q||."""
        return float(np.sqrt(self.square.sum()))

    @property
    def overlap(self) -> float:
        """<q, xi>."""
        return float(self.cross.sum())


@dataclass(frozen=True, eq=False)
class ColouredLaw(SampledLaw[tuple[Population, Nodes]]):
    """The law of (T, S, kappa) of the module's text; made by `coloured_law`.

    Attributes
    ----------
    task, spectrum, query, beta, activation
        As in `coloured_law`.
    name : str
        What the law is called.
    training_share : float, optional
        Share of positives among the readout's bags, where it is not the prevalence.
    """

    task: Task
    spectrum: Spectrum
    query: Query
    beta: float
    activation: Activation | None = None
    name: str = "coloured"
    training_share: float | None = None
    first_points = FIRST_POINTS

    @property
    def prevalence(self) -> float:
        """pi = P(y = +1)."""
        return self.task.prevalence

    @property
    def sharpness(self) -> float:
        """k = beta ||q||."""
        return self.beta * self.query.norm

    @property
    def spread(self) -> float:
        """sigma_q, the noise along the query."""
        return float(np.sqrt(self.spectrum.eigenvalues @ self.query.square))

    def elsewhere(self, task: Task, sharpness: float | None = None) -> ColouredLaw:
        beta = self.beta if sharpness is None else sharpness / (self.query.norm or 1.0)
        return coloured_law(task, self.spectrum, self.query, beta, self.activation)

    def _make(self, points: int) -> tuple[Population, Nodes]:
        """From the population of white noise along the query: at strength sqrt(2) |shift| and cosine +-1/sqrt(2), T has the
        right shift and S is |shift| times the mass on signal tokens."""
        kind, spread = self.task.only_kind("coloured noise"), self.spread
        shift = kind.strength * self.query.overlap / spread  # the signal's size in units of the noise along the query
        size, cosine = (np.sqrt(2.0) * abs(shift), np.sign(shift) / np.sqrt(2.0)) if shift else (1.0, 0.0)
        white = kind._replace(strength=size)
        drawn = attended_population(white, self.prevalence, cosine, self.beta * spread, self.activation, points=points)
        mass = drawn.positive.S / (abs(shift) if shift else 1.0)
        positive = drawn.positive._replace(T=drawn.positive.T - shift * mass, S=kind.strength * mass)
        population = Population(positive, drawn.negative, self.prevalence, training_share=self.training_share)
        return population, nodes_of(population)


def coloured_law(
    task: Task,
    spectrum: Spectrum,
    query: Query,
    beta: float = 1.0,
    activation: str | Activation | None = None,
) -> ColouredLaw:
    """The law of attention in coloured noise.

    Eq. (20) of docs/theory.md.

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    spectrum : Spectrum
        Eigenvalues and the signal's coordinates.
    query : Query
        The query's weights, from `Spectrum.query` or `coloured_alignment`.
    beta : float
        Inverse temperature. Zero is pooling, whatever the query.
    activation : str or callable, optional
        sigma of elementwise attention, f = (1/L) sum_l sigma(beta <x_l, q>) x_l; softmax when not given.
    """
    Task.require(task)
    beta = real_number("beta", beta, 0.0)
    if not isinstance(query, Query):
        raise rejection("query", query, "a Query, from Spectrum.query or coloured_alignment")
    for name, weights in (("cross", query.cross), ("square", query.square)):
        if np.shape(weights) != (spectrum.dimension,):
            raise ValueError(
                f"query.{name} must have one entry per eigenvalue ({spectrum.dimension}), got {np.shape(weights)}"
            )
    if (query.square < 0).any() or (query.cross**2 > query.square * spectrum.signal * (1 + 1e-9)).any():
        raise ValueError(
            "query must have weights of a vector: cross^2 at most square times the signal's weight, everywhere"
        )
    task.only_kind("coloured noise")
    law = ColouredLaw(task, spectrum, query, beta, None if activation is None else get_activation(activation))
    if not law.spread > 0:
        raise ValueError("query must have noise along it: q^T Sigma q must be positive")
    return law


def whitened_law(law: ColouredLaw) -> Law:
    """The law of tokens times Sigma^{-1/2}, in white noise: separability, and the readout without a ridge, are the same."""
    s, query = law.spectrum.eigenvalues, law.query
    if not s.min() > 0:
        raise ValueError(
            "covariance must have positive eigenvalues for capacity and ridge 0: a signal without noise separates all bags"
        )
    gain = float(np.sqrt((law.spectrum.signal / s).sum()))
    task = law.task.at_strength(law.task.mean_strength * gain)
    if law.beta == 0 and law.activation is None:
        return pooled_law(task)
    cosine = float(np.clip(query.overlap / (law.spread * gain), -1.0, 1.0))
    if law.activation is not None:
        return elementwise_law(task, cosine, law.beta * law.spread, law.activation)
    return attention_law(task, cosine, law.beta * law.spread)
