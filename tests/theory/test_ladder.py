"""What learning needs: closed forms against each other, known exponents and constants, and the shapes of the results."""

import numpy as np
import pytest

from sparsetoken import Task, Training
from sparsetoken.theory import alignment, bayes_limit, ladder, recovery, strengths_by_length
from sparsetoken.theory.recovery import method_of

TASK = Task(length=256, sparsity=3, strength=6.0, prevalence=0.2)


def cosine(task, alpha, method):
    """Without the test error, which takes longer."""
    return method_of(method).squared_cosine(task, alpha) ** 0.5


def test_one_product_needs_no_fresh_bags():
    """The labelled mean and the labelled second moment are independent."""
    assert cosine(TASK, 0.5, "products:1") == pytest.approx(cosine(TASK, 0.5, "fresh_products:1"), rel=1e-12)
    assert cosine(TASK, 0.5, "products:2") != pytest.approx(cosine(TASK, 0.5, "fresh_products:2"), rel=1e-2)


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_one_product_is_the_two_centred_steps_at_a_small_rate(loss):
    steps = alignment(TASK, Training(loss, alpha0=0.5, eta_w=1e-6, eta_b="auto"))
    assert steps.cosine["q"] == pytest.approx(cosine(TASK, 0.5, "products:1"), rel=1e-6)
    assert steps.cosine["w"] == pytest.approx(cosine(TASK, 0.5, "products:0"), rel=1e-6)


@pytest.mark.parametrize("prevalence", [0.1, 0.5, 0.8])
def test_many_products_end_at_the_top_eigenvector(prevalence):
    task = Task(length=400, sparsity=2, strength=7.0, prevalence=prevalence)
    assert cosine(task, 2.0, "products:50") == pytest.approx(cosine(task, 2.0, "eigenvector"), abs=1e-4)


def test_eigenvector_at_a_measured_point():
    """L = 256, R = 3, pi = .2, alpha = .5 at gain 2: full matrices gave a squared cosine of .696(12)."""
    gain_at_one = 3 * np.sqrt(0.2 * 0.8 * 0.5 / 256)
    found = recovery(TASK.but(strength=np.sqrt(2 / gain_at_one)), 0.5, "eigenvector").cosine ** 2
    assert found == pytest.approx(0.693, abs=5e-4)


@pytest.mark.parametrize(
    "fresh, exponents",
    [(True, (0.5, 0.330, 0.296, 0.282, 0.274, 0.268)), (False, (0.5, 0.331, 0.309, 0.294, 0.289, 0.283))],
)
def test_exponents_between_256_and_65536(fresh, exponents):
    """Measured by full draws at d = 400: within .01 of these."""
    methods = [f"{'fresh_' if fresh else ''}products:{k}" for k in range(6)]
    found = ladder(Task(10, 1, 5.0, 0.5), 4.0, methods, over={"length": [256, 65536]})
    assert [found.exponents(method)[0] for method in methods] == pytest.approx(exponents, abs=1.5e-3)


def test_far_out_the_exponents_are_those_of_the_ladder():
    methods = ("pooled", "fresh_products:1", "fresh_products:3", "eigenvector", "positive_eigenvector")
    found = ladder(Task(10, 1, 5.0, 0.5), 4.0, methods, over={"length": [1e12, 1e14]})
    for method, exponent in zip(methods, (1 / 2, 1 / 3, 4 / 14, 1 / 4, 1 / 4)):
        assert found.exponents(method)[0] == pytest.approx(exponent, abs=2e-3), method


@pytest.mark.parametrize("sparsity, prevalence", [(1, 0.5), (3, 0.2)])
def test_eigenvectors_separate_where_they_should(sparsity, prevalence):
    """At gain 1, and at theta^2 R sqrt(pi alpha/L) = 1 with the positive bags alone."""
    task, alpha = Task(10**6, sparsity, 1.0, prevalence), 2.0
    for method, share in (("eigenvector", prevalence * (1 - prevalence)), ("positive_eigenvector", prevalence)):
        at = np.sqrt(1 / (sparsity * np.sqrt(share * alpha / 10**6)))
        assert cosine(task.but(strength=0.99 * at), alpha, method) == 0
        assert cosine(task.but(strength=1.02 * at), alpha, method) > 0.1


def test_message_passing_jumps_at_one_over_e():
    L, alpha = 10**4, 4.0
    found = ladder(Task(L, 1, 5.0, 0.5), alpha, ("message_passing",), over={"length": [L]}).needed["message_passing"][0]
    assert alpha * 0.5 * found**4 / L == pytest.approx(0.375, abs=2e-3)
    below, above = (bayes_limit(Task(L, 1, f * found, 0.5), alpha).reachable_overlap for f in (0.99, 1.01))
    assert below < 0.1 < 0.9 < above


