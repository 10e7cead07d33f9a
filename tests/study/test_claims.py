"""Verdicts on synthetic tables: each verdict is reachable, and the stated error rates hold."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.study.claims import (
    Claim,
    Judgement,
    NotJudgeable,
    claim,
    in_words,
    ledger,
    ledger_table,
    need,
    range_tested,
)
from sparsetoken.study.criteria import (
    LEVEL,
    LineFit,
    equal_verdict,
    fit_line,
    greater_verdict,
    judge_agreement,
    judge_slope,
    named_criterion,
    quantile,
    within_verdict,
    worst,
)


def simulated(offset=0.0, noise=0.01, repeats=20, sizes=(100, 200), seed=0, bias=2.0):
    rng = np.random.default_rng(seed)
    rows = [
        {"x": x, "d": d, "value": x + offset + bias / d + noise * rng.standard_normal()}
        for x in (1.0, 2.0, 3.0)
        for d in sizes
        for _ in range(repeats)
    ]
    return pd.DataFrame(rows)


THEORY = pd.DataFrame({"x": [1.0, 2.0, 3.0], "value": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (simulated(), "confirmed"),
        (simulated(offset=0.2), "refuted"),
        (simulated(noise=1.0), "undecided"),
        (simulated(offset=50.0, noise=1.0), "refuted"),  # noisy, but far beyond the noise
        (simulated(sizes=(200,), bias=20.0), "refuted"),  # one size: the bias of finite d counts as disagreement
        (simulated(sizes=(200,), bias=0.0), "confirmed"),
    ],
)
def test_agreement_reaches_every_verdict(table, verdict):
    assert judge_agreement(table, THEORY, "value", ["x"], resolution=0.1).verdict == verdict


def test_agreement_relative_to_the_value():
    table = simulated(noise=0.02)
    assert judge_agreement(table, THEORY, "value", ["x"], resolution=0.2, relative=True).verdict == "confirmed"
    assert judge_agreement(table, THEORY, "value", ["x"], resolution=0.001, relative=True).verdict == "undecided"


def test_a_missing_prediction_is_not_passed_over():
    with pytest.raises(NotJudgeable, match="2 of 3"):
        judge_agreement(simulated(), THEORY.head(2), "value", ["x"], resolution=0.1)


def test_the_rate_of_false_refutations_is_the_stated_one(monkeypatch):
    """At a level of 0.2 and exact agreement, refutations stay near or below 20 % (five standard errors: 1e-6)."""
    monkeypatch.setattr("sparsetoken.study.criteria.LEVEL", 0.2)
    runs = 200
    verdicts = [
        judge_agreement(simulated(repeats=4, seed=s), THEORY, "value", ["x"], resolution=9.0).verdict
        for s in range(runs)
    ]
    share = verdicts.count("refuted") / runs
    assert share < 0.2 + 5 * np.sqrt(0.2 * 0.8 / runs)
    assert share > 0.05  # and the test has teeth: it is not passed by never refuting


def test_elementary_verdicts():
    assert equal_verdict(0.5, 1.0, 2.0) == "confirmed"
    assert equal_verdict(-1.5, 1.0, 2.0) == "refuted"
    assert equal_verdict(0.5, 3.0, 2.0) == "undecided"
    assert equal_verdict(np.nan, 1.0, 2.0) == equal_verdict(0.0, np.nan, 2.0) == "undecided"
    assert greater_verdict(2.0, 1.0) == "confirmed"
    assert greater_verdict(-2.0, 1.0) == "refuted"
    assert greater_verdict(0.5, 1.0) == greater_verdict(1.0, np.nan) == "undecided"
    assert worst(["confirmed", "undecided", "refuted"]) == "refuted"
    assert worst(["confirmed", "undecided"]) == "undecided"
    assert worst(["confirmed"]) == "confirmed"
    assert worst([]) == "undecided"


def test_quantile_widens_with_points_and_with_few_trials():
    assert quantile() == pytest.approx(3.2905, abs=1e-3)  # two-sided normal at 0.1 %
    assert LEVEL == 1e-3
    assert quantile(10) > quantile() and quantile(1, 3.0) > quantile(1, 30.0) > quantile()


def test_line_fit_and_its_errors():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    fit = fit_line(x, 1.0 + 2.0 * x, np.full(4, 0.1))
    assert (fit.slope, fit.intercept) == (pytest.approx(2.0), pytest.approx(1.0))
    assert fit.slope_error == pytest.approx(0.1 / np.sqrt(5.0))  # sigma / sqrt(sum (x - mean)^2)
    slopes = [fit_line(x, 2.0 * x + 0.1 * np.random.default_rng(s).standard_normal(4)).slope for s in range(300)]
    assert np.std(slopes) == pytest.approx(0.1 / np.sqrt(5.0), rel=0.25)


@pytest.mark.parametrize(
    ("measured", "error", "verdict"),
    [(0.51, 0.005, "confirmed"), (0.6, 0.005, "refuted"), (0.5, 0.05, "undecided")],
)
def test_one_number(measured, error, verdict):
    assert judge_slope(LineFit(measured, error, 0.0, 0.0), 0.5, resolution=0.02).verdict == verdict


@pytest.mark.parametrize(
    ("exponent", "noise", "verdict"), [(-1.0, 0.01, "confirmed"), (-0.5, 0.01, "refuted"), (-1.0, 1.0, "undecided")]
)
def test_slope_criterion(exponent, noise, verdict):
    rng = np.random.default_rng(1)
    x = np.repeat([1.0, 2.0, 4.0, 8.0], 20)
    table = pd.DataFrame({"x": x, "value": x**exponent * np.exp(noise * rng.standard_normal(len(x)))})
    criterion = named_criterion(
        {"kind": "slope", "table": "t", "x": "x", "value": "value", "slope": -1, "resolution": 0.1}
    )
    assert criterion.judge({"t": table}).verdict == verdict


@pytest.mark.parametrize(("gap", "verdict"), [(1.0, "confirmed"), (-1.0, "refuted"), (0.0, "undecided")])
def test_below_criterion(gap, verdict):
    rng = np.random.default_rng(2)
    rows = [
        {"model": model, "x": x, "value": shift + 0.1 * rng.standard_normal()}
        for model, shift in (("a", 0.0), ("b", gap))
        for x in (1, 2)
        for _ in range(10)
    ]
    parameters = {
        "kind": "below",
        "table": "t",
        "value": "value",
        "column": "model",
        "low": "a",
        "high": "b",
        "on": ["x"],
    }
    assert named_criterion(parameters).judge({"t": pd.DataFrame(rows)}).verdict == verdict


def test_single_trials_have_no_margin_and_decide_nothing():
    table = pd.DataFrame({"model": ["a", "b"], "value": [1.0, 2.0]})
    parameters = {"kind": "below", "table": "t", "value": "value", "column": "model", "low": "a", "high": "b"}
    assert named_criterion(parameters).judge({"t": table}).verdict == "undecided"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kind": "magic"}, "criterion kind must be one of"),
        ({}, "criterion kind must be one of"),
        ({"kind": "slope", "table": "t"}, "needs x, value, slope, resolution"),
        ({"kind": "slope", "table": "t", "x": "x", "value": "v", "slope": 1, "resolution": 1, "bogus": 2}, "bogus"),
        ({"kind": "slope", "table": "t", "x": "x", "value": "v", "slope": "up", "resolution": 1}, "slope must be"),
        (
            {"kind": "agreement", "table": "t", "theory": "t", "value": "v", "on": "x", "resolution": 1},
            "on must be a list",
        ),
        ({"kind": "agreement", "table": "t", "theory": "t", "value": "v", "on": ["x"], "resolution": 0}, "resolution"),
        ({"kind": "below", "table": 3, "value": "v", "column": "m", "low": 1, "high": 2}, "table must be text"),
    ],
)
def test_bad_criteria(parameters, message):
    with pytest.raises(ValueError, match=message):
        named_criterion(parameters)


def test_missing_tables_leave_a_claim_undecided_and_say_why():
    claim = Claim("c", "s", "r", lambda tables: need(tables, "none") and Judgement("confirmed", "", ""))
    (row,) = ledger("study", [claim], {"none": pd.DataFrame()})
    assert row.judgement.verdict == "undecided" and not row.problem
    assert "table 'none' is empty" in row.judgement.note
    assert not row.as_recorded
    assert ledger_table([row])["verdict"].tolist() == ["undecided"]


def test_a_broken_criterion_is_a_bug_and_is_seen(monkeypatch):
    broken = Claim("c", "s", "r", lambda tables: 1 / 0, expected="undecided")
    sound = Claim("d", "s", "r", lambda tables: Judgement("confirmed", "", ""))
    with pytest.raises(ZeroDivisionError):
        broken.judge({})
    first, second = ledger("study", [broken, sound], {})
    assert first.problem == "claim 'c' of study 'study': ZeroDivisionError: division by zero"
    assert not first.as_recorded  # although it was recorded as undecided
    assert second.as_recorded and not second.problem
    monkeypatch.setenv("SPARSETOKEN_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        ledger("study", [broken], {})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"kind": "agreement", "table": "t", "theory": "t", "value": "valu", "on": ["x"], "resolution": 1},
            "column 'valu'",
        ),
        (
            {"kind": "agreement", "table": "t", "theory": "u", "value": "value", "on": ["x"], "resolution": 1},
            "no table 'u'",
        ),
        ({"kind": "slope", "table": "t", "x": "z", "value": "value", "slope": 1, "resolution": 1}, "column 'z'"),
        (
            {"kind": "slope", "table": "t", "x": "x", "value": "value", "slope": 1, "resolution": 1, "where": {"q": 1}},
            "column 'q'",
        ),
        ({"kind": "below", "table": "t", "value": "value", "column": "m", "low": 1, "high": 2}, "column 'm'"),
    ],
)
def test_what_a_criterion_misnames_is_an_error_and_not_undecided(parameters, message):
    claim = Claim("c", "s", "", named_criterion(parameters).judge, expected="undecided")
    (row,) = ledger("study", [claim], {"t": THEORY})
    assert message in row.problem and not row.as_recorded


def test_a_row_of_the_ledger_says_where_its_claim_was_tested():
    runs = pd.DataFrame(
        {"length": 10, "alpha0": 2.0, "alpha1": [0.5, 1.0, 2.0, 8.0], "d": [150, 300] * 2, "test_error": 0.1}
    )
    tables = {"runs": runs, "theory": runs.drop(columns="d").assign(alpha1=1e7), "other": runs.assign(length=99)}

    def tested(*names):
        claim = Claim("c", "s", "r", lambda seen: [seen[n] for n in names] and Judgement("confirmed", "", ""))
        return ledger("study", [claim], tables)[0].tested

    assert tested("runs") == tested("runs", "theory") == "L = 10; α₀ = 2; α₁ from 0.5 to 8; d = 150, 300"
    assert tested("theory") == "L = 10; α₀ = 2; α₁ = 10⁷; theory"
    assert tested() == ""
    steps = runs.drop(columns="test_error").assign(cosine_q=0.5)
    assert range_tested([steps]) == "L = 10; α₀ = 2; d = 150, 300"  # the two steps do not read alpha1


def test_verdicts_and_sources_are_checked():
    with pytest.raises(ValueError, match="source of claim c must be one of paper, commonly stated, ours, yours"):
        Claim("c", "s", "r", lambda tables: Judgement("confirmed", "", ""), "mine")
    with pytest.raises(ValueError, match="verdict must be one of"):
        Judgement("maybe", "", "")
    with pytest.raises(ValueError, match="expected verdict of c"):
        Claim("c", "s", "r", lambda tables: Judgement("confirmed", "", ""), expected="true")


@pytest.mark.parametrize(
    ("difference", "margin", "verdict"),
    [
        (0.1, 0.1, "confirmed"),
        (-0.1, 0.1, "confirmed"),
        (0.15, 0.1, "undecided"),
        (-0.4, 0.1, "refuted"),
        (np.nan, 0.1, "undecided"),
    ],
)
def test_within_a_tolerance(difference, margin, verdict):
    assert within_verdict(difference, margin, 0.2) == verdict


def test_a_criterion_s_docstring_states_its_claim():
    @claim("c", {"source": "ours", "reference": "here"}, expected="refuted")
    def made(tables):
        """Attention
        wins.

        Error below pooling's; resolution
        0.1.
        """
        return Judgement("confirmed", "1", "2")

    assert isinstance(made, Claim) and (made.statement, made.rule) == (
        "Attention wins",
        "Error below pooling's; resolution 0.1",
    )
    assert made.cited == "ours, here" and made.expected == "refuted" and made({}).verdict == "confirmed"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("alpha1", 0.5, "α₁ = 0.5"),
        ("rates", '{"bias": 2.0, "w": 4.0}', "rates = bias: 2.0, w: 4.0"),
        ("rates", {"w": 1.0, "bias": 0.5}, "rates = w 1, bias 0.5"),
        ("test_samples", 10, "test samples = 10"),
    ],
)
def test_columns_and_values_in_words(name, value, words):
    assert in_words(name, value) == words
