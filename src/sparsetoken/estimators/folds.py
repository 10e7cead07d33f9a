"""Inner folds: which bags are held out together. They depend on the order of the bags and on the seed, and on nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_random_state

FOLDS = 5  # scikit-learn's usual number


def checked_seed(random_state: Any) -> int:
    """A seed drawn from `random_state`, as scikit-learn takes it: None, a whole number or a RandomState."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise ValueError(
            f"random_state must be None, a whole number from 0 to 2**32 - 1 or a numpy RandomState, got {random_state!r}"
        ) from None


def class_folds(
    classes: np.ndarray, seed: int, groups: np.ndarray | None = None, most: int = FOLDS
) -> list[np.ndarray]:
    """Index sets of held-out bags with the classes at their shares; none where a class would be held out as a whole."""
    if groups is None:
        fewest = int(np.unique(classes, return_counts=True)[1].min())
    else:
        fewest = min(len(np.unique(groups[classes == label])) for label in np.unique(classes))
    for count in range(min(most, fewest), 1, -1):
        splitter = (StratifiedKFold if groups is None else StratifiedGroupKFold)(count, shuffle=True, random_state=seed)
        folds = [held for _, held in splitter.split(classes, classes, groups)]
        if all(len(np.unique(np.delete(classes, held))) == len(np.unique(classes)) for held in folds):
            return folds
    return []


def number_folds(count: int, seed: int, groups: np.ndarray | None = None, most: int = FOLDS) -> list[np.ndarray]:
    """Index sets of held-out bags where labels are numbers; none where there is a single bag or group."""
    folds = min(most, count if groups is None else len(np.unique(groups)))
    if folds < 2:
        return []
    splitter = (KFold if groups is None else GroupKFold)(folds, shuffle=True, random_state=seed)
    return [held for _, held in splitter.split(np.zeros(count), groups=groups)]


def weights_without_folds(weights: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """(folds + 1, bags): the weights with each fold's set to zero in turn, and as they are in the last row."""
    rows = np.tile(weights, (len(folds) + 1, 1))
    for row, held in zip(rows, folds):
        row[held] = 0.0
    return rows


def checked_groups(groups: Any, count: int) -> np.ndarray | None:
    """The groups as numbers, one per bag; None also where every bag is a group by itself."""
    if groups is None:
        return None
    import pandas as pd

    if not hasattr(groups, "__len__"):
        raise ValueError(f"groups must hold one group per bag, got {groups!r}")
    names = np.empty(len(groups), dtype=object)
    names[:] = list(groups)
    if names.shape != (count,):
        raise ValueError(f"groups must hold one group per bag: there are {count} bags and {len(names)} groups")
    try:
        codes, distinct = pd.factorize(names)
    except TypeError:
        raise ValueError("groups must be text or numbers") from None
    if np.any(codes < 0):
        raise ValueError(f"groups must hold a group for every bag, bag {int(np.argmin(codes))} has none")
    return None if len(distinct) == count else codes
