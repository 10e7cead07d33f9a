"""Input checks shared by the estimators: every form of bags becomes `Bags`, and n_features_in_ is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from .bags import Bags, is_bag_list, is_groupby


def holds_bags(X: Any) -> bool:
    """Whether X is bags of tokens, rather than a plain table with one token per bag."""
    return isinstance(X, Bags) or is_groupby(X) or is_bag_list(X) or getattr(X, "ndim", 0) == 3


def checked_bags(estimator: Any, X: Any, *, reset: bool) -> Bags:
    """X as Bags with finite float tokens; sets (reset) or compares n_features_in_ and feature_names_in_."""
    if holds_bags(X):
        bags = Bags(X)
        named: Any = bags.tokens
        if bags.feature_names is not None:
            import pandas as pd

            named = pd.DataFrame(columns=bags.feature_names)
        validate_data(estimator, named, reset=reset, skip_check_array=True)
        return bags
    table = validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], order="C")
    rows = np.arange(len(table), dtype=np.intp)
    return Bags.trusted(table, rows, rows, getattr(estimator, "feature_names_in_", None))
