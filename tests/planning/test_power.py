"""Power analysis: solve for what is not given."""

from __future__ import annotations

import json

import pytest

from sparsetoken import Task, solve, theory

TASK = Task()


def test_each_unknown_is_solved_for():
    """For the Bayes limit, which is quick: what is found is put back and meets the target."""
    given = {"n": 300, "d": 100, "target_error": 0.03, "learner": "optimal"}

    def limit(task, alpha):
        return theory.bayes_limit(task, alpha).test_error

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


def test_the_command(command, tmp_path):
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
