"""`fit` as a user types it: damaged and odd files, labels kept apart, what is said about the fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.estimators.learners import LEARNERS
from sparsetoken.estimators.persistence import load_model
from tests.helpers import planted_table


def test_labels_may_be_kept_apart(folder, command):
    frame = planted_table()
    frame.drop(columns="label").to_csv(folder / "plain.csv", index=False)
    apart = frame.groupby("bag_id", as_index=False)["label"].first()
    apart.to_csv(folder / "labels.csv", index=False)
    read = read_bags(folder / "plain.csv", labels_file=folder / "labels.csv")
    assert list(read.labels) == list(read_bags(folder / "bags.csv").labels)
    pd.concat([apart, pd.DataFrame({"bag_id": ["bag99"], "label": ["yes"]})]).to_csv(folder / "more.csv", index=False)
    code, _, err = command("fit", folder / "plain.csv", "--labels", folder / "more.csv", "--out", folder / "m.skops")
    assert code == 2 and "'bag99', which is not among the bags" in err and err.count("\n") == 1
    assert not (folder / "m.skops").exists()


def break_nan(frame):
    frame.loc[7, "f2"] = np.nan
    return f"NaN: bag '{frame.bag_id[7]}'"


def break_label(frame):
    frame.loc[1, "label"] = {"no": "yes", "yes": "no"}[frame.label[0]]
    return "bag 'bag0' has more than one label"


def break_missing_label(frame):
    frame.loc[frame.bag_id == "bag3", "label"] = None
    return "bag 'bag3' has no label"


def break_one_class(frame):
    frame["label"] = "yes"
    return "only one class: 'yes'"


def break_words(frame):
    frame["f1"] = frame["f1"].astype(object)
    frame.loc[4, "f1"] = "high"
    return "column 'f1' of"


def break_id(frame):
    frame.loc[5, "bag_id"] = None
    return "row 6 of"


@pytest.mark.parametrize(
    "damage",
    [break_nan, break_label, break_missing_label, break_one_class, break_words, break_id],
    ids=lambda f: f.__name__,
)
def test_a_damaged_table_ends_in_one_line_that_names_the_bag(damage, tmp_path, command):
    frame = planted_table()
    words = damage(frame)
    frame.to_csv(tmp_path / "bags.csv", index=False)
    code, _, err = command("fit", tmp_path / "bags.csv", "--out", tmp_path / "model.skops")
    assert code == 2 and words in err and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / "model.skops").exists()


def test_files_that_are_none(folder, command):
    (folder / "empty.csv").write_text("")
    (folder / "text.npz").write_text("not a zip")
    (folder / "cut.csv.gz").write_bytes((folder / "new.csv.gz").read_bytes()[:200])
    np.savez(folder / "objects.npz", tokens=np.array([{"a": 1}], dtype=object), bag=[1])
    (folder / "bags.txt").write_text("x")
    for name in ("missing.csv", "empty.csv", "text.npz", "cut.csv.gz", "objects.npz", "bags.txt"):
        code, _, err = command("evaluate", folder / name)
        assert code == 2 and name in err and err.count("\n") == 1
    for arguments, words in (
        (
            ("fit", folder / "bags.csv", "--bag", "nobag", "--out", folder / "m"),
            "for the bag ids (--bag)",
        ),
        (
            ("fit", folder / "bags.csv", "--label", "nolabel", "--out", folder / "m"),
            "for the labels (--label)",
        ),
        (("fit", folder / "bags.csv", "--out", folder / "no" / "m"), "does not exist"),
        (("fit", folder / "bags.csv", "--model", "deep", "--out", folder / "m"), "--model must be one of"),
        (("evaluate", folder / "bags.csv", "-m", "deep"), "there is no learner 'deep'"),
        (("evaluate", folder / "bags.csv", "--folds", 1), "folds must lie between"),
        (
            ("evaluate", folder / "bags.csv", "--plot", folder / "p.bmp", "--folds", 2, "-m", "pooled"),
            "p.bmp must end in .png, .pdf, .svg",
        ),
        (("predict", folder / "bags.csv", folder / "bags.csv"), "not a model file"),
    ):
        code, _, err = command(*arguments)
        assert code == 2 and words in err and err.count("\n") == 1, err


def test_help_lists_the_learners_there_are(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _ = command("fit", "--help")
    assert code == 0 and all(name in out for name in LEARNERS if not LEARNERS[name].baseline)


def test_a_fit_in_words(folder, command):
    arguments = ("fit", folder / "bags.csv", "-m", "pooled", "-o", folder / "m.skops")
    code, out, err = command(*arguments)
    assert code == 0 and out.startswith("held-out error ") and "AUC 0." in out and "95% interval" in out
    assert "log loss" in out and "ridge" not in out and "carry the signal" not in out
    assert out.index("training accuracy") < out.index("fitted to") and err.startswith("model written to")
    assert "ridge: " in command(*arguments, "--verbose")[1]


def test_which_class_carries_the_signal_is_said(folder, command):
    """As far as it was tested: a staged query takes the class whose tokens spread more; a user's word needs no sentence."""
    arguments = ("fit", folder / "bags.csv", "-o", folder / "m.skops", "-m")
    code, out, _ = command(*arguments, "attention")
    assert code == 0 and "bags of class yes are taken to carry the signal (not tested;" in out
    code, out, _ = command(*arguments, "bag-classifier", "--positive-label", "yes")
    assert code == 0 and "carry the signal" not in out


