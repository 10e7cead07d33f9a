"""What estimators accept as bags: every form becomes `Bags`, n_features_in_ is kept, and missing values (NaN) are treated.

An estimator with a parameter `missing` gets bags without any, and keeps what it fills in as `fill_values_`. Infinite numbers
are refused everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .bags import Bags
from .dask_cluster import ClusterBags
from .input_forms import checked_treatment, is_bag_list, is_groupby, shown_feature
from .temporary_files import row_blocks, rowwise


def holds_bags(X: Any) -> bool:
    """Whether X is bags of tokens, rather than a plain table with one token per bag."""
    return isinstance(X, Bags | ClusterBags) or is_groupby(X) or is_bag_list(X) or getattr(X, "ndim", 0) == 3


def checked_bags(estimator: Any, X: Any, *, reset: bool, on_cluster: bool = False) -> Any:
    """X as Bags with finite float tokens; sets (reset) or compares n_features_in_ and feature_names_in_.

    Missing values are treated by the estimator's parameter `missing`, by default refused.
    """
    missing = checked_treatment(getattr(estimator, "missing", "error"))
    bags = _as_bags(estimator, X, reset, on_cluster, "error" if missing == "error" else "keep")
    if reset:
        estimator._fitted_to_tokens = int(np.max(bags.lengths))
    elif hasattr(estimator, "predict") and not holds_bags(X) and getattr(estimator, "_fitted_to_tokens", 1) > 1:
        raise ValueError(
            f"X is a 2-d array of shape {np.shape(X)}, whose rows would be bags of one token each, while "
            f"{type(estimator).__name__} was fitted to bags of several: pass [X] for one bag, X[:, None, :] for many"
        )
    checked_treatment(missing, on_cluster=bags.in_files)
    if missing == "error":
        return bags
    if missing == "drop-token":
        return bags.without_incomplete_tokens()
    if reset:
        estimator.fill_values_ = learned_fill_values(bags)
    fill = estimator.fill_values_.astype(bags.dtype)
    filled = rowwise(lambda rows: np.where(np.isnan(rows), fill, rows), bags.tokens, bags.n_features, bags.dtype)
    return bags.with_tokens(filled, bags.feature_names)


def _as_bags(estimator: Any, X: Any, reset: bool, on_cluster: bool, missing: str) -> Any:
    if holds_bags(X):
        if isinstance(X, ClusterBags) and not on_cluster:
            if not reset:
                raise ValueError(
                    "this needs the tokens in this process, not on a cluster: read the bags with bags.read(index)"
                )
            training = getattr(estimator, "training", None)
            raise ValueError(
                f"{type(estimator).__name__}{'' if training is None else f'(training={training!r})'} does not train on a "
                "cluster; PooledClassifier, ElementwiseAttentionClassifier and AttentionClassifier(training='staged') do. For "
                "other learners use Bags.from_files without an executor: it streams the files from a disk of this machine"
            )
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


def learned_fill_values(bags: Any) -> np.ndarray:
    """The mean of each feature over the tokens that have it."""
    total, count = np.zeros(bags.n_features), np.zeros(bags.n_features, dtype=int)
    for block in row_blocks(bags.tokens):
        rows = bags.tokens[block]
        total += np.nansum(rows, axis=0, dtype=np.float64)
        count += (~np.isnan(rows)).sum(axis=0)
    if count.min() == 0:
        feature = shown_feature(bags.feature_names, int(np.argmin(count)))
        raise ValueError(f"feature {feature} has no value in any token: leave it out")
    return total / count
