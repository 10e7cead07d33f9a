"""Derivatives of the forecast test error with respect to what a user can set: Eq. (16) of docs/theory.md, on fixed draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from .._core.averages import standard_error
from .._core.devices import in_double_precision
from .._core.validation import whole_number
from ..classifiers import check_model, classifier, has_query
from ..jax_losses import traceable
from ..laws.draws import POINTS, TokenDraws, TokenGroup
from ..laws.error_measures import score_law
from ..laws.law import law_of_population
from ..laws.populations import (
    ClassColumns,
    Nodes,
    Population,
    attended_mixture,
    draws_of_kinds,
    nodes_of,
    uniform_attention_mixture,
    vectorized_mixture,
)
from ..losses import Loss
from ..plotting.show import Shown, axes_for
from ..plotting.style import colour
from ..task import Task
from ..training import Training
from .fixed_point.plain import PLAIN, PlainReadout, plain_nodes
from .fixed_point.prox_averages import Iterate, ScoreNodes, moments, quadrature
from .forecast import law_of, readout_alpha
from .two_step_formulas import alignment_formulas, bag_groups

PARAMETERS = ("strength", "prevalence", "beta", "ridge", "alpha0", "alpha1", "eta_w", "eta_b", "eta_q")

# The laws' containers, which simulations use without JAX, can be traced from here on.
for _container, _constant in ((Nodes, ()), (TokenGroup, ("ceiling",)), (TokenDraws, ())):
    _traced = [f.name for f in fields(_container) if f.name not in _constant]
    jax.tree_util.register_dataclass(_container, _traced, list(_constant))


class Gradient(Shown, dict[str, float]):
    """Parameter -> d test_error/d parameter.

    Parameters
    ----------
    values, errors, test_error, at
        The derivatives and their standard errors, the error itself, and the parameters' values.
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
        return table.assign(change_per_ten_percent=0.1 * table["value"] * table["derivative"])

    def plot(self, ax: Any = None) -> Any:
        """What ten per cent more of each parameter change in the test error, to first order, with two standard errors."""
        ax = axes_for(ax)
        table = self.frame()
        places = np.arange(len(table))[::-1]
        spread = 2 * 0.1 * table["value"] * table["standard_error"]
        ax.barh(places, table["change_per_ten_percent"], xerr=spread, height=0.6, color=colour("attention"), capsize=3)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(places, table["parameter"])
        ax.set(xlabel="change of the test error for 10 % more", title=f"test error {self.test_error:.4g}")
        ax.grid(axis="x", alpha=0.3)
        return ax


def _population(model: str, task: Task, loss: Loss, p: dict[str, Any], draws: list[TokenDraws] | None) -> Population:
    """The chain from the parameters to the population of a model; `draws` where its weights depend on the tokens. The task has
    a mean strength of 1 here: `p` holds the number that all strengths are multiplied by."""
    kinds = [kind._replace(strength=kind.strength * p["strength"]) for kind in task.kinds]
    pi = p["prevalence"]
    if model == "pooled":
        return uniform_attention_mixture(task, pi, 1.0, kinds=kinds)
    if model == "vectorized":
        return vectorized_mixture(task, pi, kinds)
    rates = (p["eta_w"], p.get("eta_b", "auto"), p["eta_q"], p["beta"])
    steps = alignment_formulas(loss, bag_groups(task, pi, kinds), p["alpha0"], *rates)
    gamma, k = steps["cos_q"], p["beta"] * steps["norm_q"]
    if draws is None:
        return uniform_attention_mixture(task, pi, gamma, kinds=kinds)
    return attended_mixture(task, pi, gamma, k, classifier(model).weighting, draws=draws, kinds=kinds)


def _error(x, tested: Nodes):
    mean, deviation = score_law(x, tested)
    return (tested.weight * ndtr(-tested.y * mean / deviation)).sum(-1).mean()


# In two parts: the first is compiled once for all tasks with as many nodes, and takes far longer than the second.
@partial(jax.jit, static_argnames="loss")
def _slopes_in_nodes(x, J, alpha, ridge, nodes: Nodes, grid, tested: Nodes, loss):
    """At the fixed point x on one replicate's nodes: test error, and dE/d(alpha, ridge, nodes, tested nodes)."""
    adjoint = jnp.linalg.solve(J.T, jax.grad(_error)(x, tested))

    def lagrangian(alpha, ridge, training, fresh):
        here = Nodes(nodes.y, *training)
        score_nodes = ScoreNodes(here.y, *plain_nodes(here), here.weight, *grid)
        averages = moments(loss, PLAIN.fields(x), score_nodes).mean(0)
        return _error(x, Nodes(tested.y, *fresh)) - adjoint @ PLAIN.residual(x, averages, (alpha, ridge))

    slopes = jax.grad(lagrangian, argnums=(0, 1, 2, 3))(alpha, ridge, _but_labels(nodes), _but_labels(tested))
    return _error(x, tested), slopes


