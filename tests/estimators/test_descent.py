"""Joint and tied training of the attention classifier: the bag models and schedules of the theory, on given bags."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import AttentionClassifier, Stage, Task
from sparsetoken.bag_models import get_bag_model
from sparsetoken.theory import trajectory
from tests.helpers import planted_bags

RATES = {"q": 1.5, "w": 1.0, "bias": 0.5}
SCHEDULES = {
    "joint": Stage(6, 2.0, RATES, {"q": 0.1, "w": 0.1}, momentum=0.3),
    "tied": Stage(6, 2.0, {"w": 1.0, "bias": 0.5}, {"w": 0.2}),
}


def drawn(rng, task, n, xi):
    labels = np.where(np.arange(n) % 2 == 0, 1, -1)
    tokens = rng.standard_normal((n, task.length, len(xi)), dtype=np.float32)
    tokens[labels == 1, 0] += (task.strength * xi).astype(np.float32)
    return tokens, labels


@pytest.mark.parametrize("training", [pytest.param("joint", marks=pytest.mark.slow), "tied"])
def test_the_error_is_the_one_the_theory_forecasts(training):
    """d = 200, 400 bags, five draws: the finite-size gap is of order 1/d, well below the draws' own scatter."""
    task, d = Task(length=5, strength=4.0), 200
    rng, errors = np.random.default_rng(8), []
    for _ in range(5):
        xi = rng.standard_normal(d)
        xi /= np.linalg.norm(xi)
        model = AttentionClassifier(training, stages=SCHEDULES[training], sharpness=1.5, scale=False)
        model.fit(*drawn(rng, task, 2 * d, xi))
        fresh, labels = drawn(rng, task, 2000, xi)
        errors.append(float(np.mean(model.predict(fresh) != labels)))
    assert model.stages_[0].alpha == 2.0 and model.bag_model_.sharpness == 1.5
    forecast = trajectory(task, model.bag_model_, list(model.stages_), accuracy=3e-3)
    spread = np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - forecast.test_error[-1]) < 3.5 * np.hypot(spread, forecast.standard_error[-1]) + 2e-3
    assert np.mean(errors) < forecast.test_error[2] - 0.01  # it has learnt since


@pytest.mark.parametrize("training", ["joint", "tied"])
def test_decisions_are_the_bag_models(training):
    bags, labels, _ = planted_bags(3, n=60, d=4, ragged=True)
    model = AttentionClassifier(training, stages=SCHEDULES[training], sharpness=2.0).fit(bags, labels)
    score = get_bag_model("attention" if training == "joint" else "tied").with_sharpness(2.0)
    w, b = model.coef_[0], model.intercept_[0]
    for bag, z in zip(bags, model.decision_function(bags)):
        x = model.scaler_.scaled(bag)
        fields = np.stack([x @ model.query_ / 2.0, x @ w], axis=1) if training == "joint" else (x @ w)[:, None]
        np.testing.assert_allclose(z, score(fields, b), rtol=1e-9, atol=1e-12)
    if training == "tied":
        np.testing.assert_allclose(model.query_, 2.0 * w)


def test_one_step_is_a_step_down_the_gradient():
    """From zero the first step moves w along the mean tokens of the classes, and leaves the query where it is."""
    bags, labels, _ = planted_bags(5, n=40, d=3)
    stage = Stage(1, 1.0, {"q": 7.0, "w": 0.5, "bias": 0.25})
    model = AttentionClassifier("joint", stages=stage, sharpness=1.0, scale=False).fit(bags, labels)
    y = np.where(labels == 1, 1.0, -1.0)
    means = np.array([bag.mean(axis=0) for bag in bags])
    np.testing.assert_allclose(model.coef_[0], 0.5 * (0.5 * y) @ means / len(y), rtol=1e-10)
    np.testing.assert_allclose(model.intercept_[0], 0.25 * np.mean(0.5 * y), atol=1e-12)
    np.testing.assert_array_equal(model.query_, np.zeros(3))


@pytest.mark.parametrize("training", ["joint", "tied"])
def test_the_default_schedule_is_stopped_and_calibrated_by_held_out_bags(training):
    bags, labels, _ = planted_bags(6, n=300, d=12, strength=5.0)
    stretched = [
        bag * np.r_[4.0, np.ones(11)] for bag in bags
    ]  # one feature of high variance: smaller steps are needed
    for scale, some in ((True, bags), (False, stretched)):
        model = AttentionClassifier(training, scale=scale).fit(some[:200], labels[:200])
        assert model.diagnostics_["held_out_auc"] > 0.8
        assert model.score(some[200:], labels[200:]) > 0.85
        assert model.diagnostics_["steps"] == sum(stage.steps for stage in model.stages_)
    assert model.calibration_.slope != 1.0


def test_what_a_training_does_not_use_is_refused():
    bags, labels, _ = planted_bags(7, n=30)
    for parameters, message in (
        ({"training": "joint", "ridge": 0.1}, "ridge must be left at 'auto': training='joint' does not use it"),
        ({"training": "tied", "split": 0.5}, "split must be left at 'auto': training='tied'"),
        ({"training": "tied", "eta_w": 2.0}, "eta_w must be left at 1.0"),
        ({"training": "joint", "eta_b": 1.0}, "eta_b must be left at 'auto'"),
        ({"stages": SCHEDULES["joint"]}, "stages must be left at 'auto': training='staged' does not use it"),
        ({"training": "jointly"}, "training must be one of staged, joint, tied"),
        ({"training": "tied", "stages": "mine"}, "stages must be 'auto', a Stage or a list"),
        ({"training": "tied", "stages": SCHEDULES["joint"]}, "rates must name w, bias"),
        ({"training": "tied", "sharpness": 0.0}, "sharpness must be above 0"),
        (
            {"training": "tied", "stages": Stage(2, 1.0, {"w": 1.0}, data="fresh")},
            "stages must use one data set",
        ),
        (
            {
                "training": "tied",
                "scale": False,
                "sharpness": 1.0,
                "stages": Stage(400, 1.0, {"w": 1e9}, {"w": 1.0}),
            },
            "stages must have smaller rates",
        ),
    ):
        with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
            AttentionClassifier(**parameters).fit(bags, labels)