@pytest.mark.slow
def test_a_test_error_needs_the_fourth_root_only():
    """Theta times the cosine counts: two steps reach 10 % error at cosines that fall with the length."""
    methods = ("pooled", "products:1")
    needed = ladder(Task(10, 1, 120.0, 0.5), 4.0, methods, over={"length": [10**7, 10**8]}, test_error=0.1)
    for method, exponent in zip(methods, (0.5, 0.25)):
        assert needed.exponents(method)[0] == pytest.approx(exponent, abs=0.015), method
    at = Task(10**8, 1, needed.needed["products:1"][1], 0.5)
    assert cosine(at, 4.0, "products:1") < 0.06
    found = recovery(at, 4.0, "products:1")
    assert found.test_error == pytest.approx(0.1, abs=1e-3)
    assert found.cosine == cosine(at, 4.0, "products:1")


def test_samples_needed():
    """n/d of order L/theta^2, L/theta^3, L/theta^4 while theta is far below sqrt(L)."""
    found = ladder(
        Task(10**8, 1, 5.0, 0.5), 4.0, ("pooled", "fresh_products:1", "eigenvector"),
        over={"strength": [50.0, 100.0]}, find="alpha",
    )  # fmt: skip
    for method, exponent in zip(found.needed, (-2, -3, -4)):
        assert found.exponents(method)[0] == pytest.approx(exponent, abs=0.02), method


def test_what_a_strength_was_found_for_is_reached():
    task, methods = (
        Task(50, 1, 5.0, 0.3),
        ("trained:attention", "products:2", "message_passing", "bayes", "known:bayes"),
    )
    by_length = strengths_by_length(task, Training(), [30, 60], 0.15, methods)
    assert set(by_length.frame().columns) == {"method", "label", "length", "strength", "exponent", "source"}
    at_sixty = [
        by_length.needed[method][1] for method in ("known:bayes", "bayes", "message_passing", "trained:attention")
    ]
    assert at_sixty == sorted(at_sixty)
    needed = by_length.needed["products:2"][1]
    assert recovery(task.but(length=60, strength=needed), 4.0, "products:2").test_error == pytest.approx(0.15, abs=2e-3)
    assert by_length.plot().get_ylabel() == "strength for test error 0.15"
    assert "Ladder(strength for test error 0.15, length 30 to 60" in repr(by_length)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"methods": ["products:x"]}, "method"),
        ({"methods": ["known:attention"]}, "known:pooled"),
        ({"methods": ["trained:nothing"]}, "nothing"),
        ({"find": "length"}, "find"),
        ({"over": {"strength": [1.0]}}, "over"),
        ({"cosine": 0.5, "test_error": 0.1}, "not both"),
        ({"cosine": 1.0}, "cosine"),
        ({"test_error": 0.6}, "test_error"),
    ],
)
def test_refusals(arguments, words):
    with pytest.raises(ValueError, match=words):
        ladder(Task(), 4.0, **arguments)


def test_bags_that_differ_are_refused():
    with pytest.raises(ValueError, match="labelled second moment"):
        recovery(Task(length={10: 0.5, 20: 0.5}), 2.0, "products:2")


def test_nothing_to_learn():
    for method in ("products:0", "products:2", "eigenvector", "positive_eigenvector"):
        assert cosine(Task(strength=0.0), 2.0, method) == 0
    assert cosine(Task(length=1, strength=3.0), 2.0, "products:1") == 0


def test_products_of_bags_full_of_signal():
    """R = L: the second moment holds no signal but spreads, and even powers of it keep the labelled mean's direction."""
    task = Task(4, 4, 3.0)
    assert recovery(task, 4.0, "products:1").cosine == 0.0
    assert recovery(task, 4.0, "products:2").cosine == pytest.approx(0.677, abs=0.02)  # drawn at d = 400
    assert recovery(Task(1), 4.0, "products:2").cosine == recovery(Task(4, 1, 1e-100), 4.0).cosine == 0.0
    with pytest.raises(ValueError, match="alpha"):
        ladder(task, -1.0)


@pytest.mark.slow  # the errors of a thousand signal tokens
def test_bags_full_of_signal_are_the_limit_of_nearly_full_ones():
    almost = recovery(Task(1000, 999, 3.0), 4.0, "products:2").cosine
    assert recovery(Task(1000, 1000, 3.0), 4.0, "products:2").cosine == pytest.approx(almost, rel=0.05)


def test_a_signal_lost_in_rounding_is_not_found():
    """1 + x is 1 in double precision: no direction, and no division by zero."""
    assert recovery(Task(strength=1e-9), 2.0, "eigenvector").cosine == 0.0
