"""Gradient descent on a bag model, step by step, on data drawn at finite d: the measured side of `theory.trajectory`.

A step on data set k with its n_k = alpha_k d bags (rounded) is the one of `schedules`:

    Theta <- Theta (I - Lambda D) + rho (Theta - Theta_before) - (1/n_k) sum_i X_i^T G_i D
    b     <- b - eta_b (1/n_k) sum_i dl/db,            G_i = dl(score(X_i Theta, b); y_i)/dH   (L x r)

It touches the tokens only through products with the Gaussian matrix of all tokens' noise, which the reduced sampler draws
instead (see `samplers.implicit_bags`): exact in law at every d. The tensor sampler draws all tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..bag_models import BagModel, get_bag_model
from ..losses import Loss, get_loss
from ..schedules import Schedule, Stage, expand
from ..task import Task
from ..training import Training
from ..trajectories import Trajectory, at_steps, mistakes, steps_tested
from .noise import TokenDraw
from .samplers import TensorData
from .samplers.drawn_bags import check_affordable, check_size, sample_count
from .samplers.implicit_bags import ImplicitBags
from .samplers.tensor import draw_signal
from .seeds import stream

CHUNK_NUMBERS = 2**18  # of the fields in one call of a compiled program (2 MB)
# Bags that the program differentiates at a time: temporaries, which can grow like L^2, stay in the cache.
BAGS_AT_A_TIME = 4
# Randomisations of the points behind the test measures: about 2e-4 in the test error, where runs scatter far more.
TEST_REPLICATES = 4


def simulate_trajectory(
    task: Task,
    model: str | BagModel,
    stages: Stage | Sequence[Stage],
    d: int,
    seed: int,
    *,
    sampler: str = "reduced",
    loss: str | Loss = "logistic",
    start: Mapping[str, float] | None = None,
    tested: Sequence[int] | None = None,
) -> Trajectory:
    """Train a bag model by gradient descent on data drawn from `task` in dimension d, and measure every step.

    Descends the mean loss of the step's data set plus decay, (1/n) sum_i l(score(X_i Theta, b); y_i) + sum_a (decay_a/2)
    ||theta_a||^2, with the rates and momentum of the schedule; the bias has neither decay nor momentum.

    Parameters
    ----------
    task : Task
        What the data is.
    model : str or BagModel
        The classifier, by name (`get_bag_model`) or as an object.
    stages : Stage or sequence of Stage
        The schedule. Every data set has n = alpha d bags, rounded, and must hold both classes.
    d, seed : int
        Dimension of the tokens, at least 2, and where all randomness comes from. Both samplers draw the same labels, signal
        and starts from a seed, but different tokens.
    sampler : {"reduced", "tensor"}
        "reduced" draws products with the tokens only, with exactly the law they have; "tensor" draws every token.
    loss : str or Loss
        l(z; y).
    start : dict, optional
        Norms of random starts by the directions' names, orthogonal to each other and to the signal unless "cosine[q]" and the
        like give their cosines with it; "bias", of either sign. What is not named starts at zero.
    tested : sequence of int, optional
        Steps after which the test measures are computed, all of them by default; elsewhere they are NaN.

    Returns
    -------
    Trajectory
        Of this run. Test measures are integrals over fresh bags, whose standard errors `errors` holds (zero for all the rest):
        the scatter between seeds is not in it.

    Raises
    ------
    ValueError
        For arguments that do not fit, and for a data set with one class only.
    FloatingPointError
        Where the descent diverges beyond the largest number.
    """
    return DrawnDescent(task, model, stages, d, seed, sampler, loss, start).measured(tested)


class Path(NamedTuple):
    """What a descent went through, entry t of the arrays over steps before step t."""

    overlap: np.ndarray
    gram: np.ndarray
    bias: np.ndarray
    train_loss: np.ndarray
    train_error: np.ndarray
    theta: np.ndarray


@dataclass(frozen=True, eq=False)
class DrawnDescent:
    """Gradient descent of a bag model on data that is drawn; its arguments are those of `simulate_trajectory`, checked here."""

    task: Task
    model: str | BagModel
    stages: Stage | Sequence[Stage]
    d: int
    seed: int
    sampler: str = "reduced"
    loss: str | Loss = "logistic"
    start: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        Task.require(self.task)
        d, seed = check_size(self.d, self.seed, self.sampler)
        get_loss(self.loss)
        self.bag_model.start_norms(self.start)
        object.__setattr__(self, "d", d)
        object.__setattr__(self, "seed", seed)
        length, each = self.task.longest, d if self.sampler == "tensor" else 1
        for count, steps in zip(self.counts, np.bincount(self.schedule.data_set).tolist()):
            held = descent_numbers(self.sampler, count * length, d, self.bag_model.rank, steps)
            check_affordable(count, length, d, held + 10.0 * length * each)

    @cached_property
    def bag_model(self) -> BagModel:
        """The classifier as an object."""
        return get_bag_model(self.model)

    @cached_property
    def schedule(self) -> Schedule:
        """The stages step by step."""
        return expand(self.stages, self.bag_model.directions)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Bags of every data set."""
        return tuple(sample_count("alpha", float(alpha), self.d) for alpha in self.schedule.alpha)

    def path(self, signal: np.ndarray | None = None, noise: TokenDraw | None = None) -> Path:
        """The run; `signal` is random by default, and `noise`, for full tokens, white and Gaussian."""
        model, xi = self.bag_model, draw_signal(self.seed, self.d) if signal is None else signal

        def draw(k: int) -> _Bags:
            if self.sampler == "tensor":
                return TensorData(self.task, self.counts[k], self.d, self.seed, f":{k}", noise, xi)
            return ImplicitBags(self.task, self.counts[k], xi, self.seed, f":{k}")

        theta, bias = random_start(self.start, model, xi, self.seed), model.start_bias(self.start)
        return descend(draw, self.schedule, model, get_loss(self.loss), theta, xi, bias)

    def measured(self, tested: Sequence[int] | None = None) -> Trajectory:
        """The run and its test measures."""
        # It brings JAX, which a trial of `simulate` does without.
        from ..laws.bag_model_measures import FreshBags, check_score

        check_score(self.bag_model)
        entries = self.schedule.steps + 1
        which = steps_tested(tested, entries)
        began = perf_counter()
        path = self.path()
        trained = perf_counter()
        fresh = FreshBags(self.task, self.bag_model, stream(self.seed, "quadrature"), TEST_REPLICATES)
        measured = {
            name: (at_steps(value, which, entries), at_steps(error, which, entries))
            for name, (value, error) in fresh.measures(path.overlap[which], path.gram[which], path.bias[which]).items()
        }
        seconds = {"training": trained - began, "testing": perf_counter() - trained}
        details = {"sampler": self.sampler, "d": self.d, "seed": self.seed, "bags": self.counts, "seconds": seconds}
        return _result(self.bag_model, path, measured, details)


