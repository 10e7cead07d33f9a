"""Work on a JAX device: the same tests run on JAX's CPU and, where JAX has one, on a GPU."""

import subprocess
import sys

import jax
import numpy as np
import pytest

from sparsetoken import Bags, Task, Training
from sparsetoken._core import devices
from sparsetoken._core.arrays import is_jax_array
from sparsetoken._core.devices import double_precision
from sparsetoken.bags.sums_per_bag import bag_extremes, bag_mean, bag_softmax, bag_sum, over_tokens, weighted_bag_sum
from sparsetoken.estimators import (
    AttentionClassifier,
    BagClassifier,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)
from sparsetoken.simulation.samplers.reduced import key_of
from sparsetoken.simulation.seeds import trial_seeds
from sparsetoken.simulation.simulate import simulate
from sparsetoken.solvers.erm import fit_erm

DEVICE = "gpu" if any(d.platform == "gpu" for d in jax.devices()) else "cpu"


@pytest.mark.parametrize("loss", ["logistic", "square", pytest.param("smoothed_hinge", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("n", "d", "ridge", "shift"), [(300, 60, 1e-3, 0.0), (80, 150, 1e-2, 0.0), (300, 60, 1e-5, 50.0)]
)
def test_readout_is_the_same_minimiser(loss, n, d, ridge, shift):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, d)) + shift, np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x[:, 0] += y
    weights = rng.integers(0, 3, n).astype(float)
    found = fit_erm(x, y, ridge, loss, weights, tolerance=1e-9, device=DEVICE)
    reference = fit_erm(x, y, ridge, loss, weights, tolerance=1e-9, device="numpy")
    assert found.stopped in ("gradient", "precision")
    assert isinstance(found.coef, np.ndarray)
    np.testing.assert_allclose(found.coef, reference.coef, atol=1e-7 * np.linalg.norm(reference.coef))
    assert found.bias == pytest.approx(reference.bias, abs=1e-6 * (1 + abs(reference.bias)))


