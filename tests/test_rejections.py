"""Arguments of the wrong kind end in one sentence that names them, not in an error from inside NumPy."""

from __future__ import annotations

import pytest

from sparsetoken import Task, Training, planning, simulation, theory

HEADS = theory.heads_law(Task(), [0.5], [1.0])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: simulation.learn_directions(Task(), "two", 30, 1), "alpha"),
        (lambda: simulation.learn_directions(Task(), float("inf"), 30, 1), "alpha"),
        (lambda: simulation.head_readout(HEADS, None, 0.1, 30, 1), "alpha"),
        (lambda: simulation.simulate(Task(), Training(), 30, 1, sampler=3), "sampler"),
        (lambda: simulation.joint_trajectory(Task(), None, 30, 1), "training"),
        (lambda: theory.attention_mass(None, 0.8, 2.0), "task"),
        (lambda: theory.attention_mass(Task(), 0.8, 2.0, points="many"), "points"),
        (lambda: theory.oracle(Task(), points=None), "points"),
        (lambda: theory.gradient(None, Training()), "task"),
        (lambda: theory.gradient(Task(), None), "training"),
        (lambda: theory.gradient(Task(), Training(), points=1.5), "points"),
        (lambda: theory.alignment(Task(), Training(), d=50, draws=8, seed="a"), "seed"),
        (lambda: theory.forecast_grid(None, Training(), over={"alpha1": [1.0]}), "task"),
        (lambda: theory.forecast_grid(Task(), {}, over={"alpha1": [1.0]}), "training"),
        (lambda: theory.erm(Task(), 2.0, 0.1), "law"),
        (lambda: theory.best_ridge(None, 2.0), "law"),
        (lambda: theory.refit(theory.erm(HEADS, 2.0, 0.1, accuracy=0.05), Task()), "result"),
        (lambda: theory.refit(theory.erm(theory.pooled_law(Task()), 2.0, 0.1), None), "where"),
        (lambda: planning.error_interval(3, None), "tested"),
        (lambda: planning.error_interval(30, 20), "wrong"),
        (lambda: planning.error_interval(3, 20, 2.0), "confidence"),
        (lambda: planning.comparison_power(0.1, 0.2, 0), "tested"),
        (lambda: planning.comparison_power(0.1, 0.2, 100, confidence=None), "confidence"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        call()
