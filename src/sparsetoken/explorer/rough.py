"""Rough forecasts: the library's own equations on few draws, a few thousandths of a second each.

They are the first answer to new values and the cells of phase diagrams. The same draws serve all points of a figure, so that
lines and surfaces are smooth; the standard error, from the replicates' scatter, says how far they may lie off as a whole.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from .._core.precision import in_double_precision
from .._core.replicates import standard_error
from ..jax_losses import traceable
from ..laws.law import Law, same_mechanism
from ..laws.measures import above_zero, fresh_measures, score_laws
from ..laws.nodes import Nodes, Population, nodes_of
from ..laws.populations import attended_mixture, draws_of_kinds
from ..losses import Loss, get_loss
from ..task import Task
from ..theory.continuation import Problem, first_guess, walk_down
from ..theory.equations import Solution, grid_size
from ..theory.errors import ConvergenceError
from ..theory.forecast import law_of, readout_alpha
from ..theory.newton import newton_traced
from ..theory.refinement import answer_of
from ..theory.square_loss import is_square, solve_square
from ..training import Training

# Draws per replicate and class, and replicates: standard errors of the test error of about 6e-4 at the page's defaults, and
# arrays of one shape for all bags, so that one compiled program per loss serves them.
POINTS, REPLICATES = 128, 8
# Residual at which a rough solution is good enough: the test error then moves by 1e-6, far below what the draws leave.
_AIM, _ACCEPTED = 1e-6, 1e-5
# From a neighbour's solution 3 to 6 are needed; where more are, the walk down the ridge is quicker.
_EVALUATIONS = 15
_LOGARITHMS = (2, 4)  # log nu and log V among the unknowns


@dataclass(frozen=True, eq=False)
class Rough:
    """A rough forecast.

    Attributes
    ----------
    test_error, standard_error : float
        On fresh bags; the error left by the draws.
    x : ndarray (5,)
        The fixed point, a start for neighbours.
    """

    test_error: float
    standard_error: float
    x: np.ndarray


class _Starts:
    """The last fixed point of every model under every loss: values that a slider moves have their solutions close by."""

    def __init__(self) -> None:
        self._lock, self._known = threading.Lock(), dict[tuple[str, str], np.ndarray]()

    def get(self, key: tuple[str, str]) -> np.ndarray | None:
        with self._lock:
            return self._known.get(key)

    def put(self, key: tuple[str, str], x: np.ndarray) -> None:
        with self._lock:
            self._known[key] = x


_starts = _Starts()


def few_draws(task: Task, law: Law) -> Population:
    """The law on `POINTS` draws in `REPLICATES` replicates; as it is where it is not drawn."""
    if not law.refinable:
        return law.at(0)[0]
    draws = [
        some.with_leaves([np.asarray(leaf)[:REPLICATES] for leaf in some.leaves()])
        for some in draws_of_kinds(task, POINTS)
    ]
    known = law.parameters
    return attended_mixture(task, task.prevalence, known["cosine"], known["sharpness"], draws=draws)


def rough_forecast(
    task: Task, training: Training, model: str, *, equal_samples: bool, near: np.ndarray | None = None
) -> Rough:
    """The test error of a model, on few draws.

    Objective of the readout: (1/n) sum l + (ridge/2) ||w||^2, bias unpenalised, n = alpha1 d (alpha0 + alpha1 for models
    without a query where samples are to be equal).

    Parameters
    ----------
    task, training : Task, Training
        The setting.
    model : str
        "attention", "pooled" or "vectorized".
    equal_samples : bool
        Whether models without a query learn from all samples.
    near : ndarray, optional
        The fixed point of a neighbouring setting.

    Returns
    -------
    Rough

    Raises
    ------
    ConvergenceError
        Where no fixed point is found.
    """
    law, _ = law_of(task, training, model)
    population = few_draws(task, law)
    alpha = readout_alpha(training, model, equal_samples) / law.dimension_factor
    loss = get_loss(training.loss)
    if is_square(loss):
        nodes = nodes_of(population)
        x = solve_square(alpha, training.ridge, nodes).x[0]
        own = solve_square(alpha, training.ridge, nodes, each=True).x
        if not np.isfinite(x).all():
            raise ConvergenceError("the strength is so large that the fixed point is lost in rounding errors")
    else:
        key = (model, loss.name)
        answer = answer_of(
            _solved(loss, alpha, training.ridge, nodes_of(population), _starts.get(key) if near is None else near),
            _LOGARITHMS,
        )
        x, own = answer.x, answer.own_x
        _starts.put(key, x)
    with np.errstate(over="ignore", invalid="ignore"):
        error = float(np.mean(_test_error(x, population)))
        return Rough(error, standard_error(_test_error(own, population), alone=0.0), x)


def rough_test_elsewhere(task: Task, training: Training, bags: Task) -> dict[str, float]:
    """Attention trained on the task and tested on other bags: test error, AUC, sensitivity and specificity, on few draws."""
    x = rough_forecast(task, training, "attention", equal_samples=True).x
    population = few_draws(bags, same_mechanism(law_of(task, training, "attention")[0], bags))
    found = fresh_measures(*score_laws(x, population), population.prevalence)
    return {name: float(found[name].mean()) for name in ("test_error", "auc", "sensitivity", "specificity")}


def _test_error(x: np.ndarray, population: Population) -> np.ndarray:
    """P(y score <= 0) for each replicate."""
    positive, negative = score_laws(x, population)
    missed = positive.average(above_zero(-positive.mean, positive.deviation))
    alarmed = negative.average(above_zero(negative.mean, negative.deviation))
    return np.asarray(population.prevalence * missed + (1.0 - population.prevalence) * alarmed)


@in_double_precision
def _solved(loss: Loss, alpha: float, ridge: float, nodes: Nodes, start: np.ndarray | None) -> Solution:
    function, size = traceable(loss), grid_size(nodes)
    full = jax.tree.map(lambda leaf: np.broadcast_to(leaf, nodes.T.shape), nodes)

    def newton(x: Any, here: float, aim: float, evaluations: int) -> Solution:
        found = _compiled(function, size, np.asarray(x), alpha, here, full, aim, evaluations)
        return Solution(*(np.asarray(part) for part in found))

    if start is not None and np.isfinite(start).all():
        solution = newton(start, ridge, _AIM, _EVALUATIONS)
        if solution.residual <= _ACCEPTED:
            return solution

    def guess(here):
        return first_guess(function, alpha, here, nodes)

    return walk_down(Problem(newton, guess, f"alpha={alpha:g}, loss {loss.name}"), ridge, [])


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(loss: Loss, size: int, x, alpha, ridge, nodes: Nodes, aim, evaluations) -> Solution:
    return newton_traced(loss, size, x, alpha, ridge, nodes, aim, evaluations)
