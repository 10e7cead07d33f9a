"""The options of `forecast` and `simulate` for bags with several signals: `--signals`, `--shares` and `--carried`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from .arrays import ARRAY_FILES, read_array

if TYPE_CHECKING:
    from ..laws.signals import Signals

SIGNALS = typer.Option(
    None,
    "--signals",
    help="Several signals, for -m heads:H (heads:1 is attention): their number, orthogonal to each other, or a .npy or .csv "
    "file with a unit vector per row.",
)
SHARES = typer.Option(
    None, "--shares", help="With --signals: how often each of them is carried, such as 0.7,0.3; equal when not given."
)
CARRIED = typer.Option(
    None,
    "--carried",
    help="With --signals: what a positive bag carries. one (default): a single signal in all its signal tokens; independent: "
    "every signal token draws its own; all: all signals, the signal tokens in turn.",
)


class SignalOptions(NamedTuple):
    """The options as they were written (see `with_blocks`)."""

    signals: str = SIGNALS
    shares: str = SHARES
    carried: str = CARRIED


def read_signals(options: SignalOptions) -> Signals | None:
    """The signals that the options describe; None without any."""
    text, shares, carried = options
    if text is None:
        if shares is not None or carried is not None:
            raise ValueError("--shares and --carried belong to --signals")
        return None
    from ..laws.signals import Signals

    given: Any
    if text.lower().endswith(ARRAY_FILES):
        given = read_array("signals", text)
        if given.ndim < 2:
            given = given.reshape(1, -1)
    else:
        try:
            given = int(text)
        except ValueError:
            raise ValueError(
                f"signals must be a number of signals or a file {' or '.join(ARRAY_FILES)}, got {text!r}"
            ) from None
    if shares is None:
        weights = None
    else:
        try:
            weights = [float(part) for part in shares.split(",")]
        except ValueError:
            raise ValueError(f"shares must be numbers such as 0.7,0.3, got {shares!r}") from None
    return Signals.of(given, weights, "one" if carried is None else carried)


def described(signals: Signals | None) -> dict[str, Any]:
    """What files and titles say of the signals; nothing where there is one."""
    if signals is None:
        return {}
    told: dict[str, Any] = {"signals": len(signals), "carried": signals.carried}
    return told | ({} if signals.carried == "all" else {"shares": [float(f"{p:.6g}") for p in signals.shares]})


def in_words(signals: Signals | None) -> str:
    """The end of a table's title."""
    told = described(signals)
    if not told:
        return ""
    equal = len(set(told.get("shares", ()))) < 2
    shares = "" if equal else " with shares " + ", ".join(f"{p:g}" for p in told["shares"])
    return f"; {told['signals']} signals{shares}, carried {told['carried']}"


def more_cosines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns of the cosines that rows have per head or per signal, in the order of the rows."""
    found = dict.fromkeys(
        name for row in rows for name in row if name.startswith("cosine_") and not name.endswith("_se")
    )
    return [name for name in found if name not in ("cosine_w", "cosine_q")]


def heading(name: str) -> str:
    """How such a column is headed: cosine_q1:2 is that of the first head's query and the second signal."""
    vector, _, place = name.removeprefix("cosine_").partition(":")
    return f"cos({vector}, ξ{place})"
