"""Repeated stratified cross-validation of the learners and of simple baselines, on one's own bags."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bags.bags import Bags
from ..bags.segments import bag_mean
from .base import TrainingWarning


@dataclass(frozen=True)
class Evaluation:
    """One learner's cross-validation.

    accuracy, auc   means over the repetitions
    *_error         standard errors over bags: how much another sample of as many bags would change the mean
    scores          held-out decision values, (repetitions, bags)
    token_auc       of held-out token scores against token labels, NaN where there are none
    fit_seconds     mean CPU time of one fit (on a busy machine wall time says little)
    """

    learner: str
    accuracy: float
    accuracy_error: float
    auc: float
    auc_error: float
    token_auc: float
    fit_seconds: float
    scores: np.ndarray


def _pooling_baseline(pool: Callable[[Bags], np.ndarray]) -> Callable[[], Any]:
    def make():
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        from ..bags.scaler import BagScaler

        return make_pipeline(BagScaler(), FunctionTransformer(pool), LogisticRegression(C=1.0, max_iter=2000))

    return make


def _mean(bags: Bags) -> np.ndarray:
    return bag_mean(bags.tokens, bags.starts)


def _maximum(bags: Bags) -> np.ndarray:
    return np.maximum.reduceat(bags.tokens, bags.starts, axis=0)


def _both(bags: Bags) -> np.ndarray:
    return np.hstack([_mean(bags), _maximum(bags)])


def learners() -> dict[str, Callable[[], Any]]:
    """Names of all learners and baselines, and how to make a fresh one in its default configuration."""
    from .. import estimators as models

    return {
        "attention": models.AttentionClassifier,
        "attention-staged": lambda: models.AttentionClassifier(training="staged"),
        "message-passing": models.MessagePassingClassifier,
        "elementwise": models.ElementwiseAttentionClassifier,
        "pooled": models.PooledClassifier,
        "vectorized": models.VectorizedClassifier,
        "mean-pool LR": _pooling_baseline(_mean),
        "max-pool LR": _pooling_baseline(_maximum),
        "mean+max LR": _pooling_baseline(_both),
    }


def chosen_learners(names: Sequence[str], bags: Bags) -> dict[str, Callable[[], Any]]:
    """The named learners, or all that fit these bags (the vectorized one needs bags of equal length)."""
    known = learners()
    for name in names:
        if name not in known:
            raise ValueError(f"there is no learner {name!r}; there are {', '.join(known)}")
    if names:
        return {name: known[name] for name in names}
    lengths = bags.lengths
    return {name: make for name, make in known.items() if name != "vectorized" or lengths.min() == lengths.max()}


def stratified_splits(labels: np.ndarray, folds: int, repeats: int, seed: int) -> list[np.ndarray]:
    """For each repetition the fold of every bag."""
    from sklearn.model_selection import StratifiedKFold

    _, counts = np.unique(labels, return_counts=True)
    if len(counts) != 2:
        raise ValueError(f"the bags must have two classes, they have {len(counts)}")
    if folds < 2 or folds > counts.min():
        raise ValueError(f"folds must lie between 2 and the smaller class's {counts.min()} bags, got {folds}")
    splits = []
    for repeat in range(repeats):
        fold = np.empty(len(labels), dtype=int)
        shuffled = StratifiedKFold(folds, shuffle=True, random_state=seed + repeat).split(np.zeros(len(labels)), labels)
        for k, (_, held) in enumerate(shuffled):
            fold[held] = k
        splits.append(fold)
    return splits


def evaluate(
    bags: Bags,
    labels: np.ndarray,
    makers: dict[str, Callable[[], Any]],
    splits: Sequence[np.ndarray],
    token_labels: np.ndarray | None = None,
) -> Iterator[Evaluation | None]:
    """Cross-validate each learner; yields None after every fit (for progress) and the result after each learner."""
    classes = np.unique(labels)
    positive = labels == classes[1]
    for name, make in makers.items():
        scores = np.full((len(splits), len(bags)), np.nan)
        token_scores = np.full((len(splits), bags.n_tokens), np.nan)
        seconds: list[float] = []
        for repeat, fold in enumerate(splits):
            for k in np.unique(fold):
                train, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TrainingWarning)
                    begun = time.process_time()
                    model = make().fit(bags[train], labels[train])
                    seconds.append(time.process_time() - begun)
                strangers = bags[held]
                scores[repeat, held] = model.decision_function(strangers)
                if token_labels is not None and hasattr(model, "token_scores"):
                    rows = np.isin(bags.bag_of_token, held)
                    token_scores[repeat, rows] = np.concatenate(model.token_scores(strangers))
                yield None
        yield _summary(name, scores, positive, token_scores, token_labels, float(np.mean(seconds)))


def _summary(
    name: str,
    scores: np.ndarray,
    positive: np.ndarray,
    token_scores: np.ndarray,
    token_labels: np.ndarray | None,
    seconds: float,
) -> Evaluation:
    right = np.mean((scores > 0) == positive, axis=0)
    areas = [area_under_curve(s, positive) for s in scores]
    area = float(np.mean(areas))
    token_area = float("nan")
    if token_labels is not None and np.all(np.isfinite(token_scores)):
        witness = np.asarray(token_labels) == np.max(token_labels)
        token_area = float(np.mean([area_under_curve(s, witness) for s in token_scores]))
    return Evaluation(
        name,
        float(right.mean()),
        float(right.std(ddof=1) / np.sqrt(len(right))),
        area,
        _area_error(area, int(positive.sum()), int((~positive).sum())),
        token_area,
        seconds,
        scores,
    )


def area_under_curve(scores: np.ndarray, positive: np.ndarray) -> float:
    """P(a positive's score exceeds a negative's), ties counted half."""
    from scipy.stats import rankdata

    ranks, count = rankdata(scores), int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * int((~positive).sum())))


def _area_error(area: float, positive: int, negative: int) -> float:
    """Standard error of an AUC over bags (Hanley and McNeil's formula)."""
    q1, q2 = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    spread = area * (1 - area) + (positive - 1) * (q1 - area**2) + (negative - 1) * (q2 - area**2)
    return float(np.sqrt(max(spread, 0.0) / (positive * negative)))
