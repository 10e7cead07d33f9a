"""fit, predict, evaluate and explain, as a user types them; files of bags and of models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    Bags,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)
from sparsetoken._core.files import write_bytes
from sparsetoken.bags.files import read_bags
from sparsetoken.estimators.learners import LEARNERS
from sparsetoken.estimators.persistence import FORMAT, load_model, save_model
from tests.helpers import planted_bags


def table(seed: int = 0) -> pd.DataFrame:
    """60 bags of 2 to 9 tokens with five features each, a row per token; `instance_label` marks the planted tokens."""
    rows = []
    for k, (bag, label, place) in enumerate(zip(*planted_bags(seed, n=60, length=5, d=5, ragged=True))):
        for i, token in enumerate(bag):
            rows.append([f"bag{k}", ("no", "yes")[label], int(label and i == place), *token])
    return pd.DataFrame(rows, columns=["bag_id", "label", "instance_label", *(f"f{j}" for j in range(5))])


@pytest.fixture
def folder(tmp_path):
    table().to_csv(tmp_path / "bags.csv", index=False)
    table(1).to_csv(tmp_path / "new.csv.gz", index=False)
    return tmp_path


def test_fit_predict_and_explain(folder, command):
    code, out, err = command("fit", folder / "bags.csv", "--out", folder / "model.skops")
    assert code == 0, err
    assert "60 bags" in out and "of all pairs (50% is guessing)" in out
    code, out, err = command("predict", folder / "model.skops", folder / "new.csv.gz")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "bag_id,prediction,probability_yes" and len(lines) == 61
    assert float(err.rsplit(" ", 1)[1]) > 0.85
    code, out, _ = command(
        "explain", folder / "model.skops", folder / "new.csv.gz", "--bags", 2, "--out", folder / "tokens.csv"
    )
    assert code == 0
    assert float(out.split("token AUC against column 'instance_label': ")[1]) > 0.95
    tokens = pd.read_csv(folder / "tokens.csv")
    np.testing.assert_allclose(tokens.groupby("bag_id")["weight"].sum(), 1.0, atol=1e-4)
    code, _, _ = command("predict", folder / "model.skops", folder / "new.csv.gz", "--out", folder / "predictions.csv")
    assert code == 0 and len(pd.read_csv(folder / "predictions.csv")) == 60


def test_evaluate_prints_writes_and_draws(folder, command):
    code, out, err = command(
        *("evaluate", folder / "bags.csv", "--folds", 3, "--repeats", 2, "-m", "bag-classifier", "-m", "mean-pool LR"),
        *("--plot", folder / "plot.png", "--csv", folder / "scores.csv"),
    )
    assert code == 0, err
    assert "2 x 3-fold" in out and "token AUC" in out
    scores = pd.read_csv(folder / "scores.csv").set_index("learner")
    # 0.975 ± 0.019 and 0.767 ± 0.052 (standard errors over bags)
    assert scores.loc["bag-classifier", "accuracy"] > 0.9 > scores.loc["mean-pool LR", "accuracy"] + 0.03
    assert scores.loc["mean-pool LR", "accuracy"] > 0.6
    assert (folder / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_the_three_formats_hold_the_same_bags(folder):
    csv = read_bags(folder / "bags.csv")
    frame = table()
    frame.sample(frac=1, random_state=0).to_parquet(folder / "shuffled.parquet")
    frame.to_parquet(folder / "bags.parquet")
    features = frame.iloc[:, 3:].to_numpy()
    np.savez(
        folder / "bags.npz",
        tokens=features,
        bag=frame.bag_id.to_numpy(str),
        label=csv.labels,
        token_label=frame.iloc[:, 2],
    )
    for name in ("bags.parquet", "bags.npz"):
        other = read_bags(folder / name)
        np.testing.assert_allclose(other.bags.tokens, csv.bags.tokens, rtol=1e-12)
        assert list(other.labels) == list(csv.labels)
        assert list(other.token_labels) == list(csv.token_labels)
    mixed = read_bags(folder / "shuffled.parquet")
    by_name = dict(zip(csv.bags.ids, csv.labels))
    assert [by_name[i] for i in mixed.bags.ids] == list(mixed.labels)
    assert mixed.token_labels.sum() == csv.token_labels.sum()
    padded, mask = csv.bags.padded()
    np.savez(folder / "cube.npz", X=padded, mask=mask, y=csv.labels)
    np.testing.assert_array_equal(read_bags(folder / "cube.npz").bags.tokens, csv.bags.tokens)


def test_labels_may_be_kept_apart(folder, command):
    frame = table()
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
    frame = table()
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
        (("fit", folder / "bags.csv", "--bag", "nobag", "--out", folder / "m"), "no column 'nobag'"),
        (("fit", folder / "bags.csv", "--label", "nolabel", "--out", folder / "m"), "no column 'nolabel'"),
        (("fit", folder / "bags.csv", "--out", folder / "no" / "m"), "does not exist"),
        (("fit", folder / "bags.csv", "--model", "deep", "--out", folder / "m"), "--model must be one of"),
        (("evaluate", folder / "bags.csv", "-m", "deep"), "there is no learner 'deep'"),
        (("evaluate", folder / "bags.csv", "--folds", 1), "folds must lie between"),
        (
            ("evaluate", folder / "bags.csv", "--plot", folder / "p.bmp", "--folds", 2, "-m", "pooled"),
            "p.bmp must end in .png, .svg, .pdf",
        ),
        (("predict", folder / "bags.csv", folder / "bags.csv"), "not a model file"),
    ):
        code, _, err = command(*arguments)
        assert code == 2 and words in err and err.count("\n") == 1, err


def test_a_model_asks_for_its_own_columns(folder, command):
    command("fit", folder / "bags.csv", "--model", "pooled", "--out", folder / "m.skops")
    frame = table(1)
    frame[frame.columns[::-1]].assign(extra=1.0).to_csv(folder / "turned.csv", index=False)
    assert command("predict", folder / "m.skops", folder / "turned.csv")[0] == 0
    frame.drop(columns="f3").to_csv(folder / "less.csv", index=False)
    code, _, err = command("predict", folder / "m.skops", folder / "less.csv")
    assert code == 2 and "no column 'f3', which the model needs" in err
    code, _, err = command("explain", folder / "m.skops", folder / "bags.csv")
    assert code == 2 and "nothing to explain" in err


def test_models_come_back_as_they_were(folder):
    read = read_bags(folder / "bags.csv")
    equal = Bags([bag[:2] for bag in read.bags])
    for model in (
        BagClassifier(lift=10),
        AttentionClassifier(),
        ElementwiseAttentionClassifier(),
        MessagePassingClassifier(),
        VectorizedClassifier(ridge=0.1, loss="square"),
    ):
        bags = equal if isinstance(model, VectorizedClassifier) else read.bags
        fitted = model.fit(bags, read.labels)
        save_model(folder / "m.skops", fitted)
        loaded = load_model(folder / "m.skops")
        np.testing.assert_array_equal(loaded.decision_function(bags), fitted.decision_function(bags))
        if hasattr(fitted, "token_scores"):
            np.testing.assert_array_equal(loaded.token_scores(bags)[3], fitted.token_scores(bags)[3])
        assert list(loaded.classes_) == ["no", "yes"]


def test_loading_runs_no_code(folder):
    """A model file doctored to name another callable is refused, and that callable is not called."""
    save_model(folder / "m.skops", PooledClassifier().fit(table().iloc[:, 3:], np.arange(len(table())) % 2))
    with zipfile.ZipFile(folder / "m.skops") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    text = json.dumps(schema).replace("sparsetoken.estimators.linear", "os").replace("PooledClassifier", "system")
    with zipfile.ZipFile(folder / "bad.skops", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, text if name == "schema.json" else data)
    with pytest.raises(ValueError, match=r"types that are not loaded for safety: os\.system"):
        load_model(folder / "bad.skops")
    with pytest.raises(ValueError, match=r"cannot be written|not loaded for safety"):
        own = ElementwiseAttentionClassifier(activation=lambda x: x, split=0.5)
        save_model(folder / "own.skops", own.fit(table().iloc[:, 3:], np.arange(len(table())) % 2))
    assert not (folder / "own.skops").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (5, "is not a model file"),
        ({"format": FORMAT, "model": 5}, "is no learner of this program: int"),
        ({"format": FORMAT, "model": LogisticRegression()}, "is no learner of this program: LogisticRegression"),
        ({"format": FORMAT, "model": PooledClassifier()}, "has not been fitted"),
        ({"format": 1, "model": PooledClassifier()}, "has format 1; this version reads format 4"),
    ],
    ids=["number", "no model", "another model", "unfitted", "old"],
)
def test_skops_files_that_hold_something_else(folder, command, content, words):
    (folder / "odd.skops").write_bytes(skops.io.dumps(content))
    for name in ("predict", "explain"):
        code, _, err = command(name, folder / "odd.skops", folder / "bags.csv")
        assert code == 2 and words in err and err.count("\n") == 1


def test_files_are_written_before_anything_is_printed(folder):
    """Whoever reads the output is gone before it comes: the files are there all the same."""
    command = [sys.executable, "-m", "sparsetoken.cli", "evaluate", str(folder / "bags.csv"), "-m", "pooled"]
    command += ["--folds", "2", "--repeats", "1", "--csv", str(folder / "e.csv"), "--plot", str(folder / "e.svg")]
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=180, env=environment)
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert list(pd.read_csv(folder / "e.csv").learner) == ["pooled"]
    assert (folder / "e.svg").stat().st_size > 1000
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0 and "pooled" in done.stdout and done.stdout.isascii()


def test_ids_stay_as_they_were_written(folder, command):
    frame = table()
    names = {f"bag{k}": name for k, name in enumerate(["1", "01", "1.0", "NA", "12345678901234567890"])}
    frame["bag_id"] = frame["bag_id"].replace(names)
    frame.to_csv(folder / "odd.csv", index=False)
    code, _, err = command("fit", folder / "odd.csv", "--model", "pooled", "--out", folder / "m.skops")
    assert code == 2 and "has no bag id" in err
    literal = ("--model", "pooled", "--literal-ids", "--out", folder / "m.skops")
    assert command("fit", folder / "odd.csv", *literal)[0] == 0
    code, out, _ = command("predict", folder / "m.skops", folder / "odd.csv", "--literal-ids")
    assert code == 0
    assert [line.split(",")[0] for line in out.splitlines()[1:6]] == list(names.values())


def test_help_lists_the_learners_there_are(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, out, _ = command("fit", "--help")
    assert code == 0 and all(name in out for name in LEARNERS if not LEARNERS[name].baseline)


def test_the_bag_column_of_fit_is_remembered(folder, command):
    table().rename(columns={"bag_id": "image"}).to_csv(folder / "images.csv", index=False)
    model = folder / "m.skops"
    assert command("fit", folder / "images.csv", "--bag", "image", "-m", "pooled", "-o", model)[0] == 0
    code, out, err = command("predict", model, folder / "images.csv")
    assert code == 0 and out.startswith("image,prediction,"), err
    code, out, err = command("predict", model, folder / "bags.csv", "--bag", "bag_id")
    assert code == 0 and out.startswith("bag_id,prediction,"), err


def test_evaluate_ends_with_a_verdict(folder, command):
    wanted = ("-m", "max-pool LR", "-m", "majority", "--folds", 3, "--repeats", 1)
    code, out, _ = command("evaluate", folder / "bags.csv", *wanted)
    assert code == 0 and "\nbest: max-pool LR, " in out and "always giving the commonest label has" in out
    noise = table()
    noise[[f"f{j}" for j in range(5)]] = np.random.default_rng(5).standard_normal((len(noise), 5))
    noise.to_csv(folder / "noise.csv", index=False)
    code, out, _ = command("evaluate", folder / "noise.csv", *wanted)
    assert code == 0 and out.rstrip().endswith("there is no evidence of a signal")


def test_a_fit_in_words(folder, command):
    arguments = ("fit", folder / "bags.csv", "-m", "pooled", "-o", folder / "m.skops")
    code, out, _ = command(*arguments)
    assert code == 0 and "held-out bags of yes score above those of no" in out and "ridge" not in out
    assert "ridge: " in command(*arguments, "--verbose")[1]


def test_an_interrupted_write_leaves_the_old_file(folder, monkeypatch):
    target = folder / "model.skops"
    write_bytes(target, b"old")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(target, b"new")
    assert target.read_bytes() == b"old"
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


def test_the_installed_command_works(folder):
    command = [
        sys.executable,
        "-m",
        "sparsetoken.cli",
        "fit",
        str(folder / "bags.csv"),
        "--out",
        str(folder / "m.skops"),
    ]
    done = subprocess.run([*command, "--model", "message-passing"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "strength" in done.stdout


def three_classes(seed: int) -> pd.DataFrame:
    """72 bags of three classes, two bags per patient; a row per token."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in range(72):
        kind = rng.integers(3)
        for token in range(4):
            values = rng.standard_normal(4)
            if kind and token == 1:
                values[kind] += 6.0
            rows.append([f"bag{k}", ("low", "mid", "high")[kind], f"p{k // 2}", *values])
    return pd.DataFrame(rows, columns=["bag_id", "label", "patient", *"wxyz"])