def descent_numbers(sampler: str, tokens: int, d: int, directions: int, steps: int) -> float:
    """About how many numbers a descent on one data set holds: its fields, and without tokens all products kept."""
    return 4.0 * directions * (tokens + d) * (1.0 if sampler == "tensor" else 1.0 + 0.5 * steps)


def joint_trajectory(
    task: Task,
    training: Training,
    d: int,
    seed: int,
    sampler: str = "reduced",
) -> Trajectory:
    """Joint training of query, readout and bias, as `Training(schedule="joint")` means it.

    Plain gradient descent from zero with constant rates eta_q, eta_w, eta_b on

        F(q, w, b) = (1/n) sum_i l(<w, f_q(X_i)> + b; y_i) + (ridge/2) ||w||^2,   f_q(X) = X^T softmax(beta X q),

    over n = (alpha0 + alpha1) d bags, all of them in each of `training.steps` steps. The query and the bias are not penalised.
    `theory.trajectory` gives the limit.

    Parameters
    ----------
    task, training : Task, Training
        What the data is, and how it is learned, whatever its `schedule`.
    d, seed, sampler : int, int, str
        As for `simulate`.
    """
    return joint_descent(task, training, d, seed, sampler).measured()


def joint_descent(task: Task, training: Training, d: int, seed: int, sampler: str) -> DrawnDescent:
    """The run of `joint_trajectory`."""
    Training.require(training)
    if not training.beta > 0:
        raise ValueError(f"beta must be positive for joint training, got {training.beta!r}")
    rates = {"q": training.eta_q, "w": training.eta_w, "bias": training.eta_b}
    stage = Stage(training.steps, training.alpha0 + training.alpha1, rates, {"w": training.ridge})
    model = "attention" if training.beta == 1 else f"attention:{training.beta!r}"
    return DrawnDescent(task, model, stage, d, seed, sampler, training.loss)


def random_start(start: Mapping[str, float] | None, model: BagModel, signal: np.ndarray, seed: int) -> np.ndarray:
    """Theta_0 (d, r): columns of given norms and cosines with the signal, off it in orthogonal random directions."""
    d, norms, cosines = len(signal), np.array(model.start_norms(start)), np.array(model.start_cosines(start))
    started = np.flatnonzero(norms)
    if len(started) >= d:
        raise ValueError(f"d must exceed the number of directions that start ({len(started)}), got {d}")
    theta = np.zeros((d, model.rank), order="F")
    normals = stream(seed, "start").standard_normal((d, len(started)))
    off = norms * np.sqrt(1 - cosines**2)
    theta[:, started] = np.linalg.qr(np.column_stack([signal, normals]))[0][:, 1:] * off[started]
    return theta + np.outer(signal, norms * cosines) if cosines.any() else theta


class _Bags(Protocol):
    """A data set of labelled bags, as far as descent can see it: see `TensorData`."""

    labels: np.ndarray

    def fields(self, theta: np.ndarray) -> list[np.ndarray]: ...

    def pull(self, weights: list[np.ndarray]) -> np.ndarray: ...


