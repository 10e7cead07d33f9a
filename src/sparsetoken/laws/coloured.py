"""Coloured noise: tokens theta v_l xi + Sigma^{1/2} z_l, seen by attention with a query that is independent of the bags.

In the eigenbasis of Sigma everything is a sum over eigenvalues s_j with weights of the signal and the query on them: xi_j^2,
q_j xi_j and q_j^2. With sigma_q^2 = q^T Sigma q, the noise coordinate t_l of a token along the query and
p = softmax(beta (sigma_q t + theta v <xi, q>)), a bag's feature is

    f = T a + S xi + kappa Sigma'^{1/2} z,    a = Sigma q/sigma_q,   Sigma' = Sigma - a a^T
    T = sum p_l t_l,   S = theta sum over signal tokens of p_l,   kappa^2 = sum p_l^2

In white noise a = qhat and Sigma' projects on the space orthogonal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import real_number
from ..task import Task
from .draws import token_draws
from .law import FIRST_POINTS, Law
from .nodes import ClassColumns, Population
from .statistics import softmax_population


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of the noise's covariance, and the signal's weights on them.

    Attributes
    ----------
    eigenvalues : ndarray (d,)
        s_j > 0.
    signal : ndarray (d,)
        xi_j^2, summing to 1.
    """

    eigenvalues: np.ndarray
    signal: np.ndarray

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.eigenvalues)

    @classmethod
    def of(cls, covariance: Any, signal: Any = None) -> Spectrum:
        """The spectrum of a covariance.

        Parameters
        ----------
        covariance : array (d, d) or (d,)
            A covariance matrix, or its eigenvalues.
        signal : array (d,), optional
            The signal's direction: in the coordinates of the matrix, or in the eigenbasis where eigenvalues are given. Spread
            evenly over the eigenvalues when not given.

        Returns
        -------
        Spectrum
        """
        try:
            given = np.array(covariance, dtype=float)
        except (TypeError, ValueError):
            raise ValueError("covariance must be a matrix or a list of eigenvalues") from None
        if given.ndim == 2 and given.shape[0] == given.shape[1]:
            if not np.allclose(given, given.T, rtol=1e-8, atol=1e-10 * np.abs(given).max(initial=0.0)):
                raise ValueError("covariance must be symmetric")
            values, basis = np.linalg.eigh(given)
        elif given.ndim == 1:
            values, basis = given, None
        else:
            raise ValueError(f"covariance must be a square matrix or a list of eigenvalues, got shape {given.shape}")
        if len(values) < 2 or not np.isfinite(values).all() or (values <= 0).any():
            raise ValueError("covariance must have at least two eigenvalues, all positive and finite")
        if signal is None:
            weights = np.full(len(values), 1.0 / len(values))
        else:
            direction = np.asarray(signal, dtype=float)
            if direction.shape != values.shape or not np.isfinite(direction).all() or not (direction != 0).any():
                raise ValueError(f"signal must be a direction with {len(values)} finite coordinates, not all zero")
            direction = direction if basis is None else basis.T @ direction
            weights = direction**2 / (direction @ direction)
        return cls(values, weights)


@dataclass(frozen=True, eq=False)
class Query:
    """A query's weights on the eigenvalues: `cross` = q_j xi_j and `square` = q_j^2, both (d,)."""

    cross: np.ndarray
    square: np.ndarray


def coloured_law(task: Task, spectrum: Spectrum, query: Query, beta: float = 1.0) -> Law:
    """The law of (T, S, kappa) of attention in coloured noise; `Law.parameters` holds spectrum and query for the solver.

    Parameters
    ----------
    task : Task
        Length, sparsity, strength and prevalence.
    spectrum : Spectrum
        Eigenvalues and the signal's weights.
    query : Query
        The query's weights.
    beta : float
        Inverse temperature.

    Returns
    -------
    Law
    """
    beta = real_number("beta", beta, 0.0)
    theta, pi, L, R = task.strength, task.prevalence, task.length, task.sparsity
    spread = float(np.sqrt(spectrum.eigenvalues @ query.square))
    shift = theta * float(query.cross.sum()) / spread  # the signal's size in units of the noise along the query

    def make(points: int) -> Population:
        # At strength sqrt(2) |shift| and cosine +-1/sqrt(2), T has the right shift and S/|shift| is the mass on signal tokens.
        size = np.sqrt(2.0) * abs(shift) if shift else 1.0
        cosine = np.sign(shift) / np.sqrt(2.0)
        found = softmax_population(token_draws(L, R, points), pi, size, cosine, beta * spread)
        mass = found.positive.S / (abs(shift) if shift else 1.0)
        positive = found.positive._replace(T=found.positive.T - shift * mass, S=theta * mass)
        return Population(ClassColumns(*positive), found.negative, pi)

    return Law(make, pi, FIRST_POINTS, "coloured", {"spectrum": spectrum, "query": query, "beta": beta})
