"""Derivatives of the test error of a training run with respect to everything in its schedule: `recursion` is differentiated
backwards on fixed draws, and replicates give the standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._core.averages import standard_error
from ..._core.devices import in_double_precision
from ..._core.frozen import freeze_fields
from ..._core.validation import whole_number
from ...bag_models import BagModel
from ...laws.bag_model_measures import FreshDraws, TrainedDirections, limiting_test_error
from ...losses import Loss
from ...plotting.show import Shown, axes_for, legend_above
from ...plotting.style import colour
from ...schedules import Stage
from ...task import Task
from .problem import PROBES, Sampling, TrainingProblem, problem_of, replicate_draws
from .recursion import BagDraws, ScheduleArrays, advance, first_state

# A backward run keeps the buffers of every step: T times the memory of a forward one, so it takes fewer bags.
BAGS = 512
CONTROLS = ("rates", "decay", "momentum", "sharpness")


@dataclass(frozen=True, eq=False, repr=False)
class TrajectoryGradient(Shown):
    """d test_error(step)/d(schedule).

    Attributes
    ----------
    step, test_error : int, float
        The step whose test error was differentiated, and that test error on the draws used here.
    rates, decay : mapping of str to ndarray
        By each direction's learning rate (and the bias's) and weight decay, one per step before `step`.
    momentum, sharpness : ndarray, float
        By the momentum of each step, and by the model's sharpness (0 where it has none).
    errors : mapping
        Standard errors with the same keys and shapes.
    """

    step: int
    test_error: float
    rates: Mapping[str, np.ndarray]
    decay: Mapping[str, np.ndarray]
    momentum: np.ndarray
    sharpness: float
    errors: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        freeze_fields(self)

    def __repr__(self) -> str:
        return (
            f"TrajectoryGradient(of test error {self.test_error:.4g} after {self.step} steps, by step: "
            f"{', '.join(self._slopes())})"
        )

    def _slopes(self) -> dict[str, np.ndarray]:
        named = {f"rate of {name}": values for name, values in self.rates.items()}
        return named | {f"decay of {name}": v for name, v in self.decay.items()} | {"momentum": self.momentum}

    def frame(self) -> Any:
        """A pandas table, one row per step before `step`: derivatives with respect to that step's rates, decay and momentum."""
        import pandas as pd

        return pd.DataFrame(self._slopes()).rename_axis("step").reset_index()

    def plot(self, ax: Any = None) -> Any:
        """The derivatives over the steps."""
        ax = axes_for(ax)
        for place, (name, values) in enumerate(self._slopes().items()):
            ax.plot(np.arange(len(values)), values, ".-", color=colour(name, place), label=name)
        ax.axhline(0.0, color="black", linewidth=0.8)
        ax.set(xlabel="gradient step t", ylabel=f"derivative of the test error after {self.step} steps")
        ax.xaxis.get_major_locator().set_params(integer=True)
        legend_above(ax)
        return ax


@partial(jax.jit, static_argnames=("score", "loss", "split", "shape", "steps"))
def _value_and_gradient(score, loss, split, shape, steps, controls, plan: ScheduleArrays, draws, fresh):
    def error(controls):
        """The test error after `steps`; of several steps the geometric mean."""
        changed = plan._replace(**dict(zip(CONTROLS, controls)))

        def at_sharpness(H, bias):
            return score(H, bias, changed.sharpness)

        body = jax.checkpoint(lambda state, t: advance(at_sharpness, loss, shape, changed, draws, state, t))
        # The last entry itself is entered as well, for its Gram matrix.
        state = jax.lax.fori_loop(0, max(steps) + 1, lambda t, s: body(s, t), first_state(changed, draws))
        rest = (plan.theta, plan.pi, shape.correlation, plan.contamination)
        after = [TrainedDirections(state.m[t], state.gram[t], state.bias[t], *rest) for t in steps]
        errors = [limiting_test_error(at_sharpness, split, classifier, fresh) for classifier in after]
        return errors[0] if len(errors) == 1 else jnp.exp(jnp.log(jnp.stack(errors)).mean())

    return jax.value_and_grad(error)(controls)


def replicate_gradient(
    problem: TrainingProblem,
    steps: int | tuple[int, ...],
    draws: tuple[BagDraws, FreshDraws],
    controls: Sequence[Any] | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Test error after `steps` steps and its derivatives with respect to the plan's `CONTROLS` (or those given instead)."""
    plan = jax.tree_util.tree_map(jnp.asarray, problem.plan)
    values = tuple(getattr(plan, name) for name in CONTROLS) if controls is None else tuple(map(jnp.asarray, controls))
    values = (*values[:3], jnp.asarray(values[3], dtype=float))
    after = (steps,) if isinstance(steps, int) else steps
    return _value_and_gradient(problem.score, problem.loss, problem.split, problem.shape, after, values, plan, *draws)


@in_double_precision
def trajectory_gradient(
    task: Task,
    model: str | BagModel,
    stages: Stage | Sequence[Stage],
    step: int | None = None,
    loss: str | Loss = "logistic",
    *,
    start: Mapping[str, float] | None = None,
    sampling: Sampling | None = None,
) -> TrajectoryGradient:
    """Derivatives of the test error after `step` steps with respect to rates, decay, momentum and sharpness.

    Parameters
    ----------
    task, model, stages
        As in `trajectory`.
    step : int, optional
        Which step's test error; the last by default.
    loss, start
        As in `trajectory`.
    sampling : Sampling, optional
        Bags and replicates, 8 replicates of 512 bags by default. The buffers take about 24 step^2 bags L r bytes.
    """
    problem = problem_of(task, model, stages, loss, start)
    step = problem.schedule.steps if step is None else whole_number("step", step, 1)
    if step > problem.schedule.steps:
        raise ValueError(f"step must be at most the schedule's {problem.schedule.steps} steps, got {step}")
    sampling = sampling or Sampling()
    bags = sampling.bags or BAGS
    values, slopes = [], []
    for i in range(sampling.replicates or 8):
        value, slope = replicate_gradient(problem, step, replicate_draws(problem, i, bags, PROBES, differentiable=True))
        values.append(float(value))
        slopes.append([np.asarray(s)[:step] if np.ndim(s) else np.asarray(s) for s in slope])
    means = [np.mean(column, axis=0) for column in zip(*slopes)]
    errors = [standard_error(column) for column in zip(*slopes)]
    return TrajectoryGradient(
        step, float(np.mean(values)), **_named(problem.model, means), errors=_named(problem.model, errors)
    )


def _named(model: BagModel, columns: Sequence[np.ndarray]) -> dict[str, Any]:
    """Rates and decay under the directions' names."""
    rates, decay, momentum, sharpness = columns
    return {
        "rates": {name: rates[:, i] for i, name in enumerate((*model.directions, "bias"))},
        "decay": {name: decay[:, i] for i, name in enumerate(model.directions)},
        "momentum": momentum,
        "sharpness": float(sharpness),
    }
