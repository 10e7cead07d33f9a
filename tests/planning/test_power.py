"""Power analysis: solve for what is not given; bags to test on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from sparsetoken import Task, planning, solve, theory
from sparsetoken.planning.test_sets import comparison_power

pytestmark = pytest.mark.xdist_group("plan")
TASK = Task()


def test_each_unknown_is_solved_for():
    """For the Bayes limit, which is quick: what is found is put back and meets the target."""
    given = {"n": 300, "d": 100, "target_error": 0.03, "learner": "optimal"}
    limit = lambda task, alpha: theory.bayes_limit(task, alpha).test_error  # noqa: E731
    needed = solve(TASK, **given | {"n": None})
    assert limit(TASK, needed.n / 100) == pytest.approx(0.03, rel=0.03) and needed.value == needed.n
    weakest = solve(TASK, **given, strength=None)
    assert limit(weakest.task, 3.0) == pytest.approx(0.03, rel=0.05) and weakest.task.strength == weakest.value
    longest = solve(TASK, **given, length=None).value
    assert limit(TASK.but(length=longest), 3.0) <= 0.03 < limit(TASK.but(length=longest + 2), 3.0)
    widest = solve(TASK, **given | {"d": None})
    assert limit(TASK, 300 / widest.d) == pytest.approx(0.03, rel=0.05)
    weak = TASK.but(strength=2.0)
    fewest = solve(weak, **given | {"target_error": 0.1}, sparsity=None).value
    assert limit(weak.but(sparsity=fewest), 3.0) <= 0.1 < limit(weak.but(sparsity=fewest - 1), 3.0)
    expected = solve(TASK, **given | {"target_error": None})
    assert expected.value == pytest.approx(limit(TASK, 3.0)) and "no method" in expected.words
    rarest = solve(TASK, n=300, d=100, target_error=0.98, criterion="auc", prevalence=None, learner="optimal")
    assert 0.001 < rarest.value < 0.5 and rarest.criterion == "auc"


def test_without_a_dimension_the_answer_is_per_dimension():
    found = solve(TASK, n=None, target_error=0.03, learner="optimal")
    assert found.alpha == found.value and found.n is None and found.d is None
    assert theory.bayes_limit(TASK, found.value).test_error == pytest.approx(0.03, rel=0.03)
    assert "n/d" in found.words


def test_impossible_targets_are_one_sentence():
    for learner in ("pooled", "optimal"):
        found = solve(TASK, n=None, d=100, target_error=0.01, learner=learner)
        assert not found.solved and found.status == "impossible" and found.value is None and found.alpha is None
        assert "even with the signal known, test error is 0.017" in found.words and "\n" not in str(found)
    own = solve(TASK, n=None, d=100, target_error=0.1, learner="pooled")
    assert own.words.startswith("impossible for pooled: with unlimited bags")
    never = solve(TASK.but(strength=1.0), n=20, d=1000, target_error=0.01, sparsity=None, learner="optimal")
    assert never.status == "impossible" and "even with all 10 tokens" in never.words


def test_the_spread_over_training_sets_stands_beside_the_mean():
    found = solve(TASK, n=300, d=60, learner="pooled", trials=6)
    assert found.spread == pytest.approx(found.standard_error * 6**0.5)
    assert abs(found.simulated - found.value) < 5 * found.standard_error + 0.02
    assert "one training set differs from the next" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["spread"] == found.spread
    assert solve(TASK, n=300, d=60, learner="pooled", trials=0).spread is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "exactly one of"),
        ({"n": 100, "d": 50, "target_error": 0.1}, "none is"),
        ({"n": 100, "target_error": None}, "d must be given with n"),
        ({"target_error": 0.7}, "target"),
        ({"target_error": 0.1, "d": 1}, "d must be"),
        ({"n": 3, "d": 50, "target_error": None}, "n must be"),
        ({"target_error": 0.1, "learner": "luck"}, "learner must be one of"),
        ({"n": 100, "d": 50, "target_error": 0.1, "prevalence": None}, "prevalence cannot be solved for by error"),
        ({"target_error": 0.1, "length": 0}, "length"),
        ({"target_error": 0.1, "strength": 0.0}, "strength must be positive"),
    ],
)
def test_bad_questions_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        solve(TASK, **options)


# -- test sets ---------------------------------------------------------------------------------------------------------


def test_intervals_are_clopper_and_pearson_s():
    for wrong, tested in ((0, 20), (3, 50), (50, 50)):
        exact = binomtest(wrong, tested).proportion_ci(0.95, "exact")
        assert planning.error_interval(wrong, tested) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize(("error", "width", "confidence"), [(0.1, 0.1, 0.95), (0.0, 0.05, 0.95), (0.3, 0.02, 0.99)])
def test_test_sets_are_as_large_as_needed_and_no_larger(error, width, confidence):
    m = planning.test_set_size(error, width, confidence)
    spans = [high - low for low, high in (planning.error_interval(error * k, k, confidence) for k in (m - 1, m))]
    assert spans[1] <= width < spans[0]


def test_comparisons_have_the_power_that_they_claim():
    """The exact McNemar test counted out over all outcomes of 60 bags."""
    for disagreement in (None, 0.3):
        share = 0.1 * 0.7 + 0.3 * 0.9 if disagreement is None else disagreement
        first = (share + 0.2) / (2 * share)
        total = 0.0
        for count in range(61):
            for wrong in range(count + 1):
                if count and binomtest(wrong, count).pvalue <= 0.05:
                    total += binom.pmf(count, 60, share) * binom.pmf(wrong, count, first)
        assert comparison_power(0.3, 0.1, 60, disagreement) == pytest.approx(total, abs=1e-6)


def test_comparison_sets_are_large_enough():
    m = planning.comparison_set_size(0.1, 0.15, disagreement=0.08)
    assert comparison_power(0.1, 0.15, m, 0.08) >= 0.8 > comparison_power(0.1, 0.15, m // 2, 0.08)
    assert m < planning.comparison_set_size(0.1, 0.15)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: planning.test_set_size(1.2, 0.1), "error must be"),
        (lambda: planning.test_set_size(0.1, 0.0), "width must be"),
        (lambda: planning.test_set_size(0.1, 0.1, 1.0), "confidence must be"),
        (lambda: planning.test_set_size(0.5, 1e-7), "more than 1,000,000,000"),
        (lambda: planning.comparison_set_size(0.1, 0.1), "must differ"),
        (lambda: planning.comparison_set_size(0.1, 0.2, disagreement=0.05), "disagreement must lie"),
    ],
)
def test_test_sets_refuse(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_commands(command, tmp_path):
    target = tmp_path / "solution.json"
    code, out, err = command("solve", "-d", 100, "--target", 0.03, "--learner", "optimal", "--json", target)
    assert code == 0, err
    n = json.loads(target.read_text())["n"]
    assert f"{n:,} bags in dimension 100." in out
    code, out, _ = command("solve", "-d", 100, "--target", 0.001, "--learner", "optimal")
    assert code == 1 and out.startswith("Impossible at this strength") and out.count("\n") == 1
    code, out, _ = command("solve", "-n", 300, "-d", 100, "--learner", "optimal")
    assert code == 0 and "No method is expected to beat a test error of 0.0" in out
    code, out, _ = command("solve", "--for", "strength", "-n", 300, "-d", 100, "--target", 0.03, "--learner", "optimal")
    assert code == 0 and "from strength" in out
    for arguments, words in (
        (("--for", "weather"), "--for must be"),
        (("--for", "strength", "-d", 10, "--target", 0.1), "-n must be given"),
        (("--for", "n", "-n", 100, "-d", 10, "--target", 0.1), "leave out its value"),
        ((), "--target must be given"),
    ):
        code, _, err = command("solve", *arguments)
        assert code == 2 and words in err and err.count("\n") == 1, err
    code, out, _ = command("test-size", "--error", 0.1, "--width", 0.1)
    assert code == 0 and out.startswith("158 test bags")
    code, out, _ = command("test-size", "--error", 0.1, "--versus", 0.15)
    assert code == 0 and "McNemar" in out
    code, _, err = command("test-size", "--error", 0.1)
    assert code == 2 and "--width or --versus" in err


def test_stages_learn_the_machine_s_speed(monkeypatch):
    from sparsetoken.planning.stages import Stages

    clock = [0.0]
    monkeypatch.setattr("sparsetoken.planning.stages.time.monotonic", lambda: clock[0])
    said: list[str] = []
    say = Stages(said.append, {"first": 100.0, "second": 50.0})
    say("first")
    assert said[-1] == "first; about 2 min left"
    clock[0] = 10.0  # ten times as fast as typical
    say("second")
    assert said[-1] == "second; about 5 s left"
    say("second, half done", 2.0)
    assert said[-1] == "second, half done; a few seconds left"
    assert np.all([words.count(";") == 1 for words in said])
