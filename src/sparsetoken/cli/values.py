"""Numbers as users write them (one, a list, a range, or an array in a file), and as titles and tables show them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core.validation import real_number
from ..distributions import number_or_distribution

if TYPE_CHECKING:
    from ..laws.signals import Signals

DISTRIBUTED = ("length", "sparsity", "strength")  # what may differ from bag to bag
MOST_VALUES = 100_000  # in one range
MOST_POINTS = 1_000_000  # combinations of one command: days of work for the quickest trials


def parse_values(name: str, text: str) -> Sequence[Any]:
    """Numbers written as `2`, `1,2,4`, `0.5:8:6` (six evenly spaced) or `1e-5:1:6:log` (evenly in the logarithm).

    Length, sparsity and strength may also be one distribution over the bags, `10:0.5,20:0.5` (value:probability pairs).
    """
    if name == "eta_b" and text == "auto":
        return [text]
    distributed = name.removeprefix("test_") in DISTRIBUTED
    if distributed and all(part.count(":") == 1 for part in text.split(",")):
        return [number_or_distribution(name, text, _any_number, whole="strength" not in name)]
    ways = ["a number", "a list a,b,c", "a range low:high:count[:log]"]
    ways += ["value:probability pairs such as 10:0.5,20:0.5"] if distributed else []
    ways += ["auto"] if name == "eta_b" else []
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


def number(name: str, text: str) -> float:
    """One number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _any_number(name: str, value: Any) -> Any:
    """A number as it is; the task has its own bounds."""
    real_number(name, value, -math.inf)
    return value


class OptionGrid:
    """Values by name, of which every combination is a case."""

    def __init__(self, *parts: Mapping[str, Sequence[Any]]) -> None:
        self.values = {name: values for part in parts for name, values in part.items()}

    @property
    def swept(self) -> list[str]:
        """The names with several values."""
        return [name for name, values in self.values.items() if len(values) > 1]

    @property
    def fixed(self) -> dict[str, Any]:
        """The others, with their value."""
        return {name: values[0] for name, values in self.values.items() if len(values) == 1}

    def cases(self) -> Iterator[dict[str, Any]]:
        """Every combination."""
        for values in product(*self.values.values()):
            yield dict(zip(self.values, values))

    def check(self, times: int) -> None:
        """Refuse too many combinations, each so many times, before any of them is made."""
        total = math.prod(len(part) for part in self.values.values()) * times
        if total > MOST_POINTS:
            raise ValueError(
                f"these ranges, models and trials make {total:,} computations; at most {MOST_POINTS:,} are run at once"
            )


def parse_named(name: str, text: str, keys: Sequence[str]) -> dict[str, float]:
    """Numbers by name, written as `q=1,w=0.5`; a single number is used for all of `keys`."""
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


def reads_array(text: str) -> bool:
    """Whether an option names a file with an array."""
    return text.lower().endswith((".npy", ".csv"))


def read_array(name: str, path: str) -> np.ndarray:
    """The numbers of a .npy file, or of a .csv file without a header."""
    try:
        if not path.lower().endswith(".npy"):
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # NumPy warns of a file without any numbers
                return np.loadtxt(path, delimiter=",", encoding="utf-8-sig")
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, EOFError, ValueError, UserWarning) as error:
        raise ValueError(f"the {name} in {path} cannot be read: {error}") from None


# Fields that titles show only where they are not zero, and one that they usually show.
DISTURBANCES = ("label_noise", "contamination", "correlation", "equal_samples")
USUAL = ("query_by", "steps")


def numbers_in_words(values: Mapping[str, Any]) -> str:
    """The values that all rows share, `length 10, strength 5`; not those of the test."""
    said = {
        name: value
        for name, value in values.items()
        if not name.startswith("test_") and (value or name not in DISTURBANCES) and (name, value) != USUAL
    }
    return ", ".join(f"{n} {v:g}" if isinstance(v, int | float) else f"{n} {v}" for n, v in said.items())


def tested_in_words(values: Mapping[str, Any]) -> str:
    """Those of the test."""
    said = ", ".join(
        f"{name.removeprefix('test_')} {value:g}" for name, value in values.items() if name.startswith("test_")
    )
    return f"; tested at {said}" if said else ""


def failure_in_words(model: str, point: Mapping[str, Any], swept: Sequence[str], reason: Any) -> str:
    """Which point of a sweep failed, and why."""
    where = ", ".join(f"{name} {point[name]:g}" for name in swept)
    return f"{model}{f' at {where}' if where else ''} failed: {reason}"


def at_test(name: str) -> str:
    """The column of an option: `test_length` is in the column `tested_length`, others in their own."""
    return f"tested_{name.removeprefix('test_')}" if name.startswith("test_") else name


def of_signals(signals: Signals | None) -> dict[str, Any]:
    """The signals' entries in files; none where there is one signal."""
    if signals is None:
        return {}
    said: dict[str, Any] = {"signals": len(signals), "carried": signals.carried}
    return said | ({} if signals.carried == "all" else {"shares": [float(f"{p:.6g}") for p in signals.shares]})


def signals_in_words(signals: Signals | None) -> str:
    """The same as a part of a title."""
    said = of_signals(signals)
    if not said:
        return ""
    equal = len(set(said.get("shares", ()))) < 2
    shares = "" if equal else " with shares " + ", ".join(f"{p:g}" for p in said["shares"])
    return f"; {said['signals']} signals{shares}, carried {said['carried']}"


# Fields of results in tables, and their headings.
HEADINGS = {
    "test_error": "test error",
    "auc": "AUC",
    "balanced_error": "balanced error",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "train_loss": "train loss",
    "train_error": "train error",
    "cosine_q": "cos(q, ξ)",
    "sharpness": "k = β‖q‖",
    "cosine_w": "cos(w, ξ)",
    "norm_w": "‖w‖",
    "bias": "b",
    "capacity": "capacity α*",
}


def cosine_columns(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Fields and headings of the cosines that rows have per head or per signal, in the order of the rows.

    cosine_q1:2 is that of the first head's query and the second signal.
    """
    names = dict.fromkeys(
        name for row in rows for name in row if name.startswith("cosine_") and not name.endswith("_se")
    )
    columns = []
    for name in names:
        if name not in ("cosine_w", "cosine_q"):
            vector, _, place = name.removeprefix("cosine_").partition(":")
            columns.append((name, f"cos({vector}, ξ{place})"))
    return columns
