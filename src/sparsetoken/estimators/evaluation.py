"""Repeated cross-validation of learners and simple baselines on a user's bags, for classification and regression."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit

from .._core.averages import standard_error
from ..bags.bags import Bags
from ..bags.input_forms import shown
from ..plotting.show import Shown, new_figure
from ..plotting.style import MEASURED, REFERENCE
from .base import BagLearner, TrainingWarning
from .calibration import area_under_curve
from .labels import checked_numbers, class_counts, class_folds, number_folds

Split = list[np.ndarray]  # the bags that are held out in each fold of one repetition


def auc_interval(auc: float, error: float, smallest: int) -> tuple[float, float]:
    """95 % interval of an AUC with this standard error, symmetric in its logit so that it stays within (0, 1).

    `smallest` is the number of bags of the rarer class.
    """
    if not 0.0 < auc < 1.0:  # all pairs right (or wrong): the rule of three for the smaller class
        reach = 3.0 / smallest
        return (max(0.0, 1.0 - reach), 1.0) if auc == 1.0 else (0.0, min(1.0, reach))
    reach = 1.96 * error / (auc * (1.0 - auc))
    return float(expit(logit(auc) - reach)), float(expit(logit(auc) + reach))


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """One classifier's cross-validation.

    `scores` are held-out log odds, (repetitions, bags), or log probabilities, (repetitions, bags, classes); `codes` the bags'
    classes by their places.
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
    codes: np.ndarray = field(repr=False)

    @property
    def auc_interval(self) -> tuple[float, float]:
        """95 % interval of the AUC."""
        return auc_interval(self.auc, self.auc_error, np.unique(self.codes, return_counts=True)[1].min())

    def __repr__(self) -> str:
        low, high = self.auc_interval
        return (
            f"Evaluation({self.learner}: accuracy {self.accuracy:.3f} ± {self.accuracy_error:.3f}, "
            f"AUC {self.auc:.3f} [{low:.3f}, {high:.3f}], log loss {self.log_loss:.3f} ± {self.log_loss_error:.3f})"
        )

    def frame(self) -> Any:
        """Thresholds on the probability of the second class, with sensitivity, specificity and accuracy on held-out bags."""
        import pandas as pd

        probability, positive = self._predictions()
        thresholds = np.linspace(0.05, 0.95, 19)
        called = probability[None, :] > thresholds[:, None]
        return pd.DataFrame(
            {
                "threshold": thresholds,
                "sensitivity": called[:, positive].mean(axis=1),
                "specificity": 1.0 - called[:, ~positive].mean(axis=1),
                "accuracy": (called == positive).mean(axis=1),
            }
        )

    def _predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """The probability of the second class for each bag and repetition, and whether the bag is of it."""
        if self.scores.ndim > 2:
            raise ValueError("thresholds and curves are those of two classes; this evaluation has more")
        return expit(self.scores).ravel(), np.tile(self.codes == 1, len(self.scores))

    def plot(self, ax: Any = None) -> Any:
        """ROC curve, calibration and the choice of a threshold, of two classes, on three axes (by default new ones)."""
        from sklearn.calibration import calibration_curve
        from sklearn.metrics import roc_curve

        probability, positive = self._predictions()
        axes = new_figure((11.0, 3.6)).subplots(1, 3) if ax is None else ax
        false, true, _ = roc_curve(positive, probability)
        low, high = self.auc_interval
        axes[0].plot(false, true, color=MEASURED, label=f"AUC {self.auc:.3f} [{low:.3f}, {high:.3f}]")
        axes[0].plot([0, 1], [0, 1], color=REFERENCE, linestyle=":")
        axes[0].set(xlabel="1 - specificity", ylabel="sensitivity", title=self.learner)
        axes[0].legend(frameon=False, loc="lower right")
        share, predicted = calibration_curve(positive, probability, n_bins=10)
        axes[1].plot(predicted, share, "o-", color=MEASURED)
        axes[1].plot([0, 1], [0, 1], color=REFERENCE, linestyle=":")
        axes[1].set(xlabel="predicted probability", ylabel="share of positive bags", title="calibration")
        table = self.frame()
        for name, style in (("sensitivity", "-"), ("specificity", "--"), ("accuracy", ":")):
            axes[2].plot(table["threshold"], table[name], style, color=MEASURED, label=name)
        axes[2].set(xlabel="threshold on the probability", title="choice of a threshold", ylim=(0, 1.02))
        axes[2].legend(frameon=False, loc="lower center")
        return axes


