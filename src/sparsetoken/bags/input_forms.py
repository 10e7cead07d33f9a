"""The accepted forms of bags, each converted to flat tokens and the row where every bag starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from .._core.validation import rejection
from .sums_per_bag import starts_of

FORMS = (
    "a list of (tokens, features) arrays, a (bags, tokens, features) array with or without a mask, "
    "a (tokens, features) table with bag ids, or a pandas groupby"
)
# What is done about missing values: by estimators, and by `Bags` and the readers of files.
TREATMENTS = ("error", "drop-token", "impute")
READ = ("error", "keep", "drop-token")  # what `Bags` and readers may do
REMEDY = (
    "a learner with missing='drop-token' leaves such tokens out, with missing='impute' fills them in (fit --missing)"
)


def taken_apart(X: Any, ids: Any = None, mask: Any = None) -> tuple:
    """(tokens, starts, ids, feature names or None) of bags in any form that `Bags` takes, except `Bags`."""
    if mask is not None:
        return _from_mask(X, mask)
    if ids is not None:
        return _from_ids(X, ids)
    if is_groupby(X):
        return _from_groups(X)
    if not is_bag_list(X):
        return _from_array(X)
    tokens, starts, places, names = _stacked(enumerate(X))
    return tokens, starts, np.asarray(places), names


def is_bag_list(X: Any) -> bool:
    """Whether X is a list or tuple (or object array) whose entries are themselves (tokens, features) tables."""
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if not isinstance(X, Sequence) or isinstance(X, str | bytes) or len(X) == 0:
        return False
    return any(_dimensions(bag) >= 2 or (_dimensions(bag) == 1 and len(bag) == 0) for bag in X)


def _dimensions(bag: Any) -> int:
    if hasattr(bag, "ndim"):
        return int(bag.ndim)
    depth = 0
    while isinstance(bag, list | tuple):
        depth += 1
        if len(bag) == 0:
            break
        bag = bag[0]
        if hasattr(bag, "ndim"):
            return depth + int(bag.ndim)
    return depth


def is_groupby(X: Any) -> bool:
    """Whether X is a pandas groupby."""
    return hasattr(X, "ngroups") and hasattr(X, "grouper" if hasattr(type(X), "grouper") else "_grouper")


def shown(name: Any) -> str:
    """A bag's id (or a label) as messages show it: without NumPy's type names."""
    return repr(name.item() if isinstance(name, np.generic) else name)


def shown_feature(names: Any, column: int) -> str:
    """A feature as messages show it: its name, or its place where features have no names."""
    return str(column) if names is None else repr(str(names[column]))


def as_floats(values: Any, where: str) -> np.ndarray:
    """A float32 or float64 C-ordered array; single precision stays single."""
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):
        raise TypeError("Sparse data was passed, but dense data is required. Use '.toarray()' to convert to dense.")
    if hasattr(values, "dtypes") and hasattr(values, "columns") and any(_extension(t) for t in values.dtypes):
        values = values.astype({c: _plain_type(t) for c, t in values.dtypes.items() if _extension(t)})
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"the features{where} have masked values, which count as missing: leave their tokens out")
    try:
        raw = np.asarray(values)
    except ValueError:
        raise ValueError(f"the rows of the features{where} differ in length: bags are {FORMS}") from None
    if np.iscomplexobj(raw):
        raise ValueError(f"Complex data not supported: the features{where} must be real numbers")
    if raw.dtype.kind in "mM":  # NumPy would convert them to numbers in an arbitrary unit
        raise ValueError(f"the features{where} must be numbers, got dates or times ({raw.dtype})")
    try:
        return np.ascontiguousarray(raw, dtype=np.float32 if raw.dtype in (np.float16, np.float32) else np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the features{where} must be numbers: {error}") from None
    except OverflowError:
        raise ValueError(f"the features{where} must be numbers that double precision can hold") from None


def checked_treatment(missing: Any, allowed: tuple[str, ...] = TREATMENTS, on_cluster: bool = False) -> str:
    """`missing` if it is one of the treatments; otherwise a ValueError."""
    if missing not in allowed:
        raise rejection("missing", missing, " or ".join(map(repr, allowed)))
    if on_cluster and missing != "error":
        raise ValueError("missing must be 'error' for bags on a cluster: its workers read complete tokens only")
    return missing


def first_not_finite(tokens: Any, missing: str, names: Any) -> tuple[int, str, str] | None:
    """Row of the first number that is missing or infinite, which of these it is, and its feature and what to do about it.

    None where all are finite; missing numbers pass where `missing` is anything but "error".
    """
    # One quick pass: a sum is finite only if every entry is (the slow path handles overflow).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(tokens.sum()):
            return None
    bad = ~np.isfinite(tokens) if missing == "error" else np.isinf(tokens)
    if not bad.any():
        return None
    row, column = (int(place) for place in np.unravel_index(int(bad.argmax()), bad.shape))
    feature = shown_feature(names, column)
    if np.isnan(tokens[row, column]):
        return row, "NaN", f"feature {feature}; {REMEDY}"
    return row, "inf", f"feature {feature}"


def _extension(dtype: Any) -> bool:
    """Whether a column is of one of pandas' own types of numbers, which can hold missing values."""
    return not isinstance(dtype, np.dtype) and getattr(dtype, "kind", "O") in "biuf"


def _plain_type(dtype: Any) -> Any:
    return np.float32 if getattr(dtype, "numpy_dtype", None) == np.float32 else np.float64


def _feature_names(frame: Any) -> np.ndarray | None:
    columns = getattr(frame, "columns", None)
    if columns is None or not all(isinstance(c, str) for c in columns):
        return None
    return np.asarray(columns, dtype=object)


