"""How classifiers look and what they are called in every figure: report, plan, explorer and plots of the command line.

The colours are Okabe and Ito's, which readers without full colour vision can tell apart.
"""

from __future__ import annotations

from typing import Any

from ..models import MODELS, heads_of

COLOURS = {
    "attention": "#D55E00",
    "pooled": "#0072B2",
    "vectorized": "#009E73",
    "elementwise": "#CC79A7",
    "message_passing": "#7A5195",
    "hardmax": "#E69F00",
    "bayes": "#000000",
}
# For whatever is not a classifier: the values of a parameter, a user's own mechanism.
OTHER_COLOURS = ("#56B4E9", "#8C564B", "#B8A100", "#5F6B7A", "#C02942", "#2E8B8B")
# Parts of a figure that are no classifier: a reference line, and the two kinds of token of one bag.
REFERENCE = "#888888"
SIGNAL_TOKEN, NOISE_TOKEN = "#D55E00", "#56B4E9"
# The two errors of one training run.
TEST_ERROR, TRAINING_ERROR = "#D55E00", "#0072B2"
# A learner measured on a user's own bags, whichever it is; lines that are no classifier's.
MEASURED = INK = "#222222"

OTHER_LABELS = {"message_passing": "message passing", "hardmax": "hard max"}  # what is no `model=` of the library
MARKERS = {"attention": "circle", "pooled": "square", "vectorized": "triangle-up"}
OTHER_MARKER = "diamond"
# The same thing under the names that tables and plans have for it.
_ALIASES = {"optimal": "bayes", "reachable": "message_passing"}


def _known(name: Any) -> str:
    return _ALIASES.get(str(name), str(name))


def colour(name: Any, place: int = 0) -> str:
    """The classifier's colour, or the spare one at `place` for anything else."""
    return COLOURS.get(_known(name), OTHER_COLOURS[place % len(OTHER_COLOURS)])


def loss_label(name: str) -> str:
    """A loss's name in words: "smoothed hinge" of smoothed_hinge, "logistic × 19" of logistic:positives=19."""
    return name.replace("_", " ").replace(":positives=", " × ").replace(":", " ")


def marker(name: Any) -> str:
    """The classifier's marker, by Plotly's name for it."""
    return MARKERS.get(_known(name), OTHER_MARKER)


def label(name: Any) -> str:
    """The classifier's name in words."""
    known = _known(name)
    if (heads := heads_of(known)) is not None:
        return "1 head" if heads == 1 else f"{heads} heads"
    return MODELS[known].label if known in MODELS else OTHER_LABELS.get(known, str(name))
