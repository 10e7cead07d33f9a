"""What `forecast` and `simulate` call their numbers: titles of tables, names of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..laws.signals import Signals

# Fields that are said only where they are not zero.
DISTURBANCES = ("label_noise", "contamination", "correlation", "equal_samples")


def numbers_in_words(values: Mapping[str, Any]) -> str:
    """The values that all rows share, `length 10, strength 5`; not those of the test."""
    said = {
        name: value
        for name, value in values.items()
        if not name.startswith("test_") and (value or name not in DISTURBANCES)
    }
    return ", ".join(f"{n} {v:g}" if isinstance(v, int | float) else f"{n} {v}" for n, v in said.items())


def tested_in_words(values: Mapping[str, Any]) -> str:
    """Those of the test."""
    said = ", ".join(
        f"{name.removeprefix('test_')} {value:g}" for name, value in values.items() if name.startswith("test_")
    )
    return f"; tested at {said}" if said else ""


def at_test(name: str) -> str:
    """The column of an option: `test_length` is in the column `tested_length`, others in their own."""
    return f"tested_{name.removeprefix('test_')}" if name.startswith("test_") else name


def of_signals(signals: Signals | None) -> dict[str, Any]:
    """What files say of the signals; nothing where there is one."""
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
