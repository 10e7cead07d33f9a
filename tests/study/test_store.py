"""The store: keys, reuse, failures, and what happens to it when things go wrong."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsetoken._core.user_code import load_source
from sparsetoken.study import Grid, Store, StoreError, TrialSpec
from sparsetoken.study.kind_registry import stream_seed
from sparsetoken.study.tables import tidy, write_table

SOURCE = str(Path(__file__).with_name("toy.py"))
load_source(SOURCE)


def toy(x=1.0, seed=0):
    return TrialSpec.of("toy", SOURCE, x=x, seed=seed)


def outcome(**result):
    return {"result": result, "traceback": None, "seconds": 0.5, "cpu_seconds": 0.4}


FAILURE = {"result": None, "traceback": "Traceback: it broke", "seconds": 0.1, "cpu_seconds": 0.1}


def test_the_key_is_the_full_specification():
    assert toy().key == TrialSpec.of("toy", x=1.0).key  # defaults are part of it, given or not
    assert len({toy().key, toy(x=2.0).key, toy(seed=1).key}) == 3
    assert toy().key == TrialSpec.of("toy", x=np.float64(1.0), pause=0.0, log="").key


def test_one_number_is_one_trial_however_it_is_written():
    assert (
        TrialSpec.of("two_steps", d=30).key
        == TrialSpec.of("two_steps", d=30.0).key
        == TrialSpec.of("two_steps", d=np.int64(30)).key
    )
    assert toy(x=1).key == toy(x=1.0).key
    for kind, arguments in (("two_steps", {"d": 30}), ("toy", {"x": 1}), ("readout_theory", {"alpha": [1, 2]})):
        whole = TrialSpec.of(kind, **arguments).arguments
        floats = {name: [float(v) for v in value] if isinstance(value, list) else float(value)
                  for name, value in arguments.items()}  # fmt: skip
        assert json.dumps(whole) == json.dumps(
            TrialSpec.of(kind, **floats).arguments
        )  # the same types, and so the same seed


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("two_steps", {"d": 0}, "d must be a whole number >= 2"),
        ("simulate", {"d": 1}, "d must be"),
        ("simulate", {"d": 30.5}, "d must be a whole number"),
        ("simulate", {"d": True}, "d must be a whole number"),
        ("simulate", {"d": 30, "model": "magic"}, "model must be one of"),
        ("simulate", {"d": 30, "equal_samples": 1}, "equal_samples must be true or false"),
        ("simulate", {"d": 30, "model": "elementwise:step"}, "activation must be one of"),
        ("simulate", {"d": 30, "test_length": 2.5}, "length must be"),
        ("simulate", {"d": 30, "test_samples": -1}, "samples must be"),
        (
            "simulate",
            {"d": 10**9},
            "d must be smaller than 1,000,000,000: the attention features would be 16,000,000,000 GB",
        ),
        ("message_passing", {"d": 10**5, "alpha": 1.0}, "d must be smaller .* tokens of all bags would be 800 GB"),
        ("planned", {"d": 10**5, "alpha": 1.0}, "d must be smaller .* attention features would be 80 GB"),
        ("attention_mass", {"d": 30, "bins": 0}, "bins must be a whole number from 1 to 10,000, got 0"),
        ("attention_mass_theory", {"bins": 10**9}, "bins must be a whole number from 1"),
        ("margins", {"d": 30, "alpha": 1.0, "low": 0, "high": 1, "bins": 0}, "bins must be a whole number from 1"),
        ("margins_theory", {"alpha": 1.0, "low": 0, "high": 1, "bins": 0}, "bins must be a whole number from 1"),
        ("simulate", {"d": 30, "sharpness": "high"}, "sharpness must be a number"),
        ("readout_theory", {"alpha": 2.0}, "alpha must be a list"),
        ("readout_theory", {"alpha": [1.0, "b"]}, "alpha must be a number"),
    ],
)
def test_trials_that_cannot_be_are_refused_before_they_run(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        TrialSpec.of(kind, **arguments)


def test_a_new_version_is_a_new_key(monkeypatch):
    from sparsetoken.study import kind_registry as registry

    before, kind = toy().key, registry.get_kind("toy")
    monkeypatch.setitem(registry._KINDS, "toy", registry.TrialKind("toy", kind.version + 1, kind.function))
    assert toy().key != before


def test_random_numbers_differ_between_points_and_repeat_exactly():
    trials = Grid("t", "toy", axes={"x": [1.0, 2.0]}, repeats=3, source=SOURCE).trials()
    seeds = [stream_seed(t.kind, t.arguments) for t in trials]
    assert len(set(seeds)) == 6
    assert seeds == [stream_seed(t.kind, json.loads(json.dumps(t.arguments))) for t in trials]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs 'x'"),
        ({"x": 1.0, "y": 2}, "has no parameter 'y'"),
        ({"x": float("nan")}, "x must be finite"),
        ({"x": object()}, "plain data"),
        ({"x": 1.0, "seed": -1}, "seed must be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrialSpec.of("toy", **arguments)


def test_unknown_kind():
    with pytest.raises(ValueError, match="no trial kind 'magic'"):
        TrialSpec.of("magic")


def test_rows_survive_reopening(tmp_path):
    path = tmp_path / "deep" / "store.sqlite"
    with Store(path) as store:
        store.record(toy(), outcome(value=1.25, text="a", series=[1, 2], bad=float("nan")))
        store.record(toy(seed=1), FAILURE)
    with Store(path) as store:
        assert store.finished() == {toy().key}
        row = store.lookup([toy().key, toy(seed=1).key, "unknown"])
        assert row[toy().key].result["value"] == 1.25
        assert row[toy(seed=1).key].traceback == "Traceback: it broke"
        table = tidy(store.rows())
    assert table["value"].tolist() == [1.25]
    assert table["series"].tolist() == ["[1, 2]"]
    assert table["bad"].isna().all()


def test_success_stays_and_failure_gives_way(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.record(toy(), FAILURE)
        store.record(toy(), outcome(value=1.0))
        store.record(toy(), outcome(value=2.0))
        store.record(toy(), FAILURE)
        assert [row.result for row in store.rows()] == [{"value": 1.0}]


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"my only copy of the thesis" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="not an SQLite file or is damaged"):
        Store(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE music (title TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        Store(path)
    assert path.read_bytes() == before


def test_damage_inside_is_noticed(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for seed in range(200):
            store.record(toy(seed=seed), outcome(value=1.0))
    content = bytearray(path.read_bytes())
    content[5000:9000] = b"\xff" * 4000
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        Store(path)
    assert path.read_bytes() == bytes(content)


def test_a_changed_row_is_noticed_and_made_good_by_a_fresh_one(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.record(toy(), outcome(value=1.0))
        store.record(toy(seed=1), outcome(value=2.0))
    for change in ("result='{\"value\": 9.0}'", "kind='line'", "arguments='{}'", "status='failed'", "code='0'"):
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE trials SET {change} WHERE key=?", (toy().key,))
        connection.close()
        with Store(path) as store:
            with pytest.raises(StoreError, match=r"was changed by something else.*--fresh"):
                store.rows()
            with pytest.raises(StoreError, match="was changed by something else"):
                store.lookup([toy().key])
            assert store.lookup([toy(seed=1).key])[toy(seed=1).key].result == {"value": 2.0}
            store.record(toy(), outcome(value=1.0), replace=True)
            assert [row.result["value"] for row in store.rows()] == [1.0, 2.0]


def _two_studies(path):
    """A store with two studies of some pages; what is to be read from it."""
    with Store(path) as store:
        for seed in range(60):
            store.record(toy(seed=seed), outcome(value=float(seed)))
        store.enrol("first", {"a": [toy(seed=s) for s in range(40)], "b": [toy(seed=s) for s in range(40, 60)]})
        store.enrol("second", {"a": [toy(seed=s) for s in range(0, 60, 3)]})
    return _read(path)


def _read(path):
    with Store(path, read_only=True) as store:
        everything = [store.rows(study="first"), store.rows(study="second"), store.rows()]
        found = store.lookup(toy(seed=s).key for s in range(60))
    return [[(row.arguments, row.result) for row in rows] for rows in (*everything, found.values())]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE studies SET tables='{}' WHERE name='second'",
        "UPDATE studies SET name='third' WHERE name='second'",
        "UPDATE studies SET checksum='' WHERE name='second'",
    ],
)
def test_a_changed_list_of_trials_is_noticed_and_made_good_by_the_next_run(tmp_path, change):
    path = tmp_path / "s.sqlite"
    whole = _two_studies(path)
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    with Store(path) as store:
        for look in (store.studies, lambda: store.rows(study="second")):
            with pytest.raises(StoreError, match=r"trials of study '(second|third)' was changed by something other"):
                look()
        store._connection.execute("DELETE FROM studies WHERE name='third'")
        store.enrol("second", {"a": [toy(seed=s) for s in range(0, 60, 3)]})
        assert _read(path) == whole


def test_no_damage_changes_what_is_read(tmp_path):
    """Swapped and repeated pages, zeroed and overwritten stretches, single bits: noticed, or what is read is the same."""
    path, damaged = tmp_path / "s.sqlite", tmp_path / "damaged.sqlite"
    whole, content = _two_studies(path), path.read_bytes()
    pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
    cases = []
    for i in range(1, len(pages)):
        for j in range(1, i):
            swapped = list(pages)
            swapped[i], swapped[j] = pages[j], pages[i]
            cases += [b"".join(swapped), b"".join([*pages[:i], pages[j], *pages[i + 1 :]])]
    rng = np.random.default_rng(0)
    for _ in range(120):
        changed, at, size = bytearray(content), int(rng.integers(len(content))), int(rng.choice([1, 8, 200]))
        filling = (bytes(size), rng.bytes(size), bytes([content[at] ^ 1 << int(rng.integers(8))]))[rng.integers(3)]
        changed[at : at + len(filling)] = filling
        cases += [bytes(changed[: len(content)])]
    noticed = 0
    for case in cases:
        damaged.write_bytes(case)
        try:
            assert _read(damaged) == whole
        except StoreError:
            noticed += 1
    assert noticed > 0.4 * len(cases)  # the others are free space
    changed = bytearray(content)
    changed[content.index(b"CREATE TABLE trials") + 1] = 0xDD  # SQLite's message cannot be decoded
    damaged.write_bytes(changed)
    with pytest.raises(StoreError, match="damaged"):
        _read(damaged)


def test_when_a_row_was_made_is_part_of_its_checksum(tmp_path):
    path = tmp_path / "s.sqlite"
    for change in ("finished='2020-01-01'", "package='0'", "seconds=1e9", "seconds=NULL", "kind=x'00'"):
        with Store(path) as store:
            store.record(toy(), outcome(value=1.0) | {"seconds": 1}, replace=True)
            assert len(store.rows()) == 1
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE trials SET {change}")
        connection.close()
        with Store(path) as store, pytest.raises(StoreError, match="was changed by something else"):
            store.rows()


def test_an_empty_file_is_no_store_to_read_and_becomes_one_when_written(tmp_path):
    path = tmp_path / "s.sqlite"
    path.touch()
    with pytest.raises(StoreError, match="is an empty file"):
        Store(path, read_only=True)
    with Store(path) as store:
        store.record(toy(), outcome(value=1.0))
    assert _values(path) == [1.0]


def _values(path):
    with Store(path, read_only=True) as store:
        return [row.result["value"] for row in store.rows()]


WRITER = """
import sys
from sparsetoken._core.user_code import load_source
from sparsetoken.study import Store, TrialSpec
load_source(sys.argv[2])
with Store(sys.argv[1]) as store:
    for seed in range(int(sys.argv[3]), 200, 2):
        store.record(TrialSpec.of("toy", x=1.0, seed=seed), {"result": {"value": float(seed)}, "traceback": None})
