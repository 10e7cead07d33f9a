"""More than two classes: one learner for each class against the others; probabilities are calibrated jointly.

log P_k = slope log sigmoid(u_k) + offset_k - log(sum over classes),     u_k the log odds of class k against the others
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..bags.input_forms import shown
from .calibration import OFFSET, SLOPE, design_effect, trust


@dataclass(frozen=True)
class JointCalibration:
    """Probabilities of several classes from the log odds u_k of each against the others."""

    slope: float
    offsets: np.ndarray
    loss: float = float("nan")

    def __call__(self, odds: np.ndarray) -> np.ndarray:
        """log P, (bags, classes)."""
        return log_softmax(self.slope * log_expit(odds) + self.offsets, axis=1)


@dataclass(frozen=True)
class SeveralClasses:
    """The learners of each class against the others, and their joint calibration."""

    learners: list[Any]
    calibration: JointCalibration

    def log_probabilities(self, bags: Any) -> np.ndarray:
        """(bags, classes)."""
        return self.calibration(np.stack([learner._odds(bags) for learner in self.learners], axis=1))

    def feature_makers(self) -> list[Any]:
        """The learners whose features `transform` gives."""
        return self.learners[:1] if self.learners[0]._same_features else self.learners

    def remarks(self, classes: np.ndarray) -> list[str]:
        """The remarks of each fit."""
        return [
            f"class {shown(label)} against the others: {remark}"
            for label, learner in zip(classes, self.learners)
            for remark in learner._remarks()
        ]


def fit_each_class(model: Any, bags: Any, codes: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> None:
    """Fit one copy of the model per class to "this class or another", then their probabilities together."""
    learners, held_out = [], []
    for k, label in enumerate(model.classes_.tolist()):
        learner = clone(model)
        if hasattr(learner, "class_weight"):
            learner.class_weight = None  # it is part of the weights already
        learner.classes_ = np.array(["the others", str(label)], dtype=object)
        learner.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            learner.feature_names_in_ = model.feature_names_in_
        scores = learner._fit_two(bags, np.where(codes == k, 1.0, -1.0), weights, groups)
        held_out.append(None if scores is None else learner.calibration_(scores))
        learners.append(learner)
    used = weights > 0
    calibration = JointCalibration(1.0, np.zeros(len(learners)))
    model.diagnostics_ = {"bags": int(used.sum()), "classes": len(learners)}
    held_out_odds = [odds[used] for odds in held_out if odds is not None]
    if len(held_out_odds) == len(learners):
        odds = np.stack(held_out_odds, axis=1)
        together = None if groups is None else groups[used]
        calibration = fit_joint_calibration(odds, codes[used], weights[used], together)
        right = np.argmax(calibration(odds), axis=1) == codes[used]
        model.diagnostics_ |= {
            "held_out_accuracy": float(np.average(right, weights=weights[used])),
            "held_out_log_loss": calibration.loss,
        }
    model.diagnostics_["per_class"] = {str(label): one.diagnostics_ for label, one in zip(model.classes_, learners)}
    model.several_ = SeveralClasses(learners, calibration)
    for name in ("coef_", "intercept_"):
        if all(hasattr(learner, name) for learner in learners):
            setattr(model, name, np.concatenate([getattr(learner, name) for learner in learners]))
    model._n_features_out = sum(learner._n_features_out for learner in model.several_.feature_makers())


def fit_joint_calibration(
    odds: np.ndarray, codes: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None
) -> JointCalibration:
    """Slope and offsets of a `JointCalibration`, by minimising over held-out bags

        - n sum_i p_i sum_k t_ik log P_ik + (slope - 1)^2 / (2 SLOPE^2) + sum_k offset_k^2 / (2 OFFSET^2),     slope >= 0

    with Platt's targets t: (n_k + 1)/(n_k + 2) for the bag's own class k of n_k (weighted) bags, the rest divided among the
    others in proportion to their frequencies. The outcome is averaged with the class frequencies by `trust`, as for two
    classes.
    """
    k, p = odds.shape[1], weights / weights.sum()
    share, logs = np.bincount(codes, p, minlength=k), log_expit(odds)
    n = len(odds) / max(design_effect(column, weights, groups, codes) for column in odds.T)
    kept = (n * share + 1.0) / (n * share + 2.0)
    targets = (1.0 - kept[codes])[:, None] * share / (1.0 - share[codes])[:, None]
    targets[np.arange(len(codes)), codes] = kept[codes]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        log_p = log_softmax(x[0] * logs + x[1:], axis=1)
        return float(-p @ np.sum(targets * log_p, axis=1)), p[:, None] * (np.exp(log_p) - targets)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, residual = loss(x)
        away = (x - np.append(1.0, np.zeros(k))) / np.append(SLOPE, np.full(k, OFFSET))
        slopes = np.append(np.sum(residual * logs), residual.sum(axis=0))
        return n * value + 0.5 * away @ away, n * slopes + away / np.append(SLOPE, np.full(k, OFFSET))

    bounds = [(0.0, None), *[(None, None)] * k]
    start = np.append(1.0, np.zeros(k))
    x = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-12}).x
    reached, frequencies = loss(x)[0], np.log(p @ targets)
    share_of_fit = trust(n * (float(-(p @ targets) @ frequencies) - reached), k)
    return JointCalibration(share_of_fit * x[0], share_of_fit * x[1:] + (1.0 - share_of_fit) * frequencies, reached)


def each_class(method: Callable[..., list[np.ndarray]]) -> Callable[..., list[np.ndarray]]:
    """Decorator of methods with one value per token: with more than two classes they return one column per class."""

    @wraps(method)
    def answered(self: Any, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        if not hasattr(self, "several_"):
            return method(self, X)
        bags = self._checked(X)
        return [np.stack(columns, axis=1) for columns in zip(*(method(one, bags) for one in self.several_.learners))]

    return answered


def side_by_side(method: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Decorator of `transform`: with more than two classes the features of all classes, where they differ, side by side."""

    @wraps(method)
    def answered(self: Any, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if not hasattr(self, "several_"):
            return method(self, X)
        bags = self._checked(X, on_cluster=True)
        return np.hstack([method(one, bags) for one in self.several_.feature_makers()])

    return answered
