"""Where joint training ends: the exact limit of the stationary point of a bag model's regularised loss.

The equations are in `statics_equations`, what one bag does in `one_bag`. Here every quantity is averaged over replicates, which
give the standard errors, and measured on fresh bags.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._core.averages import standard_error
from ..._core.devices import in_double_precision
from ..._core.validation import caller_level
from ...bag_models import BagModel, get_bag_model
from ...laws.bag_model_measures import FreshDraws, error_by_bias, measures_on
from ...laws.error_measures import MEASURES, errors_by_bias
from ...losses import Loss
from ...schedules import Stage
from ...task import Task
from ...trajectories import JointEnd, decay_by_direction
from ..accuracy import ConvergenceError, ReplicaSymmetryWarning
from .one_bag import LocalBags
from .problem import Sampling, TrainingProblem, problem_of, replicate_draws
from .statics_equations import EndEquations, EndPoint

STARTS = ("uninformed", "informed")
# Share of V^{-1} that jumps of bags between minima carry: at 0.045 simulated overlaps are 5 % off, at 0.12 10 %.
MOST_JUMPS = 0.05


@in_double_precision
def statics(
    task: Task,
    model: str | BagModel,
    alpha: float,
    decay: float | Mapping[str, float],
    loss: str | Loss = "logistic",
    start: str | Mapping[str, float] = "uninformed",
    *,
    sampling: Sampling | None = None,
) -> JointEnd:
    """Where joint training of a bag model on n = alpha d bags ends, d -> infinity: a stationary point of

        (1/n) sum_i l(score(X_i Theta, b); y_i) + sum_a (decay_a/2) ||theta_a||^2,     b free.

    The limit is Eq. (39) of docs/theory.md; it is stable where Eq. (40) is below 1.

    Parameters
    ----------
    task, model
        As in `trajectory`.
    alpha : float
        n/d.
    decay : float or mapping
        Weight decay of every direction, or of each by its name; above 0.
    loss
        As in `trajectory`.
    start : {"uninformed", "informed"} or mapping
        Where the iteration starts: at zero, as training does, or at directions aligned with the signal. A mapping gives norms
        and cosines of the directions, as for `theory.trajectory`. Where training has several ends, the start decides which one
        is found.
    sampling : Sampling, optional
        Bags and replicates: by default 8 replicates of 2048 bags, of fewer (at least 256) where L r exceeds 32.

    Raises
    ------
    ConvergenceError
        Where the equations could not be solved.

    Warns
    -----
    ReplicaSymmetryWarning
        Where the replicon exceeds 1, or where single bags have several minima, as happens with few bags or little decay (V
        large): training has many ends, and the values are rough.

    Notes
    -----
    Where a bag's minimum jumps as omega moves, as happens to scores that are far from convex (softmax-weighted self-pooling),
    the equations miss the jumps' share of the response. Up to where there is a warning, overlaps are off by a few per cent.
    """
    problem, decays = end_problem(task, model, alpha, decay, loss)
    sampling = sampling or Sampling()
    count = sampling.bags or bags_in_memory(problem)
    if isinstance(start, str) and start not in STARTS:
        raise ValueError(f"start must be one of {', '.join(map(repr, STARTS))} or a mapping, got {start!r}")
    ends: list[EndPoint] = []
    rows: list[dict[str, Any]] = []
    coexist = None
    jumps: list[np.ndarray] = []
    for index in range(sampling.replicates or 8):
        equations, fresh = end_replicate(problem, decays, index, count)
        if index == 0:
            end = first_end(equations, start)
            coexist = _elsewhere(equations, start, end)
        else:
            warm = EndPoint(ends[0].at, ends[0].averages, equations.no_pulls(), math.inf, 0)
            end = equations.solve(warm)
            if not end.converged:
                end = first_end(equations, start)
        ends.append(end)
        jumps.append(equations.jumps(end))
        rows.append(_measured(equations, end, fresh))
    result = _averaged(problem, rows, max(end.residual for end in ends), coexist)
    if result.replicon > 1.0:
        warnings.warn(
            f"the replicon is {result.replicon:.2g}, above 1: training has many ends, and these values describe them only "
            "roughly; more decay makes the end unique",
            ReplicaSymmetryWarning,
            stacklevel=caller_level(),
        )
    elif (np.abs(np.mean(jumps, axis=0)) - 2.0 * standard_error(jumps) > MOST_JUMPS).any():
        warnings.warn(
            "single bags have several minima: training has many ends, and these values describe them only roughly; more bags "
            "or more decay make the end unique, and simulate_end shows what training reaches",
            ReplicaSymmetryWarning,
            stacklevel=caller_level(),
        )
    return result


def end_problem(
    task: Task, model: str | BagModel, alpha: float, decay: float | Mapping[str, float], loss: str | Loss
) -> tuple[TrainingProblem, np.ndarray]:
    """The problem in the form of the dynamics, one step long, and the decay of every direction."""
    checked = decay_by_direction(get_bag_model(model).directions, decay)
    problem = problem_of(task, model, Stage(1, alpha, decay=checked), loss, None)
    return problem, np.array(list(checked.values()))


def bags_in_memory(problem: TrainingProblem) -> int:
    """Bags per replicate, from 256 to 2048: their Hessians, N (L r)^2 numbers, stay below 2^21."""
    most = 2**21 // (problem.task.longest * problem.model.rank) ** 2
    return int(min(2048, max(256, 1 << max(most.bit_length() - 1, 0))))


def end_replicate(
    problem: TrainingProblem, decay: np.ndarray, index: int, bags: int
) -> tuple[EndEquations, FreshDraws]:
    """The equations on the bags of replicate `index`, and its points for fresh bags."""
    training, fresh = replicate_draws(problem, index, bags, 1)
    groups = []
    for group in training:
        normals = group.normals[0].reshape(problem.model.rank, len(group.places), -1).transpose(2, 1, 0)
        groups.append(LocalBags(*map(jnp.asarray, (normals, group.places.T, group.y, group.weight))))
    return EndEquations(problem, float(problem.schedule.alpha[0]), decay, tuple(groups)), fresh


def _from_start(equations: EndEquations, start: str | Mapping[str, float]) -> EndPoint:
    """The end from that start on one replicate."""
    if isinstance(start, Mapping):
        return equations.solve(equations.cold(start))
    if start == "uninformed":
        return _annealed(equations)
    names = equations.problem.model.directions
    informed = dict.fromkeys(names, 1.0) | {f"cosine[{name}]": 0.95 for name in names}
    return equations.solve(equations.cold(informed))


def first_end(equations: EndEquations, start: str | Mapping[str, float]) -> EndPoint:
    """The end from that start on one replicate; ConvergenceError where it is not found."""
    end = _from_start(equations, start)
    if end.converged:
        return end
    raise ConvergenceError(
        f"the end of joint training was not found from start {start!r}: residual {end.residual:.1e} after {end.steps} steps of "
        "damped and Anderson iteration (from zero also with the decay lowered step by step from one); use more bags, more "
        "decay, or a start nearby"
    )


def _elsewhere(equations: EndEquations, start: str | Mapping[str, float], end: EndPoint) -> bool | None:
    """Whether the other start ends at another point than `end`; None where its iteration does not converge."""
    other = _from_start(equations, "informed" if start == "uninformed" else "uninformed")
    if not other.converged:
        return None
    return bool(np.abs(other.at.m - end.at.m).max() > 1e-3 * max(1.0, np.abs(end.at.m).max()))


def _annealed(equations: EndEquations) -> EndPoint:
    """The end that descent from zero reaches: directly, or where that fails by lowering the decay step by step from one."""
    cold = equations.cold(None)
    end = equations.solve(cold)
    if end.converged:
        return end
    factor = max(1.0, 1.0 / float(equations.decay.min()))
    end = cold
    while True:
        end = replace(equations, decay=factor * equations.decay).solve(end)
        if factor == 1.0 or not end.converged:
            return end
        factor = max(1.0, 0.7 * factor)


def _measured(equations: EndEquations, end: EndPoint, fresh: FreshDraws) -> dict[str, Any]:
    """All quantities of one replicate."""
    at, problem = end.at, equations.problem
    gram, bias = at.S + np.outer(at.m, at.m), float(at.bias)

    measures = measures_on(fresh, problem.task, problem.model, at.m[None], gram[None], [bias], problem.split)[0]
    error = error_by_bias(fresh, problem.task, problem.model, at.m, gram, bias, problem.split)
    found = dict(zip(MEASURES, measures.tolist(), strict=True)) | {
        "m": at.m,
        "norm": np.sqrt(np.maximum(np.diag(gram), 0.0)),  # 0 to rounding where a direction stays off
        "gram": gram,
        "V": np.linalg.inv(at.precision),
        "bias": bias,
        "train_loss": float(end.averages.train_loss),
        "train_error": float(end.averages.train_error),
        "replicon": equations.replicon(end),
    }
    return found | errors_by_bias(error, bias, *equations.left_out_scores(end))


def _averaged(problem: TrainingProblem, rows: list[dict[str, Any]], residual: float, coexist: bool | None) -> JointEnd:
    """Means over the replicates with their standard errors."""
    mean: dict[str, Any] = {name: np.mean([row[name] for row in rows], axis=0) for name in rows[0]}
    error: dict[str, Any] = {name: standard_error([row[name] for row in rows]) for name in rows[0]}
    names = problem.model.directions
    scalars = ("auc", "sensitivity", "specificity", "train_loss", "train_error", "bias", "replicon")
    refits = ("best_bias", "best_bias_error", "refitted_bias", "refitted_error", "leave_one_out_error")
    errors = {name: float(error[name]) for name in (*scalars, *refits)}
    for table in ("gram", "V"):
        errors |= {f"{table}_{i}_{j}": float(error[table][i, j]) for i, j in np.ndindex(error[table].shape)}
    averages: dict[str, Any] = {name: float(mean[name]) for name in (*scalars, *refits)}
    return JointEnd(
        model=problem.model.name,
        test_error=float(mean["test_error"]),
        standard_error=float(error["test_error"]),
        balanced_error=1.0 - 0.5 * float(mean["sensitivity"] + mean["specificity"]),
        **averages,
        overlap=dict(zip(names, mean["m"].tolist(), strict=True)),
        cosine=dict(zip(names, (mean["m"] / np.maximum(mean["norm"], 1e-300)).tolist(), strict=True)),
        errors=errors | {f"overlap_{name}": float(e) for name, e in zip(names, error["m"], strict=True)},
        directions=names,
        gram=mean["gram"],
        V=mean["V"],
        residual=residual,
        coexist=coexist,
    )
