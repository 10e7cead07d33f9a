"""Trials whose classifier is tested on other bags than it was trained on."""

import math

import numpy as np
import pytest

from sparsetoken import Deployment, Task, Training, simulate

TASK = Task(length=8)
FRESH = ("test_error", "standard_error", "auc", "sensitivity", "specificity", "balanced_error", "errors")


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled", "vectorized"])
def test_on_the_training_task_nothing_changes(model):
    plain = simulate(TASK, Training(), 40, 3, model)
    found = simulate(TASK, Training(), 40, 3, model, deployment=Deployment(task=TASK, bias_shift=0.0))
    rows = [r.to_row() for r in (plain, found)]
    rows = [{k: v for k, v in row.items() if not k.startswith(("trained_", "tested_", "seconds"))} for row in rows]
    np.testing.assert_equal(*rows)
    assert plain.tested == {} and found.tested["length"] == 8


@pytest.mark.parametrize("model", ["attention", "pooled"])
def test_training_does_not_depend_on_the_test(model):
    options = {"sharpness": 2.5} if model == "attention" else {}
    plain = simulate(TASK, Training(), 40, 3, model).to_dict()
    found = simulate(
        TASK, Training(), 40, 3, model, deployment=Deployment({"length": 30}, bias_shift=1.0, **options)
    ).to_dict()
    changed = {
        name for name in plain if name != "seconds" and plain[name] != found[name] and plain[name] == plain[name]
    }
    assert changed <= {*FRESH, "trained", "tested"} and {"test_error", "tested"} <= changed
    assert found["tested"]["length"] == 30 and found["tested"]["bias_shift"] == 1.0


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled", "vectorized"])
def test_counted_errors_are_those_computed(model):
    fields = {"strength": 3.0, "sparsity": 2, "prevalence": 0.3} | ({} if model == "vectorized" else {"length": 20})
    sharper = {"sharpness": 2.5} if model in ("attention", "elementwise") else {}
    count = 20_000
    found = simulate(
        *(TASK, Training(), 40, 5, model),
        sampler="tensor",
        deployment=Deployment(fields, samples=count, bias_shift=0.5, **sharper),
    )
    plain = simulate(TASK, Training(), 40, 5, model, sampler="tensor")
    bar = math.hypot(found.sampled_standard_error, found.standard_error)
    assert abs(found.sampled_error - found.test_error) <= 4 * bar
    assert abs(found.test_error - plain.test_error) > 8 * bar  # so that a test on the training's bags would be noticed


def test_a_query_that_vanishes_can_be_left_alone():
    """Bags of one token leave the query at zero: the features of longer bags are means."""
    found = simulate(Task(length=1), Training(), 40, 0, deployment=Deployment(task={"length": 4}, sharpness=0.0))
    pooled = simulate(Task(length=1), Training(), 40, 0, "pooled", deployment=Deployment(task={"length": 4}))
    assert 0 < found.test_error < 0.5 and 0 < pooled.test_error < 0.5
    counted = simulate(
        Task(length=1),
        Training(),
        40,
        0,
        sampler="tensor",
        deployment=Deployment(samples=5000, task={"length": 4}, sharpness=0.0),
    )
    bar = math.hypot(counted.sampled_standard_error, counted.standard_error)
    assert abs(counted.sampled_error - counted.test_error) <= 4 * bar
