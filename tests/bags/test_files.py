"""Files of bags: ids are text, odd columns and arrays end in one sentence."""

from __future__ import annotations

import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsetoken import Bags
from sparsetoken.bags.reading.read_bags import read_bags
from tests.helpers import planted_table

LONG = 12345678901234567890123


def frame(ids, **columns) -> pd.DataFrame:
    """One token per id, every second one of another label."""
    n = len(ids)
    plain = {"bag_id": ids, "label": np.arange(n) % 2, "f0": np.arange(n) / 4, "f1": np.arange(n) % 3}
    return pd.DataFrame(plain | columns)


def test_ids_are_text(tmp_path):
    (tmp_path / "ids.csv").write_text(
        f"bag_id,label,f\n1,0,1\n01,1,2\n1.0,0,3\n{LONG},1,4\n{LONG + 1},0,5\n 1,1,6\n1,0,7\n"
    )
    read = read_bags(tmp_path / "ids.csv")
    assert list(read.bags.ids) == ["1", "01", "1.0", str(LONG), str(LONG + 1), " 1"]
    assert list(read.labels) == [0, 1, 0, 1, 0, 1]
    np.testing.assert_array_equal(read.bags[0], [[1.0], [7.0]])
    (tmp_path / "labels.csv").write_text(f"bag_id,label\n01,a\n1,b\n1.0,a\n{LONG},b\n{LONG + 1},a\n 1,b\n")
    apart = read_bags(tmp_path / "ids.csv", labels_file=tmp_path / "labels.csv", ignore=["label"])
    assert list(apart.labels) == ["b", "a", "a", "b", "a", "b"]