@partial(jax.jit, static_argnames=("model", "task", "loss", "equal"))
def _slopes_in_parameters(p, draws, slopes, model, task, loss, equal):
    """dE/dp from dE/d(alpha, ridge, nodes, tested nodes), on one replicate's draws."""

    def chain(p):
        extra = p["alpha0"] if equal and not has_query(model) else 0.0
        alpha = (p["alpha1"] + extra) / (task.longest if model == "vectorized" else 1)
        population = _population(model, task, loss, p, draws)
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
    points: int = POINTS,
) -> Gradient:
    """d test_error/d parameter for strength, prevalence, beta, ridge, alpha0, alpha1, eta_w, eta_q and eta_b (not "auto").

    Eq. (16) of docs/theory.md.

    Parameters
    ----------
    task, training : Task, Training
        Where the derivatives are wanted; the ridge must be positive. Where strengths differ between bags, "strength" is the
        derivative in their mean, all of them scaled together.
    model : str
        Classifier, as in `forecast`.
    points : int
        Draws per replicate; derivatives of the default task are then good to about one per cent.

    Returns
    -------
    Gradient
        Standard errors come from the law's independent replicates, each differentiated at its own fixed point; the
        derivative is their mean.
    """
    Task.require(task)
    Training.require(training)
    points = whole_number("points", points, 1)
    loss = traceable(training.loss_function)
    chosen = check_model(model)
    if not chosen.built_in:
        raise ValueError(f"model must be a built-in one for derivatives, got {model!r}, whose weights use NumPy")
    if training.ridge == 0:
        raise ValueError("ridge must be positive for derivatives: at zero the problem changes character with alpha")
    training.require_steps("derivatives")
    law, steps = law_of(task, training, model)
    parameters = {name: getattr(training, name) for name in PARAMETERS if name not in ("strength", "prevalence")}
    parameters |= {"strength": task.mean_strength, "prevalence": task.prevalence}
    parameters = {name: parameters[name] for name in PARAMETERS if not isinstance(parameters[name], str)}
    p = {name: jnp.asarray(float(value)) for name, value in parameters.items()}
    drawn = steps is not None and (task.longest > 1 or chosen.weighting is not None)
    draws = draws_of_kinds(task, points, chosen.weighting is not None) if drawn else None
    unit = task.at_strength(1.0).but(prevalence=0.5)  # the task that is compiled for: strength and prevalence are in p
    # The query's own direction where it vanishes, unlike in `law`, so that derivatives have their limits there.
    population = _population(model, unit, loss, p, draws).mapped(
        lambda columns: ClassColumns(*map(np.asarray, columns))
    )
    population = replace(population, prevalence=float(population.prevalence))
    fixed = law_of_population(population, law.dimension_factor)
    problem = PlainReadout(fixed, readout_alpha(training, model), training.ridge, training.loss)
    statics = (model, unit, loss, training.equal_samples)
    rows = []
    for b, (nodes, test_nodes, grid, solution) in enumerate(_replicates(problem)):
        x, J = solution.x, solution.J[:-1]
        value, in_nodes = _slopes_in_nodes(x, J, *problem.constants(training.ridge), nodes, grid, test_nodes, loss)
        replicate_draws = jax.tree_util.tree_map(lambda a, b=b: a[b : b + 1], draws)
        slope = _slopes_in_parameters(p, replicate_draws, in_nodes, *statics)
        rows.append([float(value), *(float(slope[name]) for name in parameters)])
    table = np.array(rows)
    mean = table.mean(0)
    error = standard_error(table, alone=0.0)
    return Gradient(
        dict(zip(parameters, map(float, mean[1:]))),
        dict(zip(parameters, map(float, error[1:]))),
        float(mean[0]),
        {name: float(value) for name, value in parameters.items()},
    )


def _replicates(
    problem: PlainReadout,
) -> Iterator[tuple[Nodes, Nodes, tuple[np.ndarray, np.ndarray], Iterate]]:
    """Nodes, tested nodes, quadrature and own fixed point of each replicate of a law."""
    population, nodes = problem.law.at(0)
    tested, (zeta, share) = nodes_of(population.as_tested()), quadrature(nodes.offset)
    common = problem.solver(0, problem.blocks(0)).solve(problem.ridge).x
    for b in range(len(nodes.T)):
        here, there = (Nodes(*(leaf[b : b + 1] for leaf in some.leaves())) for some in (nodes, tested))
        grid = zeta[:, b : b + 1], share[:, b : b + 1]
        block = ScoreNodes(here.y, *plain_nodes(here), here.weight, *grid)
        yield here, there, grid, problem.solver(0, (block,)).solve(problem.ridge, common)