def test_commands_take_several_classes_and_groups(tmp_path, command):
    three_classes(0).to_csv(tmp_path / "bags.csv", index=False)
    three_classes(1).drop(columns="patient").to_csv(tmp_path / "new.csv", index=False)
    model = tmp_path / "model.skops"
    code, out, err = command("fit", tmp_path / "bags.csv", "-m", "attention", "--groups", "patient", "--out", model)
    assert code == 0, err
    assert (
        "classes high, low, mid" in out
        and "4 features" in out
        and "held-out bags of mid score above the others in" in out
    )
    code, out, err = command("predict", model, tmp_path / "new.csv")
    assert code == 0, err
    assert out.splitlines()[0] == "bag_id,prediction,probability_high,probability_low,probability_mid"
    assert float(err.rsplit(" ", 1)[1]) > 0.7
    code, out, _ = command("explain", model, tmp_path / "new.csv", "--bags", 3, "--class", "mid")
    assert code == 0 and "mid" in out and "high" not in out
    code, _, err = command("explain", model, tmp_path / "new.csv", "--class", "medium")
    assert code == 2 and "--class must be one of high, low, mid" in err
    code, out, err = command(
        "evaluate", tmp_path / "bags.csv", "-m", "pooled", "-m", "mean-pool LR", "--folds", 3, "--repeats", 1,
        "--groups", "patient",
    )  # fmt: skip
    assert code == 0 and "pooled" in out, err
    code, _, err = command("fit", tmp_path / "bags.csv", "--groups", "doctor", "--out", model)
    assert code == 2 and "no column 'doctor' for the groups" in err
