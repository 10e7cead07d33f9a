"""Plans from bags: the estimated task, the checked forecasts, the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import Bags, Task
from sparsetoken.planning import Criterion, Expected, Outlook, estimate, plan_for_bags
from sparsetoken.planning.estimate import effective_dimension, law_of_lengths, strength_behind
from sparsetoken.planning.forecast_checks import MOST_KINDS, check_forecasts
from sparsetoken.planning.from_bags import _reasons
from sparsetoken.planning.progress import Stages
from sparsetoken.planning.tuning import staged_classifier
from sparsetoken.simulation.samplers.tensor import sample_bags
from sparsetoken.theory import bayes_limit
from tests.helpers import DATA

TRUTH = Task(length=10, strength=5.0)


@pytest.fixture(scope="module")
def drawn():
    tokens, labels, _ = sample_bags(TRUTH, 240, 60, seed=2)
    return tokens, labels


@pytest.fixture(scope="module")
def checked(drawn):
    """A plan for the drawn bags, checked on fewer learners than usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsetoken.planning.forecast_checks.CHECKED", ("pooled", "message_passing"))
        return plan_for_bags(*drawn, questions=(), curve=False, repetitions=3, target=0.1, budget=8.0)


def test_drawn_bags_give_back_their_task(drawn):
    """Four standard errors (about one false alarm in 10,000 with exact errors; six groups make them uncertain)."""
    found = estimate(*drawn)
    assert found.task.length == 10 and found.task.sparsity == 1 and found.signal_found and not found.remarks
    assert abs(found.task.strength - 5.0) < 4 * found.strength_error
    assert 0.02 < found.strength_error < 0.5
    assert abs(found.task.prevalence - 0.5) < 4 * found.prevalence_error
    assert found.dimension == pytest.approx(60, rel=0.03)


def test_several_signal_tokens_and_scaled_features_are_recognised():
    """Units of measurement and an offset of every feature change nothing."""
    truth = Task(length=12, sparsity=2, strength=4.0, prevalence=0.4)
    tokens, labels, _ = sample_bags(truth, 240, 40, seed=5)
    scale = np.geomspace(0.01, 100, 40)
    found = estimate(3.0 * scale + scale * tokens, np.where(labels > 0, "yes", "no"))
    assert found.task.sparsity == 2
    assert abs(found.task.strength - 4.0) < 4 * found.strength_error


