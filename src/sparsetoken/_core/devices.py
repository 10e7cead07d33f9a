"""Where large arrays live: in NumPy's memory, or on a device of JAX's (a GPU, or the CPU through JAX).

Functions that take either say so; they ask `arrays.namespace(array)` for the module to compute with.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache
from importlib import metadata, util
from typing import Any

import numpy as np

from .arrays import is_jax_array

# At three times this size simple fits gain a factor of 1.8 on an H200 (the bag classifier 44) once compiled, and compiling
# takes ten seconds: below it a device gains nothing worth that.
WORTH_MOVING = 2**24
# Copies of the tokens that a fit makes at its widest (scaled, lifted, single precision, a product).
ROOM_FACTOR = 5


def pick_device(device: str = "auto") -> Any:
    """A JAX device.

    Parameters
    ----------
    device : str
        "auto" for the first accelerator (the CPU where there is none), or a kind such as "cpu" or "gpu".

    Returns
    -------
    jax.Device
        The device.
    """
    import jax

    if device == "auto":
        return jax.devices()[0]
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        kinds = sorted({d.platform for d in jax.devices()})
        raise ValueError(f"device must be auto or one of {', '.join(kinds)} here, got {device!r}") from None


@lru_cache(maxsize=1)
def accelerator_possible() -> bool:
    """Whether JAX could have an accelerator: a plug-in for one is installed. Does not import JAX."""
    return bool(metadata.entry_points(group="jax_plugins")) or util.find_spec("jax_plugins") is not None


def checked_device(device: Any) -> str:
    """`device` if it is one of numpy, auto, cpu and gpu; otherwise a ValueError."""
    if device not in ("numpy", "auto", "cpu", "gpu"):
        raise ValueError(f"device must be numpy, auto, cpu or gpu, got {device!r}")
    return device


def wanted_device(device: str) -> Any | None:
    """The JAX device to use, or None for NumPy: "numpy", "auto" (an accelerator if there is one), "cpu", "gpu"."""
    checked_device(device)
    if device == "numpy" or (device == "auto" and not accelerator_possible()):
        return None
    found = pick_device(device)
    return None if device == "auto" and found.platform == "cpu" else found


def device_for(device: str, array: np.ndarray, beside: int = 0) -> Any | None:
    """`wanted_device` for work on this array: "auto" moves it only where that pays and where the device has room.

    Parameters
    ----------
    device : {"numpy", "auto", "cpu", "gpu"}
        What the user asked for.
    array : ndarray
        The array to work on.
    beside : int
        Bytes needed besides the array and what is made of it.

    Returns
    -------
    jax.Device or None
        The device; None for NumPy.

    Raises
    ------
    ValueError
        If a device was asked for by name and has no room.
    """
    checked_device(device)
    if device == "auto" and array.size < WORTH_MOVING:
        return None
    found = wanted_device(device)
    if found is None:
        return None
    room = (found.memory_stats() or {}).get("bytes_limit", np.inf)
    needed = array.nbytes * ROOM_FACTOR + beside
    if needed > room:
        if device == "auto":
            return None
        raise ValueError(
            f"device {device!r} has {room / 1e9:.1f} GB, and work on these {array.nbytes / 1e9:.1f} GB takes about "
            f"{needed / 1e9:.1f}: use device='numpy'"
        )
    return found


def working_on(device: Any | None) -> AbstractContextManager[Any]:
    """Context for work on a device: double precision, products in full precision, new arrays there. None: nothing changes."""
    if device is None:
        return nullcontext()
    import jax

    from .precision import double_precision

    stack = ExitStack()
    stack.enter_context(double_precision())
    stack.enter_context(jax.default_matmul_precision("highest"))
    stack.enter_context(jax.default_device(device))
    return stack


def to_host(array: Any) -> Any:
    """The array as NumPy's where it is too small to be worth a device; large ones stay where they are."""
    return np.asarray(array) if is_jax_array(array) and array.size < WORTH_MOVING else array
