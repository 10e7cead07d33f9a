"""Joint training run to its end on data drawn at finite d: the measured side of `theory.statics`.

A bag that had been left out would have the fields omega_i = H_i + (dl/dH_i) V, V = (1/n) Tr_d of the inverse Hessian, which is
estimated by conjugate gradients on random probes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from ..bag_models import BagModel, get_bag_model
from ..losses import Loss, get_loss
from ..results import cosine_of
from ..schedules import Stage
from ..solvers.minimise_together import minimise_together
from ..task import Task
from ..trajectories import JointEnd, decay_by_direction, mistakes
from .samplers import TensorData
from .samplers.tensor import draw_signal
from .seeds import stream
from .trajectory import BAGS_AT_A_TIME, TEST_REPLICATES, DrawnDescent, differentiate, random_start

PROBES = 4  # of the trace: its relative error sqrt(2/(PROBES d)) moves a score by far less than the score's noise


def simulate_end(
    task: Task,
    model: str | BagModel,
    alpha: float,
    decay: float | Mapping[str, float],
    d: int,
    seed: int,
    *,
    loss: str | Loss = "logistic",
    start: Mapping[str, float] | None = None,
) -> JointEnd:
    """Train a bag model jointly to convergence on n = alpha d bags in dimension d; `theory.statics` has the limit.

    Minimises (1/n) sum_i l(score(X_i Theta, b); y_i) + sum_a (decay_a/2) ||theta_a||^2 by L-BFGS; the bias is free.

    Parameters
    ----------
    task : Task
        What the data is.
    model : str or BagModel
        The classifier, by name (`get_bag_model`) or as an object.
    alpha : float
        n/d.
    decay : float or mapping
        Weight decay of every direction, or of each by its name; above 0.
    d, seed : int
        Dimension of the tokens, and where all randomness comes from.
    loss : str or Loss
        l(z; y).
    start : mapping, optional
        Norms and cosines of the directions at the start, as for `simulate_trajectory`; zero by default.

    Returns
    -------
    JointEnd
        Of this run; `replicon` and `coexist` are not measured.
    """
    run, x, gradient = train_to_the_end(task, model, alpha, decay, d, seed, loss, start)
    return _result(run, x, gradient)


def train_to_the_end(
    task: Task,
    model: str | BagModel,
    alpha: float,
    decay: float | Mapping[str, float],
    d: int,
    seed: int,
    loss: str | Loss,
    start: Mapping[str, float] | None,
) -> tuple[JointObjective, np.ndarray, float]:
    """The objective on data of that seed, where L-BFGS ends in (Theta, b), and the gradient's largest entry."""
    bag_model = get_bag_model(model)
    decays = decay_by_direction(bag_model.directions, decay)
    descent = DrawnDescent(task, bag_model, Stage(1, alpha, decay=decays), d, seed, "tensor", loss, start)
    d, seed, (count,) = descent.d, descent.seed, descent.counts
    xi = draw_signal(seed, d)
    bags = TensorData(task, count, d, seed, ":0", None, xi)
    run = JointObjective(bags, bag_model, get_loss(loss), np.array(list(decays.values())))
    first = np.append(random_start(start, bag_model, xi, seed).ravel(), bag_model.start_bias(start))
    return run, *run.minimised(first)


def best_bias_error(run: JointObjective, x: np.ndarray) -> tuple[float, dict[str, float]]:
    """The test error with the best bias for the directions of an end, and their overlaps: without leave-one-out scores, which
    take most of the time."""
    from ..laws.error_measures import best_bias

    theta, bias = run.split_point(x)
    overlap = run.bags.signal @ theta
    scores = run.scores(theta, bias, np.zeros((theta.shape[1],) * 2))[0]
    error = best_bias(fresh_of(run).error_by_bias(overlap, theta.T @ theta, bias), bias, scores)[1]
    return error, dict(zip(run.model.directions, overlap.tolist(), strict=True))


def fresh_of(run: JointObjective) -> Any:
    """The `FreshBags` that a run is tested on."""
    from ..laws.bag_model_measures import FreshBags

    return FreshBags(run.bags.task, run.model, stream(run.bags.seed, "quadrature"), TEST_REPLICATES)


