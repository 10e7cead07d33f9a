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
from ..activations import get_activation
from ..jax_losses import traceable
from ..laws.draws import TokenDraws, token_draws
from ..laws.nodes import Nodes, Population, gaussian_population, nodes_of
from ..laws.statistics import elementwise_population, softmax_population
from ..losses import Loss
from ..models import has_query
from ..task import Task
from ..training import Training
from .alignment import alignment_formulas
from .equations import TOLERANCE, field_of_nodes, grid_size, moments, newton, quadrature, residual_of_moments
from .erm import solve_nodes
from .errors import ConvergenceError
from .forecast import law_of, readout_alpha

PARAMETERS = ("strength", "prevalence", "beta", "ridge", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q")
POINTS = 1024


class Gradient(dict[str, float]):
    """Parameter -> d test_error/d parameter; `errors` has their standard errors, `test_error` the value itself."""

    def __init__(self, values: dict[str, float], errors: dict[str, float], test_error: float):
        super().__init__(values)
        self.errors, self.test_error = errors, test_error


def _population(model: str, L: int, R: int, loss: Loss, activation: Any, p: dict[str, Any], draws: TokenDraws | None):
    theta, pi = p["strength"], p["prevalence"]
    if model == "pooled":
        return gaussian_population(pi, theta * R / L, 0.0 * theta, L**-0.5, L**-0.5)
    if model == "vectorized":
        return gaussian_population(pi, theta * R / L**0.5, 0.0 * theta, 1.0, 1.0)
    steps = alignment_formulas(loss, L, R, theta, pi, p["alpha0"], p["eta_w"], p["eta_b"], p["eta_q"], p["beta"])
    gamma, k = steps["cos_q"], p["beta"] * steps["norm_q"]
    if draws is None:  # weights that do not depend on the tokens: L = 1
        S = theta * jnp.sqrt(1 - gamma**2) * R / L
        return gaussian_population(pi, gamma * theta * R / L, S, L**-0.5, L**-0.5)
    if model == "attention":
        return softmax_population(draws, pi, theta, gamma, k)
    return elementwise_population(get_activation(activation), L, draws, pi, theta, gamma, k)


def _error(x, population: Population):
    nodes = nodes_of(population)
    mean, deviation, _ = field_of_nodes(x, nodes)
    return (nodes.weight * ndtr(-nodes.y * mean / deviation)).sum(-1).mean()


@partial(jax.jit, static_argnames=("model", "L", "R", "loss", "activation", "equal", "size"))
def _differentiate(x0, p, draws, model, L, R, loss, activation, equal, size):
    """Fixed point from x0, test error and its gradient in p, on one replicate's draws."""

    def alpha_of(p):
        extra = p["alpha0"] if equal and not has_query(model) else 0.0
        return (p["alpha1"] + extra) / (L if model == "vectorized" else 1)

    def nodes_at(p) -> Nodes:
        return nodes_of(_population(model, L, R, loss, activation, p, draws))

    solution = newton(loss, size, x0, alpha_of(p), p["ridge"], nodes_at(p))
    x = solution.x

    def error_at(x, p):
        return _error(x, _population(model, L, R, loss, activation, p, draws))

    adjoint = jnp.linalg.solve(solution.J[:5].T, jax.grad(error_at)(x, p))

    def lagrangian(p):
        nodes = nodes_at(p)
        averages = moments(loss, x, nodes, quadrature(nodes, size)).mean(0)
        F = residual_of_moments(x, averages, alpha_of(p), p["ridge"])
        return error_at(x, p) - adjoint @ F

    value, gradient = error_at(x, p), jax.grad(lagrangian)(p)
    return value, gradient, jnp.abs(solution.F).max()


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

    Model and sample accounting as in `forecast`. Standard errors come from the law's independent replicates, each
    differentiated at its own fixed point; the derivative is their mean.
    """
    loss = traceable(training.loss_function)
    law, steps = law_of(task, training, model, activation)
    if training.ridge == 0:
        raise ValueError("ridge must be positive for derivatives: at zero the problem changes character with alpha")
    alpha = readout_alpha(training, model, equal_samples) / law.dimension_factor
    given = task.to_dict() | {name: getattr(training, name) for name in PARAMETERS[2:]}
    p = {name: jnp.asarray(float(given[name])) for name in PARAMETERS}
    sampled = steps is not None and task.length > 1
    draws = token_draws(task.length, task.sparsity, points) if sampled else None
    population = _population(model, task.length, task.sparsity, loss, activation, p, draws)
    nodes = jax.tree_util.tree_map(np.asarray, nodes_of(population))
    start = solve_nodes(loss, alpha, training.ridge, nodes, None, []).x
    statics = (model, task.length, task.sparsity, loss, activation, equal_samples)
    rows = []
    for b in range(nodes.T.shape[0]):
        mine = None if draws is None else jax.tree_util.tree_map(lambda a, b=b: a[b : b + 1], draws)
        size = grid_size(nodes)
        value, slope, residual = _differentiate(start, p, mine, *statics, size)
        if not float(residual) <= TOLERANCE:
            raise ConvergenceError(f"gradient: residual {float(residual):.1e} on replicate {b} of {task} {training}")
        rows.append([float(value), *(float(slope[name]) for name in PARAMETERS)])
    table = np.array(rows)
    mean = table.mean(0)
    error = table.std(0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else np.zeros(len(mean))
    return Gradient(
        dict(zip(PARAMETERS, map(float, mean[1:]))), dict(zip(PARAMETERS, map(float, error[1:]))), float(mean[0])
    )