"""


def test_two_processes_that_make_and_write_one_store_lose_no_row(tmp_path):
    path = str(tmp_path / "s.sqlite")
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, SOURCE, str(first)]) for first in (0, 1)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(_values(path)) == [float(seed) for seed in range(200)]


def test_making_a_store_leaves_it_alone_in_its_folder(tmp_path):
    Store(tmp_path / "s.sqlite").close()
    assert [p.name for p in tmp_path.iterdir()] == ["s.sqlite"]


READER = """
import os, sys
from sparsetoken.study import Store
os.setuid(65534)
with Store(sys.argv[1], read_only=True) as store:
    print([row.result["value"] for row in store.rows()])
"""


@pytest.mark.parametrize("closed", [True, False])
def test_read_only_media_can_be_read_if_the_store_was_closed(tmp_path, closed):
    """Another user without the right to write, as on a read-only medium; once with rows still in SQLite's log."""
    if os.getuid() != 0:
        pytest.skip("needs another user, which only root can become")
    folder = tmp_path / "medium"
    store = Store(folder / "s.sqlite")
    store.record(toy(), outcome(value=1.25))
    if closed:
        store.close()
    else:  # as a killed process leaves it
        taken = tmp_path / "taken"
        shutil.copytree(folder, taken)
        store.close()
        folder = taken
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    for parent in [folder, *folder.parents][1:-2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    before = sorted(p.name for p in folder.iterdir())
    done = subprocess.run([sys.executable, "-c", READER, str(folder / "s.sqlite")], capture_output=True, text=True)
    assert done.stdout == "[1.25]\n" if closed else "was not closed: copy it with s.sqlite-wal" in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == before


def test_looking_writes_nothing(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.record(toy(), outcome(value=1.0))
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        assert len(store.rows()) == 1
        with pytest.raises(StoreError, match="cannot write to store"):
            store.record(toy(seed=1), outcome(value=1.0))
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "none.sqlite", read_only=True)


@pytest.mark.parametrize("version", [3, 99])
def test_another_format_asks_for_a_new_store(tmp_path, version):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version={version}")
    connection.close()
    with pytest.raises(StoreError, match=f"format {version}, .* start a new store"):
        Store(path)


def test_a_locked_store_says_so(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path, timeout=0.1) as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another process holds it"):
            store.record(toy(), outcome(value=1.0))
        holder.execute("ROLLBACK")
        holder.close()
        store.record(toy(), outcome(value=1.0))
        assert store.finished() == {toy().key}


def test_a_full_disk_keeps_what_was_recorded(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        store.record(toy(), outcome(value=1.0))
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreError, match="disk is full"):
            store.record(toy(seed=1), outcome(value=list(range(20_000))))
        with pytest.raises(StoreError, match="disk is full"):
            store.enrol("study", {"table": [toy(seed=i) for i in range(5000)]})
    with Store(tmp_path / "s.sqlite") as store:
        assert store.finished() == {toy().key}
        assert store.studies() == {}
        store.enrol("study", {"table": [toy()]})
        assert store.studies() == {"study": 1}


def test_missing_store_and_folder_in_its_place(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path / "none.sqlite", read_only=True)
    with pytest.raises(StoreError, match="is a folder"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make the folder"):
        Store(tmp_path / "file" / "s.sqlite")


def test_two_stores_on_one_file(tmp_path):
    with Store(tmp_path / "s.sqlite") as one, Store(tmp_path / "s.sqlite") as two:
        one.record(toy(), outcome(value=1.0))
        two.record(toy(), outcome(value=3.0))
        two.record(toy(seed=1), outcome(value=2.0))
        assert [row.result["value"] for row in one.rows()] == [1.0, 2.0]


def test_tables_are_written_in_three_formats(tmp_path):
    table = pd.DataFrame({"a": [1.5, 2.0], "b": ["x", "y"]})
    for ending, read in ((".csv", pd.read_csv), (".parquet", pd.read_parquet), (".json", pd.read_json)):
        write_table(table, tmp_path / f"t{ending}")
        pd.testing.assert_frame_equal(read(tmp_path / f"t{ending}"), table, check_dtype=False)
    with pytest.raises(ValueError, match=r"must end in \.csv"):
        write_table(table, tmp_path / "t.xlsx")


@pytest.mark.parametrize("values", [[1.0, '{"q": 1.0}', None], ['{"q": 1.0}', 1, None]])
def test_columns_of_numbers_and_text_are_text_in_a_parquet_file(tmp_path, values):
    """Rates for all directions, and for each: Parquet has one type per column."""
    write_table(pd.DataFrame({"rates": pd.Series(values, dtype=object), "d": [1, 2, 3]}), tmp_path / "t.parquet")
    found = pd.read_parquet(tmp_path / "t.parquet")
    assert [json.loads(text) for text in found["rates"][:2]] == [
        v if not isinstance(v, str) else json.loads(v) for v in values[:2]
    ]
    assert pd.isna(found["rates"][2]) and list(found["d"]) == [1, 2, 3]
