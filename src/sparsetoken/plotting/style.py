"""Colours, markers and names of the classifiers in every figure; numbers, names and symbols on the axes.

The colours are Okabe and Ito's, which readers without full colour vision can tell apart.
"""

from __future__ import annotations

import math
import re
import textwrap
from typing import Any

from ..classifiers import CLASSIFIERS, classifier

COLOURS = {
    "attention": "#D55E00",
    "pooled": "#0072B2",
    "vectorized": "#009E73",
    "elementwise": "#CC79A7",
    "message_passing": "#7A5195",
    "hardmax": "#E69F00",
    "bayes": "#000000",
}
# For whatever is not a classifier: the values of a parameter, a user's own classifier.
OTHER_COLOURS = ("#56B4E9", "#8C564B", "#B8A100", "#5F6B7A", "#C02942", "#2E8B8B")
# Parts of a figure that are no classifier: a reference line, and the two kinds of token of one bag.
REFERENCE = "#888888"
SIGNAL_TOKEN, NOISE_TOKEN = "#D55E00", "#56B4E9"
# The two errors of one training run.
TEST_ERROR, TRAINING_ERROR = "#D55E00", "#0072B2"
# A learner measured on a user's own bags, whichever it is; lines that are no classifier's.
MEASURED = INK = "#222222"

# What is no `model=` of the library: rules, and ways to learn a direction (`theory.recovery`).
OTHER_LABELS = {
    "message_passing": "message passing",
    "hardmax": "hard max",
    "eigenvector": "top eigenvector",
    "positive_eigenvector": "top eigenvector, positive bags",
}
# Ways to learn a direction that have the colour of a classifier, and those that have spare colours, in this order.
_AS_CLASSIFIERS = {"products:0": "pooled", "products:1": "attention"}
_LEARNT = ("eigenvector", "products:2", "products:3", "positive_eigenvector")
_QUALIFIED = {"trained": "trained", "known": "known signal"}  # "trained:attention" and the like
MARKERS = {"attention": "circle", "pooled": "square", "vectorized": "triangle-up"}
OTHER_MARKER = "diamond"
# Fields and measures -> their names on axes.
AXES = {
    "alpha0": "samples of the two steps per dimension, α₀ = n₀/d",
    "alpha1": "samples of the readout per dimension, α₁ = n₁/d",
    "alpha": "samples per dimension, α = n/d",
    "test_error": "test error",
    "train_loss": "training loss",
    "cosine_q": "cos(q₂, ξ)",
    "cosine_w": "cos(w₁, ξ)",
    "length": "tokens per bag, L",
    "strength": "signal strength θ",
    "prevalence": "prevalence π",
    "cosine": "cosine of query and signal, γ",
    "sharpness": "inverse temperature k = β‖q‖",
    "beta": "inverse temperature of the softmax, β",
    "ridge": "ridge λ",
    "eta_w": "learning rate η_w",
    "eta_b": "learning rate η_b",
    "eta_q": "learning rate η_q",
}
# Other names for the same thing in tables and plans.
_ALIASES = {"optimal": "bayes", "reachable": "message_passing"}


def _known(name: Any) -> str:
    return _ALIASES.get(str(name), str(name))


def colour(name: Any, place: int = 0) -> str:
    """The classifier's colour, or the spare one at `place` for anything else."""
    canonical = _known(name).removeprefix("fresh_")
    canonical = _AS_CLASSIFIERS.get(canonical, canonical)
    place = _LEARNT.index(canonical) if canonical in _LEARNT else place
    kind, _, rest = canonical.partition(":")
    return COLOURS.get(rest if kind in _QUALIFIED else kind, OTHER_COLOURS[place % len(OTHER_COLOURS)])


def loss_label(name: str) -> str:
    """A loss's name in words: "smoothed hinge" of smoothed_hinge, "logistic × 19" of logistic:positives=19."""
    return name.replace("_", " ").replace(":positives=", " × ").replace(":", " ")


def marker(name: Any) -> str:
    """The classifier's marker, by Plotly's name for it."""
    return MARKERS.get(_known(name), OTHER_MARKER)


def label(name: Any) -> str:
    """The classifier's name in words."""
    canonical = _known(name)
    if canonical in CLASSIFIERS or canonical.startswith(("elementwise:", "heads:")):
        return classifier(canonical).label
    kind, _, rest = canonical.partition(":")
    if rest and kind in _QUALIFIED:
        return f"{label(rest)}, {_QUALIFIED[kind]}"
    if rest and kind in ("products", "fresh_products"):
        meaning = {"0": "labelled mean", "1": "two steps"}.get(rest, f"{rest} products")
        return f"{meaning}, fresh bags" if kind == "fresh_products" else meaning
    return OTHER_LABELS.get(canonical, str(name))


MOST_POWERS = 6  # of ten that are labelled on an axis: with 100,000 among them, more touch each other
_INDEX = re.compile(r"(?<=η)_([a-z])\b")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain_number(value: float) -> str:
    """The label of a tick: the number itself, or a power of ten where it is very large or small."""
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:,.10g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    factor = value / 10.0**power
    shown = f"10{str(power).translate(_SUPERSCRIPTS)}"
    return shown if abs(factor - 1) < 1e-9 else f"{factor:.3g}·{shown}"


def round_numbers(low: float, high: float) -> list[float]:
    """The numbers that get a label on an axis, from a little below `low` to a little above `high`; at most about ten."""
    by_span = ((8, (1.0, 2.0, 3.0, 5.0, 7.0)), (100, (1.0, 2.0, 5.0)), (1000, (1.0, 3.0)))
    steps = next((multiples for span, multiples in by_span if high / low < span), (1.0,))
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1 if len(steps) > 1 else max(1, -(-(last - first) // MOST_POWERS))
    decades = range(first, last + 1, stride)
    return [m * 10.0**e for e in decades for m in steps if 0.8 * low <= m * 10.0**e <= 1.25 * high]


def in_lines(name: str, width: int = 12) -> str:
    """A name in lines of about `width` letters (by default, as under an axis), joined by line breaks."""
    kept = name.replace(" = ", "\u00a0=\u00a0")  # no line ends inside "L = 5"
    return "\n".join(textwrap.wrap(kept, width, break_long_words=False)) or name


def with_indices(text: str, before: str, after: str) -> str:
    """The text with the letter after an underscore (η_b) lowered: `before` and `after` stand around it."""
    return _INDEX.sub(lambda match: f"{before}{match[1]}{after}", text)
