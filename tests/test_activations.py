"""Rules for all tokens of a bag together: sparsemax, hard max, the softmax over the largest scores."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sparsetoken import Task, theory
from sparsetoken.activations import Weighting, get_activation, hardmax, register_activation, softmax, sparsemax

SCORES = np.random.default_rng(0).standard_normal((5, 7)) * 2


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    found = sparsemax(SCORES)
    assert found.sum(axis=1) == pytest.approx(1.0) and (found >= 0).all() and (found == 0).any()
    for scores, weights in zip(SCORES, found):
        start, whole = np.full(7, 1 / 7), {"type": "eq", "fun": lambda p: p.sum() - 1}
        best = minimize(lambda p, x=scores: ((p - x) ** 2).sum(), start, bounds=[(0, 1)] * 7, constraints=whole)
        assert weights == pytest.approx(best.x, abs=1e-4)
    assert sparsemax(np.zeros((1, 4))) == pytest.approx(0.25)


def test_hardmax_and_top():
    assert (hardmax(SCORES).argmax(axis=1) == SCORES.argmax(axis=1)).all() and (hardmax(SCORES).max(axis=1) == 1).all()
    top = get_activation("top:2")
    assert isinstance(top, Weighting)
    weights = top.weights(SCORES)
    assert ((weights > 0).sum(axis=1) == 2).all() and weights.sum(axis=1) == pytest.approx(1.0)
    two = np.sort(SCORES, axis=1)[:, -2:]
    assert np.sort(weights, axis=1)[:, -2:] == pytest.approx(softmax(two))
    assert get_activation("top:7").weights(SCORES) == pytest.approx(softmax(SCORES))
    assert get_activation("top:99").weights(SCORES) == pytest.approx(softmax(SCORES))


@pytest.mark.parametrize("name", ["top:0", "top:x", "top:", "sparsemax:2"])
def test_bad_names(name):
    with pytest.raises(ValueError, match=r"activation must be one of .*sparsemax, hardmax, .*'top:K'"):
        get_activation(name)


@pytest.mark.parametrize("name", ["sparsemax", "hardmax", "top:2"])
def test_theory_and_simulation_know_them(name):
    """Reduced features, every token drawn, and the limit."""
    from sparsetoken import Task, Training, forecast, simulate

    task, training = Task(6, 1, 4.0, 0.5), Training(alpha0=4.0, alpha1=4.0, ridge=0.1)
    options = {"model": f"elementwise:{name}"}
    limit = forecast(task, training, accuracy=2e-3, with_capacity=False, **options).test_error
    for sampler in ("reduced", "tensor"):
        runs = [simulate(task, training, 60, seed, sampler=sampler, **options).test_error for seed in range(6)]
        assert np.mean(runs) == pytest.approx(limit, abs=4 * np.std(runs) / np.sqrt(6) + 0.02)


def _doubling(scores):
    scores *= 2
    return scores


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_doubling, "leave the scores as they are"),
        (lambda scores: np.full(scores.shape, "1.0"), "finite numbers"),
        (lambda scores: 1 / 0, "raises ZeroDivisionError"),
    ],
)
def test_functions_that_are_no_activations_are_refused(function, words):
    with pytest.raises(ValueError, match=words):
        register_activation("bad", function)
    with pytest.raises(ValueError, match=words):
        theory.elementwise_law(Task(), 0.9, 1.0, function)
