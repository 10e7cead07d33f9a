"""The plan as a whole, in Python and as a command."""

from __future__ import annotations

import dataclasses
import json

import pytest

from sparsetoken import Task, plan, theory
from sparsetoken.planning import Answer, Expected, Outlook
from sparsetoken.plotting.style import label

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


def test_the_answer_comes_first(small_plan):
    text = str(small_plan)
    lines = text.splitlines()
    assert lines[0].startswith("Expected test error with 400 bags: attention 0.03")
    assert lines[2].startswith("Use message passing (MessagePassingClassifier)")
    assert "The target of 0.1 is met by attention and message passing." in " ".join(lines[2:4])
    assert text.index("Use message passing") < text.index("Best settings") < text.index("impossible for pooled")
    thumb = small_plan.rule_of_thumb
    assert " ".join(text.split()).count(thumb) == 1 and "a spectral start needs about" in thumb
    assert dataclasses.replace(small_plan, task=Task(length={5: 0.5, 10: 0.5})).rule_of_thumb == ""
    plain = json.loads(json.dumps(small_plan.to_dict()))
    assert plain["settings"]["n0"] + plain["settings"]["n1"] == 400 and plain["advice"] == small_plan.advice
    assert Task.from_dict(plain["task"]) == TASK
    with pytest.raises(ValueError, match="no learning curves"):
        dataclasses.replace(small_plan, curve=()).figure()


def test_no_limit_is_printed_as_a_promise(small_plan):
    """Message passing is simulated at n and d; where it cannot be, its number is called a limit."""
    rows = {row.learner: row for row in small_plan.expected}
    assert rows["message_passing"].kind == "finite size" and rows["message_passing"].simulated is not None
    assert rows["message_passing"].spread > 0  # from one data set to the next
    assert rows["message_passing"].limit == theory.bayes_limit(TASK, 2.0).reachable_test_error
    assert rows["optimal"].kind == "limit"
    assert all(row.standard_error > 0 for row in small_plan.expected)  # the remainder of order 1/d included
    unknown = dataclasses.replace(rows["message_passing"], kind="limit", simulated=None)
    text = str(dataclasses.replace(small_plan, expected=(*small_plan.expected[:3], unknown, rows["optimal"])))
    assert "(limit)" in text and "no finite-size forecast" in text
    assert "Use attention with the settings below." in text  # advice does not rest on a limit


def test_small_numbers_and_equal_answers_in_text(small_plan):
    """Numbers below what six decimals show keep their digits, one token is no tokens, and a sentence is said once."""
    rows = [
        Expected("attention", 1e-4, 5e-5, "bound"),
        Expected("pooled", 5.746e-83, 1e-84),
        Expected("optimal", 3e-7, 1e-8, "limit"),
    ]
    answers = [Answer("n", name, "impossible", None, "impossible at this strength") for name in ("pooled", "optimal")]
    short = dataclasses.replace(small_plan, task=Task(length=1), expected=tuple(rows), answers=tuple(answers))
    text = str(short)
    assert "attention        at most 0.0001" in text and "5.7e-83" in text and "3.00e-07 ± 1.0e-08" in text
    assert text.count("impossible at this strength") == 1 and "of 1 token in" in text


@pytest.mark.slow
def test_no_target_that_nobody_asked_for():
    """Without a target there are no questions about one, and no word of it."""
    made = plan(Task(5, 1, 6.0), 100, 20, questions=())
    assert made.target is None and not made.answers and "target" not in str(made)
    with pytest.raises(ValueError, match="target must be given"):
        plan(Task(5, 1, 6.0), 100, 20, questions=["samples"])


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((TASK, 15, 100), {}, "n must be"),
        ((TASK, 100, 1), {}, "d must be"),
        ((TASK, 10**12, 10**8), {}, "n must be a whole number"),
        ((TASK, 10**9, 100), {}, "n must be at most 100,000 times d for a plan, got 1,000,000,000 bags"),
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
    assert table.set_index("learner")["simulated"].notna().sum() == 4
    assert "<table" in small_plan._repr_html_()
    ax = small_plan.plot()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [label(row.learner) for row in small_plan.expected]
    assert small_plan.plot(ax) is ax


def test_samples_needed_lead_to_the_target(small_plan):
    answers = {a.learner: a for a in small_plan.answers}
    assert answers["pooled"].status == "impossible"  # known direction: 0.2146
    limit = theory.bayes_limit(TASK, answers["message_passing"].value / 200).reachable_test_error
    assert limit < 0.8 * 0.1  # so few bags are far from the limit, and more of them are needed
    n = answers["attention"].value
    assert Outlook(d=200).measured("attention", TASK, n / 200).loss == pytest.approx(0.1, rel=0.1)
