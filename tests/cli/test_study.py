"""The commands reproduce, studies, run and results, and the files they leave."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

TOY = str(Path(__file__).resolve().parents[1] / "study" / "toy.py")

JUDGED = """
from sparsetoken.study import Claim, Judgement, Panel, Study
from sparsetoken.plotting.panels import Heat, Histogram, Line, Points, Rule
from sparsetoken._core.user_code import load_source
toy = load_source({toy!r}).study
verdict = Judgement({verdict!r}, "1", "1.0 ± 0.1", "a <note>")
claim = Claim("c1", "It is <straight>", "by eye", lambda tables: verdict, expected={expected!r})
layers = [Line([1, 2], [1, 2], "theory"), Points([1, 2], [1, 2], [0.1, 0.1], "measured", marker="star"),
          Rule("x", 1.5, "here"), Rule("y", 1.5), Histogram([0, 1, 2], [0.5, 0.5], "density")]
heat = Heat([1, 2], [1, 2, 3], [[1, -2], [3, 4], [5, float("nan")]], "height", diverging=True)
panels = [Panel("one", "x (units)", "y", layers, logx=True, xlim=(0.5, 3), ylim=(0, 3)), Panel("two", "x", "y", [heat])]
study = Study("judged", "A title & more", "Why?", {{"quick": toy.grids["quick"]}}, draw=lambda tables: panels,
              findings=lambda tables: f"{{len(tables['simulated'])}} trials seen.", claims=[claim], notes="A note.")
