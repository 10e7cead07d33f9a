"""What all bag classifiers share: labels, weights, predictions, diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from .._core.callers import caller_level
from .._core.devices import working_on
from ..bags.bags import Bags, shown
from ..bags.checks import checked_bags
from ..bags.scratch import BLOCK_BYTES, DEVICE_BLOCK_BYTES
from .canonical import canonical


class TrainingWarning(UserWarning):
    """Something about the training set that the user should know; the details are in `diagnostics_`."""


class BaseBagClassifier(ClassifierMixin, BaseEstimator):
    """Base of the bag classifiers: two classes, one label per bag.

    Subclasses give `_fit(bags, signs, weights)` and `_decide(bags)`, the log odds of the second class.
    Identical bags with the same label are merged and their weights added before fitting, bags of weight zero are left
    out, and the rest is put in an order of its own (`canonical`). So repeating a bag is the same as doubling its weight,
    no bag sits on both sides of an inner split, and the result depends neither on the order of the bags nor on the
    features' units.
    """

    class_weight: Any
    device: str
    classes_: np.ndarray
    n_features_in_: int
    diagnostics_: dict[str, Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BaseBagClassifier:
        """Learn from labelled bags.

        Parameters
        ----------
        X : bags
            Any form that `Bags` takes; a plain table is one token per bag.
        y : array-like
            One label per bag, two classes in all.
        sample_weight : array-like, optional
            One weight >= 0 per bag.

        Returns
        -------
        BaseBagClassifier
            The fitted classifier itself.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True)
        signs, weights = self._checked_labels(bags, y, sample_weight)
        self.diagnostics_ = {}
        where = bags.device(self._device, self._room_beside(bags))
        rows, merged = canonical(bags, signs, weights)
        with working_on(where):
            self._fit(bags.on_device(where)[rows], signs[rows], merged)
        for message in self._remarks():
            warnings.warn(message, TrainingWarning, stacklevel=caller_level())
        return self

    @property
    def _device(self) -> str:
        return getattr(self, "device", "auto")

    def _room_beside(self, bags: Bags) -> int:
        """Bytes a device needs for what grows with the tokens' number but not with their features."""
        return 0

    def _checked_labels(self, bags: Bags, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(bags):
            raise ValueError(f"y must hold one label per bag: there are {len(bags)} bags and {len(labels)} labels")
        check_consistent_length(bags, labels)
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        weights = _check_sample_weight(sample_weight, labels, dtype=np.float64)
        if np.any(weights < 0):
            raise ValueError("sample_weight must be >= 0 for every bag")
        signs = np.where(codes == 1, 1.0, -1.0)
        weights = weights * self._class_factors(signs, weights)
        kept = signs[weights > 0]
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold two classes; these bags have only one class: {shown(self.classes_[0])}")
        if len(np.unique(kept)) < 2:
            raise ValueError("y must hold two classes; the bags of positive weight have only one class or none")
        return signs, weights

    def _class_factors(self, signs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return np.ones(len(signs))
        if isinstance(class_weight, str) and class_weight == "balanced":
            share = {s: weights[signs == s].sum() / max(weights.sum(), np.finfo(float).tiny) for s in (-1.0, 1.0)}
            return np.array([0.5 / share[s] if share[s] > 0 else 0.0 for s in signs])
        if not isinstance(class_weight, Mapping):
            raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
        known = self.classes_.tolist()
        for label, factor in class_weight.items():
            if label not in known:
                raise ValueError(f"class_weight names the class {label!r}, which is not among the labels")
            if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= float(factor) < np.inf:
                raise ValueError(f"class_weight must map classes to numbers >= 0, got {factor!r} for {label!r}")
        factors = [float(class_weight.get(label, 1.0)) for label in known]
        return np.where(signs > 0, factors[-1], factors[0])

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        raise NotImplementedError

    def _decide(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def _remarks(self) -> list[str]:
        """What a fit has to say to the user, from its diagnostics."""
        return remarks_on(self.diagnostics_)

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return checked_bags(self, X, reset=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of `classes_[1]`, one per bag."""
        bags = self._checked(X)
        # Some bags at a time: the tokens' scaled and lifted copies stay small, however many bags there are.
        where = bags.device(self._device, self._room_beside(bags))
        batches = bags.batches(BLOCK_BYTES if where is None else DEVICE_BLOCK_BYTES)
        with working_on(where):
            scores = np.concatenate([self._decide(part.on_device(where)) for part in batches])
        return scores.astype(bags.tokens.dtype, copy=False)

    def predict(self, X: Any) -> np.ndarray:
        """The likelier class of each bag."""
        likelier = (self.decision_function(X) > 0).astype(int)
        return self.classes_[likelier]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (bags, 2), at the training set's own (weighted) share of classes."""
        z = self.decision_function(X)
        return np.stack([expit(-z), expit(z)], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        z = self.decision_function(X)
        return np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags


def remarks_on(found: dict[str, Any]) -> list[str]:
    """Plain sentences for what a fit's diagnostics say, as far as the user should know it.

    Parameters
    ----------
    found : dict
        `diagnostics_` of a classifier.

    Returns
    -------
    list of str
        One sentence per remark.
    """
    remarks = []
    if found.get("signal_found") is False:
        remarks.append(
            f"signal too weak for this many bags: the held-out AUC {found['held_out_auc']:.3f} is within two standard "
            f"errors ({found['held_out_auc_null_error']:.3f}) of chance"
        )
    if found.get("query_statistic", 0.0) < -2.0:
        remarks.append(
            f"the query is anti-aligned with the signal (statistic {found['query_statistic']:.1f} on held-out bags): "
            "with a rare positive class use eta_b='auto' or class_weight='balanced'"
        )
    if not found.get("separable", True) and found.get("ridge", 1.0) <= 1e-4:
        remarks.append(
            f"the training set is beyond the readout's capacity: {found['bags']} bags in {found['dimensions']} "
            f"dimensions cannot be separated (training error {found['training_error']:.3f})"
        )
    if not found.get("converged", True):
        ended = f": {found['ended']}" if "ended" in found else ""
        remarks.append(f"the readout did not converge{ended}")
    return remarks


def per_bag(values: np.ndarray, bags: Bags) -> list[np.ndarray]:
    """Flat token values as a list of arrays, one per bag, in the bags' order."""
    return np.split(np.asarray(values), bags.starts[1:])
