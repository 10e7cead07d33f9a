"""Repeated stratified cross-validation of classifiers and simple baselines on one's own bags."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.replicates import standard_error
from ..bags.bags import Bags
from ..bags.forms import shown
from .calibration import area_under_curve
from .cross_validation import fits_by_fold


@dataclass(frozen=True)
class Evaluation:
    """One classifier's cross-validation.

    Attributes
    ----------
    learner : str
        Its name.
    accuracy, auc, log_loss : float
        Means over the repetitions. With more than two classes the AUC is that of each class against the others, averaged
        over the classes. The log loss is -log of the probability given to the true class, per bag.
    accuracy_error, auc_error, log_loss_error : float
        Standard errors over bags: how much another sample of as many bags would change the mean.
    token_auc : float
        AUC of held-out token scores against token labels, NaN where there are none.
    fit_seconds : float
        Mean CPU time of one fit.
    scores : ndarray of shape (repetitions, bags) or (repetitions, bags, classes)
        Held-out decision values; with more than two classes, log probabilities.
    """

    learner: str
    accuracy: float
    accuracy_error: float
    auc: float
    auc_error: float
    log_loss: float
    log_loss_error: float
    token_auc: float
    fit_seconds: float
    scores: np.ndarray = field(repr=False)


def stratified_splits(
    labels: np.ndarray, folds: int, repeats: int, seed: int, groups: np.ndarray | None = None
) -> list[np.ndarray]:
    """For each repetition the fold of every bag, each class dealt out evenly.

    Parameters
    ----------
    labels : ndarray
        One label per bag.
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
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    classes, counts = np.unique(labels, return_counts=True)
    if len(counts) < 2:
        raise ValueError(f"the bags must have at least two classes, they have {len(counts)}")
    what = "bags"
    if groups is not None:
        counts = np.array([len(np.unique(groups[labels == label])) for label in classes])
        what = "groups"
    if counts.min() < 2:
        rare = classes[int(np.argmin(counts))]
        raise ValueError(
            f"class {shown(rare)} has one bag only, so that it cannot be held out"
            if groups is None
            else f"all bags of class {shown(rare)} are in one group, so that it cannot be held out"
        )
    if folds < 2 or folds > counts.min():
        raise ValueError(f"folds must lie between 2 and the smallest class's {counts.min()} {what}, got {folds}")
    splits = []
    for repeat in range(repeats):
        fold = np.empty(len(labels), dtype=int)
        splitter = (StratifiedKFold if groups is None else StratifiedGroupKFold)(
            folds, shuffle=True, random_state=seed + repeat
        )
        for k, (_, held) in enumerate(splitter.split(np.zeros(len(labels)), labels, groups)):
            fold[held] = k
        for k in range(folds if groups is not None else 0):
            if len(np.unique(labels[fold != k])) < len(classes):
                raise ValueError(
                    f"the groups are too uneven for {folds} folds: a class would have no bags to learn from"
                )
        splits.append(fold)
    return splits


def evaluate(
    bags: Bags,
    labels: np.ndarray,
    makers: dict[str, Callable[[], Any]],
    splits: Sequence[np.ndarray],
    token_labels: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Iterator[Evaluation | None]:
    """Cross-validate each learner.

    Parameters
    ----------
    bags : Bags
        All bags.
    labels : ndarray
        One label per bag.
    makers : dict
        Name of each learner -> how to make a fresh one.
    splits : sequence of ndarray
        For each repetition the fold of every bag.
    token_labels : ndarray, optional
        One label per token; the greatest one marks the tokens to be found (with two classes of bags).
    groups : ndarray, optional
        One group per bag, for the learners' inner splits.

    Yields
    ------
    Evaluation or None
        None after every fit (for progress), and the result after each learner.
    """
    classes = np.unique(labels)
    several = len(classes) > 2
    codes = np.searchsorted(classes, labels)
    for name, make in makers.items():
        scores = np.full((len(splits), len(bags), *([len(classes)] if several else [])), np.nan)
        token_scores = np.full((len(splits), bags.n_tokens), np.nan)
        seconds: list[float] = []
        for repeat, held, model, took in fits_by_fold(bags, labels, make, splits, groups):
            seconds.append(took)
            held_out = bags[held]
            scores[repeat, held] = model.predict_log_proba(held_out) if several else model.decision_function(held_out)
            if token_labels is not None and not several and hasattr(model, "token_scores"):
                rows = np.isin(bags.bag_of_token, held)
                token_scores[repeat, rows] = np.concatenate(model.token_scores(held_out))
            yield None
        if several:
            yield _summary_of_several(name, scores, codes, float(np.mean(seconds)))
            continue
        yield _summary(name, scores, codes == 1, token_scores, token_labels, float(np.mean(seconds)))


def _summary(
    name: str,
    scores: np.ndarray,
    positive: np.ndarray,
    token_scores: np.ndarray,
    token_labels: np.ndarray | None,
    seconds: float,
) -> Evaluation:
    right = np.mean((scores > 0) == positive, axis=0)
    losses = np.mean(np.logaddexp(0.0, np.where(positive, -scores, scores)), axis=0)
    areas = [area_under_curve(s, positive) for s in scores]
    area = float(np.mean(areas))
    token_area = float("nan")
    if token_labels is not None and np.all(np.isfinite(token_scores)):
        witness = np.asarray(token_labels) == np.max(token_labels)
        token_area = float(np.mean([area_under_curve(s, witness) for s in token_scores]))
    return Evaluation(
        name,
        float(right.mean()),
        standard_error(right),
        area,
        _area_error(area, int(positive.sum()), int((~positive).sum())),
        float(losses.mean()),
        standard_error(losses),
        token_area,
        seconds,
        scores,
    )


def _summary_of_several(name: str, scores: np.ndarray, codes: np.ndarray, seconds: float) -> Evaluation:
    """As `_summary`, from log probabilities of more than two classes."""
    right = np.mean(np.argmax(scores, axis=2) == codes, axis=0)
    losses = -np.mean(scores[:, np.arange(len(codes)), codes], axis=0)
    areas, errors = [], []
    for k in range(scores.shape[2]):
        own = codes == k
        areas.append(float(np.mean([area_under_curve(s[:, k], own) for s in scores])))
        errors.append(_area_error(areas[-1], int(own.sum()), int((~own).sum())))
    return Evaluation(
        name,
        float(right.mean()),
        standard_error(right),
        float(np.mean(areas)),
        float(np.mean(errors)),  # the classes' areas come from the same bags: no square root of their number is gained
        float(losses.mean()),
        standard_error(losses),
        float("nan"),
        seconds,
        scores,
    )


def _area_error(area: float, positive: int, negative: int) -> float:
    """Standard error of an AUC over bags (Hanley and McNeil's formula)."""
    q1, q2 = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    spread = area * (1 - area) + (positive - 1) * (q1 - area**2) + (negative - 1) * (q2 - area**2)
    return float(np.sqrt(max(spread, 0.0) / (positive * negative)))
