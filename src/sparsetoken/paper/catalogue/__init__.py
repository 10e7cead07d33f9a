"""The paper's studies: `studies.toml` says what each is, in the order of the report; here is what they have in common."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any

from ...plotting.style import OTHER_COLOURS, colour
from ...study.claims import Source
from ...study.kinds.dynamics import REPLICATES
from ...study.study import Study

STUDIES: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "studies.toml").read_text(encoding="utf-8"))
NAMES = tuple(STUDIES)
# Part of the paper -> its studies.
GROUPS = {entry["group"]: [n for n in NAMES if STUDIES[n]["group"] == entry["group"]] for entry in STUDIES.values()}

# The task of most figures: one signal token in ten, balanced classes.
TEN_TOKENS: dict[str, Any] = {"length": 10, "sparsity": 1, "strength": 5.0, "prevalence": 0.5}
# Four tasks and what tells them apart: joint training is compared with staged training and the Bayes limit there.
TASKS: list[dict[str, Any]] = [
    {**TEN_TOKENS, "sparsity": R, "strength": theta, "prevalence": pi}
    for R, theta, pi in ((1, 5.0, 0.5), (1, 5.0, 0.2), (1, 4.0, 0.5), (2, 4.0, 0.5))
]
TASK_FIELDS = ["sparsity", "strength", "prevalence"]
STEPS = 30  # of joint descent
MODELS = ("attention", "pooled", "vectorized")

# Bags per replicate of the trajectory theory: few where errors are many standard errors apart, the default in full forms.
BAGS = {"few": 256, "quick": 512, "full": 1024}
THEORY_DEGREES = REPLICATES - 1  # of freedom of the theory's standard errors, unless a study takes more replicates

# Steps -> rate of the bias (`eta_b`), words and colour: plain steps are compared with centred residuals.
MODES = {"plain": (1.0, "plain steps", OTHER_COLOURS[1]), "centred": ("auto", "centred residuals", colour("attention"))}

ALIKE = 0.1  # within this share two errors count as equal: such a difference would not change any advice


class Resolution:
    """The margin of a comparison must be below this for a verdict; larger steps are for what scatters between data sets."""

    FINEST, FINE, COARSE, ROUGH = 0.015, 0.03, 0.06, 0.12  # of shares, of which a figure shows a hundredth
    RELATIVE = 0.15  # of capacities and strengths, to themselves
    EXPONENT = 0.2  # over a decade or two: 1/2 and 1/4 are distinguished


OPEN = Source(source="ours", reference="open question of the paper")
OURS = Source(source="ours", reference="docs/theory.md")
STATED = Source(source="commonly stated", reference="")


def get_studies(names: Sequence[str] | None = None) -> list[Study]:
    """The studies of those names (all, by default), in the order of the report."""
    unknown = [name for name in names or () if name not in NAMES]
    if unknown:
        raise ValueError(f"there is no study {unknown[0]!r}; there are {', '.join(NAMES)}")
    return [_study(name) for name in NAMES if names is None or name in names]


def _study(name: str) -> Study:
    module = import_module(f".{STUDIES[name]['module']}", __name__)
    study: Study = getattr(module, name.replace("-", "_"))
    return study
