"""What all bag classifiers share: labels, weights, predictions, diagnostics."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from .._core.devices import working_on
from ..bags.bags import Bags, shown
from ..bags.checks import checked_bags
from ..bags.scratch import BLOCK_BYTES, DEVICE_BLOCK_BYTES


class TrainingWarning(UserWarning):
    """Something about the training set that the user should know; the details are in `diagnostics_`."""


class BagClassifier(ClassifierMixin, BaseEstimator):
    """Base of the bag classifiers: two classes, one label a bag.

    Subclasses give `_fit(bags, signs, weights)` and `_decide(bags)`, the log odds of the second class.
    Identical bags with the same label are merged and their weights added before fitting, bags of weight zero are left
    out, and the rest is put in an order of its own. So repeating a bag is the same as doubling its weight, no bag sits
    on both sides of an inner split, and the result does not depend on the order of the bags.
    """

    class_weight: Any
    device: str
    classes_: np.ndarray
    n_features_in_: int
    diagnostics_: dict[str, Any]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BagClassifier:
        """Learn from bags X (any form `Bags` takes; a plain table is one token a bag) and one label a bag."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True)
        signs, weights = self._checked_labels(bags, y, sample_weight)
        self.diagnostics_ = {}
        where = bags.device(self._device, self._room_beside(bags))
        rows, merged = _canonical(bags, signs, weights)
        with working_on(where):
            self._fit(bags.placed(where)[rows], signs[rows], merged)
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
            raise ValueError(f"y must hold one label a bag: there are {len(bags)} bags and {len(labels)} labels")
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
        if isinstance(class_weight, str):
            if class_weight != "balanced":
                raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
            share = {s: weights[signs == s].sum() / max(weights.sum(), np.finfo(float).tiny) for s in (-1.0, 1.0)}
            return np.array([0.5 / share[s] if share[s] > 0 else 0.0 for s in signs])
        factors = [float(class_weight.get(label, 1.0)) for label in self.classes_]
        if len(factors) == 1:
            factors = factors * 2
        return np.where(signs > 0, factors[1], factors[0])

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        raise NotImplementedError

    def _decide(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def _checked(self, X: Any) -> Bags:
        check_is_fitted(self)
        return checked_bags(self, X, reset=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of `classes_[1]`, one a bag."""
        bags = self._checked(X)
        # A stretch at a time: the tokens' scaled and lifted copies stay small, however many bags there are.
        where = bags.device(self._device, self._room_beside(bags))
        stretches = bags.stretches(BLOCK_BYTES if where is None else DEVICE_BLOCK_BYTES)
        with working_on(where):
            scores = np.concatenate([self._decide(part.placed(where)) for part in stretches])
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
        z = self.decision_function(X)
        return np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)

    def _warn(self, message: str) -> None:
        warnings.warn(message, TrainingWarning, stacklevel=4)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags


def _canonical(bags: Bags, signs: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bags of positive weight, identical ones once, in the order of their contents' hashes; and their summed weights."""
    keys: dict[bytes, int] = {}
    chosen: list[int] = []
    total: list[float] = []
    zero = bags.tokens.dtype.type(0)
    for i, bag in enumerate(bags):
        if not weights[i] > 0:
            continue
        content = (bag + zero).reshape(-1).view(np.uint8)  # -0.0 and 0.0 are the same number
        key = blake2b(content, digest_size=16, key=b"+" if signs[i] > 0 else b"-").digest()
        at = keys.setdefault(key, len(chosen))
        if at == len(chosen):
            chosen.append(i)
            total.append(0.0)
        total[at] += float(weights[i])
    order = [at for _, at in sorted(keys.items())]
    return np.array(chosen)[order], np.array(total)[order]


def per_bag(values: np.ndarray, bags: Bags) -> list[np.ndarray]:
    """Flat token values as a list of arrays, one a bag, in the bags' order."""
    return np.split(np.asarray(values), bags.starts[1:])