@given(
    st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8), min_size=2, unique=True)
)
def test_any_text_is_an_id(ids):
    """Commas, quotes, signs, numbers in any spelling: what was written is what is read, and no two ids become one."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "bags.csv")
        frame(ids).to_csv(path, index=False)
        read = read_bags(path, literal_ids=True)
    assert list(read.bags.ids) == ids
    np.testing.assert_array_equal(read.labels, np.arange(len(ids)) % 2)


def test_na_is_an_id_where_the_user_says_so(tmp_path):
    (tmp_path / "na.csv").write_text("bag_id,label,f\nNA,0,1\nnull,1,2\n7,0,NA\n")
    with pytest.raises(ValueError, match=r"row 1 of .* has no bag id"):
        read_bags(tmp_path / "na.csv")
    with pytest.raises(ValueError, match="NaN: bag '7'"):  # only ids are taken literally
        read_bags(tmp_path / "na.csv", literal_ids=True)
    (tmp_path / "na.csv").write_text("bag_id,label,f\nNA,0,1\nnull,1,2\nNA,0,3\n")
    assert list(read_bags(tmp_path / "na.csv", literal_ids=True).bags.ids) == ["NA", "null"]
    (tmp_path / "na.csv").write_text("bag_id,label,f\nNA,0,1\n,1,2\n")
    with pytest.raises(ValueError, match=r"row 2 of .* has no bag id"):
        read_bags(tmp_path / "na.csv", literal_ids=True)


def test_parquet_numbers_and_text_give_the_ids_of_a_csv_file(tmp_path):
    for ids in ([3, 5, 3, 8], ["3", "5", "3", "8"], pd.array([3, 5, 3, 8], dtype="Int64")):
        frame(ids, label=[0, 1, 0, 1]).to_parquet(tmp_path / "bags.parquet")
        assert list(read_bags(tmp_path / "bags.parquet").bags.ids) == ["3", "5", "8"]


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "int64[pyarrow]"])
def test_a_missing_value_of_a_nullable_column_is_located(tmp_path, dtype):
    table = frame(list("abcd"), f1=pd.array([1, 0, None, 1], dtype=dtype))
    table.to_parquet(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match="NaN: bag 'c', token 0, feature 'f1'"):
        read_bags(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match="NaN: bag 'c', token 0, feature 'f1'"):
        Bags(table[["bag_id", "f0", "f1"]], ids="bag_id")
    whole = frame(list("abcd"), f1=pd.array([1, 0, 1, 1], dtype=dtype))
    whole.to_parquet(tmp_path / "bags.parquet")
    np.testing.assert_array_equal(read_bags(tmp_path / "bags.parquet").bags.tokens[:, 1], [1, 0, 1, 1])


def test_nullable_labels(tmp_path):
    table = frame(list("aabc"), label=pd.array([1, 1, 0, None], dtype="Int64"))
    table.to_parquet(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match="bag 'c' has no label"):
        read_bags(tmp_path / "bags.parquet")
    table.iloc[:3].to_parquet(tmp_path / "bags.parquet")
    labels = read_bags(tmp_path / "bags.parquet").labels
    assert labels.dtype.kind == "i" and list(labels) == [1, 0]


@pytest.mark.parametrize(("ids", "kind"), [([[1], [2], [1]], "ndarray"), ([{"k": 1}, {"k": 2}, {"k": 1}], "dict")])
def test_lists_and_dicts_are_no_ids(tmp_path, ids, kind):
    frame(ids).to_parquet(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match=f"row 1 of .* has a {kind} as its bag id; ids must be text or numbers"):
        read_bags(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match="bag ids must be text or numbers"):
        Bags(np.zeros((3, 2)), ids=ids)


def test_lists_are_no_labels(tmp_path):
    frame(list("abc"), label=[[1], [2], [1]]).to_parquet(tmp_path / "bags.parquet")
    with pytest.raises(ValueError, match="as a label; labels must be text or numbers"):
        read_bags(tmp_path / "bags.parquet")


def test_ids_in_memory_are_told_apart_by_value():
    assert list(Bags(np.zeros((4, 1)), ids=[1, "1", "01", 1]).ids) == [1, "1", "01"]
    assert len(Bags(np.zeros((3, 1)), ids=[2**63, -1, 2**63 + 1])) == 3
    assert len(Bags(np.zeros((3, 1)), ids=[LONG, LONG + 1, LONG])) == 2
    assert len(Bags(np.zeros((3, 1)), ids=[("a", 1), ("a", 2), ("a", 1)])) == 2


TOKENS = np.arange(12.0).reshape(6, 2)
IDS = np.array([1, 1, 2, 2, 3, 3])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"tokens": TOKENS, "bag": np.array(3), "label": [0, 1, 0]}, "'bag' of .* must have 1 dimensions"),
        ({"tokens": np.array(3.0), "bag": IDS, "label": [0, 1, 0]}, "'tokens' of .* must have 2 dimensions"),
        ({"tokens": TOKENS, "bag": IDS[:4], "label": [0, 1]}, "'bag' of .* must have one entry per token"),
        ({"tokens": TOKENS, "bag": IDS, "label": np.array(1)}, "'label' of .* must have 1 dimensions"),
        ({"tokens": TOKENS, "bag": IDS, "label": [0, 1]}, "2 labels for 3 bags"),
        ({"tokens": TOKENS, "bag": IDS, "label": [0, 1, 0], "token_label": [1]}, "'token_label' of .* per token"),
        ({"tokens": TOKENS, "bag": IDS, "label": [0, 1, 0], "features": np.array("a")}, "names 1 features"),
        ({"tokens": TOKENS, "bag": [1, 1, np.nan, 2, 2, 2], "label": [0, 1]}, "row 3 of .* has no bag id"),
        ({"tokens": np.zeros(6, dtype=[("a", "f8"), ("b", "f8")]), "bag": IDS, "label": [0, 1, 0]}, "numbers or text"),
        ({"X": np.array(1.0), "y": [0]}, "'X' of .* must have 2 or 3 dimensions"),
        ({"X": np.zeros(3, dtype=[("a", "f8")]), "y": [0, 1, 0]}, "numbers or text"),
        ({"X": np.zeros((3, 2, 2)), "y": np.array(0)}, "'y' of .* must have 1 dimensions"),
        ({"X": np.zeros((3, 2, 2)), "mask": np.array(1), "y": [0, 1, 0]}, "mask must have shape"),
        ({"X": np.array([["a", "b"]] * 3), "y": [0, 1, 0]}, "must be numbers"),
    ],
)
def test_odd_npz_arrays_end_in_a_sentence(tmp_path, arrays, words):
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(ValueError, match=words) as error:
        read_bags(tmp_path / "odd.npz")
    assert "\n" not in str(error.value)


def test_npz_ids_are_text(tmp_path):
    for ids in (IDS, IDS.astype(str), IDS.astype("S1")):
        np.savez(tmp_path / "bags.npz", tokens=TOKENS, bag=ids, label=[0, 1, 0])
        read = read_bags(tmp_path / "bags.npz")
        assert list(read.bags.ids) == ["1", "2", "3"] and list(read.labels) == [0, 1, 0]


def test_the_three_formats_hold_the_same_bags(tmp_path):
    planted_table().to_csv(tmp_path / "bags.csv", index=False)
    csv = read_bags(tmp_path / "bags.csv")
    frame = planted_table()
    frame.sample(frac=1, random_state=0).to_parquet(tmp_path / "shuffled.parquet")
    frame.to_parquet(tmp_path / "bags.parquet")
    features = frame.iloc[:, 3:].to_numpy()
    np.savez(
        tmp_path / "bags.npz",
        tokens=features,
        bag=frame.bag_id.to_numpy(str),
        label=csv.labels,
        token_label=frame.iloc[:, 2],
    )
    for name in ("bags.parquet", "bags.npz"):
        other = read_bags(tmp_path / name)
        np.testing.assert_allclose(other.bags.tokens, csv.bags.tokens, rtol=1e-12)
        assert list(other.labels) == list(csv.labels)
        assert list(other.token_labels) == list(csv.token_labels)
    mixed = read_bags(tmp_path / "shuffled.parquet")
    by_name = dict(zip(csv.bags.ids, csv.labels))
    assert [by_name[i] for i in mixed.bags.ids] == list(mixed.labels)
    assert mixed.token_labels.sum() == csv.token_labels.sum()
    padded, mask = csv.bags.padded()
    np.savez(tmp_path / "cube.npz", X=padded, mask=mask, y=csv.labels)
    np.testing.assert_array_equal(read_bags(tmp_path / "cube.npz").bags.tokens, csv.bags.tokens)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([np.inf, 0.0, 1.0], "holds an infinite label"),
        (pd.to_datetime(["2020-01-01"] * 3), r"holds labels of the type datetime64.*; labels must be text or numbers"),
    ],
)
def test_labels_that_are_none(tmp_path, labels, words):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"bag_id": ["a", "b", "c"], "label": labels, "x": [1.0, 2.0, 3.0]})
    table.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=words):
        read_bags(tmp_path / "t.parquet")
    table[["bag_id", "label"]].to_parquet(tmp_path / "l.parquet")
    table[["bag_id", "x"]].to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=words):
        read_bags(tmp_path / "t.csv", labels_file=tmp_path / "l.parquet")
    with pytest.raises(ValueError, match="is a folder, not a table"):
        read_bags(tmp_path / "t.csv", labels_file=tmp_path)


def test_numbers_too_large_for_integers_stay_what_they_are(tmp_path):
    for values, kind in (([2**70, 5, 5], "U"), ([1e300, 5.0, 5.0], "f"), ([3.0, 5.0, 5.0], "i")):
        pd.DataFrame({"bag_id": list("abc"), "label": values, "x": [1.0, 2.0, 3.0]}).to_csv(
            tmp_path / "t.csv", index=False
        )
        labels = read_bags(tmp_path / "t.csv").labels
        assert labels.dtype.kind == kind and [float(v) for v in labels] == [float(v) for v in values]


def test_columns_that_are_named_twice(tmp_path):
    """pandas calls the second one f.1, which would be a feature of its own, and the first bag_id the only one."""
    for header, name in (
        ("bag_id,label,f,f", "f"),
        ("bag_id,label,bag_id,f", "bag_id"),
        ("bag_id,label,f,label", "label"),
    ):
        (tmp_path / "t.csv").write_text(f"{header}\na,0,1,2\nb,1,3,4\n")
        with pytest.raises(ValueError, match=f"t.csv has two columns '{name}'; give every column a different name"):
            read_bags(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text("bag_id,label,f,f.1\na,0,1,2\nb,1,3,4\n")
    assert list(read_bags(tmp_path / "t.csv").bags.feature_names) == ["f", "f.1"]
    (tmp_path / "l.csv").write_text("bag_id,label,label\na,0,1\nb,1,0\n")
    with pytest.raises(ValueError, match=r"l.csv has two columns 'label'"):
        read_bags(tmp_path / "t.csv", labels_file=tmp_path / "l.csv")


@pytest.mark.parametrize(
    ("own", "apart"),
    [([0, 0, 1], [0, 0]), ([0, 1, 1], [0, 1]), (["x", "x", "y"], [0, 1]), ([None, 1.0, 1.0], [0, 1])],
)
def test_labels_from_two_places_must_agree(tmp_path, own, apart):
    pd.DataFrame({"bag_id": ["a", "a", "b"], "label": own, "f": [1, 2, 3]}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"bag_id": ["a", "b"], "label": apart}).to_csv(tmp_path / "l.csv", index=False)
    words = r"has the label . in .*t.csv and . in .*l.csv; leave the column out with .*--ignore label"
    with pytest.raises(ValueError, match=words):
        read_bags(tmp_path / "t.csv", labels_file=tmp_path / "l.csv")
    ignored = read_bags(tmp_path / "t.csv", labels_file=tmp_path / "l.csv", ignore=["label"])
    assert ignored.labels.tolist() == apart
    for agreeing in ([0, 0, 1], [None, None, 1], ["0", "0", "1"]):
        pd.DataFrame({"bag_id": ["a", "a", "b"], "label": agreeing, "f": [1, 2, 3]}).to_csv(
            tmp_path / "t.csv", index=False
        )
        pd.DataFrame({"bag_id": ["a", "b"], "label": [0, 1]}).to_csv(tmp_path / "l.csv", index=False)
        assert read_bags(tmp_path / "t.csv", labels_file=tmp_path / "l.csv").labels.tolist() == [0, 1]


def test_labels_beside_an_npz_file_count(tmp_path):
    np.savez(tmp_path / "t.npz", tokens=np.ones((4, 2)), bag=["a", "a", "b", "b"], label=[0, 1])
    pd.DataFrame({"bag_id": ["b", "a"], "label": [0, 1], "ward": [7, 8]}).to_csv(tmp_path / "l.csv", index=False)
    assert read_bags(tmp_path / "t.npz").labels.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"bag 'a' has the label 0 in .*t.npz and 1 in .*l.csv; correct one of them"):
        read_bags(tmp_path / "t.npz", labels_file=tmp_path / "l.csv", groups="ward")
    np.savez(tmp_path / "bare.npz", tokens=np.ones((4, 2)), bag=["a", "a", "b", "b"])
    read = read_bags(tmp_path / "bare.npz", labels_file=tmp_path / "l.csv", groups="ward")
    assert read.labels.tolist() == [1, 0] and read.groups.tolist() == [8, 7]
    with pytest.raises(ValueError, match="has no column 'x' to ignore: it holds arrays"):
        read_bags(tmp_path / "t.npz", ignore=["x"])
    np.savez(tmp_path / "t.npz", tokens=np.ones((4, 2)), bag=["a", "a", "b", "b"], label=[0, np.nan])
    with pytest.raises(ValueError, match=r"the array 'label' of .*t.npz has no label at place 1"):
        read_bags(tmp_path / "t.npz")


def test_a_damaged_parquet_table_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(ValueError, match=r"t.parquet cannot be read as a table: [^\n]*$"):
        read_bags(tmp_path / "t.parquet")


def test_groups_that_differ_within_a_bag_are_called_groups(tmp_path):
    table = pd.DataFrame({"bag_id": ["a", "a"], "label": [0, 0], "ward": [7, 8], "x": [1.0, 2.0]})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match="bag 'a' has more than one group in column 'ward': 7 and 8"):
        read_bags(tmp_path / "t.csv", groups="ward")


def test_rows_longer_than_the_header(tmp_path):
    """No field is read in another one's place; an empty field at the end is none."""
    for name, content in (
        ("bags.csv", "bag_id,label,f\n1,0,5,6\n2,1,7,8\n"),
        ("labels.csv", "bag_id,label\n1,0,5\n2,1,7\n"),
        ("good.csv", "bag_id,f\n1,5,\n2,6,\n"),
    ):
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=r"bags\.csv has rows with more fields than its header has names"):
        read_bags(tmp_path / "bags.csv")
    with pytest.raises(ValueError, match=r"labels\.csv has rows with more fields"):
        read_bags(tmp_path / "good.csv", labels_file=tmp_path / "labels.csv")
    for literal in (False, True):
        read = read_bags(tmp_path / "good.csv", need_labels=False, literal_ids=literal)
        assert list(read.bags.ids) == ["1", "2"] and read.bags.tokens.tolist() == [[5.0], [6.0]]


