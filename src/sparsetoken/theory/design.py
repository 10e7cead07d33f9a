"""Training designed by theory: the schedule with the least test error for a given number of bags and steps.

All alpha d bags are used at every step. What is minimised is the logarithm of the limiting test error, averaged over the last
two steps (one alone would favour oscillations of period two), as a function of the logarithms of all rates, decays and of the
sharpness, and of the momentum, by L-BFGS-B with exact derivatives on fixed draws.

The search is local: it begins with the best constant schedules on a grid. Schedules near the edge of stability do well on the
draws they were fitted to and worse on others: the searches' results are compared on held-out draws, and the schedule chosen
there is evaluated on independent draws once more, which also choose the stopping step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from .._core.averages import with_error
from .._core.devices import in_double_precision
from .._core.validation import real_number, whole_number
from ..bag_models import BagModel, get_bag_model
from ..losses import Loss
from ..plotting.show import Shown, legend_above
from ..plotting.style import REFERENCE
from ..schedules import FIRST_BIAS_RATE, FIRST_DECAY, FIRST_RATE, Stage
from ..task import Task
from ..trajectories import Trajectory
from .bayes.limit import bayes_limit
from .dynamics.problem import PROBES, Sampling, problem_of, replicate_draws
from .dynamics.trajectory import BAGS as CONFIRMING_BAGS
from .dynamics.trajectory import solve_replicate, trajectory
from .dynamics.trajectory_gradient import BAGS, replicate_gradient

# Replicates by number: those of the search, those on which its results are compared; the confirmed run has others.
SEARCH_DRAWS, CHOOSING_DRAWS = range(1_000_000, 1_000_002), range(2_000_000, 2_000_008)
DECAYS, SHARPNESS = (1e-4, 3.0), (0.2, 8.0)  # bounds of the search


@dataclass(frozen=True, eq=False, repr=False)
class Design(Shown):
    """The best schedule found.

    Attributes
    ----------
    stages, model : tuple of Stage, BagModel
        The schedule, up to the stopping step, and the model at the sharpness found.
    test_error, standard_error : float
        The limiting test error at the stopping step, on draws independent of the search's.
    stopping_step : int
        The step with the least test error.
    bayes_error, excess : float
        What no learner beats with as many bags, and test_error less that.
    trajectory : Trajectory
        The confirmed run over the whole budget of steps.
    search_error : float
        What was minimised: the geometric mean of the test errors of the last two steps, on the search's own draws.
    evaluations : int
        Gradients the search took.
    """

    stages: tuple[Stage, ...]
    model: BagModel
    test_error: float
    standard_error: float
    stopping_step: int
    bayes_error: float
    excess: float
    trajectory: Trajectory
    search_error: float = float("nan")
    evaluations: int = 0

    def summary(self) -> str:
        """One sentence: what is reached, in how many steps, and how far from the Bayes limit."""
        return (
            f"{self.model.name}: test error {with_error(self.test_error, self.standard_error)} after "
            f"{self.stopping_step} steps, {self.excess:.4f} above the Bayes limit {self.bayes_error:.4f}"
        )

    def __repr__(self) -> str:
        return f"Design({self.summary()})"

    def frame(self) -> Any:
        """A pandas table of the confirmed run, one row per step, as `Trajectory.frame`."""
        return self.trajectory.frame()

    def plot(self, ax: Any = None) -> Any:
        """The confirmed run over the steps, as `Trajectory.plot`, with the Bayes limit."""
        ax = self.trajectory.plot(ax)
        ax.axhline(self.bayes_error, color=REFERENCE, linestyle="--", label="Bayes limit")
        legend_above(ax)
        return ax


@dataclass(frozen=True)
class _Layout:
    """How the search's unknowns become a schedule."""

    model: BagModel
    alpha: float
    lengths: tuple[int, ...]

    @property
    def per_stage(self) -> int:
        return 2 * self.model.rank + 1

    def bounds(self) -> list[tuple[float, float]]:
        # Descent on the bias alone overshoots beyond a rate of 2/max l'' (8 for the logistic loss): schedules that rely on such
        # oscillations are exact in the limit, which practical d are far from.
        r, momentum = self.model.rank, (0.0, 0.9)
        rates, bias_rates, decays, sharpness = (
            [tuple(np.log(ends))] for ends in ((1e-2, 50.0), (1e-2, 8.0), DECAYS, SHARPNESS)
        )
        common = [momentum] + (sharpness if self.model.sharpness is not None else [])
        return (r * rates + bias_rates + r * decays) * len(self.lengths) + common

    def constant(self, rate: float = FIRST_RATE, decay: float = FIRST_DECAY, sharpness: float = 1.0) -> np.ndarray:
        """The schedule with the same rate and decay at every step; `sharpness` is a factor of the model's."""
        r = self.model.rank
        stage = [np.log(rate)] * r + [np.log(FIRST_BIAS_RATE)] + [np.log(decay)] * r
        common = [0.0] + ([np.log(sharpness * self.model.sharpness)] if self.model.sharpness is not None else [])
        low, high = np.transpose(self.bounds())
        return np.clip(stage * len(self.lengths) + common, low, high)

    def grid(self) -> list[np.ndarray]:
        """Constant schedules to begin with, the usual one first."""
        factors = (0.5, 1.0, 2.0, 4.0) if self.model.sharpness is not None else (1.0,)
        return [self.constant(), *(self.constant(*p) for p in product((0.4, 1.0), (0.07, 0.2, 0.5, 1.2), factors))]

    def controls(self, x: Any) -> tuple[Any, Any, Any, Any]:
        """Rates (n, r + 1), decay (n, r), momentum (n,) and sharpness, with zeros for the entry after the last step."""
        r, S = self.model.rank, len(self.lengths)
        table = jnp.exp(x[: S * self.per_stage].reshape(S, self.per_stage))
        stage_of = np.repeat(np.arange(S), self.lengths)
        steps = len(stage_of)
        live = jnp.asarray(np.append(np.ones(steps), 0.0))[:, None]
        table = table[np.append(stage_of, S - 1)] * live
        momentum = x[S * self.per_stage] * live[:, 0]
        sharpness = jnp.exp(x[-1]) if self.model.sharpness is not None else jnp.asarray(1.0)
        return table[:, : r + 1], table[:, r + 1 :], momentum, sharpness

    def stages(self, x: np.ndarray, stop: int | None = None) -> list[Stage]:
        r, S = self.model.rank, len(self.lengths)
        table = np.exp(x[: S * self.per_stage].reshape(S, self.per_stage))
        left = sum(self.lengths) if stop is None else stop
        made = []
        for length, row in zip(self.lengths, table):
            steps = min(length, left)
            left -= steps
            if steps:
                rates = dict(zip((*self.model.directions, "bias"), row[: r + 1]))
                decay = dict(zip(self.model.directions, row[r + 1 :]))
                made.append(Stage(steps, self.alpha, rates, decay, max(float(x[S * self.per_stage]), 0.0)))
        return made

    def model_at(self, x: np.ndarray) -> BagModel:
        return self.model if self.model.sharpness is None else self.model.with_sharpness(float(np.exp(x[-1])))


