"""What would lose files, run away or end in a traceback is refused in one line, before any work."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from sparsetoken import Task, Training, simulate
from sparsetoken._core.files import check_apart
from sparsetoken.bag_models import get_bag_model
from tests.helpers import nothing_stays_registered, planted_bags

MODELS = """
import sys
from sparsetoken.bag_models import BagModel, register_bag_model
register_bag_model(BagModel(lambda H, bias: sys.exit(0), ("w",), "leaving"))
register_bag_model(BagModel(lambda H, bias: 1j * H.sum() + bias, ("w",), "complex"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a file of bags, as the current one."""
    bags, labels, _ = planted_bags(0, n=12, length=2, d=2)
    rows = [f"b{i},{y},{x[0]:.4f},{x[1]:.4f}" for i, (bag, y) in enumerate(zip(bags, labels)) for x in bag]
    (tmp_path / "bags.csv").write_text("\n".join(["bag_id,label,x0,x1", *rows]) + "\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "bags.csv")
    (tmp_path / "bad.npz").write_text("no archive")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "silent.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "model.py").write_text(MODELS)
    (tmp_path / "stages.toml").write_text("[[stage]]\nsteps = 1\nalpha = 1.0\nrates = {w = 1.0}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        # Outputs that would replace an input, or each other
        ("fit bags.csv -o bags.csv", "one of the files that are read"),
        ("fit bags.csv -o link.csv", "one of the files that are read"),
        ("fit bags.csv --labels link.csv -o ./bags.csv", "one of the files that are read"),
        ("predict m.skops bags.csv -o bags.csv", "one of the files that are read"),
        ("predict m.skops bags.csv -o m.skops", "one of the files that are read"),
        ("explain m.skops bags.csv -o bags.csv", "one of the files that are read"),
        ("evaluate bags.csv --csv bags.csv", "one of the files that are read"),
        ("plan --from bags.csv --json bags.csv", "one of the files that are read"),
        ("train -m pooled --stages stages.toml --json stages.toml", "one of the files that are read"),
        ("simulate -d 20 --noise bags.csv --csv bags.csv", "one of the files that are read"),
        ("simulate -d 20 --json out --csv ./out", "twice"),
        ("forecast --json out --csv out", "twice"),
        ("train -m pooled --json out.png --plot out.png", "twice"),
        # Endings that promise another format
        ("fit bags.csv --out model.pkl", "model.pkl must end in .skops"),
        ("evaluate bags.csv --csv e.parquet", "e.parquet must end in .csv"),
        ("forecast --csv rows.json", "rows.json must end in .csv"),
        ("simulate --csv rows.parquet", "rows.parquet must end in .csv"),
        ("train --json t.npz", "t.npz must end in .json"),
        ("plan --json plan.html", "plan.html must end in .json"),
        ("solve --json power.csv", "power.csv must end in .json"),
        # Columns and numbers
        ("fit bags.csv -o m.skops --label bag_id", "label must be another column than the bag ids"),
        ("fit bags.csv -o m.skops --seed -1", "seed must be a whole number >= 0, got -1"),
        ("evaluate bags.csv --seed -1", "seed must be a whole number >= 0, got -1"),
        ("fit bad.npz -o m.skops", "bad.npz is not an .npz file, or is damaged"),
        ("plan -n 99999999999999999999 -d 10 --ask none", "n must be a whole number from 16 to 1,000,000,000"),
        ("solve -n 100 -d 99999999999 --target 0.1 --for strength", "d must be a whole number from 2 to 100,000,000"),
        ("solve -n 100 -d 10 --target 0.1", "nothing is left to solve for"),
        ("explain m.skops bags.csv --bags -1", "bags must be a whole number >= 0, got -1"),
        ("plan --from bags.csv --strength 3", "--strength does not go with --from"),
        ("plan --from bags.csv --loss square", "--loss does not go with --from"),
        ("plan -n 100 -d 10 --bag id", "--bag goes with a file of bags"),
        ("simulate -d 20 -t 1 --ignore x0", "belong to a file of noise"),
        ("train --stages none.toml", "cannot read none.toml: No such file or directory"),
        # Sizes that no machine finishes
        ("simulate -d 1000000000 -t 1", "too many to simulate in dimension 1,000,000,000"),
        ("simulate -d 20 -t 1 --length 100000000000", "bags of 100,000,000,000 tokens are too many to simulate"),
        ("simulate -d 20 -t 1 --strength 1e308", "strength must be a number in [0, 1e+50], got 1e+308"),
        ("forecast --strength 1e200", "strength must be a number in [0, 1e+50]"),
        ("forecast --alpha1 1e300", "alpha1 must be a number in [1e-12, 1e+12], got 1e+300"),
        ("forecast --alpha1 1e-300", "alpha1 must be a number in [1e-12, 1e+12], got 1e-300"),
        ("forecast --ridge 1e-300", "ridge must be 0 or a number in [1e-100, 1e+12], got 1e-300"),
        ("train --alpha 1e300", "alpha must be a number in [1e-12, 1e+12], got 1e+300"),
        ("simulate -d 20 -t 1 --beta 1e300", "features must be finite"),  # without NumPy's own warnings before it
        ("forecast --ridge 1e300", "ridge must be a number in [0, 1e+12], got 1e+300"),
        ("train -m heads:99999", "heads from 1 to 1000, got 'heads:99999'"),
        ("forecast --model heads:99999", "heads from 1 to 1000, got 'heads:99999'"),
        # Code that ends the program
        ("forecast --module silent.py", "--module silent.py cannot be executed: SystemExit: 0"),
        (
            "train --no-theory -t 1 -d 20 -T 1 -m leaving --module model.py",
            "your own code ended the program: SystemExit: 0",
        ),
        ("train --no-theory -t 1 -d 20 -T 1 -m complex --module model.py", "must be a real number, got complex64"),
        ("run leaves.py", "study file leaves.py cannot be imported: SystemExit: 7"),
    ],
)
def test_one_line_and_nothing_is_lost(line, words, folder, command):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with nothing_stays_registered():
        code, printed, errors = command(*line.split())
    assert code == 2 and printed == ""
    assert errors.startswith("error: ") and words in errors and errors.count("\n") == 1, errors
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_devices_may_be_named_twice(tmp_path):
    check_apart(["/dev/null", "/dev/null", None, tmp_path / "a"], ["/dev/null", None])
    with pytest.raises(ValueError, match="twice"):
        check_apart([tmp_path / "a", f"{tmp_path}/./a"])


def test_the_largest_strength_overflows_nowhere():
    task = Task(strength=1e50)
    for model in ("attention", "pooled", "vectorized"):
        found = simulate(task, Training(ridge=1e-2), 20, 0, model)
        assert np.isfinite(found.test_error)


def test_as_many_heads_as_allowed():
    assert get_bag_model("heads:1000").rank == 2000
    with pytest.raises(ValueError, match="from 1 to 1000"):
        get_bag_model("heads:0")


def test_python_s_own_arithmetic_errors_are_explained(command, monkeypatch):
    def raises(*_, **__):
        raise OverflowError(34, "Numerical result out of range")

    monkeypatch.setattr(import_module("sparsetoken.planning.solve"), "solve", raises)
    code, _, err = command("solve", "--target", 0.1)
    assert code == 2 and "these values cannot be computed" in err and err.count("\n") == 1
