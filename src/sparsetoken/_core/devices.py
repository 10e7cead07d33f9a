"""Where large arrays live, in NumPy's memory or on a device of JAX's (a GPU, or the CPU through JAX); double precision there.

Functions that take either use `arrays.namespace(array)` to find the module to compute with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib import metadata, util
from typing import Any, ParamSpec, TypeVar

import numpy as np

from .arrays import is_jax_array

P = ParamSpec("P")
R = TypeVar("R")

# Numbers from which "auto" moves work to a device: compiling takes tens of seconds on an H200, more than small fits save
# (docs/accelerator.md).
WORTH_MOVING = 2**29


def pick_device(device: str = "auto") -> Any:
    """A JAX device."""
    import jax

    if device == "auto":
        return jax.devices()[0]
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        kinds = sorted({d.platform for d in jax.devices()})
        raise ValueError(f"device must be auto or one of {', '.join(kinds)} here, got {device!r}") from None


@functools.lru_cache(maxsize=1)
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
    jax_device = pick_device(device)
    return None if device == "auto" and jax_device.platform == "cpu" else jax_device


def device_for(device: str, array: np.ndarray, beside: int = 0) -> Any | None:
    """`wanted_device` for work on this array: "auto" moves it only where that saves time and the device has enough memory."""
    checked_device(device)
    if device == "auto" and array.size < WORTH_MOVING:
        return None
    jax_device = wanted_device(device)
    if jax_device is None:
        return None
    room = (jax_device.memory_stats() or {}).get("bytes_limit", np.inf)
    needed = 5 * array.nbytes + beside  # a fit's copies at its widest: scaled, lifted, single precision, a product
    if needed > room:
        if device == "auto":
            return None
        raise ValueError(
            f"device {device!r} has {room / 1e9:.1f} GB, and work on these {array.nbytes / 1e9:.1f} GB takes about "
            f"{needed / 1e9:.1f}: use device='numpy'"
        )
    return jax_device


def working_on(device: Any | None) -> AbstractContextManager[Any]:
    """Context for work on a device: double precision, products in full precision, new arrays there. None: nothing changes."""
    if device is None:
        return nullcontext()
    import jax

    stack = ExitStack()
    for context in (double_precision(), jax.default_matmul_precision("highest"), jax.default_device(device)):
        stack.enter_context(context)
    return stack


def to_host(array: Any) -> Any:
    """The array as NumPy's where it is too small to be worth a device; large ones stay where they are."""
    return np.asarray(array) if is_jax_array(array) and array.size < WORTH_MOVING else array


def double_precision():
    """Context in which JAX computes in float64; nothing global changes on import or afterwards."""
    import jax
    import jax.experimental

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return jax.experimental.enable_x64()  # type: ignore[attr-defined]  # JAX before 0.8


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: run `function` in float64, whatever JAX's global setting is."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with double_precision():
            return function(*args, **kwargs)

    return wrapped