class _ScheduleSearch:
    """The objective on its draws, and descents of it."""

    def __init__(self, task: Task, layout: _Layout, loss: str | Loss, start: Mapping[str, float] | None):
        self.task, self.layout, self.loss, self.start = task, layout, loss, start
        self.problem = problem_of(task, layout.model, layout.stages(layout.constant()), loss, start)
        steps = sum(layout.lengths)
        self.last_steps = (steps - 1, steps) if steps > 1 else (steps,)
        drawn = (replicate_draws(self.problem, i, BAGS, PROBES, differentiable=True) for i in SEARCH_DRAWS)
        self.draws = [jax.tree_util.tree_map(jnp.asarray, d) for d in drawn]
        self.evaluations = 0
        self.best: tuple[float, np.ndarray] = (np.inf, layout.constant())

    def quick(self, x: np.ndarray, draws: Iterable[int]) -> float:
        """The logarithm of the error of the last steps, without derivatives; infinite where training diverges."""
        layout = self.layout
        here = problem_of(self.task, layout.model_at(x), layout.stages(x), self.loss, self.start)
        rows = [solve_replicate(here, i, CONFIRMING_BAGS, PROBES) for i in draws]
        value = float(np.log(np.mean([row["test_error"] for row in rows], axis=0)[list(self.last_steps)]).mean())
        return value if np.isfinite(value) else np.inf

    def objective(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The logarithm of the error and its gradient; the best point is kept."""
        self.evaluations += 1
        controls, back = jax.vjp(self.layout.controls, jnp.asarray(x))
        pairs = [replicate_gradient(self.problem, self.last_steps, d, controls) for d in self.draws]
        error = float(np.mean([value for value, _ in pairs]))
        slope = np.mean([np.asarray(back(gradient)[0]) for _, gradient in pairs], axis=0)
        if not (np.isfinite(error) and np.isfinite(slope).all()):
            return 5.0, np.zeros_like(x)  # from where a line search steps back
        error = max(error, 1e-12)
        if np.log(error) < self.best[0]:
            self.best = (float(np.log(error)), np.array(x))
        return float(np.log(error)), slope / error

    def descend(self, x: np.ndarray, most: int) -> tuple[float, np.ndarray]:
        """The best value and point that a search from x finds within `most` evaluations."""
        self.best, reached, end = (np.inf, x), np.inf, self.evaluations + most
        # L-BFGS often stops next to the edge beyond which training diverges: restarted as long as that gains something.
        while self.evaluations < end and (reached == np.inf or self.best[0] < reached - 2e-3):
            reached, options = self.best[0], {"maxfun": end - self.evaluations, "ftol": 1e-5, "maxcor": 20}
            bounds = self.layout.bounds()
            minimize(self.objective, self.best[1], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            if self.best[0] == np.inf:
                break
        return self.best

    def run(self, most: int) -> tuple[float, np.ndarray]:
        """A short search from each of the best points of the grid, then the best of them searched to the end."""
        grid = self.layout.grid()
        order = np.argsort([self.quick(x, SEARCH_DRAWS[:1]) for x in grid], kind="stable")
        share = max(1, round(0.15 * most))
        followed: list[tuple[float, np.ndarray]] = []
        for i in order[:3]:
            if self.evaluations < most:
                followed.append(self.descend(grid[i], min(share, most - self.evaluations)))
        if self.evaluations < most:
            followed.append(self.descend(min(followed, key=lambda end: end[0])[1], most - self.evaluations))
        return min(followed, key=lambda end: self.quick(end[1], CHOOSING_DRAWS))


@in_double_precision
def design(
    task: Task,
    model: str | BagModel,
    alpha: float,
    budget_of_steps: int,
    loss: str | Loss = "logistic",
    *,
    stages: int = 3,
    start: Mapping[str, float] | None = None,
    most_evaluations: int = 100,
) -> Design:
    """The schedule (rates and decay of each stage, momentum, sharpness, stopping step) with the least limiting test error.

    Parameters
    ----------
    task, model
        As in `trajectory`; the model's sharpness, where it has one, is where the search begins.
    alpha : float
        n/d: all these bags are used at every step.
    budget_of_steps : int
        The most steps allowed.
    loss, stages, start
        As in `trajectory`, but `stages` is their number: they have equal lengths, each its own rates and decays.
    most_evaluations : int
        The most values, with their gradients, that the search may compute.
    """
    alpha = real_number("alpha", alpha, 0.0, open_low=True)
    steps = whole_number("budget_of_steps", budget_of_steps, 1)
    count = min(whole_number("stages", stages, 1), steps)
    most = whole_number("most_evaluations", most_evaluations, 1)
    lengths = tuple(len(part) for part in np.array_split(np.arange(steps), count))
    layout = _Layout(get_bag_model(model), alpha, lengths)
    search = _ScheduleSearch(task, layout, loss, start)
    value, x = search.run(most)
    best, sampling = layout.model_at(x), Sampling(replicates=64)
    confirmed = trajectory(task, best, layout.stages(x), loss, start, accuracy=1.0, sampling=sampling)
    stop = confirmed.best_step
    limit = bayes_limit(task, alpha).test_error
    error = float(confirmed.test_error[stop])
    return Design(
        stages=tuple(layout.stages(x, max(stop, 1))),
        model=best,
        test_error=error,
        standard_error=float(confirmed.standard_error[stop]),
        stopping_step=stop,
        bayes_error=limit,
        excess=error - limit,
        trajectory=confirmed,
        search_error=float(np.exp(value)),
        evaluations=search.evaluations,
    )
