"""The accuracy of computed limits, and the errors and warnings where it, or any solution, is out of reach."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from .._core.validation import caller_level, real_number
from ..laws.law import SECOND_LEVEL

SAFETY = 2.5  # the standard error aimed at is accuracy/2.5, so that `accuracy` bounds the error with probability 0.99


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


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A neighbouring problem's solution, as a start.

    Attributes
    ----------
    x : array (unknowns,)
        Its fixed point: (m_q, m_u, log nu, b, log V), or the unknowns of several heads or of coloured noise.
    points : int, optional
        Draws per replicate to begin with; the law's first level by default.
    """

    x: np.ndarray
    points: int | None = None


@dataclass(frozen=True, eq=False)
class Accuracy:
    """How exactly a limit is computed, what happens where that is out of reach, and where the search starts.

    Parameters
    ----------
    test_error : float
        Absolute error allowed on the test error (the standard error is brought below 0.4 of it).
    strict : bool
        Raise an `AccuracyError` where that is not met at the finest sampling of the law, instead of an `AccuracyWarning`.
    warm_start : WarmStart, optional
        A neighbouring problem's solution.
    """

    test_error: float = 2e-4
    strict: bool = False
    warm_start: WarmStart | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "test_error", real_number("accuracy", self.test_error, 0.0, open_low=True))

    @classmethod
    def of(cls, accuracy: float | Accuracy) -> Accuracy:
        """An `Accuracy` from an argument that may be a number."""
        return accuracy if isinstance(accuracy, Accuracy) else cls(accuracy)

    def shortfall(self, error: float) -> float:
        """A standard error over the one allowed: at most 1 where the accuracy is reached."""
        # A replicate without a fixed point has no error bar: use more draws.
        return SAFETY * error / self.test_error if np.isfinite(error) else SECOND_LEVEL

    def missed(self, error: float, where: str) -> None:
        """Raise or warn: the standard error is too large at the finest sampling."""
        accuracy_missed(
            f"accuracy {self.test_error:g} on the test error is not reached: standard error {error:.1e} {where}; "
            f"use at least {SAFETY * error:.1e}",
            self.strict,
        )


DEFAULT_ACCURACY = Accuracy().test_error
