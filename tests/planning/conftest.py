"""Fixtures of the planner's tests."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import NamedTuple

import pytest

from sparsetoken import plan, planning
from sparsetoken.cli import main
from sparsetoken.planning.advice import Plan


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
        patch.setattr("sparsetoken.planning.advice.CURVE_FACTORS", (1.0, 2.0))
        with pytest.raises(SystemExit) as ended:
            main(["plan", "-n", "400", "-d", "200", *asked, *files])
    return Planned(made[0], int(ended.value.code or 0), printed.getvalue(), folder)


@pytest.fixture(scope="session")
def small_plan(planned) -> Plan:
    """The plan itself."""
    return planned.plan
