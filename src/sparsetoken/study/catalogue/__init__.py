"""The paper's studies, in the order of the report; each module of this package binds one to `study`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ..specification import Study

NAMES: tuple[str, ...] = (
    "fig1",
    "alignment",
    "anti-alignment",
    "scaling",
    "misalignment",
    "capacity",
    "rates",
    "hyperparameters",
    "interpolation",
    "positions",
    "limits",
)


def get_studies(names: Sequence[str] | None = None) -> list[Study]:
    """The studies of those names (all, by default), in the order of the report."""
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no study {unknown[0]!r}; there are {', '.join(NAMES)}")
    chosen = [name for name in NAMES if names is None or name in names]
    return [import_module(f".{name.replace('-', '_')}", __name__).study for name in chosen]
