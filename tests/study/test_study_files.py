"""Study files: TOML and Python; whatever is wrong in them is one clear sentence."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsetoken._core.user_code import load_source
from sparsetoken.study import Grid, Study, load_studies
from sparsetoken.study.study import check_name
from sparsetoken.study.study_files import study_from_dict

TOY = Path(__file__).with_name("toy.py")
load_source(str(TOY.resolve()))

GOOD = {
    "name": "mine",
    "trials": [
        {"table": "sim", "kind": "toy", "repeats": 2, "grid": {"x": [1.0, 2.0]}},
        {"table": "exact", "kind": "line", "grid": {"x": {"from": 1, "to": 100, "count": 3, "spacing": "log"}}},
    ],
    "panels": [{"table": "sim", "theory": "exact", "x": "x", "y": "value"}],
    "claims": [
        {
            "id": "c",
            "statement": "straight",
            "criterion": {
                "kind": "agreement",
                "table": "sim",
                "theory": "exact",
                "value": "value",
                "on": ["x"],
                "resolution": 1,
            },
        }
    ],
}


def with_change(path, value):
    """GOOD with one entry changed (or removed, for value None)."""
    import copy

    content = copy.deepcopy(GOOD)
    *way, last = path
    place = content
    for step in way:
        place = place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return content


def test_a_good_study():
    study = study_from_dict(GOOD)
    trials = study.trials()
    assert [len(trials[name]) for name in ("sim", "exact")] == [4, 3]
    assert [t.arguments["x"] for t in trials["exact"]] == pytest.approx([1.0, 10.0, 100.0])
    assert study.claims[0].expected == "confirmed"
    assert study.trials("full") == trials  # one size serves both


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("name",), None, "needs 'name'"),
        (("name",), 3, "name must be text"),
        (("trials",), None, "needs 'trials'"),
        (("trials",), {"kind": "toy"}, "trials must be a list"),
        (("colour",), "red", "has no field 'colour'"),
        (("trials", 0, "kind"), "magic", "no trial kind 'magic'"),
        (("trials", 0, "kind"), None, r"trials\[0\] needs 'kind'"),
        (("trials", 0, "grid"), {"speed": [1]}, "has no parameter 'speed'"),
        (("trials", 0, "grid"), {"x": []}, "must not be empty"),
        (("trials", 0, "grid"), {"x": 3}, "must be a list"),
        (("trials", 0, "grid"), {"x": [1], "seed": [1]}, "seed"),
        (("trials", 1, "grid", "x"), {"from": 1, "to": 2}, "needs 'count'"),
        (("trials", 1, "grid", "x"), {"from": 1, "to": 2, "count": 10**9}, "count must be"),
        (("trials", 1, "grid", "x"), {"from": "a", "to": 2, "count": 3}, "between two numbers"),
        (("trials", 1, "grid", "x", "spacing"), "cubic", "spacing must be one of"),
        (("trials", 0, "repeats"), 0, "repeats must be"),
        (("trials", 0, "repeats"), "many", "repeats must be"),
        (("trials", 1, "table"), "sim", "different names"),
        (("trials", 0, "points"), [], "points must not be empty"),
        (("trials", 0, "points"), [3], "must be a table"),
        (("trials", 0, "points"), {"x": 1}, "must be a list"),
        (("panels", 0, "table"), "nothing", "must be one of sim, exact"),
        (("panels", 0, "z"), "x", "has no field 'z'"),
        (("name",), "../../escaped", "name must be a name of at most 100 printable characters without slashes"),
        (("name",), "/etc/passwd", "name must be a name"),
        (("name",), "..", "name must be a name"),
        (("name",), "a\\b", "name must be a name"),
        (("name",), "a\nb", "name must be a name"),
        (("name",), " ", "name must be a name"),
        (("name",), "x" * 101, "name must be a name"),
        (("trials", 0, "table"), "../sim", "table must be a name"),
        (("trials", 0, "repeats"), 10**9, "grid 'sim' has 2,000,000,000 trials; a grid has at most 1,000,000"),
        (("trials", 0, "grid"), {n: list(range(1000)) for n in ("x", "pause", "log")}, "has 2,000,000,000 trials"),
        (("panels", 0, "x"), 3, r"panels\[0\]\.x must be text"),
        (("panels", 0, "logx"), "yes", r"panels\[0\]\.logx must be true or false"),
        (("claims", 0, "criterion", "table"), "simm", r"claims\[0\]\.table must be one of sim, exact"),
        (("claims", 0, "criterion", "theory"), "simm", r"claims\[0\]\.theory must be one of sim, exact"),
        (("claims", 0, "criterion", "on"), "x", "on must be a list"),
        (("claims", 0, "criterion"), {"kind": "magic"}, r"claims\[0\]: criterion kind"),
        (("claims", 0, "expected"), "true", "expected verdict"),
        (("claims", 0, "criterion"), None, "needs 'criterion'"),
    ],
)
def test_whatever_is_wrong_is_named(path, value, message):
    with pytest.raises(ValueError, match=message):
        study_from_dict(with_change(path, value))


@pytest.mark.parametrize("content", [None, 3, [], "text"])
def test_not_even_a_table(content):
    with pytest.raises(ValueError, match="must be a table"):
        study_from_dict(content)


def test_toml_says_the_same_as_plain_data(tmp_path):
    toml = """
