from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from sparsetoken import Logistic, Loss, SmoothedHinge, Square
from sparsetoken._core.arrays import sigmoid, softplus
from sparsetoken.activations import ACTIVATIONS, Threshold, get_activation, softmax, token_weights
from sparsetoken.losses import LOSSES, get_loss, loss_name

EVERY = list(LOSSES.values())
# Steps and outputs of the separable regime included: V kappa^2 up to 1e8, outputs of hundreds.
STEPS = np.array([0.0, 1e-8, 1e-3, 0.5, 1.0, 7.0, 1e3, 1e5, 1e8])
OUTPUTS = np.array([-700.0, -40.0, -3.0, -1.0, -0.2, 0.0, 1e-9, 0.4, 1.0, 2.5, 30.0, 600.0])


class Unadorned(Loss):
    """The logistic loss as a user would write it: value, slope, curvature only."""

    name = "unadorned"

    def value(self, z, y):
        return softplus(-y * z)

    def slope(self, z, y):
        return -y * sigmoid(-y * z)

    def curvature(self, z, y):
        return sigmoid(-y * z) * sigmoid(y * z)


class Duck:
    """No base class at all."""

    def value(self, z, y):
        return 0.5 * (z - y) ** 2

    def slope(self, z, y):
        return z - y

    def curvature(self, z, y):
        return np.ones_like(z)


def away_from_kinks(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.uniform(-8, 8, count)
    z = z[(np.abs(np.abs(z) - 1) > 1e-3) & (np.abs(z) > 1e-3)]
    return z, np.where(rng.random(len(z)) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: loss.name)
def test_derivatives_by_finite_differences(loss):
    z, y = away_from_kinks()
    step = 1e-5
    slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * step)
    curvature = (loss.slope(z + step, y) - loss.slope(z - step, y)) / (2 * step)
    np.testing.assert_allclose(loss.slope(z, y), slope, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(z, y), curvature, atol=1e-9)


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: loss.name)
def test_losses_stay_finite_far_out(loss):
    z = np.array([-1e6, -800.0, 800.0, 1e6])
    for y in (-1.0, 1.0):
        assert np.all(np.isfinite([loss.value(z, y), loss.slope(z, y), loss.curvature(z, y)]))


def test_smoothed_hinge_values():
    margins = np.array([-2.0, 0.0, 0.5, 1.0, 3.0])
    expected = [2.5, 0.5, 0.125, 0.0, 0.0]
    np.testing.assert_allclose(SmoothedHinge().value(margins, 1.0), expected)
    np.testing.assert_allclose(SmoothedHinge().value(-margins, -1.0), expected)


def residual(loss, r, h, step, y):
    """Of r + step l'(r) = h, against the size of its terms."""
    pull = step * loss.slope(r, y)
    return np.abs(r + pull - h) / (1.0 + np.abs(r) + np.abs(h) + np.abs(pull))


@pytest.mark.parametrize("loss", [*EVERY, Unadorned(), get_loss(Duck())], ids=lambda loss: loss.name)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_prox_solves_its_equation(loss, y):
    h, step = np.meshgrid(OUTPUTS, STEPS)
    r = loss.prox(h, step, y)
    # A rounding error of r moves step l'(r) by step l'' eps |r|: no solver can do better than that.
    reachable = 1e-12 + 8e-16 * step * loss.curvature(r, y)
    assert np.all(residual(loss, r, h, step, y) <= reachable)


def test_generic_prox_agrees_with_the_closed_ones():
    h, step = np.meshgrid(OUTPUTS, STEPS)
    for loss in EVERY:
        generic = Loss.prox(loss, h, step, 1.0)
        np.testing.assert_allclose(generic, loss.prox(h, step, 1.0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", [*EVERY, Unadorned()], ids=lambda loss: loss.name)
def test_jax_and_numpy_agree(loss):
    import jax
    import jax.numpy as jnp

    z, y = away_from_kinks(50)
    h, step = np.meshgrid(OUTPUTS, STEPS)
    with jax.enable_x64(True):
        for method in (loss.value, loss.slope, loss.curvature):
            found = method(jnp.asarray(z), jnp.asarray(y))
            assert isinstance(found, jax.Array)
            np.testing.assert_allclose(found, method(z, y), rtol=1e-13, atol=1e-15)
        found = jax.jit(loss.prox)(jnp.asarray(h), jnp.asarray(step), 1.0)
        # The JAX version of the logistic prox takes fewer steps: a part in 10^6 at worst.
        np.testing.assert_allclose(found, loss.prox(h, step, 1.0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: loss.name)
def test_automatic_derivatives_of_the_value(loss):
    """Also at 0, where training starts."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        z = jnp.array([-300.0, -2.0, -0.5, 0.0, 0.5, 2.0, 300.0])
        for y in (-1.0, 1.0):
            found = jax.vmap(jax.grad(lambda x: loss.value(x, y)))(z)  # noqa: B023
            np.testing.assert_allclose(found, loss.slope(z, y), rtol=1e-12)


def test_get_loss():
    assert get_loss("square") == Square()
    own = Unadorned()
    assert get_loss(own) is own
    assert get_loss(Duck()).name == "Duck"
    for bad in ("nope", 3, None, Logistic, object()):
        with pytest.raises(ValueError, match="loss must be one of logistic, square, smoothed_hinge"):
            get_loss(bad)
    with pytest.raises(ValueError, match="plain data"):
        loss_name(Duck())
    assert loss_name(Logistic()) == "logistic"


def test_activations_on_both_kinds_of_array():
    import jax
    import jax.numpy as jnp

    x = np.array([[-900.0, -1.0, 0.0, 0.5], [2.0, 30.0, 900.0, 1.0]])
    with jax.enable_x64(True):
        for name, activation in ACTIVATIONS.items():
            value = activation(x)
            assert np.all(np.isfinite(value)), name
            np.testing.assert_allclose(activation(jnp.asarray(x)), value, rtol=1e-14)
        np.testing.assert_allclose(softmax(jnp.asarray(x)), softmax(x), rtol=1e-14)
    np.testing.assert_allclose(token_weights(x, None).sum(axis=1), 1.0)
    np.testing.assert_allclose(token_weights(x, ACTIVATIONS["relu"])[0], [0, 0, 0, 0.125])


def test_get_activation():
    assert get_activation("threshold:2.5") == Threshold(2.5)
    np.testing.assert_allclose(get_activation("threshold:2.5")(np.array([2.0, 3.0])), [0.0, 0.5])
    assert get_activation(np.cos) is np.cos
    for bad in ("nope", "relu:2", 3, None):
        with pytest.raises(ValueError, match="activation must be one of"):
            get_activation(bad)
    for bad in ("threshold:x", "threshold:nan"):
        with pytest.raises(ValueError, match="level"):
            get_activation(bad)


def test_importing_is_light_and_changes_nothing():
    look = "(list(warnings.filters), dict(os.environ), np.random.get_state()[1].tolist(), np.geterr())\n"
    code = (
        "import warnings, sys, os, numpy as np\n"
        f"before = {look}"
        "import sparsetoken, sparsetoken.task, sparsetoken.losses\n"
        f"assert before == {look}"
        "import scipy.stats, scipy.linalg, typer  # these set warning filters of their own\n"
        f"before = {look}"
        "import sparsetoken.simulation, sparsetoken.cli\n"
        f"assert before == {look}"
        "assert not {'jax', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
