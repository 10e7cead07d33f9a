"""Stages, and their expansion to arrays over steps."""

import numpy as np
import pytest

from sparsetoken.schedules import Stage, expand


def test_expansion_of_a_staged_schedule():
    stages = [
        Stage(2, 1.5, {"q": 1.0, "bias": [0.1, 0.2]}, {"w": 0.1}, data="D0"),
        Stage(3, (1.5, 2.0), {"w": 1.0}, momentum=0.5, data=("D0", "D1")),
        Stage(2, 0.5, {"w": 2.0}, data="fresh"),
    ]
    found = expand(stages, ("q", "w"))
    assert found.steps == 7
    assert found.data_set.tolist() == [0, 0, 0, 1, 0, 2, 3, 4]  # the last is the set that an eighth step would use
    assert found.alpha.tolist() == [1.5, 2.0, 0.5, 0.5, 0.5]
    assert found.names == ("D0", "D1", "fresh", "fresh", "fresh")
    assert found.rates[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert found.rates[:, 1].tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert found.rates[:2, 2].tolist() == [0.1, 0.2]
    assert found.decay[:, 1].tolist() == [0.1, 0.1, 0, 0, 0, 0, 0]
    assert found.momentum.tolist() == [0, 0, 0.5, 0.5, 0.5, 0, 0]


def test_the_entry_after_the_last_step_is_on_the_next_data_set():
    assert expand(Stage(3, 1.0), ("w",)).data_set.tolist() == [0, 0, 0, 0]
    assert expand(Stage(3, 1.0, data=("A", "B")), ("w",)).data_set.tolist() == [0, 1, 0, 1]
    assert expand(Stage(2, 1.0, data="fresh"), ("w",)).data_set.tolist() == [0, 1, 2]
    assert len(expand(Stage(1, 1.0, data=("A", "B")), ("w",)).alpha) == 2


def test_plain_data_and_back():
    stage = Stage(2, (1.0, 2.0), {"q": [1.0, 2.0]}, {"q": 0.1}, [0.0, 0.5], ("A", "B"))
    plain = stage.to_dict()
    assert plain["rates"] == {"q": [1.0, 2.0]} and plain["data"] == ["A", "B"]
    assert Stage.from_dict(plain) == stage
    assert expand(plain, ("q",)).momentum.tolist() == [0.0, 0.5]
    with pytest.raises(ValueError, match="no field 'rate'"):
        Stage.from_dict({"steps": 1, "alpha": 1.0, "rate": {}})


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 10**9}, "steps must be a whole number"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": (1.0, 2.0)}, "one number per data set"),
        ({"rates": {"q": -1.0}}, "rates"),
        ({"rates": {"q": [1.0, 2.0]}}, "3 steps"),
        ({"rates": 1.0}, "mapping"),
        ({"decay": {"bias": 0.1}}, "bias"),
        ({"momentum": 1.0}, "momentum"),
        ({"momentum": float("nan")}, "momentum"),
        ({"data": ()}, "data"),
        ({"data": ("A", "A")}, "data"),
        ({"data": ("A", "fresh")}, "data"),
    ],
)
def test_stages_are_checked(changes, match):
    with pytest.raises(ValueError, match=match):
        Stage(**{"steps": 3, "alpha": 1.0, **changes})


def test_expansion_is_checked():
    with pytest.raises(ValueError, match="rates must name q, w, bias"):
        expand(Stage(1, 1.0, {"v": 1.0}), ("q", "w"))
    with pytest.raises(ValueError, match="data set 'all'"):
        expand([Stage(1, 1.0), Stage(1, 2.0)], ("q",))
    with pytest.raises(ValueError, match="stages"):
        expand([], ("q",))


def test_arrays_over_steps_are_kept():
    rates = np.linspace(0.1, 1.0, 4)
    assert expand(Stage(4, 1.0, {"w": rates}), ("w",)).rates[:, 0] == pytest.approx(rates)


def test_a_stage_cannot_be_changed():
    stage = Stage(2, 1.0, {"q": 1.0}, {"q": 0.1})
    for mapping in (stage.rates, stage.decay):
        with pytest.raises(TypeError):
            mapping["q"] = -5.0
    assert stage.rates == {"q": 1.0} and Stage.from_dict(stage.to_dict()) == stage
