"""Plans for bags: the measured answer, whether more bags help, the command."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from sparsetoken.planning import Criterion, Extrapolation, MeasuredCurve, Outlook, plan_for_bags
from sparsetoken.simulation.samplers import sample_bags
from tests.planning.conftest import TRUTH


def test_the_answer_agrees_with_the_learner_on_fresh_bags(drawn, bags_plan):
    from sparsetoken import BagClassifier

    tokens, labels = drawn
    fresh, truth, _ = sample_bags(TRUTH, 2240, 60, seed=2)  # the same seed has the same signal direction
    assert np.array_equal(fresh[:240], tokens)
    model = BagClassifier().fit(tokens, labels)
    error = float(np.mean((model.decision_function(fresh[240:]) > 0) != (truth[240:] > 0)))
    spread = 2 * (error * (1 - error) / 2000) ** 0.5  # of the error measured here
    assert bags_plan.now.low - spread <= error <= bags_plan.now.high + spread
    assert bags_plan.learner == "BagClassifier" and bags_plan.needed.status == "met"
    lines = str(bags_plan).splitlines()
    assert lines[0].startswith("With 240 bags, BagClassifier (the learner of `fit`) achieves a test error of")
    assert max(map(len, lines)) <= 80
    assert list(bags_plan.to_dict())[:4] == ["learner", "n", "now", "needed"]
    assert bags_plan.figure().axes[0].get_ylabel() == "test error"


def measured(losses, n=300, tested=300.0):
    near = tuple(tuple(0.8 ** abs(i - j) for j in range(4)) for i in range(4))
    sizes = tuple(round(part * 0.9 * n) for part in (0.21, 0.36, 0.6, 1.0))
    return Extrapolation(MeasuredCurve(Criterion(), sizes, tuple(losses), near, tested, 0.5, n, 40, 1.0))


def test_bags_that_do_not_help_are_not_advised(bags_plan):
    flat = replace(bags_plan, n=300, curve=measured([0.34, 0.345, 0.338, 0.341]), needed=None)
    assert flat.gain_probability < 0.3 and "More bags are unlikely to help" in str(flat)
    steep = replace(flat, curve=measured([0.34, 0.25, 0.17, 0.12]))
    assert steep.gain_probability > 0.9 and "More bags are likely to help" in str(steep)
    aimed = replace(flat, needed=flat.curve.needed(0.15))
    assert aimed.needed.value is None and "More bags are unlikely to reach a target of 0.15" in " ".join(
        str(aimed).split()
    )


def test_what_is_no_better_than_chance_is_said(bags_plan):
    words = "no better than chance: there may be no signal"
    noise = replace(bags_plan, n=300, curve=measured([0.48, 0.52, 0.53, 0.47]))
    assert words in " ".join(str(noise).split()) and words not in " ".join(str(bags_plan).split())


def test_few_bags_have_a_measured_answer():
    rng = np.random.default_rng(0)
    labels = np.arange(40) < 8
    tokens = rng.standard_normal((40, 3, 5))
    tokens[labels, 0] += 4.0
    spoken: list[str] = []
    found = plan_for_bags(tokens, labels, progress=spoken.append, criterion="auc", budget=3.0)
    assert found.needed is None and "AUC" in str(found) and "target" not in str(found)
    assert found.now.low <= found.now.value <= found.now.high <= 1.0
    assert any("fit 3 of" in words for words in spoken) and all(words.endswith("left") for words in spoken)
    with pytest.raises(ValueError, match="target"):
        plan_for_bags(tokens, labels, target=0.3)  # worse than chance
    with pytest.raises(ValueError, match="two classes"):
        plan_for_bags(tokens, np.zeros(40))


def test_a_plan_s_settings_make_its_classifier(drawn):
    """The staged classifier with tuned settings does on fresh bags about what its forecast says (d = 60 is not infinite)."""
    tokens, labels = drawn
    settings = Outlook().settings("attention", TRUTH, 4.0)
    model = settings.classifier(scale=False).fit(tokens, labels)
    fresh, truth, _ = sample_bags(TRUTH, 2000, 60, seed=2)  # the same seed has the same signal direction
    error = float(np.mean((model.decision_function(fresh[240:]) > 0) != (truth[240:] > 0)))
    assert error < 2 * settings.loss
    assert model.get_params()["split"] == pytest.approx(settings.share)


def test_plan_command_reads_a_file(drawn, bags_plan, tmp_path, command, monkeypatch):
    import pandas as pd

    given = {}

    def planned(bags, labels, **options):
        given.update(bags=bags, labels=labels, **options)
        return bags_plan

    monkeypatch.setattr("sparsetoken.planning.plan_for_bags", planned)
    tokens, labels = drawn
    table = pd.DataFrame(tokens.reshape(-1, 60), columns=[f"f{k}" for k in range(60)])
    table.insert(0, "group", np.repeat(np.arange(240), 10))
    table.insert(1, "outcome", np.repeat(labels, 10))
    path, target = tmp_path / "bags.csv.gz", tmp_path / "plan.json"
    table.to_csv(path, index=False)
    columns = ("--bag", "group", "--label", "outcome")
    code, out, err = command("plan", "--from", path, *columns, "--target", 0.1, "--json", target)
    assert code == 0, err
    assert np.allclose(given["bags"].tokens, tokens.reshape(-1, 60)) and np.array_equal(given["labels"], labels)
    assert given["target"] == 0.1 and out.startswith("With 240 bags")
    assert json.loads(target.read_text())["n"] == 240
    apart = tmp_path / "labels.csv"
    table.groupby("group")["outcome"].first().reset_index().to_csv(apart, index=False)
    columns = ("--bag", "group", "--label", "outcome", "--labels", apart, "--ignore", "f59")
    table.drop(columns="outcome").to_csv(path, index=False)
    code, _, err = command("plan", "--from", path, *columns, "--budget", 5)
    assert code == 0, err
    assert given["bags"].n_features == 59 and np.array_equal(given["labels"], labels)
    assert given["budget"] == 5 and given["positive_label"] is None
    chosen = int(labels.min())
    assert command("plan", "--from", path, *columns, f"--positive-label={chosen}")[0] == 0
    assert given["positive_label"] == chosen
    for wrong, words in (
        (("--budget", -1), "budget"),
        (("-d", 5), "dimension"),
        (("--positive-label", "maybe"), "label of the file"),
    ):
        code, _, err = command("plan", "--from", path, *columns, *wrong)
        assert code == 2 and words in err and err.count("\n") == 1
    code, _, err = command("plan", "--from", tmp_path / "nothing.csv")
    assert code == 2 and "nothing.csv" in err


def test_the_learner_is_told_which_class_carries_the_signal(monkeypatch):
    labels_given = []

    def measure(bags, positive, make, *_, **__):
        labels_given.append(make().positive_label)
        raise ArithmeticError("enough")

    module = sys.modules[plan_for_bags.__module__]  # the package has the function under the same name
    monkeypatch.setattr(module, "measure_curve", measure)
    for label in (None, "sick", "well"):
        with pytest.raises(ArithmeticError, match="enough"):
            plan_for_bags(np.zeros((12, 2, 3)), ["sick", "well"] * 6, positive_label=label)
    assert labels_given == [None, False, True]
    with pytest.raises(ValueError, match="positive_label must be None or one of 'sick' and 'well', got 'ill'"):
        plan_for_bags(np.zeros((12, 2, 3)), ["sick", "well"] * 6, positive_label="ill")


def test_unknown_labels_are_refused():
    with pytest.raises(ValueError, match="y must hold a label for every bag, there is none at place 0"):
        plan_for_bags(np.zeros((12, 2, 3)), [np.nan, *(0.0, 1.0) * 5, 0.0])


def test_labels_with_decimals_are_refused_in_words():
    with pytest.raises(ValueError, match="y must hold classes, which are text or whole numbers"):
        plan_for_bags(np.zeros((12, 2, 3)), np.linspace(0.1, 0.9, 12))
