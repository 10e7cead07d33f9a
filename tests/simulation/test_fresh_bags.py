"""Test measures from (overlaps, Gram matrix, bias), against counted bags and the closed forms of the classifiers."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from sparsetoken import Positions, Task
from sparsetoken._core.precision import double_precision
from sparsetoken.bag_models import BAG_MODELS, BagModel, get_bag_model
from sparsetoken.simulation.fresh_bags import AFFINE_COLUMNS, FreshBags, conditional_law
from sparsetoken.simulation.measures import attention_measures, pooled_measures

TASK = Task(length=5, sparsity=2, strength=2.5, prevalence=0.3)
NAMES = (*BAG_MODELS, "heads:2")


def state(rank: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Overlaps and the Gram matrix of `rank` directions in eight dimensions, xi the first axis."""
    theta = np.random.default_rng(seed).standard_normal((8, rank)) * 0.6
    theta[0] = np.abs(theta[0])
    return theta[0], theta.T @ theta


def counted(task: Task, model: BagModel, overlap, gram, bias, count: int = 200_000) -> dict[str, tuple[float, float]]:
    """The measures counted on explicit bags, straight from the definition: fields are tokens times directions."""
    rng = np.random.default_rng(99)
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    places = np.argsort(rng.random((count, task.length)), axis=1)[:, : task.sparsity]
    if task.positions.places is not None:
        places[:] = task.positions.places
    scores = []
    for positive in (True, False):
        H = rng.standard_normal((count, task.length, len(gram))) @ root.T
        if positive:
            H[np.arange(count)[:, None], places] += task.strength * overlap
        with double_precision():
            scores.append(np.asarray(jax.jit(jax.vmap(lambda h: model(h, bias)))(H)))
    above, below = (scores[0] > 0).mean(), (scores[1] < 0).mean()
    error = task.prevalence * (1 - above) + (1 - task.prevalence) * (1 - below)
    shares = {"sensitivity": above, "specificity": below, "auc": (scores[0] > scores[1]).mean()}
    found = {name: (float(p), math.sqrt(p * (1 - p) / count)) for name, p in shares.items()}
    weights = task.prevalence * found["sensitivity"][1], (1 - task.prevalence) * found["specificity"][1]
    return found | {"test_error": (float(error), math.hypot(*weights))}


def agree(found, expected) -> None:
    for name, (value, error) in expected.items():
        got = found[name]
        assert abs(got.value - value) < 4.5 * math.hypot(got.error, error) + 1e-12, (name, got, value, error)


@pytest.mark.parametrize("name", NAMES)
def test_measures_are_those_of_counted_bags(name):
    model = get_bag_model(name)
    overlap, gram = state(model.rank)
    found = FreshBags(TASK, model, np.random.default_rng(0)).measures(overlap, gram, -0.2)
    assert found["test_error"].error < 1e-3
    agree(found, counted(TASK, model, overlap, gram, -0.2))


def first_token_counts_most(H, bias):
    return H[0, 0] * 2 + H[:, 0].mean() + bias


def test_a_model_that_minds_the_order_meets_the_tasks_positions():
    model = BagModel(first_token_counts_most, ("w",), "ordered")
    overlap, gram = state(1)
    found = {}
    for places in ((0, 1), (3, 4)):
        task = TASK.but(positions=Positions("fixed", places=places))
        found[places] = FreshBags(task, model, np.random.default_rng(0)).measures(overlap, gram, -1.0)
        agree(found[places], counted(task, model, overlap, gram, -1.0))
    assert found[0, 1]["sensitivity"].value > found[3, 4]["sensitivity"].value + 0.03


def test_attention_and_pooled_agree_with_their_closed_forms():
    overlap, gram = state(2, seed=3)
    q, w = np.sqrt(np.diag(gram))
    cosine, along = overlap[0] / q, gram[0, 1] / q
    across = (overlap[1] - cosine * along) / math.sqrt(1 - cosine**2)
    rng = np.random.default_rng(1)
    expected = attention_measures(TASK, cosine, 2.0 * q, along, across, w, 0.3, None, rng)
    found = FreshBags(TASK, get_bag_model("attention:2"), rng).measures(overlap, gram, 0.3)
    assert found["test_error"].value == pytest.approx(expected.test_error, abs=1e-3)
    assert found["auc"].value == pytest.approx(expected.auc, abs=3e-3)
    assert found["sensitivity"].value == pytest.approx(expected.sensitivity, abs=1e-3)

    pooled = FreshBags(TASK, get_bag_model("pooled"), rng).measures(overlap[1:], gram[1:, 1:], 0.3)
    exact = pooled_measures(TASK, overlap[1], w, 0.3)
    for name, measure in pooled.items():
        assert measure.value == pytest.approx(getattr(exact, name), rel=1e-12)
        assert measure.error == 0.0


def test_a_classifier_that_sees_nothing_is_at_chance():
    for name in NAMES:
        model = get_bag_model(name)
        zero = np.zeros(model.rank)
        found = FreshBags(TASK, model, np.random.default_rng(0)).measures(zero, np.zeros((model.rank,) * 2), 0.0)
        assert {m.value for m in found.values()} == {0.5}, name


@pytest.mark.parametrize("name", NAMES)
def test_built_in_scores_are_affine_where_said_and_ignore_the_order(name):
    model = get_bag_model(name)
    assert model.score in AFFINE_COLUMNS
    affine = np.arange(model.rank)[AFFINE_COLUMNS[model.score]]
    rng = np.random.default_rng(5)
    hessian = jax.jit(jax.hessian(lambda h: model(h, 0.1)))
    with double_precision():
        for size in (0.5, 4.0):
            H = size * rng.standard_normal((4, model.rank))
            curvature = hessian(H)
            assert np.abs(np.asarray(curvature)[:, affine][:, :, :, affine]).max(initial=0.0) < 1e-12
            assert float(model(H[::-1], 0.1)) == pytest.approx(float(model(H, 0.1)), rel=1e-12)
            if name != "tied":  # and the other columns really bend the score
                others = np.setdiff1d(np.arange(model.rank), affine)
                assert len(others) == 0 or np.abs(np.asarray(curvature)[:, others]).max() > 1e-3


def test_conditional_law_of_dependent_directions():
    rng = np.random.default_rng(6)
    theta = rng.standard_normal((6, 4))
    theta[:, 2] = 2 * theta[:, 0]  # a parallel direction among those conditioned on
    theta[:, 3] *= 1e-6
    gram = theta.T @ theta
    affine, other = np.array([1]), np.array([0, 2, 3])
    root, regression, covariance = conditional_law(gram, affine, other)
    block = gram[np.ix_(other, other)]
    assert root @ root.T == pytest.approx(block, rel=1e-9, abs=1e-18)
    assert block @ regression == pytest.approx(gram[np.ix_(other, affine)], rel=1e-9)
    basis = np.linalg.qr(theta[:, [0, 3]])[0]
    rest = theta[:, 1] - basis @ (basis.T @ theta[:, 1])
    assert covariance[0, 0] == pytest.approx(rest @ rest, rel=1e-9)
