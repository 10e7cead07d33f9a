"""The convex readout on fixed bag features, as a base of estimators: one feature vector per bag, then convex ERM.

min over w, b of  sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2      p_i: normalised weights, the bias is free
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._core.devices import to_host
from .._core.validation import real_number, true_or_false
from ..bags.bags import Bags
from ..bags.scaler import BagScaler, scaled_bags
from ..losses import Loss, get_loss
from ..solvers.erm import fit_erm
from .base import BaseBagClassifier, side_by_side
from .calibration import (
    Calibration,
    area_under_curve,
    chance_error,
    final_calibration,
    fit_calibration,
    held_apart,
    unvalidated_calibration,
)
from .folds import stratified_folds

# Ridges to choose from, largest first: each fit starts the next. Scaled features make the objective's terms of order one.
RIDGES = (1.0, 1e-1, 1e-2, 1e-3)
FALLBACK_RIDGE = 1e-2  # where a class has too few bags to hold any out


@dataclass(frozen=True)
class Readout:
    """A fitted readout.

    Attributes
    ----------
    coef, bias : ndarray, float
        w and b.
    ridge : float
        The ridge it was fitted at.
    calibration : Calibration
        What turns <w, f> + b into log odds.
    held_out : ndarray or None
        Scores of bags left out of the fit, None when nothing was held out.
    converged : bool
        Whether the solver reached its tolerance.
    reason : str
        Why it ended, in words.
    """

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
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
) -> Readout:
    """The readout at the given ridge, or ("auto") at the one whose held-out scores, calibrated, have the least loss.

    Parameters
    ----------
    features : array of shape (bags, features)
        What the readout sees, NumPy's or JAX's.
    signs, weights : ndarray
        Labels and weights of the bags.
    ridge : float or "auto"
        lambda of the objective at the module's head.
    loss : Loss
        l of the objective.
    rng : numpy.random.Generator
        Deals out the folds.
    groups : ndarray of int, optional
        Bags that stay on one side of every split.

    Returns
    -------
    Readout
        Fitted to all bags. A given ridge is exactly that fit: its scores are not calibrated.
    """
    features = to_host(features)
    given = isinstance(ridge, Real)
    used, calibration, held_out = float(ridge) if given else FALLBACK_RIDGE, Calibration(), None
    if not given:
        folds = stratified_folds(signs, rng, groups=groups)
        if folds:
            scores = held_out_scores(features, signs, weights, loss, RIDGES, folds)
            fits = [fit_calibration(s, signs, weights) for s in scores]
            chosen = int(np.argmin([c.loss for c in fits]))
            used, held_out = RIDGES[chosen], scores[chosen]
            calibration = final_calibration(fits[chosen], signs, weights, len(RIDGES), scores=held_out, groups=groups)
        else:
            calibration = unvalidated_calibration(signs, weights)
    found = fit_erm(features, signs, used, loss, weights)
    return Readout(found.coef, found.bias, used, calibration, held_out, found.converged, found.reason)


def held_out_scores(
    features: Any,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridges: tuple[float, ...],
    folds: list[np.ndarray],
) -> np.ndarray:
    """Scores of each bag by readouts that never saw its fold.

    Parameters
    ----------
    features : array of shape (bags, features)
        What the readout sees.
    signs, weights : ndarray
        Labels and weights of the bags.
    loss : Loss
        l of the objective.
    ridges : tuple of float
        Largest first: each fit starts the next.
    folds : list of ndarray
        The bags to hold out in turn.

    Returns
    -------
    ndarray of shape (ridges, bags)
        The scores <w, f> + b.
    """
    scores = np.empty((len(ridges), len(signs)))
    for held in folds:
        (seen, y, p), held_out, scored = held_apart(features, signs, weights, held)
        start = None
        for k, ridge in enumerate(ridges):
            start = fit_erm(seen, y, ridge, loss, p, start=start, tolerance=1e-4)
            scores[k, held] = (np.asarray(held_out @ start.coef) + start.bias)[scored]
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
        rng = np.random.default_rng(self.random_state)
        features = self._all_features(self._prepare(bags))
        return self._finish(fit_readout(features, signs, weights, ridge, loss, rng, groups), features, signs)

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
    """How the training set stands to the readout.

    Parameters
    ----------
    readout : Readout
        As fitted.
    features : array of shape (bags, features)
        What it was fitted to.
    signs : ndarray
        The labels.

    Returns
    -------
    dict
        Bags per dimension, separability, how the fit ended.
    """
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


def held_out_diagnostics(scores: np.ndarray, signs: np.ndarray) -> dict[str, Any]:
    """AUC of held-out scores, its standard error under chance, and whether it is two of these above chance."""
    area, error = area_under_curve(scores, signs > 0), chance_error(signs)
    return {"held_out_auc": area, "held_out_auc_null_error": error, "signal_found": area > 0.5 + 2.0 * error}
