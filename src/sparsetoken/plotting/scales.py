"""What stands on axes: numbers that people read at a glance (0.05, 200, 10,000), names in lines, symbols with their index."""

from __future__ import annotations

import math
import re
import textwrap

# Numbers in this range are written out; others are powers of ten.
WRITTEN_OUT = (1e-4, 1e6)
MOST_POWERS = 6  # of ten that are labelled on an axis: with 100,000 among them, more touch each other
LINE = 12  # letters in a line of a name under an axis
_INDEX = re.compile(r"(?<=η)_([a-z])\b")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain_number(value: float) -> str:
    """The label of a tick: the number itself, or a power of ten where it is very large or small."""
    if value == 0 or WRITTEN_OUT[0] <= abs(value) < WRITTEN_OUT[1]:
        return f"{value:,.10g}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    factor = value / 10.0**power
    shown = f"10{str(power).translate(_SUPERSCRIPTS)}"
    return shown if abs(factor - 1) < 1e-9 else f"{factor:.3g}·{shown}"


def round_steps(low: float, high: float) -> tuple[float, ...]:
    """Multiples of the powers of ten that get a label on an axis from `low` to `high`."""
    span = high / low
    if span < 8:
        return (1.0, 2.0, 3.0, 5.0, 7.0)
    if span < 100:
        return (1.0, 2.0, 5.0)
    return (1.0, 3.0) if span < 1000 else (1.0,)


def round_numbers(low: float, high: float) -> list[float]:
    """The labelled numbers themselves, from a little below `low` to a little above `high`; at most about ten."""
    steps = round_steps(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = 1 if len(steps) > 1 else max(1, -(-(last - first) // MOST_POWERS))
    decades = range(first, last + 1, stride)
    return [m * 10.0**e for e in decades for m in steps if 0.8 * low <= m * 10.0**e <= 1.25 * high]


def in_lines(name: str, width: int = LINE) -> str:
    """A name in lines of about `width` letters, joined by line breaks."""
    return "\n".join(textwrap.wrap(name, width, break_long_words=False)) or name


def with_indices(text: str, before: str, after: str) -> str:
    """The text with the letter after an underscore (η_b) lowered: `before` and `after` stand around it."""
    return _INDEX.sub(lambda found: f"{before}{found[1]}{after}", text)
