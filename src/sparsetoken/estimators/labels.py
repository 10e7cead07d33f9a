"""Checks of what is passed with the bags (labels, weights, groups, seeds); inner folds; which class holds the signal.

Inner folds depend on the order of the bags and on the seed, and on nothing else.

A side is +1 where `classes_[1]` holds the signal and -1 where `classes_[0]` does. A learner that treats the classes differently
is fitted with `side * signs` for every side of `sides_to_try`, keeps the one that explains the labels better and sets
`self.side_`; log odds and token scores are multiplied by it. So the names of the classes do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from .._core.validation import check_real, real_number
from ..bags.input_forms import object_array, shown

# The largest of the weights lies between this and its inverse: sums and products of weights stay far from the ends of double
# precision.
LEAST_WEIGHT = 1e-100
FOLDS = 5  # scikit-learn's usual number


def checked_classes(y: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The classes in order, and the class of each bag by its place among them."""
    check_real("y", y)
    labels = column_or_1d(y, warn=True)
    if len(labels) != count:
        raise ValueError(f"y must hold one label per bag: there are {count} bags and {len(labels)} labels")
    _check_every_label(labels)
    try:
        check_classification_targets(labels)
    except ValueError as error:  # scikit-learn's checks look for its first three words
        raise ValueError(
            "Unknown label type: y must hold classes, which are text or whole numbers; numbers with decimals are predicted by "
            "BagRegressor"
        ) from error
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes; these bags have only one class: {shown(classes[0])}")
    return classes, codes


def checked_numbers(y: Any, count: int) -> np.ndarray:
    """Real-valued labels, one finite number per bag."""
    check_real("y", y)
    raw = column_or_1d(y, warn=True)
    if raw.dtype.kind in "mM":
        raise ValueError("y must hold numbers for a regression, not dates or times")
    try:
        targets = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers for a regression; for classes take a classifier") from None
    if len(targets) != count:
        raise ValueError(f"y must hold one number per bag: there are {count} bags and {len(targets)} labels")
    finite = np.isfinite(targets)
    if not finite.all():
        raise ValueError(f"y must hold finite numbers; that of bag {int(np.argmin(finite))} is NaN or inf")
    return targets


def checked_weights(sample_weight: Any, labels: np.ndarray) -> np.ndarray:
    """One weight >= 0 per bag, of a size that can be added and compared; ones where none are given."""
    check_real("sample_weight", sample_weight)
    weights = _check_sample_weight(sample_weight, labels, dtype=np.float64)
    if np.any(weights < 0):
        raise ValueError("sample_weight must be >= 0 for every bag")
    used = weights[weights > 0]
    if len(used) and not LEAST_WEIGHT <= used.max() <= 1 / LEAST_WEIGHT:
        raise ValueError(f"sample_weight must have its largest value between {LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}")
    return weights


