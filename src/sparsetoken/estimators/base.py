"""What all bag classifiers share: labels, weights, predictions, diagnostics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d

from .._core.callers import caller_level
from .._core.devices import working_on
from .._core.validation import check_real
from ..bags.bags import Bags
from ..bags.checks import checked_bags
from ..bags.forms import shown
from ..bags.scratch import DEVICE_BLOCK_BYTES
from .calibration import Calibration, JointCalibration, fit_joint_calibration
from .canonical import canonical, joined_groups
from .folds import checked_groups
from .near_copies import near_copies
from .training_range import TrainingRange, fit_range

# The largest of the weights lies between this and its inverse: sums and products of weights stay far from the ends of double
# precision.
LEAST_WEIGHT = 1e-100
IN_ORDER = "in order"  # under this name bags keep the rows that a fit uses, and the bags that these are


class TrainingWarning(UserWarning):
    """Something about the training set that the user should know; the details are in `diagnostics_`."""


def each_class(method: Callable[..., list[np.ndarray]]) -> Callable[..., list[np.ndarray]]:
    """Decorator of what gives one value per token: with more than two classes it gives one column per class."""

    @wraps(method)
    def answered(self: Any, X: Any) -> list[np.ndarray]:
        check_is_fitted(self)
        if not hasattr(self, "estimators_"):
            return method(self, X)
        bags = self._checked(X)
        return [np.stack(columns, axis=1) for columns in zip(*(method(one, bags) for one in self.estimators_))]

    return answered


def side_by_side(method: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Decorator of `transform`: with more than two classes the features of all classes, where they differ, side by side."""

    @wraps(method)
    def answered(self: Any, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if not hasattr(self, "estimators_"):
            return method(self, X)
        bags = self._checked(X, on_cluster=True)
        return np.hstack([method(one, bags) for one in self._feature_makers()])

    return answered


class BaseBagClassifier(ClassifierMixin, BaseEstimator):
    """Base of the bag classifiers: one label per bag, two classes or more.

    Subclasses give `_fit(bags, signs, weights, groups)`, which returns the scores of bags that were held out (or None), their
    `calibration_`, and `_decide(bags)`, the log odds of the second class. More than two classes are learnt one against the
    others by copies of the learner (`estimators_`), whose held-out log odds calibrate the probabilities of all classes together
    (`joint_calibration_`).
    Identical bags with the same label are merged and their weights added before fitting, bags of weight zero are left
    out, and the rest is put in an order of its own (`canonical`). So repeating a bag is the same as doubling its weight,
    no bag sits on both sides of an inner split, and the result depends neither on the order of the bags nor on the
    features' units. Near copies count as one group where no groups are given (`near_copies`). Log odds of bags that are unlike
    all training bags are drawn towards the class frequencies' (`training_range`), where scores are calibrated at all.
    """

    class_weight: Any
    device: str
    classes_: np.ndarray
    n_features_in_: int
    diagnostics_: dict[str, Any]
    calibration_: Calibration
    range_: TrainingRange
    estimators_: list[Any]
    joint_calibration_: JointCalibration
    # Whether `transform` gives the same features whatever the labels are.
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

        Returns
        -------
        BaseBagClassifier
            The fitted classifier itself.
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        bags = checked_bags(self, X, reset=True, on_cluster=self._sums_only)
        if isinstance(bags, Bags):
            bags.memory = {}  # an object of the fit's own, whose tokens have been checked
        codes, weights = self._checked_labels(bags, y, sample_weight)
        together = checked_groups(groups, len(bags))
        for name in ("estimators_", "joint_calibration_"):  # of an earlier fit to more classes
            self.__dict__.pop(name, None)
        if len(self.classes_) > 2:
            self._fit_each(bags, codes, weights, together)
        else:
            self._fit_two(bags, np.where(codes == 1, 1.0, -1.0), weights, together, codes)
        for message in self._all_remarks():
            warnings.warn(message, TrainingWarning, stacklevel=caller_level())
        return self

    def _fit_two(
        self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None, codes: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray, np.ndarray | None]:
        """Fit to two classes; held-out scores of all bags (or None), which bag each was merged into (-1: not used), and which
        group it counts with (or None).

        `codes` are the bags' classes before those were made two.
        """
        self.diagnostics_ = {}
        where = bags.device(self._device, self._room_beside(bags))
        used = canonical(bags, signs, weights)
        together = joined_groups(groups, used.places)
        with working_on(where):
            chosen, own = self._in_order(bags, where, used.rows), signs[used.rows]
            self.range_, rows = fit_range(chosen, own, used.weights)
            if groups is None:
                together = near_copies(rows, codes[used.rows])
                if together is not None:
                    self.diagnostics_["near_copies"] = len(together) - int(together.max()) - 1
            del rows  # two numbers per bag and feature
            held_out = self._fit(chosen, own, used.weights, together)
        if held_out is None and np.isfinite(self.calibration_.high):
            self.diagnostics_["unvalidated"] = True
        scores = None if held_out is None else np.append(held_out, np.nan)[used.places]
        return scores, used.places, None if together is None else np.append(together, -1)[used.places]

    def _in_order(self, bags: Any, where: Any, rows: np.ndarray) -> Any:
        """These bags, where the fit works; the same copy for all of several classes, with what was found out about it."""
        known = bags.kept(IN_ORDER) if isinstance(bags, Bags) else None
        if known is not None and np.array_equal(known[0], rows):
            return known[1]
        chosen = bags.on_device(where)[rows]
        if isinstance(chosen, Bags):
            chosen.memory = {}  # its moments are looked at by the range, scalers and views
            bags.keep(IN_ORDER, (rows, chosen))
        return chosen

    def _fit_each(self, bags: Bags, codes: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> None:
        """Fit one learner per class to "this class or another", then their probabilities together."""
        self.estimators_, held_out, merged = [], [], np.full(len(codes), -1)
        for k in range(len(self.classes_)):
            one = clone(self)
            if hasattr(one, "class_weight"):
                one.class_weight = None  # it is part of the weights already
            one.classes_, one.n_features_in_ = np.array([False, True]), self.n_features_in_
            if hasattr(self, "feature_names_in_"):
                one.feature_names_in_ = self.feature_names_in_
            scores, places, together = one._fit_two(bags, np.where(codes == k, 1.0, -1.0), weights, groups, codes)
            held_out.append(None if scores is None else one.calibration_(scores))
            merged[codes == k] = places[codes == k]
            self.estimators_.append(one)
        # Copies of a bag with the same label count once, with their weights added, as they do for each learner.
        positive = np.flatnonzero(merged >= 0)
        _, first, copy_of = np.unique(
            np.stack([codes, merged])[:, positive], axis=1, return_index=True, return_inverse=True
        )
        used, total = positive[first], np.bincount(copy_of.ravel(), weights[positive])
        known = [odds[used] for odds in held_out if odds is not None]
        self.joint_calibration_ = JointCalibration(1.0, np.zeros(len(self.classes_)))
        self.diagnostics_ = {"bags": len(used), "classes": len(self.classes_)}
        if len(known) == len(self.classes_):
            odds = np.stack(known, axis=1)
            self.joint_calibration_ = fit_joint_calibration(
                odds, codes[used], total, None if together is None else together[used]
            )
            right = np.argmax(self.joint_calibration_(odds), axis=1) == codes[used]
            self.diagnostics_ |= {
                "held_out_accuracy": float(np.average(right, weights=total)),
                "held_out_log_loss": self.joint_calibration_.loss,
            }
        self.diagnostics_["per_class"] = {
            str(label): one.diagnostics_ for label, one in zip(self.classes_, self.estimators_)
        }
        for name in ("coef_", "intercept_"):
            if all(hasattr(one, name) for one in self.estimators_):
                setattr(self, name, np.concatenate([getattr(one, name) for one in self.estimators_]))
        if all(hasattr(one, "_n_features_out") for one in self.estimators_):
            self._n_features_out = sum(one._n_features_out for one in self._feature_makers())

    def _feature_makers(self) -> list[Any]:
        """The learners whose features `transform` gives."""
        return self.estimators_[:1] if self._same_features else self.estimators_

    @property
    def _device(self) -> str:
        return getattr(self, "device", "auto")

    def _room_beside(self, bags: Bags) -> int:
        """Bytes a device needs for what grows with the tokens' number but not with their features."""
        return 0

    def _checked_labels(self, bags: Bags, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
        check_real("y", y)
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(bags):
            raise ValueError(f"y must hold one label per bag: there are {len(bags)} bags and {len(labels)} labels")
        check_consistent_length(bags, labels)
        _check_every_label(labels)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        check_real("sample_weight", sample_weight)
        weights = _check_sample_weight(sample_weight, labels, dtype=np.float64)
        check_weights(weights)
        weights = weights * self._class_factors(codes, weights)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must hold at least two classes; these bags have only one class: {shown(self.classes_[0])}"
            )
        kept = np.unique(codes[weights > 0])
        if len(kept) < 2:
            raise ValueError(
                "y must hold at least two classes; the bags of positive weight have only one class or none"
            )
        if len(kept) < len(self.classes_):
            missing = self.classes_[np.setdiff1d(np.arange(len(self.classes_)), kept)[0]]
            raise ValueError(f"y must hold classes with bags of positive weight; class {shown(missing)} has none")
        return codes, weights

    def _class_factors(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return np.ones(len(codes))
        count = len(self.classes_)
        if isinstance(class_weight, str) and class_weight == "balanced":
            share = [weights[codes == k].sum() / max(weights.sum(), np.finfo(float).tiny) for k in range(count)]
            return np.array([1.0 / count / share[k] if share[k] > 0 else 0.0 for k in codes])
        if not isinstance(class_weight, Mapping):
            raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
        known = self.classes_.tolist()
        for label, factor in class_weight.items():
            if label not in known:
                raise ValueError(f"class_weight names the class {label!r}, which is not among the labels")
            if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= float(factor) < np.inf:
                raise ValueError(f"class_weight must map classes to numbers >= 0, got {factor!r} for {label!r}")
        return np.array([float(class_weight.get(label, 1.0)) for label in known])[codes]

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        raise NotImplementedError

    def _decide(self, bags: Bags) -> np.ndarray:
        raise NotImplementedError

    def _all_remarks(self) -> list[str]:
        """What the fit has to say, class by class where there are more than two."""
        if not hasattr(self, "estimators_"):
            return self._remarks()
        said = []
        for label, one in zip(self.classes_, self.estimators_):
            # "The others" may well carry the signal that this class lacks: a query turned round is no fault here.
            statistic = one.diagnostics_.pop("query_statistic", None)
            said += [f"class {shown(label)} against the others: {remark}" for remark in one._remarks()]
            if statistic is not None:
                one.diagnostics_["query_statistic"] = statistic
        return said

    def _remarks(self) -> list[str]:
        """What a fit has to say to the user, from its diagnostics."""
        return remarks_on(self.diagnostics_)

    @property
    def _sums_only(self) -> bool:
        """Whether the training is made of few passes over the bags: then bags on a cluster may stay there."""
        return False

    def _checked(self, X: Any, on_cluster: bool = False) -> Any:
        check_is_fitted(self)
        return checked_bags(self, X, reset=False, on_cluster=on_cluster)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of `classes_[1]`, one per bag; with more than two classes, log probabilities of all, (bags, classes)."""
        bags = self._checked(X, on_cluster=True)
        if hasattr(self, "estimators_"):
            odds = np.stack([one._odds(bags) for one in self.estimators_], axis=1)
            return self.joint_calibration_(odds).astype(bags.dtype, copy=False)
        return self._odds(bags).astype(bags.dtype, copy=False)

    def _odds(self, bags: Any) -> np.ndarray:
        """Log odds of the second of two classes."""
        # Some bags at a time: the tokens' scaled and lifted copies stay small, however many bags there are.
        where = bags.device(self._device, self._room_beside(bags))
        if where is None:
            return bags.per_bag(self._decide_within_range)

        def decide(part: Bags) -> np.ndarray:
            return self._decide_within_range(part.on_device(where))

        with working_on(where):
            return bags.per_bag(decide, size=DEVICE_BLOCK_BYTES)

    def _decide_within_range(self, bags: Bags) -> np.ndarray:
        """`_decide`, drawn towards the class frequencies outside the training range, unless scores are taken as they are."""
        odds = self._decide(bags)
        return self.range_.drawn_back(odds, bags) if np.isfinite(self.calibration_.high) else odds

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each bag."""
        z = self.decision_function(X)
        return self.classes_[np.argmax(z, axis=1) if z.ndim == 2 else (z > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of `classes_`, (bags, classes), at the training set's own (weighted) share of classes."""
        z = self.decision_function(X)
        return softmax(z, axis=1) if z.ndim == 2 else np.stack([expit(-z), expit(z)], axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        z = self.decision_function(X)
        return z if z.ndim == 2 else np.stack([-np.logaddexp(0, z), -np.logaddexp(0, -z)], axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def check_weights(weights: np.ndarray) -> None:
    """See that weights are not negative, and of a size that can be added and compared.

    Parameters
    ----------
    weights : ndarray
        One finite weight per bag.

    Raises
    ------
    ValueError
        In a sentence.
    """
    if np.any(weights < 0):
        raise ValueError("sample_weight must be >= 0 for every bag")
    used = weights[weights > 0]
    if len(used) and not LEAST_WEIGHT <= used.max() <= 1 / LEAST_WEIGHT:
        raise ValueError(f"sample_weight must have its largest value between {LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}")


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
    if found.get("near_copies", 0) > 0:
        remarks.append(
            f"{found['near_copies']} bags are near copies of others and were kept on their side of every inner split: "
            "groups= says which bags belong together"
        )
    if found.get("signal_found") is False:
        remarks.append(
            f"signal too weak for this many bags: the held-out AUC {found['held_out_auc']:.3f} is within two standard "
            f"errors ({found['held_out_auc_null_error']:.3f}) of chance"
        )
    if found.get("unvalidated"):
        remarks.append(
            "no bag could be held out, as a class has a single bag or group: the odds stay within a factor of two of the class "
            "frequencies'"
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


def _check_every_label(labels: np.ndarray) -> None:
    """Refuse missing labels and those that cannot be put in order, which end in messages about neither."""
    if labels.dtype.kind == "f":
        missing = np.isnan(labels)
    elif labels.dtype == object:
        missing = np.array([_is_missing(value) for value in labels])
    else:
        return
    if missing.any():
        raise ValueError(f"y must hold a label for every bag, there is none at place {np.argmax(missing)}")
    if labels.dtype == object and len({isinstance(value, str) for value in labels}) > 1:
        raise ValueError("y must hold labels of one kind, text or numbers, got both")


def _is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, or pandas' NA, which cannot be compared."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
