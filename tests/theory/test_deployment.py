"""A readout trained on one law and tested on another."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken import Deployment, Task, Training, theory
from sparsetoken.simulation.simulate import simulate

FRESH = ("test_error", "auc", "sensitivity", "specificity", "balanced_error")


def attention(length=10, sharpness=1.5, cosine=0.9, **fields):
    return theory.attention_law(Task(length=length, **fields), cosine, sharpness)


@pytest.fixture(scope="module")
def trained():
    return theory.erm(attention(), alpha=2.0, ridge=0.01)


@pytest.fixture(scope="module")
def pooled():
    return theory.erm(theory.pooled_law(Task(prevalence=0.3)), alpha=2.0, ridge=0.01)


@pytest.mark.parametrize(("length", "error", "auc"), [(10, 0.033, 0.996), (100, 0.1155, 0.981), (1000, 0.333, 0.932)])
def test_longer_bags_cost_the_threshold_more_than_the_order(trained, length, error, auc):
    found = trained.on(attention(length))
    assert found.test_error == pytest.approx(error, abs=6e-4)
    assert found.auc == pytest.approx(auc, abs=6e-4 + 3 * found.errors["auc"])
    assert found.standard_error <= 0.4 * 2e-4
    if length == 1000:
        assert found.sensitivity == pytest.approx(0.335, abs=6e-4)
        assert found.specificity == pytest.approx(0.9998, abs=6e-5)


def test_another_sharpness_beats_training_on_the_longer_bags(trained):
    sharper = trained.on(attention(1000, sharpness=3.0))
    assert sharper.test_error == pytest.approx(0.128, abs=6e-4)
    assert sharper.test_error < theory.erm(attention(1000), 2.0, 0.01, accuracy=2e-3).test_error - 0.02


def test_on_its_own_law_nothing_changes(trained):
    for where in (trained.law, Task()):
        found = trained.on(where)
        assert {name: getattr(found, name) for name in FRESH} == {name: getattr(trained, name) for name in FRESH}
        assert found.standard_error == trained.standard_error and found.errors == trained.errors
        assert found.trained == found.tested


def test_what_was_trained_stays(trained):
    found = trained.on(Task(length=100, prevalence=0.2), bias_shift=0.5)
    for name in ("train_loss", "train_error", "m_q", "m_u", "nu", "bias", "V", "norm_w", "sharpness", "points"):
        assert getattr(found, name) == getattr(trained, name), name
    assert found.law is trained.law and found.cosine == trained.cosine
    assert (found.trained["length"], found.tested["length"]) == (10, 100)
    assert (found.tested["prevalence"], found.tested["bias_shift"]) == (0.2, 0.5)
    assert "tested at length 100, prevalence 0.2, bias_shift 0.5" in repr(found)
    again = found.on(trained.law)  # tests do not add up: every one starts from what was trained
    assert again.test_error == trained.test_error


def test_pooling_elsewhere_is_its_closed_form(pooled):
    task = Task(length=40, sparsity=3, strength=4.0, prevalence=0.6)
    found = pooled.on(task, bias_shift=0.2)
    bias, scale = pooled.bias + 0.2, pooled.norm_w / math.sqrt(40)
    shift = pooled.m_q * 4.0 * 3 / 40
    miss, alarm = ndtr(-(shift + bias) / scale), ndtr(bias / scale)
    assert found.test_error == pytest.approx(0.6 * miss + 0.4 * alarm, abs=1e-12)
    assert found.sensitivity == pytest.approx(1 - miss, abs=1e-12)
    assert found.specificity == pytest.approx(1 - alarm, abs=1e-12)
    assert found.auc == pytest.approx(ndtr(shift / scale / math.sqrt(2)), abs=1e-12)
    assert found.standard_error == 0.0


def test_averages_are_those_of_plainly_drawn_bags(trained):
    task = Task(length=30, sparsity=2, strength=4.0, prevalence=0.3)
    found = trained.on(task, bias_shift=0.4)
    rng = np.random.default_rng(1)
    rest, wrong = math.hypot(trained.m_u, trained.nu), []
    for label, share in ((1.0, 0.3), (-1.0, 0.7)):
        t = rng.standard_normal((100_000, 30))
        t[:, :2] += 0.9 * 4.0 * (label > 0)
        p = np.exp(1.5 * t)
        p /= p.sum(axis=1, keepdims=True)
        S = 4.0 * math.sqrt(1 - 0.9**2) * p[:, :2].sum(axis=1) * (label > 0)
        mean = trained.m_q * (p * t).sum(axis=1) + trained.m_u * S + trained.bias + 0.4
        wrong.append(share * ndtr(-label * mean / (np.sqrt((p**2).sum(axis=1)) * rest)))
    error = sum(w.mean() for w in wrong)
    bar = math.hypot(*(w.std() / len(w) ** 0.5 for w in wrong))
    assert abs(found.test_error - error) <= 4 * math.hypot(bar, found.standard_error)


def test_error_bars_cover_the_sampling_of_both_laws():
    coarse = theory.erm(attention(), alpha=2.0, ridge=0.01, accuracy=0.02)
    fine = theory.erm(attention(), alpha=2.0, ridge=0.01, accuracy=2e-5)
    assert coarse.points < fine.points
    for where in (attention(100), attention(30, sharpness=3.0)):
        rough, exact = coarse.on(where, accuracy=0.02), fine.on(where, accuracy=5e-5)
        assert rough.points == coarse.points
        for name in ("test_error", "sensitivity", "specificity"):
            bars = [r.standard_error if name == "test_error" else r.errors[name] for r in (rough, exact)]
            assert abs(getattr(rough, name) - getattr(exact, name)) <= 4 * math.hypot(*bars), name
            assert bars[0] > 2 * bars[1]


def test_training_is_refined_where_its_draws_are_the_limit():
    coarse = theory.erm(attention(), alpha=2.0, ridge=0.01, accuracy=0.02)
    exact_law = attention(1)  # bags of one token: it has no sampling error of its own
    rough = coarse.on(exact_law, accuracy=0.02)
    assert rough.points == coarse.points and rough.standard_error > 0
    found = coarse.on(exact_law, accuracy=rough.standard_error)
    assert found.points > coarse.points
    assert found.standard_error <= 0.4 * rough.standard_error
    assert abs(found.test_error - rough.test_error) <= 4 * rough.standard_error


def test_an_accuracy_out_of_reach_is_refused():
    with pytest.raises(theory.AccuracyError, match="use at least"):
        theory.erm(attention(), 2.0, 0.01, "square", accuracy=0.02).on(attention(5), accuracy=1e-9, strict=True)


def test_laws_of_a_user():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.standard_normal(640), np.zeros(640), np.full(640, 0.5)])
    law = theory.law_from_samples(rows + [2.0, 0, 0], rows, 0.5)
    nodes = theory.law_from_nodes(rows[:50] + [1.0, 0, 0], rows[:50], 0.5)
    result = theory.erm(law, 2.0, 0.1, accuracy=0.5)
    found = result.on(nodes, accuracy=0.5)
    mean = result.m_q * rows[:50, 0] + result.bias
    scale = 0.5 * math.hypot(result.m_u, result.nu)
    expected = 0.5 * np.mean(ndtr(-(mean + result.m_q) / scale)) + 0.5 * np.mean(ndtr(mean / scale))
    assert found.test_error == pytest.approx(expected, abs=1e-12)
    assert found.standard_error > 0  # what the sample of the training leaves
    with pytest.raises(ValueError, match="give the law of the test bags instead"):
        result.on(Task())


def test_margins_of_the_test_are_those_of_the_test_law(trained):
    found = trained.on(Task(length=100), bias_shift=0.3)
    at = np.linspace(-30, 30, 602)  # zero lies between two of them
    here, there = trained.margin_densities(at), found.margin_densities(at)
    np.testing.assert_array_equal(here["train"], there["train"])
    wrong = there["test"][at < 0].sum() * (at[1] - at[0])
    assert wrong == pytest.approx(found.test_error, abs=3e-3)


@pytest.mark.parametrize(
    ("law", "shift", "words"),
    [
        (theory.vectorized_law(Task()), 0.0, "law must have features of the training's dimension"),
        (attention(cosine=0.5), 0.0, "law must be seen by the training's query"),
        ("attention", 0.0, "law must be a Law or a Task, got 'attention'"),
        (attention(), math.inf, "bias_shift must be"),
        (attention(), "much", "bias_shift must be"),
    ],
)
def test_laws_with_another_geometry_are_refused(trained, law, shift, words):
    with pytest.raises(ValueError, match=words):
        trained.on(law, shift)


# Forecasts.


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled", "vectorized"])
def test_forecast_on_the_training_task_is_the_plain_one(model):
    options = {"with_capacity": False, "accuracy": 2e-3}
    plain = theory.forecast(Task(), Training(), model, **options)
    found = theory.forecast(Task(), Training(), model, **options, deployment=Deployment(task=Task()))
    assert plain.tested == {} and found.tested["length"] == 10
    rows = [{k: v for k, v in r.to_row().items() if not k.startswith(("trained_", "tested_"))} for r in (plain, found)]
    np.testing.assert_equal(*rows)


def test_a_mapping_names_what_differs():
    options = {"with_capacity": False, "accuracy": 2e-3}
    task = Task(strength=6.0)
    one = theory.forecast(task, Training(), deployment=Deployment(task={"length": 30}, sharpness=2.0), **options)
    other = theory.forecast(
        task, Training(), deployment=Deployment(task=Task(30, strength=6.0), sharpness=2.0), **options
    )
    assert one.test_error == other.test_error
    by_hand = one.result.on(theory.attention_law(Task(30, strength=6.0), one.cosine["q"], 2.0), accuracy=2e-3)
    assert one.test_error == by_hand.test_error
    assert one.sharpness == one.steps.sharpness != 2.0 == one.tested["sharpness"]


def test_grids_take_test_options():
    rows = theory.forecast_grid(
        *(Task(), Training(), ["pooled", "vectorized"]),
        over={"length": [5, 10]},
        deployment=Deployment(task={"length": 10}),
    )
    assert [row["failure"] == "" for row in rows] == [True, True, False, True]
    assert [row["tested_length"] for row in rows[:2]] == [10, 10]
    expected = theory.forecast(Task(5), Training(), "pooled", deployment=Deployment(task=Task(10))).test_error
    assert rows[0]["test_error"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("model", "task", "options", "words"),
    [
        ("vectorized", Task(), {"task": Task(20)}, "must have the training's length"),
        ("pooled", Task(), {"sharpness": 1.0}, "sharpness is for models with a query"),
        ("bayes", Task(), {"bias_shift": 1.0}, "is for trained classifiers"),
        ("attention", Task(), {"sharpness": -1.0}, "sharpness must be"),
        ("attention", Task(), {"task": 100}, "task of the deployment must be a Task or a mapping"),
        ("attention", Task(), {"task": {"tokens": 100}}, "Task has no field 'tokens'"),
        ("attention", Task(), {"bias_shift": math.nan}, "bias_shift must be"),
        ("attention", Task(length=1), {"sharpness": 1.0}, "sharpness needs a query with a direction"),
    ],
)
def test_tests_that_make_no_sense_are_refused_alike(model, task, options, words):
    with pytest.raises(ValueError, match=words):
        theory.forecast(task, Training(), model, with_capacity=False, deployment=Deployment(**options))
    if model != "bayes":
        with pytest.raises(ValueError, match=words):
            simulate(task, Training(), 20, 0, model, deployment=Deployment(**options))


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("attention", {"task": {"length": 60, "prevalence": 0.3}, "bias_shift": 1.0}),
        ("attention", {"sharpness": 3.0}),
        ("elementwise", {"task": {"length": 20}, "sharpness": 2.0}),
        ("pooled", {"task": {"length": 30, "sparsity": 4}}),
    ],
)
def test_simulation_tends_to_the_forecast(model, options):
    """Extrapolated from d = 150 and 300, at four standard errors; seeds are fixed."""
    training, trials, there = Training(ridge=1e-2), 40, {"deployment": Deployment(**options)}
    expected = theory.forecast(Task(), training, model, with_capacity=False, **there)
    found = {d: [simulate(Task(), training, d, seed, model, **there) for seed in range(trials)] for d in (150, 300)}
    for name in ("test_error", "auc", "sensitivity", "specificity"):
        mean = {d: np.mean([getattr(r, name) for r in rows]) for d, rows in found.items()}
        error = {d: np.std([getattr(r, name) for r in rows], ddof=1) / trials**0.5 for d, rows in found.items()}
        bar = math.hypot(2 * error[300], error[150])
        value = getattr(expected, name)
        assert abs(2 * mean[300] - mean[150] - value) <= 4 * bar, (name, mean, error, value)
        if name == "test_error":
            assert error[300] <= 0.04 * mean[300], f"too few trials to say anything: {mean}, {error}"


def test_bags_too_sparse_for_all_their_signals_are_refused():
    law = theory.heads_law(Task(6, 2, 3.0), queries=np.eye(2), signals=np.eye(2), carried="all")
    with pytest.raises(ValueError, match="carried 'all' needs a sparsity"):
        law.elsewhere(Task(6, 1, 3.0))


@pytest.mark.parametrize("sharpness", [None, 3.0])
@pytest.mark.parametrize("kind", ["plain", "heads", "coloured"])
def test_a_law_elsewhere_is_the_law_made_there(kind, sharpness):
    """With the trained sharpness 2 or another one."""
    spectrum = theory.Spectrum.of(np.array([2.0, 1.0, 0.5]))
    make = {
        "plain": lambda task, k: theory.attention_law(task, 0.8, k),
        "heads": lambda task, k: theory.heads_law(task, [0.8, 0.8], [k, k]),
        "coloured": lambda task, k: theory.coloured_law(task, spectrum, spectrum.query(spectrum.direction), k),
    }[kind]
    there = Task(5, 2, 2.5, prevalence=0.3)
    made, expected = make(Task(), 2.0).elsewhere(there, sharpness), make(there, sharpness or 2.0)
    assert made.task == there and made.sharpness == pytest.approx(expected.sharpness)
    draws = (law.at(64) if kind == "heads" else law.at(64)[1].leaves() for law in (made, expected))
    for found, other in zip(*draws):
        np.testing.assert_allclose(found, other, rtol=1e-9, atol=1e-12)