def _mixed(parts: list[tuple[int, int, int, float]], d: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    """Bags of several kinds (bags, L, R, theta) with one signal direction."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(d)
    signal /= np.linalg.norm(signal)
    bags, labels = [], []
    for count, length, sparsity, strength in parts:
        for i in range(count):
            tokens = rng.standard_normal((length, d))
            if i % 2:
                tokens[rng.choice(length, sparsity, replace=False)] += strength * signal
            bags.append(tokens)
            labels.append(i % 2)
    return bags, np.array(labels)


def test_bags_that_differ_are_seen_to_differ_and_others_not(drawn):
    alike = estimate(*drawn)
    assert alike.length_law == ((10, 1.0),) and alike.sparsity_law == ((1, 1.0),)
    assert alike.strength_law == ((alike.task.strength, 1.0),)
    lengths = estimate(*_mixed([(150, 5, 1, 5.0), (150, 20, 1, 5.0)]))
    assert lengths.length_law == ((5, 0.5), (20, 0.5)) and len(lengths.strength_law) == 1
    strengths = dict(estimate(*_mixed([(150, 10, 1, 3.0), (150, 10, 1, 6.0)])).strength_law)
    assert sum(strengths.values()) == pytest.approx(1.0)
    mean = sum(v * p for v, p in strengths.items())
    deviation = sum((v - mean) ** 2 * p for v, p in strengths.items()) ** 0.5
    assert mean == pytest.approx(4.5, rel=0.1) and deviation == pytest.approx(1.5, rel=0.3)
    counts = dict(estimate(*_mixed([(150, 12, 1, 4.5), (150, 12, 5, 4.5)])).sparsity_law)
    assert counts[1] == pytest.approx(0.5, abs=0.1) and sum(p for c, p in counts.items() if c >= 4) > 0.35


def test_many_lengths_become_few():
    law = law_of_lengths(np.arange(1, 1001))
    assert len(law) == 12 and sum(p for _, p in law) == pytest.approx(1.0)
    assert sum(v * p for v, p in law) == pytest.approx(500.5, rel=0.01)


def test_kinds_are_limited_by_putting_lengths_together(drawn):
    alike = estimate(*drawn)
    assert alike.differing_task() == alike.differing_task(2) == alike.task
    several = replace(
        alike,
        length_law=tuple((10 + k, 1 / 12) for k in range(12)),
        sparsity_law=((1, 0.5), (12, 0.5)),
        strength_law=((4.0, 0.5), (6.0, 0.5)),
    )
    whole, few = several.differing_task(), several.differing_task(20)
    assert len(whole.kinds) == 40 and len(few.kinds) == 20  # lengths below 12 are raised to the signal's 12
    assert few.mean_length == pytest.approx(whole.mean_length, rel=0.03)
    assert few.strength == whole.strength and few.sparsity == whole.sparsity
    assert len(several.differing_task(1).kinds) == 8  # no fewer than two lengths


@pytest.fixture(scope="module")
def unlike():
    """Bags of two lengths and two strengths, and their estimate."""
    bags, labels = _mixed([(150, 6, 1, 3.0), (150, 24, 1, 7.0)], d=40)
    return bags, labels, estimate(bags, labels)


def test_the_theory_takes_bags_as_they_differ(unlike, monkeypatch):
    """The checked forecast is that of the differing task, and holds; bags all alike would promise far too much."""
    bags, labels, found = unlike
    assert len(found.strength_law) > 1 and len(found.length_law) == 2
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.CHECKED", ("message_passing",))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.FRACTIONS", (0.5,))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.EXTRAPOLATED", ())
    monkeypatch.setattr("sparsetoken.planning.forecast_checks._calibrated", lambda *arguments: None)
    (check,), more = check_forecasts(Bags(bags), labels, found, Criterion("error"), 4, lambda words: None)
    assert not more and check.agrees(check.forecast), check
    alike = Outlook(Criterion("error"), d=40).measured("message_passing", found.task, check.n / 40).loss
    assert alike < 0.6 * check.forecast


def test_the_plan_is_for_bags_as_they_differ(unlike, monkeypatch):
    bags, labels, found = unlike
    asked = []

    def stopped(task, *arguments, **options):
        asked.append(task)
        raise ArithmeticError("enough")

    monkeypatch.setattr("sparsetoken.planning.from_bags.plan", stopped)
    monkeypatch.setattr("sparsetoken.planning.from_bags.estimate", lambda *arguments: found)
    with pytest.raises(ArithmeticError, match="enough"):
        _reasons(Bags(bags), labels, 300, Criterion("error"), 0.1, (), False, 0, 1, Stages(None, {}))
    assert asked == [found.differing_task(MOST_KINDS)] and len(asked[0].kinds) > 2


def test_noise_is_not_taken_for_signal():
    rng = np.random.default_rng(3)
    found = estimate(rng.standard_normal((60, 6, 30)), np.repeat([0, 1], 30))
    assert not found.signal_found
    assert any("no signal" in remark for remark in found.remarks)


def test_effective_dimension_counts_independent_directions():
    rng = np.random.default_rng(1)
    assert effective_dimension(rng.standard_normal((4000, 50))) == pytest.approx(50, rel=0.03)
    few = np.mean(
        [effective_dimension(rng.standard_normal((60, 200)) @ np.diag([1.0] * 20 + [0.0] * 180)) for _ in range(20)]
    )
    assert few == pytest.approx(20, rel=0.1)
    copies = np.repeat(rng.standard_normal((2000, 5)), 8, axis=1)
    assert effective_dimension(copies) == pytest.approx(5, rel=0.03)


def test_strength_behind_inverts_the_theory():
    task = Task(strength=3.3)
    seen = 3.3 * bayes_limit(task, 2.0).reachable_overlap ** 0.5
    assert strength_behind(task.but(strength=1.0), seen, 2.0) == pytest.approx(3.3, rel=0.01)


def test_forecasts_hold_on_drawn_bags(checked):
    """Three (generous) standard errors at six places that share their bags: at most one false alarm in fifty draws of bags."""
    found = checked.reasons
    assert found.trust == "forecast"
    assert {check.learner for check in found.checks} == {"pooled", "message_passing"}
    errors = {(check.learner, check.n): check.measured for check in found.checks}
    assert errors["pooled", 192] > errors["message_passing", 192]
    assert [row["n"] for row in found.more if row["learner"] == "pooled"] == [240, 480, 960]
    for check in found.checks:
        assert abs(check.forecast - check.measured) < 3 * check.standard_error, check
        if check.fitted:
            assert check.calibrated == pytest.approx(check.measured, abs=0.01)
    text, plain = str(checked), json.loads(json.dumps(checked.to_dict()))
    assert "look to the theory like" in text and "rely on: forecast" in text
    assert plain["reasons"]["estimate"]["task"]["length"] == 10 and len(plain["reasons"]["checks"]) == 6


def test_the_default_learner_comes_first(drawn, checked):
    """Error now and bags needed lead, and agree with what the learner does on fresh bags."""
    from sparsetoken import BagClassifier

    tokens, labels = drawn
    fresh, truth, _ = sample_bags(TRUTH, 2240, 60, seed=2)  # the same seed has the same signal direction
    assert np.array_equal(fresh[:240], tokens)
    model = BagClassifier().fit(tokens, labels)
    error = float(np.mean((model.decision_function(fresh[240:]) > 0) != (truth[240:] > 0)))
    assert checked.now.low <= error <= checked.now.high
    assert checked.learner == "BagClassifier" and checked.needed.status == "met"
    lines = str(checked).splitlines()
    assert lines[0].startswith("With 240 bags, BagClassifier (what `fit` uses) has a test error of about 0.0")
    assert max(map(len, lines)) <= 80
    assert not checked.beyond_theory  # on the theory's own bags nobody is
    plain = replace(checked.reasons.plan, expected=(Expected("optimal", 0.2, 0.0),), confirmations=())
    better = replace(checked, reasons=replace(checked.reasons, plan=plain))
    assert better.beyond_theory and "better already than the theory's limit for such bags (0.200)" in str(better)
    assert list(checked.to_dict())[:4] == ["learner", "n", "now", "needed"]
    assert checked.figure().axes[0].get_ylabel() == "test error"


def test_the_answer_stands_without_the_theory():
    """Bags that the estimate refuses (too few positives) still have a measured answer."""
    rng = np.random.default_rng(0)
    labels = np.arange(40) < 8
    tokens = rng.standard_normal((40, 3, 5))
    tokens[labels, 0] += 4.0
    spoken: list[str] = []
    found = plan_for_bags(tokens, labels, progress=spoken.append, questions=(), budget=4.0)
    assert found.reasons is None and "at least 12 positive" in found.remark
    assert "No reasons" in str(found)
    assert any("fit 3 of" in words for words in spoken) and all(words.endswith("left") for words in spoken)
    alone = plan_for_bags(tokens, labels, theory=False, questions=(), criterion="auc", target=0.9, budget=2.0)
    assert alone.remark == "" and "AUC" in str(alone) and alone.now.low <= alone.now.value <= alone.now.high <= 1.0
    with pytest.raises(ValueError, match="target"):
        plan_for_bags(tokens, labels, target=0.3)  # worse than chance
    with pytest.raises(ValueError, match="two classes"):
        plan_for_bags(tokens, np.zeros(40))


def test_a_plan_s_settings_make_its_classifier(drawn, checked):
    """The staged classifier with tuned settings does on fresh bags about what its forecast says (d = 60 is not infinite)."""
    tokens, labels = drawn
    settings = Outlook().attention(TRUTH, 4.0)
    model = staged_classifier(settings, scale=False).fit(tokens, labels)
    fresh, truth, _ = sample_bags(TRUTH, 2000, 60, seed=2)  # the same seed has the same signal direction
    error = float(np.mean((model.decision_function(fresh[240:]) > 0) != (truth[240:] > 0)))
    assert error < 2 * settings.loss
    assert model.get_params()["split"] == pytest.approx(settings.share)
    assert checked.reasons.plan.classifier().get_params()["sharpness"] == checked.reasons.plan.settings.sharpness


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(40), "two classes"),
        (np.arange(40) < 5, "at least 12 positive"),
        (np.zeros(39), "one label per bag"),
    ],
)
def test_estimates_refuse(labels, words):
    with pytest.raises(ValueError, match=words):
        estimate(np.random.default_rng(0).standard_normal((40, 3, 5)), labels)


def test_plan_command_reads_a_file(drawn, checked, tmp_path, command, monkeypatch):
    import pandas as pd

    given = {}

    def planned(bags, labels, **options):
        given.update(bags=bags, labels=labels, **options)
        return checked

    monkeypatch.setattr("sparsetoken.planning.plan_for_bags", planned)
    tokens, labels = drawn
    table = pd.DataFrame(tokens.reshape(-1, 60), columns=[f"f{k}" for k in range(60)])
    table.insert(0, "group", np.repeat(np.arange(240), 10))
    table.insert(1, "outcome", np.repeat(labels, 10))
    path, target = tmp_path / "bags.csv.gz", tmp_path / "plan.json"
    table.to_csv(path, index=False)
    columns = ("--bag", "group", "--label", "outcome")
    code, out, err = command("plan", "--from", path, *columns, "--ask", "none", "--target", 0.1, "--json", target)
    assert code == 0, err
    assert np.allclose(given["bags"].tokens, tokens.reshape(-1, 60)) and np.array_equal(given["labels"], labels)
    assert given["target"] == 0.1 and given["questions"] == ()
    assert "rely on" in out
    assert json.loads(target.read_text())["reasons"]["estimate"]["n"] == 240
    apart = tmp_path / "labels.csv"
    table.groupby("group")["outcome"].first().reset_index().to_csv(apart, index=False)
    columns = ("--bag", "group", "--label", "outcome", "--labels", apart, "--ignore", "f59")
    table.drop(columns="outcome").to_csv(path, index=False)
    code, _, err = command("plan", "--from", path, *columns, "--no-theory", "--budget", 5)
    assert code == 0, err
    assert given["bags"].n_features == 59 and np.array_equal(given["labels"], labels)
    assert given["theory"] is False and given["budget"] == 5
    for wrong, words in ((("--budget", -1), "budget"), (("-d", 5), "dimension")):
        code, _, err = command("plan", "--from", path, *columns, *wrong)
        assert code == 2 and words in err and err.count("\n") == 1
    code, _, err = command("plan", "--from", tmp_path / "nothing.csv")
    assert code == 2 and "nothing.csv" in err


def test_real_bags_are_forecast_by_calibration(monkeypatch):
    """Pooling on musk1: a curve calibrated on half of the bags holds on other sizes."""
    from sparsetoken.bags.files import read_bags

    monkeypatch.setattr("sparsetoken.planning.forecast_checks.CHECKED", ("pooled",))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.FRACTIONS", (0.5, 0.8))
    monkeypatch.setattr("sparsetoken.planning.forecast_checks.EXTRAPOLATED", (1, 4))
    held = read_bags(DATA / "musk1.csv.gz")
    found = estimate(held.bags, held.labels)
    assert found.dimension < 30  # 166 strongly correlated features
    assert any("correlated" in remark for remark in found.remarks)
    checks, more = check_forecasts(held.bags, held.labels, found, Criterion(), 5, lambda words: None)
    assert all(check.agrees(check.calibrated) for check in checks)
    assert [row["n"] for row in more] == [92, 368]


def test_unknown_labels_are_refused():
    with pytest.raises(ValueError, match="the labels must be known: some are NaN"):
        plan_for_bags(np.zeros((12, 2, 3)), [np.nan, *(0.0, 1.0) * 5, 0.0], theory=False)
