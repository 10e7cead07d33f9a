"""Bag models: what the built-in scores compute, and users' models."""

import runpy

import jax
import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax

from sparsetoken._core.devices import double_precision
from sparsetoken.bag_models import BAG_MODELS, BagModel, get_bag_model
from tests.helpers import ROOT

NAMES = [*BAG_MODELS, "heads:3", "attention:2.5", "tied:2", "gated:6"]


@pytest.fixture
def fields():
    return np.random.default_rng(3).standard_normal((6, 8))


def by_hand(name, H, bias):
    """The scores written out with SciPy."""
    if name.startswith("attention"):
        s = 2.5 if ":" in name else 1.0
        return softmax(s * H[:, 0]) @ H[:, 1] + bias
    if name == "pooled":
        return H[:, 0].mean() + bias
    if name.startswith("tied"):
        s = 2.0 if ":" in name else 1.0
        return (logsumexp(s * H[:, 0]) - np.log(len(H))) / s + bias
    if name == "heads:3":
        return sum(softmax(H[:, 2 * h]) @ H[:, 2 * h + 1] for h in range(3)) + bias
    if name.startswith("gated"):
        s = 6.0 if ":" in name else 4.0
        return softmax(s * np.tanh(H[:, 0]) * expit(H[:, 1])) @ H[:, 2] + bias
    if name == "two_layer":
        k, v, q, w = H.T
        m = np.array([softmax(k[l] * k) @ v for l in range(len(k))])
        return softmax(q + m) @ (w + m) + bias
    if name == "self_attention":
        q, k, v, w = H.T
        return np.mean([w[l] + softmax(q[l] * k) @ v for l in range(len(q))]) + bias
    assert name == "thresholded"
    return (np.logaddexp(0, 2.0 * (H[:, 0] - 1.0)) / 2.0) @ H[:, 1] / len(H) + bias


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_what_they_say(name, fields):
    model = get_bag_model(name)
    H = fields[:, : model.rank]
    expected = by_hand(name, H, 0.3)
    assert float(model(H, 0.3)) == pytest.approx(expected, rel=1e-12)
    with double_precision():
        batch = jax.numpy.asarray(np.stack([H, 2 * H]))
        found = np.asarray(jax.jit(jax.vmap(model, (0, None)))(batch, 0.3))
    assert found == pytest.approx([expected, by_hand(name, 2 * H, 0.3)], rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_at_a_zero_start_are_right(name):
    """At H = 0 ties and absolute values would spoil automatic derivatives: compare with finite differences."""
    model = get_bag_model(name)
    direction = np.random.default_rng(0).standard_normal((5, model.rank))
    with double_precision():
        gradient = jax.grad(lambda H: model(H, 0.0))
        both = jax.jit(lambda H: jax.jvp(gradient, (H,), (jax.numpy.asarray(direction),)))
        slope, turn = map(np.asarray, both(jax.numpy.zeros((5, model.rank))))

        def at(size):
            return np.asarray(both(jax.numpy.asarray(size * direction))[0])

        curve = (at(1e-5) - at(-1e-5)) / 2e-5
    change = (float(model(1e-6 * direction, 0.0)) - float(model(-1e-6 * direction, 0.0))) / 2e-6
    assert (slope * direction).sum() == pytest.approx(change, abs=1e-8)
    assert turn == pytest.approx(curve, abs=1e-8)


def test_models_are_hashable_and_carry_their_sharpness():
    tied = get_bag_model("tied:2")
    assert hash(tied) == hash(get_bag_model("tied:2")) and tied == get_bag_model("tied:2") != get_bag_model("tied")
    assert tied.with_sharpness(3.0).sharpness == 3.0
    assert get_bag_model(tied) is tied
    assert get_bag_model("heads:2").directions == ("q1", "w1", "q2", "w2")
    with pytest.raises(ValueError, match="no sharpness"):
        get_bag_model("pooled").with_sharpness(2.0)


@pytest.mark.parametrize("name", ["perceptron", "heads", "heads:0", "heads:x", "pooled:2", "tied:-1", "tied:x", 3])
def test_unknown_models_are_refused(name):
    with pytest.raises(ValueError, match=r"model|sharpness"):
        get_bag_model(name)


@pytest.mark.parametrize("directions", ["qw", (), ("q", "q"), ("bias",), ("q", 1)])
def test_directions_are_checked(directions):
    with pytest.raises(ValueError, match="directions"):
        BagModel(lambda H, bias: H.sum() + bias, directions)


def test_score_must_be_a_function():
    with pytest.raises(ValueError, match="score"):
        BagModel(3.0, ("q",))


def test_two_layers_mix_whole_tokens(rng=np.random.default_rng(5)):
    """The fields' form is that of a layer that adds <mixed tokens, v> u to every token, for any u."""
    X, (k, v, q, w, u) = rng.standard_normal((6, 7)), rng.standard_normal((5, 7))
    u = u / (u @ q)  # the length of v takes the factor
    mixed = X + np.outer([softmax((x @ k) * (X @ k)) @ X @ v for x in X], u)
    z = softmax(mixed @ q) @ mixed @ w + 0.3
    model = get_bag_model("two_layer")
    assert float(model.score(X @ np.transpose([k, v, q, w]), 0.3, u @ w)) == pytest.approx(z, rel=1e-12)


def test_the_example_of_an_own_model_agrees_with_simulation(capsys):
    """Theory and simulation agree, and what it prints is what it found."""
    d = 300
    exact, measured = runpy.run_path(str(ROOT / "examples" / "own_bag_model.py"))["main"](d, 6)
    assert exact.model == measured.model == "votes" and exact.test_error[-1] < 0.3
    for name in ("test_error", "train_loss", "auc", "bias"):
        value, other = getattr(exact, name), getattr(measured, name)
        spread = np.hypot(exact.errors[name], measured.errors[name])
        assert (np.abs(value - other) < 4.5 * spread + 2 / d).all(), name
    gap = np.abs(exact.overlap["w"] - measured.overlap["w"])
    assert (gap < 4.5 * np.hypot(exact.errors["overlap"]["w"], measured.errors["overlap"]["w"]) + 2 / d).all()
    assert f"step 8: test error {exact.test_error[8]:.4f}" in capsys.readouterr().out
