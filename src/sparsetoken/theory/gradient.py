"""Derivatives of the forecast test error with respect to everything a user can set.

The chain  parameters -> alignment -> law -> fixed point -> test error  is differentiated exactly. At the fixed point
F(x, p) = 0 the implicit function theorem gives, for the error E(x, p),

    dE/dp = partial_p [E - lambda . F],   lambda = (partial_x F)^-T partial_x E,

so one adjoint solve of size five serves all parameters. The law's draws are held fixed (pathwise derivatives).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from .._core.precision import in_double_precision
from .._core.replicates import standard_error
from ..activations import get_activation
from ..jax_losses import traceable
from ..laws.draws import TokenDraws
from ..laws.nodes import Nodes, Population, nodes_of
from ..laws.populations import (
    attended_mixture,
    draws_of_kinds,
    pooled_mixture,
    uniform_attention_mixture,
    vectorized_mixture,
)
from ..losses import Loss
from ..models import check_model, has_query
from ..plotting.show import Shown, axes_for
from ..plotting.style import colour
from ..task import Task
from ..training import Training
from .alignment import alignment_formulas
from .continuation import solve
from .equations import TOLERANCE, field_of_nodes, grid_size, moments, quadrature, residual
from .errors import ConvergenceError
from .forecast import law_of, readout_alpha
from .newton import newton_traced

PARAMETERS = ("strength", "prevalence", "beta", "ridge", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q")
TEN_PERCENT = 0.1
POINTS = 1024  # draws per replicate: derivatives of the default task are then good to about one per cent


class Gradient(Shown, dict[str, float]):
    """Parameter -> d test_error/d parameter.

    Parameters
    ----------
    values, errors : dict
        The derivatives and their standard errors.
    test_error : float
        The error itself.
    at : dict
        The parameters' values.
    """

    def __init__(self, values: dict[str, float], errors: dict[str, float], test_error: float, at: dict[str, float]):
        super().__init__(values)
        self.errors, self.test_error, self.at = errors, test_error, at

    def __repr__(self) -> str:
        slopes = ", ".join(f"{name} {value:.3g}" for name, value in self.items())
        return f"Gradient(of test error {self.test_error:.4g}: {slopes})"

    def frame(self) -> Any:
        """A pandas table, one row per parameter: value, derivative, its standard error, and what ten per cent more change."""
        import pandas as pd

        columns = {"value": self.at, "derivative": dict(self), "standard_error": self.errors}
        table = pd.DataFrame(columns).rename_axis("parameter").reset_index()
        return table.assign(change_per_ten_percent=TEN_PERCENT * table["value"] * table["derivative"])

    def plot(self, ax: Any = None) -> Any:
        """What ten per cent more of each parameter change in the test error, to first order, with two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_for(ax)
        table = self.frame()
        places = np.arange(len(table))[::-1]
        spread = 2 * TEN_PERCENT * table["value"] * table["standard_error"]
        ax.barh(places, table["change_per_ten_percent"], xerr=spread, height=0.6, color=colour("attention"), capsize=3)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(places, table["parameter"])
        ax.set(xlabel="change of the test error for 10 % more", title=f"test error {self.test_error:.4g}")
        ax.grid(axis="x", alpha=0.3)
        return ax


def _population(
    model: str, task: Task, loss: Loss, activation: Any, p: dict[str, Any], draws: list[TokenDraws] | None
) -> Population:
    """The chain from the parameters to the population of a model; `draws` where its weights depend on the tokens.

    The task has a mean strength of 1 here: `p` holds the number that all strengths are multiplied by.
    """
    kinds = [kind._replace(strength=kind.strength * p["strength"]) for kind in task.kinds]
    pi = p["prevalence"]
    if model == "pooled":
        return pooled_mixture(task, pi, kinds)
    if model == "vectorized":
        return vectorized_mixture(task, pi, kinds)
    rates = (p["eta_w"], p["eta_b"], p["eta_q"], p["beta"])
    steps = alignment_formulas(loss, task, pi, p["alpha0"], *rates, kinds)
    gamma, k = steps["cos_q"], p["beta"] * steps["norm_q"]
    if draws is None:
        return uniform_attention_mixture(task, pi, gamma, kinds=kinds)
    sigma = None if model == "attention" else get_activation(activation)
    return attended_mixture(task, pi, gamma, k, sigma, draws=draws, kinds=kinds)


def _error(x, tested: Nodes):
    mean, deviation, _ = field_of_nodes(x, tested)
    return (tested.weight * ndtr(-tested.y * mean / deviation)).sum(-1).mean()


