"""The paper's studies, in the order of the report: what the paper proves, its open questions, and our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from ...study.study import SIZES, Study

# Part of the paper -> its studies: module, and CPU seconds of the quick and of the full form on one core, for the listing.
# Trials that two studies share count for the first. A module binds each of its studies to its name.
GROUPS: dict[str, dict[str, tuple[str, float, float]]] = {
    "Separation": {
        "scaling": ("separation", 25, 250),
        "fixed-strength": ("separation", 12, 92),
        "ladder": ("ladder", 26, 182),
    },
    "Alignment": {
        "alignment": ("alignment", 5, 31),
        "anti-alignment": ("alignment", 6, 32),
        "centred": ("centred_residuals", 9, 36),
        "attention-map": ("attention_map", 15, 30),
    },
    "Error": {
        "fig1": ("error_and_loss", 19, 193),
        "rates": ("ridgeless", 9, 99),
        "positions": ("error_and_loss", 15, 110),
        "hyperparameters": ("hyperparameters", 14, 29),
        "misalignment": ("error_and_loss", 10, 52),
    },
    "Capacity": {
        "capacity": ("capacity", 33, 895),
        "query-capacity": ("capacity", 30, 304),
        "transition": ("capacity", 9, 19),
    },
    "Joint training": {
        "joint": ("joint_training", 20, 97),
        "joint-end": ("joint_end", 30, 160),
        "reuse": ("reuse_and_more_steps", 15, 44),
        "query-steps": ("reuse_and_more_steps", 16, 146),
        "designed": ("plans_and_designs", 18, 79),
    },
    "Depth": {"heads": ("heads_and_depth", 9, 56), "depth": ("heads_and_depth", 53, 1238)},
    "Long bags": {"long-bags": ("long_bags", 13, 45), "lengths": ("long_bags", 9, 20)},
    "Beyond": {
        "limits": ("limits_and_mechanisms", 19, 195),
        "mechanisms": ("limits_and_mechanisms", 18, 36),
        "rare": ("rare_positives", 6, 32),
        "interpolation": ("ridgeless", 12, 238),
        "guidelines": ("plans_and_designs", 8, 32),
        "universality": ("other_noise", 27, 261),
    },
}
STUDIES = {name: entry for studies in GROUPS.values() for name, entry in studies.items()}
NAMES = tuple(STUDIES)


def get_studies(names: Sequence[str] | None = None) -> list[Study]:
    """The studies of those names (all, by default), in the order of the report."""
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no study {unknown[0]!r}; there are {', '.join(NAMES)}")
    return [_study(name) for name in NAMES if names is None or name in names]


def _study(name: str) -> Study:
    module, *seconds = STUDIES[name]
    study: Study = getattr(import_module(f".{module}", __name__), name.replace("-", "_"))
    return replace(study, cost=dict(zip(SIZES, seconds)))
