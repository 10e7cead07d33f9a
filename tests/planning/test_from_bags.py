"""Plans from bags: what leads, what stands without the theory, the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.planning import Criterion, Expected, Outlook, plan_for_bags
from sparsetoken.planning.forecast_checks import MOST_KINDS
from sparsetoken.planning.from_bags import _reasons
from sparsetoken.planning.progress import Stages
from sparsetoken.planning.tuning import staged_classifier
from sparsetoken.simulation.samplers.tensor import sample_bags
from tests.planning.bags import TRUTH


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


def test_unknown_labels_are_refused():
    with pytest.raises(ValueError, match="the labels must be known: some are NaN"):
        plan_for_bags(np.zeros((12, 2, 3)), [np.nan, *(0.0, 1.0) * 5, 0.0], theory=False)