"""


def judged_file(folder, verdict, expected):
    path = folder / f"judged_{verdict}_{expected}.py"
    path.write_text(JUDGED.format(toy=TOY, verdict=verdict, expected=expected))
    return path


def test_run_then_results(tmp_path, command):
    store = tmp_path / "results" / "store.sqlite"
    code, out, _ = command("run", TOY, "--store", store, "--workers", 1)
    assert code == 0 and "15 trials, 0 of them from" in out and "report:" in out
    code, out, _ = command("run", TOY, "--store", store, "--workers", 1)
    assert code == 0 and "15 trials, 15 of them from" in out
    code, out, _ = command("results", "--store", store)
    assert code == 0 and "toy (15)" in out
    code, out, _ = command("results", "--store", store, "--study", "toy", "--limit", 3)
    assert code == 0 and "3 of 12 rows" in out
    code, out, _ = command("results", "--store", store, "--kind", "line", "--columns", "x,value")
    assert code == 0 and "3 of 3 rows" in out
    code, _, err = command("results", "--store", store, "--kind", "line", "--columns", "weight")
    assert code == 2 and "line has no column 'weight'; it has x, value" in err
    for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        assert command("results", "--store", store, "--kind", "toy", "-o", tmp_path / f"t.{ending}")[0] == 0
        assert len(read(tmp_path / f"t.{ending}")) == 12
    assert sorted(p.name for p in (store.parent / Path(TOY).stem / "tables").iterdir()) == [
        "toy-simulated.csv",
        "toy-theory.csv",
    ]


@pytest.mark.parametrize(
    ("verdict", "expected", "code"),
    [
        ("confirmed", "confirmed", 0),
        ("refuted", "refuted", 0),
        ("refuted", "confirmed", 1),
        ("undecided", "confirmed", 1),
    ],
)
def test_the_exit_code_is_about_recorded_verdicts(tmp_path, command, verdict, expected, code):
    path = judged_file(tmp_path, verdict, expected)
    files = ("--store", tmp_path / "s.sqlite", "--report", tmp_path / "r")
    found, out, err = command("run", path, *files, "--workers", 1)
    assert found == code and verdict in out
    assert (f"claim c1: {verdict}, recorded as {expected}" in err) == bool(code)


def test_few_lines_unless_more_are_wanted(tmp_path, command):
    files = ("--store", tmp_path / "s.sqlite", "--report", tmp_path / "r", "--workers", 1)
    code, out, _ = command("run", judged_file(tmp_path, "undecided", "undecided"), *files)
    assert code == 0 and out.startswith("12 trials seen.\n1 claim: 1 undecided; all as recorded\n")
    assert "undecided as recorded  c1: measured 1.0 ± 0.1, predicted 1; a <note>" in out
    assert "by eye" not in out and "--verbose" in out
    code, out, _ = command("run", judged_file(tmp_path, "refuted", "confirmed"), *files)
    assert code == 1 and "1 claim: 1 refuted; 1 not as recorded" in out
    assert "refuted, recorded confirmed  c1: It is <straight> (measured 1.0 ± 0.1, predicted 1)" in out
    code, out, _ = command("run", judged_file(tmp_path, "confirmed", "confirmed"), *files)
    assert "c1" not in out
    code, out, _ = command("run", judged_file(tmp_path, "undecided", "undecided"), *files, "--verbose")
    assert "by eye" in out and "a <note>" in out


def test_own_claims_join_the_ledger(tmp_path, command, monkeypatch):
    from sparsetoken._core.user_code import load_source
    from sparsetoken.paper import catalogue

    toy = load_source(TOY).study
    monkeypatch.setattr(catalogue, "get_studies", lambda names=None: [toy])
    files = ("--store", tmp_path / "s.sqlite", "--report", tmp_path / "r", "--workers", 1)
    own = judged_file(tmp_path, "refuted", "refuted")
    code, out, _ = command("reproduce", "--with", own, *files)
    assert code == 0 and "1 refuted" in out
    assert "judged" in pd.read_csv(tmp_path / "r" / "ledger.csv")["study"].tolist()
    code, _, err = command("reproduce", "--with", own, "--with", own, *files)
    assert code == 2 and "name 'judged' is taken by another study of this run" in err
    code, _, err = command("reproduce", "--with", tmp_path / "none.toml", *files)
    assert code == 2 and "does not exist" in err


def test_the_report_stands_alone(tmp_path, command):
    path = judged_file(tmp_path, "confirmed", "confirmed")
    assert command("run", path, "--store", tmp_path / "s.sqlite", "--workers", 1)[0] == 0
    folder = tmp_path / "judged_confirmed_confirmed"
    page = (folder / "report.html").read_text()
    assert page.count("<script type='text/plain' id='plotly'>") == 1  # the library once, packed, inside the page
    assert "src=" not in page.replace("src='data:", "") and "https://" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "It is &lt;straight&gt;" in page and "A title &amp; more" in page and "a &lt;note&gt;" in page
    assert "12 trials seen." in page and "A note." in page
    for ending in ("png", "pdf"):
        assert (folder / "figures" / f"judged.{ending}").stat().st_size > 5000
    ledger = pd.read_csv(folder / "ledger.csv")
    assert ledger[["claim", "verdict", "recorded"]].to_numpy().tolist() == [["c1", "confirmed", "confirmed"]]


def test_failures_are_told_and_shown(tmp_path, command):
    marker = tmp_path / "marker"
    marker.touch()
    path = tmp_path / "flaky.py"
    lines = (
        "from sparsetoken.study import Grid, Study",
        "from sparsetoken._core.user_code import load_source",
        f"load_source({TOY!r})",
        f"grid = Grid('t', 'flaky', {{'marker': {str(marker)!r}}}, {{'x': [1, 2]}}, source={TOY!r})",
        "study = Study('f', 'f', '', {'quick': [grid]})",
    )
    path.write_text("\n".join(lines))
    store = tmp_path / "s.sqlite"
    code, out, err = command("run", path, "--store", store, "--workers", 1)
    assert code == 1 and "1 trial failed; tracebacks: sparsetoken results --failed" in err
    assert "report: " in out  # with what there is
    code, out, _ = command("results", "--failed", "--store", store)
    assert code == 0 and "the sensor is wet" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "missing.toml"), "does not exist"),
        (("run", TOY, "--workers", 0), "workers must be"),
        (("run", TOY, "--executor", "ray"), "executor must be one of"),
        (("run", TOY, "--executor", "dask"), "needs scheduler, an address"),
        (("reproduce", "nonsense"), "there is no study 'nonsense'"),
        (("results", "--store", "missing.sqlite"), "does not exist"),
        (("results", "--store", "toy.sqlite", "--study", "other"), "has no study 'other'; it has toy"),
        (("results", "--store", "toy.sqlite", "--kind", "other"), "has no trials of kind 'other'; it has "),
        (("run", TOY, "--store", "junk.sqlite"), "not an SQLite file"),
        (("results", "--store", "toy.sqlite", "-o", "x.doc"), "must end in"),
    ],
)
def test_errors_are_one_line(tmp_path, command, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "junk.sqlite").write_text("junk " * 1000)
    if "toy.sqlite" in arguments:
        assert command("run", TOY, "--store", "toy.sqlite", "--workers", 1)[0] == 0
    code, _, err = command(*arguments)
    assert code == 2 and message in err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_what_is_wrong_with_a_study_is_told_after_the_run_and_costs_nothing(tmp_path, command):
    """A misnamed column in a claim and in a panel, and findings that fail: named, exit code 1, everything else reported."""
    path = tmp_path / "wrong.toml"
    path.write_text("""
