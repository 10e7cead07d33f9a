"""Pictures as files: the format follows the ending, and a failed write leaves what was there."""

import pytest
from matplotlib.figure import Figure

from sparsetoken.plotting.show import ENDINGS, picture_bytes, write_picture

BEGINNINGS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def figure(y=(1, 2)):
    made = Figure(figsize=(2, 2))
    made.subplots().plot([1, 2], y)
    return made


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_and_the_same_bytes_for_the_same_figure(tmp_path, ending):
    write_picture(tmp_path / f"a{ending.upper()}", figure())
    content = (tmp_path / f"a{ending.upper()}").read_bytes()
    assert content.startswith(BEGINNINGS[ending])
    assert picture_bytes(figure(), ending) == content
    assert picture_bytes(figure((2, 1)), ending) != content


def test_a_failed_write_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    broken = figure()
    monkeypatch.setattr(broken, "savefig", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        write_picture(path, broken)
    assert path.read_bytes() == b"old"


def test_other_endings_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"a\.xyz must end in \.png, \.pdf, \.svg"):
        write_picture(tmp_path / "a.xyz", figure())