def class_factors(class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What `class_weight` multiplies each bag's weight by; every class keeps bags of positive weight."""
    total = np.bincount(codes, weights, minlength=len(classes))
    if np.count_nonzero(total) < 2:
        raise ValueError("y must hold at least two classes; the bags of positive weight have only one class or none")
    factors = np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        factors = total.sum() / (len(classes) * np.where(total > 0, total, np.inf))
    elif isinstance(class_weight, Mapping):
        factors = _given_factors(class_weight, classes.tolist())
    elif class_weight is not None:
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    without = total * factors == 0
    if without.any():
        raise ValueError(
            f"y must hold classes with bags of positive weight; class {shown(classes[int(np.argmax(without))])} has none"
        )
    return factors[codes]


def _given_factors(class_weight: Mapping[Any, Any], classes: list[Any]) -> np.ndarray:
    for label, factor in class_weight.items():
        if label not in classes:
            raise ValueError(f"class_weight names the class {label!r}, which is not among the labels")
        if isinstance(factor, bool) or not isinstance(factor, Real) or not 0 <= float(factor) < np.inf:
            raise ValueError(f"class_weight must map classes to numbers >= 0, got {factor!r} for {label!r}")
    return np.array([float(class_weight.get(label, 1.0)) for label in classes])


def _check_every_label(labels: np.ndarray) -> None:
    """Refuse missing labels and labels that cannot be sorted, for which scikit-learn's messages are unclear."""
    import pandas as pd

    missing = pd.isna(labels)
    if missing.any():
        raise ValueError(f"y must hold a label for every bag, there is none at place {np.argmax(missing)}")
    if labels.dtype != object:
        return
    if len({isinstance(value, str) for value in labels}) > 1:
        raise ValueError("y must hold labels of one kind, text or numbers, got both")
    if not isinstance(labels[0], str):
        raise ValueError(
            f"Unknown label type: y holds {type(labels[0]).__name__} values as objects; give it a type, such as "
            "np.asarray(y, dtype=int) or y.astype(str)"
        )


def sides_to_try(positive_label: Any, classes: np.ndarray) -> tuple[float, ...]:
    """(+1, -1), or the one side that `positive_label` gives."""
    if positive_label is None:
        return (1.0, -1.0)
    if len(classes) > 2:
        raise ValueError(f"positive_label must be None for {len(classes)} classes: it is determined for each of them")
    labels = classes.tolist()
    if positive_label not in labels:
        raise ValueError(
            f"positive_label must be None or one of {shown(classes[0])} and {shown(classes[1])}, got {positive_label!r}"
        )
    return (1.0 if labels.index(positive_label) == 1 else -1.0,)


def signal_class(side: float, classes: np.ndarray) -> Any:
    """The label of the class that holds the signal."""
    return classes.tolist()[1 if side > 0 else 0]


def checked_seed(random_state: Any) -> int:
    """A seed drawn from `random_state`, as scikit-learn takes it: None, a whole number or a RandomState."""
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise ValueError(
            f"random_state must be None, a whole number from 0 to 2**32 - 1 or a numpy RandomState, got {random_state!r}"
        ) from None


def auto_or_number(
    name: str, value: Any, words: tuple[str, ...] = ("auto",), what: str = "a number >= 0", **bounds: Any
) -> float | str:
    """A parameter that is one of these words or a number >= 0 (with further bounds of `real_number`)."""
    if not isinstance(value, str):
        return real_number(name, value, 0.0, **bounds)
    if value not in words:
        raise ValueError(f"{name} must be {', '.join(map(repr, words))} or {what}, got {value!r}")
    return value


def class_counts(classes: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """The number of bags, or of their groups, of each class."""
    if groups is None:
        return np.unique(classes, return_counts=True)[1]
    return np.array([len(np.unique(groups[classes == label])) for label in np.unique(classes)])


def class_folds(
    classes: np.ndarray, seed: int, groups: np.ndarray | None = None, most: int = FOLDS
) -> list[np.ndarray]:
    """Index sets of held-out bags with the classes at their shares; none where a class would be held out as a whole."""
    for count in range(min(most, int(class_counts(classes, groups).min())), 1, -1):
        splitter = (StratifiedKFold if groups is None else StratifiedGroupKFold)(count, shuffle=True, random_state=seed)
        folds = [held for _, held in splitter.split(classes, classes, groups)]
        if all(len(np.unique(np.delete(classes, held))) == len(np.unique(classes)) for held in folds):
            return folds
    return []


def number_folds(count: int, seed: int, groups: np.ndarray | None = None, most: int = FOLDS) -> list[np.ndarray]:
    """Index sets of held-out bags where labels are numbers; none where there is a single bag or group."""
    folds = min(most, count if groups is None else len(np.unique(groups)))
    if folds < 2:
        return []
    splitter = (KFold if groups is None else GroupKFold)(folds, shuffle=True, random_state=seed)
    return [held for _, held in splitter.split(np.zeros(count), groups=groups)]


def weights_without_folds(weights: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """(folds + 1, bags): the weights with each fold's set to zero in turn, and as they are in the last row."""
    rows = np.tile(weights, (len(folds) + 1, 1))
    for row, held in zip(rows, folds):
        row[held] = 0.0
    return rows


def own_folds(rows: np.ndarray, folds: list[np.ndarray]) -> np.ndarray:
    """The score of each bag from the row (one per fold) whose fit has not seen it."""
    scores = np.empty(rows.shape[1])
    for row, held in zip(rows, folds):
        scores[held] = row[held]
    return scores


def checked_groups(groups: Any, count: int) -> np.ndarray | None:
    """The groups as numbers, one per bag; None also where every bag is a group by itself."""
    if groups is None:
        return None
    import pandas as pd

    if not hasattr(groups, "__len__"):
        raise ValueError(f"groups must hold one group per bag, got {groups!r}")
    names = object_array(groups)
    if len(names) != count:
        raise ValueError(f"groups must hold one group per bag: there are {count} bags and {len(names)} groups")
    try:
        codes, distinct = pd.factorize(names)
    except TypeError:
        raise ValueError("groups must be text or numbers") from None
    if np.any(codes < 0):
        raise ValueError(f"groups must hold a group for every bag, bag {int(np.argmin(codes))} has none")
    return None if len(distinct) == count else codes
