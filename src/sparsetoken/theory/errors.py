"""Failures of the theory engine that a caller may want to catch."""

from __future__ import annotations

import warnings

from .._core.validation import caller_level


class ConvergenceError(ArithmeticError):
    """No fixed point within tolerance; the message names the problem and the residuals reached."""


class AccuracyError(ArithmeticError):
    """The requested accuracy is not reached at the finest sampling of the law."""


class AccuracyWarning(UserWarning):
    """The requested accuracy is not reached; the standard error is larger."""


class UnstableTrainingWarning(UserWarning):
    """Training amplifies small differences so much that finite samples, drawn or simulated, are far from their limit."""


class ReplicaSymmetryWarning(UserWarning):
    """The replicon exceeds one, or single bags have several minima: training has many end points, and the replica-symmetric
    solution is approximate."""


def accuracy_missed(message: str, strict: bool) -> None:
    """Raise AccuracyError where the caller is strict, else warn."""
    if strict:
        raise AccuracyError(message)
    warnings.warn(message, AccuracyWarning, stacklevel=caller_level())
