"""A query from products or an eigenvector: simulation against theory, the two samplers against each other, refusals."""

import numpy as np
import pytest

from sparsetoken import Task, Training, forecast, simulate
from sparsetoken.simulation import two_steps
from sparsetoken.theory import alignment, gradient

TASK = Task(length=40, sparsity=2, strength=3.0, prevalence=0.3)
CENTRED = Training(alpha0=2.0, alpha1=2.0, eta_b="auto", eta_w=2.0, eta_q=30.0)
WAYS = ("products:2", "products:3", "eigenvector", "positive_eigenvector")


def mean_and_error(task, training, d, seeds, sampler="reduced"):
    runs = [two_steps(task, training, d, seed, sampler) for seed in seeds]
    values = np.array([[run.cosine["q"], run.norm["q"], run.cosine["w"], run.norm["w"]] for run in runs])
    return values.mean(0), values.std(0, ddof=1) / len(runs) ** 0.5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_limits_are_met(way, loss):
    training = CENTRED.but(query_by=way, loss=loss)
    found = alignment(TASK, training)
    limits = np.array([found.cosine["q"], found.norm["q"], found.cosine["w"], found.norm["w"]])
    mean, error = mean_and_error(TASK, training, 400, range(12))
    assert np.abs(mean / limits - 1).max() < 0.03 + 4 * (error / limits).max()
    assert found.sharpness == pytest.approx(training.beta * found.norm["q"])


def test_samplers_agree():
    task, training = TASK.but(length=8, strength=2.0), CENTRED.but(query_by="products:2")
    (reduced, e1), (full, e2) = (mean_and_error(task, training, 40, range(120), s) for s in ("reduced", "tensor"))
    assert np.abs((reduced - full) / np.hypot(e1, e2)).max() < 3.5


def test_two_products_are_one_more_than_the_two_steps_at_a_small_rate():
    """The same length, and on long bags a better direction."""
    task, small = Task(length=2000, strength=10.0), CENTRED.but(eta_w=1e-6)
    steps, spectral = alignment(task, small), alignment(task, small.but(query_by="products:2"))
    assert spectral.norm["q"] == pytest.approx(steps.norm["q"], rel=1e-6)
    assert spectral.cosine["q"] > steps.cosine["q"] + 0.1
    assert spectral.cosine["w"] == pytest.approx(steps.cosine["w"])


def test_the_whole_training_is_forecast():
    task, training = Task(length=200, strength=6.0), CENTRED.but(query_by="eigenvector", eta_q=400.0, ridge=0.01)
    predicted = forecast(task, training, with_capacity=False)
    errors = [simulate(task, training, 300, seed).test_error for seed in range(8)]
    assert np.mean(errors) == pytest.approx(predicted.test_error, abs=0.02)
    assert predicted.test_error < forecast(task, training.but(query_by="steps"), with_capacity=False).test_error - 0.02


@pytest.mark.parametrize("way", ["products:1", "products:99", "eigenvector:2", "power", 3])
def test_unknown_ways_are_refused(way):
    with pytest.raises(ValueError, match="query_by must be steps"):
        CENTRED.but(query_by=way)


def test_what_it_needs():
    for changed in ({"eta_b": 1.0}, {"schedule": "reuse"}):
        with pytest.raises(ValueError, match="needs eta_b='auto'"):
            CENTRED.but(query_by="eigenvector", **changed)
    spectral = CENTRED.but(query_by="eigenvector")
    with pytest.raises(ValueError, match="query_by must be 'steps' for derivatives"):
        gradient(TASK, spectral)
    with pytest.raises(ValueError, match="at a dimension"):
        alignment(TASK, spectral, d=100)
    with pytest.raises(ValueError, match="labelled second moment"):
        two_steps(TASK.but(length={10: 0.5, 20: 0.5}), spectral, 50, 0)
    with pytest.raises(ValueError, match="length must be at least 2"):
        two_steps(Task(length=1), spectral, 50, 0)
