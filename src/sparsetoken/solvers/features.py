"""What the solver asks of a feature matrix X (samples x features), wherever it is kept.

Two precisions: Newton directions may be inexact, so products with the Hessian and its factors are taken from a
single-precision copy of X until `be_exact` is called, and so may the changes of outputs and gradient that a step makes. Where
outputs and gradient are to be known as such they are summed in double precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Solve = Callable[[np.ndarray], np.ndarray]
Pulls = Callable[[np.ndarray, slice], np.ndarray]

# What a factorisation costs however few the features, in products: rows are scaled one by one, and the Gram matrix of few
# columns is made at a fraction of the speed. In single precision the whole takes 8 products on 10,000 x 50 and 6 on 15,000 x 20
# (one BLAS thread, X in the cache). Work on the 32 problems of `newton_cg`: 3 1.02, 4 1.02, 5 1, 6 1.02.
FACTOR_OVERHEAD = 5.0
# A Gram matrix whose Cholesky pivots fall below this share of the largest one is too nearly singular: with pivots p, the
# condition number is about p^-2, and at 1e-5 a solution still has five digits for refinement to start from.
LEAST_PIVOT = 1e-5
# A column that differs from its mean by no more than this share of it is constant: what is left are rounding errors of the
# mean, a sum of n products.
CONSTANT = 64 * float(np.finfo(np.float64).eps)


class NotPositiveError(ArithmeticError):
    """A matrix to be factorised is not positive definite in the precision at hand."""


@dataclass(frozen=True)
class Coordinates:
    """X = C E with orthonormal rows of E: n coordinates for a problem with n < d.

    Attributes
    ----------
    features : Features
        C, (n, n).
    forward : callable
        w -> E w.
    back : callable
        v -> E^T v.
    """

    features: Features
    forward: Solve
    back: Solve


class Features(ABC):
    """A feature matrix and the products the solver needs.

    Attributes
    ----------
    shape : tuple of int
        (samples n, features d).
    exact : bool
        Whether products with the Hessian and factors are taken in double precision.
    mean_square : float
        Mean of x_ij^2.
    cholesky_price : float
        One factorisation of a Hessian of order m costs about as much as  m / cholesky_price + FACTOR_OVERHEAD  products.
    coordinates_price : float
        The change to n coordinates costs about as much as  n / coordinates_price  products.
    """

    shape: tuple[int, int]
    exact: bool
    mean_square: float
    cholesky_price: float
    coordinates_price: float

    def factor_price(self, order: int) -> float:
        """What a factorisation of a Hessian of that order costs, in products with it."""
        return order / self.cholesky_price + FACTOR_OVERHEAD

    @property
    def row_norm(self) -> float:
        """Root mean square of the samples' norms ||x_i||."""
        return math.sqrt(self.shape[1] * self.mean_square)

    @abstractmethod
    def times(self, v: np.ndarray, rough: bool = False) -> np.ndarray:
        """X v, summed in double precision; where it may be `rough`, from the copy that `exact` speaks of."""

    @abstractmethod
    def transposed_times(self, r: np.ndarray, rough: bool = False) -> np.ndarray:
        """X^T r, summed in double precision; where it may be `rough`, from the copy that `exact` speaks of."""

    def both_products(
        self, v: np.ndarray, shift: float, pulls: Pulls, rough: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z = X v + shift, r = pulls(z, rows) and X^T r; `rows` says which samples z belongs to.

        In double precision; where they may be `rough`, from the copy that `exact` speaks of.
        """
        z = self.times(v, rough) + shift
        r = pulls(z, slice(None))
        return z, r, self.transposed_times(r, rough)

    @abstractmethod
    def normal_product(self, v: np.ndarray, shift: float, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """X^T t and dz for dz = X v + shift, t = curvature * dz, in the precision `exact` says."""

    @abstractmethod
    def hessian_factor(
        self, curvature: np.ndarray, ridge: float, fit_bias: bool, jitter: float = 0.0, least_pivot: float = 0.0
    ) -> Solve:
        """The inverse of the Hessian, as a function of one vector with d + 1 entries (the bias last).

        H = sum_i D_i (x_i, 1)(x_i, 1)^T + ridge diag(1, ..., 1, 0), in the precision `exact` says; without a bias the
        last row and column are those of the identity. `jitter` times the mean diagonal is added to the first d
        diagonal entries. Raises `NotPositiveError`, also where a pivot is below `least_pivot` times the largest one.
        """

    @abstractmethod
    def gram_factor(self, root: np.ndarray, ridge: float) -> Solve:
        """The inverse of  R X X^T R + ridge,  R = diag(root),  n x n and in double precision.

        Raises `NotPositiveError`, also where the matrix is too nearly singular for an accurate solution.
        """

    @abstractmethod
    def coordinates(self) -> Coordinates:
        """The change to n coordinates, for n < d."""

    @abstractmethod
    def sample_rows(self, count: int) -> np.ndarray:
        """About `count` rows, evenly spaced, in NumPy's memory and double precision."""

    @abstractmethod
    def centred(self, centre: np.ndarray) -> Features:
        """X less its mean, in double precision; columns that are constant to rounding become 0."""

    @abstractmethod
    def with_single_precision(self) -> Features:
        """The same X, `exact` no longer: products with the Hessian come from a single-precision copy."""

    @abstractmethod
    def be_exact(self) -> None:
        """From now on all products are in double precision."""

    @abstractmethod
    def on_host(self) -> np.ndarray:
        """X as a NumPy array in double precision."""
