"""Finite-size experiments: one trial from a seed, with everything measured in closed form."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "SimulationResult": "trial",
    "mean_and_error": "repeats",
    "simulate": "trial",
    "trial_seeds": "repeats",
    "two_steps": "steps",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
