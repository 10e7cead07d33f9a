"""Inverse questions: each unknown in turn, known losses, what is refused, the command."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest

from sparsetoken import Task, solve, theory
from sparsetoken.planning import Outlook
from sparsetoken.planning.criterion import Measured
from sparsetoken.planning.solve import Question, all_samples_needed, ask, attention_over_pooling

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2
HARD = Task(length=1000, sparsity=1, strength=5.0, prevalence=0.5)


class KnownLosses(Outlook):
    """Losses by formula, so that the questions' answers are known."""

    scales: ClassVar = {"attention": 1.0, "pooled": 30.0, "vectorized": 60.0, "message_passing": 0.5, "optimal": 0.2}

    def measured(self, learner, task, alpha, thorough=False):
        return Measured(self.limit(learner, task) + self.scales[learner] * task.length / task.strength**2 / alpha, 0.0)

    def message_passing(self, task, alpha, draws=3):
        return self.measured("message_passing", task, alpha)

    def in_the_limit(self, learner, task, alpha):
        return self.measured(learner, task, alpha)

    def limit(self, learner, task):
        return 0.2 if learner in ("pooled", "vectorized") else 0.01


def test_questions_on_known_losses():
    outlook = KnownLosses(d=100)
    task = Task(length=20, strength=4.0)  # attention: 0.01 + 1.25/alpha
    answers = {a.learner: a for a in all_samples_needed(Question(outlook, task, None, 0.06), 2.0)}
    assert answers["attention"].status == "found"
    assert answers["attention"].value == pytest.approx(2500, rel=0.02)
    assert answers["message_passing"].value == pytest.approx(1250, rel=0.1)
    assert answers["message_passing"].words.endswith("(simulated)")
    assert answers["optimal"].status == "hard" and answers["optimal"].value == pytest.approx(500, rel=0.02)
    assert "no known fast method" in answers["optimal"].words
    assert answers["pooled"].status == "impossible" and "impossible for pooled" in answers["pooled"].words
    lower = ask("n", Question(outlook, task, None, 0.005))
    assert lower.status == "impossible" and lower.value is None and "even with the signal known" in lower.words
    length = ask("length", Question(outlook, task, 4000, 0.0605))  # 0.01 + L/640 <= 0.0605 up to L = 32
    assert length.status == "found" and length.value == 32
    assert attention_over_pooling(outlook, task, 2.0).status == "always"


class SlowAttention(KnownLosses):
    """Attention needs many samples: it overtakes pooling at a size that is known."""

    scales: ClassVar = KnownLosses.scales | {"attention": 40.0, "pooled": 1.0}


def test_crossing_is_where_attention_is_a_twentieth_better():
    """0.01 + 50/alpha = 0.95 (0.2 + 1.25/alpha) at alpha = 48.8125/0.18."""
    found = attention_over_pooling(SlowAttention(d=100), Task(length=20, strength=4.0), 2.0)
    assert found.status == "found" and found.value == pytest.approx(100 * 48.8125 / 0.18, rel=0.02)
    assert "27," in found.words


def test_tails_beyond_the_draws_are_refused_for_attention_alone():
    asked = solve(TASK, "strength", n=200, d=100, target=1e-9)
    assert asked.status == "unresolved" and asked.value is None and "does not resolve" in asked.words
    best = solve(TASK, "strength", n=200, d=100, target=1e-9, learner="optimal")
    assert best.status == "found"
    assert theory.bayes_limit(TASK.but(strength=best.value), 2.0).test_error == pytest.approx(1e-9, rel=0.5)


def test_a_forecast_below_the_bayes_limit_is_an_internal_error():
    outlook = Outlook()
    limit = theory.bayes_limit(TASK, 2.0).test_error
    outlook.require_possible("attention", Measured(limit, 1e-5), TASK, 2.0)
    with pytest.raises(theory.AccuracyError, match=r"internal error.*below the Bayes limit"):
        outlook.require_possible("attention", Measured(0.9 * limit, 1e-5), TASK, 2.0)


def test_hard_phase_is_seen():
    """L = 1000, R = 1, theta = 5, alpha = 1: message passing is nearly blind, the optimum is not."""
    outlook = Outlook()
    assert outlook.bayes(HARD, 1.0).hard
    target = 0.25
    assert outlook.measured("optimal", HARD, 1.0).loss < target < outlook.measured("message_passing", HARD, 1.0).loss


