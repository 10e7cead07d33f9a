"""Every command and every block of Python on the pages runs; what would take long runs in a reduced form.

The blocks of a page run in order and share their names, in a folder with small files of bags. Commands are found wherever
they stand: in blocks they run, in running text their options are checked.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import re
import shlex
import shutil
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import typer.main

from sparsetoken import cli
from tests.helpers import ROOT, nothing_stays_registered, planted_bags

PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
}

# Page -> (as it stands, as it runs here): smaller sizes, and what only a cluster has.
REDUCED: dict[str, list[tuple[str, str]]] = {
    "docs/learners.md": [("features/*.pt", "features/*.npy"), ("layer12/*.pt", "features/*.npy")],
    "docs/plan.md": [
        ("length=100, sparsity=2, strength=4", "length=10, sparsity=1, strength=4"),  # compiled for other tests, too
        ("n=5000, d=768, target=0.05", "n=100, d=40, questions=()"),
        ('solve(Task(length=10, strength=5), "n", ', 'solve(Task(length=2, strength=5), "n", learner="pooled", '),
        ('solve(Task(length=10, strength=5), "strength", ', 'solve(Task(length=2), "strength", learner="pooled", '),
        ('solve(Task(length=10, strength=5), "error", ', 'solve(Task(length=2), "error", learner="pooled", '),
    ],
    "docs/training.md": [
        ("Stage(30, ", "Stage(3, "),
        ('"attention", [joint])', '"attention", [joint], accuracy=0.1)'),
        ("d=1000", "d=50"),
        ("budget_of_steps=32", "budget_of_steps=10, stages=1, most_evaluations=1"),
        # The last one has the shapes of a tutorial, whose compiled programs serve here as well.
    ],
    "docs/theory.md": [
        ('"attention")            #', '"attention", accuracy=5e-3, with_capacity=False)  #'),
        ("best_ridge(law, alpha=2.0)", "best_ridge(law, alpha=2.0, accuracy=5e-3)"),
        ("ridge=1e-5)", "ridge=1e-5, accuracy=5e-3)"),
        ("ridge=0.01)", "ridge=0.01, accuracy=5e-3)"),
        ("ridge=1e-2)", "ridge=1e-2, accuracy=5e-3)"),
        ("length=1000", "length=50"),
        ("deployment=there)", "deployment=there, accuracy=5e-3)"),
        ("theory.forecast(task, Training())", "theory.forecast(task, Training(), accuracy=5e-3, with_capacity=False)"),
    ],
    "docs/studies.md": [
        ("from dask_jobqueue import SLURMCluster", "from unittest.mock import MagicMock as SLURMCluster"),
        ('input("enter ends the cluster")', ""),
    ],
}
# Python in blocks marked `text`, by how it begins: what no test can run.
NOT_RUN = {"for name, text in texts.items():": "needs a language model"}
# Run elsewhere: README's example in tests/test_readme.py, which compares its output.
ELSEWHERE = {"README.md"}

# Options added to a command so that it takes little time; the last one given counts.
SMALL = {
    "simulate": "--dimension 30 --trials 1",
    "forecast": "--accuracy 0.02",
    "train": "--steps 2 --dimension 30 --trials 1 --accuracy 0.1",
    "evaluate": "--folds 2 --repeats 1 --model pooled",
    "run": "--workers 1",
    "solve": "--learner optimal",
}
SMALL_PLAN = "--budget 1"  # from bags
# Plans from a task alone take long at any size: their options are checked here, and tests/planning has some run.
CHECKED_ONLY = re.compile(r"^plan (?!--from)")
SCHEDULER = "tcp://127.0.0.1:8786"  # as on the pages


def python_blocks(text: str) -> list[str]:
    """Blocks marked `python`, indented ones (in lists) included."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", text, flags=re.DOTALL | re.MULTILINE)
    return ["\n".join(line[len(indent) :] for line in code.split("\n")) for indent, code in found]


def commands(text: str) -> list[str]:
    """Lines of blocks that call the program."""
    found = re.findall(r"^\s*(?:\$ )?(?:\.venv/bin/)?sparsetoken ([a-z].*)$", text, flags=re.MULTILINE)
    return [line for line in found if not line.startswith(("is ", "answers "))]


