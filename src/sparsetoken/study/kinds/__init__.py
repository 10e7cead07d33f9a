"""The package's own kinds of trial; importing this module registers them all."""

from __future__ import annotations

from . import simulation, theory

__all__ = ["simulation", "theory"]
