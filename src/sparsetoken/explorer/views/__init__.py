"""The page's figures, as plain Plotly dictionaries, in the stages of `stages`; a module per view."""

from __future__ import annotations

from typing import Any

from ..points import Alive, BayesLimits, always
from ..state import State
from .alignment import alignment_view
from .bag import bag
from .capacity import capacity_view
from .code import code_of
from .curves import at_total, curves
from .drawing import describe, differences
from .heads import heads_view
from .lengths import lengths_view
from .phase import axis_values, phase
from .rows import numbers
from .stages import MODELS, STAGES
from .training import training_view

__all__ = ["MODELS", "STAGES", "at_total", "axis_values", "code_of", "describe", "differences", "figure_of", "numbers"]


def figure_of(state: State, stage: str, alive: Alive = always, limits: BayesLimits | None = None) -> dict[str, Any]:
    """The figure of the state's view.

    Parameters
    ----------
    state : State
        What the page shows.
    stage : str
        One of `STAGES`.
    alive : callable
        Called between points; may raise to stop the work.
    limits : BayesLimits, optional
        Where Bayes limits come from, and how long they may take.

    Returns
    -------
    dict
        As in `drawing.figure`.
    """
    makers = {
        "curves": curves,
        "alignment": alignment_view,
        "capacity": capacity_view,
        "phase": phase,
        "bag": bag,
        "training": training_view,
        "lengths": lengths_view,
        "heads": heads_view,
    }
    return makers[state.view](state, stage, alive, limits or BayesLimits(alive))
