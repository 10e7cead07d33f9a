"""The weight decay, and sharpness, with which joint training ends best: gradients through the fixed point.

The end x = (m, S, V^{-1}) solves x = Phi(x, p), p the logarithms of the decays and of the sharpness, so that
dx/dp = (I - dPhi/dx)^{-1} dPhi/dp, both factors by finite differences of a single iteration. What is minimised is the logarithm
of the test error at the best bias for the end's directions, where its derivative with respect to the bias vanishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from ..._core.averages import with_error
from ..._core.devices import in_double_precision
from ..._core.validation import whole_number
from ...bag_models import BagModel, get_bag_model
from ...laws.bag_model_measures import FreshDraws, TrainedDirections, limiting_test_error
from ...laws.error_measures import best_bias
from ...losses import Loss
from ...results import NOT_PLAIN, Result
from ...schedules import FIRST_DECAY
from ...task import Task
from ...trajectories import JointEnd
from ..accuracy import ConvergenceError
from ..bayes.limit import bayes_limit
from ..design import DECAYS, SEARCH_DRAWS, SHARPNESS
from .problem import Sampling
from .statics import bags_in_memory, end_problem, end_replicate, first_end, statics
from .statics_equations import EndEquations, EndPoint, packed, unpacked


@dataclass(frozen=True, eq=False, repr=False)
class EndDesign(Result):
    """The best end of joint training found.

    Attributes
    ----------
    decay, model : mapping, BagModel
        Weight decay of each direction, and the model at the sharpness found.
    end : JointEnd
        Where training with them ends, on draws independent of the search's.
    bayes_error, excess : float
        What no learner beats with as many bags, and end.refitted_error less that.
    evaluations : int
        Ends that the search solved for, each with its gradient.
    """

    decay: Mapping[str, float]
    model: BagModel = field(metadata=NOT_PLAIN)
    end: JointEnd = field(metadata=NOT_PLAIN)
    bayes_error: float
    excess: float
    evaluations: int

    def _words(self) -> str:
        decay = ", ".join(f"{name} {value:.3g}" for name, value in self.decay.items())
        error = with_error(self.end.refitted_error, self.end.errors["refitted_error"])
        return (
            f"{self.model.name}: test error {error} with the refitted bias at decay {decay}, {self.excess:.4f} above the "
            f"Bayes limit {self.bayes_error:.4f}"
        )


@partial(jax.jit, static_argnames=("score", "split"))
def _error_and_slopes(score, split, at: TrainedDirections, sharpness, fresh: FreshDraws):
    """The test error, and its derivatives with respect to the directions and the sharpness."""

    def error(at, sharpness):
        return limiting_test_error(lambda H, bias: score(H, bias, sharpness), split, at, fresh)

    return jax.value_and_grad(error, (0, 1))(at, sharpness)


def slopes_of_end(equations: EndEquations, end: EndPoint) -> np.ndarray:
    """d(m, S, V^{-1})/d(log decay, log sharpness) at a fixed point, packed, a column for each of the latter."""
    x, r, problem = packed(end.at), len(end.at.m), equations.problem

    def phi(z: np.ndarray) -> np.ndarray:
        plan = problem.plan._replace(sharpness=np.exp(z[-1]))
        here = replace(equations, problem=problem._replace(plan=plan), decay=np.exp(z[-1 - r : -1]))
        return packed(here.applied(unpacked(z[: len(x)], r, end.at.bias), end.pulls)[0])

    z = np.concatenate([x, np.log(equations.decay), [np.log(float(problem.plan.sharpness))]])
    steps = np.diag(1e-4 * np.r_[np.maximum(np.abs(x), np.abs(x).mean()), np.ones(r + 1)])
    table = np.transpose([(phi(z + h) - phi(z - h)) / (2 * h.max()) for h in steps])
    return np.linalg.solve(np.eye(len(x)) - table[:, : len(x)], table[:, len(x) :])


class EndSearch:
    """The logarithm of the error at the best bias on fixed draws, with its gradient."""

    def __init__(self, task: Task, model: BagModel, alpha: float, loss: str | Loss, start: Any, bags: int | None):
        self.model, self.alpha, self.loss, self.start, self.task = model, alpha, loss, start, task
        self.bags, self.evaluations = bags, 0
        self.ends: dict[int, EndPoint] = {}

    def parts(self, p: np.ndarray) -> tuple[dict[str, float], BagModel]:
        """The decays and the model at that point."""
        decay = dict(zip(self.model.directions, np.exp(p[: self.model.rank]).tolist()))
        sharp = self.model.sharpness is not None
        return decay, self.model.with_sharpness(float(np.exp(p[-1]))) if sharp else self.model

    def replicate(self, p: np.ndarray, index: int) -> tuple[float, np.ndarray]:
        """The error and its slopes on one replicate; the end found is the next evaluation's start."""
        decay, model = self.parts(p)
        problem, decays = end_problem(self.task, model, self.alpha, decay, self.loss)
        equations, fresh = end_replicate(problem, decays, index, self.bags or bags_in_memory(problem))
        known = self.ends.get(index)
        end = equations.solve(replace(known, pulls=equations.no_pulls())) if known else None
        if end is None or not end.converged:
            end = first_end(equations, self.start)
        self.ends[index] = end
        at, sharpness = end.at, float(equations.compiled[2])
        gram = at.S + np.outer(at.m, at.m)
        draws = jax.tree_util.tree_map(jnp.asarray, fresh)

        def measured(bias: float) -> Any:
            here = TrainedDirections(*map(jnp.asarray, TrainedDirections.of(self.task, at.m, gram, bias)))
            return _error_and_slopes(problem.score, problem.split, here, sharpness, draws)

        best, _ = best_bias(lambda bias: measured(bias)[0], float(at.bias), equations.left_out_scores(end)[0])
        error, (by, by_sharpness) = measured(best)
        slopes, r = slopes_of_end(equations, end), self.model.rank
        upper = np.triu_indices(r)
        table = np.asarray(by.gram) + np.asarray(by.gram).T - np.diag(np.diag(by.gram))  # both of S's entries move
        overlap = np.asarray(by.overlap) + (np.asarray(by.gram) + np.asarray(by.gram).T) @ at.m
        slope = overlap @ slopes[:r] + table[upper] @ slopes[r : r + len(upper[0])]
        slope[-1] += float(by_sharpness) * sharpness
        return float(error), slope[: len(p)]

    def objective(self, p: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean over the replicates, as a logarithm; 0, from where a line search steps back, where no end is found."""
        self.evaluations += 1
        try:
            found = [self.replicate(p, i) for i in SEARCH_DRAWS]
        except ConvergenceError:
            if self.evaluations == 1:
                raise
            return 0.0, np.zeros_like(p)
        error = float(np.mean([part[0] for part in found]))
        return float(np.log(error)), np.mean([part[1] for part in found], axis=0) / error


@in_double_precision
def design_end(
    task: Task,
    model: str | BagModel,
    alpha: float,
    loss: str | Loss = "logistic",
    *,
    start: str | Mapping[str, float] = "uninformed",
    most_evaluations: int = 30,
    sampling: Sampling | None = None,
) -> EndDesign:
    """The weight decay of each direction, and the sharpness, with which joint training on alpha d bags ends best.

    The least test error at the best bias for the end's directions is sought by L-BFGS-B with gradients through the fixed point
    of `statics`; the search begins at one decay for all directions and is local.

    Parameters
    ----------
    task, model, alpha, loss, start
        As in `statics`; the model's sharpness, where it has one, is where the search begins.
    most_evaluations : int
        The most ends that the search may solve for.
    sampling : Sampling, optional
        Bags and replicates of the ends, as in `statics`; the search has two replicates.

    Raises
    ------
    ConvergenceError
        Where no end is found at the first decay.
    """
    most = whole_number("most_evaluations", most_evaluations, 1)
    chosen, sampling = get_bag_model(model), sampling or Sampling()
    search = EndSearch(task, chosen, alpha, loss, start, sampling.bags)
    p = np.log([FIRST_DECAY] * chosen.rank + ([chosen.sharpness] if chosen.sharpness is not None else []))
    bounds = [tuple(np.log(DECAYS))] * chosen.rank + [tuple(np.log(SHARPNESS))]
    options = {"maxfun": most, "ftol": 1e-3}
    optimum = minimize(search.objective, p, jac=True, method="L-BFGS-B", bounds=bounds[: len(p)], options=options).x
    decay, best = search.parts(optimum)
    end = statics(task, best, alpha, decay, loss, start, sampling=sampling)
    limit = bayes_limit(task, alpha).test_error
    return EndDesign(decay, best, end, limit, end.refitted_error - limit, search.evaluations)