class JointObjective:
    """(1/n) sum_i l(score(X_i Theta, b); y_i) + sum_a (decay_a/2) ||theta_a||^2 on one data set."""

    def __init__(self, bags: TensorData, model: BagModel, loss: Loss, decay: np.ndarray):
        self.bags, self.model, self.loss, self.decay = bags, model, loss, decay
        self.y, self.n = bags.labels, len(bags.labels)

    def split_point(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        """(Theta, b) of a point."""
        return x[:-1].reshape(-1, len(self.decay)), float(x[-1])

    def split(self, values: np.ndarray, parts: list[np.ndarray]) -> list[np.ndarray]:
        """Values of all bags, length by length as the parts are."""
        return np.split(values, np.cumsum([len(part) for part in parts])[:-1])

    def objective(self, points: np.ndarray, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Value and gradient in (Theta, b), for `minimise_together`."""
        theta, bias = self.split_point(points[0])
        parts = [differentiate(self.model, H, bias) for H in self.bags.fields(theta)]
        z, bias_slope = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
        slope = self.loss.slope(z, self.y) / self.n
        slopes = self.split(slope, [part[0] for part in parts])
        pull = self.bags.pull([s[:, None, None] * part[1] for s, part in zip(slopes, parts, strict=True)])
        value = self.loss.value(z, self.y).mean() + 0.5 * float(self.decay @ (theta**2).sum(axis=0))
        gradient = np.append((pull + self.decay * theta).ravel(), slope @ bias_slope)
        return np.array([value]), gradient[None, :]

    def minimised(self, start: np.ndarray) -> tuple[np.ndarray, float]:
        """The end of L-BFGS from a start, and the largest entry of the gradient there."""
        ends, _ = minimise_together(self.objective, start[None, :], tolerance=1e-13, iterations=3000)
        return ends[0], float(np.abs(self.objective(ends, np.zeros(1))[1]).max())

    def trace(self, theta: np.ndarray, bias: float, seed: int) -> np.ndarray:
        """V = (1/n) Tr_d of the inverse Hessian in Theta, (r, r), by random signs."""
        d, r = theta.shape
        fields = self.bags.fields(theta)
        ys = self.split(self.y, fields)

        def product(flat: np.ndarray) -> np.ndarray:
            move = np.ascontiguousarray(flat.reshape(d, r))
            moved = [
                curved(self.model, self.loss, H, dH, bias, y)
                for H, dH, y in zip(fields, self.bags.fields(move), ys, strict=True)
            ]
            return (self.bags.pull(moved) / self.n + self.decay * move).ravel()

        hessian = LinearOperator((d * r, d * r), matvec=product, dtype=float)
        signs = stream(seed, "probes").choice([-1.0, 1.0], (PROBES, d))
        V = np.zeros((r, r))
        for sign in signs:
            for b in range(r):
                side = np.zeros((d, r))
                side[:, b] = sign
                solved, failed = cg(hessian, side.ravel(), rtol=1e-3)  # well below the error of the probes
                if failed:
                    raise FloatingPointError("the end of training is no minimum: its Hessian could not be inverted")
                V[:, b] += sign @ solved.reshape(d, r) / (self.n * PROBES)
        return 0.5 * (V + V.T)

    def scores(self, theta: np.ndarray, bias: float, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the training bags, and as if each had been left out."""
        rho, scores, left_out = self.bags.task.correlation, [], []
        fields = self.bags.fields(theta)
        for H, y in zip(fields, self.split(self.y, fields), strict=True):
            z, g, _ = differentiate(self.model, H, bias)
            G = self.loss.slope(z, y)[:, None, None] * g
            mixed = (1.0 - rho) * G + rho * G.sum(axis=1, keepdims=True) if rho else G
            scores.append(z)
            left_out.append(differentiate(self.model, H + mixed @ V, bias)[0])
        return np.concatenate(scores), np.concatenate(left_out)


def curved(model: BagModel, loss: Loss, H: np.ndarray, dH: np.ndarray, bias: float, y: np.ndarray) -> np.ndarray:
    """How dl/dH of the bags with fields H changes along dH, (n, L, r)."""
    from .._core.devices import double_precision

    with double_precision():
        z, g, dz, dg = map(np.asarray, _compiled_change(model)(H, dH, np.float64(bias)))
    return loss.curvature(z, y)[:, None, None] * dz[:, None, None] * g + loss.slope(z, y)[:, None, None] * dg


@lru_cache(maxsize=64)
def _compiled_change(model: BagModel) -> Callable[..., Any]:
    """Compiled (H, dH, bias) -> scores, their gradients, and the changes of both along dH."""
    import jax

    def of_bag(H: Any, dH: Any, bias: Any) -> tuple[Any, ...]:
        (z, g), (dz, dg) = jax.jvp(jax.value_and_grad(lambda H: model(H, bias)), (H,), (dH,))
        return z, g, dz, dg

    return jax.jit(
        lambda H, dH, bias: jax.lax.map(lambda bag: of_bag(bag[0], bag[1], bias), (H, dH), batch_size=BAGS_AT_A_TIME)
    )


def _result(run: JointObjective, x: np.ndarray, gradient: float) -> JointEnd:
    from ..laws.error_measures import MEASURES, errors_by_bias

    model, (theta, bias) = run.model, run.split_point(x)
    V = run.trace(theta, bias, run.bags.seed)
    scores, left_out = run.scores(theta, bias, V)
    m, gram, fresh = run.bags.signal @ theta, theta.T @ theta, fresh_of(run)
    tested = fresh.measures(m[None], gram[None], np.array([bias]))
    measured: dict[str, Any] = {name: float(tested[name][0][0]) for name in MEASURES}
    equal = np.full(run.n, 1.0 / run.n)
    measured |= errors_by_bias(fresh.error_by_bias(m, gram, bias), bias, left_out, run.y, equal)
    names = model.directions
    return JointEnd(
        model=model.name,
        **measured,
        balanced_error=1.0 - 0.5 * (measured["sensitivity"] + measured["specificity"]),
        train_loss=float(run.loss.value(scores, run.y).mean()),
        train_error=float(mistakes(scores, run.y).mean()),
        bias=bias,
        overlap=dict(zip(names, m.tolist(), strict=True)),
        cosine={a: cosine_of(float(m[i]), float(np.sqrt(gram[i, i]))) for i, a in enumerate(names)},
        directions=names,
        gram=gram,
        V=V,
        residual=gradient,
    )
