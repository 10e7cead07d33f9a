"""Files: complete or not at all, and what cannot be written is known before the work."""

import os
import subprocess
import sys
import threading

import pytest

from sparsetoken._core.files import check_writable, write_bytes


@pytest.mark.parametrize(
    ("failure", "message"),
    [(OSError("no space left"), r"cannot write .*table\.csv: no space"), (KeyboardInterrupt(), None)],
    ids=["full", "interrupted"],
)
def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch, failure, message):
    path = tmp_path / "table.csv"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(failure))
    with pytest.raises(type(failure), match=message):
        write_bytes(path, b"new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_checking_leaves_nothing_behind_and_touches_nothing(tmp_path):
    path = tmp_path / "a.json"
    check_writable(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    check_writable(None)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("", {}, "it is a folder"),
        ("no/such/a.json", {}, "no/such does not exist"),
        ("file/a.json", {}, "does not exist"),
        ("a.xyz", {"endings": (".png", ".pdf")}, r"a\.xyz must end in \.png, \.pdf"),
        ("a" * 300, {}, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(tmp_path, name, options, message):
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError), match=message):
        check_writable(tmp_path / name, **options)


def test_a_full_target_is_noticed_before_the_work(tmp_path):
    """A limit on the size of files stands for the full disk: the kernel refuses the write in the same place."""
    code = (
        "import resource, sys; from sparsetoken._core.files import check_writable\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: check_writable(sys.argv[1])\n"
        "except OSError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.json")], capture_output=True, text=True)
    assert done.stdout == f"cannot write {tmp_path / 'a.json'}: File too large\n", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_links_stay_links(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    write_bytes(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink() and (tmp_path / "real.txt").read_text() == "new"


def test_pipes_and_devices_are_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    check_writable(pipe)
    write_bytes(pipe, b"through")
    reader.join(10)
    assert seen == [b"through"] and pipe.is_fifo()
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device"):
        write_bytes("/dev/full", b"x")
