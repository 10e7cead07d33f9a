"""Bags: every input form, indexing, checks."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split

from sparsetoken import Bags, PooledClassifier


def ragged(rng, lengths=(3, 1, 5, 2), d=4, dtype=np.float64):
    return [rng.standard_normal((n, d)).astype(dtype) for n in lengths]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def same(a: Bags, b: Bags) -> bool:
    return np.array_equal(a.tokens, b.tokens) and np.array_equal(a.starts, b.starts)


def test_all_forms_give_the_same_bags(rng):
    parts = ragged(rng)
    bags = Bags(parts)
    flat, ids = np.concatenate(parts), np.repeat(["a", "b", "c", "d"], bags.lengths)
    padded, mask = bags.padded(fill=np.nan)
    frame = pd.DataFrame(flat, columns=list("wxyz"))
    keyed = frame.assign(group=ids)
    assert same(Bags(flat, ids=ids), bags)
    assert same(Bags(padded, mask=mask), bags)
    assert same(Bags(padded, mask=mask.astype(int)), bags)
    assert same(Bags(frame, ids=ids), bags)
    assert same(Bags(keyed, ids="group"), bags)
    assert same(Bags(keyed.groupby("group")), bags)
    assert same(Bags([p.tolist() for p in parts]), bags)
    assert same(Bags([pd.DataFrame(p) for p in parts]), bags)
    assert same(Bags(bags), bags)
    assert list(Bags(keyed.groupby("group")).ids) == ["a", "b", "c", "d"]
    assert list(Bags(keyed, ids="group").feature_names) == list("wxyz")


def test_rows_of_a_bag_need_not_be_neighbours_and_bags_keep_their_first_order(rng):
    flat = rng.standard_normal((6, 2))
    bags = Bags(flat, ids=["z", "a", "z", "m", "a", "z"])
    assert list(bags.ids) == ["z", "a", "m"]
    assert np.array_equal(bags[0], flat[[0, 2, 5]])
    assert np.array_equal(bags[1], flat[[1, 4]])


def test_three_dimensional_arrays_and_plain_tables(rng):
    cube = rng.standard_normal((5, 3, 2))
    assert same(Bags(cube), Bags(list(cube)))
    table = rng.standard_normal((5, 2))
    assert np.array_equal(Bags(table).lengths, np.ones(5))
    assert same(Bags(table.tolist()), Bags(table))


def test_indexing_gives_a_bag_or_bags(rng):
    parts = ragged(rng)
    bags = Bags(parts)
    assert np.array_equal(bags[2], parts[2])
    assert np.array_equal(bags[-1], parts[3])
    assert np.array_equal(bags[np.int64(1)], parts[1])
    chosen = bags[[3, 0, 3]]
    assert [len(b) for b in chosen] == [2, 3, 2]
    assert np.array_equal(chosen[2], parts[3])
    assert list(bags[1:3].ids) == [1, 2]
    assert len(bags[np.array([True, False, True, False])]) == 2
    with pytest.raises(IndexError, match="bag 4"):
        bags[4]
    for nothing in ([], slice(0, 0), np.zeros(4, dtype=bool)):
        with pytest.raises(ValueError, match="leaves no bags"):
            bags[nothing]
    for index in (True, [[0, 1]], None):
        with pytest.raises(ValueError, match="a slice, a list of places or a mask"):
            bags[index]


def test_splitting_pickling_and_precision(rng):
    bags = Bags(ragged(rng, dtype=np.float32))
    assert bags.dtype == np.float32
    train, test, y_train, _ = train_test_split(bags, [0, 1, 0, 1], random_state=0, test_size=2)
    assert isinstance(train, Bags) and len(train) == len(y_train) == 2
    assert set(train.ids) | set(test.ids) == {0, 1, 2, 3}
    assert same(pickle.loads(pickle.dumps(bags)), bags)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: Bags([*p, np.empty((0, 4))]), "bag 4 has no tokens"),
        (lambda p: Bags([p[0], []]), "bag 1 has no tokens"),
        (lambda p: Bags([p[0], p[1][:, :3]]), "bag 1 has 3 features"),
        (lambda p: Bags([p[0], p[1][0]]), "bag 1 must be a"),
        (lambda p: Bags(np.zeros((2, 3, 4)), mask=np.ones((2, 4))), r"mask must have shape \(2, 3\)"),
        (lambda p: Bags(np.zeros((2, 3, 4)), mask=np.zeros((2, 3))), "bag 0 has no tokens"),
        (lambda p: Bags(np.zeros((2, 3, 4)), mask=np.full((2, 3), 2)), "mask must be boolean"),
        (lambda p: Bags(np.zeros((5, 2)), ids=[0, 1]), r"one bag id per token \(5\)"),
        (lambda p: Bags(np.zeros((2, 2)), ids=["a", None]), "token 1 has no bag id"),
        (lambda p: Bags(np.zeros((2, 2)), ids=[0, 1], mask=[[1]]), "not both"),
        (lambda p: Bags(np.zeros(3)), "1D array"),
        (lambda p: Bags([["a", "b"], ["c", "d"]]), "must be numbers"),
        (lambda p: Bags(np.zeros((2, 3), dtype=complex)), "Complex"),
        (lambda p: Bags(np.zeros((0, 2)), ids=[]), "there are no bags"),
        (lambda p: Bags(np.zeros((2, 2)), ids=5), r"one bag id per token \(2\), got 5"),
        (lambda p: Bags([[[10**400, 1]]]), "double precision"),
        (lambda p: Bags([np.zeros((2, 2), dtype="datetime64[D]")]), "bag 0 must be numbers, got dates"),
    ],
)
def test_bad_bags_are_named(make, words, rng):
    with pytest.raises(ValueError, match=words):
        make(ragged(rng))


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_a_number_that_is_none_is_located(value, word, rng):
    parts = ragged(rng)
    parts[2][4, 1] = value
    with pytest.raises(ValueError, match=f"{word}: bag 2, token 4, feature 1"):
        Bags(parts)
    frame = pd.DataFrame(np.concatenate(parts), columns=list("wxyz"))
    with pytest.raises(ValueError, match=f"{word}: bag 'c', token 4, feature 'x'"):
        Bags(frame, ids=list("aaabcccccdd"))


@pytest.mark.parametrize("columns", [["bag", "x", "y"], [0, 1, 2]], ids=["named", "numbered"])
def test_the_grouping_column_is_never_a_feature(columns):
    frame = pd.DataFrame([[7, 1.0, 2.0], [7, 3.0, 4.0], [8, 5.0, 6.0]], columns=columns)
    for groups in (frame.groupby(columns[0]), frame.groupby([columns[0]]), frame.groupby(frame[columns[0]])):
        bags = Bags(groups)
        assert np.array_equal(bags.tokens, frame[columns[1:]]) and list(bags.ids) == [7, 8]
    assert Bags(frame.groupby(columns[0])[columns[2:]]).n_features == 1


def test_groups_neither_lose_tokens_nor_have_none():
    frame = pd.DataFrame({"bag": pd.Categorical(["a", "a", "b"], ["a", "b", "c"]), "x": [1.0, 2.0, 3.0]})
    assert list(Bags(frame.groupby("bag", observed=True)).lengths) == [2, 1]
    with pytest.raises(ValueError, match="bag 'c' has no tokens"):
        Bags(frame.groupby("bag", observed=False))
    with pytest.raises(ValueError, match="1 of the 3 tokens have no bag id"):
        Bags(frame.assign(bag=["a", None, "b"]).groupby("bag"))
    with pytest.raises(ValueError, match="groups are of one column"):
        Bags(frame.groupby("bag", observed=True)["x"])


def test_labels_by_bag_id(rng):
    bags = Bags(np.concatenate(ragged(rng)), ids=list("aaabcccccdd"))
    labels = {"d": 1, "c": 0, "b": 1, "a": 0}
    assert list(bags.labels(labels)) == [0, 1, 0, 1]
    assert list(bags.labels(pd.Series(labels))) == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="'e', which is not among the bags"):
        bags.labels(labels | {"e": 1})
    with pytest.raises(ValueError, match="bag 'c' has no label"):
        bags.labels({k: v for k, v in labels.items() if k != "c"})


def test_a_long_bag_costs_its_tokens_and_no_more(rng):
    bags = Bags([np.ones((1000, 5)), *(np.ones((3, 5)) for _ in range(200))])
    assert bags.tokens.shape == (1600, 5)


def test_masked_values_are_not_taken_for_numbers():
    bag = np.ma.masked_array(np.ones((3, 2)), mask=np.eye(3, 2, dtype=bool))
    for given in ([bag, bag], bag):
        with pytest.raises(ValueError, match="masked values"):
            Bags(given)
    assert len(Bags([np.ma.masked_array(np.ones((3, 2)))] * 2)) == 2  # nothing is masked


def test_rows_of_different_lengths_and_no_bags_at_all():
    with pytest.raises(ValueError, match="the rows of the features differ in length: bags are a list of"):
        Bags([[1, 2], [3]])
    with pytest.raises(ValueError, match="there are no bags"):
        PooledClassifier().fit([], [])
