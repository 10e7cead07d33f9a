"""One fit per fold: the loop that both evaluations (`evaluation`, `regression_evaluation`) make their scores in."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..bags.bags import Bags
from .bag_regressor import BagRegressor
from .base import BaseBagClassifier, TrainingWarning


class FoldFit(NamedTuple):
    """A learner fitted without one fold.

    Attributes
    ----------
    repeat : int
        Which repetition the fold belongs to.
    held : ndarray of int
        The bags that it has not seen.
    model : estimator
        The learner.
    seconds : float
        CPU time of the fit (on a busy machine wall time says little).
    """

    repeat: int
    held: np.ndarray
    model: Any
    seconds: float


def fits_by_fold(
    bags: Bags,
    labels: np.ndarray,
    make: Callable[[], Any],
    splits: Sequence[np.ndarray],
    groups: np.ndarray | None = None,
) -> Iterator[FoldFit]:
    """Fit a fresh learner without each fold of each repetition.

    Parameters
    ----------
    bags : Bags
        All bags.
    labels : ndarray
        One label per bag.
    make : callable
        Gives a fresh learner.
    splits : sequence of ndarray
        For each repetition the fold of every bag.
    groups : ndarray, optional
        One group per bag, for the inner splits of learners that have any.

    Yields
    ------
    FoldFit
        One per fold; remarks on the training set (`TrainingWarning`) are not passed on.
    """
    for repeat, fold in enumerate(splits):
        for k in np.unique(fold):
            train, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            model = make()
            inner = groups is not None and isinstance(model, BaseBagClassifier | BagRegressor)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TrainingWarning)
                begun = time.process_time()
                model.fit(bags[train], labels[train], **({"groups": groups[train]} if inner else {}))  # type: ignore[index]
                seconds = time.process_time() - begun
            yield FoldFit(repeat, held, model, seconds)
