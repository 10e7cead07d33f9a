"""Studies: a grid of trials -> executor -> store -> tidy tables -> figures and judged claims.

Names are resolved on first use, so that worker processes import no more than the trial they run.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "trial_kind": "registry",
    "Trial": "specification",
    "Grid": "specification",
    "Study": "specification",
    "Claim": "claims",
    "Judgement": "claims",
    "Panel": ".plotting.panels",
    "Store": "store",
    "StoreError": "store",
    "open_executor": "executor",
    "run_trials": "runner",
    "run_study": "runner",
    "load_studies": "study_files",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
