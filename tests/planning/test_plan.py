"""The planner: criteria, tuning, inverse questions, the plan as a whole."""

from __future__ import annotations

import json
import math
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import norm

from sparsetoken import Task, forecast, plan, theory
from sparsetoken.planning import Criterion, Outlook, tune_linear
from sparsetoken.planning.finite_size import forecast_at
from sparsetoken.planning.questions import (
    all_samples_needed,
    attention_over_pooling,
    longest_length,
    samples_needed,
    weakest_strength,
)
from sparsetoken.planning.sensitivity import sensitivities
from sparsetoken.planning.tuning import REPORT_SEED, best_rates
from sparsetoken.theory import erm, pooled_law

pytestmark = pytest.mark.xdist_group("plan")  # one worker: plans and compiled code are shared
TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2
HARD = Task(length=1000, sparsity=1, strength=5.0, prevalence=0.5)


@pytest.fixture(scope="module")
def small_plan():
    return plan(TASK, 400, 200, questions=("samples",), target=0.1)


# -- criteria ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["error", "threshold_error", "balanced_error", "auc", "sensitivity@0.9"])
def test_criteria_read_back(text):
    assert str(Criterion.of(text)) == text
    assert Criterion.of(Criterion.of(text)) == Criterion.of(text)


@pytest.mark.parametrize("text", ["accuracy", "auc@0.9", "sensitivity", "sensitivity@x", "sensitivity@1.5"])
def test_criteria_refuse(text):
    with pytest.raises(ValueError, match=r"criterion|specificity"):
        Criterion.of(text)


def test_targets_must_lie_between_chance_and_perfection():
    rare = Task(prevalence=0.1)
    assert Criterion.of("auc").target_loss(0.9, rare) == pytest.approx(0.1)
    assert Criterion.of("error").target_loss(None, rare) == pytest.approx(0.05)
    for criterion, target in (("error", 0.2), ("error", 0.0), ("auc", 0.4), ("sensitivity@0.9", 0.05)):
        with pytest.raises(ValueError, match="target"):
            Criterion.of(criterion).target_loss(target, rare)


def test_criteria_of_two_normals_are_the_closed_forms():
    gap, task = 1.3, Task(prevalence=0.2)
    cut = gap / 2 + math.log(0.8 / 0.2) / gap
    error = 0.2 * norm.cdf(cut - gap) + 0.8 * norm.cdf(-cut)
    expected = {
        "error": error,
        "threshold_error": error,
        "balanced_error": norm.cdf(-gap / 2),
        "auc": norm.cdf(-gap / math.sqrt(2)),
        "sensitivity@0.9": norm.cdf(norm.ppf(0.9) - gap),
    }
    rng = np.random.default_rng(0)
    drawn = rng.normal(gap, size=(16, 20_000)), rng.normal(size=(16, 20_000))
    for name, value in expected.items():
        criterion = Criterion.of(name)
        assert criterion.of_gap(gap, task) == pytest.approx(value, abs=1e-8)
        measured = criterion.of_scores(*drawn, 0.2)
        # 5 standard errors: a false alarm once in a million; the threshold chosen on the draws lowers errors slightly
        assert abs(measured.loss - value) < 5 * measured.standard_error + 2e-4
        assert measured.standard_error < 2e-3


def test_criteria_of_a_trained_readout_follow_its_score_law():
    """The pooled readout's score is Gaussian in each class: every criterion is a function of one gap."""
    task = Task(prevalence=0.2)
    result = erm(pooled_law(task), 3.0, 0.05)
    spread = result.norm_w / math.sqrt(task.length)
    gap = result.m_q * task.strength * task.sparsity / task.length / spread
    for name in ("threshold_error", "balanced_error", "auc", "sensitivity@0.8"):
        criterion = Criterion.of(name)
        assert criterion.of_readout(result).loss == pytest.approx(criterion.of_gap(gap, task), abs=1e-6)
    assert Criterion.of("threshold_error").of_readout(result).loss <= result.test_error


# -- questions ---------------------------------------------------------------------------------------------------------


class KnownLosses(Outlook):
    """Losses by formula, so that the questions' answers are known."""

    scales: ClassVar = {"attention": 1.0, "pooled": 30.0, "vectorized": 60.0, "message_passing": 0.5, "optimal": 0.2}

    def measured(self, learner, task, alpha, accuracy=None):
        from sparsetoken.planning.criterion import Measured

        return Measured(self.limit(learner, task) + self.scales[learner] * task.length / task.strength**2 / alpha, 0.0)

    def limit(self, learner, task):
        return 0.2 if learner in ("pooled", "vectorized") else 0.01


