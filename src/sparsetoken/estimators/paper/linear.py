"""Linear classifiers: one feature vector per bag, then a convex readout; pooled (the mean token) and vectorized (all tokens).

min over w, b of  sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2      p_i: normalised weights, the bias is free
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.devices import to_host
from ..._core.validation import true_or_false
from ...bags.bags import Bags
from ...bags.input_forms import shown
from ...bags.scaler import BagScaler, scaled_bags
from ...losses import Loss, get_loss
from ...solvers.erm import ReadoutFit, fit_erm
from ..base import BaseBagClassifier, per_bag
from ..calibration import (
    Calibration,
    best_calibrated,
    held_out_diagnostics,
    training_diagnostics,
    unvalidated_calibration,
)
from ..labels import auto_or_number, checked_seed, class_folds
from ..several_classes import each_class, side_by_side

# Ridges to choose from, largest first: each fit starts the next. Scaled features make the objective's terms of order one.
RIDGES = (1.0, 1e-1, 1e-2, 1e-3)


@dataclass(frozen=True)
class TrainingSet:
    """What the paper's learners are trained on, with the loss, the seed of the folds and the sides that may hold the signal."""

    bags: Any
    signs: np.ndarray
    weights: np.ndarray
    groups: np.ndarray | None
    loss: Loss
    seed: int
    sides: tuple[float, ...] = (1.0, -1.0)

    def folds(self) -> list[np.ndarray]:
        """Index sets of bags to hold out."""
        return class_folds(self.signs, self.seed, self.groups)


@dataclass(frozen=True)
class Readout:
    """A fit at a ridge, what calibrates its scores, and the scores of held-out bags."""

    fit: ReadoutFit
    ridge: float
    calibration: Calibration
    held_out: np.ndarray | None


def fit_readout(features: Any, data: TrainingSet, ridge: float | str) -> Readout:
    """The readout at the given ridge, or ("auto") at the one whose held-out scores, calibrated, have the least loss."""
    features, signs, weights = to_host(features), data.signs, data.weights
    calibration, held_out = Calibration(), None
    if isinstance(ridge, str):
        folds, best = data.folds(), len(RIDGES) // 2
        scores = np.empty((len(RIDGES), len(signs)))
        for held in folds:
            rest = np.delete(np.arange(len(signs)), held)
            seen, unseen = features[rest], features[held]
            scores[:, held] = ridge_path(seen, unseen, signs[rest], weights[rest], data.loss, RIDGES)
        if folds:
            best, held_out, calibration = best_calibrated(scores, signs, weights, data.groups)
        else:
            calibration = unvalidated_calibration(signs, weights)
        ridge = RIDGES[best]
    return Readout(fit_erm(features, signs, ridge, data.loss, weights), ridge, calibration, held_out)


def ridge_path(
    seen: np.ndarray, unseen: np.ndarray, y: np.ndarray, weights: np.ndarray, loss: Loss, ridges: tuple[float, ...]
) -> np.ndarray:
    """(ridges, unseen bags): scores by readouts fitted to the bags seen; each ridge starts from the one before."""
    scores, start = np.empty((len(ridges), len(unseen))), None
    for row, ridge in zip(scores, ridges):
        start = fit_erm(seen, y, ridge, loss, weights, start=start, tolerance=1e-4)
        row[:] = unseen @ start.coef + start.bias
    return scores