def _from_array(X: Any) -> tuple:
    names = _feature_names(X)
    tokens = as_floats(X, "")
    if tokens.ndim == 3:
        n, length, d = tokens.shape
        if length == 0:
            raise ValueError("bag 0 has no tokens")
        return tokens.reshape(n * length, d), np.arange(n, dtype=np.intp) * length, np.arange(n), None
    if tokens.ndim != 2:
        raise ValueError(f"Expected 2D array or bags, got {tokens.ndim}D array instead: bags are {FORMS}")
    return tokens, np.arange(len(tokens), dtype=np.intp), np.arange(len(tokens)), names


def _stacked(bags: Iterable[tuple[Any, Any]]) -> tuple:
    """(tokens, starts, list of ids, feature names) of bags with their ids, one (tokens, features) table each."""
    parts: list[np.ndarray] = []
    names, ids = None, []
    for i, bag in bags:
        part = as_floats(bag, f" of bag {shown(i)}")
        if len(part) == 0:
            raise ValueError(f"bag {shown(i)} has no tokens")
        if part.ndim != 2:
            raise ValueError(f"bag {shown(i)} must be a (tokens, features) array, got shape {part.shape}")
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"bag {shown(i)} has {part.shape[1]} features, the bags before it have {parts[0].shape[1]}"
            )
        bag_names = _feature_names(bag)
        names = names if parts else bag_names
        if names is not None and (bag_names is None or list(bag_names) != list(names)):
            raise ValueError(f"bag {shown(i)} names its features otherwise than the bags before it")
        parts.append(part)
        ids.append(i)
    if not parts:
        raise ValueError("there are no bags")
    return np.concatenate(parts), starts_of(np.array([len(p) for p in parts])), ids, names


def _from_mask(X: Any, mask: Any) -> tuple:
    padded = as_floats(X, "")
    if padded.ndim != 3:
        raise ValueError(f"a mask goes with a (bags, tokens, features) array, got shape {padded.shape}")
    real = np.asarray(mask)
    if real.shape != padded.shape[:2]:
        raise ValueError(f"mask must have shape {padded.shape[:2]} (bags, tokens), got {real.shape}")
    if real.dtype != bool:
        if not np.all(np.isin(real, (0, 1))):
            raise ValueError("mask must be boolean, True where the token is real")
        real = real.astype(bool)
    lengths = real.sum(axis=1)
    if len(lengths) and lengths.min() == 0:
        raise ValueError(f"bag {int(np.argmin(lengths))} has no tokens: its mask is False everywhere")
    return padded[real], starts_of(lengths), np.arange(len(lengths)), None


def _from_ids(X: Any, ids: Any) -> tuple:
    if isinstance(ids, str):
        if not hasattr(X, "columns") or ids not in X.columns:
            raise ValueError(f"there is no column {ids!r} to take the bag ids from")
        ids, X = X[ids], X.drop(columns=ids)
    names = _feature_names(X)
    tokens = as_floats(X, "")
    if tokens.ndim != 2:
        raise ValueError(f"ids go with a (tokens, features) array, got shape {tokens.shape}")
    codes, uniques = distinct_ids(ids, len(tokens))
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        tokens, codes = tokens[order], codes[order]
    return tokens, starts_of(np.bincount(codes)), uniques, names


def distinct_ids(ids: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which bag every token belongs to."""
    import pandas as pd

    if not hasattr(ids, "dtype") and not isinstance(ids, Iterable):
        raise ValueError(f"ids must hold one bag id per token ({count}), got {ids!r}")
    keys: Any = ids if hasattr(ids, "dtype") else list(ids)
    if isinstance(keys, list):
        # NumPy would convert all to one type: 1 and "1" to the same text, long integers to the same float.
        one_kind = len({type(key) for key in keys}) == 1 and isinstance(keys[0], str | int | float | np.generic)
        array = np.asarray(keys) if one_kind else None
        inexact = array is None or array.ndim != 1 or (isinstance(keys[0], int) and array.dtype.kind == "f")
        keys = object_array(keys) if inexact else array
    if keys.shape != (count,):
        raise ValueError(f"ids must hold one bag id per token ({count}), got shape {keys.shape}")
    if count == 0:
        raise ValueError("there are no bags")
    try:
        codes, uniques = pd.factorize(keys)
    except TypeError:  # lists and dicts cannot be compared as ids
        raise ValueError("the bag ids must be text or numbers, not lists or other objects") from None
    if codes.min() < 0:
        raise ValueError(f"token {int(np.argmin(codes))} has no bag id")
    return codes, np.asarray(uniques)


def _from_groups(groups: Any) -> tuple:
    def frames() -> Iterator[tuple[Any, Any]]:
        for key, frame in groups:
            name = key[0] if isinstance(key, tuple) and len(key) == 1 else key
            if not hasattr(frame, "columns"):
                raise ValueError(
                    "these groups are of one column: group the frame, or choose its features by a list of names"
                )
            if len(frame) == 0:
                raise ValueError(f"bag {shown(name)} has no tokens: group with observed=True to leave it out")
            yield name, frame.drop(columns=[column for column in frame.columns if column in groups.exclusions])

    tokens, starts, ids, names = _stacked(frames())
    lost = len(groups.obj) - len(tokens)
    if lost:
        raise ValueError(
            f"{lost} of the {len(groups.obj)} tokens have no bag id, and pandas leaves them out of its groups"
        )
    return tokens, starts, object_array(ids), names


def object_array(values: Iterable[Any]) -> np.ndarray:
    """One entry for each value, whatever it is: NumPy would make arrays of tuples, and one type of all."""
    listed = list(values)
    out = np.empty(len(listed), dtype=object)
    out[:] = listed
    return out
