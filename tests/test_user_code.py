"""Losses, activations, mechanisms and bag models of a user's own: registered once, known everywhere by name."""

import json

import numpy as np
import pytest

from sparsetoken import (
    BagModel,
    Deployment,
    Loss,
    Task,
    Training,
    forecast,
    get_bag_model,
    register_activation,
    register_bag_model,
    register_classifier,
    register_loss,
    simulate,
    theory,
)
from sparsetoken._core import user_code
from sparsetoken.study import TrialSpec
from sparsetoken.study.study_files import load_studies
from tests.helpers import nothing_stays_registered

MINE = """
import numpy as np
from sparsetoken import BagModel, Loss, register_bag_model, register_loss, register_classifier
from sparsetoken.study import trial_kind


class SquaredHinge(Loss):
    name = "squared_hinge"

    def value(self, z, y):
        return 0.5 * np.maximum(0.0, 1 - y * z) ** 2

    def slope(self, z, y):
        return -y * np.maximum(0.0, 1 - y * z)

    def curvature(self, z, y):
        return (y * z < 1).astype(float)


def same(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


register_loss(SquaredHinge())
register_classifier("same", same, "softmax once more")


@trial_kind("half")
def half(x: float) -> dict:
    return {"y": x / 2}
"""
STUDY = """
name = "mine"
[[trials]]
kind = "simulate"
fixed = { d = 20, model = "same", loss = "squared_hinge" }
[[trials]]
kind = "half"
grid = { x = [1.0, 2.0] }
"""


@pytest.fixture(autouse=True)
def nothing_stays():
    with nothing_stays_registered():
        yield


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Logistic(Loss):
    name = "again"

    def value(self, z, y):
        return np.logaddexp(0, -y * z)

    def slope(self, z, y):
        return -y / (1 + np.exp(y * z))

    def curvature(self, z, y):
        return 1 / (2 + np.exp(z) + np.exp(-z))


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
@pytest.mark.parametrize("schedule", ["staged", "reuse"])
def test_the_softmax_once_more_is_attention(sampler, schedule):
    register_classifier("same", softmax)
    training = Training(schedule=schedule)
    known, again = (simulate(Task(5), training, 40, 3, model=name, sampler=sampler) for name in ("attention", "same"))
    np.testing.assert_allclose(again.test_error, known.test_error, rtol=1e-9)
    np.testing.assert_allclose(again.bias, known.bias, rtol=1e-6)


@pytest.mark.parametrize("task", [Task(5), Task({3: 0.5, 6: 0.5}, contamination=0.1)])
def test_its_theory_is_attention_s(task):
    register_classifier("same", softmax)
    options = {"accuracy": 2e-2, "with_capacity": False, "deployment": Deployment(task={"strength": 4.0})}
    known, again = (forecast(task, Training(), name, **options) for name in ("attention", "same"))
    np.testing.assert_allclose(again.test_error, known.test_error, rtol=1e-8)
    assert again.model == "same" and again.result.model == "same"


def test_a_registered_loss_is_known_by_name():
    register_loss(Logistic())
    named, plain = (simulate(Task(5), Training(loss=name), 30, 0) for name in ("again", "logistic"))
    np.testing.assert_allclose(named.test_error, plain.test_error, rtol=1e-6)
    assert Training(loss="again").to_dict()["loss"] == "again"


def test_activations_and_bag_models():
    register_activation("cube", lambda x: x**3)
    assert simulate(Task(5), Training(), 30, 0, model="elementwise:cube").test_error < 0.5
    model = register_bag_model(BagModel(lambda H, bias, s: s * H[:, 0].mean() + bias, ("w",), "mean", 2.0))
    assert get_bag_model("mean") is model and get_bag_model("mean:3").sharpness == 3.0
    register_bag_model(BagModel(lambda H, bias: bias, ("w",), "mean"))  # a cell of a notebook, run again
    assert get_bag_model("mean").sharpness is None


class Concave(Logistic):
    name = "concave"

    def value(self, z, y):
        return -np.logaddexp(0, -y * z)

    def slope(self, z, y):
        return y / (1 + np.exp(y * z))


