"""`predict` and `explain` as a user types them: the model's own columns, ids as written, files that hold no model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression

from sparsetoken import BagClassifier, PooledClassifier
from sparsetoken.estimators.persistence import FORMAT
from tests.helpers import planted_table


def test_fit_predict_and_explain(folder, command):
    code, out, err = command("fit", folder / "bags.csv", "--out", folder / "model.skops")
    assert code == 0, err
    assert "60 bags" in out and out.startswith("held-out error ")
    code, out, err = command("predict", folder / "model.skops", folder / "new.csv.gz")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "bag_id,prediction,probability_yes" and len(lines) == 61
    assert float(err.split("AUC ")[1].split(",")[0]) > 0.95 and "accuracy " in err and "log loss 0." in err
    code, out, _ = command(
        "explain", folder / "model.skops", folder / "new.csv.gz", "--bags", 2, "--out", folder / "tokens.csv"
    )
    assert code == 0
    assert float(out.split("token AUC against column 'instance_label': ")[1].split()[0]) > 0.95
    tokens = pd.read_csv(folder / "tokens.csv")
    np.testing.assert_allclose(tokens.groupby("bag_id")["weight"].sum(), 1.0, atol=1e-4)
    assert out.startswith("the strongest 3 tokens have ")
    code, out, err = command(
        "predict", folder / "model.skops", folder / "new.csv.gz", "--out", folder / "predictions.csv"
    )
    assert code == 0 and len(pd.read_csv(folder / "predictions.csv")) == 60
    assert out == "" and "predictions of 60 bags written to" in err


def test_predictions_are_scored_on_labelled_bags(folder, command):
    """The numbers of scikit-learn on the written predictions."""
    from sklearn.metrics import log_loss, roc_auc_score

    model, new = folder / "m.skops", planted_table(1).rename(columns={"label": "truth"})
    new.to_csv(folder / "new.csv", index=False)
    assert command("fit", folder / "bags.csv", "-m", "attention", "-o", model)[0] == 0
    assert "accuracy " not in command("predict", model, folder / "new.csv")[2]
    code, _, err = command("predict", model, folder / "new.csv", "--label", "truth", "-o", folder / "p.csv")
    predicted = pd.read_csv(folder / "p.csv")
    truth = new.groupby("bag_id", sort=False)["truth"].first()[predicted.bag_id].to_numpy()
    wrong, p = (predicted.prediction != truth).mean(), predicted.probability_yes
    said = f"accuracy {1 - wrong:.1%} on 60 labelled bags, AUC {roc_auc_score(truth == 'yes', p):.3f}"
    assert code == 0 and said in err and f"log loss {log_loss(truth == 'yes', p):.3g}" in err
    assert f"{((truth == 'no') & (predicted.prediction == 'yes')).sum()} as yes" in err
    code, _, err = command("predict", model, folder / "new.csv", "--label", "diagnosis")
    assert code == 2 and "(--label)" in err


def test_a_model_asks_for_its_own_columns(folder, command):
    command("fit", folder / "bags.csv", "--model", "pooled", "--out", folder / "m.skops")
    frame = planted_table(1)
    frame[frame.columns[::-1]].assign(extra=1.0).to_csv(folder / "turned.csv", index=False)
    assert command("predict", folder / "m.skops", folder / "turned.csv")[0] == 0
    frame.drop(columns="f3").to_csv(folder / "less.csv", index=False)
    code, _, err = command("predict", folder / "m.skops", folder / "less.csv")
    assert code == 2 and "no column 'f3', which the model needs" in err
    code, _, err = command("explain", folder / "m.skops", folder / "bags.csv")
    assert code == 2 and "nothing to explain" in err


def test_the_bag_column_of_fit_is_remembered(folder, command):
    planted_table().rename(columns={"bag_id": "image"}).to_csv(folder / "images.csv", index=False)
    model = folder / "m.skops"
    assert command("fit", folder / "images.csv", "--bag", "image", "-m", "pooled", "-o", model)[0] == 0
    code, out, err = command("predict", model, folder / "images.csv")
    assert code == 0 and out.startswith("image,prediction,"), err
    code, out, err = command("predict", model, folder / "bags.csv", "--bag", "bag_id")
    assert code == 0 and out.startswith("bag_id,prediction,"), err


def test_the_label_column_of_fit_is_remembered(folder, command):
    table = planted_table().rename(columns={"label": "diagnosis"})
    table.assign(label=0).to_csv(folder / "other.csv", index=False)
    model = folder / "m.skops"
    assert (
        command("fit", folder / "other.csv", "--label", "diagnosis", "--ignore", "label", "-m", "pooled", "-o", model)[
            0
        ]
        == 0
    )
    code, _, err = command("predict", model, folder / "other.csv")
    assert code == 0 and err.startswith("accuracy ") and "on 60 labelled bags" in err


@pytest.mark.parametrize("name", ["prediction", "token"])
def test_ids_are_not_lost_where_their_column_has_a_name_of_ours(folder, command, name):
    planted_table().rename(columns={"bag_id": name}).to_csv(folder / "named.csv", index=False)
    model = folder / "m.skops"
    assert command("fit", folder / "named.csv", "--bag", name, "-m", "attention", "-o", model)[0] == 0
    command("predict", model, folder / "named.csv", "-o", folder / "p.csv")
    command("explain", model, folder / "named.csv", "-o", folder / "e.csv", "--bags", 0)
    ids = list(dict.fromkeys(pd.read_csv(folder / "named.csv", dtype=str)[name]))
    for file, taken in (("p.csv", "prediction"), ("e.csv", "token")):
        table = pd.read_csv(folder / file, dtype=str)
        assert list(table.columns[:2]) == ["bag_id" if name == taken else name, taken]
        assert list(dict.fromkeys(table.iloc[:, 0])) == ids


def test_token_labels_may_be_text(folder, command):
    table = planted_table()
    features = [column for column in table.columns if column.startswith("f")]
    marks = np.where(table["instance_label"] > 0, "witness", "other")
    ids, labels = (table[name].to_numpy().astype(str) for name in ("bag_id", "label"))
    np.savez(folder / "b.npz", tokens=table[features], bag=ids, label=labels, token_label=marks)
    assert command("fit", folder / "b.npz", "-m", "attention", "-o", folder / "m.skops")[0] == 0
    code, out, err = command("explain", folder / "m.skops", folder / "b.npz")
    assert code == 0 and float(out.split("token AUC against column 'instance_label': ")[1].split()[0]) > 0.9, err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (5, "is not a model file"),
        ({"format": FORMAT, "model": 5}, "is no learner of this program: int"),
        ({"format": FORMAT, "model": LogisticRegression()}, "is no learner of this program: LogisticRegression"),
        ({"format": FORMAT, "model": PooledClassifier()}, "has not been fitted"),
        ({"format": 1, "model": PooledClassifier()}, f"format 1, this one reads {FORMAT}): fit the model again"),
    ],
    ids=["number", "no model", "another model", "unfitted", "old"],
)
def test_skops_files_that_hold_something_else(folder, command, content, words):
    (folder / "odd.skops").write_bytes(skops.io.dumps(content))
    for name in ("predict", "explain"):
        code, _, err = command(name, folder / "odd.skops", folder / "bags.csv")
        assert code == 2 and words in err and err.count("\n") == 1


@pytest.mark.parametrize("lost", ["vote_", "calibration_", "range_", "prior_odds_"])
def test_a_model_that_lacks_a_part(folder, command, lost):
    """Hand-made files: whatever predictions stumble over is said in one line."""
    model = BagClassifier().fit(np.arange(24.0).reshape(12, 2, 1), [0] * 6 + [1] * 6)
    delattr(model, lost)
    (folder / "odd.skops").write_bytes(skops.io.dumps({"format": FORMAT, "model": model}))
    planted_table()[["bag_id", "label", "f0"]].to_csv(folder / "one.csv", index=False)
    for name in ("predict", "explain"):
        code, _, err = command(name, folder / "odd.skops", folder / "one.csv")
        assert code == 2 and "is damaged" in err and "fit the model again" in err, err


def test_explain_shows_names_and_places(folder, command):
    """Tokens in any order of rows: each keeps its own name and place, in the table, the file and the picture."""
    frame = planted_table().assign(x=np.arange(len(planted_table())), y=3.5)
    frame["patch"] = [f"p{k}" for k in frame.x]
    frame.sample(frac=1, random_state=0).to_csv(folder / "slides.csv", index=False)
    apart = [part for name in ("x", "y", "patch") for part in ("--ignore", name)]
    model = folder / "m.skops"
    assert command("fit", folder / "slides.csv", *apart, "-m", "attention", "-o", model)[0] == 0
    shown = ("--coordinates", "x,y", "--token-name", "patch", "--only", "bag3", "--top", 2)
    files = ("--out", folder / "t.csv", "--plot", folder / "slide.png")
    code, out, err = command("explain", model, folder / "slides.csv", *shown, *files)
    assert code == 0 and "picture written to" in err, err
    table = pd.read_csv(folder / "t.csv").merge(frame, left_on="name", right_on="patch")
    assert len(table) == len(frame) and (table.x_x == table.x_y).all() and (table.bag_id_x == table.bag_id_y).all()
    best = table[table.bag_id_x == "bag3"].sort_values("score", ascending=False).iloc[0]
    assert "bag3" in out and f"{best['name']} ({best.x_x:g}, 3.5)" in out and out.count("(") >= 2
    assert (folder / "slide.png").read_bytes().startswith(b"\x89PNG")
    for arguments, words in (
        (("--coordinates", "x"), "two columns, or an array with two, got 1"),
        (("--coordinates", "patch,x"), "--coordinates patch,x must be numbers"),
        (("--coordinates", "x,z"), "no column 'z' to show"),
        (("--coordinates", "x,"), "no column '' to show"),
        (("--only", "bag99"), "--only must name a bag of the file"),
    ):
        code, _, err = command("explain", model, folder / "slides.csv", *arguments)
        assert code == 2 and words in err and err.count("\n") == 1


def test_explain_takes_places_from_the_files_of_a_folder(folder, command):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    labels = ["bag_id,label"]
    for k in range(8):
        tokens = rng.standard_normal((5, 3)) + 4.0 * (k % 2)
        with h5py.File(folder / f"s{k}.h5", "w") as file:
            file["features"], file["coords"] = tokens, np.column_stack([np.arange(5), np.full(5, k)])
        labels.append(f"s{k},{k % 2}")
    (folder / "labels.csv").write_text("\n".join(labels) + "\n")
    files, model = f"{folder}/s*.h5", folder / "m.skops"
    assert command("fit", files, "--labels", folder / "labels.csv", "-m", "attention", "-o", model)[0] == 0
    code, out, err = command("explain", model, files, "--coordinates", "coords", "--only", "s6", "--top", 5)
    assert code == 0 and all(f"{j} ({j}, 6)" in out for j in range(5)), err


def test_a_bag_in_a_file_of_its_own(folder, command):
    """What `predict` is asked most often: one slide."""
    command("fit", folder / "bags.csv", "--model", "pooled", "--out", folder / "m.skops")
    np.save(folder / "slide7.npy", planted_table(1).filter(like="f").to_numpy()[:9])
    code, out, err = command("predict", folder / "m.skops", folder / "slide7.npy")
    assert code == 0 and out.splitlines()[1].startswith("slide7,"), err


def test_ids_stay_as_they_were_written(folder, command):
    frame = planted_table()
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
    assert "classes high (" in out and "4 features" in out and "with 3 classes, macro AUC" in out
    code, out, err = command("predict", model, tmp_path / "new.csv")
    assert code == 0, err
    assert out.splitlines()[0] == "bag_id,prediction,probability_high,probability_low,probability_mid"
    assert float(err.split("macro AUC ")[1].split(",")[0]) > 0.8
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


def test_tables_are_written_as_their_ending_says(folder, command):
    """CSV, Parquet or JSON, the same numbers in each; an ending that stands for anything else is refused before the work."""
    model, bags = folder / "m.skops", folder / "bags.csv"
    assert command("fit", bags, "--model", "message-passing", "--out", model)[0] == 0
    readers = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": pd.read_json}
    for verb, column in (("predict", "probability_yes"), ("explain", "score")):
        tables = {}
        for ending, read in readers.items():
            code, _, err = command(verb, model, bags, "--out", folder / f"table.{ending}")
            assert code == 0, err
            tables[ending] = read(folder / f"table.{ending}")
            assert list(tables[ending].columns) == list(tables["csv"].columns)
            np.testing.assert_allclose(tables[ending][column], tables["csv"][column], atol=1e-6)
        for name in ("table.xlsx", "table.csv.gz", "table.npz"):
            code, _, err = command(verb, model, bags, "--out", folder / name)
            assert code == 2 and f"{name} must end in .csv, .parquet or .json" in err and not (folder / name).exists()
        assert command(verb, model, bags, "--out", folder / "table")[0] == 0  # promises nothing
