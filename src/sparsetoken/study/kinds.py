"""The package's own kinds of trial; importing this module registers them all."""

from __future__ import annotations

from . import simulation_kinds, theory_kinds

__all__ = ["simulation_kinds", "theory_kinds"]
