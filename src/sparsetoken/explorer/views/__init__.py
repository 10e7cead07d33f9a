"""The page's figures, as plain Plotly dictionaries, in the stages of `stages`; a module per view."""

from __future__ import annotations

from typing import Any

from ..points import Alive, always
from ..state import State
from .alignment import alignment_view
from .bag import bag
from .capacity import capacity_view
from .code import code_of
from .curves import at_total, curves
from .lengths import lengths_view
from .phase import axis_values, phase
from .rows import numbers
from .stages import MODELS, STAGES
from .training import training_view

__all__ = ["MODELS", "STAGES", "at_total", "axis_values", "code_of", "figure_of", "numbers"]


def figure_of(state: State, stage: str, alive: Alive = always) -> dict[str, Any]:
    """The figure of the state's view.

    Parameters
    ----------
    state : State
        What the page shows.
    stage : str
        One of `STAGES`.
    alive : callable
        Called between points; may raise to stop the work.

    Returns
    -------
    dict
        Plotly's `data` and `layout`, `failures` (why some points have no answer) and, in some views, a `remark`.
    """
    makers = {
        "curves": curves,
        "alignment": alignment_view,
        "capacity": capacity_view,
        "phase": phase,
        "bag": bag,
        "training": training_view,
        "lengths": lengths_view,
    }
    return makers[state.view](state, stage, alive)