def test_questions_on_known_losses():
    outlook = KnownLosses()
    task = Task(length=20, strength=4.0)  # attention: 0.01 + 1.25/alpha
    answers = {a.learner: a for a in all_samples_needed(outlook, task, 100, 0.06, 2.0)}
    assert answers["attention"].status == "found"
    assert answers["attention"].value == pytest.approx(2500, rel=0.02)
    assert answers["message_passing"].value == pytest.approx(1250, rel=0.02)
    assert answers["optimal"].status == "hard" and answers["optimal"].value == pytest.approx(500, rel=0.02)
    assert "no known fast method" in answers["optimal"].words
    assert answers["pooled"].status == "impossible" and "impossible for pooled" in answers["pooled"].words
    lower = samples_needed(outlook, task, 100, 0.005, 2.0, "attention")
    assert lower.status == "impossible" and lower.value is None and "even with the signal known" in lower.words
    length = longest_length(outlook, task, 40.0, 0.0605)  # 0.01 + L/640 <= 0.0605 up to L = 32
    assert length.status == "found" and length.value == 32
    assert attention_over_pooling(outlook, task, 100, 2.0).status == "always"


class SlowAttention(KnownLosses):
    """Attention needs many samples: it overtakes pooling at a size that is known."""

    scales: ClassVar = KnownLosses.scales | {"attention": 40.0, "pooled": 1.0}


def test_crossing_is_where_attention_is_a_twentieth_better():
    """0.01 + 50/alpha = 0.95 (0.2 + 1.25/alpha) at alpha = 48.8125/0.18."""
    found = attention_over_pooling(SlowAttention(), Task(length=20, strength=4.0), 100, 2.0)
    assert found.status == "found" and found.value == pytest.approx(100 * 48.8125 / 0.18, rel=0.02)
    assert "27," in found.words


def test_tails_beyond_the_draws_are_refused_for_attention_alone():
    outlook = Outlook()
    asked = weakest_strength(outlook, TASK, 2.0, 1e-9, "attention")
    assert asked.status == "unresolved" and asked.value is None and "does not resolve" in asked.words
    best = weakest_strength(outlook, TASK, 2.0, 1e-9, "message_passing")
    assert best.status == "found"
    assert theory.bayes_limit(TASK.but(strength=best.value), 2.0).test_error == pytest.approx(1e-9, rel=0.5)


def test_a_forecast_below_the_bayes_limit_is_an_internal_error():
    from sparsetoken.planning.criterion import Measured

    outlook = Outlook()
    limit = theory.bayes_limit(TASK, 2.0).test_error
    outlook.require_possible("attention", Measured(limit, 1e-5), TASK, 2.0)
    with pytest.raises(theory.AccuracyError, match=r"internal error.*below the Bayes limit"):
        outlook.require_possible("attention", Measured(0.9 * limit, 1e-5), TASK, 2.0)


# -- tuning against the theory -----------------------------------------------------------------------------------------


def test_plan_settings_are_what_the_forecast_says(small_plan):
    settings = small_plan.settings
    again = forecast_at(TASK, settings.training, 200, seed=REPORT_SEED)
    assert again.value == pytest.approx(settings.loss, rel=1e-9)
    limit = forecast(TASK, settings.training, with_capacity=False, accuracy=5e-4)
    assert limit.test_error == pytest.approx(settings.limit.loss, abs=4 * settings.limit.standard_error + 1e-3)
    assert limit.cosine["q"] == pytest.approx(settings.cosine, abs=0.01)
    assert settings.training.alpha0 + settings.training.alpha1 == pytest.approx(2.0)
    assert small_plan.n0 + small_plan.n1 == 400 and small_plan.n0 == round(200 * settings.training.alpha0)


def test_no_neighbouring_setting_is_better(small_plan):
    """Every setting moved by a third, either way, gives no lower error at this size (2 %: the search sees fewer draws)."""
    training = small_plan.settings.training
    best = forecast_at(TASK, training, 200, groups=4).value
    for name in ("eta_q", "ridge", "alpha0"):
        for factor in (0.67, 1.5):
            change = {name: getattr(training, name) * factor}
            if name == "alpha0":
                change["alpha1"] = 2.0 - change["alpha0"]
            assert forecast_at(TASK, training.but(**change), 200, groups=4).value > 0.98 * best, (name, factor)


def test_the_bias_makes_up_for_the_realised_share_at_finite_size():
    """At pi = 1/2 the logistic bias moves by eta_b (2p - 1)/2, and cancels the mean of l' to first order at eta_b = 4."""
    _, eta_b = best_rates(Task(20, 1, 4.0, 0.5), "logistic", 1.0, 100)
    assert eta_b == pytest.approx(4.0, rel=0.1)


def test_expected_errors_are_in_the_order_of_the_theory(small_plan):
    value = small_plan.value
    assert value("optimal") <= value("message_passing") < value("attention") < value("pooled") < value("vectorized")
    settings = small_plan.settings
    assert settings.limit.loss < 0.0363  # rates, sharpness and ridge of one size fits all give that
    assert settings.limit.loss < settings.loss < 1.3 * settings.limit.loss  # a finite size costs something
    limit = theory.bayes_limit(TASK, 2.0)
    assert value("optimal") == limit.test_error
    with pytest.raises(ValueError, match="learner"):
        value("forest")