class ReadoutClassifier(BaseBagClassifier):
    """Base of the classifiers with one readout: subclasses give `_features`, the bags' features before it."""

    def __init__(
        self,
        loss: str | Loss = "logistic",
        ridge: float | str = "auto",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        missing: str = "error",
    ):
        self.loss = loss
        self.ridge = ridge
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.missing = missing

    def _features(self, bags: Bags) -> Any:
        """(bags, features) from bags whose tokens are scaled already."""
        raise NotImplementedError

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        ridge, data = auto_or_number("ridge", self.ridge), self._training_set(bags, signs, weights, groups)
        features = self._features(data.bags)
        return self._finish(fit_readout(features, data, ridge), features, signs)

    def _training_set(
        self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
    ) -> TrainingSet:
        """The input of the training; the bags are scaled."""
        loss, seed = get_loss(self.loss), checked_seed(self.random_state)
        self.scaler_ = BagScaler().fit(bags) if true_or_false("scale", self.scale) else None
        return TrainingSet(scaled_bags(self.scaler_, bags), signs, weights, groups, loss, seed, self._sides)

    def _finish(
        self, readout: Readout, features: Any, signs: np.ndarray, all_signs: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Keep the readout and give its held-out scores; `signs` are the labels of the features' bags, `all_signs` those of
        the held-out scores' bags."""
        fit, (n, d) = readout.fit, features.shape
        self.coef_, self.intercept_, self.ridge_ = fit.coef[None, :], np.array([fit.bias]), readout.ridge
        self.calibration_, self._n_features_out = readout.calibration, d
        raw = np.asarray(features @ fit.coef.astype(features.dtype)) + fit.bias
        self.diagnostics_ |= training_diagnostics(n, d, signs * raw <= 0) | {
            "ridge": readout.ridge,
            # Cover's count: n random labels in general position can be fitted as long as n < 2 (d + 1).
            "bags_per_capacity": n / (2.0 * (d + 1)),
            "converged": fit.converged,
            "ended": fit.reason,
        }
        if readout.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(readout.held_out, signs if all_signs is None else all_signs)
        return readout.held_out

    def _decide(self, bags: Bags) -> np.ndarray:
        features = self._features(scaled_bags(self.scaler_, bags))
        raw = np.asarray(features @ self.coef_[0].astype(features.dtype), dtype=np.float64)
        return self.calibration_(raw + self.intercept_[0])

    @side_by_side
    def transform(self, X: Any) -> np.ndarray:
        """The bags' features, (bags, features): what the readout sees."""
        return scaled_bags(self.scaler_, self._checked(X, on_cluster=True)).per_bag(self._features)


class PooledClassifier(ReadoutClassifier):
    """Linear classifier on the mean token of a bag, sign(<w, xbar> + b) with xbar = (1/L) sum_l x_l.

    Minimises  sum_i p_i l(<w, xbar_i> + b; y_i) + (ridge/2) ||w||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss : str or Loss
        As for `BagClassifier`.
    ridge : float or "auto"
        lambda of the objective. "auto" chooses it by inner 5-fold cross-validation, which also calibrates
        `predict_proba`; a number means exactly that fit and nothing else.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight, random_state, device, missing
        As for `BagClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (1, features) and (1,)
        w and b.
    ridge_, calibration_, diagnostics_
        The ridge that was used, what turns <w, xbar> + b into log odds, and diagnostics of the training.
    """

    _same_features = True

    @property
    def _sums_only(self) -> bool:
        return True

    def _features(self, bags: Bags) -> Any:
        return bags.mean_tokens()

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """1/L for every token: pooling attends to all alike."""
        bags = self._checked(X)
        return per_bag(np.repeat(1.0 / bags.lengths, bags.lengths), bags)


class VectorizedClassifier(ReadoutClassifier):
    """Linear classifier on all tokens of a bag side by side, sign(<W, X> + b); all bags must have the same length L.

    Minimises  sum_i p_i l(<W, X_i> + b; y_i) + (ridge/2) ||W||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss, ridge, scale, class_weight, random_state, device, missing
        As for `PooledClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (1, L * features) and (1,)
        W, one token after the other, and b.
    length_ : int
        L.
    ridge_, calibration_, diagnostics_
        As for `PooledClassifier`.
    """

    _same_features = True

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        self.length_ = bags.equal_length()
        return super()._fit(bags, signs, weights, groups)

    @property
    def token_coef_(self) -> np.ndarray:
        """W, (L, d)."""
        return self.coef_[0].reshape(self.length_, -1)

    def _features(self, bags: Bags) -> Any:
        length = bags.equal_length()
        if length != self.length_:
            raise ValueError(f"bag {shown(bags.ids[0])} has {length} tokens, the training bags had {self.length_}")
        return bags.tokens.reshape(len(bags), -1)
