"""Repeated cross-validation of regressors on one's own bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.replicates import standard_error
from ..bags.bags import Bags
from .bag_regressor import checked_targets
from .cross_validation import fits_by_fold
from .folds import even_folds


@dataclass(frozen=True)
class RegressionEvaluation:
    """One regressor's cross-validation.

    Attributes
    ----------
    learner : str
        Its name.
    r2 : float
        1 - (held-out squared error) / (variance of the labels), mean over the repetitions.
    r2_error : float
        Its standard error over bags, the variance of the labels taken as known.
    rmse, mae : float
        Root of the mean squared error, and mean absolute error, in units of the label.
    mae_error : float
        Standard error over bags.
    fit_seconds : float
        Mean CPU time of one fit.
    predictions : ndarray of shape (repetitions, bags)
        Held-out predictions.
    """

    learner: str
    r2: float
    r2_error: float
    rmse: float
    mae: float
    mae_error: float
    fit_seconds: float
    predictions: np.ndarray = field(repr=False)


def regression_splits(
    targets: np.ndarray, folds: int, repeats: int, seed: int, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """For each repetition the fold of every bag, small and large labels dealt out evenly.

    Parameters
    ----------
    targets : ndarray
        One number per bag.
    folds, repeats : int
        Folds of each cross-validation, and how many of them.
    seed : int
        Of the first repetition; each one after it counts one up.
    groups : ndarray, optional
        Bags of one group stay in one fold.

    Returns
    -------
    list of ndarray
        One array of folds per repetition.
    """
    codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
    most = len(targets) if codes is None else int(codes.max()) + 1
    if not 2 <= folds <= most:
        raise ValueError(
            f"folds must lie between 2 and the {most} {'bags' if codes is None else 'groups'}, got {folds}"
        )
    splits = []
    for repeat in range(repeats):
        fold = np.empty(len(targets), dtype=int)
        for k, held in enumerate(even_folds(targets, np.random.default_rng(seed + repeat), folds, codes)):
            fold[held] = k
        splits.append(fold)
    return splits


def evaluate_regression(
    bags: Bags,
    labels: np.ndarray,
    makers: dict[str, Callable[[], Any]],
    splits: Sequence[np.ndarray],
    groups: np.ndarray | None = None,
) -> Iterator[RegressionEvaluation | None]:
    """Cross-validate each regressor.

    Parameters
    ----------
    bags : Bags
        All bags.
    labels : ndarray
        One number per bag.
    makers : dict
        Name of each learner -> how to make a fresh one.
    splits : sequence of ndarray
        For each repetition the fold of every bag.
    groups : ndarray, optional
        One group per bag, for the learners' inner splits.

    Yields
    ------
    RegressionEvaluation or None
        None after every fit (for progress), and the result after each learner.
    """
    targets = checked_targets(labels, len(bags))
    variance = float(np.var(targets))
    if variance == 0.0:
        raise ValueError("all labels are equal: there is nothing to predict")
    for name, make in makers.items():
        predictions = np.full((len(splits), len(bags)), np.nan)
        seconds: list[float] = []
        for repeat, held, model, took in fits_by_fold(bags, targets, make, splits, groups):
            seconds.append(took)
            predictions[repeat, held] = model.predict(bags[held])
            yield None
        squares = np.mean((predictions - targets) ** 2, axis=0)
        sizes = np.mean(np.abs(predictions - targets), axis=0)
        yield RegressionEvaluation(
            name,
            float(1.0 - squares.mean() / variance),
            standard_error(squares) / variance,
            float(np.sqrt(squares.mean())),
            float(sizes.mean()),
            standard_error(sizes),
            float(np.mean(seconds)),
            predictions,
        )
