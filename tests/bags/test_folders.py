"""Folders with one file per bag: all formats give the same bags, bad files end in one sentence, memory stays bounded."""

from __future__ import annotations

import ast
import errno
import io
import os
import pickle
import shutil
import time
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sparsetoken import Bags, PooledClassifier
from sparsetoken.bags import temporary_files
from sparsetoken.bags.reading.array_files import opened_bag
from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.bags.temporary_files import is_mapped

TORCH = Path(__file__).parents[1] / "data" / "torch"
SAVED = ((np.arange(12, dtype=np.float32) - 5) / 4).reshape(4, 3)  # what all those files hold


def drawn(count: int = 6, width: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {f"slide{i}": rng.standard_normal((i + 1, width)).astype(np.float32) for i in range(count)}


def write(folder: Path, ending: str, bags: dict[str, np.ndarray]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, tokens in bags.items():
        path = folder / (name + ending)
        if ending == ".npy":
            np.save(path, tokens)
        elif ending == ".npz":
            np.savez_compressed(path, features=tokens, coords=np.zeros((len(tokens), 2)))
        elif ending == ".parquet":
            pd.DataFrame(tokens, columns=[f"f{j}" for j in range(tokens.shape[1])]).to_parquet(path)
        elif ending == ".h5":
            h5py = pytest.importorskip("h5py")
            with h5py.File(path, "w") as file:
                file["features"], file["coords"] = tokens[None], np.zeros((len(tokens), 2))
    return folder


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".h5"])
def test_all_formats_give_the_bags_that_were_written(tmp_path, ending):
    wanted = drawn()
    folder = write(tmp_path / "features", ending, wanted)
    (folder / "notes.txt").write_text("not a bag")
    labels = pd.DataFrame({"slide": [f"{n}{ending}" for n in reversed(wanted)], "grade": list("abcabc")})
    bags, y = Bags.from_files(f"{folder}/*{ending}", labels, bag="slide", label="grade")
    assert list(bags.ids) == list(wanted) and list(y) == list("cbacba")
    assert bags.dtype == np.float32
    for bag, tokens in zip(bags, wanted.values()):
        np.testing.assert_array_equal(bag, tokens)
    again = Bags.from_files(folder)
    np.testing.assert_array_equal(again.tokens, bags.tokens)
    assert (bags.feature_names is not None) == (ending == ".parquet")


@pytest.mark.parametrize(
    "name", ["float32", "half", "bfloat16", "dictionary", "parameter", "transposed", "slice", "one_bag"]
)
def test_tensors_are_read_without_torch(name):
    bags = Bags.from_files(TORCH / f"{name}.pt")
    np.testing.assert_array_equal(bags[0], SAVED)
    assert bags.dtype == (np.float64 if name == "dictionary" else np.float32)


def test_one_of_several_tensors_is_named():
    np.testing.assert_array_equal(Bags.from_files(TORCH / "dictionary.pt", key="coords")[0], np.arange(8).reshape(4, 2))
    with pytest.raises(ValueError, match=r"dictionary.pt has no array 'logits'; it has 'coords', 'features'"):
        Bags.from_files(TORCH / "dictionary.pt", key="logits")


