"""Convex, ridge-regularised empirical risk minimisation: the readout every classifier shares.

    F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,    p_i = sample_weight_i / sum of sample weights

(p_i = 1/n without weights: a mean, not a sum). The bias b is not penalised.

The square loss is solved by one factorisation (`least_squares`), every other loss by Newton's method (`newton_cg`). With
fewer samples than features a problem that needs a factorisation is first rewritten in n coordinates, an orthogonal change
of basis of the samples' span.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from .._core.arrays import is_jax_array
from .._core.devices import checked_device, device_for, working_on
from .._core.validation import real_number, whole_number
from ..losses import Loss, Square, Weighted, convex_loss
from .features import Features, NotPositiveError
from .least_squares import solve_least_squares
from .linear_systems import Cholesky, InCoordinates
from .newton_cg import NewtonCG, Solution
from .numpy_features import NumpyFeatures
from .problem import Problem, always_falls, explodes, strictly_convex
from .small import is_small, solve_small

# Features with a larger mean square are kept out of single precision, where their squares could overflow (at 3e38).
LARGEST_SINGLE = 1e25
# Rows looked at to decide whether the features lie far from the origin.
ROWS_LOOKED_AT = 512
# Features are centred where their mean is more than this share of their mean square: below it the mean is one direction
# among others to the solver, above it rounding errors of the mean would drown the rest.
FAR_FROM_ORIGIN = 0.9
# With this many samples per feature no walk down the ridge is needed for losses with kinks. Work with the smoothed hinge:
# 2,500 x 400 27% less without it, but 2,000 x 1,000, nearly separable and ridge 1e-4, 2.3 times as much.
TALL = 5
# The walk divides the ridge by this much at a time (100 is as fast on tall data; elsewhere it was not tried), and meets
# this relative gradient at each.
WALK_FACTOR, WALK_TOLERANCE = 10.0, 0.1
# It ends at this share of the features' mean square where there is no ridge; the minimisers then differ little.
LEAST_WALK = 1e-8
# A part of very many samples gives the start and a factor of its Hessian: so many per unknown, where there are ten times as
# many in all, and few features. Time on 50,000 x 10, 100,000 x 15, 30,000 x 6, 20,000 x 14, 15,000 x 10 and 8,000 x 6
# (logistic and smoothed hinge, five kinds of features and ridges), that without over that with it, as a geometric mean: 1.36,
# 1.62, 1.38 on the first three, where there are ten times as many, 1.21, 1.01, 0.78 on the others; with 50 and 100 samples per
# unknown 1.2 and 1.35 on the first three.
PART_PER_UNKNOWN, TIMES_THE_PART, FEW_FEATURES = 200, 10, 24
# The part's minimum is this near in relative gradient: it is not the minimum of all samples anyway.
PART_TOLERANCE = 0.1
# Curvatures of losses with kinks are averaged over outputs this far to either side in its Hessian.
PART_WIDTH = 0.1
# Products with the Hessian allowed for the last digits after the way back from n coordinates.
POLISHING_PRODUCTS = 200

# Why a fit ended, and whether it is a minimum.
REASONS = {
    "gradient": (True, "the gradient met the tolerance"),
    "precision": (True, "the gradient is zero to working precision, rounding errors allow no further decrease"),
    "iterations": (False, "the limit of iterations came first; raise max_iterations or the ridge"),
    "stalled": (False, "rounding errors hide every descent direction before the minimum; a larger ridge helps"),
    "unbounded": (False, "F has no minimiser: it falls without end as the weights grow; use a ridge above 0"),
    "one_class": (False, "F has no minimiser: all samples have one label, and it falls without end as the bias grows"),
}


@dataclass(frozen=True)
class ReadoutFit:
    """A minimiser of F and how it was found.

    Attributes
    ----------
    coef : ndarray
        w.
    bias : float
        b (0 when it is not fitted).
    value : float
        F(w, b).
    gradient_norm : float
        ||grad F|| / (ridge ||w||), or relative to the mean of |l'(0; y)| ||x|| where ridge ||w|| = 0. Features far from
        the origin are centred first, and the gradient is that of the centred problem.
    iterations : int
        Steps, Newton's own and those between them.
    stopped : str
        Why the fit ended: "gradient" or "precision" at a minimum; "iterations", "stalled", "unbounded" or "one_class"
        elsewhere. `reason` says it in words.
    products : int
        Products with the Hessian spent.
    factorisations : int
        Factorisations spent.
    """

    coef: np.ndarray = field(repr=False)
    bias: float
    value: float
    gradient_norm: float
    iterations: int
    stopped: str
    products: int = field(repr=False)
    factorisations: int = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether (w, b) is a minimiser, to the tolerance or to working precision."""
        return REASONS[self.stopped][0]

    @property
    def reason(self) -> str:
        """Why the fit ended, in words."""
        return REASONS[self.stopped][1]


