"""The square loss in closed form against the general solver, which shares nothing with it but the equations."""

import numpy as np
import pytest

from sparsetoken import Loss, Task, theory
from sparsetoken.losses import Square, get_loss
from sparsetoken.theory.fixed_point.plain import PlainReadout
from sparsetoken.theory.fixed_point.refinement import ReadoutProblem
from sparsetoken.theory.fixed_point.square_loss import _prox_step, is_square, solve_square

SKEWED = Task(prevalence=0.2)


def law_of_one_replicate():
    population, _ = theory.attention_law(SKEWED, 0.7, 1.5).at(64)
    rows = [np.stack([c.T[0], c.S[0], c.kappa[0]], axis=1) for c in (population.positive, population.negative)]
    return theory.law_from_nodes(*rows, 0.2)


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 0.3, 20.0])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 6.0])
def test_closed_form_is_the_general_fixed_point(alpha, ridge):
    """On quadrature nodes the general solver's trapezoidal rule is exact to 1e-8 for a quadratic loss."""
    for law in (law_of_one_replicate(), theory.pooled_law(SKEWED)):
        closed = solve_square(alpha, ridge, law.at(0)[1])
        general = ReadoutProblem.solve(PlainReadout(law, alpha, ridge, "square"), 0, None)
        np.testing.assert_allclose(closed.x[0], general.x, rtol=2e-6, atol=2e-7)
        assert closed.train_loss[0] == pytest.approx(float(general.replicate_loss[0]), rel=2e-6)
        assert closed.residual[0] < 1e-9


def test_each_replicate_by_itself():
    nodes = theory.attention_law(SKEWED, 0.7, 1.5).at(64)[1]
    each = solve_square(2.0, 0.1, nodes, each=True)
    assert each.x.shape == (16, 5)
    row = type(nodes)(*(np.broadcast_to(leaf, nodes.T.shape)[3:4] for leaf in nodes.leaves()))
    np.testing.assert_allclose(solve_square(2.0, 0.1, row).x[0], each.x[3], rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.3, 0.8, 1.7, 6.0])
@pytest.mark.parametrize(
    "law", [theory.pooled_law(Task()), theory.attention_law(SKEWED, 0.7, 1.5)], ids=["pooled", "attention"]
)
def test_a_ridge_tends_to_none(law, alpha):
    """Below alpha = 1 without a ridge V is infinite and the equations are others: they must be the limit of those with."""
    free, tiny = theory.erm(law, alpha, 0.0, "square"), theory.erm(law, alpha, 1e-9, "square")
    for name in ("test_error", "norm_w", "m_q", "m_u", "nu", "bias", "train_error", "auc"):
        assert getattr(free, name) == pytest.approx(getattr(tiny, name), rel=1e-5, abs=1e-7), name
    assert free.train_loss == pytest.approx(tiny.train_loss, abs=1e-6)


@pytest.mark.parametrize("count", [1025, 1500, 2049, 4100])
def test_any_number_of_nodes(count):
    """The answer is that of the same law with every node three times."""
    rng = np.random.default_rng(count)
    rows = [rng.uniform(0.2, 1.0, (count, 3)) + [shift, 0.0, 0.0] for shift in (1.0, 0.0)]
    found = theory.erm(theory.law_from_nodes(*rows, 0.3), 2.0, 0.1, "square")
    twice = theory.erm(theory.law_from_nodes(*(np.tile(r, (3, 1)) for r in rows), 0.3), 2.0, 0.1, "square")
    for name in ("test_error", "train_loss", "norm_w", "bias", "auc"):
        assert getattr(twice, name) == pytest.approx(getattr(found, name), abs=1e-5 if name == "auc" else 1e-9), name


def test_interpolation_peak():
    pooled = theory.pooled_law(Task())
    near = [theory.erm(pooled, a, 0.0, "square").test_error for a in (0.9, 0.99, 0.999)]
    assert near == sorted(near) and near[-1] > 0.48
    at = theory.erm(pooled, 1.0, 0.0, "square")
    assert at.test_error == at.auc == at.sensitivity == 0.5 and at.norm_w == np.inf
    assert at.standard_error == 0.0 and at.train_error == at.train_loss == 0.0
    drawn = theory.erm(theory.attention_law(Task(), 0.9, 1.5), 1.0, 0.0, "square")
    assert drawn.test_error == 0.5 and set(drawn.errors.values()) == {0.0}


def test_an_interpolator_makes_no_training_error():
    found = theory.erm(theory.attention_law(Task(), 0.9, 1.5), 0.5, 0.0, "square")
    assert np.inf == found.V and found.train_error == found.train_loss == found.errors["V"] == 0.0
    assert 0 < found.test_error < 0.2 and found.standard_error > 0


class NamedSquare(Loss):
    """A user's loss with the built-in one's name: the logistic loss, in fact."""

    name = "square"

    def value(self, z, y):
        return np.logaddexp(0.0, -y * z)

    def slope(self, z, y):
        return -y / (1 + np.exp(y * z))

    def curvature(self, z, y):
        return np.exp(-np.abs(z)) / (1 + np.exp(-np.abs(z))) ** 2


class Derived(Square):
    """Twice the square loss, derived from it."""

    def value(self, z, y):
        return 2 * super().value(z, y)

    def slope(self, z, y):
        return 2 * super().slope(z, y)

    def curvature(self, z, y):
        return 2 * super().curvature(z, y)

    def prox(self, h, step, y):
        return super().prox(h, 2 * step, y)


def test_only_the_built_in_square_loss_is_taken_for_it():
    assert is_square(get_loss("square")) and not is_square(NamedSquare()) and not is_square(Derived())
    pooled = theory.pooled_law(Task())
    for ridge in (0.0, 0.1):
        own, logistic = (theory.erm(pooled, 5.0, ridge, loss) for loss in (NamedSquare(), "logistic"))
        assert own.test_error == pytest.approx(logistic.test_error, rel=1e-6)
        assert own.norm_w == pytest.approx(logistic.norm_w, rel=1e-5)
    # Twice the loss at ridge 0.2 is the loss at ridge 0.1.
    twice, once = theory.erm(pooled, 5.0, 0.2, Derived()), theory.erm(pooled, 5.0, 0.1, "square")
    assert twice.norm_w == pytest.approx(once.norm_w, rel=1e-6)


def test_one_kappa_for_all_is_a_quadratic_equation():
    """The closed root for V against Newton's method on the same kappa but for rounding."""
    weight = np.full((1, 4), 0.25)
    for alpha, ridge, k2 in ((0.2, 1e-8, 0.3), (1.0, 1e-12, 1.0), (3.0, 0.0, 0.1), (0.9, 50.0, 2.0)):
        V, gap = _prox_step(alpha, ridge, np.full((1, 4), k2), weight)
        nearly, _ = _prox_step(alpha, ridge, k2 * (1.0 + np.array([[0.0, 1e-15, 0.0, 0.0]])), weight)
        assert V[0] == pytest.approx(nearly[0], rel=1e-7) and gap[0] < 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("strength", "ridge"), [(1e50, 1e-3), (5.0, 1e300)])
def test_numbers_that_lose_all_their_digits_are_refused(strength, ridge):
    """No warning, no answer of rounding errors (a norm of 1e-8 where 1e-50 is right)."""
    for law in (theory.pooled_law, theory.vectorized_law):
        with pytest.raises(theory.ConvergenceError, match="lost in rounding errors"):
            theory.erm(law(Task(1, 1, strength, 0.5)), 1.0, ridge, "square")
