"""What all learners share: checks of bags, labels and weights, fitting to two classes, predictions, remarks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._core.devices import working_on
from .._core.validation import caller_level
from ..bags.bags import Bags
from ..bags.checks import checked_bags
from ..bags.temporary_files import DEVICE_BLOCK_BYTES
from ..trajectories import mistakes
from .calibration import Calibration, prior_log_odds
from .labels import checked_classes, checked_groups, checked_weights, class_factors, sides_to_try, signal_class
from .out_of_distribution import TrainingRange, fit_range
from .several_classes import SeveralClasses, fit_each_class


class TrainingWarning(UserWarning):
    """Something about the training set that the user should know; the details are in `diagnostics_`."""


class BagLearner(BaseEstimator):
    """Base of classifiers and regressors for bags."""

    missing: str
    device: str
    n_features_in_: int
    diagnostics_: dict[str, Any]
    range_: TrainingRange

    def _checked(self, X: Any, on_cluster: bool = False) -> Any:
        check_is_fitted(self)
        return checked_bags(self, X, reset=False, on_cluster=on_cluster)

    def _training_bags(self, bags: Any, used: np.ndarray, where: Any, groups: np.ndarray | None) -> tuple[Any, Any]:
        """The bags of positive weight, where the fit works, and their groups; learns the training range.

        Where no groups are given, bags with the same tokens are one group: copies never sit on both sides of an inner split.
        """
        chosen = bags.on_device(where) if used.all() else bags.on_device(where)[used]
        self.range_, rows = fit_range(chosen)
        return chosen, same_bags(rows, chosen.lengths) if groups is None else groups[used]

    def _by_parts(self, bags: Any, predict: Callable[[Bags], np.ndarray]) -> np.ndarray:
        """predict(part) for some bags at a time, so that scaled and lifted copies of the tokens stay small."""
        where = bags.device(getattr(self, "device", "numpy"), self._room_beside(bags))
        if where is None:
            return bags.per_bag(predict)
        with working_on(where):
            return bags.per_bag(lambda part: predict(part.on_device(where)), size=DEVICE_BLOCK_BYTES)

    def _room_beside(self, bags: Bags) -> int:
        """Bytes a device needs for what grows with the tokens' number but not with their features."""
        return 0

    def _warn(self, remarks: list[str]) -> None:
        for message in remarks:
            warnings.warn(message, TrainingWarning, stacklevel=caller_level())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class BaseBagClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BagLearner):
    """Base of the bag classifiers: one label per bag, two classes or more; `transform` gives the bags' features.

    Subclasses give `_fit(bags, signs, weights, groups)`, which returns the scores of bags that were held out (or None) and sets
    `calibration_`, and `_decide(bags)`, the log odds of the second class. More than two classes are learnt one against the
    others by copies of the learner (`several_classes`). Bags of weight zero are left out; log odds of bags unlike all training
    bags are shrunk towards the class frequencies' (`out_of_distribution`), where scores are calibrated at all.
    """

    class_weight: Any
    classes_: np.ndarray
    calibration_: Calibration
    prior_odds_: float
    side_: float
    several_: SeveralClasses
    # Whether the features of `transform` do not depend on the labels.
    _same_features = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> BaseBagClassifier:
        """Learn from labelled bags.

        Parameters
        ----------
        X : bags
            Any form that `Bags` takes; a plain table is one token per bag.
        y : array-like
            One label per bag, at least two classes in all.
        sample_weight : array-like, optional
            One weight >= 0 per bag.
        groups : array-like, optional
            One group per bag, such as its patient: bags of one group stay on one side of every inner split.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True, on_cluster=self._sums_only)
        self.classes_, codes = checked_classes(y, len(bags))
        weights = checked_weights(sample_weight, codes)
        weights = weights * class_factors(getattr(self, "class_weight", None), self.classes_, codes, weights)
        codes_groups = checked_groups(groups, len(bags))
        self.__dict__.pop("several_", None)  # of an earlier fit to more classes
        if len(self.classes_) > 2:
            self._sides  # noqa: B018  (a positive_label is refused)
            fit_each_class(self, bags, codes, weights, codes_groups)
        else:
            self._fit_two(bags, np.where(codes == 1, 1.0, -1.0), weights, codes_groups)
        self._warn(self.several_.remarks(self.classes_) if hasattr(self, "several_") else self._remarks())
        return self

    def _fit_two(
        self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
    ) -> np.ndarray | None:
        """Fit to two classes; the held-out scores of all bags (NaN for those of weight zero), or None."""
        self.diagnostics_ = {}
        self.__dict__.pop("side_", None)
        used = weights > 0
        where = bags.device(getattr(self, "device", "numpy"), self._room_beside(bags))
        with working_on(where):
            chosen, together = self._training_bags(bags, used, where, groups)
            self.prior_odds_ = prior_log_odds(signs[used], weights[used])
            held_out = self._fit(chosen, signs[used], weights[used], together)
        if hasattr(self, "side_"):
            self.diagnostics_["signal_class"] = signal_class(self.side_, self.classes_)
        if held_out is None and np.isfinite(self.calibration_.high):
            self.diagnostics_["unvalidated"] = True
        if held_out is None:
            return None
        margins = signs[used] * self.calibration_(held_out)
        self.diagnostics_["held_out_error"] = float(np.average(mistakes(margins, 1.0), weights=weights[used]))
        self.diagnostics_["held_out_log_loss"] = float(np.average(np.logaddexp(0.0, -margins), weights=weights[used]))
        scores = np.full(len(signs), np.nan)
        scores[used] = held_out
        return scores

    @property
    def _sides(self) -> tuple[float, ...]:
        """The sides that may hold the signal, for a learner that treats the classes differently."""
        return sides_to_try(getattr(self, "positive_label", None), self.classes_)

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        raise NotImplementedError

    def _decide(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    @property
    def _sums_only(self) -> bool:
        """Whether the training is made of few passes over the bags: then bags on a cluster may stay there."""
        return False

    @property
    def estimators_(self) -> list[Any]:
        """With more than two classes: the learners of each class against the others."""
        if not hasattr(self, "several_"):
            raise AttributeError("estimators_ goes with more than two classes")
        return self.several_.learners

    def _remarks(self) -> list[str]:
        """Remarks on a fit to two classes for the user, from its diagnostics."""
        return remarks_on(self.diagnostics_)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of `classes_[1]`, one per bag; with more than two classes, log probabilities of all, (bags, classes)."""
        bags = self._checked(X, on_cluster=True)
        odds = self.several_.log_probabilities(bags) if hasattr(self, "several_") else self._odds(bags)
        return odds.astype(bags.dtype, copy=False)

    def _odds(self, bags: Any) -> np.ndarray:
        """Log odds of the second of two classes."""
        return self._by_parts(bags, self._decide_within_range)

    def _decide_within_range(self, bags: Bags) -> np.ndarray:
        """`_decide`, shrunk towards the class frequencies outside the training range, unless scores are not calibrated."""
        odds = self._decide(bags)
        if not np.isfinite(self.calibration_.high):
            return odds
        factors = self.range_.factors(bags)
        return np.where(factors < 1.0, self.prior_odds_ + factors * (odds - self.prior_odds_), odds)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each bag."""
        z = self.decision_function(X)
        return self.classes_[np.argmax(z, axis=1) if z.ndim == 2 else (z > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (bags, classes), at the (weighted) class frequencies of the training set."""
        z = self.decision_function(X)
        return softmax(z, axis=1) if z.ndim == 2 else np.stack([expit(-z), expit(z)], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        z = self.decision_function(X)
        return z if z.ndim == 2 else np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)


def same_bags(summaries: np.ndarray, lengths: np.ndarray) -> np.ndarray | None:
    """Groups of bags of the same length and summary, which are copies; None where there are none."""
    _, codes = np.unique(np.column_stack([lengths, summaries]), axis=0, return_inverse=True)
    codes = codes.ravel()
    return None if codes.max() + 1 == len(codes) else codes


def remarks_on(found: dict[str, Any]) -> list[str]:
    """The remarks that follow from a fit's diagnostics, as plain sentences."""
    remarks = []
    if found.get("signal_found") is False:
        remarks.append(
            f"signal too weak for this many bags: the held-out AUC {found['held_out_auc']:.3f} is within two standard "
            f"errors ({found['held_out_auc_null_error']:.3f}) of chance"
        )
    if found.get("unvalidated"):
        remarks.append(
            "no bag could be held out, as a class has a single bag or group (equal bags count as one): the odds stay within a "
            "factor of two of the class frequencies'"
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
    """Flat token values as a list of arrays, one per bag, in the bags' order and precision."""
    return np.split(np.asarray(values).astype(bags.dtype, copy=False), bags.starts[1:])