class WrongSlope(Logistic):
    name = "wrong"

    def slope(self, z, y):
        return -y / (1 + np.exp(z))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: register_loss(type("Taken", (Logistic,), {"name": "logistic"})()), "'logistic' is built in"),
        (lambda: register_loss(type("Odd", (Logistic,), {"name": "a b"})()), "the loss's name must be a letter"),
        (lambda: register_loss(Concave()), "'concave' must be convex"),
        (lambda: register_loss(WrongSlope()), "slope of loss 'wrong' must be the derivative"),
        (lambda: register_loss("logistics"), "loss must be one of"),
        (lambda: register_classifier("attention", softmax), "'attention' is built in"),
        (lambda: register_classifier("all", softmax), "'all' is built in"),
        (lambda: register_classifier("first", lambda s: (np.arange(s.shape[-1]) == 0) * np.ones_like(s)), "order"),
        (lambda: register_classifier("sum", lambda s: s.sum(-1)), "scores' shape"),
        (lambda: register_classifier("mixed", lambda s: np.full_like(s, s.max())), "must not depend on other bags"),
        (lambda: register_classifier("x", 3), "must be a function"),
        (lambda: register_activation("soft", softmax), "register it as a classifier"),
        (lambda: register_activation("relu", abs), "'relu' is built in"),
        (lambda: register_bag_model("pooled"), "model must be a BagModel"),
        (lambda: register_bag_model(BagModel(lambda H, b: b, ("w",), "heads")), "'heads' is built in"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_where_a_mechanism_of_one_s_own_ends():
    register_classifier("same", softmax)
    with pytest.raises(ValueError, match="length must be at most 384"):
        forecast(Task(500), Training(), "same")
    with pytest.raises(ValueError, match="built-in one for derivatives"):
        theory.gradient(Task(), Training(), "same")
    with pytest.raises(ValueError, match="schedule 'joint' trains the softmax query"):
        simulate(Task(), Training(schedule="joint"), 30, 0, model="same")


def test_the_command_line_and_studies(mine, tmp_path, command):
    known = tmp_path / "known.json"
    chosen = ("--model", "same", "--loss", "squared_hinge")
    code, out, err = command("simulate", "--module", mine, *chosen, "-d", 20, "--trials", 2, "--json", known)
    assert code == 0 and "same" in out, err
    assert len(json.loads(known.read_text())["cases"]) == 1
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    options = ("--store", tmp_path / "s.sqlite", "--workers", 1, "--report", tmp_path / "r")
    code, out, err = command("run", study, "--module", mine, *options)
    assert code == 0 and "3 trials, 0 of them" in out, err
    row = (tmp_path / "r" / "tables" / "mine-simulate.csv").read_text().splitlines()
    assert "squared_hinge" in row[1] and ",same," in row[1]
    code, out, err = command("run", study, "--module", mine, *options)
    assert "3 trials, 3 of them" in out


def test_data_files_execute_nothing(mine, tmp_path, command):
    study = tmp_path / "study.toml"
    study.write_text(f"module = '{mine}'\n" + STUDY)
    code, _, err = command("run", study)
    assert code == 2 and "has no field 'module'" in err
    study.write_text(STUDY)
    code, _, err = command("run", study)
    assert code == 2 and "loss must be one of logistic, square, smoothed_hinge" in err


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "does not exist"),
        ("1/0", "cannot be executed: ZeroDivisionError"),
        ("x =", "cannot be executed: SyntaxError"),
    ],
)
def test_a_module_that_fails_is_one_line(content, words, tmp_path, command):
    file = tmp_path / "bad.py"
    if content is not None:
        file.write_text(content)
    code, _, err = command("forecast", "--module", file)
    assert code == 2 and words in err and err.count("\n") == 1


def test_the_store_knows_the_user_s_code(mine, tmp_path):
    """A trial that names a thing of the user's has another key when that thing changes; one that does not, has not."""
    arguments = {"d": 20, "model": "same", "loss": "squared_hinge"}
    things = MINE[: MINE.index("@trial_kind")]

    def keys(name, text):
        file = tmp_path / name
        file.write_text(text)
        user_code.load_source(file)
        return TrialSpec.of("simulate", **arguments).key, TrialSpec.of("simulate", d=20).key

    first, plain = keys("first.py", things)
    assert keys("moved.py", things) == (first, plain)  # its text counts, not its place
    for number, changed in enumerate([things.replace("e / e.sum", "e * 1.0 / e.sum"), things + "# a comment\n"]):
        key, unchanged = keys(f"changed{number}.py", changed)
        assert key != first and unchanged == plain
    user_code.load_source(mine)
    assert "+classifier.same=" in TrialSpec.of("simulate", **arguments).code
    studies = tmp_path / "study.toml"
    studies.write_text(STUDY)
    assert len(load_studies(studies)[0].trials()["half"]) == 2


def test_rows_of_an_earlier_loss_are_told_from_rows_of_none():
    from types import SimpleNamespace

    from sparsetoken.cli.studies_and_results import _of_latest_code

    codes = [("k", 1), ("k+loss.mine=old", 2), ("k+loss.mine=new", 3), ("j", 0)]
    rows = [SimpleNamespace(kind="simulate", code=code, finished=finished) for code, finished in codes]
    kept, left_out = _of_latest_code(rows)
    assert [row.code for row in kept] == ["k", "k+loss.mine=new"] and left_out == 2
