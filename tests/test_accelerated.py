"""The JAX path of a trial: the same tests run on a CPU and, where JAX has one, on a GPU."""

import jax
import numpy as np
import pytest

from sparsetoken import Task, Training
from sparsetoken.accelerated import fit_readout
from sparsetoken.models.erm import fit_erm
from sparsetoken.simulation import simulate
from sparsetoken.theory.precision import double_precision

DEVICE = "gpu" if any(d.platform == "gpu" for d in jax.devices()) else "cpu"


@pytest.mark.parametrize("loss", ["logistic", "square", "smoothed_hinge"])
@pytest.mark.parametrize(("n", "d", "ridge"), [(300, 60, 1e-3), (80, 150, 1e-2)])
def test_readout_is_the_minimiser(loss, n, d, ridge):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.4, 1.0, -1.0)
    x[:, 0] += y
    with double_precision():
        placed = jax.device_put(x, jax.devices(DEVICE)[0])
    found, reference = fit_readout(placed, y, ridge, loss, 1e-7), fit_erm(x, y, ridge, loss, tolerance=1e-9)
    assert found.stopped in ("gradient", "precision")
    np.testing.assert_allclose(found.coef, reference.coef, atol=2e-5 * np.linalg.norm(reference.coef))
    assert found.bias == pytest.approx(reference.bias, abs=2e-5 * (1 + abs(reference.bias)))


@pytest.mark.parametrize("model", ["attention", "pooled", "elementwise"])
def test_trials_have_the_same_law(model):
    """Means over 12 trials of either path within 4.5 standard errors (nine comparisons: false alarm below 1e-4)."""
    task, training = Task(), Training(ridge=1e-2)
    for name in ("test_error", "train_loss", "norm_w"):
        values = {
            device: [getattr(simulate(task, training, 100, seed, model, device=device), name) for seed in range(12)]
            for device in ("numpy", DEVICE)
        }
        a, b = (np.array(v) for v in values.values())
        assert not np.array_equal(a, b)
        assert abs(a.mean() - b.mean()) <= 4.5 * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 12), name


def test_device_is_checked_and_auto_needs_none():
    with pytest.raises(ValueError, match="device must be"):
        simulate(Task(), Training(), 50, 0, device="tpu")
    with pytest.raises(ValueError, match="other than vectorized"):
        simulate(Task(), Training(), 50, 0, "vectorized", device="cpu")
    if DEVICE == "cpu":
        assert simulate(Task(), Training(), 50, 0, device="auto") == simulate(Task(), Training(), 50, 0)
