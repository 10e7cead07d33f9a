"""Many smooth problems of one shape minimised side by side: L-BFGS whose products with the data are shared.

The folds of a cross-validation use the same tokens with other weights, and reading the tokens is what takes time: in each round
all problems that are not done yet are evaluated once. Each has its own history, step and end.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MEMORY = 10  # pairs of steps and gradient changes kept per problem, as SciPy's L-BFGS-B does

Objective = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def minimise_together(
    objective: Objective, start: np.ndarray, tolerance: float, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise f_k(x_k), k = 1 .. K, independent smooth functions of p parameters each."""
    solutions = np.array(start, dtype=np.float64)
    which = np.arange(len(solutions))
    f, g = objective(solutions, which)
    reached = ~np.any(g != 0.0, axis=1)
    # From here on there are rows for the problems that are still going alone, `which` they are.
    which = np.flatnonzero(~reached & np.isfinite(f))
    x, f, g = solutions[which], f[which], g[which]
    direction = -g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True))
    slope = _products(g, direction)
    history = _History(*x.shape)
    step, taken, failures = np.ones(len(which)), np.zeros(len(which), dtype=int), np.zeros(len(which), dtype=int)
    while len(which):
        trial = x + step[:, None] * direction
        value, gradient = objective(trial, which)
        fine = value <= f + 1e-4 * step * slope  # Armijo's condition
        still = np.zeros(len(which), dtype=bool)
        rows = np.flatnonzero(fine)
        if len(rows):
            new = value[rows]
            history.remember(rows, trial[rows] - x[rows], gradient[rows] - g[rows])
            still[rows] = f[rows] - new <= tolerance * np.maximum(np.abs(new), 1.0)
            x[rows], f[rows], g[rows] = trial[rows], new, gradient[rows]
            step[rows], failures[rows] = 1.0, 0
            taken[rows] += 1
        failed = np.flatnonzero(~fine)
        if len(failed):
            _shorten(step, failed, f[failed], slope[failed], value[failed])
            failures[failed] += 1
            still |= failures >= 20  # in a row: the decrease is below rounding
        ended = still | (taken >= iterations)
        if ended.any():
            solutions[which[ended]], reached[which[ended]] = x[ended], still[ended]
            going = ~ended
            which, fine, x, f, g = which[going], fine[going], x[going], f[going], g[going]
            direction, slope, step = direction[going], slope[going], step[going]
            taken, failures = taken[going], failures[going]
            history.keep(going)
        if fine.any():
            new_direction, new_slope = history.direction(g)
            direction[fine], slope[fine] = new_direction[fine], new_slope[fine]
    return solutions, reached


def _shorten(step: np.ndarray, rows: np.ndarray, f: np.ndarray, slope: np.ndarray, value: np.ndarray) -> None:
    """The step at which the parabola through f, its slope and the failed value is least, a tenth to a half of the last."""
    t = step[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        best = -slope * t / (2.0 * (value - f - slope * t))
        step[rows] = t * np.where(best > 0.1, np.minimum(best, 0.5), 0.1)  # the shortest for NaN


class _History:
    """Pairs of steps s and gradient changes y of each problem, and the products among them.

    L-BFGS in its compact form (Byrd, Nocedal and Schnabel 1994), with S and Y the pairs as columns in the order of time, R the
    upper triangle of S'Y, D its diagonal and c = <s, y>/<y, y> of the newest pair,

        H g = c g + S R^-T ((D + c Y'Y) u - c Y'g) - c Y u,     u = R^-1 S'g,

    is the two loops' result by three products per step for all problems at once. A new pair takes the slot of the oldest one:
    all of this holds in any order of the slots. R's inverse is kept: without R's first row and column it is the rest of the
    inverse, and a further column (r, rho) adds the column (-R^-1 r / rho, 1 / rho). An empty slot holds zeros.
    """

    def __init__(self, count: int, p: int):
        self.pairs = np.zeros((count, 2 * MEMORY, p))  # the steps, then the changes
        self.inverse = np.zeros((count, MEMORY, MEMORY))  # R^-1
        self.diagonal = np.zeros((count, MEMORY, 1))  # D
        self.squares = np.zeros((count, MEMORY, MEMORY))  # Y'Y
        self.scale = np.ones((count, 1, 1))  # c
        self.slot = np.zeros(count, dtype=int)  # of the next pair

    def remember(self, rows: np.ndarray, moved: np.ndarray, changed: np.ndarray) -> None:
        """Put the pairs of positive curvature into the histories of their problems."""
        product, square = _products(moved, changed), _products(changed, changed)
        useful = product > 1e-12 * square
        rows, moved, changed = rows[useful], moved[useful], changed[useful]
        product, square = product[useful], square[useful]
        slot = self.slot[rows]
        self.slot[rows] = (slot + 1) % MEMORY
        self.scale[rows, 0, 0] = product / square
        self.pairs[rows, slot], self.pairs[rows, MEMORY + slot] = moved, changed
        # Products for all problems take less time than a copy of some histories.
        everywhere = np.zeros((len(self.pairs), changed.shape[1], 1))
        everywhere[rows, :, 0] = changed
        with_newest = (self.pairs @ everywhere)[rows]
        self.inverse[rows, slot] = self.inverse[rows, :, slot] = 0.0
        column = (self.inverse[rows] @ with_newest[:, :MEMORY])[:, :, 0]
        self.inverse[rows, :, slot] = -column / product[:, None]
        self.inverse[rows, slot, slot] = 1.0 / product
        self.diagonal[rows, slot, 0] = product
        self.squares[rows, :, slot] = self.squares[rows, slot] = with_newest[:, MEMORY:, 0]

    def keep(self, rows: np.ndarray) -> None:
        for name in ("pairs", "inverse", "diagonal", "squares", "scale", "slot"):
            setattr(self, name, getattr(self, name)[rows])

    def direction(self, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """-H g of each problem, and its product with g."""
        both = self.pairs @ g[:, :, None]
        u = self.inverse @ both[:, :MEMORY]
        v = self.diagonal * u + self.scale * (self.squares @ u - both[:, MEMORY:])
        back = np.concatenate([self.inverse.transpose(0, 2, 1) @ v, -self.scale * u], axis=1)
        product = self.scale[:, 0] * g + (back.transpose(0, 2, 1) @ self.pairs)[:, 0]
        along = _products(product, g)
        uphill = along <= 0.0  # by rounding alone
        product[uphill] = g[uphill]
        along[uphill] = _products(g[uphill], g[uphill])
        return -product, -along


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """<a_k, b_k> for each row k."""
    return np.einsum("kp,kp->k", a, b)
