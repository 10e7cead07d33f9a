from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsetoken import Exponential, Focal, Logistic, Loss, SmoothedHinge, Square, Weighted
from sparsetoken._core.arrays import sigmoid, softplus
from sparsetoken.activations import ACTIVATIONS, Threshold, get_activation, softmax, token_weights
from sparsetoken.losses import LOSSES, convex_loss, get_loss, loss_name, register_loss

EVERY = [*LOSSES.values(), Weighted("logistic", 9.0), Weighted("exponential", 0.3)]
ALSO_FOCAL = [*EVERY, Focal(2.0), Focal(0.5), Weighted(Focal(1.0), 4.0)]
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


class Unrelated:
    """The methods of a loss, without the base class."""

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


@pytest.mark.parametrize("loss", ALSO_FOCAL, ids=lambda loss: loss.name)
def test_derivatives_by_finite_differences(loss):
    z, y = away_from_kinks()
    step = 1e-5
    slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * step)
    curvature = (loss.slope(z + step, y) - loss.slope(z - step, y)) / (2 * step)
    np.testing.assert_allclose(loss.slope(z, y), slope, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(z, y), curvature, atol=1e-9)


@pytest.mark.parametrize("loss", ALSO_FOCAL, ids=lambda loss: loss.name)
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


@pytest.mark.parametrize("loss", [*EVERY, Unadorned()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_prox_solves_its_equation(loss, y):
    h, step = np.meshgrid(OUTPUTS, STEPS)
    r = loss.prox(h, step, y)
    # A rounding error of r moves step l'(r) by step l'' eps |r|: no solver can do better than that.
    reachable = 1e-12 + 8e-16 * step * loss.curvature(r, y)
    assert np.all(residual(loss, r, h, step, y) <= reachable)


@given(
    st.sampled_from(EVERY),
    st.lists(st.floats(-300, 300), min_size=2, max_size=2),
    st.floats(-6, 8),
    st.sampled_from([-1.0, 1.0]),
)
def test_prox_draws_together_and_lowers_the_loss(loss, fields, log_step, y):
    """Firmly non-expansive, as of every convex loss, and never a step in the wrong direction."""
    h = np.sort(np.array(fields))
    r = loss.prox(h, 10.0**log_step, y)
    slack = 1e-9 * (1.0 + np.abs(h).max() + np.abs(r).max())
    assert -slack <= r[1] - r[0] <= h[1] - h[0] + slack
    assert np.all(loss.value(r, y) <= loss.value(h, y) * (1 + 1e-9) + slack)


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


class Halved(Logistic):
    """A logistic loss with a value and slope of its own."""

    def value(self, z, y):
        return 0.5 * super().value(z, y)

    def slope(self, z, y):
        return 0.5 * super().slope(z, y)


@pytest.mark.parametrize("loss", [*EVERY, Unadorned(), Halved()], ids=lambda loss: type(loss).__name__)
def test_value_and_slope_together_are_those_by_themselves(loss):
    """One label per row, several outputs in it; margins from -700 to 700."""
    z = np.append(OUTPUTS, [-700.0, 0.0, 700.0])[:, None] * np.array([1.0, -0.5])
    y = np.where(np.arange(len(z)) % 2, 1.0, -1.0)[:, None]
    every = np.broadcast_to(y, z.shape)
    value, slope = loss.value_and_slope(z, y)
    np.testing.assert_allclose(value, loss.value(z, every), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(slope, loss.slope(z, every), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("loss", ALSO_FOCAL, ids=lambda loss: loss.name)
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
    for bad in ("nope", 3, None, Logistic, object(), Unrelated()):
        with pytest.raises(ValueError, match="loss must be one of logistic, square, smoothed_hinge"):
            get_loss(bad)
    with pytest.raises(ValueError, match="plain data"):
        loss_name(Unadorned())
    assert loss_name(Logistic()) == "logistic"


def test_exponential_prox_is_lamberts_w():
    """g exp(g) = step exp(-a), against SciPy's own function, far beyond where exp overflows."""
    from scipy.special import wrightomega

    h, step = np.meshgrid(np.array([-1e6, -700.0, -30.0, -1.0, 0.0, 2.0, 30.0, 700.0]), STEPS[1:])
    for y in (-1.0, 1.0):
        gap = wrightomega(np.log(step) - y * h)
        np.testing.assert_allclose(y * (Exponential().prox(h, step, y) - h), gap, rtol=1e-12, atol=1e-9)
        np.testing.assert_array_equal(Exponential().prox(h, 0.0 * step, y), h)


def test_weights_multiply_the_loss_of_positives_only():
    z, y = away_from_kinks()
    for inner in (Logistic(), Exponential(), Square()):
        loss, factor = Weighted(inner, 9.0), np.where(y > 0, 9.0, 1.0)
        for method in ("value", "slope", "curvature"):
            np.testing.assert_allclose(getattr(loss, method)(z, y), factor * getattr(inner, method)(z, y), rtol=1e-15)
        assert loss.prox(-1.0, 1.0, 1.0) > inner.prox(-1.0, 1.0, 1.0) + 0.1
        assert loss.prox(1.0, 1.0, -1.0) == inner.prox(1.0, 1.0, -1.0)


def test_focal_loss_is_the_logistic_one_times_the_share_of_doubt():
    margins = np.linspace(-9.0, 9.0, 181)
    p = 1.0 / (1.0 + np.exp(-margins))
    np.testing.assert_allclose(Focal(1.5).value(margins, 1.0), -((1 - p) ** 1.5) * np.log(p), rtol=1e-9)
    np.testing.assert_allclose(Focal(1e-9).slope(margins, 1.0), Logistic().slope(margins, 1.0), rtol=1e-7)
    # Convex at and beyond the margins of bags that are right, and not where they are badly wrong.
    assert (Focal(2.0).curvature(margins[margins >= 0], 1.0) > 0).all()
    assert (Focal(2.0).curvature(margins[margins < -3.5], 1.0) < 0).all()


def test_names_carry_numbers():
    assert get_loss("logistic:positives=9") == Weighted(Logistic(), 9.0)
    assert get_loss("focal") == Focal(2.0) and get_loss("focal:0.5:positives=3") == Weighted(Focal(0.5), 3.0)
    assert get_loss("square:positives=1") == Square() and get_loss(Weighted("square", 1.0)) == Square()
    assert Weighted(Weighted("exponential", 2.0), 3.0).name == "exponential:positives=6"
    for loss in (Weighted("logistic", 1 / 3), Focal(0.7), Weighted(Focal(2), 1e-7), Exponential()):
        assert get_loss(loss_name(loss)) == loss
    for bad in ("logistic:positives=0", "logistic:positives=", "square:positives=nan", "focal:positives=-1"):
        with pytest.raises(ValueError, match=r"positives in loss .* must be a finite number above 0"):
            get_loss(bad)
    with pytest.raises(ValueError, match="gamma in loss 'focal:x' must be a finite number above 0"):
        get_loss("focal:x")
    with pytest.raises(ValueError, match="positive_weight must be"):
        Weighted("logistic", -1.0)
    with pytest.raises(ValueError, match="gamma of the focal loss must be"):
        Focal(0.0)
    with pytest.raises(ValueError, match="loss must be one of"):
        get_loss("square:2")


def test_what_minimises_refuses_a_loss_that_is_not_convex():
    from sparsetoken import Training
    from sparsetoken.solvers.erm import fit_erm

    assert Training(loss="focal:2", schedule="joint").loss == "focal:2"
    x, y = np.random.default_rng(0).standard_normal((20, 3)), np.tile([1.0, -1.0], 10)
    for attempt in (
        lambda: convex_loss("focal:positives=2"),
        lambda: Training(loss="focal"),
        lambda: fit_erm(x, y, 0.1, "focal"),
    ):
        with pytest.raises(ValueError, match="loss must be convex where a readout is minimised, got 'focal:2"):
            attempt()


class Saturated(Unadorned):
    """Bounded, hence not convex."""

    name = "saturated"

    def value(self, z, y):
        return sigmoid(-y * z)

    def slope(self, z, y):
        return -y * sigmoid(-y * z) * sigmoid(y * z)

    def curvature(self, z, y):
        return sigmoid(-y * z) * sigmoid(y * z) * (sigmoid(y * z) - sigmoid(-y * z))


def test_own_losses_say_that_they_are_not_convex():
    loss = Saturated()
    with pytest.raises(ValueError, match="must be convex, or have convex = False"):
        register_loss(loss)
    loss.convex = False
    try:
        register_loss(loss)
        assert get_loss("saturated:positives=2").convex is False
    finally:
        del LOSSES["saturated"]


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
