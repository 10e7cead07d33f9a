"""`Bags`: the one container behind every form in which people hold bags of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .._core.arrays import is_jax_array, namespace
from .._core.devices import device_for
from .cluster import on_cluster
from .folders import gather, list_files
from .scratch import BLOCK_BYTES, DEVICE_BLOCK_BYTES, rows_taken
from .segments import Combination, Work, lengths_of, rows_of, starts_of
from .tables import labels_of, values_by_id

FORMS = (
    "a list of (tokens, features) arrays, a (bags, tokens, features) array with or without a mask, "
    "a (tokens, features) table with bag ids, or a pandas groupby"
)


class Bags:
    """Bags of tokens, stored flat: all tokens one after the other, and where each bag starts.

    Bags keep the order in which they first appear. An integer index gives one bag's (n_i, d) array, any other index
    gives Bags again, so cross-validation, `train_test_split` and `GridSearchCV` take them as they are.

    Parameters
    ----------
    X : list of arrays, array, frame, groupby or Bags
        A list of (n_i, d) arrays; an (n, L, d) array; an (N, d) array or frame with `ids`; pandas groups (the grouping
        column is not a feature); an (n, d) array without `ids` is one token per bag.
    ids : array-like or str, optional
        N bag ids for the rows of a flat X, or the name of the frame's column that holds them. The rows of a bag need
        not be neighbours. Ids are told apart by value: 1 and "1" are two bags.
    mask : array-like, optional
        (n, L), True where a token of a padded (n, L, d) array is real.

    Attributes
    ----------
    tokens : ndarray of shape (N, d)
        All tokens, bag after bag.
    starts : ndarray of shape (n,)
        The first row of each bag.
    ids : ndarray of shape (n,)
        The bags' ids; their positions where none were given.
    feature_names : ndarray of shape (d,) or None
        The names of the features, if they came with names.

    Raises
    ------
    ValueError
        If a bag is empty, a number is missing or infinite, or the parts do not fit together; the message names the bag.
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
    def from_files(
        cls,
        files: Any,
        labels: Any = None,
        *,
        key: str | None = None,
        bag: str = "bag_id",
        label: str = "label",
        skip_unmatched: bool = False,
        executor: Any = "local",
        scheduler: str | None = None,
    ) -> Any:
        """Bags from a folder, one file per bag, as tools that extract features write them.

        The files are read one after the other, some megabytes at a time. Tokens that take more than some megabytes in all lie
        in a temporary file from then on (TMPDIR says where), and the estimators stream them from there: memory stays bounded
        however large the folder is.

        Parameters
        ----------
        files : str, Path or sequence of these
            A pattern ("features/*.h5", also "**/*.pt"), a folder, or the files themselves: .npy, .npz, .h5, .pt or .parquet,
            each with a (tokens, features) array. A file's name without its ending is the bag's id. Parquet files that have
            the column `bag` may hold several bags each.
        labels : str, Path, DataFrame, Series or mapping, optional
            A table (file or frame) with the columns `bag` and `label`, or labels keyed by bag id.
        key : str, optional
            The name of the array, where files hold several; by default one of the usual names, such as "features".
        bag, label : str
            Columns of the table.
        skip_unmatched : bool
            Whether files without a label, and labels without a file, are left out instead of being an error.
        executor : "local", "dask" or distributed.Client
            Where sums over the bags are computed. On a Dask cluster nothing is copied: workers read the files in every pass,
            some megabytes at a time, and the bags are `ClusterBags`, which some learners take (those that refuse say so).
        scheduler : str, optional
            Address of the scheduler of executor="dask", such as "tcp://host:8786"; without it, the client that is open.

        Returns
        -------
        Bags (or ClusterBags), or tuple of these and ndarray
            The bags; with `labels`, the bags and their labels.

        Raises
        ------
        ValueError
            If a file cannot be read (nothing in it is ever executed) or the labels do not fit; the message names it.
        """
        found = list_files(files)
        known = None if labels is None else values_by_id(labels, bag, label)
        if skip_unmatched:
            if known is None:
                raise ValueError("skip_unmatched goes with labels")
            found = found.only(known)
            known = found.known(known)
        bags: Any
        if isinstance(executor, str) and executor == "local":
            if scheduler is not None:
                raise ValueError("scheduler belongs to executor='dask'")
            held = gather(found, key, bag, label)
            bags = cls.trusted(held.tokens, held.starts, held.ids, held.names)
        else:
            bags = on_cluster(found, cls.trusted, executor, scheduler, key, bag, label)
        if known is None:
            return bags
        return bags, bags.labels({found.id_of(name): value for name, value in known.items()})

    @classmethod
    def trusted(cls, tokens: np.ndarray, starts: np.ndarray, ids: np.ndarray, names: np.ndarray | None) -> Bags:
        """Bags from parts that are known to be right (nothing is checked)."""
        bags = cls.__new__(cls)
        bags.tokens, bags.starts, bags.ids, bags.feature_names = tokens, starts, ids, names
        return bags

    # -- what they are ------------------------------------------------------------------------------------------------

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per bag, n_i."""
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
        """The tokens' precision."""
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

    def batches(self, size: int = BLOCK_BYTES) -> Iterator[Bags]:
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

    def per_bag(self, work: Work, own: Sequence[Any] = (), shared: Sequence[Any] = (), size: int | None = None) -> Any:
        """A pass over all bags, some megabytes at a time: what the work gives for every part, one below the other.

        Sums over bags are written as passes so that they run where the bags are: here, or on the workers of a cluster
        (`ClusterBags`).

        Parameters
        ----------
        work : callable
            work(part, *rows of own, *shared) gives an array with one row per bag of the part.
        own : sequence of ndarray
            Arrays with one row per bag.
        shared : sequence
            What all parts are given.
        size : int, optional
            Bytes of tokens per part; by default some megabytes, more on a device.

        Returns
        -------
        array
            One row per bag, NumPy's or JAX's, as the work gives it.
        """
        found = list(self._worked(work, own, shared, size))
        return found[0] if len(found) == 1 else namespace(found[0]).concatenate(found)

    def combined(
        self, work: Work, combine: Combination = np.add, own: Sequence[Any] = (), shared: Sequence[Any] = ()
    ) -> Any:
        """A pass over all bags: what the work gives for every part, combined (by default added) in the order of the bags.

        Parameters
        ----------
        work : callable
            work(part, *rows of own, *shared).
        combine : callable
            Two results -> one, associative.
        own : sequence of ndarray
            Arrays with one row per bag.
        shared : sequence
            What all parts are given.

        Returns
        -------
        object
            The combination.
        """
        return reduce(combine, self._worked(work, own, shared))

    def _worked(self, work: Work, own: Sequence[Any], shared: Sequence[Any], size: int | None = None) -> Iterator[Any]:
        if size is None:
            size = DEVICE_BLOCK_BYTES if is_jax_array(self.tokens) else BLOCK_BYTES
        first = 0
        for part in self.batches(size):
            last = first + len(part)
            yield work(part, *(rows[first:last] for rows in own), *shared)
            first = last

    def scaled_by(self, scaler: Any) -> Bags:
        """The same bags with tokens scaled by a fitted `BagScaler`."""
        return self.with_tokens(scaler.scaled(self.tokens), self.feature_names)

    def with_tokens(self, tokens: np.ndarray, feature_names: np.ndarray | None = None) -> Bags:
        """The same bags with other token features (one row per token, in the same order)."""
        if len(tokens) != self.n_tokens:
            raise ValueError(f"tokens must have one row per token ({self.n_tokens}), got {len(tokens)}")
        return Bags.trusted(tokens, self.starts, self.ids, feature_names)

    def device(self, wanted: str, beside: int = 0) -> Any | None:
        """The JAX device for work on these bags, None for NumPy.

        Parameters
        ----------
        wanted : str
            "auto", "numpy", "cpu" or "gpu", as `devices.device_for` takes it.
        beside : int
            Bytes that the work needs besides the tokens and what is made of them.

        Returns
        -------
        jax.Device or None
            Where to work.
        """
        # Lists of rows, padded to the longest bag, and values in their shape.
        lists = 32 * len(self) * int(self.lengths.max())
        return device_for(wanted, self.tokens, lists + beside)

    def on_device(self, device: Any | None) -> Bags:
        """The same bags with their tokens on a JAX device (None: as they are). Call it inside `devices.working_on`."""
        if device is None:
            return self
        import jax

        return Bags.trusted(jax.device_put(self.tokens, device), self.starts, self.ids, self.feature_names)

    def astype(self, dtype: Any) -> Bags:
        """The same bags in another precision."""
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
        """One label per bag, in the bags' order, from a mapping or pandas Series keyed by bag id."""
        return labels_of(self.ids, labels)

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
    """A float32 or float64 C-ordered array; single precision stays single.

    Parameters
    ----------
    values : array-like
        Numbers; missing values of pandas' own types become NaN.
    where : str
        What the message says about whose features they are, such as " of bag 3".

    Returns
    -------
    ndarray
        The numbers.
    """
    if hasattr(values, "toarray") and not isinstance(values, np.ndarray):
        raise TypeError("Sparse data was passed, but dense data is required. Use '.toarray()' to convert to dense.")
    if hasattr(values, "dtypes") and hasattr(values, "columns") and any(_extension(t) for t in values.dtypes):
        values = values.astype({c: _plain_type(t) for c, t in values.dtypes.items() if _extension(t)})
    raw = np.asarray(values)
    if np.iscomplexobj(raw):
        raise ValueError(f"Complex data not supported{where}")
    if raw.dtype.names is not None:
        raise ValueError(f"the features{where} must be plain numbers, got records with the fields {raw.dtype.names}")
    if raw.dtype in (np.float32, np.float64):
        return np.ascontiguousarray(raw)
    try:
        return np.ascontiguousarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the features{where} must be numbers: {error}") from None


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
    codes, uniques = distinct_ids(ids, len(tokens))
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        tokens, codes = tokens[order], codes[order]
    return tokens, starts_of(np.bincount(codes)), uniques, names