def fit_erm(
    features: Any,
    labels: Any,
    ridge: float,
    loss: str | Loss = "logistic",
    sample_weight: Any = None,
    start: ReadoutFit | tuple[Any, float] | None = None,
    tolerance: float = 1e-7,
    fit_bias: bool = True,
    max_iterations: int = 2000,
    device: str = "auto",
) -> ReadoutFit:
    """Minimise  F(w, b) = sum_i p_i l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2,  p_i = sample_weight_i / sum, or 1/n.

    Parameters
    ----------
    features : array of shape (n, d)
        X, NumPy's or JAX's, in double or single precision (single is kept as it is; sums are still made in double).
    labels : array of shape (n,)
        y, -1 or +1.
    ridge : float
        lambda >= 0. 0 is the limit of a vanishing ridge for the square loss (the minimiser of least norm). For other
        losses it is F without the penalty: a minimiser need not exist (the logistic loss on separable data), and then
        the result has `converged` False and `stopped` "unbounded".
    loss : str or Loss
        l(z; y).
    sample_weight : array of shape (n,), optional
        Numbers >= 0, not all 0.
    start : ReadoutFit or (w, b), optional
        Where to start from; zero otherwise. The square loss needs none.
    tolerance : float
        Stop once ||grad F|| <= tolerance * ridge ||w||: against an absolute bound separable data with a tiny ridge would
        stop far from the minimum.
    fit_bias : bool
        Whether b is free; otherwise it is 0.
    max_iterations : int
        Steps at most.
    device : str
        "auto": large features go to an accelerator if JAX has one, JAX arrays stay where they are; "numpy"; "gpu" or
        "cpu": JAX there. The result is the same up to the tolerance.

    Returns
    -------
    ReadoutFit
        With `converged` False where no minimum was reached; `reason` then says why.

    Raises
    ------
    ValueError
        Where an argument has the wrong shape or value.
    """
    x, y, p = _checked(features, labels, sample_weight, device)
    ridge = real_number("ridge", ridge, 0.0)
    tolerance = real_number("tolerance", tolerance, 0.0, 1.0, open_low=True)
    max_iterations = whole_number("max_iterations", max_iterations, 1)
    loss = convex_loss(loss)
    scale = 1.0
    if isinstance(loss, Weighted):  # weights of samples, so that the square loss keeps its factorisation
        p = p * loss.weight(y)
        scale = float(p.sum())
        p, ridge, loss = p / scale, ridge / scale, loss.loss
    w, b = _start(start, x.shape[1], bool(fit_bias))
    x, centre = _centred(x, p) if fit_bias else (x, None)
    if centre is not None:
        b += float(centre @ w)
    problem = Problem(x, y, p, ridge, loss, bool(fit_bias))
    found = _one_class(problem, tolerance) if fit_bias else None
    if found is None and isinstance(loss, Square):
        found = solve_least_squares(problem, tolerance)
        if found.stopped == "stalled":
            found = _continued(problem, found, tolerance, max_iterations)
    if found is None and is_small(problem):
        found = solve_small(problem, w, b, tolerance, max_iterations)
    if found is None and start is None:
        found = _from_a_part(problem, tolerance, max_iterations)
    if found is None:
        if x.mean_square < LARGEST_SINGLE:
            problem = replace(problem, features=x.with_single_precision())
        n, d = x.shape
        if start is not None and explodes(loss):
            w, b = _better_than_zero(problem, w, b)
        if start is None and (ridge == 0.0 or n < TALL * d) and not strictly_convex(loss):
            w, b = _approach(problem, w, b, max_iterations)
        found = _minimise(problem, w, b, tolerance, max_iterations)
    point = found.point
    return ReadoutFit(
        coef=point.w,
        bias=point.b if centre is None else point.b - float(centre @ point.w),
        value=scale * problem.value(point.z, point.w),
        gradient_norm=found.gradient_norm,
        iterations=found.iterations,
        stopped=found.stopped,
        products=found.products,
        factorisations=found.factorisations,
    )


