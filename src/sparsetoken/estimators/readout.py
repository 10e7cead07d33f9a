"""The convex readout on fixed bag features, as a base of estimators: one feature vector a bag, then convex ERM.

min over w, b of  sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2      p_i: normalised weights, the bias is free
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._core.devices import to_host
from .._core.validation import real_number
from ..bags.bags import Bags
from ..bags.scaler import BagScaler, scaled_bags
from ..losses import Loss, get_loss
from ..solvers.erm import fit_erm
from .base import BagClassifier
from .calibration import Calibration, area_under_curve, fit_calibration, held_apart, stratified_folds

RIDGES = (1.0, 1e-1, 1e-2, 1e-3)
FALLBACK_RIDGE = 1e-2  # where a class has too few bags to hold any out


@dataclass(frozen=True)
class Readout:
    """A fitted readout; `held_out` are the scores of bags left out of its fit (None when nothing was held out)."""

    coef: np.ndarray
    bias: float
    ridge: float
    calibration: Calibration
    held_out: np.ndarray | None
    converged: bool

    def decide(self, features: Any) -> np.ndarray:
        """Calibrated log odds."""
        raw = np.asarray(features @ self.coef.astype(features.dtype), dtype=np.float64) + self.bias
        return self.calibration(raw)


def checked_ridge(ridge: Any) -> float | str:
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
    hold_out: bool = False,
) -> Readout:
    """The readout at the given ridge, or ("auto") at the one whose held-out scores, calibrated, have the least loss.

    hold_out  hold bags out, and calibrate by them, also where the ridge is given
    """
    features = to_host(features)
    given = isinstance(ridge, Real)
    ridges = (float(ridge),) if given else RIDGES
    best: tuple[float, Calibration, np.ndarray | None]
    best = (float(ridge) if given else FALLBACK_RIDGE, Calibration(), None)
    folds = stratified_folds(signs, rng) if hold_out or not given else []
    if folds:
        scores = held_out_scores(features, signs, weights, loss, ridges, folds)
        fits = [fit_calibration(s, signs, weights) for s in scores]
        chosen = int(np.argmin([c.loss for c in fits]))
        best = (ridges[chosen], fits[chosen], scores[chosen])
    found = fit_erm(features, signs, best[0], loss, weights)
    return Readout(found.coef, found.bias, best[0], best[1], best[2], found.converged)


def held_out_scores(
    features: Any,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: Loss,
    ridges: tuple[float, ...],
    folds: list[np.ndarray],
) -> np.ndarray:
    """Scores of each bag by readouts that never saw its fold, one row a ridge (largest first: each starts the next)."""
    scores = np.empty((len(ridges), len(signs)))
    for held in folds:
        (seen, y, p), strangers, scored = held_apart(features, signs, weights, held)
        start = None
        for k, ridge in enumerate(ridges):
            start = fit_erm(seen, y, ridge, loss, p, start=start, tolerance=1e-4)
            scores[k, held] = (np.asarray(strangers @ start.coef) + start.bias)[scored]
    return scores


class ReadoutClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagClassifier):
    """Base of the classifiers whose bag features are fixed before the readout. Subclasses give `_features`."""

    def __init__(
        self,
        loss: str | Loss = "logistic",
        ridge: float | str = "auto",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.loss = loss
        self.ridge = ridge
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def _features(self, bags: Bags) -> Any:
        """(bags, features) from bags whose tokens are scaled already."""
        raise NotImplementedError

    def _prepare(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> Bags:
        self.scaler_ = BagScaler().fit(bags) if self.scale else None
        return scaled_bags(self.scaler_, bags)

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        loss, ridge = get_loss(self.loss), checked_ridge(self.ridge)
        rng = np.random.default_rng(self.random_state)
        features = self._features(self._prepare(bags, signs, weights))
        self._finish(fit_readout(features, signs, weights, ridge, loss, rng), features, signs)

    def _finish(self, readout: Readout, features: Any, signs: np.ndarray) -> None:
        self.coef_, self.intercept_, self.ridge_ = readout.coef[None, :], np.array([readout.bias]), readout.ridge
        self.calibration_slope_, self.calibration_offset_ = readout.calibration.slope, readout.calibration.offset
        self._n_features_out = features.shape[1]
        self.diagnostics_ |= readout_diagnostics(readout, features, signs)
        warn_of(self, self.diagnostics_)

    def _readout(self) -> Readout:
        calibration = Calibration(self.calibration_slope_, self.calibration_offset_)
        return Readout(self.coef_[0], float(self.intercept_[0]), self.ridge_, calibration, None, True)

    def _decide(self, bags: Bags) -> np.ndarray:
        return self._readout().decide(self._features(scaled_bags(self.scaler_, bags)))

    def transform(self, X: Any) -> np.ndarray:
        """The bags' features, (bags, features): what the readout sees."""
        return self._features(scaled_bags(self.scaler_, self._checked(X)))


def readout_diagnostics(readout: Readout, features: Any, signs: np.ndarray) -> dict[str, Any]:
    """How the training set stands to the readout: samples a dimension, separability, what the held-out scores say."""
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
    }
    if readout.held_out is not None:
        out |= held_out_diagnostics(readout.held_out, signs)
    return out


def held_out_diagnostics(scores: np.ndarray, signs: np.ndarray) -> dict[str, Any]:
    area, error = area_under_curve(scores, signs)
    return {"held_out_auc": area, "held_out_auc_null_error": error, "signal_found": area > 0.5 + 2.0 * error}


def warn_of(estimator: BagClassifier, found: dict[str, Any]) -> None:
    """Plain warnings for what the diagnostics say."""
    if found.get("signal_found") is False:
        estimator._warn(
            f"signal too weak for this many bags: the held-out AUC {found['held_out_auc']:.3f} is within two standard "
            f"errors ({found['held_out_auc_null_error']:.3f}) of chance"
        )
    if found.get("query_statistic", 0.0) < -2.0:
        estimator._warn(
            f"the query is anti-aligned with the signal (statistic {found['query_statistic']:.1f} on held-out bags): "
            "with a rare positive class try eta_b=0, or class_weight='balanced'"
        )
    if not found.get("separable", True) and found.get("ridge", 1.0) <= 1e-4:
        estimator._warn(
            f"the training set is beyond the readout's capacity: {found['bags']} bags in {found['dimensions']} "
            f"dimensions cannot be separated (training error {found['training_error']:.3f})"
        )
    if not found.get("converged", True):
        estimator._warn("the readout did not converge; a larger ridge helps")