def inline_commands(text: str) -> list[str]:
    """Calls of the program in running text."""
    return [
        c
        for c in re.findall(r"`(?:\.venv/bin/)?sparsetoken ([a-z][^`]*)`", text)
        if not re.search(r"[A-Z]{3}|\.\.\.", c)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Iterator[Path]:
    """A folder with the files that pages speak of, as the current one."""
    bags, labels, _ = planted_bags(0, n=40, length=4, d=5, strength=6.0)
    table = pd.concat(
        pd.DataFrame(bag, columns=[f"x{j}" for j in range(5)]).assign(bag_id=f"b{k}", label=labels[k])
        for k, bag in enumerate(bags)
    )
    for name in ("bags.csv", "new.csv", "my_bags.csv", "bags.csv.gz"):
        table.to_csv(tmp_path / name, index=False)
    for name in ("features", "new_features"):
        (tmp_path / name).mkdir()
        for k, bag in enumerate(bags):
            np.save(tmp_path / name / f"b{k}.npy", bag)
    slides = pd.DataFrame({"slide_id": [f"b{k}" for k in range(len(bags))], "diagnosis": labels})
    slides.to_csv(tmp_path / "labels.csv", index=False)
    study = (ROOT / "examples" / "my_study.toml").read_text()
    (tmp_path / "examples").mkdir()
    small = (
        study.replace("d = 150", "d = 20")
        .replace("repeats = 6", "repeats = 2")
        .replace("[0.5, 1.0, 2.0, 4.0]", "[1.0]")
    )
    for path in (tmp_path / "examples" / "my_study.toml", tmp_path / "mine.toml"):
        path.write_text(small)
    monkeypatch.chdir(tmp_path)
    with nothing_stays_registered():
        yield tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(PAGES[p]) and p not in ELSEWHERE])
def test_python_blocks_run(page, folder, capsys):
    text = PAGES[page]
    for before, after in REDUCED.get(page, []):
        assert before in text, f"{page} no longer has {before!r}"
        text = text.replace(before, after)
    bags, labels, _ = planted_bags(1, n=60, length=4, d=5)
    names = {"__name__": "__main__", "bags": bags, "labels": labels, "new_bags": bags}
    names["label_of"] = pd.read_csv("labels.csv", index_col="slide_id")["diagnosis"].to_dict()
    names["topic_of"] = {name: place // 4 for place, name in enumerate(names["label_of"])}
    for number, code in enumerate(python_blocks(text)):
        here = folder / f"block{number}.py"
        here.write_text(code)
        names["__file__"] = str(here)
        exec(compile(code, f"{page}, block {number}", "exec"), names)
    assert len(capsys.readouterr().err) == 0 or page == "docs/clusters.md"


def test_the_exercises_know_their_answers(capsys):
    """With an answer of its own an exercise says "not so", with the page's it says "right"."""
    text = PAGES["docs/start/teaching.md"]
    answers = re.findall(r"^    \d\. `(.+?)`", text.partition("Answers")[2], flags=re.MULTILINE)
    names: dict = {}
    for code in python_blocks(text):
        exec(code, names)
    assert capsys.readouterr().out.count("not so") == len(answers) == 4
    for code, answer in zip(python_blocks(text)[-len(answers) :], answers):
        exec(re.sub(r"^answer = [^#\n]+", f"answer = {answer}  ", code, flags=re.MULTILINE), names)
    assert capsys.readouterr().out.count("right") == len(answers)


def test_no_block_is_left_out():
    """Blocks are Python, commands, or text; and what is marked as text is no Python but for what is listed."""
    for page, text in PAGES.items():
        for _, language, block in re.findall(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", text, flags=re.DOTALL | re.MULTILINE):
            assert language in ("python", "bash", "text", ""), page
            if language == "bash":
                assert all(re.match(r"\s*(sparsetoken |#|$)", line) for line in block.split("\n")), (page, block)
            if language in ("text", "") and not block.startswith(tuple(NOT_RUN)):
                with contextlib.suppress(SyntaxError):
                    kinds = {type(node) for node in ast.walk(ast.parse(textwrap.dedent(block)))}
                    assert not kinds & {ast.Import, ast.ImportFrom, ast.Call}, (page, block)


@pytest.fixture
def cluster() -> Iterator[Callable[[], str]]:
    """The address of a scheduler with one worker, started when it is first asked for."""
    distributed = pytest.importorskip("distributed", reason="needs the extra sparsetoken[dask]")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp", "host": "127.0.0.1"}
    with contextlib.ExitStack() as opened:
        yield lru_cache(
            lambda: opened.enter_context(distributed.LocalCluster(**options, dashboard_address=None)).scheduler_address
        )


@pytest.fixture
def quick(monkeypatch) -> None:
    """The paper as one small study, and a server that ends as soon as it serves."""
    from sparsetoken import explorer
    from sparsetoken._core.user_code import load_source
    from sparsetoken.paper import catalogue

    toy = load_source(str(ROOT / "tests" / "study" / "toy.py")).study
    toy = dataclasses.replace(toy, grids={"quick": toy.grids["quick"], "full": toy.grids["quick"]})
    monkeypatch.setattr(catalogue, "get_studies", lambda names=None: [toy])
    served = SimpleNamespace(port=8050, serve_forever=lambda: None)
    monkeypatch.setattr(explorer, "make_server", lambda port: served)
    monkeypatch.setattr(explorer, "warm_up", lambda: None)
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr("os._exit", lambda code: None)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(PAGES[p])])
def test_commands_run(page, folder, command, quick, cluster):
    for line in commands(PAGES[page]):
        checked(line)
        if CHECKED_ONLY.match(line):
            continue
        arguments, target = split(line)
        if SCHEDULER in arguments:
            arguments[arguments.index(SCHEDULER)] = cluster()
        small = SMALL_PLAN if arguments[0] == "plan" else SMALL.get(arguments[0], "")
        if "my_bags.csv" in arguments:  # d is then that of the bags
            small = "--trials 1 --length 2 --model pooled"
        code, printed, errors = command(*arguments, *shlex.split(small))
        # A study of two small trials may well leave its claim undecided, which is exit code 1.
        assert code == 0 or (code == 1 and arguments[0] in ("run", "reproduce")), (line, errors)
        if target:
            Path(target).write_text(printed)


