"""The convex readout against scikit-learn's and SciPy's solvers, at equal relative gradient ||grad F|| / (ridge ||w||).

One BLAS thread. Each peer gets the loosest of its tolerances that reaches the target. liblinear is left out: it penalises
the bias, another objective. The smoothed hinge has no peer in scikit-learn: SciPy's L-BFGS-B minimises the same F.
"""

from __future__ import annotations

import warnings

import numpy as np

from sparsetoken._core.threads import single_blas_thread
from sparsetoken.losses import get_loss
from sparsetoken.simulation.samplers.drawn_bags import draw_bags
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
TALL_LOGISTIC = [(20000, 300), (10000, 50), (30000, 100), (15000, 150), (50000, 20)]
SQUARE = [(20000, 300), (10000, 50), (300, 5000), (500, 2000), (3000, 1000), (1000, 1000), (100, 20000)]
# The last number parts the classes: at 2.5 the data are nearly separable.
HINGE = [(10000, 50, 0.5), (20000, 300, 0.5), (20000, 300, 2.5), (5000, 200, 0.5), (2000, 1000, 2.5), (500, 2000, 0.5)]


def features(kind: str, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Features as the training sees them, turned by a random reflection: no axis is special."""
    task = Task()
    bags = draw_bags(task, n, 0, "1")
    x = draw_pooled(bags, d, 0) if kind == "pooled" else draw_attended(bags, d, 0, 0.9, 1.5, None)
    full = np.zeros((n, d))
    full[:, : x.shape[1]] = x
    v = np.random.default_rng(0).standard_normal(d)
    return full - np.outer(full @ v, 2.0 * v / (v @ v)), bags.labels


def clouds(n: int, d: int, shift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds of unequal spread, 40% positive, 2 `shift` apart along the first axis."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x = rng.standard_normal((n, d)) * np.sqrt(rng.uniform(0.1, 1.0, n))[:, None]
    x[:, 0] += shift * (y + 1)
    return x, y


def relative_gradient(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, ridge: float, loss: str = "logistic"
) -> float:
    r = get_loss(loss).slope(x @ w + b, y) / len(y)
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
                ours = _ours(x, y, ridge, "logistic", target)
                for solver in SOLVERS:
                    peer, note = _oracle(LogisticRegression, x, y, ridge, solver, target)
                    work = f"{kind} {n} x {d}, ridge {ridge:g}, to {target:g}"
                    rows.append(Row(work, ours, solver, peer, note, "faster"))
        for n, d in [(400, 20)] if quick else TALL_LOGISTIC:
            x, y = clouds(n, d)
            for target in TARGETS:
                ours = _ours(x, y, 1e-2, "logistic", target)
                peer, note = _oracle(LogisticRegression, x, y, 1e-2, "lbfgs", target)
                rows.append(Row(f"logistic {n} x {d}, to {target:g}", ours, "lbfgs", peer, note, "faster"))
    return rows


@case("readout_square", "square loss by one factorisation against scikit-learn's Ridge")
def readout_square(quick: bool) -> list[Row]:
    from sklearn.linear_model import Ridge

    rows = []
    with single_blas_thread():
        for n, d in [(200, 20), (20, 200)] if quick else SQUARE:
            x, y = clouds(n, d)
            ours = _ours(x, y, 1e-2, "square", 1e-7)
            peer, found = timed(lambda: Ridge(alpha=1e-2 * len(y)).fit(x, y))  # noqa: B023
            reached = relative_gradient(x, y, found.coef_, float(found.intercept_), 1e-2, "square")
            rows.append(Row(f"square {n} x {d}", ours, "Ridge", peer, f"relative gradient {reached:.0e}", "faster"))
    return rows


@case("readout_hinge", "smoothed hinge against SciPy's L-BFGS-B on the same objective, relative gradient 1e-6")
def readout_hinge(quick: bool) -> list[Row]:
    from scipy.optimize import minimize

    loss, ridge, target, rows = get_loss("smoothed_hinge"), 1e-2, 1e-6, []

    def objective(v, x, y):
        z = x @ v[:-1] + v[-1]
        r = loss.slope(z, y) / len(y)
        value = loss.value(z, y).mean() + 0.5 * ridge * v[:-1] @ v[:-1]
        return value, np.append(x.T @ r + ridge * v[:-1], r.sum())

    with single_blas_thread():
        for n, d, shift in [(300, 20, 0.5)] if quick else HINGE:
            x, y = clouds(n, d, shift)
            ours = _ours(x, y, ridge, "smoothed_hinge", target)
            peer, note = None, "not reached"
            for tolerance in 10.0 ** -np.arange(4, 12):
                options = {"gtol": tolerance, "ftol": 1e-18, "maxiter": 20_000, "maxfun": 40_000}

                def fit(x=x, y=y, options=options):
                    return minimize(objective, np.zeros(x.shape[1] + 1), (x, y), "L-BFGS-B", True, options=options).x

                found = fit()
                if relative_gradient(x, y, found[:-1], found[-1], ridge, "smoothed_hinge") <= target:
                    peer, note = timed(fit)[0], f"gtol {tolerance:.0e}"
                    break
            rows.append(Row(f"hinge {n} x {d}, shift {shift:g}", ours, "L-BFGS-B", peer, note, "faster"))
    return rows


def _ours(x: np.ndarray, y: np.ndarray, ridge: float, loss: str, target: float) -> Timing:
    """The time of `fit_erm`, which must reach the target."""
    ours, fit = timed(lambda: fit_erm(x, y, ridge, loss, tolerance=target))
    reached = relative_gradient(x, y, fit.coef, fit.bias, ridge, loss)
    if reached > target:
        raise ArithmeticError(f"fit_erm stopped at relative gradient {reached:.1e}, {target:g} was asked for")
    return ours


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
