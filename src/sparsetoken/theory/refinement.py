"""From a solved fixed point to numbers with error bars, on draws that are refined until the accuracy asked for is met.

A law is sampled in independent replicates. The fixed point is solved on all of them together; a replicate by itself would have
its own, and the scatter of every reported quantity over the replicates' own fixed points gives its standard error. This is
the same for every kind of law (`erm`, `heads`, `coloured`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._core.replicates import standard_error
from ..laws.law import SECOND_LEVEL
from .equations import Solution
from .errors import AccuracyError

DEFAULT_ACCURACY = 2e-4
SAFETY = 2.5  # the standard error aimed at is accuracy/2.5, so that `accuracy` bounds the error with probability 0.99
_LONGEST_SHIFT = 1.0  # of a replicate's own log unknowns: beyond, the linearisation behind its error bar means nothing


class Answer(NamedTuple):
    """The fixed point on one level's draws, and where each replicate would have had it by itself.

    Attributes
    ----------
    x : ndarray (unknowns,)
        The common fixed point.
    replicate_loss : ndarray (replicates,)
        Training loss of each replicate at x.
    own_x, own_loss : ndarray (replicates, unknowns), (replicates,)
        The replicates' own fixed points, and their training losses there.
    residual : float
        Largest entry of the scaled residual.
    iterations : int
        Evaluations that it took.
    """

    x: np.ndarray
    replicate_loss: np.ndarray
    own_x: np.ndarray
    own_loss: np.ndarray
    residual: float
    iterations: int


class Refinable(Protocol):
    """What refinement needs of a law."""

    @property
    def refinable(self) -> bool:
        """Whether more draws can be had."""

    def finer(self, points: int, shortfall: float) -> int | None:
        """The next level for a standard error that is `shortfall` times too large; None where there is none."""


class Refined(NamedTuple):
    """What refinement ended with: the answer, values and standard errors by name, the level, and all evaluations."""

    answer: Answer
    values: dict[str, Any]
    errors: dict[str, Any]
    points: int
    spent: int


def answer_of(solution: Solution, logarithms: Sequence[int]) -> Answer:
    """A replicate by itself would have its fixed point at x - J^-1 F_b to first order, F_b its own residual at x.

    Parameters
    ----------
    solution : Solution
        The common fixed point.
    logarithms : sequence of int
        Which unknowns are logarithms; their shifts are bounded.

    Returns
    -------
    Answer
    """
    x, J = np.asarray(solution.x), np.asarray(solution.J)
    replicate_loss = np.asarray(solution.replicate_loss)
    shift = -np.linalg.solve(J[:-1], np.asarray(solution.replicate_F).T).T
    places = list(logarithms)
    shift[:, places] = np.clip(shift[:, places], -_LONGEST_SHIFT, _LONGEST_SHIFT)
    own_loss = replicate_loss + shift @ J[-1]
    return Answer(x, replicate_loss, x + shift, own_loss, solution.residual, int(solution.iterations))


def summarise(
    answer: Answer, fields: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values and standard errors at a solved fixed point.

    The scatter of the quantities at the replicates' own fixed points, over the root of the number of replicates, is the
    standard error.

    Parameters
    ----------
    answer : Answer
        The fixed point.
    fields : callable
        (x, training losses) -> every reported quantity for each replicate (the first axis), at its own x (rows) or at a
        common one.

    Returns
    -------
    tuple of dict
        Values and standard errors: floats, or arrays for quantities that are matrices.
    """
    replicates = len(answer.replicate_loss)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        common = fields(answer.x, answer.replicate_loss)
        if replicates == 1:  # exact
            values = {name: _plain(v[0]) for name, v in common.items()}
            return values, {name: 0.0 if isinstance(v, float) else np.zeros(v.shape) for name, v in values.items()}
        values = {name: _plain(np.mean(v, axis=0)) for name, v in common.items()}
        own = fields(answer.own_x, answer.own_loss)
        errors = {name: standard_error(v) for name, v in own.items()}
    # What is infinite in the limit (V of an interpolator) has no error.
    return values, {name: _plain(np.where(np.isfinite(values[name]), error, 0.0)) for name, error in errors.items()}


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else np.asarray(value)


def refine(
    law: Refinable,
    points: int,
    at: Callable[[int], Answer],
    summary: Callable[[Answer, int], tuple[dict[str, Any], dict[str, Any]]],
    accuracy: float,
    setting: str,
) -> Refined:
    """Solve at one level of refinement after the other until the test error's standard error is small enough.

    Parameters
    ----------
    law : Refinable
        Says which level comes next.
    points : int
        The level to begin with.
    at : callable
        points -> Answer.
    summary : callable
        (Answer, points) -> values and standard errors, with "test_error" among them.
    accuracy : float
        Absolute error allowed on the test error.
    setting : str
        What is solved, for messages.

    Returns
    -------
    Refined

    Raises
    ------
    AccuracyError
        Where the accuracy is not met at the finest sampling of the law.
    """
    spent = 0
    while True:
        answer = at(points)
        spent += answer.iterations
        values, errors = summary(answer, points)
        shortfall = errors["test_error"] * SAFETY / accuracy
        if not np.isfinite(shortfall):  # a replicate without loss of its own has no error bar: more draws
            shortfall = SECOND_LEVEL
        if shortfall <= 1 or not law.refinable:
            return Refined(answer, values, errors, points, spent)
        finer = law.finer(points, shortfall)
        if finer is None:
            raise AccuracyError(
                f"accuracy {accuracy:g} on the test error is not reached: standard error {errors['test_error']:.1e} at "
                f"{points} draws per replicate ({setting}); ask for at least {SAFETY * errors['test_error']:.1e}"
            )
        points = finer