class Evil:
    """Would write a file if it were unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def archive(path: Path, description: bytes, numbers: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", description)
        file.writestr("archive/data/0", numbers)
    return path


def test_nothing_in_a_file_is_executed(tmp_path):
    trace = tmp_path / "trace"
    with pytest.raises(ValueError, match=r"evil.pt is not read: it contains .*only tensors of numbers are read"):
        Bags.from_files(archive(tmp_path / "evil.pt", pickle.dumps(Evil(trace), protocol=2)))
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Evil(trace), protocol=2))
    with pytest.raises(ValueError, match=r"old.pt is no"):
        Bags.from_files(tmp_path / "old.pt")
    np.save(tmp_path / "evil.npy", np.array([Evil(trace)], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"evil.npy must hold numbers, got Python objects, which are never loaded"):
        Bags.from_files(tmp_path / "evil.npy")
    np.savez(tmp_path / "evil.npz", features=np.array([[Evil(trace)]], dtype=object))
    with pytest.raises(ValueError, match=r"evil.npz must hold numbers"):
        Bags.from_files(tmp_path / "evil.npz")
    assert not trace.exists()
    refused = [("module", "contains torch.nn"), ("script", "TorchScript program"), ("old_format", "no file of")]
    for name, reason in refused:
        with pytest.raises(ValueError, match=rf"{name}.pt .*{reason}"):
            Bags.from_files(TORCH / f"{name}.pt")


def tensor_pickle(offset: int, size: tuple, stride: tuple) -> bytes:
    """The description of a tensor of single precision as torch.save writes it."""

    class Describe(pickle._Pickler):
        def persistent_id(self, item):
            return ("storage", item[0], "0", "cpu", 6) if isinstance(item, tuple) and item[:1] == (Global,) else None

        def save_global(self, item, name=None):
            self.write(b"ctorch\nFloatStorage\n" if item is Global else b"ctorch._utils\n_rebuild_tensor_v2\n")

    class Global:
        pass

    class Rebuild:
        def __reduce__(self):
            return rebuild, ((Global,), offset, size, stride, False, None)

    def rebuild():
        """Stands for torch's own."""

    Describe.dispatch = {**pickle._Pickler.dispatch, type(rebuild): Describe.save_global, type: Describe.save_global}
    out = io.BytesIO()
    Describe(out, protocol=2).dump(Rebuild())
    return out.getvalue()


def test_tensors_that_reach_beyond_their_file_are_refused(tmp_path):
    numbers = np.arange(6, dtype=np.float32)
    good = archive(tmp_path / "good.pt", tensor_pickle(0, (2, 3), (3, 1)), numbers.tobytes())
    np.testing.assert_array_equal(Bags.from_files(good)[0], numbers.reshape(2, 3))
    for offset, size, stride in (
        (1, (2, 3), (3, 1)),
        (0, (2, 3), (900, 1)),
        (0, (2, 3), (1, 9)),
        (7, (1, 1), (1, 1)),
        (0, (10**9, 10**9), (0, 0)),
    ):
        bad = archive(tmp_path / "bad.pt", tensor_pickle(offset, size, stride), numbers.tobytes())
        with pytest.raises(ValueError, match=r"bad.pt is not read: its tensor reaches beyond"):
            Bags.from_files(bad)


def test_hdf5_without_its_package_says_which(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"")
    with pytest.raises(ImportError, match=r"h5py is not installed .* pip install 'sparsetoken\[hdf5\]'; NPY and NPZ"):
        Bags.from_files(tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(3), r"slide2.npy must hold a \(tokens, features\) array, got shape \(3,\)"),
        (np.ones((0, 3)), r"slide2.npy has no tokens"),
        (np.ones((2, 4)), r"slide2.npy has 4 features, .*slide0.npy has 3"),
        (np.array([[1.0, np.nan, 0.0]]), r"slide2.npy contains NaN: token 0, feature 1"),
        (np.array([["a", "b", "c"]]), r"slide2.npy must hold numbers"),
        (b"", r"slide2.npy is empty"),
        (b"\x93NUMPY\x01\x00", r"slide2.npy cannot be read as a bag"),
        (b"hello world, this is no array", r"slide2.npy is not in NumPy's format$"),
        (
            np.array([[{}, 1, 2]], dtype=object),
            r"slide2.npy must hold numbers, got Python objects, which are never loaded",
        ),
    ],
)
def test_a_bad_file_is_named(tmp_path, array, message):
    folder = write(tmp_path / "features", ".npy", drawn())
    if isinstance(array, bytes):
        (folder / "slide2.npy").write_bytes(array)
    else:
        np.save(folder / "slide2.npy", array)
    with pytest.raises(ValueError, match=message) as caught:
        Bags.from_files(folder)
    assert "\n" not in str(caught.value)


