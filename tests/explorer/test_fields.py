"""The explorer's fields: defaults, addresses, bad values, presets, and the words beside them."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the explorer's extra is not installed")

from sparsetoken import Stage, Task, Training, get_bag_model, theory
from sparsetoken.explorer.fields import DEFAULTS, NUMBERS, VIEWS, WORDS, check, from_query
from tests.explorer.asking import state_of


def test_defaults_are_the_library_s():
    state = state_of()
    assert state.task == Task() and state.training == Training(equal_samples=True)


def test_query_holds_the_state():
    values, remarks = from_query("?length=30&strength=4.5&loss=square&view=phase&x=ridge&y=length&d=77")
    assert not remarks
    assert (values["length"], values["strength"], values["loss"], values["x"]) == (30, 4.5, "square", "ridge")
    assert values["alpha0"] == 2
    state, _ = check(values)
    assert state is not None and state.task.length == 30 and state.training.loss == "square" and state.d == 77


@pytest.mark.parametrize("query", ["length=ten", "view=weather", "nonsense=1", "length=", "loss=%3Cscript%3E"])
def test_bad_queries_are_remarked_on(query):
    values, remarks = from_query("?" + query)
    assert values == DEFAULTS and len(remarks) == 1


@pytest.mark.parametrize(
    ("changes", "name", "message"),
    [
        ({"length": 0}, "length", "a whole number from 1 to 5,000, got 0"),
        ({"length": 10.5}, "length", "got 10.5"),
        ({"length": None}, "length", "must be a number"),
        ({"length": "1e3"}, "length", "got '1e3'"),
        ({"strength": "2:0.5,4:0.5"}, "strength", "must be a number"),
        ({"length": {"5": 1.0}}, "length", "must be a whole number"),
        ({"length": 10**9}, "length", "got 1000000000"),
        ({"sparsity": 11}, "sparsity", "at most length (10), got 11"),
        ({"strength": -1}, "strength", "got -1"),
        ({"strength": 1e20}, "strength", "[0, 1e+09]"),
        ({"strength": [1]}, "strength", "got [1]"),
        ({"prevalence": 1}, "prevalence", "got 1"),
        ({"alpha0": 0}, "alpha0", "[0.001, 10000]"),
        ({"alpha1": 1e9}, "alpha1", "[0.001, 10000]"),
        ({"ridge": 0}, "ridge", "got 0"),
        ({"beta": 1e250}, "beta", "[0, 1e+09]"),
        ({"beta": 1e-250}, "beta", "must be 0 or at least 1e-09"),
        ({"d": 10**7}, "d", "from 2 to 5,000"),
        ({"trials": 1}, "trials", "from 2 to 200"),
        ({"view": "phase", "x": "length", "y": "length"}, "y", "the two axes must differ"),
        ({"loss": "hinge"}, "loss", "one of logistic, square, smoothed_hinge, exponential"),
        ({"view": "training", "steps": 61}, "steps", "from 1 to 60"),
        ({"view": "training", "rate_q": -1}, "rate_q", "got -1"),
        ({"view": "training", "rate_b": None}, "rate_b", "must be a number"),
        ({"view": "training", "sharpness": 0}, "sharpness", "got 0"),
        ({"view": "training", "start": 1e-12}, "start", "must be 0 or at least 1e-09"),
        ({"model": "gated"}, "model", "one of attention, tied, pooled, heads:2"),
    ],
)
def test_bad_fields_get_a_message_of_their_own(changes, name, message):
    state, messages = check({**DEFAULTS, **changes})
    assert state is None
    assert list(messages) == [name] and message in messages[name]


def test_several_bad_fields_are_all_named():
    _, messages = check({**DEFAULTS, "length": -1, "beta": "x", "trials": None})
    assert set(messages) == {"length", "beta", "trials"}


def test_training_fields_count_where_they_are_shown():
    """A field that is not on the screen cannot be put right there, so it cannot be wrong either."""
    assert state_of(view="curves", steps=0).descent.steps == DEFAULTS["steps"]
    pooled = state_of(view="training", model="pooled", rate_q=-1, sharpness=-1, rate_w=3)
    assert pooled.descent == state_of(view="training", model="pooled", rate_w=3).descent
    assert pooled.descent.rate_w == 3 and pooled.descent.bag_model == get_bag_model("pooled")
    values, remarks = from_query("?view=training&model=heads%3A2&steps=12&rate_q=2&rate_w=0.5&decay=0&start=0.3")
    heads = state_of(**values).descent
    assert not remarks and heads.stage(3.0) == Stage(
        12, 3.0, {"q1": 2.0, "w1": 0.5, "q2": 2.0, "w2": 0.5, "bias": 0.5}, dict.fromkeys(("q1", "w1", "q2", "w2"), 0.0)
    )
    assert heads.start_norms == dict.fromkeys(("q1", "w1", "q2", "w2"), 0.3)


def test_an_address_holds_both_settings():
    values, remarks = from_query("?strength=4&compare=strength%3D6%26loss%3Dsquare")
    assert not remarks and values["strength"] == 4 and values["compare"] == "strength=6&loss=square"
    values, remarks = from_query("?compare=strength%3Dmuch")
    assert values["compare"] == "" and "to compare with" in remarks[0]


def test_every_field_and_every_view_has_its_words():
    assert set(DEFAULTS) - {"view", "compare"} == set(WORDS["tips"])
    assert set(WORDS["captions"]) == set(WORDS["status"]) == set(VIEWS)
    assert WORDS["story"].count(". ") == 1  # two sentences


@pytest.mark.parametrize("name", WORDS["presets"])
def test_presets_are_valid_and_show_what_they_say(name):
    state = state_of(**WORDS["presets"][name]["values"])
    limit = theory.bayes_limit(state.task, state.training.alpha0 + state.training.alpha1)
    assert limit.hard == (name == "hard")
    assert (state.task.longest >= 1000) == (name == "long")
    cosine = theory.alignment(state.task, state.training).cosine["q"]
    assert (cosine < -0.2) if name == "anti" else (name == "hard" or cosine > 0.3)


def test_the_page_has_a_place_for_every_message():
    from sparsetoken.explorer.layout import MESSAGES

    assert set(NUMBERS) <= set(MESSAGES)
