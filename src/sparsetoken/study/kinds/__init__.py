"""The package's own kinds of trial; importing this module registers them all."""

from __future__ import annotations

from . import dynamics, heads, ladder, planning, simulation, theory, two_steps

__all__ = ["dynamics", "heads", "ladder", "planning", "simulation", "theory", "two_steps"]
