"""The paper's studies, in the order of the report; each module of this package binds one to `study`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from ...study.specification import SIZES, Study
from .common import FOLKLORE, PAPER

# Name -> CPU seconds of the quick and of the full form, measured on one machine, most of them while others used it too, which
# costs about a quarter more. The full forms of the studies that are not among the first eleven were measured on another one,
# quiet, with six workers.
COSTS: dict[str, tuple[float, float]] = {
    "fig1": (39, 201),
    "alignment": (6, 45),
    "anti-alignment": (12, 43),
    "scaling": (48, 342),
    "fixed-strength": (14, 85),
    "misalignment": (23, 81),
    "capacity": (46, 1222),
    "query-capacity": (22, 758),
    "transition": (11, 167),
    "attention-map": (22, 63),
    "rates": (22, 171),
    "hyperparameters": (33, 48),
    "guidelines": (18, 96),
    "interpolation": (17, 211),
    "positions": (42, 198),
    "limits": (27, 97),
    "joint": (50, 267),
    "reuse": (30, 175),
    "query-steps": (33, 171),
    "designed": (45, 401),
    "universality": (48, 732),
    "heads": (25, 457),
    "lengths": (22, 172),
    "long-bags": (20, 123),
    "mechanisms": (22, 231),
    "rare": (18, 152),
}
NAMES = tuple(COSTS)


def get_studies(names: Sequence[str] | None = None) -> list[Study]:
    """The studies of those names (all, by default), in the order of the report."""
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no study {unknown[0]!r}; there are {', '.join(NAMES)}")
    chosen = [name for name in NAMES if names is None or name in names]
    return [_study(name) for name in chosen]


def _study(name: str) -> Study:
    study: Study = import_module(f".{name.replace('-', '_')}", __name__).study
    claims = [replace(claim, origin=_origin(claim.source)) for claim in study.claims]
    origin = "paper" if any(claim.origin == "paper" for claim in claims) else "beyond"
    return replace(study, cost=dict(zip(SIZES, COSTS[name])), claims=claims, origin=origin)


def _origin(source: str) -> str:
    """Whether a claim is the paper's (or commonly made of its subject), or goes beyond it."""
    return "paper" if PAPER in source or FOLKLORE in source else "beyond"
