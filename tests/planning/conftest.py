"""Fixtures of the planner's tests."""

from __future__ import annotations

import contextlib
import importlib
import io
from pathlib import Path
from typing import NamedTuple

import pytest

from sparsetoken import Task, plan, planning
from sparsetoken.cli import main
from sparsetoken.planning import plan_for_bags
from sparsetoken.planning.plan import Plan
from sparsetoken.simulation.samplers import sample_bags


class Planned(NamedTuple):
    """What one run of `sparsetoken plan` gave."""

    plan: Plan
    code: int
    printed: str
    folder: Path


@pytest.fixture(scope="session")
def planned(tmp_path_factory) -> Planned:
    """A plan for 400 bags of 200 dimensions, made by the command, with all its files."""
    folder, made, printed = tmp_path_factory.mktemp("plan"), [], io.StringIO()

    def kept(*arguments, **options) -> Plan:
        made.append(plan(*arguments, **options))
        return made[-1]

    asked = ["--ask", "samples", "--target", "0.1"]
    files = ["--json", str(folder / "plan.json"), "--plot", str(folder / "plan.svg")]
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(planning, "plan", kept)
        patch.setattr(importlib.import_module("sparsetoken.planning.plan"), "CURVE_FACTORS", (1.0, 2.0))
        with pytest.raises(SystemExit) as ended:
            main(["plan", "-n", "400", "-d", "200", *asked, *files])
    return Planned(made[0], int(ended.value.code or 0), printed.getvalue(), folder)


@pytest.fixture(scope="session")
def small_plan(planned) -> Plan:
    """The plan itself."""
    return planned.plan


TRUTH = Task(length=10, strength=5.0)  # of the fixture `drawn`


@pytest.fixture(scope="session")
def drawn():
    """240 bags of `TRUTH` in 60 dimensions, and their labels."""
    tokens, labels, _ = sample_bags(TRUTH, 240, 60, seed=2)
    return tokens, labels


@pytest.fixture(scope="session")
def bags_plan(drawn):
    """A plan for the drawn bags."""
    return plan_for_bags(*drawn, target=0.1, budget=8.0)
