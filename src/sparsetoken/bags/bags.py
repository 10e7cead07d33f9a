"""`Bags`: the one container behind every form in which people hold bags of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._core.devices import device_for
from .scratch import BLOCK_BYTES, rows_taken
from .segments import lengths_of, rows_of, starts_of

FORMS = (
    "a list of (tokens, features) arrays, a (bags, tokens, features) array with or without a mask, "
    "a (tokens, features) table with bag ids, or a pandas groupby"
)


class Bags:
    """Bags of tokens, stored flat: all tokens one after the other, and where each bag starts.

    ``Bags([a, b, c])``           a list of (n_i, d) arrays
    ``Bags(X)``                   X of shape (n, L, d); or (n, d): one token a bag
    ``Bags(X, mask=mask)``        X padded to (n, L, d), mask (n, L) True where the token is real
    ``Bags(X, ids=ids)``          X of shape (N, d) and N bag ids; rows of a bag need not be neighbours
    ``Bags(frame, ids="column")`` a pandas frame with the bag ids in one of its columns
    ``Bags(frame.groupby("g"))``  pandas groups; the grouping column is not a feature

    Bags keep the order in which they first appear. An integer index gives one bag's (n_i, d) array, any other index
    gives Bags again, so cross-validation, `train_test_split` and `GridSearchCV` take them as they are.
    """

    __slots__ = ("feature_names", "ids", "starts", "tokens")

    tokens: np.ndarray
    starts: np.ndarray
    ids: np.ndarray
    feature_names: np.ndarray | None

    def __init__(self, X: Any, ids: Any = None, mask: Any = None):
        if ids is not None and mask is not None:
            raise ValueError("give ids (flat tokens) or mask (padded bags), not both")
        if isinstance(X, Bags):
            if ids is not None or mask is not None:
                raise ValueError("these are Bags already; they take no ids or mask")
            tokens, starts, names, features = X.tokens, X.starts, X.ids, X.feature_names
        elif mask is not None:
            tokens, starts, names, features = *_from_mask(X, mask), None
        elif ids is not None:
            tokens, starts, names, features = _from_ids(X, ids)
        elif is_groupby(X):
            tokens, starts, names, features = _from_groups(X)
        elif is_bag_list(X):
            tokens, starts, names, features = _from_list(X)
        else:
            tokens, starts, names, features = _from_array(X)
        if len(starts) == 0:
            raise ValueError("there are no bags")
        if tokens.shape[1] == 0:
            raise ValueError(f"the tokens have 0 feature(s) (shape={tokens.shape}) while a minimum of 1 is required.")
        self.tokens, self.starts, self.ids, self.feature_names = tokens, starts, names, features
        self._check_finite()

    @classmethod
    def trusted(cls, tokens: np.ndarray, starts: np.ndarray, ids: np.ndarray, names: np.ndarray | None) -> Bags:
        """Bags from parts that are known to be right (nothing is checked)."""
        bags = cls.__new__(cls)
        bags.tokens, bags.starts, bags.ids, bags.feature_names = tokens, starts, ids, names
        return bags

    # -- what they are ------------------------------------------------------------------------------------------------

    @property
    def lengths(self) -> np.ndarray:
        """Tokens a bag, n_i."""
        return lengths_of(self.starts, len(self.tokens))

    @property
    def n_features(self) -> int:
        """d."""
        return self.tokens.shape[1]

    @property
    def n_tokens(self) -> int:
        """All tokens of all bags, N."""
        return len(self.tokens)

    @property
    def shape(self) -> tuple[int]:
        """(number of bags,): what cross-validation counts."""
        return (len(self.starts),)

    @property
    def dtype(self) -> np.dtype:
        return self.tokens.dtype

    @property
    def bag_of_token(self) -> np.ndarray:
        """Index of the bag each token belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(np.split(self.tokens, self.starts[1:]))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]
        if isinstance(index, int | np.integer) and not isinstance(index, bool):
            if not -len(self) <= index < len(self):
                raise IndexError(f"bag {index} is out of range: there are {len(self)} bags")
            i = int(index) % len(self)
            end = self.starts[i + 1] if i + 1 < len(self) else len(self.tokens)
            return self.tokens[self.starts[i] : end]
        chosen = np.arange(len(self))[index if isinstance(index, slice) else np.asarray(index)]
        if chosen.size == 0:
            raise ValueError("this index leaves no bags")
        lengths = self.lengths[chosen]
        return Bags.trusted(
            rows_taken(self.tokens, rows_of(self.starts[chosen], lengths)),
            starts_of(lengths),
            self.ids[chosen],
            self.feature_names,
        )

    def __repr__(self) -> str:
        lengths = self.lengths
        spread = str(lengths.min()) if lengths.min() == lengths.max() else f"{lengths.min()}-{lengths.max()}"
        return f"Bags({len(self)} bags, {spread} tokens each, {self.n_features} features, {self.tokens.dtype})"

    def __getstate__(self) -> tuple:
        return self.tokens, self.starts, self.ids, self.feature_names

    def __setstate__(self, state: tuple) -> None:
        self.tokens, self.starts, self.ids, self.feature_names = state

    # -- what one does with them --------------------------------------------------------------------------------------

    def stretches(self, size: int = BLOCK_BYTES) -> Iterator[Bags]:
        """The bags in order, some megabytes (`size` bytes) of them at a time (at least one bag), without copying."""
        step = max(1, size // (self.tokens.itemsize * max(1, self.n_features)))  # tokens
        ends = np.append(self.starts[1:], self.n_tokens)
        first = 0
        while first < len(self):
            last = max(first + 1, int(np.searchsorted(ends, self.starts[first] + step, side="right")))
            begin = self.starts[first]
            yield Bags.trusted(
                self.tokens[begin : ends[last - 1]],
                self.starts[first:last] - begin,
                self.ids[first:last],
                self.feature_names,
            )
            first = last

    def with_tokens(self, tokens: np.ndarray, feature_names: np.ndarray | None = None) -> Bags:
        """The same bags with other token features (one row a token, in the same order)."""
        if len(tokens) != self.n_tokens:
            raise ValueError(f"tokens must have one row a token ({self.n_tokens}), got {len(tokens)}")
        return Bags.trusted(tokens, self.starts, self.ids, feature_names)

    def device(self, wanted: str, beside: int = 0) -> Any | None:
        """The JAX device for work on these bags, None for NumPy; `beside`: bytes it needs besides (`devices.device_for`)."""
        # Lists of rows, padded to the longest bag, and values in their shape.
        lists = 32 * len(self) * int(self.lengths.max())
        return device_for(wanted, self.tokens, lists + beside)

    def placed(self, device: Any | None) -> Bags:
        """The same bags with their tokens on a JAX device (None: as they are). Call it inside `devices.working_on`."""
        if device is None:
            return self
        import jax

        return Bags.trusted(jax.device_put(self.tokens, device), self.starts, self.ids, self.feature_names)

    def astype(self, dtype: Any) -> Bags:
        return Bags.trusted(self.tokens.astype(dtype, copy=False), self.starts, self.ids, self.feature_names)

    def padded(self, fill: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(n, L_max, d) array and its (n, L_max) mask, for tools that need them."""
        mask = np.arange(self.lengths.max())[None, :] < self.lengths[:, None]
        out = np.full((*mask.shape, self.n_features), fill, dtype=self.tokens.dtype)
        out[mask] = self.tokens
        return out, mask

    def equal_length(self) -> int:
        """L, where all bags have the same length; else a ValueError that names two bags that differ."""
        lengths = self.lengths
        if lengths.min() != lengths.max():
            other = int(np.argmax(lengths != lengths[0]))
            raise ValueError(
                f"all bags must have the same number of tokens: bag {shown(self.ids[0])} has {lengths[0]}, "
                f"bag {shown(self.ids[other])} has {lengths[other]}"
            )
        return int(lengths[0])

    def labels(self, labels: Any) -> np.ndarray:
        """One label a bag, in the bags' order, from a mapping or pandas Series keyed by bag id."""
        if not isinstance(labels, Mapping) and not (hasattr(labels, "index") and hasattr(labels, "items")):
            raise ValueError("labels must map bag ids to labels (a dict or a pandas Series indexed by bag id)")
        table = dict(labels.items())
        known = set(self.ids.tolist())
        for name in table:
            if name not in known:
                raise ValueError(f"the labels name bag {name!r}, which is not among the bags")
        for name in known:
            if name not in table:
                raise ValueError(f"bag {name!r} has no label")
        return np.array([table[name] for name in self.ids.tolist()])

    def _check_finite(self) -> None:
        # One quick pass: a sum is finite only if every entry is (an overflow is cleared up by the slow path).
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(self.tokens.sum()):
                return
        bad = ~np.isfinite(self.tokens)
        if not bad.any():
            return
        row, column = (int(v) for v in np.argwhere(bad)[0])
        i = int(np.searchsorted(self.starts, row, side="right")) - 1
        feature = column if self.feature_names is None else repr(str(self.feature_names[column]))
        value = "NaN" if np.isnan(self.tokens[row, column]) else "inf"
        raise ValueError(
            f"Input contains {value}: bag {shown(self.ids[i])}, token {row - self.starts[i]}, feature {feature}"
        )


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
    """A bag's id (or a label) as messages give it: plain, without NumPy's type names."""
    return repr(name.item() if isinstance(name, np.generic) else name)


def as_floats(values: Any, where: str) -> np.ndarray:
    """A float32 or float64 C-ordered array; single precision stays single."""
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):
        raise TypeError("Sparse data was passed, but dense data is required. Use '.toarray()' to convert to dense.")
    raw = np.asarray(values)
    if np.iscomplexobj(raw):
        raise ValueError(f"Complex data not supported{where}")
    if raw.dtype in (np.float32, np.float64):
        return np.ascontiguousarray(raw)
    try:
        return np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the features{where} must be numbers: {error}") from None


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


def _from_list(X: Sequence[Any]) -> tuple:
    parts: list[np.ndarray] = []
    names = _feature_names(X[0])
    for i, bag in enumerate(X):
        if _dimensions(bag) == 1 and len(bag) == 0:
            raise ValueError(f"bag {i} has no tokens")
        part = as_floats(bag, f" of bag {i}")
        if part.ndim != 2:
            raise ValueError(f"bag {i} must be a (tokens, features) array, got shape {part.shape}")
        if len(part) == 0:
            raise ValueError(f"bag {i} has no tokens")
        if parts and part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"bag {i} has {part.shape[1]} features, the bags before it have {parts[0].shape[1]}")
        own = _feature_names(bag)
        if names is not None and (own is None or list(own) != list(names)):
            raise ValueError(f"bag {i} names its features otherwise than the bags before it")
        parts.append(part)
    return np.concatenate(parts), starts_of(np.array([len(p) for p in parts])), np.arange(len(parts)), names


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
    return padded[real], starts_of(lengths), np.arange(len(lengths))


