"""Input checks shared by the estimators: every form of bags becomes `Bags`, and n_features_in_ is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .bags import Bags
from .cluster import ClusterBags
from .forms import is_bag_list, is_groupby
from .missing import checked_treatment, learned_fill_values, without_missing

# What trains on a cluster, in words: the trainings that are few passes over the bags.
ON_CLUSTER = "PooledClassifier, ElementwiseAttentionClassifier and AttentionClassifier(training='staged')"
TOKENS_HERE = "this needs the tokens in this process, not on a cluster: read the bags that you want (bags.read(index))"


def _fit_here(estimator: Any) -> str:
    name = type(estimator).__name__
    training = getattr(estimator, "training", None)
    shown = name if training is None else f"{name}(training={training!r})"
    return (
        f"{shown} does not train on a cluster; {ON_CLUSTER} do. For others take Bags.from_files without an executor: it "
        "streams the files from a disk of this machine"
    )


def holds_bags(X: Any) -> bool:
    """Whether X is bags of tokens, rather than a plain table with one token per bag."""
    return isinstance(X, Bags | ClusterBags) or is_groupby(X) or is_bag_list(X) or getattr(X, "ndim", 0) == 3


def checked_bags(estimator: Any, X: Any, *, reset: bool, on_cluster: bool = False) -> Any:
    """X as Bags with finite float tokens; sets (reset) or compares n_features_in_ and feature_names_in_.

    Missing values are treated as the estimator's parameter `missing` says (`bags.missing`), by default refused.
    """
    missing = checked_treatment(getattr(estimator, "missing", "error"))
    bags = _as_bags(estimator, X, reset, on_cluster, "error" if missing == "error" else "keep")
    if reset:
        estimator._fitted_to_tokens = int(np.max(bags.lengths))
    elif hasattr(estimator, "predict") and not holds_bags(X):
        _check_not_one_bag(estimator, X)
    if missing == "error":
        return bags
    if bags.in_files:
        raise ValueError("missing must be 'error' for bags on a cluster: its workers read complete tokens only")
    if reset and missing == "impute":
        estimator.fill_values_ = learned_fill_values(bags)
    return without_missing(bags, missing, getattr(estimator, "fill_values_", None))


def _check_not_one_bag(estimator: Any, X: Any) -> None:
    """Refuse a (tokens, features) array where bags of several tokens are expected: its rows would count as bags."""
    if getattr(estimator, "_fitted_to_tokens", 1) > 1:
        shape = getattr(X, "shape", None) or np.shape(X)
        raise ValueError(
            f"X is a 2-d array of shape {tuple(shape)}, whose rows would be bags of one token each, while "
            f"{type(estimator).__name__} was fitted to bags of several: pass [X] for one bag, X[:, None, :] for many"
        )


def _as_bags(estimator: Any, X: Any, reset: bool, on_cluster: bool, missing: str) -> Any:
    if holds_bags(X):
        if isinstance(X, ClusterBags) and not on_cluster:
            raise ValueError(_fit_here(estimator) if reset else TOKENS_HERE)
        bags = X if isinstance(X, ClusterBags) else Bags(X, missing=missing)
        named: Any = np.broadcast_to(np.float64(0.0), (len(bags), bags.n_features))
        if bags.feature_names is not None:
            import pandas as pd

            named = pd.DataFrame(np.empty((0, bags.n_features)), columns=bags.feature_names)
        validate_data(estimator, named, reset=reset, skip_check_array=True)
        return bags
    if isinstance(X, Sequence) and len(X) == 0:
        raise ValueError("there are no bags")
    finite = True if missing == "error" else "allow-nan"
    table = validate_data(
        estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C", ensure_all_finite=finite
    )
    rows = np.arange(len(table), dtype=np.intp)
    return Bags.trusted(table, rows, rows, getattr(estimator, "feature_names_in_", None))