# In two parts: the first is compiled once for all tasks with as many nodes, and takes far longer than the second.
@partial(jax.jit, static_argnames=("loss", "size"))
def _slopes_in_nodes(x0, alpha, ridge, nodes: Nodes, tested: Nodes, loss, size):
    """On one replicate's nodes, from x0: test error, dE/d(alpha, ridge, nodes, tested nodes), and the residual left."""
    solution = newton_traced(loss, size, x0, alpha, ridge, nodes)
    x = solution.x
    adjoint = jnp.linalg.solve(solution.J[:5].T, jax.grad(_error)(x, tested))

    def lagrangian(alpha, ridge, training, fresh):
        nodes_here, tested_here = Nodes(nodes.y, *training), Nodes(tested.y, *fresh)
        averages = moments(loss, x, nodes_here, quadrature(nodes_here, size)).mean(0)
        return _error(x, tested_here) - adjoint @ residual(x, averages, alpha, ridge)

    slopes = jax.grad(lagrangian, argnums=(0, 1, 2, 3))(alpha, ridge, _but_labels(nodes), _but_labels(tested))
    return _error(x, tested), slopes, jnp.abs(solution.F).max()


@partial(jax.jit, static_argnames=("model", "task", "loss", "activation", "equal"))
def _slopes_in_parameters(p, draws, slopes, model, task, loss, activation, equal):
    """dE/dp from dE/d(alpha, ridge, nodes, tested nodes), on one replicate's draws."""

    def chain(p):
        extra = p["alpha0"] if equal and not has_query(model) else 0.0
        alpha = (p["alpha1"] + extra) / (task.longest if model == "vectorized" else 1)
        population = _population(model, task, loss, activation, p, draws)
        return alpha, p["ridge"], *(_but_labels(nodes_of(some)) for some in (population, population.as_tested()))

    _, pull = jax.vjp(chain, p)
    return pull(slopes)[0]


def _but_labels(nodes: Nodes) -> tuple:
    return nodes.leaves()[1:]


@in_double_precision
def gradient(
    task: Task,
    training: Training,
    model: str = "attention",
    *,
    activation: Any = "sigmoid",
    equal_samples: bool = False,
    points: int = POINTS,
) -> Gradient:
    """d test_error/d parameter for strength, prevalence, beta, ridge, alpha0, alpha1, eta_w, eta_b and eta_q.

    Parameters
    ----------
    task, training : Task, Training
        Where the derivatives are wanted; the ridge must be positive. Where strengths differ between bags, the one in
        "strength" is in their mean, all of them moving in proportion.
    model : str
        Classifier, as in `forecast`.
    activation : str or callable
        sigma of elementwise attention.
    equal_samples : bool
        Sample accounting, as in `forecast`.
    points : int
        Draws per replicate.

    Returns
    -------
    Gradient
        Standard errors come from the law's independent replicates, each differentiated at its own fixed point; the
        derivative is their mean.
    """
    loss = traceable(training.loss_function)
    if check_model(model).weighting is not None:
        raise ValueError(f"model must be a built-in one for derivatives, got {model!r}: its weights only know NumPy")
    law, steps = law_of(task, training, model, activation)
    if training.ridge == 0:
        raise ValueError("ridge must be positive for derivatives: at zero the problem changes character with alpha")
    alpha = readout_alpha(training, model, equal_samples) / law.dimension_factor
    given = {name: getattr(training, name) for name in PARAMETERS if name not in ("strength", "prevalence")}
    given |= {"strength": task.mean_strength, "prevalence": task.prevalence}
    p = {name: jnp.asarray(float(value)) for name, value in given.items()}
    drawn = steps is not None and (task.longest > 1 or model == "elementwise")
    draws = draws_of_kinds(task, points, model == "elementwise") if drawn else None
    unit = task.at_strength(1.0).but(prevalence=0.5)  # what is compiled for: strength and prevalence are in p
    population = _population(model, unit, loss, activation, p, draws)
    both = nodes_of(population), nodes_of(population.as_tested())
    nodes, tested = jax.tree_util.tree_map(np.asarray, both)
    start = solve(loss, alpha, training.ridge, nodes).x
    statics = (model, unit, loss, activation, equal_samples)
    size = grid_size(nodes)
    rows = []
    for b in range(nodes.T.shape[0]):
        here, there, mine = jax.tree_util.tree_map(lambda a, b=b: a[b : b + 1], (nodes, tested, draws))
        value, in_nodes, missed = _slopes_in_nodes(start, alpha, training.ridge, here, there, loss, size)
        slope = _slopes_in_parameters(p, mine, in_nodes, *statics)
        if not float(missed) <= TOLERANCE:
            raise ConvergenceError(f"gradient: residual {float(missed):.1e} on replicate {b} of {task} {training}")
        rows.append([float(value), *(float(slope[name]) for name in PARAMETERS)])
    table = np.array(rows)
    mean = table.mean(0)
    error = standard_error(table, alone=0.0)
    return Gradient(
        dict(zip(PARAMETERS, map(float, mean[1:]))),
        dict(zip(PARAMETERS, map(float, error[1:]))),
        float(mean[0]),
        {name: float(given[name]) for name in PARAMETERS},
    )
