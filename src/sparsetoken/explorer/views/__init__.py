"""The page's figures, as plain Plotly dictionaries; a module per view.

Every figure comes twice: quick, few points on few draws, about 1 % off; then exact, with the library's own forecasts and as
many points as a smooth line needs.
"""

from __future__ import annotations

from typing import Any

from ..state import State
from .curves import curves_view, heads_view
from .lines import alignment_view, capacity_view, lengths_view
from .maps import bag_view, phase_view
from .needed import needed_view
from .training import training_view

_VIEWS = {
    "curves": curves_view,
    "needed": needed_view,
    "alignment": alignment_view,
    "capacity": capacity_view,
    "phase": phase_view,
    "bag": bag_view,
    "training": training_view,
    "lengths": lengths_view,
    "heads": heads_view,
}


def figure_of(state: State, quick: bool) -> dict[str, Any]:
    """The figure of the state's view."""
    return _VIEWS[state.view](state, quick)