def test_an_array_without_a_shape_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = h5py.Empty("f8")
    with pytest.raises(ValueError, match=r"a\.h5 holds an empty array"):
        Bags.from_files(tmp_path)


def test_an_array_that_lies_in_another_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = write(tmp_path / "features", ".h5", drawn())
    (tmp_path / "secret").write_bytes(bytes(24))
    layout = h5py.VirtualLayout((1, 3), "f4")
    layout[0] = h5py.VirtualSource(folder / "slide0.h5", "features", (2, 3))[0]
    for make in (
        lambda file: file.create_dataset("features", (2, 3), "f4", external=[(str(tmp_path / "secret"), 0, 24)]),
        lambda file: file.create_virtual_dataset("features", layout),
    ):
        with h5py.File(folder / "slide2.h5", "w") as file:
            make(file)
        with pytest.raises(ValueError, match=r"slide2.h5 is not read: its array lies in another file"):
            Bags.from_files(folder)


def test_what_looks_like_a_bag_and_is_no_file_is_named(tmp_path):
    folder = write(tmp_path / "features", ".npy", drawn())
    bad = folder / "slide9.npy"
    for target in (tmp_path / "gone", bad, None):
        bad.mkdir() if target is None else bad.symlink_to(target)
        for files in (folder, str(folder / "*.npy"), [bad]):
            with pytest.raises(ValueError, match=r"slide9.npy is no file that can be read: a broken link"):
                Bags.from_files(files)
        bad.rmdir() if target is None else bad.unlink()
    assert len(Bags.from_files(folder)) == 6


