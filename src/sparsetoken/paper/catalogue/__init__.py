"""The paper's studies, in the order of the report: `studies.toml` says what each is and where it stands."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from typing import Any

from ...study.study import SIZES, Study

STUDIES: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "studies.toml").read_text(encoding="utf-8"))
NAMES = tuple(STUDIES)
# Part of the paper -> its studies.
GROUPS = {entry["group"]: [n for n in NAMES if STUDIES[n]["group"] == entry["group"]] for entry in STUDIES.values()}


def get_studies(names: Sequence[str] | None = None) -> list[Study]:
    """The studies of those names (all, by default), in the order of the report."""
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no study {unknown[0]!r}; there are {', '.join(NAMES)}")
    return [_study(name) for name in NAMES if names is None or name in names]


def _study(name: str) -> Study:
    module = import_module(f".{STUDIES[name]['module']}", __name__)
    study: Study = getattr(module, name.replace("-", "_"))
    return replace(study, cost=dict(zip(SIZES, STUDIES[name]["seconds"])))
