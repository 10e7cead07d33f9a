"""How bags are dealt out to the inner folds: each class evenly, bags of one group (a patient, say) always together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

FOLDS = 5
# Which bags come to lie in the same fold decides a good deal where bags are few: up to this many are dealt out twice, and
# held-out losses are averaged. On draws of 40 to 80 bags (docs/learners.md) AUCs are .003 to .005 higher with it, and log
# losses no worse; a third round gains nothing more.
FEW_BAGS, ROUNDS = 100, 2
# More tokens than this are dealt out once however few their bags are: the heads' time doubles with the rounds, and 50 bags of
# 2000 tokens took 22 s instead of 12.
FEW_TOKENS = 20_000


def stratified_folds(
    signs: np.ndarray, rng: np.random.Generator, folds: int = FOLDS, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """Index sets of held-out bags, each class dealt out evenly.

    Parameters
    ----------
    signs : ndarray
        Labels of the bags, -1 or +1.
    rng : numpy.random.Generator
        Deals them out.
    folds : int
        How many sets, at most: as many as the smaller class has bags (or groups).
    groups : ndarray of int, optional
        Bags of the same group are never separated.

    Returns
    -------
    list of ndarray
        Empty where a class has fewer than two bags (or groups), so that nothing can be held out.
    """
    if groups is not None:
        return _grouped_folds(signs, rng, folds, groups)
    classes = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
    folds = min(folds, *(len(own) for own in classes))
    if folds < 2:
        return []
    fold_of = np.empty(len(signs), dtype=int)
    for shift, own in enumerate(classes):
        # The second class is dealt from the other end, so that fold sizes stay even.
        dealt = np.arange(len(own)) % folds
        fold_of[rng.permutation(own)] = dealt if shift == 0 else folds - 1 - dealt
    return [np.flatnonzero(fold_of == k) for k in range(folds)]


def fold_rounds(
    signs: np.ndarray, rng: np.random.Generator, groups: np.ndarray | None = None, tokens: int = 0
) -> list[list[np.ndarray]]:
    """`stratified_folds`, several times where bags and tokens are few: every round holds every bag out once.

    Parameters
    ----------
    signs : ndarray
        Labels of the bags, -1 or +1.
    rng : numpy.random.Generator
        Deals them out.
    groups : ndarray of int, optional
        Bags of the same group are never separated.
    tokens : int
        How many tokens the bags have in all.

    Returns
    -------
    list of list of ndarray
        The folds of each round; empty where nothing can be held out.
    """
    count = ROUNDS if len(signs) <= FEW_BAGS and tokens <= FEW_TOKENS else 1
    rounds = [stratified_folds(signs, rng, groups=groups) for _ in range(count)]
    return [folds for folds in rounds if folds]


def _grouped_folds(signs: np.ndarray, rng: np.random.Generator, folds: int, groups: np.ndarray) -> list[np.ndarray]:
    names, code = np.unique(groups, return_inverse=True)
    counts = np.stack([np.bincount(code[signs * side > 0], minlength=len(names)) for side in (1.0, -1.0)])
    folds = min(folds, *(int(np.sum(own > 0)) for own in counts))
    shuffled = rng.permutation(len(names))
    # Large groups first, each to the fold that has least of the class it holds most of for its size: the rest evens out.
    rarer = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    order = shuffled[np.argsort(-rarer.max(axis=0)[shuffled], kind="stable")]
    for number in range(folds, 1, -1):
        filled, fold_of_group = np.zeros((2, number)), np.empty(len(names), dtype=int)
        for group in order:
            own = rarer[:, group]
            # Leximin: least of the class that the group is rich in, then least in all.
            rich = int(np.argmax(own))
            fold = min(range(number), key=lambda k: (filled[rich, k], filled[:, k].sum(), k))
            filled[:, fold] += own
            fold_of_group[group] = fold
        if np.all(filled.max(axis=1) < 1.0 - 1e-9):  # without any one fold, both classes are left
            fold_of = fold_of_group[code]
            return [np.flatnonzero(fold_of == k) for k in range(number) if np.any(fold_of == k)]
    return []


def even_folds(
    targets: np.ndarray, rng: np.random.Generator, folds: int = FOLDS, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """Index sets of held-out bags for real-valued targets: neighbours in the order of the targets go to different folds.

    Parameters
    ----------
    targets : ndarray
        Real labels of the bags.
    rng : numpy.random.Generator
        Deals them out.
    folds : int
        How many sets, at most: as many as there are bags (or groups).
    groups : ndarray of int, optional
        Bags of the same group are never separated; a group counts with its mean target.

    Returns
    -------
    list of ndarray
        Empty where there are fewer than two bags (or groups).
    """
    names, code = (np.arange(len(targets)),) * 2 if groups is None else np.unique(groups, return_inverse=True)
    means = np.bincount(code, targets) / np.bincount(code)
    folds = min(folds, len(names))
    if folds < 2:
        return []
    order = np.lexsort((rng.random(len(names)), means))
    fold_of = np.empty(len(names), dtype=int)
    for first in range(0, len(order), folds):
        some = order[first : first + folds]
        fold_of[some] = rng.permutation(folds)[: len(some)]
    return [held for k in range(folds) if len(held := np.flatnonzero(fold_of[code] == k))]


def held_out_scores(
    folds: list[np.ndarray], count: int, score: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Scores of all bags by fits that have not seen them.

    Parameters
    ----------
    folds : list of ndarray
        The bags to hold out in turn.
    count : int
        The number of bags.
    score : callable
        (indices of the bags to fit on, indices of those held out) -> scores of those held out.

    Returns
    -------
    ndarray
        One score per bag; NaN for bags of no fold.
    """
    scores = np.full(count, np.nan)
    for held in folds:
        scores[held] = score(np.setdiff1d(np.arange(count), held), held)
    return scores


def weights_without_folds(weights: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """(folds + 1, bags): the weights with each fold's set to zero in turn, and as they are in the last row."""
    rows = np.tile(weights, (len(folds) + 1, 1))
    for row, held in zip(rows, folds):
        row[held] = 0.0
    return rows


def checked_groups(groups: Any, count: int) -> np.ndarray | None:
    """The groups as numbers, one per bag, or None.

    Parameters
    ----------
    groups : array-like or None
        One name or number per bag.
    count : int
        The number of bags.

    Returns
    -------
    ndarray of int or None
        Numbers that are equal where the groups are.
    """
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
        codes, _ = pd.factorize(names)
    except TypeError:
        raise ValueError("groups must be text or numbers") from None
    if np.any(codes < 0):
        raise ValueError(f"bag {int(np.argmin(codes))} has no group")
    return codes
