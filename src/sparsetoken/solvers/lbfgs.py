"""Many smooth problems of one shape minimised side by side: L-BFGS whose products with the data are shared.

Cross-validation asks for the same fit on slightly different data: all folds see the same tokens, with other weights. One pass
over the tokens for all of them costs little more than one pass for one of them, since reading the tokens is what takes time.

    min over x_k of  f_k(x_k),  k = 1 .. K      (no coupling between the problems)

Every problem has its own history, step and end; in each round all that are not done yet are evaluated once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MEMORY = 10  # pairs of steps and gradient changes kept per problem, as SciPy's L-BFGS-B does
DECREASE = 1e-4  # share of the decrease promised by the slope that a step must achieve (Armijo's condition)
SHORTEST, LONGEST = 0.1, 0.5  # by what factor a failed step is shortened, at least and at most
MOST_FAILURES = 20  # steps that fail in a row: the decrease is below rounding

Objective = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def minimize_together(
    objective: Objective, start: np.ndarray, tolerance: float, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise K independent smooth functions of p parameters each.

    Parameters
    ----------
    objective : callable
        ``objective(x, which)`` gives the values (k,) and gradients (k, p) of the problems numbered `which` (k,) at the
        rows of x (k, p).
    start : ndarray of shape (K, p)
        Where to start.
    tolerance : float
        A problem is done when a step decreases it by no more than this times max(|f|, 1).
    iterations : int
        The most accepted steps of each problem.

    Returns
    -------
    tuple of ndarrays
        The minimisers found (K, p), and whether each reached the tolerance (K,).
    """
    x = np.array(start, dtype=np.float64)
    count, p = x.shape
    everything = np.arange(count)
    f, g = objective(x, everything)
    direction = -g / np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True))
    history = _History(count, p)
    step, taken, failures = np.ones(count), np.zeros(count, dtype=int), np.zeros(count, dtype=int)
    reached = ~np.any(g != 0.0, axis=1)
    going = ~reached & np.isfinite(f)
    while going.any():
        which = np.flatnonzero(going)
        trial = x[which] + step[which, None] * direction[which]
        value, gradient = objective(trial, which)
        slope = _products(g[which], direction[which])
        fine = value <= f[which] + DECREASE * step[which] * slope
        failed = which[~fine]
        if len(failed):
            _shorten(step, failed, f[failed], slope[~fine], value[~fine])
            failures[failed] += 1
            done = failed[failures[failed] >= MOST_FAILURES]
            going[done], reached[done] = False, True
        if not fine.any():
            continue
        rows, value, gradient = which[fine], value[fine], gradient[fine]
        moved, changed = trial[fine] - x[rows], gradient - g[rows]
        decrease = f[rows] - value
        history.remember(rows, moved, changed)
        x[rows], f[rows], g[rows] = trial[fine], value, gradient
        step[rows], failures[rows] = 1.0, 0
        taken[rows] += 1
        still = decrease <= tolerance * np.maximum(np.abs(value), 1.0)
        reached[rows[still]] = True
        going[rows[still | (taken[rows] >= iterations)]] = False
        rows = rows[going[rows]]
        if len(rows):
            direction[rows] = history.direction(g)[rows]
    return x, reached


def _shorten(step: np.ndarray, rows: np.ndarray, f: np.ndarray, slope: np.ndarray, value: np.ndarray) -> None:
    """The step at which the parabola through f, its slope and the failed value is least, within bounds."""
    t = step[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        best = -slope * t / (2.0 * (value - f - slope * t))
    step[rows] = t * np.clip(np.nan_to_num(best, nan=SHORTEST, posinf=SHORTEST, neginf=SHORTEST), SHORTEST, LONGEST)


class _History:
    """Pairs of steps s and gradient changes y of each problem, and the products among them.

    L-BFGS in its compact form (Byrd, Nocedal and Schnabel 1994), with S and Y the pairs as columns in the order of time, R the
    upper triangle of S'Y, D its diagonal and c = <s, y>/<y, y> of the newest pair,

        H g = c g + S R^-T ((D + c Y'Y) u - c Y'g) - c Y u,     u = R^-1 S'g,

    is the two loops' result by three products per step for all problems at once. A new pair takes the slot of the oldest one,
    so that nothing is moved: all of this holds in any order of the slots, if R's inverse is in that order too. It is kept as
    such: the inverse of a triangle without its first row and column is the inverse's rest, and with a further column (r, rho)
    it gains the column (-R^-1 r / rho, 1 / rho). An empty slot holds zeros everywhere, which leaves it out. All problems are
    taken, also those that are done: choosing would copy the histories.
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
        if not useful.all():
            rows, moved, changed = rows[useful], moved[useful], changed[useful]
            product, square = product[useful], square[useful]
        if not len(rows):
            return
        slot = self.slot[rows]
        self.slot[rows] = (slot + 1) % MEMORY
        self.scale[rows, 0, 0] = product / square
        self.pairs[rows, slot], self.pairs[rows, MEMORY + slot] = moved, changed
        with_newest = (self.pairs[rows] if len(rows) < len(self.pairs) else self.pairs) @ changed[:, :, None]
        self.inverse[rows, slot] = self.inverse[rows, :, slot] = 0.0
        column = (self.inverse[rows] @ with_newest[:, :MEMORY])[:, :, 0]
        self.inverse[rows, :, slot] = -column / product[:, None]
        self.inverse[rows, slot, slot] = 1.0 / product
        self.diagonal[rows, slot, 0] = product
        self.squares[rows, :, slot] = self.squares[rows, slot] = with_newest[:, MEMORY:, 0]

    def direction(self, g: np.ndarray) -> np.ndarray:
        """-H g of each problem."""
        both = self.pairs @ g[:, :, None]
        u = self.inverse @ both[:, :MEMORY]
        v = self.diagonal * u + self.scale * (self.squares @ u - both[:, MEMORY:])
        back = np.concatenate([self.inverse.transpose(0, 2, 1) @ v, -self.scale * u], axis=1)
        product = self.scale[:, 0] * g + (back.transpose(0, 2, 1) @ self.pairs)[:, 0]
        uphill = _products(product, g) <= 0.0  # by rounding alone
        product[uphill] = g[uphill]
        return -product


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """<a_k, b_k> for each row k."""
    return np.einsum("kp,kp->k", a, b)
