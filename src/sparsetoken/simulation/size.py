"""The size of a simulation, checked before anything is drawn."""

from __future__ import annotations

import os
from typing import Any

from .._core.validation import rejection, whole_number
from .samplers import SAMPLERS
from .seeds import check_seed

MOST_TOKENS = 10**11  # in all bags together: drawing them takes about an hour


def check_size(d: Any, seed: Any, sampler: str) -> tuple[int, int]:
    """(d, seed), checked along with the sampler's name."""
    if sampler not in SAMPLERS:
        raise rejection("sampler", sampler, f"one of {', '.join(SAMPLERS)}")
    return whole_number("d", d, 2, 10**12), check_seed(seed)


def check_affordable(bags: int, length: int, d: int, numbers: float, drawn: int | None = None) -> None:
    """Refuse bags that would take more memory than is free, or hours to draw.

    `numbers` is what is held at once, `drawn` the number of bags whose tokens are drawn one by one (all by default).
    """
    free, size = available_memory(), 8.0 * numbers
    if size > free:
        raise ValueError(
            f"{bags:,} bags of {length:,} tokens are too many to simulate in dimension {d:,}: about {1e-9 * size:,.3g} GB "
            f"would be held, and {1e-9 * free:,.3g} GB are free; take a smaller d, fewer samples or shorter bags"
        )
    if (bags if drawn is None else drawn) * length > MOST_TOKENS:
        raise ValueError(
            f"{bags:,} bags of {length:,} tokens are too many to simulate: all bags together may have {MOST_TOKENS:,} tokens"
        )


def available_memory() -> float:
    """Bytes available without swapping (all memory where the system does not report it); infinite where neither is known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            kilobytes = dict(line.split(":") for line in lines)["MemAvailable"]
        return 1024.0 * int(kilobytes.split()[0])
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return float("inf")
