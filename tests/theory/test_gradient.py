"""Derivatives where the query learns nothing: one token per bag, and no step of the readout."""

import pytest

from sparsetoken import Task, Training, theory


def difference(task: Task, training: Training, name: str, h: float, low: float = -1.0) -> float:
    """Central difference of forecasts, or from `low` * h to h."""
    errors = []
    for shift in (h, low * h):
        owner = task if name in ("strength", "prevalence") else training
        changed = owner.but(**{name: getattr(owner, name) + shift})
        pair = (changed, training) if owner is task else (task, changed)
        errors.append(theory.forecast(*pair, with_capacity=False, accuracy=1e-4).test_error)
    return (errors[0] - errors[1]) / ((1 - low) * h)


def test_one_token_per_bag():
    task, training = Task(length=1), Training()
    found = theory.gradient(task, training)
    assert found["strength"] == pytest.approx(-0.019, abs=5e-4)
    for name, h in (("strength", 1e-2), ("alpha1", 1e-2), ("ridge", 1e-5)):
        assert found[name] == pytest.approx(difference(task, training, name, h), rel=2e-3), name
    for name in ("eta_w", "eta_b", "eta_q", "beta", "alpha0"):  # nothing to attend to
        assert found[name] == 0.0, name


def test_no_step_of_the_readout():
    """At eta_w = 0 the query vanishes and its direction has a limit: the error falls from there as eta_w grows."""
    task, training = Task(), Training(eta_w=0.0, eta_q=5.0, ridge=1e-2)
    found = theory.gradient(task, training)
    assert found["strength"] == pytest.approx(difference(task, training, "strength", 0.01), rel=5e-3)
    forward = difference(task, training, "eta_w", 0.01, low=0.0)
    assert forward < -0.1 and found["eta_w"] == pytest.approx(forward, rel=0.03)
    assert found["eta_q"] == found["beta"] == 0.0
