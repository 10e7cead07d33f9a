"""Failures of the theory engine that a caller may want to catch."""

from __future__ import annotations


class ConvergenceError(ArithmeticError):
    """No fixed point within tolerance: the message says where and what was tried."""


class AccuracyError(ArithmeticError):
    """The accuracy asked for is not reached at the finest sampling of the law."""


class UnstableTrainingWarning(UserWarning):
    """Training amplifies small differences so much that finite samples, drawn or simulated, are far from their limit."""
