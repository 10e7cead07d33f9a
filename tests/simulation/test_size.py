"""What a simulation may ask for is checked before anything is drawn, against the memory that there is."""

from __future__ import annotations

import pytest

from sparsetoken import Stage, Task, Training, simulate, simulate_trajectory
from sparsetoken.simulation import two_steps
from sparsetoken.simulation.samplers import drawn_bags
from sparsetoken.simulation.trajectory import DrawnDescent

STAGE = Stage(10, 2.0, {"q": 1.0, "w": 1.0})


def test_a_million_dimensions(monkeypatch):
    """Few bags for the readout: features are a small square, and a million dimensions take less than a gigabyte."""
    monkeypatch.setattr(drawn_bags, "available_memory", lambda: 1e9)
    found = simulate(Task(), Training(alpha0=4.0, alpha1=1e-4), d=10**6, seed=0)
    assert (found.n0, found.n1) == (4_000_000, 100) and found.cosine["q"] > 0.97


@pytest.mark.parametrize(
    ("training", "d", "model", "sampler"),
    [
        (Training(), 10**5, "attention", "reduced"),
        (Training(), 10**4, "vectorized", "reduced"),
        (Training(), 2 * 10**4, "heads:4", "reduced"),
        (Training(), 10**5, "pooled", "tensor"),
        (Training(alpha0=4.0, alpha1=1e-4, schedule="reuse"), 10**5, "attention", "reduced"),
        (Training(schedule="joint"), 10**5, "attention", "reduced"),
    ],
)
def test_more_than_the_memory_is_refused(training, d, model, sampler, monkeypatch):
    monkeypatch.setattr(drawn_bags, "available_memory", lambda: 4e9)
    with pytest.raises(ValueError, match=f"too many to simulate in dimension {d:,}: .* and 4 GB are free"):
        simulate(Task(), training, d, 0, model, sampler=sampler)


def test_trajectories_are_checked_alike():
    with pytest.raises(ValueError, match="2,000,000,000 bags of 10 tokens are too many to simulate"):
        simulate_trajectory(Task(), "attention", STAGE, 10**9, 0)
    assert simulate_trajectory(Task(), "attention", STAGE, 50.0, 0).details["d"] == 50
    assert DrawnDescent(Task(), "attention", STAGE, 50, 0).bag_model.directions == ("q", "w")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": None}, "^task must be a Task, got None$"),
        ({"training": {}}, "^training must be a Training, got {}$"),
        ({"d": 10**400}, "^d must be a whole number from 2 to 1,000,000,000,000, got 1000"),
        ({"seed": "x"}, "^seed must be a whole number >= 0, got 'x'$"),
        ({"sampler": "quick"}, "^sampler must be one of reduced, tensor, got 'quick'$"),
    ],
)
def test_one_sentence_that_names_the_field(change, message):
    given = {"task": Task(), "training": Training(), "d": 50, "seed": 0, "sampler": "reduced"} | change
    with pytest.raises(ValueError, match=message):
        simulate(**given)
    with pytest.raises(ValueError, match=message):
        two_steps(**given)
    del given["training"]
    if "training" not in change:
        with pytest.raises(ValueError, match=message):
            DrawnDescent(**given, model="attention", stages=STAGE)


def test_the_memory_of_this_machine_is_known():
    assert 1e8 < drawn_bags.available_memory() < 1e15
