import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken import Task, Training, theory
from sparsetoken.theory.bayes.oracle import bayes_error, hardmax_error, strength_needed


def test_capacity_without_signal_is_two():
    nothing = Task(strength=0.0)
    assert theory.capacity(theory.pooled_law(nothing)).alpha == pytest.approx(2.0, abs=1e-9)
    attention = theory.capacity(theory.attention_law(nothing, 0.7, 0.0))
    assert attention.alpha == pytest.approx(2.0, abs=1e-9)


def test_capacity_counts_and_order():
    task = Task()
    pooled, vectorized = theory.capacity(theory.pooled_law(task)), theory.capacity(theory.vectorized_law(task))
    attention = theory.capacity(theory.attention_law(task, 0.8, 1.0))
    assert vectorized.alpha == pytest.approx(10 * pooled.alpha)
    assert vectorized.alpha > attention.alpha > pooled.alpha
    assert attention.standard_error <= 1e-3 * attention.alpha


@pytest.mark.parametrize(
    "law", [theory.pooled_law(Task()), theory.attention_law(Task(), 0.5, 1.0)], ids=["pooled", "attention"]
)
def test_training_loss_leaves_zero_at_capacity(law):
    """As the ridge falls by 100, the training loss falls with it below alpha* and stays where it is above."""
    threshold = theory.capacity(law).alpha
    ratio = {}
    for factor in (0.95, 1.05):
        small, tiny = (theory.erm(law, factor * threshold, r, accuracy=1e-2).train_loss for r in (1e-6, 1e-8))
        ratio[factor] = small / tiny
    assert ratio[0.95] > 3.0 and ratio[1.05] == pytest.approx(1.0, abs=0.05), ratio


def test_known_signal_errors_are_ordered():
    for task in (Task(), Task(length=100, sparsity=3, strength=3, prevalence=0.3)):
        found = theory.oracle(task, points=512)
        slack = 4 * max(found.errors.values())
        assert found.bayes <= min(found.hardmax, found.attention, found.elementwise, found.pooled) + slack
        assert found.attention <= min(found.hardmax, found.pooled) + slack
        assert found.vectorized == found.pooled


def test_one_token_is_two_normals():
    task = Task(length=1, strength=1.5, prevalence=0.5)
    found = theory.oracle(task, points=512)
    for name in ("pooled", "hardmax"):
        assert getattr(found, name) == pytest.approx(ndtr(-0.75), abs=1e-9)
    for name in ("attention", "bayes"):
        assert getattr(found, name) == pytest.approx(ndtr(-0.75), abs=4 * found.errors[name] + 1e-9)


def test_whole_bag_signal_is_the_sum():
    """R = L: the likelihood ratio is a function of the tokens' sum, so Bayes equals pooling."""
    task = Task(length=4, sparsity=4, strength=0.7, prevalence=0.3)
    error, se = bayes_error(task)
    assert error == pytest.approx(theory.oracle(task, 0.0).pooled, abs=4.5 * se)


def test_sharpness_zero_is_pooling_and_infinity_is_hard_max():
    task = Task()
    assert theory.oracle(task, 0.0, points=64).attention == theory.oracle(task, 0.0, points=64).pooled
    sharp = theory.oracle(task, 400.0)
    assert sharp.attention == pytest.approx(sharp.hardmax, abs=4.5 * sharp.errors["attention"] + 1e-4)


def test_nobody_beats_the_bayes_limit():
    for task in (Task(), Task(sparsity=3, strength=3, prevalence=0.3)):
        training = Training(ridge=1e-2)
        limit = theory.forecast(task, training, "bayes")
        for model in ("attention", "pooled", "vectorized", "elementwise"):
            found = theory.forecast(task, training.but(equal_samples=True), model, with_capacity=False)
            assert found.test_error > limit.test_error


def test_strength_needed_inverts_the_error():
    task = Task(length=64)
    theta = strength_needed(task, 0.1, lambda t: theory.oracle(t, 0.0, points=16).pooled)
    assert theory.oracle(task.but(strength=theta), 0.0, points=16).pooled == pytest.approx(0.1, abs=1e-4)
    assert strength_needed(task, 0.1, lambda t: 0.5) == float("inf")
    # A target so near to guessing that next to no signal is needed, found from any start.
    weak = strength_needed(task, 0.4999, lambda t: theory.oracle(t, 0.0, points=16).pooled)
    assert weak < 0.01 and theory.oracle(task.but(strength=weak), 0.0, points=16).pooled == pytest.approx(
        0.4999, abs=1e-6
    )
    with pytest.raises(ValueError, match="at every strength"):
        strength_needed(task, 0.1, lambda t: 0.01)


def test_tails_of_the_likelihood_ratio_test_are_resolved():
    """Errors of 10^-9: just below hard max, which is a closed form, and falling as fast with the strength."""
    for theta in (8.0, 12.0, 20.0):
        task = Task(strength=theta)
        error, se = bayes_error(task)
        closed = hardmax_error(task)
        assert 0.9 * closed < error < closed + 4 * se, theta
        assert se < 1e-3 * error


def test_likelihood_ratio_errors_against_counting():
    """Fresh bags classified by the enumerated likelihood ratio, L = 6, R = 2 (4.5 s.e.)."""
    from itertools import combinations

    task, rng = Task(length=6, sparsity=2, strength=2.0, prevalence=0.3), np.random.default_rng(5)
    n = 200_000
    positive = rng.random(n) < 0.3
    t = rng.standard_normal((n, 6))
    t[positive, :2] += 2.0
    terms = np.stack([2.0 * t[:, list(c)].sum(1) for c in combinations(range(6), 2)])
    log_ratio = np.logaddexp.reduce(terms) - np.log(len(terms)) - 4.0
    wrong = np.mean((log_ratio + np.log(0.3 / 0.7) > 0) != positive)
    error, se = bayes_error(task)
    assert abs(error - wrong) < 4.5 * np.hypot(se, (wrong * (1 - wrong) / n) ** 0.5)


def test_forecast_grid_rows_and_failures():
    rows = theory.forecast_grid(
        Task(), Training(), ["pooled", "bayes"], over={"alpha1": [1.0, 2.0], "prevalence": [0.5, 2.0]}
    )
    assert len(rows) == 8
    failed = [row for row in rows if row["failure"]]
    assert len(failed) == 4 and all("prevalence" in row["failure"] for row in failed)
    single = theory.forecast(Task(), Training(alpha1=2.0), "pooled")
    match = next(r for r in rows if r["model"] == "pooled" and r["alpha1"] == 2.0 and not r["failure"])
    assert match["test_error"] == pytest.approx(single.test_error, abs=1e-9)
    with pytest.raises(ValueError, match="no field 'alpha2'"):
        theory.forecast_grid(Task(), Training(), over={"alpha2": [1]})


def test_forecast_refuses_what_the_theory_does_not_cover():
    with pytest.raises(ValueError, match="staged"):
        theory.forecast(Task(), Training(schedule="joint"))
    with pytest.raises(ValueError, match="model must be one of"):
        theory.forecast(Task(), Training(), "transformer")
    with pytest.raises(ValueError, match="uniform positions"):
        theory.forecast(Task(positions="block"), Training(), "vectorized")
