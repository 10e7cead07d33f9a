"""Joint training run to its end: a stationary point, where theory puts it, and what leave-one-out fields know."""

import importlib

import numpy as np
import pytest

from sparsetoken import Task, simulate_end, theory
from sparsetoken.bag_models import get_bag_model
from sparsetoken.losses import get_loss
from sparsetoken.simulation.samplers import TensorData

module = importlib.import_module("sparsetoken.simulation.simulate_end")
TEN = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)


class WithoutBag:
    """A loss that weighs the bags."""

    def __init__(self, loss, weights):
        self.loss, self.weights = loss, weights

    def value(self, z, y):
        return self.weights * self.loss.value(z, y)

    def slope(self, z, y):
        return self.weights * self.loss.slope(z, y)


def run_of(model="attention", task=TEN, d=12, n=40, decay=0.2):
    model = get_bag_model(model)
    bags = TensorData(task, n, d, 3, ":0")
    return module.JointObjective(bags, model, get_loss("logistic"), np.full(model.rank, decay))


def test_the_gradient_is_the_objectives():
    run, rng = run_of(), np.random.default_rng(0)
    x, move = rng.standard_normal((2, 1, 25))
    (up,), _ = run.objective(x + 1e-5 * move, None)
    (down,), _ = run.objective(x - 1e-5 * move, None)
    _, gradient = run.objective(x, None)
    assert (up - down) / 2e-5 == pytest.approx(float(gradient[0] @ move[0]), rel=1e-6)


def test_the_trace_is_that_of_the_inverse_hessian(monkeypatch):
    """Against the Hessian by differences of the gradient, with probes that make the estimate exact."""
    run = run_of(d=6)
    x, _ = run.minimised(np.zeros(13))
    theta, bias = x[:-1].reshape(6, 2), float(x[-1])
    columns = []
    for unit in np.eye(13)[:-1]:
        up, down = (run.objective((x + sign * 1e-5 * unit)[None], None)[1][0][:-1] for sign in (1, -1))
        columns.append((up - down) / 2e-5)
    inverse = np.linalg.inv(np.array(columns)).reshape(6, 2, 6, 2)
    monkeypatch.setattr(module, "PROBES", 300)
    expected = np.einsum("iaib->ab", inverse) / run.n
    assert run.trace(theta, bias, 0) == pytest.approx(expected, rel=0.1, abs=0.05 * np.abs(expected).max())


def test_left_out_scores_are_those_of_a_training_without_the_bag():
    """Refitting without a bag moves its score to where the formula puts it."""
    d, n = 60, 120
    run = run_of("tied:2", d=d, n=n, decay=0.3)
    x, _ = run.minimised(np.zeros(d + 1))
    theta, bias = x[:-1].reshape(d, 1), float(x[-1])
    z, left_out = run.scores(theta, bias, run.trace(theta, bias, 0))
    really = []
    for i in range(8):
        without = run_of("tied:2", d=d, n=n, decay=0.3)
        without.loss = WithoutBag(without.loss, np.where(np.arange(n) == i, 0.0, n / (n - 1.0)))
        again, _ = without.minimised(x)
        fields = np.concatenate(without.bags.fields(again[:-1].reshape(d, 1)))
        really.append(module.differentiate(run.model, fields[i : i + 1], float(again[-1]))[0][0])
    moved, predicted = np.array(really) - z[:8], left_out[:8] - z[:8]
    assert np.corrcoef(moved, predicted)[0, 1] > 0.97
    assert np.abs(predicted - moved).mean() < 0.3 * np.abs(moved).mean()


DIFFERING = Task(length={8: 0.5, 12: 0.5}, sparsity=1, strength=5.0, correlation=0.2)


@pytest.mark.parametrize("task", [TEN, pytest.param(DIFFERING, marks=pytest.mark.slow)], ids=["plain", "differing"])
def test_it_ends_where_theory_says_and_a_refitted_bias_cures_it(task):
    runs = [simulate_end(task, "tied:2", 2.0, 0.2, 150, seed) for seed in range(10)]
    end = theory.statics(task, "tied:2", 2.0, 0.2, sampling=theory.Sampling(512, 4))

    def mean(name):
        values = np.array([getattr(run, name) for run in runs])
        return values.mean(), values.std(ddof=1) / np.sqrt(len(runs))

    assert max(run.residual for run in runs) < 1e-5
    for name in ("test_error", "refitted_error", "train_loss", "bias", "leave_one_out_error"):
        value, error = mean(name)
        size = 0.05 * abs(getattr(end, name))  # of order 1/d
        assert abs(value - getattr(end, name)) < 4.0 * error + size
    overlaps = np.array([run.overlap["w"] for run in runs])
    assert overlaps.mean() == pytest.approx(end.overlap["w"], rel=0.03)
    assert np.mean([run.V[0, 0] for run in runs]) == pytest.approx(end.V[0, 0], rel=0.06)
    assert mean("refitted_error")[0] < mean("test_error")[0] - 0.003


def test_scores_that_say_nothing_leave_the_larger_class():
    """A slope of the wrong sign turned the refitted classifier round (error .8 instead of .2)."""
    found = simulate_end(Task(5, 1, 1.0, 0.2), "tied:2", 2.0, 0.3, 40, 0)
    assert found.refitted_error == pytest.approx(0.2, abs=1e-3)
