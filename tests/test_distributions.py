from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sparsetoken import Task
from sparsetoken.distributions import ATOMS, Distribution


@pytest.mark.parametrize(
    "length",
    [{10: 0.5, 20: 0.5}, {"10": 0.5, "20": "0.5"}, "10:0.5,20:0.5", "20:.5, 10:.5", {10: 0.5, 20.0: 0.5, 30: 0}],
)
def test_every_notation_is_the_same_task(length):
    task = Task(length=length)
    assert task == Task(length=Distribution(((20, 0.5), (10, 0.5))))
    assert hash(task) == hash(Task(length={10: 0.5, 20: 0.5}))
    assert [kind[:3] for kind in task.kinds] == [(10, 1, 5.0), (20, 1, 5.0)]


@pytest.mark.parametrize("one", [10, "10", {10: 1.0}, {10: 1, 20: 0}, "10:1", 10.0])
def test_a_single_value_is_the_plain_task(one):
    assert Task(length=one) == Task() and Task(length=one).differing is None
    assert repr(Task(length=one)) == repr(Task())


def test_a_task_goes_to_json_and_back():
    task = Task({5: 0.25, 15: 0.75}, {1: 1 / 3, 2: 2 / 3}, stats.gamma(25, scale=0.2), 0.3, "block", 0.1, 0.2, 0.3)
    plain = json.loads(json.dumps(task.to_dict()))
    assert plain["length"] == "5:0.25,15:0.75"
    assert Task.from_dict(plain) == task == pickle.loads(pickle.dumps(task))
    assert len(task.kinds) == 2 * 2 * ATOMS
    assert sum(kind.probability for kind in task.kinds) == pytest.approx(1.0)


@given(st.dictionaries(st.integers(1, 50), st.floats(1e-3, 1.0), min_size=2, max_size=6))
def test_reading_back_is_exact(weights):
    total = sum(weights.values())
    found = Distribution(tuple((value, p / total) for value, p in weights.items()))
    read = Task(length=found.to_plain(), strength=found.to_plain())
    assert read.length == found and read == Task.from_dict(read.to_dict())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({10: 0.5}, "length: probabilities must sum to 1, got 0.5"),
        ({}, "length: probabilities must sum to 1, got 0"),
        ({10: -0.5, 20: 1.5}, r"length: a probability must be a number in \[0, 1\], got -0.5"),
        ({10: True}, "length: a probability must be a number"),
        ({2.5: 1.0}, "length must be a whole number >= 1, got 2.5"),
        ({"x": 1.0}, "length must be a whole number >= 1, got 'x'"),
        ("10:0.5,20", "length must be a number, or value:probability pairs such as 10:0.5,20:0.5"),
        ([10, 20], "length must be a whole number"),
        (stats.norm, "length must be a whole number"),
        (stats.norm(0, 1), "length must be a whole number >= 1"),
        (lambda rng, n: "no", "length cannot be drawn from"),
    ],
)
def test_bad_notation_is_said_in_a_sentence(value, words):
    with pytest.raises(ValueError, match=words):
        Task(length=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("label_noise", 0.6), ("label_noise", -0.1), ("contamination", 1.0), ("correlation", 1.0), ("correlation", "no")],
)
def test_bad_disturbances_name_the_field(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number in"):
        Task(**{name: value})


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"sparsity must be at most length \(5\)"):
        Task({5: 0.5, 20: 0.5}, {1: 0.5, 6: 0.5})
    with pytest.raises(ValueError, match="places must lie below length"):
        Task({3: 0.5, 20: 0.5}, positions={"kind": "fixed", "places": [4]})
    with pytest.raises(ValueError, match="kinds of bags, at most"):
        Task(dict.fromkeys(range(50, 150), 0.01), 1, {float(k): 0.05 for k in range(20)})


@pytest.mark.parametrize("law", [stats.gamma(9, scale=0.5), stats.uniform(2, 4), stats.lognorm(0.3, scale=4)])
def test_a_sampler_keeps_its_moments(law):
    """Nine moments of the 4096 quantiles, hence nearly those of the law itself."""
    found = Distribution.from_sampler(law)
    quantiles = law.ppf((np.arange(4096) + 0.5) / 4096)
    for power in range(1, 10):
        moment = sum(p * value**power for value, p in found)
        assert moment == pytest.approx(np.mean(quantiles**power), rel=1e-9)
    assert found.mean == pytest.approx(law.mean(), rel=1e-3)
    assert found.deviation == pytest.approx(law.std(), rel=5e-3)


def test_samplers_of_whole_numbers():
    few = Distribution.from_sampler(stats.randint(5, 11), whole=True)
    assert few.values == (5, 6, 7, 8, 9, 10)
    assert few.probabilities == pytest.approx([1 / 6] * 6, abs=2e-4)
    many = Distribution.from_sampler(stats.poisson(40), whole=True)
    assert len(many.atoms) == ATOMS and all(isinstance(value, int) for value in many.values)
    assert many.mean == pytest.approx(40, abs=0.5) and many.deviation == pytest.approx(40**0.5, rel=0.05)


def test_a_function_that_draws():
    task = Task(strength=lambda rng, size: rng.uniform(3.0, 5.0, size))
    assert task == Task(strength=lambda rng, size: rng.uniform(3.0, 5.0, size))
    assert task.mean_strength == pytest.approx(4.0, abs=0.01)


def test_scaling_keeps_the_shape():
    task = Task({10: 0.5, 30: 0.5}, 2, {2.0: 0.5, 6.0: 0.5})
    assert task.at_strength(8.0).strength.values == (4.0, 12.0)
    assert task.at_length(10).length.values == (5, 15)
    assert task.at_length(1).length == 2  # no shorter than the sparsity
    assert Task().at_strength(3.0) == Task(strength=3.0) and Task().at_length(7) == Task(length=7)
    assert Task(prevalence=0.2, label_noise=0.25).observed_prevalence == pytest.approx(0.2 * 0.75 + 0.8 * 0.25)


def test_a_function_that_gives_one_number_is_refused():
    with pytest.raises(ValueError, match=r"length cannot be drawn.*as many numbers as requested"):
        Task(length=lambda rng, size: 7)