def _checked(features: Any, labels: Any, sample_weight: Any, device: str) -> tuple[Features, np.ndarray, np.ndarray]:
    """Features, labels and normalised weights."""
    x = _placed(features, device)
    if not math.isfinite(x.mean_square):
        raise ValueError("features must be finite and smaller than 1e150, got NaN, infinity or larger numbers")
    y = np.asarray(labels, dtype=np.float64)
    if y.shape != (x.shape[0],):
        raise ValueError(f"labels must hold one label per sample ({x.shape[0]}), got shape {y.shape}")
    if not np.all(np.abs(y) == 1.0):
        raise ValueError("labels must be -1 or +1")
    if sample_weight is None:
        p = np.full(len(y), 1.0 / len(y))
    else:
        p = np.asarray(sample_weight, dtype=np.float64)
        if p.shape != y.shape or not np.all(np.isfinite(p)) or np.any(p < 0) or p.sum() <= 0:
            raise ValueError("sample_weight must hold one finite number >= 0 per sample, not all zero")
        p = p / p.sum()
    return x, y, p


def _placed(features: Any, device: str) -> Features:
    """The features where they are to be worked on, in double or single precision as they come."""
    placed = is_jax_array(features)
    x: Any = features if placed else np.asarray(features)
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"features must be a non-empty (samples, features) array, got shape {x.shape}")
    if placed and checked_device(device) != "auto":
        raise ValueError(f"these features are on a device already: use device='auto', not {device!r}")
    if x.dtype != np.float32 and not placed:
        x = np.asarray(x, dtype=np.float64)
    where = None if placed else device_for(device, x)
    if placed or where is not None:
        import jax

        from .jax_features import JaxFeatures

        with working_on(where or next(iter(x.devices()))):
            x = x if placed else jax.device_put(x, where)
            return JaxFeatures(x if x.dtype in (np.float32, np.float64) else x.astype(np.float64))
    if not (x.flags.c_contiguous or x.flags.f_contiguous):
        x = np.ascontiguousarray(x)
    return NumpyFeatures(x)


def _centred(x: Features, p: np.ndarray) -> tuple[Features, np.ndarray | None]:
    """Features far from the origin, moved to it: the free bias makes this a change of coordinates, and a better one."""
    some = x.sample_rows(ROWS_LOOKED_AT)
    mean = some.mean(axis=0)
    if float(mean @ mean) <= FAR_FROM_ORIGIN * float(np.vdot(some, some)) / len(some):
        return x, None
    mean = x.transposed_times(p)
    return x.centred(mean), mean


def _start(start: ReadoutFit | tuple[Any, float] | None, d: int, fit_bias: bool) -> tuple[np.ndarray, float]:
    if start is None:
        return np.zeros(d), 0.0
    w, b = (start.coef, start.bias) if isinstance(start, ReadoutFit) else start
    w = np.array(w, dtype=np.float64)
    if w.shape != (d,) or not np.all(np.isfinite(w)) or not math.isfinite(b):
        raise ValueError(f"start must be {d} finite weights and a finite bias, got weights of shape {w.shape}")
    return w, float(b) if fit_bias else 0.0


def _better_than_zero(problem: Problem, w: np.ndarray, b: float) -> tuple[np.ndarray, float]:
    """The start, or zero where F is less there."""
    zero = np.zeros_like(w)
    nothing = problem.value(np.zeros(len(problem.labels)), zero)
    return (w, b) if problem.value(problem.features.times(w) + b, w) <= nothing else (zero, 0.0)


def _one_class(problem: Problem, tolerance: float) -> Solution | None:
    """Where all samples with a weight have one label, w = 0 is best and only the bias is left; None elsewhere."""
    seen = problem.labels if problem.weights.min() > 0.0 else problem.labels[problem.weights > 0.0]
    label = float(seen[0])
    if seen.min() != seen.max():
        return None

    def slope(margin: float) -> float:
        return label * float(problem.loss.slope(np.array([label * margin]), np.array([label]))[0])

    none = np.zeros(problem.features.shape[1])
    margin, at_zero = 1.0, slope(0.0)
    if not at_zero < 0.0:  # no loss of the usual kind: leave it to Newton's method
        return None
    if always_falls(problem.loss):  # a bias at which next to nothing is left to gain
        while slope(margin) < tolerance * at_zero:
            margin *= 2.0
        return Solution(problem.at(none, label * margin), slope(margin) / at_zero, "one_class")
    while slope(margin) < 0.0:
        margin *= 2.0
    margin = margin if slope(margin) == 0.0 else float(brentq(slope, 0.0, margin, xtol=1e-15))
    return Solution(problem.at(none, label * margin), abs(slope(margin) / at_zero), "gradient")


