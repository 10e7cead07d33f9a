"""The paper's studies, in the order of the report; the module of its name binds each to `study`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from ...study.specification import SIZES, Study
from .common import FOLKLORE, PAPER

# Name -> CPU seconds of the quick and of the full form. Quick forms: one run of all of them on two cores, trials that two
# studies share counted for the first. Full forms of the first eleven studies: the same machine, while others used it too, which
# costs about a quarter more, and with the readout as it was; of the others: another one, quiet, with six workers. Those of
# `heads` and `depth`: runs on busy machines, scaled by what these took for studies that were measured both ways.
COSTS: dict[str, tuple[float, float]] = {
    "fig1": (22, 201),
    "alignment": (5, 45),
    "anti-alignment": (12, 43),
    "scaling": (34, 342),
    "fixed-strength": (9, 85),
    "misalignment": (14, 81),
    "capacity": (33, 1222),
    "query-capacity": (17, 758),
    "transition": (5, 167),
    "attention-map": (22, 63),
    "rates": (15, 171),
    "hyperparameters": (22, 48),
    "guidelines": (12, 96),
    "interpolation": (8, 211),
    "positions": (22, 198),
    "limits": (21, 97),
    "joint": (39, 290),
    "reuse": (23, 175),
    "query-steps": (18, 171),
    "designed": (26, 401),
    "universality": (35, 732),
    "heads": (17, 110),
    "depth": (67, 1150),
    "lengths": (14, 172),
    "long-bags": (13, 123),
    "mechanisms": (27, 231),
    "rare": (6, 152),
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