def test_readout_of_dependent_features_in_single_precision():
    """n < d with repeated samples: the Gram matrix has no Cholesky factor, and both paths fall back to QR."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40, 90)).astype(np.float32)
    x, y = np.concatenate([x, x]), np.where(np.arange(80) % 40 < 17, 1.0, -1.0)
    found, reference = (fit_erm(x, y, 1e-5, tolerance=1e-8, device=where) for where in (DEVICE, "numpy"))
    np.testing.assert_allclose(found.coef, reference.coef, atol=1e-5 * np.linalg.norm(reference.coef))


def test_jax_arrays_stay_where_they_are():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((50, 8)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
    with devices.working_on(jax.devices(DEVICE)[0]):
        placed = jax.device_put(x, jax.devices(DEVICE)[0])
    np.testing.assert_allclose(fit_erm(placed, y, 0.1).coef, fit_erm(x, y, 0.1).coef, rtol=1e-6)
    with pytest.raises(ValueError, match="on a device already"):
        fit_erm(placed, y, 0.1, device="numpy")


def test_segments_agree():
    rng = np.random.default_rng(3)
    lengths = np.array([1, 4, 2, 7, 1])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    values, tokens = 300 * rng.standard_normal(15), rng.standard_normal((15, 3))
    with devices.working_on(jax.devices(DEVICE)[0]):
        v, t = jax.numpy.asarray(values), jax.numpy.asarray(tokens)
        for of_tokens in (bag_sum, bag_mean):
            np.testing.assert_allclose(of_tokens(t, starts), of_tokens(tokens, starts), rtol=1e-12)
        for mine, reference in zip(bag_softmax(v, starts), bag_softmax(values, starts)):
            np.testing.assert_allclose(mine, reference, rtol=1e-12)
        np.testing.assert_allclose(weighted_bag_sum(v, t, starts), weighted_bag_sum(values, tokens, starts), rtol=1e-12)
        np.testing.assert_array_equal(bag_extremes(t, starts), bag_extremes(tokens, starts))
        np.testing.assert_array_equal(over_tokens(jax.numpy.arange(5), starts, 15), np.repeat(np.arange(5), lengths))


def _bags(equal: bool, n: int = 160, d: int = 12):
    rng = np.random.default_rng(4)
    labels = np.where(rng.random(n) < 0.5, "sick", "fine")
    bags = [rng.standard_normal((6 if equal else rng.integers(2, 9), d)) for _ in range(n)]
    for bag, label in zip(bags, labels):
        bag[0, :3] += 2.5 * (label == "sick")
    return Bags(bags), labels


ESTIMATORS = [
    (PooledClassifier, {}),
    (VectorizedClassifier, {"ridge": 0.01}),
    (ElementwiseAttentionClassifier, {"split": 0.5, "ridge": 0.1, "class_weight": "balanced"}),
    (AttentionClassifier, {"split": "reuse"}),
    (BagClassifier, {"lift": 20}),
    (MessagePassingClassifier, {}),
    (MessagePassingClassifier, {"sparsity": 2, "strength": 4.0}),
]


@pytest.mark.parametrize(("kind", "settings"), ESTIMATORS, ids=lambda v: v.__name__ if isinstance(v, type) else str(v))
def test_estimators_give_the_same_results(kind, settings):
    """Log odds within 1e-3 of their own size: the readouts' tolerance (1e-4 while choosing ridges), not the device's."""
    # Message passing by default tries several numbers of signal tokens on every fold, and JAX compiles for each fold's number
    # of tokens: bags of one length keep that to a few programs. Bags that differ in length are in the other cases.
    bags, labels = _bags(equal=kind is VectorizedClassifier or (kind is MessagePassingClassifier and not settings))
    train, test = bags[:120], bags[120:]
    here = kind(device="numpy", **settings).fit(train, labels[:120])
    there = kind(device=DEVICE, **settings).fit(train, labels[:120])
    expected, found = here.decision_function(test), there.decision_function(test)
    assert np.max(np.abs(found - expected)) <= 1e-3 * np.max(np.abs(expected))
    assert not [name for name, value in vars(there).items() if is_jax_array(value)]
    np.testing.assert_array_equal(here.predict(test), there.predict(test))
    there.device = "numpy"  # what was fitted there predicts here
    np.testing.assert_allclose(there.decision_function(test), found, rtol=1e-6, atol=1e-6 * np.max(np.abs(found)))


def test_large_bag_features_are_fitted_where_they_are(monkeypatch):
    """With nothing too small for a device, the readout of an estimator and its folds run there as well."""
    monkeypatch.setattr(devices, "WORTH_MOVING", 0)
    bags, labels = _bags(equal=True)
    here, there = (VectorizedClassifier(device=where).fit(bags, labels) for where in ("numpy", DEVICE))
    assert here.ridge_ == there.ridge_
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-5 * np.linalg.norm(here.coef_))
    np.testing.assert_allclose(there.calibration_.slope, here.calibration_.slope, rtol=1e-3)


def test_a_fit_repeats_itself():
    """The same bags give the same numbers again, to the last bit."""
    bags, labels = _bags(equal=False)
    train, known = bags[:120], labels[:120]  # as above, for which everything is compiled
    first, second = (BagClassifier(lift=20, device=DEVICE).fit(train, known) for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(bags), second.decision_function(bags))


def test_seeds_of_any_size():
    """Seeds as `trial_seeds` gives them take 64 bits, one more than JAX does; larger ones are allowed as well."""
    seeds = [5, 2**63 + 5, 2**64 + 5, 3 * 2**63 + 5, 2**200, *trial_seeds(0, 4)]
    assert any(seed >= 2**63 for seed in trial_seeds(0, 4))
    with double_precision():
        keys = {tuple(jax.random.key_data(key_of(seed)).tolist()) for seed in seeds}
        assert np.array_equal(jax.random.key_data(key_of(5)), jax.random.key_data(jax.random.key(5)))
    assert len(keys) == len(seeds)
    errors = [
        simulate(Task(), Training(), 30, seed, sampler=f"reduced:{DEVICE}").test_error
        for seed in (2**63 + 5, 2**63 + 6)
    ]
    assert errors[0] != errors[1]


@pytest.mark.parametrize("model", ["attention", "pooled", "elementwise"])
def test_trials_have_the_same_law(model):
    """Means over 12 trials of either path within 4.5 standard errors (nine comparisons: false alarm below 1e-4)."""
    task, training = Task(), Training(ridge=1e-2)
    trials = [
        [simulate(task, training, 100, seed, model, sampler=sampler) for seed in trial_seeds(0, 12)]
        for sampler in ("reduced", f"reduced:{DEVICE}")
    ]
    for name in ("test_error", "train_loss", "norm_w"):
        a, b = (np.array([getattr(trial, name) for trial in some]) for some in trials)
        assert not np.array_equal(a, b)
        assert abs(a.mean() - b.mean()) <= 4.5 * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 12), name


def test_device_is_checked_and_auto_needs_none():
    with pytest.raises(ValueError, match="device must be"):
        simulate(Task(), Training(), 50, 0, sampler="reduced:tpu")
    with pytest.raises(ValueError, match="other than vectorized"):
        simulate(Task(), Training(), 50, 0, "vectorized", sampler="reduced:cpu")
    bags, labels = _bags(equal=False, n=20)
    with pytest.raises(ValueError, match="device must be numpy, auto, cpu or gpu, got 'cuda:0'"):
        PooledClassifier(device="cuda:0").fit(bags, labels)
    if DEVICE == "cpu":
        assert simulate(Task(), Training(), 50, 0, sampler="reduced:auto") == simulate(Task(), Training(), 50, 0)
        with pytest.raises(ValueError, match="device must be auto or one of cpu here, got 'gpu'"):
            PooledClassifier(device="gpu").fit(bags, labels)


class _SmallDevice:
    platform = "gpu"

    def memory_stats(self):
        return {"bytes_limit": 10**6}


def test_what_does_not_fit_stays_or_is_refused(monkeypatch):
    """An accelerator of 1 MB: "auto" leaves large tokens in memory, "gpu" says in one sentence why it cannot."""
    monkeypatch.setattr(devices, "accelerator_possible", lambda: True)
    monkeypatch.setattr(devices, "pick_device", lambda device: _SmallDevice())
    many = np.broadcast_to(np.float32(0), (2**20, 64))
    assert devices.device_for("auto", many) is None
    assert devices.device_for("auto", many[:100]) is None
    assert devices.device_for("gpu", many[:100]) is not None
    with pytest.raises(ValueError, match=r"has 0\.0 GB, and work on these 0\.3 GB takes about 1\.3: use"):
        devices.device_for("gpu", many)
    # One bag of 2,000 tokens among 1,999 of one: the lists of rows would take 128 MB.
    uneven = Bags(np.zeros((3999, 1)), ids=np.append(np.arange(1999), np.full(2000, 1999)))
    with pytest.raises(ValueError, match=r"takes about 0\.1: use"):
        uneven.device("gpu")
    # Few features, many tokens: the kernels' features weigh more than the tokens.
    narrow = Bags(np.zeros((2000, 2, 1)))
    narrow.device("gpu")
    with pytest.raises(ValueError, match="use device='numpy'"):
        BagClassifier(device="gpu").fit(narrow, np.arange(2000) % 2)


def test_without_an_accelerator_estimators_do_not_import_jax():
    code = (
        "import sys, numpy as np; from sparsetoken._core import devices; from sparsetoken.estimators import PooledClassifier\n"
        "devices.accelerator_possible = lambda: False; devices.WORTH_MOVING = 0\n"
        "PooledClassifier(ridge=1.0).fit(np.eye(8), np.arange(8) % 2).predict(np.eye(8)); sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