def _approach(problem: Problem, w: np.ndarray, b: float, max_iterations: int) -> tuple[np.ndarray, float]:
    """A start for losses with flat or straight parts: follow the minimiser from a large ridge down.

    There Newton's method from afar meets a Hessian that says nothing about most samples. Without a ridge it may also have
    many minimisers; the walk leads near the one of least norm.
    """
    ridge = problem.features.mean_square
    last = problem.ridge or LEAST_WALK * ridge
    while ridge > last:
        found = _minimise(replace(problem, ridge=ridge), w, b, WALK_TOLERANCE, max_iterations)
        w, b, ridge = found.point.w, found.point.b, ridge / WALK_FACTOR
    return w, b


def _from_a_part(problem: Problem, tolerance: float, max_iterations: int) -> Solution | None:
    """Newton's method from the minimum over a part of very many samples, with that part's Hessian.

    Few evaluations are left then, so that a copy of the features in single precision would not pay. None where samples are
    not many, or the part does not lead to a minimum.
    """
    features, loss = problem.features, problem.loss
    n, d = features.shape
    count = PART_PER_UNKNOWN * (d + 1)
    many = d <= FEW_FEATURES and n >= TIMES_THE_PART * count
    if not many or problem.ridge == 0.0 or not isinstance(features, NumpyFeatures) or features.single or explodes(loss):
        return None
    rows = np.random.default_rng(0).integers(n, size=count)  # whatever order the samples are in
    y, p = problem.labels[rows], problem.weights[rows]
    if not p.sum() > 0.0 or y.min() == y.max():
        return None
    part = replace(problem, features=NumpyFeatures(features.x[rows]), labels=y, weights=p / p.sum())
    near = solve_small(part, np.zeros(d), 0.0, PART_TOLERANCE)
    if near is None:
        return None
    width = 0.0 if strictly_convex(loss) else PART_WIDTH
    try:
        factor = Cholesky(part, part.curvatures(near.point.z, width))
    except NotPositiveError:
        return None
    found = NewtonCG(problem, tolerance, max_iterations, preconditioner=factor, trusted=True).solve(
        near.point.w, near.point.b
    )
    return found if found.stopped == "gradient" else None


def _minimise(problem: Problem, w: np.ndarray, b: float, tolerance: float, max_iterations: int) -> Solution:
    """Newton's method, with n < d in n coordinates once it needs a factorisation."""
    features = problem.features
    n, d = features.shape
    if n >= d:
        return NewtonCG(problem, tolerance, max_iterations).solve(w, b)
    price = n / features.coordinates_price + features.factor_price(n)
    first = NewtonCG(problem, tolerance, max_iterations, price, may_factorise=False).solve(w, b)
    if first.stopped != "factor":
        return first
    coordinates = features.coordinates()
    inside = NewtonCG(replace(problem, features=coordinates.features), tolerance, max_iterations - first.iterations)
    inside.policy.demand()
    second = inside.solve(coordinates.forward(first.point.w), first.point.b)
    # What was met in n coordinates may be lost on the way back (features of very different sizes): a few more steps in d.
    features.be_exact()
    preconditioner = InCoordinates(coordinates, inside.preconditioner)
    left = max_iterations - first.iterations - second.iterations
    last = NewtonCG(problem, tolerance, left, POLISHING_PRODUCTS, False, preconditioner)
    third = last.solve(coordinates.back(second.point.w), second.point.b)
    stopped = third.stopped
    if stopped == "factor":
        stopped = last.reason_to_give_up()
    if second.stopped == "unbounded":
        stopped = second.stopped
    return replace(
        third,
        stopped=stopped,
        iterations=first.iterations + second.iterations + third.iterations,
        products=first.products + second.products + third.products,
        factorisations=second.factorisations,
    )


def _continued(problem: Problem, found: Solution, tolerance: float, max_iterations: int) -> Solution:
    """Newton's method from where another one ended."""
    more = _minimise(problem, found.point.w, found.point.b, tolerance, max_iterations)
    return replace(
        more,
        iterations=more.iterations + found.iterations,
        factorisations=more.factorisations + found.factorisations,
    )
