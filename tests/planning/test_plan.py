"""The plan as a whole, in Python and as a command."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sparsetoken import Task, plan, theory
from sparsetoken.planning import Criterion, Outlook
from sparsetoken.planning.advice import Expected
from sparsetoken.planning.criterion import RESOLVED, Measured
from sparsetoken.planning.learners import NAMES
from sparsetoken.planning.questions import Answer

TASK = Task()  # L = 10, R = 1, theta = 5, pi = 1/2


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
        dataclasses.replace(small_plan, curve=()).figure()


def test_small_numbers_and_equal_answers_in_text(small_plan):
    """Numbers below what six decimals show keep their digits, one token is no tokens, and a sentence is said once."""
    rows = [Expected("attention", 0.02, 3e-10), Expected("pooled", 5.746e-83, 0.0), Expected("optimal", 3e-7, 1e-8)]
    answers = [
        Answer("samples", name, "impossible", None, "impossible at this strength") for name in ("pooled", "optimal")
    ]
    short = dataclasses.replace(
        small_plan, task=Task(length=1), expected=tuple(rows), answers=tuple(answers), confirmations=()
    )
    text = str(short)
    assert "attention        0.02\n" in text and "5.746e-83" in text and "3.00e-07 ± 1.0e-08" in text
    assert text.count("impossible at this strength") == 1 and "of 1 token in" in text


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((TASK, 15, 100), {}, "n must be"),
        ((TASK, 100, 1), {}, "d must be"),
        ((TASK, 10**12, 10**8), {}, "n must be a whole number"),
        ((TASK, 10**9, 100), {}, "n must be at most 100,000 times d for a plan, got 1,000,000,000 bags"),
        ((TASK, 100, 100), {"trials": -1}, "trials must be"),
        ((Task(strength=0.0), 100, 100), {}, "strength"),
        ((Task(strength=1e6), 100, 100), {}, "strength must be at most 1,000 for a plan, got 1e"),
        ((Task(positions="block"), 100, 100), {}, "uniform"),
        ((TASK, 100, 100), {"questions": ["weather"]}, "questions"),
        ((TASK, 100, 100), {"target": 0.7}, "target"),
        ((TASK, 100, 100), {"loss": "hinge"}, "loss"),
    ],
)
def test_plan_refuses(arguments, options, words):
    with pytest.raises(ValueError, match=words):
        plan(*arguments, **options)


def test_plan_command(planned):
    assert planned.code == 0 and planned.printed == f"{planned.plan}\n"
    made = json.loads((planned.folder / "plan.json").read_text())
    assert made == json.loads(json.dumps(planned.plan.to_dict())) and made["d"] == 200
    errors = {(row["learner"], row["n"]): row["value"] for row in made["curve"]}
    assert errors["attention", 800] < errors["attention", 400]
    assert errors["optimal", 400] == pytest.approx(theory.bayes_limit(TASK, 2.0).test_error)
    assert "<svg" in (planned.folder / "plan.svg").read_text()


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


def test_a_plan_shows_itself(small_plan):
    words = repr(small_plan)
    assert words.startswith("Plan(400 bags of 200-dimensional tokens, ") and "\n" not in words and len(words) < 250
    table = small_plan.frame()
    assert table["learner"].tolist() == [row.learner for row in small_plan.expected]
    assert table.set_index("learner")["simulated"].notna().sum() == len({c.learner for c in small_plan.confirmations})
    assert "<table" in small_plan._repr_html_()
    ax = small_plan.plot()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [NAMES[row.learner] for row in small_plan.expected]
    assert small_plan.plot(ax) is ax


def test_losses_that_draws_do_not_resolve_are_bounds(small_plan):
    """Attention's forecast was 5.4e-37 ± 5.4e-37 where the Bayes limit is 1.8e-6."""
    easy = Task(3, 2, 6.69, 0.7)
    found = Outlook(Criterion.of("error")).measured("attention", easy, 77.2)
    assert found.loss == RESOLVED and found.standard_error >= RESOLVED / 2
    assert Measured(2 * RESOLVED, 0.0).resolved() == Measured(2 * RESOLVED, 0.0)
    assert Measured(0.0, float("nan")).resolved() == Measured(RESOLVED, RESOLVED / 2)
    first, *others = small_plan.expected
    assert first.learner == "attention" and not first.bound
    shown = str(
        dataclasses.replace(small_plan, expected=(dataclasses.replace(first, value=RESOLVED, bound=True), *others))
    )
    assert "attention        at most 0.0001   (ridge" in shown