@dataclass(frozen=True)
class RegressionEvaluation:
    """One regressor's cross-validation."""

    learner: str
    r2: float
    r2_error: float
    rmse: float
    mae: float
    mae_error: float
    fit_seconds: float
    predictions: np.ndarray = field(repr=False)


def _held_out(
    bags: Bags,
    labels: np.ndarray,
    make: Callable[[], Any],
    splits: Sequence[Split],
    groups: np.ndarray | None,
    predict: Callable[[Any, int, np.ndarray], np.ndarray],
) -> Generator[None, None, tuple[np.ndarray, float]]:
    """A fresh learner without each fold of each repetition, and None after every fit; in the end what predict(model,
    repetition, held-out bags) gives for all bags, (repetitions, bags, ...), and the mean seconds of a fit."""
    rows, seconds = [], []
    for repeat, folds in enumerate(splits):
        parts = []
        for held in folds:
            train = np.delete(np.arange(len(bags)), held)
            model = make()
            inner = {"groups": groups[train]} if groups is not None and isinstance(model, BagLearner) else {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TrainingWarning)
                begun = time.process_time()
                model.fit(bags[train], labels[train], **inner)
                seconds.append(time.process_time() - begun)
            parts.append(predict(model, repeat, held))
            yield None
        rows.append(np.concatenate(parts)[np.argsort(np.concatenate(folds))])
    return np.stack(rows).astype(np.float64), float(np.mean(seconds))


def stratified_splits(
    labels: np.ndarray, folds: int, repeats: int, seed: int, groups: np.ndarray | None = None
) -> list[Split]:
    """The folds of each repetition, the classes at their shares."""
    counts = class_counts(labels, groups)
    if len(counts) < 2:
        raise ValueError(f"the bags must have at least two classes, they have {len(counts)}")
    if counts.min() < 2:
        rare = np.unique(labels)[int(np.argmin(counts))]
        raise ValueError(
            f"class {shown(rare)} has one bag only, so that it cannot be held out"
            if groups is None
            else f"all bags of class {shown(rare)} are in one group, so that it cannot be held out"
        )
    if folds < 2 or folds > counts.min():
        what = "bags" if groups is None else "groups"
        raise ValueError(f"folds must lie between 2 and the smallest class's {counts.min()} {what}, got {folds}")
    splits = []
    for repeat in range(repeats):
        held = class_folds(labels, seed + repeat, groups, folds)
        if len(held) < folds:
            raise ValueError(f"the groups are too uneven for {folds} folds: a class would have no bags to learn from")
        splits.append(held)
    return splits


def regression_splits(count: int, folds: int, repeats: int, seed: int, groups: np.ndarray | None = None) -> list[Split]:
    """The folds of each repetition for so many bags."""
    most, what = (count, "bags") if groups is None else (len(np.unique(groups)), "groups")
    if not 2 <= folds <= most:
        raise ValueError(f"folds must lie between 2 and the {most} {what}, got {folds}")
    return [number_folds(count, seed + repeat, groups, folds) for repeat in range(repeats)]


