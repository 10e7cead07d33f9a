"""Several attention heads at finite size, against the theory and between samplers."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Deployment, Task, Tokens, Training, forecast, simulate, theory
from sparsetoken.simulation import head_readout
from sparsetoken.simulation.heads import draw_head_features
from sparsetoken.simulation.samplers.drawn_bags import draw_bags
from sparsetoken.study.kinds.readout import separable

TASK = Task(length=8, sparsity=1, strength=4.0, prevalence=0.4)
TRAINING = Training(alpha0=4.0, alpha1=3.0, ridge=1e-2)
FIELDS = ("test_error", "train_loss", "norm_w", "cosine_w", "auc", "bias")


def rows(count, first=0, **arguments):
    return [simulate(TASK, TRAINING, seed=seed, **arguments).to_row() for seed in range(first, first + count)]


def compare(found, expected, count, slack):
    for name in FIELDS:
        x = np.array([row[name] for row in found])
        assert abs(x.mean() - expected[name]) < 4 * x.std(ddof=1) / np.sqrt(count) + slack, name


@pytest.mark.slow
@pytest.mark.parametrize(
    "heads", [4]
)  # two are tested elsewhere, below, and on two signals in tests/theory/test_several_signals.py
def test_the_forecast_is_the_limit(heads):
    found = rows(12, d=120, model=f"heads:{heads}")
    limit = forecast(TASK, TRAINING, f"heads:{heads}", accuracy=2e-3, with_capacity=False)
    compare(found, limit.to_row(), 12, 0.02)
    assert (
        set(limit.cosine)
        == {"w", *(f"q{h + 1}" for h in range(heads))}
        == set(simulate(TASK, TRAINING, 40, 0, model=f"heads:{heads}").cosine)
    )


def test_one_head_is_attention():
    one = forecast(TASK, TRAINING, "heads:1", accuracy=2e-3, with_capacity=False)
    plain = forecast(TASK, TRAINING, "attention")
    assert one.test_error == pytest.approx(plain.test_error, abs=3e-3)
    assert one.norm_w == pytest.approx(plain.norm_w, rel=0.01)
    law = theory.heads_law(TASK, plain.cosine["q"], plain.sharpness)
    assert theory.capacity(law, accuracy=1e-2).alpha == pytest.approx(plain.capacity, rel=0.03)
    assert one.cosine["q1"] == plain.cosine["q"]


def test_both_samplers_have_the_same_law():
    reduced = rows(24, d=40, model="heads:2")
    tensor = rows(24, first=100, d=40, model="heads:2", sampler="tensor")
    for name in (*FIELDS, "cosine_q1", "overlap_q2", "sharpness"):
        a, b = (np.array([row[name] for row in found]) for found in (reduced, tensor))
        assert abs(a.mean() - b.mean()) < 4.5 * np.hypot(a.std(), b.std()) / np.sqrt(24), name


def test_the_formula_agrees_with_counting():
    """The readout of one trial on fresh bags drawn by the law."""
    law = theory.heads_law(TASK, [0.8, 0.4], [1.5, 2.5])
    measured, readout = head_readout(law, 3.0, 0.01, 50, 0)
    labels = draw_bags(TASK, 20_000, 9, "1").labels
    x = draw_head_features(law, labels, 50, np.random.default_rng(3))
    wrong = (x.reshape(len(labels), -1) @ readout.w + readout.bias) * labels <= 0
    assert abs(measured.test_error - wrong.mean()) < 4 * wrong.std() / np.sqrt(20_000)


@pytest.mark.parametrize("carried", ["one", "independent", "all"])
def test_several_signals(carried):
    """Two signals, two heads that look at one each."""
    queries, signals = [[1.5, 0.0, 0.3], [0.2, 1.8, 0.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    task = Task(length=8, sparsity=2, strength=3.0)
    law = theory.heads_law(task, queries=queries, signals=signals, shares=[0.7, 0.3], carried=carried)
    limit = theory.erm(law, 2.0, 0.02, accuracy=4e-3)
    found = [head_readout(law, 2.0, 0.02, 100, seed)[0].test_error for seed in range(9)]
    assert abs(np.mean(found) - limit.test_error) < 4 * np.std(found, ddof=1) / 3 + 0.006


def test_signals_that_are_carried_together_make_it_easier():
    queries = [[1.5, 0.0], [0.0, 1.5]]
    errors = {
        carried: theory.erm(
            theory.heads_law(Task(8, 2, 3.0), queries=queries, signals=np.eye(2), shares=[0.9, 0.1], carried=carried),
            2.0,
            0.02,
            accuracy=1e-2,
        ).signal_overlap.sum(0)
        for carried in ("one", "all")
    }
    # With shares of 0.9 and 0.1 the second signal is learned far less, unless every bag carries both.
    assert errors["one"][1] < 0.5 * errors["one"][0]
    assert errors["all"][1] == pytest.approx(errors["all"][0], rel=0.1)


def test_capacity_of_two_heads():
    """Separable well below the threshold, not separable well above it."""
    law = theory.heads_law(Task(10, 1, 3.0), [0.6, 0.3], [1.5, 3.0])
    threshold = theory.capacity(law, accuracy=1e-2)
    assert threshold.alpha > 1.5 * theory.capacity(theory.attention_law(law.task, 0.6, 1.5)).alpha
    assert threshold.standard_error < 0.02 * threshold.alpha
    d, answers = 40, {}
    for factor in (0.75, 1.3):
        count = round(factor * threshold.alpha * d)
        draws = []
        for seed in range(6):
            labels = draw_bags(law.task, count, seed, "1").labels
            x = draw_head_features(law, labels, d, np.random.default_rng([seed, count]))
            draws.append(separable(x.reshape(count, -1), labels))
        answers[factor] = sum(draws)
    assert answers[0.75] >= 5 and answers[1.3] <= 1


def test_trained_here_tested_there():
    there = {"deployment": Deployment({"length": 30}, sharpness=3.0, bias_shift=0.5)}
    limit = forecast(TASK, TRAINING, "heads:2", accuracy=3e-3, with_capacity=False, **there)
    found = rows(9, d=120, model="heads:2", **there)
    x = np.array([row["test_error"] for row in found])
    assert abs(x.mean() - limit.test_error) < 4 * x.std(ddof=1) / 3 + 0.015
    assert limit.tested["length"] == 30 and limit.trained["length"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "heads:0"}, "needs a whole number of heads from 1 to 1000"),
        ({"model": "heads:two"}, "needs a whole number of heads from 1 to 1000"),
        ({"model": "heads:2", "tokens": Tokens(noise="sparse")}, "in white Gaussian noise, not in sparse noise"),
        (
            {"model": "heads:2", "tokens": Tokens(covariance=np.ones(40))},
            "in white Gaussian noise, not in coloured noise",
        ),
        ({"model": "heads:2", "training": TRAINING.but(schedule="reuse")}, "by the schedule 'staged', not 'reuse'"),
        (
            {"task": Task(length=1), "model": "heads:2", "deployment": Deployment(sharpness=1.0)},
            "sharpness needs a query with a direction",
        ),
        ({"model": "heads:4", "d": 5}, "d must be larger than the number of heads plus one"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(**{"task": TASK, "training": TRAINING, "d": 40, "seed": 0, **arguments})
    with pytest.raises(ValueError, match="carried must be one of one, independent, all"):
        theory.heads_law(TASK, queries=[[1.0]], carried="some")
    with pytest.raises(ValueError, match="carried 'all' needs a sparsity of at least"):
        theory.heads_law(TASK, queries=[[1.0, 0.0]], signals=np.eye(2), carried="all")


def test_counted_errors_are_those_computed():
    """In full bags, along a given direction, tested elsewhere."""
    there = Deployment({"length": 12}, sharpness=2.0, bias_shift=0.3, samples=20_000)
    tokens = Tokens(signal=np.arange(1.0, 31.0))
    found = simulate(TASK, TRAINING, 30, 1, "heads:2", sampler="tensor", tokens=tokens, deployment=there)
    assert abs(found.test_error - found.sampled_error) < 4 * np.hypot(
        found.standard_error, found.sampled_standard_error
    )
    assert found.seconds.keys() >= {"steps", "features", "readout", "test_error", "sampled_error"}