def _from_ids(X: Any, ids: Any) -> tuple:
    if isinstance(ids, str):
        if not hasattr(X, "columns") or ids not in X.columns:
            raise ValueError(f"there is no column {ids!r} to take the bag ids from")
        ids, X = X[ids], X.drop(columns=ids)
    names = _feature_names(X)
    tokens = as_floats(X, "")
    if tokens.ndim != 2:
        raise ValueError(f"ids go with a (tokens, features) array, got shape {tokens.shape}")
    keys = np.asarray(ids)
    if keys.shape != (len(tokens),):
        raise ValueError(f"ids must hold one bag id a token ({len(tokens)}), got shape {keys.shape}")
    if len(keys) == 0:
        raise ValueError("there are no bags")
    import pandas as pd

    codes, uniques = pd.factorize(keys)
    if codes.min() < 0:
        raise ValueError(f"token {int(np.argmin(codes))} has no bag id")
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        tokens, codes = tokens[order], codes[order]
    return tokens, starts_of(np.bincount(codes)), np.asarray(uniques), names


def _from_groups(groups: Any) -> tuple:
    keys = list(groups.keys) if isinstance(groups.keys, list) else [groups.keys]
    parts, names, ids = [], None, []
    for key, frame in groups:
        frame = frame.drop(columns=[k for k in keys if isinstance(k, str) and k in frame.columns])
        names = _feature_names(frame)
        parts.append(as_floats(frame, f" of bag {key!r}"))
        ids.append(key[0] if isinstance(key, tuple) and len(key) == 1 else key)
    if not parts:
        raise ValueError("there are no bags")
    bag_ids = np.empty(len(ids), dtype=object)
    bag_ids[:] = ids
    return np.concatenate(parts), starts_of(np.array([len(p) for p in parts])), bag_ids, names
