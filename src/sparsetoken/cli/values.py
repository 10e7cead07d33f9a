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
from ..task import NEUTRAL_FIELDS

if TYPE_CHECKING:
    from ..laws.signals import Signals

DISTRIBUTED = ("length", "sparsity", "strength")  # what may differ from bag to bag


def parse_values(name: str, text: str) -> Sequence[Any]:
    """Numbers as `2`, `1,2,4`, `0.5:8:6` or `1e-5:1:6:log`; for what may differ, a distribution `10:0.5,20:0.5`, too."""
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
    if points > (most := 100_000):
        raise ValueError(f"{name} must have at most {most:,} values, got {points:,}")
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
        total, most = math.prod(map(len, self.values.values())) * times, 1_000_000  # days of the quickest trials
        if total > most:
            raise ValueError(
                f"these ranges, models and trials make {total:,} computations; at most {most:,} are run at once"
            )


def parse_named(name: str, text: str, keys: Sequence[str]) -> dict[str, float]:
    """Numbers by name, written as `q=1,w=0.5`; a single number is used for all of `keys`."""
    allowed = f"{name} must be a number or {','.join(f'{key}=number' for key in keys)}, got {text!r}"
    try:
        if "=" not in text:
            return dict.fromkeys(keys, float(text))
        pairs = [part.split("=") for part in text.split(",")]
        numbers = {key.strip(): float(number) for key, number in pairs}
    except ValueError:
        raise ValueError(allowed) from None
    if len(numbers) < len(pairs) or not set(numbers) <= set(keys):
        raise ValueError(allowed)
    return numbers


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
# Fields that titles show only where they are something else.
USUALLY = {**NEUTRAL_FIELDS, "equal_samples": False, "query_by": "steps"}


def settings_in_words(values: Mapping[str, Any], signals: Signals | None, more: Sequence[str] = ()) -> str:
    """What all rows of a table share, `length 10, strength 5`: the values and more words, the signals, what the test has."""
    tested = {name.removeprefix("test_"): value for name, value in values.items() if name.startswith("test_")}
    trained = {
        name: value
        for name, value in values.items()
        if not name.startswith("test_") and (name not in USUALLY or value != USUALLY[name])
    }
    title = ", ".join([*_listed(trained), *more])
    if signals is not None:
        said = of_signals(signals)
        shares = ", ".join(f"{p:g}" for p in said["shares"]) if len(set(said.get("shares", ()))) > 1 else ""
        title += f"; {len(signals)} signals{f' with shares {shares}' if shares else ''}, carried {signals.carried}"
    return f"{title}; tested at {', '.join(_listed(tested))}" if tested else title


def _listed(values: Mapping[str, Any]) -> list[str]:
    return [f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}" for name, value in values.items()]


def of_signals(signals: Signals | None) -> dict[str, Any]:
    """The signals' entries in files; none where there is one signal."""
    if signals is None:
        return {}
    said: dict[str, Any] = {"signals": len(signals), "carried": signals.carried}
    return said | ({} if signals.carried == "all" else {"shares": [float(f"{p:.6g}") for p in signals.shares]})


def failure_in_words(model: str, point: Mapping[str, Any], swept: Sequence[str], reason: Any) -> str:
    """Which point of a sweep failed, and why."""
    where = ", ".join(f"{name} {point[name]:g}" for name in swept)
    return f"{model}{f' at {where}' if where else ''} failed: {reason}"


def at_test(name: str) -> str:
    """The column of an option: `test_length` is in the column `tested_length`, others in their own."""
    return f"tested_{name.removeprefix('test_')}" if name.startswith("test_") else name


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fields with numbers, and headings; cosines as rows have them (cosine_q1:2: first head's query, second signal)."""
    headings = dict(HEADINGS)
    for name in (name for row in rows for name in row if name.startswith("cosine_") and not name.endswith("_se")):
        vector, _, place = name.removeprefix("cosine_").partition(":")
        headings.setdefault(name, f"cos({vector}, ξ{place})")
    present = {name for name in headings for row in rows if not math.isnan(row.get(name, math.nan))}
    return {name: heading for name, heading in headings.items() if name in present}


def cell(row: Mapping[str, Any], name: str) -> str:
    """A number of a row with its standard error; a dash where there is none."""
    from .._core.averages import with_error

    error = row.get("standard_error" if name == "test_error" else f"{name}_se", 0.0)
    return with_error(row.get(name, math.nan), error if error > 1e-12 else 0.0)


def line_per_row(
    rows: Sequence[Mapping[str, Any]], swept: Sequence[str], columns: Mapping[str, str]
) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of a table: the classifier, what varies, and the columns."""
    lines = [
        [row["model"], *(f"{row[name]:g}" for name in swept), *(cell(row, name) for name in columns)] for row in rows
    ]
    return ["model", *swept, *columns.values()], lines
