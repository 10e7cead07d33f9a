"""Kinds of trial about what is possible and what learning needs: the Bayes limit, message passing, strengths and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..._core.root_finding import FOUND, falling_root
from ..._core.validation import whole_number
from ...simulation.samplers.drawn_bags import draw_truth, sample_count
from ...simulation.seeds import stream
from ...task import Task
from ...training import Training
from ..kind_registry import trial_kind
from .columns import columns
from .staged import fields_of, require_memory, task_of, with_sharpness

LIMIT_FIELDS = ("overlap", "test_error", "reachable_overlap", "reachable_test_error")


@trial_kind("bayes_limit", columns=columns(*LIMIT_FIELDS, *(f"{name}_se" for name in LIMIT_FIELDS), "hard"))
def bayes_limit_trial(task: Task, alpha: float) -> dict[str, Any]:
    """The Bayes limit with alpha d samples, and the result of message passing."""
    from ...theory import bayes_limit

    limit = bayes_limit(task, alpha)
    errors = {f"{name}_se": limit.errors[name] for name in LIMIT_FIELDS}
    return {**fields_of(limit, LIMIT_FIELDS), "hard": bool(limit.hard), **errors}


def check_tokens(arguments: Mapping[str, Any]) -> None:
    """Refuse bags whose tokens are larger than any memory."""
    d = whole_number("d", arguments["d"], 2)
    require_memory(d, arguments["alpha"] * d * task_of(arguments).longest * d, "tokens of all bags")


@trial_kind("message_passing", check=check_tokens, columns=columns("test_error", "overlap", "expected_overlap"))
def message_passing_trial(task: Task, d: int, seed: int, alpha: float, test_samples: int = 4000) -> dict[str, float]:
    """Approximate message passing with known strength and sparsity, tested on fresh bags.

    A fresh bag is seen through its tokens' products with the estimate alone, so it is drawn in two dimensions.
    """
    from ...estimators import MessagePassingClassifier
    from ...simulation.samplers import TensorData

    length, sparsity, strength, _ = task.only_kind("message passing with a known task")
    data = TensorData(task, sample_count("alpha", alpha, d), d, seed, "1")
    bags = np.concatenate([tokens for _, tokens in data.blocks()])
    plain = {"whiten": False, "scale": False, "calibrate": False}
    learner = MessagePassingClassifier(strength=strength, sparsity=sparsity, **plain).fit(bags, data.labels)
    norm = float(np.linalg.norm(learner.signal_))
    cosine = float(learner.signal_ @ data.signal) / norm
    labels = draw_truth(task, test_samples, seed, "_test")
    rng = stream(seed, "tokens_test")
    along = rng.standard_normal((test_samples, length))
    along[labels > 0, :sparsity] += cosine * strength
    flat = along[:, :, None] * (learner.signal_ / norm)  # the rest has no effect on the score
    wrong = learner.predict(flat) != labels
    return {"test_error": float(wrong.mean()), "overlap": cosine**2, "expected_overlap": float(learner.overlap_)}


def _crossing(error: Callable[[float], float], target: float, guess: float) -> float:
    """The strength at which a falling error reaches the target, to one part in a thousand."""
    low, high = 1e-6, 1e6
    status, strength = falling_root(lambda x: error(x) - target, guess, low, high, precision=1e-3)
    if status != FOUND:
        raise ValueError(f"no strength from {low:g} to {high:g} gives an error of {target:g}")
    return strength


@trial_kind("known_strength", version=2, columns=columns("strength_needed"))
def known_strength_trial(
    length: int,
    mechanism: str,
    target: float = 0.1,
    sharpness: float = 1.0,
    sparsity: int = 1,
    prevalence: float = 0.5,
    guess: float = 4.0,
    points: int = 512,
) -> dict[str, float]:
    """The strength a classifier needs for the target error when the signal's direction is known.

    `mechanism` is "pooled", "attention", "elementwise", "elementwise:relu" (and so on), "hardmax" or "bayes".
    """

    def error(strength: float) -> float:
        return _known_error(Task(length, sparsity, strength, prevalence), mechanism, sharpness, points)

    return {"strength_needed": _crossing(error, target, guess)}


@trial_kind("known_error", columns=columns("test_error"))
def known_error_trial(task: Task, mechanism: str, sharpness: float = 1.0, points: int = 512) -> dict[str, float]:
    """The error of a classifier that knows the signal's direction; mechanisms as in `known_strength`."""
    return {"test_error": _known_error(task, mechanism, sharpness, points)}


def _known_error(task: Task, mechanism: str, sharpness: float, points: int) -> float:
    from ...theory.bayes import oracle as limits

    if mechanism == "pooled":
        return limits.pooled_error(task)
    if mechanism == "hardmax":
        return limits.hardmax_error(task)
    if mechanism == "bayes":
        return limits.bayes_error(task, points=points)[0]
    family, _, activation = mechanism.partition(":")
    return limits.known_signal_error(task, family, sharpness, activation or "sigmoid", points)[0]


@trial_kind("trained_strength", version=3, columns=columns("strength_needed", "cosine_q"))
def trained_strength_trial(
    task: Task, training: Training, model: str, target: float = 0.1, sharpness: float | None = None, guess: float = 5.0
) -> dict[str, float]:
    """The strength a trained classifier needs for the target error (`strength` itself is not used)."""
    from ...theory import forecast

    def found(strength: float) -> Any:
        t = task.but(strength=strength)
        chosen = with_sharpness(t, training, sharpness) if model == "attention" else training
        return forecast(t, chosen, model, accuracy=1e-3, with_capacity=False)

    needed = _crossing(lambda strength: found(strength).test_error, target, guess)
    return {"strength_needed": needed, "cosine_q": found(needed).cosine.get("q", float("nan"))}


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
    strengths = made.needed[method]
    return [{over: value, "needed": needed} for value, needed in zip(values, strengths.tolist())]


@trial_kind("learnt_direction", columns=columns("cosine", "strength_needed"))
def learnt_direction_trial(
    task: Task, d: int, seed: int, method: str, alpha: float = 4.0, target: float = 0.5, sampler: str = "reduced"
) -> dict[str, float]:
    """The cosine of a direction learnt at the strength at which theory has the target for it (`strength` is not used)."""
    from ...simulation import learn_directions
    from ...theory import ladder

    strength = float(ladder(task, alpha, [method], over={"length": [task.longest]}, cosine=target).needed[method][0])
    learnt = learn_directions(task.but(strength=strength), alpha, d, seed, [method], sampler)
    return {"cosine": learnt.cosine[method], "strength_needed": strength}
