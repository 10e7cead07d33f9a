"""The convex readout against scikit-learn's solvers, at equal relative gradient ||grad F|| / (ridge ||w||).

One BLAS thread. Each scikit-learn solver gets the loosest of its tolerances that reaches the target. liblinear is left out:
it penalises the bias, another objective.
"""

from __future__ import annotations

import warnings

import numpy as np

from sparsetoken._core.arrays import sigmoid
from sparsetoken._core.threads import single_blas_thread
from sparsetoken.simulation.samplers.labels import draw_labels
from sparsetoken.simulation.samplers.reduced import draw_attended, draw_pooled
from sparsetoken.solvers.erm import fit_erm
from sparsetoken.task import Task

from .measure import Row, Timing, case, timed

PROBLEMS = [
    ("pooled", 4000, 1000, 1e-3),
    ("pooled", 4000, 1000, 1e-5),
    ("attention", 4000, 1000, 1e-3),
    ("pooled", 500, 2000, 1e-3),
    ("attention", 500, 2000, 1e-5),
    ("pooled", 2500, 1000, 1e-5),
    ("attention", 2500, 1000, 1e-5),
]
SOLVERS = ("newton-cholesky", "lbfgs", "newton-cg")
TARGETS = (1e-3, 1e-6)


def features(kind: str, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features as the training sees them, turned by a random reflection: no axis is special."""
    task = Task()
    y = draw_labels(task, n, 0, "1")
    x = draw_pooled(task, y, d, 0) if kind == "pooled" else draw_attended(task, y, d, 0, 0.9, 1.5, None)
    full = np.zeros((n, d))
    full[:, : x.shape[1]] = x
    v = np.random.default_rng(0).standard_normal(d)
    return full - np.outer(full @ v, 2.0 * v / (v @ v)), y


def relative_gradient(x: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, ridge: float) -> float:
    r = -y * sigmoid(-y * (x @ w + b)) / len(y)
    return float(np.linalg.norm(np.append(x.T @ r + ridge * w, r.sum())) / (ridge * np.linalg.norm(w)))


@case("readout", "convex readout against scikit-learn's solvers at equal relative gradient ||grad F||/(ridge ||w||)")
def readout(quick: bool) -> list[Row]:
    from sklearn.linear_model import LogisticRegression

    rows = []
    with single_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, n, d, ridge in [("pooled", 200, 50, 1e-3)] if quick else PROBLEMS:
            x, y = features(kind, n, d)
            for target in TARGETS:
                ours, fit = timed(lambda: fit_erm(x, y, ridge, tolerance=target))  # noqa: B023
                reached = relative_gradient(x, y, fit.coef, fit.bias, ridge)
                if reached > target:
                    raise ArithmeticError(
                        f"fit_erm stopped at relative gradient {reached:.1e}, {target:g} was asked for"
                    )
                for solver in SOLVERS:
                    peer, note = _oracle(LogisticRegression, x, y, ridge, solver, target)
                    work = f"{kind} {n} x {d}, ridge {ridge:g}, to {target:g}"
                    rows.append(Row(work, ours, solver, peer, note, "faster"))
    return rows


def _oracle(make, x, y, ridge, solver, target) -> tuple[Timing | None, str]:
    """The solver's time at its loosest tolerance that reaches the target, or how near it came."""

    def fit(tolerance: float):
        return make(C=1 / (ridge * len(y)), solver=solver, tol=tolerance, max_iter=20_000).fit(x, y)

    reached = np.inf
    for tolerance in 10.0 ** -np.arange(2, 15):
        _, found = timed(lambda: fit(tolerance), 1)  # noqa: B023
        reached = min(reached, relative_gradient(x, y, found.coef_[0], found.intercept_[0], ridge))
        if reached <= target:
            return timed(lambda: fit(tolerance))[0], f"tol {tolerance:.0e}"  # noqa: B023
    return None, f"not reached ({reached:.0e})"