def test_best_ridge_of_pooling_beats_others():
    task = Task(prevalence=0.3)
    tuned = tune_linear("pooled", task, 3.0, Criterion())
    for ridge in (1e-5, 1e-3, 1e-2, 0.1, 1.0, 10.0):
        assert tuned.loss <= erm(pooled_law(task), 3.0, ridge).test_error + 1e-5


def test_samples_needed_lead_to_the_target(small_plan):
    answers = {a.learner: a for a in small_plan.answers}
    assert answers["pooled"].status == "impossible"  # known direction: 0.2146
    n = answers["message_passing"].value
    assert theory.bayes_limit(TASK, n / 200).test_error == pytest.approx(0.1, rel=0.05)
    n = answers["attention"].value
    assert Outlook(d=200).measured("attention", TASK, n / 200).loss == pytest.approx(0.1, rel=0.1)


def test_hard_phase_is_seen():
    """L = 1000, R = 1, theta = 5, alpha = 1: message passing is nearly blind, the optimum is not."""
    outlook = Outlook()
    assert outlook.bayes(HARD, 1.0).hard
    target = 0.25
    assert outlook.measured("optimal", HARD, 1.0).loss < target < outlook.measured("message_passing", HARD, 1.0).loss


def test_sensitivities_are_slopes_of_the_best_loss(small_plan):
    """In the limit and at the best settings, slopes at fixed settings equal those of settings tuned anew.

    15 %: the search ends where the log loss changes by less than a thousandth per step.
    """
    outlook = Outlook()
    slopes = {s.parameter: s for s in sensitivities(TASK, outlook.attention(TASK, 2.0, starts=2).training, Criterion())}
    step = 0.15
    up, down = (outlook.measured("attention", TASK.but(strength=5.0 * math.exp(s)), 2.0).loss for s in (step, -step))
    assert slopes["strength"].slope == pytest.approx((up - down) / (2 * step), rel=0.15)
    assert slopes["length"].slope > 0  # more noise tokens never help
    assert small_plan.slopes[0].parameter == "strength"


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_rare_positives_have_criteria_that_mean_something():
    rare, outlook = Task(prevalence=0.03), Outlook(Criterion.of("auc"))
    pooled, attention, optimal = (outlook.measured(name, rare, 5.0).loss for name in ("pooled", "attention", "optimal"))
    assert 0.5 > pooled > 1.1 * attention > 1.1 * optimal > 0
    assert outlook.limit("optimal", rare) < optimal


def test_plan_as_text_and_dictionary(small_plan):
    text = str(small_plan)
    for words in (
        "Best settings",
        "Expected test error",
        "message passing",
        "impossible for pooled",
        "strength",
        "simulated",
    ):
        assert words in text
    plain = json.loads(json.dumps(small_plan.to_dict()))
    assert plain["settings"]["n0"] + plain["settings"]["n1"] == 400
    assert Task.from_dict(plain["task"]) == TASK
    with pytest.raises(ValueError, match="curve=True"):
        small_plan.figure()


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((TASK, 15, 100), {}, "n must be"),
        ((TASK, 100, 1), {}, "d must be"),
        ((TASK, 100, 100), {"trials": -1}, "trials must be"),
        ((Task(strength=0.0), 100, 100), {}, "strength"),
        ((Task(positions="block"), 100, 100), {}, "uniform"),
        ((TASK, 100, 100), {"questions": ["weather"]}, "questions"),
        ((TASK, 100, 100), {"target": 0.7}, "target"),
        ((TASK, 100, 100), {"loss": "hinge"}, "loss"),
    ],
)
def test_plan_refuses(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        plan(*arguments, **options)


def test_plan_command(tmp_path, command, monkeypatch):
    monkeypatch.setattr("sparsetoken.planning.advice.CURVE_FACTORS", (1.0, 2.0))
    files = ("--json", tmp_path / "plan.json", "--plot", tmp_path / "plan.svg")
    code, out, err = command("plan", "-n", 400, "-d", 200, "--ask", "none", *files)
    assert code == 0, err
    assert "Expected test error" in out
    made = json.loads((tmp_path / "plan.json").read_text())
    errors = {(row["learner"], row["n"]): row["value"] for row in made["curve"]}
    assert errors["attention", 800] < errors["attention", 400]
    assert errors["optimal", 400] == pytest.approx(theory.bayes_limit(TASK, 2.0).test_error)
    assert "<svg" in (tmp_path / "plan.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "400"], "-d"),
        (["-n", "400", "-d", "200", "--sparsity", "11"], "sparsity"),
        (["-n", "400", "-d", "200", "--plot", "x.txt"], ".png"),
        (["-n", "400", "-d", "200", "--criterion", "luck"], "criterion"),
    ],
)
def test_plan_command_refuses(arguments, words, command):
    code, _, err = command("plan", *arguments)
    assert code == 2
    assert err.startswith("error:") and words in err and err.count("\n") == 1