def descend(
    draw: Callable[[int], _Bags],
    schedule: Schedule,
    model: BagModel,
    loss: Loss,
    theta: np.ndarray,
    signal: np.ndarray,
    bias: float = 0.0,
) -> Path:
    """Gradient descent along the schedule from theta (d, r) and bias; `draw(k)` gives data set k."""
    steps, r = schedule.steps, model.rank
    overlap, gram = np.empty((steps + 1, r)), np.empty((steps + 1, r, r))
    biases, train_loss, train_error = np.empty((3, steps + 1))
    last_use = {int(k): t for t, k in enumerate(schedule.data_set)}
    sets: dict[int, _Bags] = {}
    before = theta
    for t, k in enumerate(map(int, schedule.data_set)):
        if k not in sets:
            sets[k] = draw(k)
        bags = sets[k]
        with np.errstate(over="ignore", invalid="ignore"):
            overlap[t], gram[t], biases[t] = signal @ theta, theta.T @ theta, bias
            if not (math.isfinite(bias) and np.isfinite(gram[t]).all()):
                raise FloatingPointError(f"the descent has diverged after {t} steps: take smaller rates")
            y = bags.labels
            parts = [differentiate(model, fields, bias) for fields in bags.fields(theta)]
            scores, bias_slope = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
            train_loss[t], train_error[t] = loss.value(scores, y).mean(), mistakes(scores, y).mean()
            if t == steps:
                break
            slope = loss.slope(scores, y) / len(y)
            rates, rate_of_bias = schedule.rates[t, :r], schedule.rates[t, r]
            after = theta * (1.0 - schedule.decay[t] * rates) + schedule.momentum[t] * (theta - before)
            moving = np.flatnonzero(rates)
            if len(moving):
                weights, first = [], 0
                for z, field_slope, _ in parts:
                    weights.append(field_slope[:, :, moving] * slope[first : first + len(z), None, None])
                    first += len(z)
                after[:, moving] -= bags.pull(weights) * rates[moving]
            before, theta, bias = theta, after, bias - float(rate_of_bias * (slope @ bias_slope))
        if last_use[k] == t:
            del sets[k]
    return Path(overlap, gram, biases, train_loss, train_error, theta)


def differentiate(model: BagModel, fields: np.ndarray, bias: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (n,) of the bags with these fields, and their derivatives: (n, L, r) in the fields, (n,) in the bias."""
    from .._core.devices import double_precision  # brings JAX

    n, length, r = fields.shape
    # Data sets of any size share one program, of up to 128 bags.
    chunk = min(128, 2 ** max(0, int(math.log2(CHUNK_NUMBERS / (length * r)))))
    derivatives = _compiled_derivatives(model)
    scores, field_slope, bias_slope = np.empty(n), np.empty(fields.shape), np.empty(n)
    with double_precision():
        for first in range(0, n, chunk):
            which = slice(first, min(first + chunk, n))
            part = fields[which]
            count = len(part)
            if count < chunk:  # one shape, one compilation
                part = np.concatenate([part, np.zeros((chunk - count, length, r))])
            # (A Python float is another type to the compiler.)
            z, (in_fields, in_bias) = derivatives(part, np.float64(bias))
            scores[which] = np.asarray(z)[:count]
            field_slope[which] = np.asarray(in_fields)[:count]
            bias_slope[which] = np.asarray(in_bias)[:count]
    return scores, field_slope, bias_slope


@lru_cache(maxsize=64)
def _compiled_derivatives(model: BagModel) -> Callable[..., Any]:
    """Compiled (fields (n, L, r), bias) -> scores and their derivatives."""
    import jax

    of_bag = jax.value_and_grad(lambda H, bias: model(H, bias), argnums=(0, 1))
    return jax.jit(lambda fields, bias: jax.lax.map(lambda H: of_bag(H, bias), fields, batch_size=BAGS_AT_A_TIME))


def _result(
    model: BagModel, path: Path, tested: Mapping[str, tuple[np.ndarray, np.ndarray]], details: dict[str, Any]
) -> Trajectory:
    names, squares = model.directions, np.diagonal(path.gram, axis1=1, axis2=2)
    cosine = np.divide(path.overlap, np.sqrt(squares), out=np.zeros_like(path.overlap), where=squares > 0)
    exact = np.zeros(len(path.bias))
    errors: dict[str, Any] = {name: error for name, (_, error) in tested.items()}
    errors |= dict.fromkeys(("train_loss", "train_error", "bias"), exact)
    errors |= {name: dict.fromkeys(names, exact) for name in ("overlap", "cosine")} | {"gram": np.zeros_like(path.gram)}
    return Trajectory(
        directions=names,
        **{name: value for name, (value, _) in tested.items()},
        train_loss=path.train_loss,
        train_error=path.train_error,
        bias=path.bias,
        overlap=dict(zip(names, path.overlap.T, strict=True)),
        cosine=dict(zip(names, cosine.T, strict=True)),
        gram=path.gram,
        errors=errors,
        model=model.name,
        details=details,
    )
