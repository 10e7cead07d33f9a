"""The package's own kinds of trial; importing this module registers them all."""

from __future__ import annotations

from . import dynamics, readout, staged, strengths, tuned

__all__ = ["dynamics", "readout", "staged", "strengths", "tuned"]