def test_each_unknown_is_solved_for():
    """For the Bayes limit, which is quick: what is found is put back and meets the target."""
    size, options = {"n": 300, "d": 100}, {"target": 0.03, "learner": "optimal"}

    def limit(task, alpha):
        return theory.bayes_limit(task, alpha).test_error

    needed = solve(TASK, d=100, **options)
    assert limit(TASK, needed.n / 100) == pytest.approx(0.03, rel=0.03) and needed.value == needed.n
    weakest = solve(TASK, "strength", **size, **options)
    assert limit(weakest.task, 3.0) == pytest.approx(0.03, rel=0.05) and weakest.task.strength == weakest.value
    longest = solve(TASK, "length", **size, **options).value
    assert limit(TASK.but(length=longest), 3.0) <= 0.03 < limit(TASK.but(length=longest + 2), 3.0)
    widest = solve(TASK, "d", n=300, **options)
    assert limit(TASK, 300 / widest.d) == pytest.approx(0.03, rel=0.05)
    weak = TASK.but(strength=2.0)
    fewest = solve(weak, "sparsity", **size, target=0.1, learner="optimal").value
    assert limit(weak.but(sparsity=fewest), 3.0) <= 0.1 < limit(weak.but(sparsity=fewest - 1), 3.0)
    expected = solve(TASK, "error", **size, learner="optimal")
    assert expected.value == pytest.approx(limit(TASK, 3.0)) and "no method" in expected.words
    rarest = solve(TASK, "prevalence", **size, target=0.98, criterion="auc", learner="optimal")
    assert 0.001 < rarest.value < 0.5


def test_without_a_dimension_the_answer_is_per_dimension():
    found = solve(TASK, target=0.03, learner="optimal")
    assert found.n is None and found.d is None
    assert theory.bayes_limit(TASK, found.value).test_error == pytest.approx(0.03, rel=0.03)
    assert "n/d" in found.words


def test_impossible_targets_are_one_sentence():
    for learner in ("pooled", "optimal"):
        found = solve(TASK, d=100, target=0.01, learner=learner)
        assert not found.solved and found.status == "impossible" and found.value is None
        assert "even with the signal known, test error is 0.017" in found.words and "\n" not in str(found)
    pooled = solve(TASK, d=100, target=0.1, learner="pooled")
    assert pooled.words.startswith("impossible for pooled: with unlimited bags")
    never = solve(TASK.but(strength=1.0), "sparsity", n=20, d=1000, target=0.01, learner="optimal")
    assert never.status == "impossible" and "even if all 10 tokens" in never.words


def test_the_spread_over_training_sets_stands_beside_the_mean():
    found = solve(TASK, "error", n=300, d=60, learner="pooled")
    assert found.spread == pytest.approx(found.standard_error * 8**0.5)
    assert abs(found.simulated - found.value) < 5 * found.standard_error + 0.02
    assert "one training set differs from the next" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["spread"] == found.spread


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "target must be given"),
        ({"n": 100, "d": 50, "target": 0.1}, "n is to be solved for"),
        ({"unknown": "error", "n": 100}, "d must be given"),
        ({"target": 0.7}, "target"),
        ({"target": 0.1, "d": 1}, "d must be"),
        ({"unknown": "error", "n": 3, "d": 50}, "n must be"),
        ({"target": 0.1, "learner": "luck"}, "learner must be one of"),
        ({"unknown": "weather", "target": 0.1}, "unknown must be one of"),
        ({"unknown": "prevalence", "n": 100, "d": 50, "target": 0.1}, "prevalence cannot be solved for by error"),
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
    assert f"with about {n:,} bags." in out
    code, out, _ = command("solve", "-d", 100, "--target", 0.001, "--learner", "optimal")
    assert code == 1 and out.startswith("Impossible at this strength") and out.count("\n") == 1
    code, out, _ = command("solve", "-n", 300, "-d", 100, "--learner", "optimal")
    assert code == 0 and "No method is expected to beat a test error of 0.0" in out
    code, out, _ = command("solve", "--for", "strength", "-n", 300, "-d", 100, "--target", 0.03, "--learner", "optimal")
    assert code == 0 and "from strength" in out
    for arguments, words in (
        (("--for", "weather"), "unknown must be"),
        (("--for", "strength", "-d", 10, "--target", 0.1), "n must be given"),
        (("--for", "n", "-n", 100, "-d", 10, "--target", 0.1), "leave out its value"),
        ((), "target must be given"),
    ):
        code, _, err = command("solve", *arguments)
        assert code == 2 and words in err and err.count("\n") == 1, err


def test_arguments_of_another_kind_are_named():
    from sparsetoken import plan, plan_for_bags

    for call in (lambda: plan(None, 100, 10), lambda: solve(None, "n", target=0.1)):
        with pytest.raises(ValueError, match="task must be a Task, got None"):
            call()
    with pytest.raises(ValueError, match="budget must be a number"):
        plan_for_bags(np.zeros((8, 2, 3)), [0, 1] * 4, budget="long")