def test_broken_archives_are_named(tmp_path):
    folder = write(tmp_path / "features", ".npz", drawn())
    data = (folder / "slide5.npz").read_bytes()
    (folder / "slide5.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"slide5.npz cannot be read"):
        Bags.from_files(folder)
    (folder / "slide5.parquet").write_bytes(b"PAR1 nonsense PAR1")
    with pytest.raises(ValueError, match=r"slide5.parquet cannot be read"):
        Bags.from_files(folder / "slide5.parquet")
    shutil.copy(TORCH / "float32.pt", folder / "slide5.pt")
    with pytest.raises(ValueError, match=r"bag 'slide5' is in two files, .*slide5.npz and .*slide5.pa?r?q?u?e?t?"):
        Bags.from_files(folder)


def test_labels_must_fit_the_files(tmp_path):
    folder = write(tmp_path / "features", ".npy", drawn())
    with pytest.raises(ValueError, match="'slide5' has no label"):
        Bags.from_files(folder, {f"slide{i}": i for i in range(5)})
    bags, y = Bags.from_files(folder, {f"slide{i}": i for i in (3, 1, 9)}, skip_unmatched=True)
    assert list(bags.ids) == ["slide1", "slide3"] and list(y) == [1, 3]
    with pytest.raises(ValueError, match=r"'slide6', which is not among the bags \(their ids are such as 'slide0'\)"):
        Bags.from_files(folder, {f"slide{i}": i for i in range(8)})
    with pytest.raises(ValueError, match="none of the 6 files has a label"):
        Bags.from_files(folder, {"other": 1}, skip_unmatched=True)
    with pytest.raises(ValueError, match=r"no files of bags"):
        Bags.from_files(tmp_path)
    with pytest.raises(ValueError, match=r"there is no file .*\*.npz"):
        Bags.from_files(f"{folder}/*.npz")


def test_a_bag_is_not_labelled_twice_under_two_names(tmp_path):
    folder = write(tmp_path / "features", ".npy", drawn(2))
    _, y = Bags.from_files(folder, {"slide1.npy": 1, "slide0": 0})
    assert list(y) == [0, 1]
    for names in (("slide0", "slide0.npy"), ("slide0.h5", "slide0.npy")):
        with pytest.raises(ValueError, match=f"names bag 'slide0' twice, as '{names[0]}' and as '{names[1]}'"):
            Bags.from_files(folder, {names[0]: 0, names[1]: 1, "slide1": 1})


def test_labels_are_matched_to_bags_and_not_to_files(tmp_path):
    """Tables with several bags each: their files' names are no ids, and ids may look like names of files."""
    folder = tmp_path / "parts"
    folder.mkdir()
    table = pd.DataFrame({"bag_id": ["s1.h5", "s2", "s1.h5"], "label": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    table.to_parquet(folder / "part0.parquet")
    bags, y = Bags.from_files(folder, {"s1.h5": 0, "s2.h5": 1})
    assert list(bags.ids) == ["s1.h5", "s2"] and list(y) == [0, 1]
    bags, y = Bags.from_files(folder, {"s2": 1, "s3": 0}, skip_unmatched=True)
    assert list(bags.ids) == ["s2"] and list(y) == [1] and bags.tokens.tolist() == [[2.0]]
    with pytest.raises(ValueError, match="none of the 2 bags"):
        Bags.from_files(folder, {"s3": 0}, skip_unmatched=True)
    with pytest.raises(
        ValueError, match=r"bag 's2' has the label 1 in .*parts and 0 in the table.* ignore=\['label'\]"
    ):
        Bags.from_files(folder, {"s2": 0, "s1.h5": 0})


def test_labels_of_many_files_take_no_time_that_grows_with_their_square():
    from sparsetoken.bags.reading.tables import values_of_bags

    names = [f"slide{i}" for i in range(40_000)]  # minutes, where every name went through all of them
    assert values_of_bags({f"{name}.h5": 1 for name in names}, names) == dict.fromkeys(names, 1)


def test_parquet_files_may_hold_parts_of_many_bags(tmp_path):
    table = pd.DataFrame(
        {"bag_id": [3, 1, 3, 2, 1, 1], "label": [1, 0, 1, 0, 0, 0], "f": np.arange(6.0), "g": np.arange(6) % 2}
    )
    folder = tmp_path / "parts"
    folder.mkdir()
    table[:3].to_parquet(folder / "part0.parquet")
    table[3:].to_parquet(folder / "part1.parquet")
    read = read_bags(folder)
    assert list(read.bags.ids) == ["3", "1", "2"] and list(read.labels) == [1, 0, 0]
    assert list(read.bags.feature_names) == ["f", "g"]
    np.testing.assert_array_equal(read.bags[1][:, 0], [1.0, 4.0, 5.0])
    table.assign(label=[1, 0, 0, 0, 0, 0])[:3].to_parquet(folder / "part0.parquet")
    with pytest.raises(ValueError, match="bag '3' has more than one label"):
        read_bags(folder)


def test_columns_that_are_no_features_are_named_and_left_out(tmp_path):
    folder = tmp_path / "slides"
    folder.mkdir()
    for name in ("a", "b"):
        pd.DataFrame({"x": [1.0, 2.0], "stain": ["H", "E"], "f": [3.0, 4.0]}).to_parquet(folder / f"{name}.parquet")
    with pytest.raises(ValueError, match=r"column 'stain' of .*a.parquet is not numeric.* ignore=\['stain'\]"):
        Bags.from_files(folder)
    bags = Bags.from_files(folder, ignore=["stain", "x"])
    assert list(bags.feature_names) == ["f"] and list(bags.ids) == ["a", "b"]
    with pytest.raises(ValueError, match=r"no file has a column 'stian' to ignore; the columns of .*'stain'"):
        Bags.from_files(folder, ignore=["stian", "x"])
    with pytest.raises(ValueError, match=r"no column 'x' to ignore: .* hold arrays"):
        Bags.from_files(write(tmp_path / "arrays", ".npy", drawn()), ignore=["x"])


def test_damaged_tables_are_named(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    pd.DataFrame({"bag_id": [f"b{i % 50}" for i in range(5000)], "x": rng.random(5000)}).to_parquet(path)
    path.write_bytes(path.read_bytes()[:4] + bytes(3000) + path.read_bytes()[3004:])
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as a table: [^\n]*$"):
        Bags.from_files([path])
    for names in (["bag_id", "x", "x"], ["y", "x", "x"]):
        pyarrow.parquet.write_table(pyarrow.table([pyarrow.array([1.0])] * 3, names=names), path)
        with pytest.raises(ValueError, match=r"a\.parquet has two columns 'x'"):
            Bags.from_files([path])
    pd.DataFrame({"bag_id": [["a"], ["b"]], "x": [1.0, 2.0]}).to_parquet(path)
    with pytest.raises(ValueError, match="ids must be text or numbers"):
        Bags.from_files([path])
    pd.DataFrame({"bag_id": ["a", "b"], "label": [1, None], "x": [1.0, 2.0]}).to_parquet(path)
    with pytest.raises(ValueError, match="bag 'b' has no label in column 'label'"):
        read_bags(tmp_path)
    assert read_bags(tmp_path, need_labels=False).labels is None


@pytest.mark.parametrize("shape", [(-1, 3), (3, -2), (10**30, 2)])
def test_sizes_that_cannot_be_are_told_with_their_file(tmp_path, shape):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("features.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"a\.npz is damaged"):
        Bags.from_files(tmp_path)


def test_a_folder_with_signs_of_patterns_in_its_name(tmp_path):
    folder = write(tmp_path / "slides [1]", ".npy", drawn(3))
    assert list(Bags.from_files(folder).ids) == list(Bags.from_files(f"{folder}/sl*.npy").ids) == list(drawn(3))
    assert list(Bags.from_files(f"{tmp_path}/**/*2.npy").ids) == ["slide2"]


@pytest.mark.parametrize("files", [5, None, b"features"])
def test_what_are_no_files_is_said(files):
    with pytest.raises(ValueError, match="files must be a pattern, a folder or a list of files"):
        Bags.from_files(files)


def test_a_folder_is_streamed(tmp_path, monkeypatch):
    """32 MB of files, with at most 1 MB of them at a time: memory holds a few blocks, and the tokens lie in a file."""
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 2**20)
    rng = np.random.default_rng(1)
    folder = tmp_path / "features"
    folder.mkdir()
    for i in range(32):
        tokens = rng.standard_normal((1024, 256), dtype=np.float32)
        if i % 2:
            np.save(folder / f"{i:02d}.npy", tokens)
        else:
            np.savez(folder / f"{i:02d}.npz", tokens)
    tracemalloc.start()
    bags = Bags.from_files(folder)
    model = PooledClassifier(ridge=1.0).fit(bags, np.arange(32) % 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bags.tokens.nbytes == 2**25 and is_mapped(bags.tokens)
    assert peak < 8 * 2**20
    np.testing.assert_array_equal(bags[31], tokens)
    assert model.predict(bags[:2]).shape == (2,)


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_threads_do_not_parse_headers_side_by_side(tmp_path, monkeypatch, ending):
    inside, most, parse = [0], [0], ast.literal_eval

    def slow(text):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return parse(text)

    monkeypatch.setattr(ast, "literal_eval", slow)

    def shape(path):
        with opened_bag(path) as source:
            return source.shape

    paths = sorted(write(tmp_path / "bags", ending, drawn()).iterdir())
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(shape, paths)) == [(i + 1, 3) for i in range(6)]
    assert most == [1]


def test_too_little_room_is_said_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 10)
    monkeypatch.setattr(temporary_files.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(ValueError, match="set TMPDIR to a larger disk"):
        Bags.from_files(write(tmp_path / "features", ".npy", drawn()))


def test_room_is_taken_before_anything_is_written(monkeypatch):
    """Two arrays that fit one by one but not together: a write to the second would otherwise end the process."""
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 2**10)
    reserved = []

    def fallocate(handle, first, size):
        reserved.append(os.fstat(handle).st_size == first + size)
        raise OSError(errno.ENOSPC if len(reserved) > 1 else errno.EOPNOTSUPP, "for the test")

    monkeypatch.setattr(os, "posix_fallocate", fallocate, raising=False)
    array = temporary_files.room((64, 64), np.float64)
    array[:] = 1.0
    assert is_mapped(array) and array.sum() == 64 * 64
    with pytest.raises(ValueError, match="set TMPDIR to a larger disk"):
        temporary_files.room((64, 64), np.float64)
    assert reserved == [True, True]


def test_commands_take_a_folder(tmp_path, command):
    rng = np.random.default_rng(2)
    folder = tmp_path / "features"
    folder.mkdir()
    labels = np.arange(40) % 2
    for i, label in enumerate(labels):
        tokens = rng.standard_normal((6, 4))
        tokens[0, 0] += 5.0 * label
        np.save(folder / f"slide_{i:02d}.npy", tokens)
    ids = [f"slide_{i:02d}" for i in range(40)]
    pd.DataFrame({"bag_id": ids, "label": np.where(labels, "sick", "well")}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    model = tmp_path / "model.skops"
    code, out, err = command("fit", folder, "-m", "attention", "--out", model)
    assert code != 0 and "give the table with their labels (labels_file, or --labels)" in err
    code, out, err = command("fit", folder, "-m", "attention", "--labels", tmp_path / "labels.csv", "--out", model)
    assert code == 0, err
    assert "40 bags" in out and "sick (20), well (20)" in " ".join(out.split())
    code, out, err = command("predict", model, f"{folder}/*.npy", "--labels", tmp_path / "labels.csv")
    assert code == 0 and out.splitlines()[1].startswith("slide_00,") and "on 40 labelled bags, AUC " in err
    code, out, err = command("explain", model, folder, "--bags", 1)
    assert code == 0 and "slide_" in out
    code, out, err = command(
        "evaluate", folder, "--labels", tmp_path / "labels.csv", "-m", "pooled", "--folds", 2, "--repeats", 1
    )
    assert code == 0 and "pooled" in out, err


def test_a_stride_beyond_all_numbers_is_refused(tmp_path):
    """A single row never uses its stride: a file may claim any, which no array of NumPy's can have."""
    numbers = np.arange(6, dtype="<f4").tobytes()
    for size, stride in (((1, 3), (2**70, 1)), ((2**30, 3), (0, 1))):
        bad = archive(tmp_path / "bad.pt", tensor_pickle(0, size, stride), numbers)
        with pytest.raises(ValueError, match=r"bad\.pt is not read: its tensor"):
            Bags.from_files([bad])


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_a_key_is_refused_where_arrays_have_no_names(tmp_path, ending):
    folder = write(tmp_path / "features", ending, drawn(2))
    with pytest.raises(ValueError, match=r"key goes with \.npz, \.h5 and \.pt files"):
        Bags.from_files(folder, key="features")


def test_half_precision_becomes_single_wherever_it_comes_from(tmp_path):
    half = {name: tokens.astype(np.float16) for name, tokens in drawn(3).items()}
    folder = write(tmp_path / "features", ".npy", half)
    np.savez(tmp_path / "one.npz", X=np.zeros((2, 3, 2), dtype=np.float16), y=[0, 1])
    for bags in (Bags(list(half.values())), Bags.from_files(folder), read_bags(tmp_path / "one.npz").bags):
        assert bags.dtype == np.float32


def test_members_of_an_archive_that_are_no_arrays_do_not_count(tmp_path):
    np.savez(tmp_path / "bags.npz", bag=np.repeat([0, 1], 2), label=[0, 1], tokens=np.zeros((4, 2)))
    with zipfile.ZipFile(tmp_path / "bags.npz", "a") as file:
        file.writestr("token_label", "not an array")
    assert len(read_bags(tmp_path / "bags.npz").bags) == 2
