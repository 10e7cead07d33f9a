"""Linear classifiers: one feature vector per bag, then a convex readout; pooled (the mean token) and vectorized (all tokens).

min over w, b of  sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2      p_i: normalised weights, the bias is free
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..._core.devices import to_host
from ..._core.validation import real_number, true_or_false
from ...bags.bags import Bags
from ...bags.forms import shown
from ...bags.scaler import BagScaler, scaled_bags
from ...losses import Loss, get_loss
from ...solvers.erm import fit_erm
from ..base import BaseBagClassifier, per_bag
from ..calibration import (
    Calibration,
    final_calibration,
    fit_calibration,
    held_out_diagnostics,
    unvalidated_calibration,
)
from ..labels import checked_seed, class_folds
from ..several_classes import each_class, side_by_side

# Ridges to choose from, largest first: each fit starts the next. Scaled features make the objective's terms of order one.
RIDGES = (1.0, 1e-1, 1e-2, 1e-3)
FALLBACK_RIDGE = 1e-2  # where a class has too few bags to hold any out


@dataclass(frozen=True)
class Readout:
    """A fitted readout."""

    coef: np.ndarray
    bias: float
    ridge: float
    calibration: Calibration
    held_out: np.ndarray | None
    converged: bool
    reason: str


def checked_ridge(ridge: Any) -> float | str:
    """`ridge` as "auto" or a number >= 0."""
    if isinstance(ridge, str):
        if ridge != "auto":
            raise ValueError(f"ridge must be 'auto' or a number >= 0, got {ridge!r}")
        return ridge
    return real_number("ridge", ridge, 0.0)


def fit_readout(
    features: Any,
    signs: np.ndarray,
    weights: np.ndarray,
    ridge: float | str,
    loss: Loss,
    seed: int,
    groups: np.ndarray | None = None,
) -> Readout:
    """The readout at the given ridge, or ("auto") at the one whose held-out scores, calibrated, have the least loss."""
    features = to_host(features)
    given = isinstance(ridge, Real)
    used, calibration, held_out = float(ridge) if given else FALLBACK_RIDGE, Calibration(), None
    if not given:
        folds = class_folds(signs, seed, groups)
        if folds:
            scores = held_out_scores(features, signs, weights, loss, RIDGES, folds)
            fits = [fit_calibration(s, signs, weights) for s in scores]
            chosen = int(np.argmin([c.loss for c in fits]))
            used, held_out = RIDGES[chosen], scores[chosen]
            calibration = final_calibration(fits[chosen], held_out, signs, weights, len(RIDGES), groups)
        else:
            calibration = unvalidated_calibration(signs, weights)
    found = fit_erm(features, signs, used, loss, weights)
    return Readout(found.coef, found.bias, used, calibration, held_out, found.converged, found.reason)


def held_out_scores(
    features: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridges: tuple[float, ...],
    folds: list[np.ndarray],
) -> np.ndarray:
    """(ridges, bags): scores of each bag by readouts that never saw its fold; each ridge starts from the one before."""
    scores = np.empty((len(ridges), len(y)))
    for held in folds:
        rest, start = np.delete(np.arange(len(y)), held), None
        seen, unseen = features[rest], features[held]
        for k, ridge in enumerate(ridges):
            start = fit_erm(seen, y[rest], ridge, loss, weights[rest], start=start, tolerance=1e-4)
            scores[k, held] = unseen @ start.coef + start.bias
    return scores


class ReadoutClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseBagClassifier):
    """Base of the classifiers with one readout: subclasses give `_features`, the bags' features before it."""

    loss: str | Loss
    ridge: float | str
    scale: bool
    random_state: int | None

    def _features(self, bags: Bags) -> Any:
        """(bags, features) from bags whose tokens are scaled already."""
        raise NotImplementedError

    def _all_features(self, bags: Any) -> Any:
        """`_features` of all training bags."""
        return bags.per_bag(self._features)

    def _prepare(self, bags: Bags) -> Bags:
        self.scaler_ = BagScaler().fit(bags) if true_or_false("scale", self.scale) else None
        return scaled_bags(self.scaler_, bags)

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        loss, ridge = get_loss(self.loss), checked_ridge(self.ridge)
        seed, features = checked_seed(self.random_state), self._all_features(self._prepare(bags))
        return self._finish(fit_readout(features, signs, weights, ridge, loss, seed, groups), features, signs)

    def _finish(
        self, readout: Readout, features: Any, signs: np.ndarray, all_signs: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Keep the readout and give its held-out scores.

        `signs` are the labels of the features' bags, `all_signs` those of the held-out scores' bags.
        """
        self.coef_, self.intercept_, self.ridge_ = readout.coef[None, :], np.array([readout.bias]), readout.ridge
        self.calibration_ = readout.calibration
        self._n_features_out = features.shape[1]
        self.diagnostics_ |= readout_diagnostics(readout, features, signs)
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


def readout_diagnostics(readout: Readout, features: Any, signs: np.ndarray) -> dict[str, Any]:
    """How the training set stands to the readout."""
    n, d = features.shape
    raw = np.asarray(features @ readout.coef.astype(features.dtype)) + readout.bias
    wrong = float(np.mean(signs * raw <= 0))
    out: dict[str, Any] = {
        "bags": n,
        "dimensions": d,
        "ridge": readout.ridge,
        "training_error": wrong,
        "separable": wrong == 0.0,
        # Cover's count: n random labels in general position can be fitted as long as n < 2 (d + 1).
        "bags_per_capacity": n / (2.0 * (d + 1)),
        "converged": readout.converged,
        "ended": readout.reason,
    }
    return out


class PooledClassifier(ReadoutClassifier):
    """Linear classifier on the mean token of a bag, sign(<w, xbar> + b) with xbar = (1/L) sum_l x_l.

    Minimises  sum_i p_i l(<w, xbar_i> + b; y_i) + (ridge/2) ||w||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    ridge : float or "auto"
        lambda of the objective. "auto" chooses it by inner 5-fold cross-validation, which also calibrates
        `predict_proba`; a number means exactly that fit and nothing else.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of the inner folds.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    missing : {"error", "drop-token", "impute"}
        What becomes of tokens with missing values (NaN): refused, left out, or filled with the feature's training mean.

    Attributes
    ----------
    coef_ : ndarray of shape (1, features)
        w.
    intercept_ : ndarray of shape (1,)
        b.
    ridge_ : float
        The ridge that was used.
    calibration_ : Calibration
        What turns <w, xbar> + b into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    _same_features = True

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

    @property
    def _sums_only(self) -> bool:
        return True

    def _features(self, bags: Bags) -> Any:
        return bags.mean_tokens()

    def _all_features(self, bags: Any) -> Any:
        return bags.mean_tokens()  # which bags on a cluster may have kept

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """1/L for every token: pooling attends to all alike."""
        bags = self._checked(X)
        lengths = bags.lengths
        return per_bag(np.repeat(1.0 / lengths, lengths).astype(bags.tokens.dtype), bags)


class VectorizedClassifier(ReadoutClassifier):
    """Linear classifier on all tokens of a bag side by side, sign(<W, X> + b); all bags must have the same length L.

    Minimises  sum_i p_i l(<W, X_i> + b; y_i) + (ridge/2) ||W||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    ridge : float or "auto"
        lambda of the objective. "auto" chooses it by inner 5-fold cross-validation, which also calibrates
        `predict_proba`; a number means exactly that fit and nothing else.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of the inner folds.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    missing : {"error", "drop-token", "impute"}
        What becomes of tokens with missing values (NaN): refused, left out, or filled with the feature's training mean.

    Attributes
    ----------
    coef_ : ndarray of shape (1, L * features)
        W, one token after the other.
    intercept_ : ndarray of shape (1,)
        b.
    length_ : int
        L.
    ridge_ : float
        The ridge that was used.
    calibration_ : Calibration
        What turns <W, X> + b into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    _same_features = True

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

    def _prepare(self, bags: Bags) -> Bags:
        self.length_ = bags.equal_length()
        return super()._prepare(bags)

    @property
    def token_coef_(self) -> np.ndarray:
        """W, (L, d)."""
        return self.coef_[0].reshape(self.length_, -1)

    def _features(self, bags: Bags) -> Any:
        length = bags.equal_length()
        if length != self.length_:
            raise ValueError(f"bag {shown(bags.ids[0])} has {length} tokens, the training bags had {self.length_}")
        return bags.tokens.reshape(len(bags), -1)