def evaluate(
    bags: Bags,
    labels: np.ndarray,
    makers: dict[str, Callable[[], Any]],
    splits: Sequence[Split],
    token_labels: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Iterator[Evaluation | None]:
    """Cross-validate each classifier: None after every fit, the result after the last one."""
    classes, codes = np.unique(labels, return_inverse=True)
    several = len(classes) > 2
    token_scores = np.empty((len(splits), bags.n_tokens))

    def predict(model: Any, repeat: int, held: np.ndarray) -> np.ndarray:
        held_out = bags[held]
        if token_labels is not None and not several and hasattr(model, "token_scores"):
            token_scores[repeat, np.isin(bags.bag_of_token, held)] = np.concatenate(model.token_scores(held_out))
        if not several and hasattr(model, "decision_function"):
            return model.decision_function(held_out)
        log = model.predict_log_proba(held_out)
        return log if several else log[:, 1] - log[:, 0]

    for name, make in makers.items():
        token_scores[:] = np.nan
        scores, seconds = yield from _held_out(bags, labels, make, splits, groups, predict)
        token_area = float("nan")
        if token_labels is not None and np.all(np.isfinite(token_scores)):
            witness = np.asarray(token_labels) == np.max(token_labels)
            token_area = float(np.mean([area_under_curve(s, witness) for s in token_scores]))
        yield _summary(name, scores, codes, token_area, seconds)


def _summary(name: str, scores: np.ndarray, codes: np.ndarray, token_area: float, seconds: float) -> Evaluation:
    """Measures from held-out log odds of two classes, or log probabilities of several."""
    if scores.ndim == 2:
        positive, columns = codes == 1, {1: scores}
        right = np.mean((scores > 0) == positive, axis=0)
        losses = np.mean(np.logaddexp(0.0, np.where(positive, -scores, scores)), axis=0)
    else:
        columns = {k: scores[:, :, k] for k in range(scores.shape[2])}
        right = np.mean(np.argmax(scores, axis=2) == codes, axis=0)
        losses = -np.mean(scores[:, np.arange(len(codes)), codes], axis=0)
    areas, errors = [], []
    for k, column in columns.items():
        inside = codes == k
        areas.append(float(np.mean([area_under_curve(row, inside) for row in column])))
        errors.append(area_error(areas[-1], int(inside.sum()), int((~inside).sum())))
    accuracy, loss = ((float(values.mean()), standard_error(values)) for values in (right, losses))
    # The classes' AUCs come from the same bags: averaging does not reduce the error.
    area = float(np.mean(areas)), float(np.mean(errors))
    return Evaluation(name, *accuracy, *area, *loss, token_area, seconds, scores, codes)


def evaluate_regression(
    bags: Bags,
    labels: np.ndarray,
    makers: dict[str, Callable[[], Any]],
    splits: Sequence[Split],
    groups: np.ndarray | None = None,
) -> Iterator[RegressionEvaluation | None]:
    """Cross-validate each regressor: None after every fit, the result after the last one."""
    targets = checked_numbers(labels, len(bags))
    variance = float(np.var(targets))
    if variance == 0.0:
        raise ValueError("all labels are equal: there is nothing to predict")
    for name, make in makers.items():
        predictions, seconds = yield from _held_out(
            bags, targets, make, splits, groups, lambda model, _, held: model.predict(bags[held])
        )
        squares = np.mean((predictions - targets) ** 2, axis=0)
        sizes = np.mean(np.abs(predictions - targets), axis=0)
        r2 = float(1.0 - squares.mean() / variance), standard_error(squares) / variance
        mae = float(sizes.mean()), standard_error(sizes)
        yield RegressionEvaluation(name, *r2, float(np.sqrt(squares.mean())), *mae, seconds, predictions)


def area_error(area: float, one: int, other: int) -> float:
    """Standard error of an AUC: Hanley and McNeil's formula, averaged over which of the two classes is positive."""
    q1, q2 = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    spread = area * (1 - area) + (one + other - 2) * ((q1 + q2) / 2 - area**2)
    return float(np.sqrt(max(spread, 0.0) / (one * other)))
