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
    steps, changes = np.zeros((count, MEMORY, p)), np.zeros((count, MEMORY, p))
    curvature = np.zeros((count, MEMORY))  # 1 / <step, change>; zero where there is no pair yet
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
        _remember(steps, changes, curvature, rows, moved, changed)
        x[rows], f[rows], g[rows] = trial[fine], value, gradient
        step[rows], failures[rows] = 1.0, 0
        taken[rows] += 1
        still = decrease <= tolerance * np.maximum(np.abs(value), 1.0)
        reached[rows[still]] = True
        going[rows[still | (taken[rows] >= iterations)]] = False
        rows = rows[going[rows]]
        if len(rows):
            # For all problems, though some may be done: taking the histories of the others apart would cost more.
            direction[rows] = _quasi_newton(g, steps, changes, curvature)[rows]
    return x, reached


def _shorten(step: np.ndarray, rows: np.ndarray, f: np.ndarray, slope: np.ndarray, value: np.ndarray) -> None:
    """The step at which the parabola through f, its slope and the failed value is least, within bounds."""
    t = step[rows]
    with np.errstate(invalid="ignore", divide="ignore"):
        best = -slope * t / (2.0 * (value - f - slope * t))
    step[rows] = t * np.clip(np.nan_to_num(best, nan=SHORTEST, posinf=SHORTEST, neginf=SHORTEST), SHORTEST, LONGEST)


def _remember(
    steps: np.ndarray,
    changes: np.ndarray,
    curvature: np.ndarray,
    rows: np.ndarray,
    moved: np.ndarray,
    changed: np.ndarray,
) -> None:
    """Append the pairs of positive curvature to their problems' histories, the newest last."""
    product = _products(moved, changed)
    useful = product > 1e-12 * _products(changed, changed)
    rows = rows[useful]
    for store, new in ((steps, moved[useful]), (changes, changed[useful])):
        store[rows, :-1] = store[rows, 1:]
        store[rows, -1] = new
    curvature[rows, :-1] = curvature[rows, 1:]
    curvature[rows, -1] = 1.0 / product[useful]


def _quasi_newton(g: np.ndarray, steps: np.ndarray, changes: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """-H g by the two loops of L-BFGS, for each row."""
    q = g.copy()
    alphas = np.zeros_like(curvature)
    oldest = int(np.argmax(np.any(curvature > 0.0, axis=0)))  # slots before it are empty for all
    for i in range(MEMORY - 1, oldest - 1, -1):
        alphas[:, i] = curvature[:, i] * _products(steps[:, i], q)
        q -= alphas[:, i, None] * changes[:, i]
    newest = _products(changes[:, -1], changes[:, -1])
    known = curvature[:, -1] > 0.0
    scale = np.ones(len(g))
    scale[known] = 1.0 / (curvature[known, -1] * newest[known])
    q *= scale[:, None]
    for i in range(oldest, MEMORY):
        beta = curvature[:, i] * _products(changes[:, i], q)
        q += (alphas[:, i] - beta)[:, None] * steps[:, i]
    return -q


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """<a_k, b_k> for each row k."""
    return np.einsum("kp,kp->k", a, b)
