"""Missing values (NaN) in bags: refuse them, leave out the tokens that have them, or fill them in.

`Bags(X, missing="keep")` and the readers hold bags with missing values; an estimator with a parameter `missing` ("error",
"drop-token" or "impute") gets bags without any from `checks.checked_bags`, which keeps the values it fills in as
`fill_values_`. Infinite numbers are refused everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.validation import rejection
from .forms import shown
from .scratch import row_blocks, rows_taken, rowwise
from .segments import bag_sum, starts_of

TREATMENTS = ("error", "drop-token", "impute")
READ = ("error", "keep", "drop-token")  # what `Bags` and readers may do
REMEDY = (
    "a learner with missing='drop-token' leaves such tokens out, with missing='impute' fills them in (fit --missing)"
)


def checked_treatment(missing: Any, allowed: tuple[str, ...] = TREATMENTS) -> str:
    """`missing` if it is one of the treatments; otherwise a ValueError."""
    if missing not in allowed:
        raise rejection("missing", missing, " or ".join(map(repr, allowed)))
    return missing


def without_missing(bags: Any, missing: str, fill_values: np.ndarray | None = None) -> Any:
    """The bags without missing values; `fill_values` are needed for "impute" alone (`learned_fill_values`)."""
    if missing == "drop-token":
        return _without_incomplete_tokens(bags)
    assert fill_values is not None
    fill = fill_values.astype(bags.dtype)
    filled = rowwise(lambda rows: np.where(np.isnan(rows), fill, rows), bags.tokens, bags.n_features, bags.dtype)
    return bags.with_tokens(filled, bags.feature_names)


def learned_fill_values(bags: Any) -> np.ndarray:
    """The mean of each feature over the tokens that have it."""
    total, count = np.zeros(bags.n_features), np.zeros(bags.n_features, dtype=int)
    for block in row_blocks(bags.tokens):
        rows = bags.tokens[block]
        total += np.nansum(rows, axis=0, dtype=np.float64)
        count += (~np.isnan(rows)).sum(axis=0)
    if count.min() == 0:
        raise ValueError(f"feature {_feature(bags, int(np.argmin(count)))} has no value in any token: leave it out")
    return total / count


def _without_incomplete_tokens(bags: Any) -> Any:
    complete = np.concatenate([~np.isnan(bags.tokens[block]).any(axis=1) for block in row_blocks(bags.tokens)])
    if complete.all():
        return bags
    lengths = bag_sum(complete.astype(np.intp), bags.starts)
    if lengths.min() == 0:
        empty = shown(bags.ids[int(np.argmin(lengths))])
        raise ValueError(f"bag {empty} has no token without missing values: use missing='impute', or leave it out")
    tokens = rows_taken(bags.tokens, np.flatnonzero(complete))
    return type(bags).trusted(tokens, starts_of(lengths), bags.ids, bags.feature_names)


def _feature(bags: Any, column: int) -> str:
    return str(column) if bags.feature_names is None else repr(str(bags.feature_names[column]))