def test_columns_that_pandas_took_for_row_names_are_read(tmp_path):
    frame = pd.DataFrame({"bag_id": ["a", "a", "b"], "label": [0, 0, 1], "f0": [1.0, 2.0, 3.0]})
    frame.set_index("bag_id").to_parquet(tmp_path / "indexed.parquet")
    read = read_bags(tmp_path / "indexed.parquet")
    assert list(read.bags.ids) == ["a", "b"] and list(read.labels) == [0, 1]


def test_text_in_bytes_and_names_given_twice(tmp_path):
    """NumPy keeps text of old programs as bytes: labels and names are text all the same."""
    tokens, bag = np.arange(8.0).reshape(4, 2), np.array([b"x", b"x", b"y", b"y"])
    np.savez(
        tmp_path / "b.npz", tokens=tokens, bag=bag, label=np.array([b"no", b"yes"]), features=np.array([b"u", b"v"])
    )
    read = read_bags(tmp_path / "b.npz")
    assert list(read.labels) == ["no", "yes"] and list(read.bags.feature_names) == ["u", "v"]
    np.savez(tmp_path / "t.npz", tokens=tokens, bag=bag, label=[0, 1], features=["u", "u"])
    with pytest.raises(ValueError, match="two features 'u'"):
        read_bags(tmp_path / "t.npz")


