"""Studies as editable files: the same trials, under a name of their own."""

import tomllib

import pytest

from sparsetoken.paper.catalogue import get_studies
from sparsetoken.study import Grid, Study
from sparsetoken.study.export import as_toml
from sparsetoken.study.study_files import load_studies, study_from_dict


# One of each form: axes, explicit points, a kind whose arguments hold lists, schedules with nested tables.
@pytest.mark.parametrize("name", ["fig1", "capacity", "positions", "query-steps"])
@pytest.mark.parametrize("size", ["quick", "full"])
def test_the_file_has_the_same_trials(name, size):
    study = get_studies([name])[0]
    again = study_from_dict(tomllib.loads(as_toml(study, size)))
    assert again.name == f"my-{name}"
    expected, found = ({t: [x.key for x in part] for t, part in s.trials(size).items()} for s in (study, again))
    assert found == expected


def test_every_study_can_be_exported():
    for study in get_studies():
        content = tomllib.loads(as_toml(study))
        assert {part["table"] for part in content["trials"]} == {grid.name for grid in study.grids_of("quick")}


def test_the_command_gives_a_file_that_runs(tmp_path, command):
    code, out, _ = command("studies", "--export", "fig1")
    assert code == 0 and "[[panels]]" in out
    file = tmp_path / "mine.toml"
    trials = tomllib.loads(out)["trials"]
    small = out.replace(f"repeats = {trials[0]['repeats']}\n", "repeats = 1\n")
    for part in trials[:-1]:
        small = small.replace(f"grid.d = {part['grid']['d']}", "grid.d = [20]")
    small = (
        small[: small.index('kind = "forecast_curve"')].rsplit("[[trials]]", 1)[0] + small[small.index("[[panels]]") :]
    )
    file.write_text(small)
    assert len(load_studies(file)[0].trials()["simulated"]) > 10
    code, out, err = command("run", file, "--workers", 1, "--store", tmp_path / "s.sqlite")
    assert code == 0 and "report:" in out, err
    code, _, err = command("studies", "--export", "fig7")
    assert code == 2 and "fig7" in err


def test_what_a_data_file_cannot_hold_is_refused():
    own = Study("s", "S", "", {"quick": [Grid("t", "alignment", source="mine.py")]})
    with pytest.raises(ValueError, match="its own Python file"):
        as_toml(own)
