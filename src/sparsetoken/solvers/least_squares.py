"""The square loss: one accurate factorisation, then refinement with the same factor.

    F(w, b) = sum_i p_i (<w, x_i> + b - y_i)^2 / 2 + (ridge/2) ||w||^2,    sum_i p_i = 1,    b not penalised

With n >= d the Hessian is factorised, with n < d the Gram matrix of the samples. ridge = 0 means the limit ridge -> 0: among
all minimisers the one with the least ||w||.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from .features import LEAST_PIVOT, NotPositiveError
from .newton_cg import ROUNDING_FACTOR, Solution
from .problem import Problem

# Corrections with the same factor. A factor with five good digits needs two for the tightest tolerance; one that three
# do not serve is too ill conditioned, and Newton's method with conjugate gradients goes on from there.
REFINEMENTS = 3


def solve_least_squares(problem: Problem, tolerance: float) -> Solution:
    """Minimise F for the square loss.

    Parameters
    ----------
    problem : Problem
        With the square loss and features in double precision (`exact`).
    tolerance : float
        Relative gradient to reach.

    Returns
    -------
    Solution
        Its `stopped` is "gradient", "precision", or "stalled" where the factor was too ill conditioned.
    """
    n, d = problem.features.shape
    search = _Search(problem, tolerance)
    try:
        (_refine_primal if n >= d else _refine_dual)(search)
    except NotPositiveError:
        if problem.ridge == 0.0:
            search.move_to(*_minimum_norm(problem))
    return search.solution()


class _Search:
    """The present point and whether it is good enough."""

    def __init__(self, problem: Problem, tolerance: float):
        self.problem, self.tolerance = problem, tolerance
        self.factorisations = self.iterations = 0
        self.move_to(np.zeros(problem.features.shape[1]), 0.0)

    def move_to(self, w: np.ndarray, b: float) -> None:
        self.point = self.problem.at(w, b)
        self.goal = self.tolerance * self.problem.gradient_scale(w)
        self.rounding = 2.0 * self.problem.rounding(self.point)
        self.met = self.point.size <= max(self.goal, self.rounding)

    def solution(self) -> Solution:
        stopped = "stalled"
        if self.point.size <= self.goal:
            stopped = "gradient"
        elif self.point.size <= ROUNDING_FACTOR * self.rounding:
            stopped = "precision"
        return Solution(
            self.point,
            self.problem.relative_gradient(self.point),
            stopped,
            self.iterations,
            factorisations=self.factorisations,
        )


def _refine_primal(search: _Search) -> None:
    """Newton's method with the one Hessian there is."""
    problem = search.problem
    least_pivot = LEAST_PIVOT if problem.ridge == 0.0 else 0.0
    inverse = problem.features.hessian_factor(problem.weights, problem.ridge, problem.fit_bias, least_pivot=least_pivot)
    search.factorisations = 1
    while not search.met and search.iterations <= REFINEMENTS:
        search.iterations += 1
        point = search.point
        step = inverse(point.g)
        search.move_to(point.w - step[:-1], point.b - float(step[-1]) if problem.fit_bias else 0.0)


def _refine_dual(search: _Search) -> None:
    """The same in dual coefficients: w = X^T R a with R = diag(sqrt p) and

        R (y - X w - b) = ridge a,   <sqrt p, a> = 0   (the second only with a bias)
    """  # fmt: skip
    problem = search.problem
    root = np.sqrt(problem.weights)
    inverse = problem.features.gram_factor(root, problem.ridge)
    search.factorisations = 1
    of_root = inverse(root)
    a = np.zeros(len(root))
    while not search.met and search.iterations <= REFINEMENTS:
        search.iterations += 1
        point = search.point
        step = inverse(root * (problem.labels - point.z) - problem.ridge * a)
        move = 0.0
        if problem.fit_bias:
            move = float(root @ (a + step)) / float(root @ of_root)
            step = step - move * of_root
        a = a + step
        search.move_to(problem.features.transposed_times(root * a), point.b + move)


def _minimum_norm(problem: Problem) -> tuple[np.ndarray, float]:
    """The least-squares solution of least ||w||, by a singular value decomposition of the centred features."""
    x, y, p = problem.features.on_host(), problem.labels, problem.weights
    centre = p @ x if problem.fit_bias else np.zeros(x.shape[1])
    middle = float(p @ y) if problem.fit_bias else 0.0
    root = np.sqrt(p)
    # Singular values below this share of the largest are rounding errors (LAPACK's usual bound).
    cutoff = max(x.shape) * float(np.finfo(np.float64).eps)
    w, *_ = scipy.linalg.lstsq(root[:, None] * (x - centre), root * (y - middle), cond=cutoff, check_finite=False)
    return w, middle - math.fsum(centre * w)