def test_endings_in_capital_letters(tmp_path):
    table = pd.DataFrame({"bag_id": ["a", "b"], "label": [0, 1], "x": [1.0, 2.0]})
    table.to_csv(tmp_path / "A.CSV", index=False)
    table.to_parquet(tmp_path / "A.Parquet")
    with (tmp_path / "A.NPZ").open("wb") as file:
        np.savez(file, X=table[["x"]].to_numpy(), y=table["label"])
    for name in ("A.CSV", "A.Parquet", "A.NPZ"):
        read = read_bags(tmp_path / name)
        assert read.bags.tokens.tolist() == [[1.0], [2.0]] and list(read.labels) == [0, 1]


def test_other_separators_than_commas_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("bag_id;label;x\na;0;1\n")
    with pytest.raises(ValueError, match=r"t.csv has one column, .*: separate its fields by commas"):
        read_bags(tmp_path / "t.csv")


def test_labels_in_no_form_that_is_known(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"labels must be a file, a frame, or values keyed by bag id .*, got list"):
        Bags.from_files(tmp_path, [0])


def test_a_column_that_is_not_there_comes_with_the_option_that_names_it(tmp_path):
    path = tmp_path / "slides.csv"
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "patient": [1, 1, 2], "grade": [0, 0, 1]}).to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"'bag_id' .*\(--bag\).* bag=\.\.\.; its columns are 'x', 'patient', 'grade'"):
        read_bags(path)
    with pytest.raises(ValueError, match=r"'label' .*\(--label\).* label=\.\.\."):
        read_bags(path, bag="patient")
    assert len(read_bags(path, bag="patient", label="grade").bags) == 2