name = "mine"
[[trials]]
table = "sim"
kind = "toy"
repeats = 2
grid = { x = [1.0, 2.0] }
[[trials]]
table = "exact"
kind = "line"
grid = { x = { from = 1, to = 100, count = 3, spacing = "log" } }
"""
    (tmp_path / "s.toml").write_text(toml)
    (from_toml,) = load_studies(tmp_path / "s.toml")
    assert study_from_dict(GOOD).trials() == from_toml.trials()


@pytest.mark.parametrize("trials", [[], [{"kind": "toy", "grid": {"x": []}}]])
def test_a_study_without_trials_is_an_error(trials):
    with pytest.raises(ValueError, match="must not be empty"):
        study_from_dict({"name": "none", "trials": trials})
    with pytest.raises(ValueError, match="study 'none' has no trials: give it a grid with at least one point"):
        Study("none", "", "", grids={"quick": [Grid("t", "toy", axes={"x": []})]}).trials()
    with pytest.raises(ValueError, match="study 'none' has no trials"):
        Study("none", "", "", grids={"quick": []}).trials()
    with pytest.raises(ValueError, match="study 'none' has no grids"):
        Study("none", "", "", grids={})


def test_claims_are_named_once():
    with pytest.raises(ValueError, match="two claims 'c'"):
        study_from_dict({**GOOD, "claims": GOOD["claims"] * 2})


def test_a_panel_of_an_unknown_column_is_named():
    import pandas as pd

    study = study_from_dict(with_change(("panels", 0, "y"), "valu"))
    tables = {name: pd.DataFrame({"x": [1.0], "value": [2.0]}) for name in ("sim", "exact")}
    with pytest.raises(ValueError, match="table 'exact' has no column 'valu'; it has x, value"):
        study.draw(tables)
    with pytest.raises(ValueError, match="column 'value' of table 'exact' does not hold numbers"):
        study_from_dict(GOOD).draw({name: table.assign(value="many") for name, table in tables.items()})


def test_python_files_are_the_users_code():
    (study,) = load_studies(TOY)
    assert study.name == "toy"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.toml", "name = ", "is not TOML"),
        ("s.toml", 'name = "x"', "s.toml: the study needs 'trials'"),
        ("s.yaml", "name: x", "must end in .toml, .py"),
        ("s.py", "def (", "cannot be imported"),
        ("s.py", "import no_such_module", "cannot be imported: ModuleNotFoundError"),
        ("s.py", "1 / 0", "cannot be imported: ZeroDivisionError"),
        ("s.py", "x = 1", "must bind a Study"),
        ("s.txt", "", "must end in"),
        (None, "", "does not exist"),
    ],
)
def test_unreadable_files(tmp_path, name, content, message):
    if name:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        load_studies(tmp_path / (name or "missing.toml"))


def test_bags_that_differ_in_a_file(tmp_path):
    """A distribution is a text in TOML; a trial knows it as the task that Python writes with a mapping."""
    from sparsetoken import Task

    trial = 'table = "t"\nkind = "forecast"\nfixed = {{ length = {0}, label_noise = 0.1, model = "pooled" }}\n'
    toml = 'name = "mixed"\n[[trials]]\n' + trial
    (tmp_path / "s.toml").write_text(toml.format('"10:0.5,20:0.5"'))
    (from_toml,) = load_studies(tmp_path / "s.toml")
    (found,) = from_toml.trials()["t"]
    written = {name: found.arguments[name] for name in Task.__dataclass_fields__ if name in found.arguments}
    assert Task.from_dict(written) == Task({10: 0.5, 20: 0.5}, label_noise=0.1)
    (tmp_path / "s.toml").write_text(toml.format('"10:0.5,20:0.4"'))
    with pytest.raises(ValueError, match=r"length: probabilities must sum to 1, got 0\.9"):
        load_studies(tmp_path / "s.toml")[0].trials()


@given(st.one_of(st.text(max_size=12), st.text("./\\~:C ", max_size=6)))
def test_no_name_leaves_its_folder(name):
    """A name is refused, or it names one file in the folder."""
    try:
        check_name("name", name)
    except ValueError as refusal:
        assert "\n" not in str(refusal)
        return
    with TemporaryDirectory() as folder:
        Path(folder, f"{name}.csv").touch()
        assert [file.name for file in Path(folder).iterdir()] == [f"{name}.csv"]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("fixed = { strength = 3.0 }\ngrid = { strength = [1.0] }", "strength is in fixed and in grid"),
        ("points = [{ beta = 1.0 }]\ngrid = { beta = [2.0] }", "beta is in points and in grid"),
    ],
)
def test_an_argument_given_twice_is_refused(tmp_path, parts, message):
    (tmp_path / "s.toml").write_text(f'name = "s"\n[[trials]]\ntable = "t"\nkind = "forecast"\n{parts}\n')
    with pytest.raises(ValueError, match=message):
        load_studies(tmp_path / "s.toml")