@pytest.mark.parametrize("page", [p for p in PAGES if inline_commands(PAGES[p])])
def test_commands_in_running_text_have_these_options(page):
    for line in inline_commands(PAGES[page]):
        checked(line)


def split(line: str) -> tuple[list[str], str | None]:
    """Arguments, and the file that output is sent to."""
    words = shlex.split(line.rstrip("&"), comments=True)
    if ">" in words:
        return words[: words.index(">")], words[words.index(">") + 1]
    return words, None


def checked(line: str) -> None:
    """See that the command exists and takes these arguments; nothing is run."""
    for name in cli.COMMAND_MODULES:
        __import__(f"sparsetoken.cli.{name}")
    group = typer.main.get_command(cli.app)
    arguments, _ = split(line)
    assert arguments[0] in group.commands, line
    known = group.commands[arguments[0]]
    if "--module" in arguments:  # a reader's file, which would be executed
        assert any("--module" in parameter.opts for parameter in known.params), line
        place = arguments.index("--module")
        del arguments[place : place + 2]
    if all(word.startswith("-") for word in arguments[1:]) and any(p.required for p in known.params):
        options = {o for p in known.params for o in p.opts}
        assert set(arguments[1:]) <= options, line  # a mention without its arguments
        return
    known.make_context(arguments[0], arguments[1:]).close()


def test_the_lines_that_start_a_cluster_have_these_options():
    schedulers = pytest.importorskip("distributed.cli.dask_scheduler", reason="needs the extra sparsetoken[dask]")
    workers = pytest.importorskip("distributed.cli.dask_worker")
    known = {"scheduler": schedulers.main, "worker": workers.main}
    lines = [
        line for text in PAGES.values() for line in re.findall(r"^\s*dask (.*?)(?: &)?$", text, flags=re.MULTILINE)
    ]
    assert {line.split()[0] for line in lines} == set(known)
    for line in lines:
        name, *arguments = shlex.split(line)
        known[name].make_context(name, arguments, resilient_parsing=False).close()


def test_commands_are_found():
    text = "    sparsetoken studies  # all\n```\n$ sparsetoken fit a.csv > b\n```\n`sparsetoken doctor --json` and more"
    assert commands(text) == ["studies  # all", "fit a.csv > b"] and inline_commands(text) == ["doctor --json"]
    assert split("fit a.csv > b") == (["fit", "a.csv"], "b")
    with pytest.raises(Exception, match="No such option"):
        checked("doctor --jsn")


def test_make_targets_and_files_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for page, text in PAGES.items():
        named = re.findall(r"(?:`|^\s*)make ([a-z]+)(?:`|$|\s+#)", text, flags=re.MULTILINE)
        assert set(named) <= targets, page
        assert set(re.findall(r"sparsetoken\[([a-z]+)\]", text)) <= extras, page
        for script in re.findall(r"python ((?:examples|docs)/[\w/]+\.py)", text):
            assert (ROOT / script).exists(), (page, script)
        for module in re.findall(r"python -m (benchmarks(?:\.\w+)?|tests\.\w+)", text):
            assert list(ROOT.glob(module.replace(".", "/") + "*")), (page, module)


def test_examples_run(folder, monkeypatch, capsys):
    """The examples that pages speak of, where they take seconds; the study is run above, the two long tables are not."""
    import runpy

    shutil.copy(ROOT / "examples" / "digits_bags.py", folder)
    monkeypatch.setattr("sys.argv", ["digits_bags.py", "--picture", "nines.png"])
    runpy.run_path(str(folder / "digits_bags.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert (
        float(re.search(r"test AUC of the bags +([\d.]+)", said)[1]) > 0.95
        and (folder / "nines.png").stat().st_size > 10_000
    )
    monkeypatch.setattr("sys.argv", ["flower_patches.py"])
    runpy.run_path(str(ROOT / "examples" / "flower_patches.py"), run_name="__main__")
    said = capsys.readouterr().out
    figures = dict(re.findall(r"(accuracy|AUC) ([\d.]+)", said))
    assert float(figures["accuracy"]) > 0.9 and float(figures["AUC"]) > 0.98, said
    own = runpy.run_path(str(ROOT / "examples" / "own_mechanism.py"))
    assert np.isfinite(own["SquaredHinge"]().value(np.array(0.5), 1.0))
