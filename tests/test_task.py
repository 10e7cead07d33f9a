from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsetoken import Logistic, Loss, Positions, SmoothedHinge, Task, Training
from sparsetoken._core.validation import real_number, whole_number


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length", 0),
        ("length", 2.5),
        ("length", "ten"),
        ("length", True),
        ("length", math.inf),
        ("sparsity", 11),
        ("sparsity", 0),
        ("sparsity", None),
        ("strength", -1.0),
        ("strength", math.nan),
        ("strength", math.inf),
        ("strength", 1j),
        ("prevalence", 0.0),
        ("prevalence", 1.0),
        ("prevalence", 1.5),
        ("prevalence", "half"),
        ("positions", "everywhere"),
        ("positions", 3),
        ("places", {"kind": "fixed", "places": [1, 2]}),
        ("places", {"kind": "fixed", "places": [10]}),
        ("places", {"kind": "fixed", "places": 3}),
        ("places", {"kind": "fixed", "places": [-1]}),
        ("places", {"kind": "uniform", "places": [1]}),
        ("weights", {"kind": "weighted"}),
        ("weights", {"kind": "weighted", "weights": [1.0, 2.0]}),
        ("weights", {"kind": "weighted", "weights": [0.0] * 10}),
        ("weights", {"kind": "weighted", "weights": [-1.0] + [1.0] * 9}),
        ("weights", {"kind": "weighted", "weights": "abc"}),
    ],
)
def test_bad_task_values_name_the_field(name, value):
    field = "positions" if name in ("places", "weights") else name
    with pytest.raises(ValueError, match=name):
        Task(**{field: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "absolute"),
        ("loss", 3),
        ("loss", Logistic),
        ("alpha0", 0.0),
        ("alpha1", -1.0),
        ("eta_w", -0.5),
        ("eta_b", math.nan),
        ("eta_q", "big"),
        ("beta", math.inf),
        ("ridge", -1e-9),
        ("ridge", True),
        ("schedule", "later"),
        ("schedule", None),
    ],
)
def test_bad_training_values_name_the_field(name, value):
    with pytest.raises(ValueError, match=name):
        Training(**{name: value})


def test_messages_give_value_and_what_is_allowed():
    with pytest.raises(ValueError, match=r"^prevalence must be a number in \(0, 1\), got 1.5$"):
        Task(prevalence=1.5)
    with pytest.raises(ValueError, match=r"^sparsity must be at most length \(10\), got 12$"):
        Task(sparsity=12)


def test_numbers_of_other_kinds_are_taken_as_plain_ones():
    task = Task(length=np.int64(7), sparsity=2.0, strength=np.float32(0.5), prevalence=np.float64(0.25))
    assert (task.length, task.sparsity, task.strength, task.prevalence) == (7, 2, 0.5, 0.25)
    assert [type(v) for v in (task.length, task.sparsity, task.strength)] == [int, int, float]
    assert whole_number("n", 10**18, 1) == 10**18
    assert real_number("x", 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="x must be"):
        real_number("x", 1.0, 0.0, 1.0, open_high=True)


def test_frozen_and_hashable():
    task, training = Task(), Training()
    assert {task: 1}[Task()] == 1 and {training: 1}[Training()] == 1
    assert hash(Task(positions=Positions("weighted", weights=[1.0] * 10)))
    for thing, name in ((task, "length"), (training, "ridge")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 3)


positions = st.one_of(
    st.sampled_from(["uniform", "block", "fixed"]),
    st.permutations(range(6)).map(lambda p: {"kind": "fixed", "places": list(p[:2])}),
    st.lists(st.floats(0.1, 9), min_size=6, max_size=6).map(lambda w: {"kind": "weighted", "weights": w}),
)


@given(st.floats(0, 1e6), st.floats(1e-6, 1 - 1e-6), positions)
def test_task_survives_plain_dictionaries(strength, prevalence, where):
    task = Task(6, 2, strength, prevalence, where)
    again = Task.from_dict(task.to_dict())
    assert again == task and hash(again) == hash(task)
    assert task.but(strength=1.0).but(strength=strength) == task


@given(st.floats(1e-3, 1e3), st.floats(0, 1e3), st.sampled_from(["logistic", "square", "smoothed_hinge"]))
def test_training_survives_plain_dictionaries(alpha, rate, loss):
    training = Training(loss, alpha, alpha, eta_q=rate, ridge=rate, schedule="reuse")
    assert Training.from_dict(training.to_dict()) == training


def test_a_loss_has_one_spelling():
    assert Training(SmoothedHinge()) == Training("smoothed_hinge")
    assert Training(SmoothedHinge()).to_dict()["loss"] == "smoothed_hinge"


def test_a_loss_of_a_user_works_but_is_not_plain_data():
    class Mine(Loss):
        name = "logistic"  # the name of a known loss does not make it that loss

        def value(self, z, y):
            return z

        slope = curvature = value

    training = Training(Mine())
    assert isinstance(training.loss_function, Mine)
    with pytest.raises(ValueError, match="cannot be written as plain data"):
        training.to_dict()


@pytest.mark.parametrize("make", [Task.from_dict, Training.from_dict])
def test_unknown_fields_are_refused(make):
    with pytest.raises(ValueError, match="has no field 'lenght'"):
        make({"lenght": 3})
    with pytest.raises(ValueError, match="mapping"):
        make([1, 2])
    with pytest.raises(ValueError, match="has no field 'x'"):
        Task().but(x=1)


def test_positions_mapping_refuses_unknown_fields():
    with pytest.raises(ValueError, match="positions has no field 'where'"):
        Task(positions={"kind": "fixed", "where": [1]})
