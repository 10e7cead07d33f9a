"""Finite and infinite results: the same fields with the same meaning, and nothing in them that can be changed."""

from __future__ import annotations

import json
import math
import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken._core.frozen import FrozenMapping
from sparsetoken.classifiers import SIMULATED
from sparsetoken.results import ClassifierResult, TwoSteps
from sparsetoken.simulation.two_steps import two_steps

TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)
SHARED = [f.name for f in fields(ClassifierResult)]
OPTIONS = {"accuracy": 5e-3, "with_capacity": False}


@pytest.fixture(scope="module", params=SIMULATED)
def pair(request):
    """A trial at d = 400 and its limit."""
    return simulate(TASK, TRAINING, 400, 0, request.param), forecast(TASK, TRAINING, request.param, **OPTIONS)


def test_a_number_and_its_limit_have_one_name(pair):
    """Every shared field means the same in both worlds: one trial at d = 400 lies near its limit in all of them."""
    finite, infinite = (result.to_row() for result in pair)
    compared = 0
    for name in finite:
        if not isinstance(finite[name], float) or name not in infinite or name in ("standard_error", "sampled_error"):
            continue
        compared += 1
        assert math.isnan(finite[name]) == math.isnan(infinite[name]), name
        # one trial scatters by about 1/sqrt(400); the overlaps of w in units of its norm
        scale = infinite["norm_w"] if name in ("overlap_w", "m_q", "m_u", "nu") else max(abs(infinite[name]), 0.2)
        if not math.isnan(finite[name]):
            assert abs(finite[name] - infinite[name]) < 0.25 * scale, (name, finite[name], infinite[name])
    assert compared >= 24


def test_shared_fields_are_the_same_in_both(pair):
    for result in pair:
        assert isinstance(result, ClassifierResult)
        assert list(result.to_dict())[: len(SHARED)] == SHARED
    assert set(pair[0].overlap) == set(pair[1].overlap) == set(pair[0].cosine) == set(pair[1].cosine)
    assert isinstance(pair[0].steps, TwoSteps) == isinstance(pair[1].steps, TwoSteps)


def test_coordinates_and_overlaps_belong_together(pair):
    for result in pair:
        assert math.hypot(result.m_q, result.m_u, result.nu) == pytest.approx(result.norm_w)
        assert result.overlap["w"] == pytest.approx(result.cosine["w"] * result.norm_w)
        gamma = result.cosine.get("q", 1.0)
        assert result.overlap["w"] == pytest.approx(gamma * result.m_q + math.sqrt(1 - gamma**2) * result.m_u)
        if result.steps is not None:
            assert result.cosine["q"] == result.steps.cosine["q"] and result.overlap["q"] == result.steps.overlap["q"]
            assert result.sharpness == result.steps.sharpness
            assert result.overlap["q"] == pytest.approx(result.cosine["q"] * result.steps.norm["q"])


def test_nothing_can_be_changed(pair):
    for result in pair:
        with pytest.raises(FrozenInstanceError):
            result.test_error = 0.0
        for mapping in (result.overlap, result.cosine, result.errors):
            with pytest.raises(TypeError):
                mapping["w"] = 1.0
            with pytest.raises(AttributeError):
                mapping.update(w=1.0)
            with pytest.raises(AttributeError):
                mapping._items = {}
    steps = two_steps(TASK, TRAINING, 30, 0)
    for array in (steps.readout, steps.query, steps.signal):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(TypeError):
        steps.norm["q"] = 1.0


def test_one_line_tells_the_essentials(pair):
    for result in pair:
        text = repr(result)
        assert len(text) < 150 and "\n" not in text
        assert f"{result.test_error:.4g}" in text and result.model in text and f"{result.cosine['w']:.4f}" in text
    for steps in (two_steps(TASK, TRAINING, 30, 0), theory.alignment(TASK, TRAINING)):
        assert len(repr(steps)) < 120 and f"{steps.cosine['q']:.4f}" in repr(steps)


def test_plain_forms(pair):
    for result in pair:
        nested, row = json.loads(json.dumps(result.to_dict())), result.to_row()
        assert nested["cosine"]["w"] == row["cosine_w"] == result.cosine["w"]
        assert not any(isinstance(value, dict | list | tuple) for value in row.values())
        if result.steps is None:
            assert nested["steps"] is None and math.isnan(row["steps_norm_q"]) and math.isnan(row["cosine_q"])
        else:
            assert nested["steps"]["norm"]["q"] == row["steps_norm_q"] == result.steps.norm["q"]
        for name, error in result.errors.items():
            assert row[f"{name}_se"] == error
    again = pickle.loads(pickle.dumps(pair[0]))
    assert repr(again.to_dict()) == repr(pair[0].to_dict())


