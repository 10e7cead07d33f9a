"""Kinds of trial about what learning needs: strengths and samples by theory, and directions learnt at those strengths."""

from __future__ import annotations

from ...task import Task
from ..kind import trial_kind
from .columns import columns


@trial_kind("ladder", columns=columns("needed"))
def ladder_trial(
    task: Task,
    method: str,
    over: str,
    values: list[float],
    alpha: float = 4.0,
    find: str = "strength",
    cosine: float | None = None,
    test_error: float | None = None,
) -> list[dict[str, float]]:
    """The strength (or alpha) at which a method of `theory.ladder` reaches a cosine or a test error, a row for each value."""
    from ...theory import ladder

    made = ladder(task, alpha, [method], over={over: values}, find=find, cosine=cosine, test_error=test_error)
    found = made.needed[method]
    return [{over: value, "needed": needed} for value, needed in zip(values, found.tolist())]


@trial_kind("learnt_direction", columns=columns("cosine", "strength_needed"))
def learnt_direction_trial(
    task: Task, d: int, seed: int, method: str, alpha: float = 4.0, target: float = 0.5, sampler: str = "reduced"
) -> dict[str, float]:
    """The cosine of a direction learnt at the strength at which theory has the target for it (`strength` is not used)."""
    from ...simulation import learn_directions
    from ...theory import ladder

    strength = float(ladder(task, alpha, [method], over={"length": [task.longest]}, cosine=target).needed[method][0])
    found = learn_directions(task.but(strength=strength), alpha, d, seed, [method], sampler)
    return {"cosine": found.cosine[method], "strength_needed": strength}