@pytest.mark.parametrize("form", ["csv", "npz", "folder"])
def test_missing_values_are_kept_where_that_is_asked_for(tmp_path, form):
    tokens = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    if form == "csv":
        path = tmp_path / "bags.csv"
        pd.DataFrame(tokens, columns=["x", "y"]).assign(bag_id=[0, 0, 1], label=[0, 0, 1]).to_csv(path, index=False)
    elif form == "npz":
        path = tmp_path / "bags.npz"
        np.savez(path, tokens=tokens, bag=[0, 0, 1], label=[0, 1])
    else:
        path = tmp_path / "bags"
        path.mkdir()
        np.save(path / "0.npy", tokens[:2]), np.save(path / "1.npy", tokens[2:])
    with pytest.raises(ValueError, match=r"contains NaN.*missing='impute'"):
        read_bags(path, need_labels=False)
    kept = read_bags(path, need_labels=False, missing="keep").bags
    np.testing.assert_array_equal(kept.tokens, tokens)
    np.testing.assert_array_equal(read_bags(path, need_labels=False, missing="drop-token").bags.tokens, tokens[1:])


def test_lists_of_columns_may_be_one_column(tmp_path):
    """A lone name is not taken for its letters."""
    (tmp_path / "b.csv").write_text("bag_id,label,x,note\n" + "".join(f"{i},{i % 2},{i}.5,t\n" for i in range(4)))
    read = read_bags(tmp_path / "b.csv", ignore="note")
    assert list(read.bags.feature_names) == ["x"]
    assert list(read_bags(tmp_path / "b.csv", features="x").bags.feature_names) == ["x"]
    with pytest.raises(ValueError, match="ignore must be a list of columns, got 5"):
        read_bags(tmp_path / "b.csv", ignore=5)


def test_an_archive_without_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("readme.txt", "no arrays")
    with pytest.raises(ValueError, match="it holds nothing"):
        read_bags(tmp_path / "b.npz")
