"""Numbers as users write them on the command line: one, a list, or a range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._core.validation import real_number
from ..distributions import number_or_distribution

DISTRIBUTED = ("length", "sparsity", "strength")  # what may differ from bag to bag
MOST_VALUES = 100_000  # in one range
MOST_POINTS = 1_000_000  # combinations of one command: days of work for the quickest trials


def parse_values(name: str, text: str) -> Sequence[Any]:
    """Numbers written as `2`, `1,2,4`, `0.5:8:6` (six evenly spaced) or `1e-5:1:6:log` (evenly in the logarithm).

    Length, sparsity and strength may also be one distribution over the bags, `10:0.5,20:0.5` (value:probability pairs).
    """
    distributed = name.removeprefix("test_") in DISTRIBUTED
    if distributed and is_distribution(text):
        return [number_or_distribution(name, text, _any_number, whole="strength" not in name)]
    ways = ["a number", "a list a,b,c", "a range low:high:count[:log]"]
    ways += ["value:probability pairs such as 10:0.5,20:0.5"] if distributed else []
    allowed = f"{name} must be {', '.join(ways[:-1])} or {ways[-1]}, got {text!r}"
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        low, high, count, *scale = text.split(":")
        if scale not in ([], ["log"]):
            raise ValueError(allowed)
        ends, points = (real_number(name, float(low), -math.inf), real_number(name, float(high), -math.inf)), int(count)
    except ValueError:
        raise ValueError(allowed) from None
    if points > MOST_VALUES:
        raise ValueError(f"{name} must have at most {MOST_VALUES:,} values, got {points:,}")
    if points < 2 or (scale and min(ends) <= 0.0):
        raise ValueError(f"{allowed}; a range has at least 2 points, and positive ends in the logarithm")
    spaced = np.geomspace(*ends, points) if scale else np.linspace(*ends, points)
    return [float(f"{x:.12g}") for x in spaced]


def is_distribution(text: str) -> bool:
    """Whether a text is made of value:probability pairs."""
    return all(part.count(":") == 1 for part in text.split(","))


def _any_number(name: str, value: Any) -> Any:
    """A number as it is; the task has its own bounds."""
    real_number(name, value, -math.inf)
    return value


def check_combinations(values: Iterable[Sequence[Any]], times: int = 1) -> int:
    """How many combinations the lists of values have, refused before any of them is made where they are too many.

    Parameters
    ----------
    values : iterable of sequences
        The values of each field.
    times : int
        How often every combination is computed (trials, models).

    Returns
    -------
    int
        The number of computations.

    Raises
    ------
    ValueError
        If there are more than `MOST_POINTS`.
    """
    total = math.prod(len(part) for part in values) * times
    if total > MOST_POINTS:
        raise ValueError(
            f"these ranges, models and trials make {total:,} computations; at most {MOST_POINTS:,} are run at once"
        )
    return total


def parse_named(name: str, text: str, keys: Sequence[str]) -> dict[str, float]:
    """Numbers by name, written as `q=1,w=0.5`; a lone number stands for all of `keys`.

    Parameters
    ----------
    name : str
        The option, for messages.
    text : str
        What the user wrote.
    keys : sequence of str
        The names allowed.

    Returns
    -------
    dict of str to float
        Only the names given.
    """
    allowed = f"{name} must be a number or {','.join(f'{key}=number' for key in keys)}, got {text!r}"
    try:
        if "=" not in text:
            return dict.fromkeys(keys, float(text))
        pairs = [part.split("=") for part in text.split(",")]
        found = {key.strip(): float(number) for key, number in pairs}
    except ValueError:
        raise ValueError(allowed) from None
    if len(found) < len(pairs) or not set(found) <= set(keys):
        raise ValueError(allowed)
    return found