def test_the_class_that_carries_the_signal_can_be_given(folder, command):
    arguments = ("fit", folder / "bags.csv", "-m", "attention", "-o", folder / "m.skops", "--positive-label")
    assert command(*arguments, "no")[0] == 0
    assert load_model(folder / "m.skops").positive_label == "no"
    table = planted_table()
    table.assign(label=table["label"].map({"no": 3, "yes": 7})).to_csv(folder / "numbers.csv", index=False)
    code, _, err = command(*("fit", folder / "numbers.csv", *arguments[2:]), "3")
    assert code == 0 and load_model(folder / "m.skops").positive_label == 3, err  # a number, as the labels are
    for wrong, words in (
        ((*arguments, "maybe"), "--positive-label must be a label of the file, such as no, got 'maybe'"),
        ((*arguments, "yes", "-m", "pooled"), "pooled does not"),
    ):
        code, _, err = command(*wrong)
        assert code == 2 and words in err and err.count("\n") == 1, err


def test_where_held_out_bags_do_not_decide_no_class_is_named(folder, command):
    """Musk1: either class explains the labels alike, and the inner folds decide which one looks better."""
    musk = Path(__file__).parents[1] / "data" / "musk1.csv.gz"
    code, out, _ = command("fit", musk, "-o", folder / "m.skops")
    assert code == 0 and "bags of either class may carry the signal" in out and "seem to carry the signal" not in out
    code, out, _ = command("fit", folder / "bags.csv", "-o", folder / "m.skops")
    assert code == 0 and "bags of class yes seem to carry the signal" in out


@pytest.mark.parametrize("treatment", ["drop-token", "impute"])
def test_missing_values_are_refused_or_treated(folder, command, treatment):
    table = planted_table()
    table.loc[7, "f2"] = np.nan
    table.to_csv(folder / "gaps.csv", index=False)
    arguments = ("fit", folder / "gaps.csv", "-m", "attention", "-o", folder / "m.skops")
    code, _, err = command(*arguments)
    assert code == 2 and "--missing" in err
    assert command(*arguments, "--missing", treatment)[0] == 0
    assert command("predict", folder / "m.skops", folder / "gaps.csv")[0] == 0
    quick = ("evaluate", folder / "gaps.csv", "-m", "attention", "--folds", 2, "--repeats", 1, "--missing", treatment)
    assert command(*quick)[0] == 0
    code, _, err = command(*arguments, "--missing", "forget")
    assert code == 2 and "missing must be 'error'" in err


def test_bags_that_are_all_equal(tmp_path, command):
    """Half of them are right by chance, and the warning says why none was held out."""
    rows = [f"b{k // 3},{k // 3 % 2},1,2" for k in range(60)]
    (tmp_path / "equal.csv").write_text("\n".join(["bag_id,label,x,y", *rows]) + "\n")
    code, out, err = command("fit", tmp_path / "equal.csv", "-o", tmp_path / "m.skops")
    assert code == 0 and "training accuracy 50.0%" in out and "equal bags count as one" in err
