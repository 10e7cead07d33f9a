"""Test measures from (overlaps, Gram matrix, bias), against counted bags and the closed forms of the classifiers."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sparsetoken import Positions, Task
from sparsetoken._core.devices import double_precision
from sparsetoken.bag_models import BAG_MODELS, BagModel, get_bag_model
from sparsetoken.laws.bag_model_measures import (
    FreshBags,
    Split,
    TrainedDirections,
    fresh_draws,
    innovation_root,
    limiting_test_error,
    measures_on,
    split_of,
)
from sparsetoken.laws.error_measures import MEASURES
from sparsetoken.laws.law import attention_law, pooled_law
from sparsetoken.simulation.readout import readout_measures

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
        carries = np.full((count, 1, 1), True) if positive else rng.random((count, 1, 1)) < task.contamination
        H[np.arange(count)[:, None], places] += carries * task.strength * overlap
        with double_precision():
            scores.append(np.asarray(jax.jit(jax.vmap(lambda h: model(h, bias)))(H)))
    above, below = (scores[0] > 0).mean(), (scores[1] < 0).mean()
    error = task.prevalence * (1 - above) + (1 - task.prevalence) * (1 - below)
    shares = {"sensitivity": above, "specificity": below, "auc": (scores[0] > scores[1]).mean()}
    found = {name: (float(p), math.sqrt(p * (1 - p) / count)) for name, p in shares.items()}
    weights = task.prevalence * found["sensitivity"][1], (1 - task.prevalence) * found["specificity"][1]
    return found | {"test_error": (float(error), math.hypot(*weights))}


def measures(task: Task, model: BagModel, overlap, gram, bias, seed: int = 0) -> dict[str, tuple[float, float]]:
    """(value, standard error) of every measure of one classifier."""
    found = FreshBags(task, model, np.random.default_rng(seed)).measures(overlap[None], gram[None], np.array([bias]))
    return {name: (float(value[0]), float(error[0])) for name, (value, error) in found.items()}


def agree(found, expected) -> None:
    for name, (value, error) in expected.items():
        got, got_error = found[name]
        assert abs(got - value) < 4.5 * math.hypot(got_error, error) + 1e-12, (name, got, got_error, value, error)


@pytest.mark.parametrize("name", NAMES)
def test_measures_are_those_of_counted_bags(name):
    model = get_bag_model(name)
    overlap, gram = state(model.rank)
    found = measures(TASK, model, overlap, gram, -0.2)
    assert found["test_error"][1] < 1e-3
    agree(found, counted(TASK, model, overlap, gram, -0.2))


@pytest.mark.parametrize("name", ["pooled", "attention"])
def test_negative_bags_that_carry_a_signal(name):
    """A score that is Gaussian as it is, and one that is ranked."""
    model, task = get_bag_model(name), TASK.but(contamination=0.3)
    overlap, gram = state(model.rank)
    agree(measures(task, model, overlap, gram, -0.2), counted(task, model, overlap, gram, -0.2))


def first_token_counts_most(H, bias):
    return H[0, 0] * 2 + H[:, 0].mean() + bias


def test_a_model_that_minds_the_order_meets_the_tasks_positions():
    model = BagModel(first_token_counts_most, ("w",), "ordered")
    overlap, gram = state(1)
    found = {}
    for places in ((0, 1), (3, 4)):
        task = TASK.but(positions=Positions("fixed", places=places))
        found[places] = measures(task, model, overlap, gram, -1.0)
        agree(found[places], counted(task, model, overlap, gram, -1.0))
    assert found[0, 1]["sensitivity"][0] > found[3, 4]["sensitivity"][0] + 0.03


def test_attention_and_pooled_agree_with_their_closed_forms():
    overlap, gram = state(2, seed=3)
    q, w = np.sqrt(np.diag(gram))
    cosine, along = overlap[0] / q, gram[0, 1] / q
    across = (overlap[1] - cosine * along) / math.sqrt(1 - cosine**2)
    expected = readout_measures(attention_law(TASK, cosine, 2.0 * q), along, across, w, 0.3)
    found = measures(TASK, get_bag_model("attention:2"), overlap, gram, 0.3)
    assert found["test_error"][0] == pytest.approx(expected.test_error, abs=1e-3)
    assert found["auc"][0] == pytest.approx(expected.auc, abs=3e-3)
    assert found["sensitivity"][0] == pytest.approx(expected.sensitivity, abs=1e-3)

    pooled = measures(TASK, get_bag_model("pooled"), overlap[1:], gram[1:, 1:], 0.3)
    exact = readout_measures(pooled_law(TASK), overlap[1], 0.0, w, 0.3)
    for name, (value, error) in pooled.items():
        assert value == pytest.approx(getattr(exact, name), rel=1e-12)
        assert error == 0.0


def test_a_classifier_that_sees_nothing_is_at_chance():
    for name in NAMES:
        model = get_bag_model(name)
        found = measures(TASK, model, np.zeros(model.rank), np.zeros((model.rank,) * 2), 0.0)
        assert {value for value, _ in found.values()} == {0.5}, name


def product_score(H, bias):
    return (H[:, 0] * H[:, 1]).mean() + bias


def cubic_score(H, bias):
    return (H[:, 0] ** 3).mean() + bias


def clipped_score(H, bias):
    """Affine as long as no field exceeds 30."""
    return jnp.clip(H[:, 0], -30.0, 30.0).mean() + bias


def test_what_can_be_averaged_in_closed_form_is_found():
    expected = {
        "attention": Split((1,), None),
        "pooled": Split((0,), None),
        "tied:2": Split((), 0),
        "heads:2": Split((1, 3), None),
        "gated": Split((2,), None),
        "two_layer": Split((3,), None),
        "self_attention": Split((2, 3), None),
        "thresholded": Split((1,), None),
    }
    assert {name.partition(":")[0] for name in expected} == set(BAG_MODELS) | {"heads"}
    for name, split in expected.items():
        assert split_of(get_bag_model(name), 4) == split, name
    assert split_of(BagModel(product_score, ("t", "w")), 4) == Split((1,), None)
    assert split_of(BagModel(cubic_score, ("w",)), 4).counted
    assert split_of(BagModel(clipped_score, ("w",)), 4).counted


@pytest.mark.parametrize("name", ["attention", "tied:2"])
def test_counted_signs_agree_with_averaged_ones(name):
    model, count = get_bag_model(name), Split((), None)
    overlap, gram = state(model.rank)
    rng = np.random.default_rng(4)
    state_of_one = (overlap[None], gram[None], np.array([-0.2]))
    rows = [
        measures_on(fresh_draws(rng, TASK, model.rank, count), TASK, model, *state_of_one, count)[0] for _ in range(8)
    ]
    expected = zip(np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / math.sqrt(8), strict=True)
    agree(measures(TASK, model, overlap, gram, -0.2), dict(zip(MEASURES, expected, strict=True)))


@pytest.mark.parametrize("name", ["attention", "tied:2"])
def test_derivatives_of_the_test_error(name):
    """With averaged signs the value itself is smooth; with counted ones the derivative is that of a rounded sign."""
    model = get_bag_model(name)
    overlap, gram = state(model.rank)
    split = split_of(model, TASK.length)
    draws = fresh_draws(np.random.default_rng(2), TASK, model.rank, split)
    direction = np.random.default_rng(3).standard_normal(model.rank)

    @jax.jit
    def error(step):
        at = TrainedDirections(
            overlap + step * direction, gram * (1 + step), -0.2 + step, TASK.strength, TASK.prevalence
        )
        return limiting_test_error(lambda H, bias: model.score(H, bias, 1.0 + step), split, at, draws)

    with double_precision():
        slope = float(jax.jit(jax.grad(error))(0.0))
        assert slope == pytest.approx((float(error(1e-4)) - float(error(-1e-4))) / 2e-4, rel=1e-5)


def test_long_bags_take_bounded_memory():
    split = split_of(get_bag_model("attention"), 3000)
    draws = fresh_draws(np.random.default_rng(0), Task(3000), 2, split)
    (draws,) = draws
    assert draws.normals.shape == (2, 1, 3000, 256)
    assert draws.places.sum(axis=0) == pytest.approx(np.ones(256))


def test_root_of_dependent_directions():
    rng = np.random.default_rng(6)
    theta = rng.standard_normal((6, 5))
    theta[:, 2] = 2 * theta[:, 0]  # a parallel direction
    theta[:, 3] *= 1e-6
    theta[:, 4] = 0.0
    gram = theta.T @ theta
    with double_precision():
        root, kept = innovation_root(jnp.asarray(gram), jnp.diag(jnp.asarray(gram)))
    assert np.asarray(root) @ np.asarray(root).T == pytest.approx(gram, rel=1e-9, abs=1e-18)
    assert np.asarray(kept).tolist() == [True, True, False, True, False]