def test_fixed_points_share_the_fields():
    """`theory.erm` on a law that knows its query has them too; a user's law does not know xi."""
    infinite = forecast(TASK, TRAINING, **OPTIONS)
    found = infinite.result
    assert isinstance(found, ClassifierResult) and found.model == "attention" and found.steps is None
    assert found.overlap["w"] == pytest.approx(infinite.overlap["w"])
    assert found.cosine["w"] == pytest.approx(infinite.cosine["w"])
    assert found.cosine["q"] == infinite.cosine["q"] and found.sharpness == infinite.sharpness
    assert 0 < found.errors["cosine_w"] < 0.05 and found.to_row()["cosine_w_se"] == found.errors["cosine_w"]
    assert len(repr(found)) < 150 and not {"law", "loss", "fixed_point"} & set(found.to_dict())
    with pytest.raises(ValueError, match="read-only"):
        found.fixed_point[0] = 1.0
    rng = np.random.default_rng(0)
    rows = [np.column_stack([shift + rng.standard_normal(64), np.zeros(64), np.ones(64)]) for shift in (1.0, 0.0)]
    own = theory.erm(theory.law_from_samples(*rows, 0.5), 2.0, 0.1)
    assert not own.overlap and not own.cosine and math.isnan(own.to_row()["cosine_w"])


def test_elementwise_attention_without_sharpness_is_exact():
    """Weights sigma(0)/L do not depend on the tokens: pooling with a feature of half the size, without sampling error."""
    law = theory.elementwise_law(TASK, 0.6, 0.0)
    found = theory.erm(law, 2.0, 0.025)
    pooled = theory.erm(theory.pooled_law(TASK), 2.0, 0.1)  # ||w|| doubles, the ridge falls to a quarter
    assert found.standard_error == 0.0
    assert found.test_error == pytest.approx(pooled.test_error, abs=1e-9)
    assert found.norm_w == pytest.approx(2 * pooled.norm_w, rel=1e-7)
    assert found.cosine["w"] == pytest.approx(pooled.cosine["w"], abs=1e-8)


def test_steps_have_one_class():
    finite, infinite = two_steps(TASK, TRAINING, 5000, 0), theory.alignment(TASK, TRAINING)
    limit = infinite.to_row()
    assert isinstance(finite, TwoSteps) and isinstance(infinite, TwoSteps)
    for name, value in finite.summary().to_row().items():
        assert value == pytest.approx(limit[name], rel=0.1), name


@pytest.mark.parametrize("change", [{"task": Task(1, 1, 2.0)}, {"training": Training(eta_w=0.0)}])
def test_a_query_that_vanishes_has_cosine_zero_in_either_world(change):
    """The bag is pooled: the readout has the pooled one's numbers, and xi stands for the query's direction."""
    setting = {"task": TASK, "training": TRAINING} | change
    finite, infinite = simulate(**setting, d=60, seed=0), forecast(**setting, **OPTIONS)
    pooled = forecast(**setting, model="pooled", **OPTIONS)
    for result in (finite, infinite):
        assert result.cosine["q"] == result.overlap["q"] == result.sharpness == 0.0
        assert result.steps is not None and result.steps.norm["q"] == 0.0
        assert result.m_u == pytest.approx(0.0, abs=1e-9)
        assert result.overlap["w"] == pytest.approx(result.m_q)
    for name in ("test_error", "norm_w", "m_q", "nu", "bias"):
        assert getattr(infinite, name) == pytest.approx(getattr(pooled, name), rel=1e-6), name


def test_a_readout_that_vanishes_has_no_cosine():
    """A ridge so large that w is lost: no direction, no cosine."""
    found = ClassifierResult(model="pooled", test_error=0.5, cosine={"w": math.nan})
    assert "nan" in repr(found)
    silent = TwoSteps(overlap={"w": 0.0}, cosine={"w": math.nan, "q": math.nan}, norm={"q": 0.0}, bias=0.0, sharpness=0)
    assert silent.query_cosine == 1.0


def test_a_frozen_mapping_is_a_mapping():
    mapping = FrozenMapping({"w": 1.0, "q": 2.0})
    assert mapping == {"w": 1.0, "q": 2.0} and dict(mapping) == {"w": 1.0, "q": 2.0} and len(mapping) == 2
    assert hash(mapping) == hash(FrozenMapping({"q": 2.0, "w": 1.0}))
    given = {"w": 1.0}
    kept = FrozenMapping(given)
    given["w"] = 5.0
    assert kept["w"] == 1.0 and pickle.loads(pickle.dumps(kept)) == kept


def test_arrays_of_a_caller_stay_writable():
    from sparsetoken._core.frozen import read_only

    mine = np.zeros(3)
    view = read_only(mine)
    mine[0] = 1.0
    assert view[0] == 1.0 and not view.flags.writeable