name = "wrong"
[[trials]]
table = "steps"
kind = "line"
grid = { x = [1.0, 2.0] }
[[panels]]
table = "steps"
x = "x"
y = "valu"
[[claims]]
id = "misnamed"
statement = "The cosine grows"
expected = "undecided"
criterion = { kind = "slope", table = "steps", x = "x", value = "valu", slope = 1, resolution = 1 }
[[claims]]
id = "sound"
statement = "It does not grow by a power"
expected = "undecided"
criterion = { kind = "below", table = "steps", value = "value", column = "x", low = 1.0, high = 2.0 }
""")
    code, _, err = command("run", path, "--module", TOY, "--store", tmp_path / "s.sqlite", "--workers", 1)
    lines = err.splitlines()
    assert code == 1 and len(lines) == 2 and "Traceback" not in err
    assert lines[0].startswith("figure of study 'wrong': table 'steps' has no column 'valu'; it has x, value")
    assert lines[1].startswith("claim 'misnamed' of study 'wrong': table 'steps' has no column 'valu'; it has ")
    page = (tmp_path / "wrong" / "report.html").read_text()
    assert "no column &#x27;valu&#x27;" in page
    assert (tmp_path / "wrong" / "tables" / "wrong-steps.csv").exists()


@pytest.mark.parametrize(
    "part, words",
    [
        (
            '[[panels]]\ntable = "steps"\nx = "alpha0"\ny = "cosin_q"',
            "panels[0]: table 'steps' will have no column 'cosin_q'",
        ),
        (
            '[[panels]]\ntable = "steps"\nx = "alpha0"\ny = "cosine_q"\nby = "modl"',
            "no column 'modl'; it will have length, ",
        ),
        (
            '[[claims]]\nid = "c"\nstatement = "s"\n[claims.criterion]\nkind = "slope"\ntable = "steps"\nx = "alpha0"\n'
            'value = "cosine_q"\nslope = 1\nresolution = 1\nwhere = { d = 3 }',
            "claims[0]: criterion: table 'steps' will have no column 'd'",
        ),
    ],
)
def test_a_misspelt_column_is_told_before_anything_runs(part, words, tmp_path, command):
    path, store = tmp_path / "wrong.toml", tmp_path / "s.sqlite"
    path.write_text(
        f'name = "wrong"\n[[trials]]\ntable = "steps"\nkind = "alignment"\ngrid = {{ alpha0 = [1, 2] }}\n{part}\n'
    )
    code, _, err = command("run", path, "--store", store, "--workers", 1)
    assert code == 2 and words in err and err.count("\n") == 1 and not store.exists()


def test_names_with_markup_are_shown_as_they_are(tmp_path, command):
    path = tmp_path / "markup.toml"
    path.write_text('name = "[red]a[-b] [bold"\n[[trials]]\ntable = "[b]t"\nkind = "alignment"\n')
    store = tmp_path / "s.sqlite"
    assert command("run", path, "--store", store, "--workers", 1)[0] == 0
    code, out, _ = command("results", "--store", store)
    assert code == 0 and "[red]a[-b] [bold (1)" in out
    assert (
        command("results", "--store", store, "--study", "[red]a[-b] [bold", "--columns", "positions,cosine_q")[0] == 0
    )
    with pytest.MonkeyPatch.context() as patch:  # and on a terminal, where there are bars
        patch.setenv("FORCE_COLOR", "1")
        from sparsetoken._core.workers import progress

        with progress(True) as add:
            add("[/] [red]a", 3)(3)


def test_nothing_is_written_outside_the_report(tmp_path, command):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "escape.toml"
    for name in ("../../escaped", "/tmp/escaped", "a/b"):
        path.write_text(f'name = "{name}"\n[[trials]]\nkind = "alignment"\n')
        code, _, err = command("run", path, "--store", tmp_path / "in" / "s.sqlite", "--workers", 1)
        assert code == 2 and "without slashes" in err
    assert [p.name for p in tmp_path.iterdir()] == ["in"] and [p.name for p in (tmp_path / "in").iterdir()] == [
        "escape.toml"
    ]


def test_an_unwritable_report_is_said_before_the_work(tmp_path, command):
    (tmp_path / "file").touch()
    log = tmp_path / "log"
    study = tmp_path / "s.py"
    study.write_text(
        "from sparsetoken.study import Grid, Study\nfrom sparsetoken._core.user_code import load_source\n"
        f"load_source({TOY!r})\n"
        f"study = Study('s', 's', '', {{'quick': [Grid('t', 'toy', {{'x': 1.0, 'log': {str(log)!r}}}, source={TOY!r})]}})\n"
    )
    store = tmp_path / "s.sqlite"
    code, _, err = command("run", study, "--store", store, "--report", tmp_path / "file" / "r", "--workers", 1)
    assert code == 2 and "cannot write" in err and not log.exists()
    assert command("run", study, "--store", store, "--workers", 1)[0] == 0
    assert log.exists()


def test_fresh_and_code_that_has_changed(tmp_path, command):
    """The same command after its code has changed: rows of the old code are not reused, nor shown without a word."""
    from sparsetoken.study import kind_registry as registry

    store, versions = tmp_path / "s.sqlite", iter(range(9))
    text = (
        '"""{words}"""\nfrom sparsetoken.study import Grid, Study, trial_kind\nFACTOR = {factor}\n'
        "@trial_kind('factor')\ndef factor(x: float) -> dict:\n    return {{'value': FACTOR * x}}  # {words}\n"
        "study = Study('s', 's', '', {{'quick': [Grid('t', 'factor', axes={{'x': {axis}}}, source=__file__)]}})\n"
    )

    def reused(*more, **change):
        study = tmp_path / f"s{next(versions)}.py"  # a process imports a file once, so every version has its own
        study.write_text(text.format(**{"words": "a", "factor": 2, "axis": [1, 2], **change}))
        registry._KINDS.pop("factor", None)
        code, out, _ = command("run", study, "--store", store, "--workers", 1, *more)
        assert code == 0
        return int(out.split(" of them from")[0].split()[-1])

    assert reused() == 0
    assert reused(axis=[1, 2, 3]) == 0  # any change of the file asks for new rows
    assert reused(axis=[1, 2, 3]) == 3
    assert reused("--fresh", axis=[1, 2, 3]) == 0
    assert reused(factor=3) == 0
    code, _, err = command(
        "results", "--store", store, "--kind", "factor", "--columns", "value", "-o", tmp_path / "t.csv"
    )
    assert code == 0 and "rows were made by earlier code and are left out" in err
    assert pd.read_csv(tmp_path / "t.csv")["value"].tolist() == [3.0, 6.0]


def test_kinds_are_listed_with_all_that_they_take(command):
    code, out, _ = command("studies", "--kinds", "--json")
    assert code == 0 and {"task", "model", "rates", "rows_at"} <= set(
        json.loads(out)["kinds"]["trajectory"]["arguments"]
    )


def test_the_list_of_studies(command):
    code, out, _ = command("studies", "--json")
    rows = json.loads(out)
    assert code == 0 and rows
    assert all({"study", "title", "claims", "quick trials", "full trials", "quick CPU s"} <= set(row) for row in rows)
    code, out, _ = command("studies")
    assert code == 0 and all(row["study"] in out for row in rows)


def test_bars_on_a_terminal_and_silence_elsewhere(tmp_path, command):
    run = ("run", TOY, "--workers", "1", "--store", str(tmp_path / "s.sqlite"))
    code, _, err = command(*run)
    assert code == 0 and err == ""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    typed = [sys.executable, "-m", "sparsetoken", *run, "--fresh"]
    process = subprocess.Popen(typed, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    assert process.wait() == 0
    os.close(ours)
    assert b"15/15" in shown and b"toy" in shown


def test_every_selection_has_a_folder_of_its_own(tmp_path, monkeypatch, command):
    """What `reproduce` is asked for decides where its report goes; only the default lies beside the store."""
    from sparsetoken.paper import reproduce as module

    seen = []
    monkeypatch.setattr(module, "run_studies", lambda *_, **__: [])
    monkeypatch.setattr(module, "write_report", lambda outcomes, folder, *_: seen.append(folder) or folder)
    store = tmp_path / "s.sqlite"
    for arguments in (
        (),
        ("--full",),
        ("capacity", "fig1"),
        ("fig1", "--full", "--seed", 7),
        ("--report", tmp_path / "r"),
    ):
        assert command("reproduce", *arguments, "--store", store, "--workers", 1)[0] == 0
    assert [str(folder.relative_to(tmp_path)) for folder in seen] == [
        ".",
        "full",
        "fig1-capacity",
        "full-fig1-seed7",
        "r",
    ]