def distinct_ids(ids: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which bag every token belongs to.

    Parameters
    ----------
    ids : array-like
        One id per token.
    count : int
        The number of tokens.

    Returns
    -------
    tuple of ndarrays
        The bag of every token, counted in order of first appearance, and the bags' ids.

    Raises
    ------
    ValueError
        If there are not `count` ids, one of them is missing, or they are not text or numbers.
    """
    import pandas as pd

    keys: Any = ids if hasattr(ids, "dtype") else list(ids)
    if isinstance(keys, list):
        # NumPy would make one type of them all: 1 and "1" the same text, long integers the same float.
        one_kind = len({type(key) for key in keys}) == 1 and isinstance(keys[0], str | int | float | np.generic)
        array = np.asarray(keys) if one_kind else None
        if array is None or array.ndim != 1 or (isinstance(keys[0], int) and array.dtype.kind == "f"):
            array = np.empty(len(keys), dtype=object)
            array[:] = keys
        keys = array
    if keys.shape != (count,):
        raise ValueError(f"ids must hold one bag id per token ({count}), got shape {keys.shape}")
    if count == 0:
        raise ValueError("there are no bags")
    try:
        codes, uniques = pd.factorize(keys)
    except TypeError:  # lists and dicts cannot be told apart
        raise ValueError("the bag ids must be text or numbers, not lists or other objects") from None
    if codes.min() < 0:
        raise ValueError(f"token {int(np.argmin(codes))} has no bag id")
    return codes, np.asarray(uniques)


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
