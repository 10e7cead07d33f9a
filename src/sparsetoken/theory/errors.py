"""Failures of the theory engine that a caller may want to catch."""

from __future__ import annotations

import warnings

from .._core.validation import caller_level


class ConvergenceError(ArithmeticError):
    """No fixed point within tolerance: the message says where and what was tried."""


class AccuracyError(ArithmeticError):
    """The accuracy asked for is not reached at the finest sampling of the law."""


class AccuracyWarning(UserWarning):
    """The accuracy asked for is not reached: the number comes with a larger standard error."""


class UnstableTrainingWarning(UserWarning):
    """Training amplifies small differences so much that finite samples, drawn or simulated, are far from their limit."""


class ReplicaSymmetryWarning(UserWarning):
    """The replicon exceeds one: training has many ends near each other, which the replica-symmetric one describes roughly."""


def accuracy_missed(message: str, strict: bool) -> None:
    """Say that an accuracy is out of reach: as an AccuracyError where the caller is strict, else as a warning."""
    if strict:
        raise AccuracyError(message)
    warnings.warn(message, AccuracyWarning, stacklevel=caller_level())
