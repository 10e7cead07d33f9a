"""`Bags`: the one container behind every form in which people hold bags of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .._core.arrays import is_jax_array, namespace
from .._core.devices import device_for
from . import temporary_files
from .input_forms import READ, checked_treatment, first_not_finite, shown, taken_apart
from .reading.tables import labels_of
from .sums_per_bag import Combination, Work, bag_mean, bag_sum, lengths_of, places_of, rows_of, spread_of, starts_of
from .temporary_files import rows_taken


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
        not be neighbours. Ids are compared with their types: 1 and "1" are two bags.
    mask : array-like, optional
        (n, L), True where a token of a padded (n, L, d) array is real.
    missing : "error", "keep" or "drop-token"
        Whether missing values (NaN) are refused, kept for an estimator that takes them (its own `missing`), or the tokens
        that have some are left out.

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

    """

    in_files = False  # whether every pass reads the tokens from files again, as on a cluster

    __slots__ = ("feature_names", "ids", "starts", "tokens")

    tokens: np.ndarray
    starts: np.ndarray
    ids: np.ndarray
    feature_names: np.ndarray | None

    def __init__(self, X: Any, ids: Any = None, mask: Any = None, *, missing: str = "error"):
        checked_treatment(missing, READ)
        if ids is not None and mask is not None:
            raise ValueError("give ids (flat tokens) or mask (padded bags), not both")
        if isinstance(X, Bags):
            if ids is not None or mask is not None:
                raise ValueError("these are Bags already; they take no ids or mask")
            tokens, starts, names, features = X.tokens, X.starts, X.ids, X.feature_names
        else:
            tokens, starts, names, features = taken_apart(X, ids, mask)
        if len(starts) == 0:
            raise ValueError("there are no bags")
        if tokens.shape[1] == 0:
            raise ValueError(f"the tokens have 0 feature(s) (shape={tokens.shape}) while a minimum of 1 is required.")
        self.tokens, self.starts, self.ids, self.feature_names = tokens, starts, names, features
        self._check_finite(missing)
        if missing == "drop-token":
            left = self.without_incomplete_tokens()
            self.tokens, self.starts = left.tokens, left.starts

    @classmethod
    def from_files(cls, files: Any, labels: Any = None, **how: Any) -> Any:
        """Bags from a folder, one file per bag, as tools that extract features write them.

        Tokens of more than some megabytes in all are copied to a temporary file (in TMPDIR), from which the estimators stream
        them: memory stays bounded however large the folder is.

        Parameters
        ----------
        files : str, Path or sequence of these
            A pattern ("features/*.h5", also "**/*.pt"), a folder, or the files themselves: .npy, .npz, .h5, .pt or .parquet,
            each with a (tokens, features) array. A file's name without its ending is the bag's id. Parquet files that have
            the column `bag` may hold several bags each.
        labels : str, Path, DataFrame, Series or mapping, optional
            A table (file or frame) with the columns `bag` and `label`, or labels keyed by bag id.
        **how
            `bag` and `label` ("bag_id" and "label", columns of tables), and what `read_bags` takes: `key`, `ignore`,
            `skip_unmatched`, `missing`, `executor`, `scheduler` and so on. On a Dask cluster nothing is copied: workers read
            the files in every pass, some megabytes at a time, and the bags are `ClusterBags`, which only some learners accept.

        Returns
        -------
        Bags (or ClusterBags), or tuple of these and ndarray
            The bags; with `labels`, the bags and their labels.
        """
        from .reading.read_bags import open_folder  # which makes bags
        from .reading.tables import Reading

        opened = open_folder(files, labels, Reading(**how))
        return opened.bags if labels is None else (opened.bags, opened.labels)

    @classmethod
    def trusted(cls, tokens: np.ndarray, starts: np.ndarray, ids: np.ndarray, names: np.ndarray | None) -> Bags:
        """Bags from valid parts (nothing is checked)."""
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
        """(number of bags,), for cross-validation."""
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
        chosen = places_of(index, len(self))
        lengths = self.lengths[chosen]
        return Bags.trusted(
            rows_taken(self.tokens, rows_of(self.starts[chosen], lengths)),
            starts_of(lengths),
            self.ids[chosen],
            self.feature_names,
        )

    def __repr__(self) -> str:
        return (
            f"Bags({len(self)} bags, {spread_of(self.lengths)} tokens each, {self.n_features} features, "
            f"{self.tokens.dtype})"
        )

    # -- what one does with them --------------------------------------------------------------------------------------

    def batches(self, size: int | None = None) -> Iterator[Bags]:
        """The bags in order, some megabytes (`size` bytes) of them at a time (at least one bag), without copying."""
        if size is None:
            size = temporary_files.DEVICE_BLOCK_BYTES if is_jax_array(self.tokens) else temporary_files.BLOCK_BYTES
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

    def per_bag(
        self, work: Work, by_bag: Sequence[Any] = (), shared: Sequence[Any] = (), size: int | None = None
    ) -> Any:
        """A pass over all bags, some megabytes (`size` bytes) at a time: the rows (one per bag) that work(part, *rows of
        by_bag, *shared) gives, concatenated; `by_bag` are arrays with one row per bag, `shared` goes to all parts.

        Sums over bags are written as passes so that they run where the bags are: here, or on a cluster (`ClusterBags`).
        """
        results = list(self._worked(work, by_bag, shared, size))
        return results[0] if len(results) == 1 else namespace(results[0]).concatenate(results)

    def combined(
        self, work: Work, combine: Combination = np.add, by_bag: Sequence[Any] = (), shared: Sequence[Any] = ()
    ) -> Any:
        """A pass as of `per_bag` whose results are combined in the order of the bags, by default added; `combine` is
        associative."""
        return reduce(combine, self._worked(work, by_bag, shared))

    def _worked(
        self, work: Work, by_bag: Sequence[Any], shared: Sequence[Any], size: int | None = None
    ) -> Iterator[Any]:
        first = 0
        for part in self.batches(size):
            last = first + len(part)
            yield work(part, *(rows[first:last] for rows in by_bag), *shared)
            first = last

    def mean_tokens(self) -> Any:
        """The mean token of every bag, (bags, features), in the tokens' precision."""
        return self.per_bag(mean_tokens_of_part)

    def once(self, name: str, find: Callable[[], Any]) -> Any:
        """What is found by a pass; bags on a cluster, whose passes read all files, keep it under this name."""
        return find()

    once_per_bag = once  # for an array with one row per bag

    def scaled_by(self, scaler: Any) -> Bags:
        """The same bags with tokens scaled by a fitted `BagScaler`."""
        return self.with_tokens(scaler.scaled(self.tokens), self.feature_names)

    def with_tokens(self, tokens: np.ndarray, feature_names: np.ndarray | None = None) -> Bags:
        """The same bags with other token features (one row per token, in the same order)."""
        if len(tokens) != self.n_tokens:
            raise ValueError(f"tokens must have one row per token ({self.n_tokens}), got {len(tokens)}")
        return Bags.trusted(tokens, self.starts, self.ids, feature_names)

    def device(self, wanted: str, beside: int = 0) -> Any | None:
        """The JAX device for work on these bags ("auto", "numpy", "cpu" or "gpu"), None for NumPy; `beside` are the bytes that
        the work needs besides the tokens and their copies."""
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

    def without_incomplete_tokens(self) -> Bags:
        """The bags without the tokens that have missing values."""
        blocks = temporary_files.row_blocks(self.tokens)
        complete = np.concatenate([~np.isnan(self.tokens[block]).any(axis=1) for block in blocks])
        if complete.all():
            return self
        lengths = bag_sum(complete.astype(np.intp), self.starts)
        if lengths.min() == 0:
            empty = shown(self.ids[int(np.argmin(lengths))])
            raise ValueError(f"bag {empty} has no token without missing values: use missing='impute', or leave it out")
        tokens = rows_taken(self.tokens, np.flatnonzero(complete))
        return Bags.trusted(tokens, starts_of(lengths), self.ids, self.feature_names)

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

    def _check_finite(self, missing: str) -> None:
        not_finite = first_not_finite(self.tokens, missing, self.feature_names)
        if not_finite is not None:
            row, value, where = not_finite
            i = int(np.searchsorted(self.starts, row, side="right")) - 1
            raise ValueError(f"Input contains {value}: bag {shown(self.ids[i])}, token {row - self.starts[i]}, {where}")


def mean_tokens_of_part(part: Bags) -> Any:
    """The mean token of each bag of a part."""
    return bag_mean(part.tokens, part.starts)
