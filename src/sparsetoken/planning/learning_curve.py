"""`measure_curve`: a learner's learning curve on the bags at hand, measured on parts of them.

Every bag is predicted by learners that have not seen it. The bags are split into folds; for each fold, one random order of
the other bags is drawn and the learner is trained on its first bags, as many as each size, so that the training sets of one
fold are nested and all sizes are tested on the same bags: they differ in the number of training bags only.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import real_number
from .criterion import Criterion

FOLDS = 10
FEWEST_FOLDS = 3  # folds after which a measurement may end early
PARTS = (0.21, 0.36, 0.6, 1.0)  # training sizes, as parts of the largest: even on a logarithmic scale
LEAST_TRAINING, LEAST_OF_CLASS = 8, 3  # bags, and bags of either class, in the smallest training set
BUDGET = 60.0  # CPU seconds that a measurement may take
Report = Callable[[int, int, float], None]


@dataclass(frozen=True)
class MeasuredCurve:
    """A learner's loss at several numbers of training bags, each bag predicted by learners that have not seen it.

    Attributes
    ----------
    criterion : Criterion
        What was measured, as a loss (`Criterion.shown` turns it into the criterion's value).
    sizes : tuple of int
        Training bags, rising.
    losses : tuple of float
        Of the criterion, at each size.
    correlation : tuple of tuple of float
        Of the losses' sampling errors between sizes.
    tested : float
        Number of independent bags that a loss rests on: those predicted, or those of the class that the criterion counts.
    chance : float
        Loss of chance.
    n : int
        Bags there are.
    fits : int
        Learners trained.
    seconds : float
        CPU time of all fits.
    """

    criterion: Criterion
    sizes: tuple[int, ...]
    losses: tuple[float, ...]
    correlation: tuple[tuple[float, ...], ...]
    tested: float
    chance: float
    n: int
    fits: int
    seconds: float

    @property
    def standard_errors(self) -> tuple[float, ...]:
        """Standard errors of the losses, from the number of bags tested; one wrong and one right bag are added."""
        m = self.tested
        shares = [(loss * m + 1.0) / (m + 2.0) for loss in self.losses]
        return tuple(float(np.sqrt(p * (1 - p) / m)) for p in shares)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, losses as values of the criterion."""
        rows = zip(self.sizes, self.losses, self.standard_errors)
        return {
            "criterion": str(self.criterion),
            "points": [{"n": n, "value": self.criterion.shown(v), "standard_error": e} for n, v, e in rows],
            "bags": self.n,
            "fits": self.fits,
            "cpu_seconds": self.seconds,
        }


def held_out_loss(scores: np.ndarray, positive: np.ndarray, criterion: Criterion) -> float:
    """The criterion's loss of held-out log odds.

    Log odds of a calibrated learner have known best thresholds: 0 for the error, that of the class shares for the balanced
    error. Only sensitivity has a threshold taken from the scores themselves.
    """
    ours, others = scores[positive], scores[~positive]
    if criterion.larger_is_better:
        return criterion.of_scores(ours[None], others[None], 0.5).loss
    if criterion.kind == "balanced_error":
        cut = np.log(len(ours) / len(others))
        return float(np.mean(ours <= cut) + np.mean(others > cut)) / 2
    return float(np.mean((scores > 0) != positive))


def measure_curve(
    bags: Any,
    positive: np.ndarray,
    make: Callable[[], Any],
    criterion: Criterion | str = "error",
    *,
    budget: float = BUDGET,
    seed: int = 0,
    report: Report | None = None,
) -> MeasuredCurve:
    """Measure a learner's learning curve on labelled bags.

    Parameters
    ----------
    bags : Bags
        The bags.
    positive : ndarray of bool
        Which of them are positive.
    make : callable
        Gives a fresh learner with `fit` and `decision_function`.
    criterion : Criterion or str
        What is measured.
    budget : float
        CPU seconds that the fits should take at most. Where they would take longer there are fewer folds, then smaller
        training sets, and at least three folds in any case.
    seed : int
        Of folds and orders.
    report : callable, optional
        Called after every fit with the fits done, their number in all, and the CPU seconds that the rest should take.

    Raises
    ------
    ValueError
        If there are too few bags of either class to learn from some and test on others.
    """
    judged, budget = Criterion.of(criterion), real_number("budget", budget, 0.0, open_low=True)
    begun = time.process_time()
    scores, sizes, fits = _measured_scores(bags, np.asarray(positive, dtype=bool), make, budget, seed, report)
    seconds, tested_bags = time.process_time() - begun, np.isfinite(scores[0])
    truth, scores = positive[tested_bags], scores[:, tested_bags]
    tested = len(truth)
    if judged.kind == "sensitivity":
        tested = int(truth.sum())
    elif not judged.weighs_prevalence:  # both classes count alike, so the smaller one decides
        tested = min(tested, 2 * int(min(truth.sum(), (~truth).sum())))
    return MeasuredCurve(
        criterion=judged,
        sizes=tuple(sizes),
        losses=tuple(held_out_loss(row, truth, judged) for row in scores),
        correlation=_correlation(scores, truth, judged, seed),
        tested=float(tested),
        chance=judged.chance(float(truth.mean())),
        n=len(positive),
        fits=fits,
        seconds=seconds,
    )


def two_classes(bags: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two labels of the bags in order, and which bags have the second."""
    from ..estimators.labels import checked_classes

    classes, codes = checked_classes(y, len(bags))
    if len(classes) != 2:
        raise ValueError(f"the labels must be of two classes, they are of {len(classes)}")
    return classes, codes == 1


def _measured_scores(
    bags: Any, positive: np.ndarray, make: Callable[[], Any], budget: float, seed: int, report: Report | None
) -> tuple[np.ndarray, list[int], int]:
    """Held-out log odds, (sizes, bags) with NaN for bags that were not predicted, the sizes, and the number of fits."""
    from sklearn.model_selection import StratifiedKFold

    n, rng = len(positive), np.random.default_rng([seed, len(positive)])
    folds, sizes = _design(bags, positive, make, budget, rng)
    split = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31))).split(np.zeros(n), positive)
    scores = np.full((len(sizes), n), np.nan)
    begun, done, trained_on, in_all = time.process_time(), 0, 0, folds * sum(sizes)
    for fold, (rest, held) in enumerate(split, start=1):
        order = nested_order(positive, rest, rng)
        held = nested_order(positive, held, rng)[: 2000 // folds]  # enough for a standard error below 0.011
        for row, size in zip(scores, sizes):
            row[held] = _fitted(make, bags, positive, order[:size]).decision_function(bags[held])
            done, trained_on = done + 1, trained_on + size
            if report is not None:  # fits take about as long as they have bags
                left = (time.process_time() - begun) * (in_all / trained_on - 1)
                report(done, folds * len(sizes), left)
        spent = time.process_time() - begun
        if FEWEST_FOLDS <= fold < folds and spent * (fold + 1) / fold > 1.5 * budget:
            break
    return scores, sizes, done


def _design(
    bags: Any, positive: np.ndarray, make: Callable[[], Any], budget: float, rng: np.random.Generator
) -> tuple[int, list[int]]:
    """Number of folds and training sizes that the budget allows, judged by one small fit."""
    n, rare = len(positive), int(min(positive.sum(), (~positive).sum()))
    if rare < LEAST_OF_CLASS + 1 or n < LEAST_TRAINING + FEWEST_FOLDS:
        raise ValueError(
            f"a learning curve needs at least {LEAST_OF_CLASS + 1} bags of each class and "
            f"{LEAST_TRAINING + FEWEST_FOLDS} in all, got {rare} and {n}"
        )
    folds = min(FOLDS, rare)
    probe = max(LEAST_TRAINING, round(PARTS[0] * n * (1 - 1 / folds)))
    begun = time.process_time()
    _fitted(make, bags, positive, nested_order(positive, np.arange(n), rng)[:probe])
    per_bag = (time.process_time() - begun) / probe  # an upper bound: the first fit also loads what the learner needs

    def seconds(folds: int, largest: float) -> float:
        return folds * per_bag * largest * sum(PARTS)

    if seconds(folds, n * (1 - 1 / folds)) > budget:
        folds = min(folds, FOLDS // 2)
    largest = int(np.floor(n * (1 - 1 / folds)))
    if seconds(folds, largest) > budget:
        largest = max(min(largest, 10 * LEAST_TRAINING), round(largest * budget / seconds(folds, largest)))
    least = max(LEAST_TRAINING, int(np.ceil(LEAST_OF_CLASS * n / rare)))
    return folds, sorted({size for size in (round(part * largest) for part in PARTS) if size >= least} | {largest})


def _fitted(make: Callable[[], Any], bags: Any, positive: np.ndarray, rows: np.ndarray) -> Any:
    with warnings.catch_warnings(action="ignore"):  # learners on small parts warn of weak fits, which is expected here
        return make().fit(bags[rows], positive[rows])


def nested_order(positive: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows in a random order in which the first bags, however many, have the classes in about the same shares."""
    keys = np.empty(len(rows))
    for side in (positive[rows[0]], not positive[rows[0]]):  # by appearance: names of classes decide nothing
        where = np.flatnonzero(positive[rows] == side)
        keys[rng.permutation(where)] = (np.arange(len(where)) + rng.uniform(size=len(where))) / max(len(where), 1)
    return rows[np.argsort(keys, kind="stable")]


def _correlation(
    scores: np.ndarray, positive: np.ndarray, criterion: Criterion, seed: int
) -> tuple[tuple[float, ...], ...]:
    """Correlation between sizes of the losses' sampling errors, from resampled bags, shrunk towards independence."""
    if len(scores) == 1:
        return ((1.0,),)
    rng = np.random.default_rng([seed, 1])
    drawn = []
    for _ in range(400):
        rows = rng.integers(len(positive), size=len(positive))
        if positive[rows].any() and not positive[rows].all():
            drawn.append([held_out_loss(row[rows], positive[rows], criterion) for row in scores])
    spread = np.cov(np.array(drawn).T)
    scale = np.sqrt(np.maximum(np.diag(spread), 1e-12))
    shrunk = 0.9 * spread / np.outer(scale, scale)
    np.fill_diagonal(shrunk, 1.0)
    return tuple(tuple(float(v) for v in row) for row in shrunk)
