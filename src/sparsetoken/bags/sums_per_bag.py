"""Reductions over ragged bags: values lie flat, one per token, and bag i owns values[starts[i] : starts[i] + lengths[i]].

No tokens are ever padded, so a bag costs what its tokens cost. Every bag has at least one token (`Bags` sees to it), which
is what makes `reduceat` right. Values may be NumPy's or JAX's, and the result is of the same kind; on a device the list of
each bag's rows is padded to the longest bag's (`Layout`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import namespace
from .temporary_files import DEVICE_BLOCK_BYTES

Work = Callable[..., Any]  # work(part of the bags, *rows of arrays with one row per bag, *what all parts are given)
Combination = Callable[[Any, Any], Any]  # two results of work -> one
LARGEST_EXPONENT = 300.0  # up to which exponentials, and sums of many, neither overflow nor underflow
# Columns and numbers from which on sums over bags are quicker as a sparse product (up to eight times), and the longest bag for
# which single precision allows it: rounding errors of sums grow with the root of the number of rows.
WIDE, MANY, SHORT = 16, 2**16, 256


def lengths_of(starts: Any, total: int) -> Any:
    """Tokens per bag, from the bags' first rows (or their layout) and the number of all tokens."""
    if isinstance(starts, Layout):
        return (starts.rows < total).sum(axis=1)
    lengths = np.empty_like(starts)  # in a few microseconds: short fits call it thousands of times
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = total - starts[-1:]
    return lengths


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """First row of each bag, from the tokens per bag."""
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)


def rows_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The token rows of the given bags, bag after bag."""
    return np.repeat(starts - starts_of(lengths), lengths) + np.arange(int(lengths.sum()))


def places_of(index: Any, count: int) -> np.ndarray:
    """The places among so many bags that an index (slice, places or mask) means, in its order; at least one."""
    chosen = np.asarray(index) if not isinstance(index, slice) else np.arange(count)[index]
    if chosen.ndim != 1:
        raise ValueError(f"an index of bags must be a slice, a list of places or a mask, got {index!r}")
    if chosen.size and not isinstance(index, slice):
        chosen = np.arange(count)[chosen]
    if chosen.size == 0:
        raise ValueError("this index leaves no bags")
    return chosen


def spread_of(lengths: np.ndarray) -> str:
    """The tokens per bag in words: "5", or "2-9" where bags differ."""
    low, high = lengths.min(), lengths.max()
    return f"{low}" if low == high else f"{low}-{high}"


def over_tokens(values: Any, starts: Any, total: int) -> Any:
    """Each bag's value, once for each of its tokens."""
    if not isinstance(starts, Layout) and namespace(values) is np:
        return np.repeat(values, lengths_of(starts, total), axis=0)
    return _kernels().take(values, layout_of(starts, total).bag_of_token)


def bag_sum(values: Any, starts: Any) -> Any:
    """Sum over each bag's tokens."""
    if namespace(values) is np:
        if _added_row_by_row(values, starts):
            return _selector(np.ones(len(values), dtype=values.dtype), starts) @ values
        if values.ndim == 2 and values.shape[1] >= WIDE and len(values) > SHORT * len(starts):
            # Few, long bags, one by one: a seventh of the time of `reduceat`, and more accurate in single precision.
            parts = np.split(values, starts[1:])
            return np.stack([part.sum(axis=0, dtype=np.float64) for part in parts]).astype(values.dtype, copy=False)
        return np.add.reduceat(values, starts, axis=0)
    if values.ndim > 1:
        return weighted_bag_sum(np.ones(len(values), dtype=values.dtype), values, starts)
    return _kernels().sums(values, layout_of(starts, len(values)))


def bag_mean(values: Any, starts: Any) -> Any:
    """Mean over each bag's tokens."""
    lengths = lengths_of(starts, len(values)).astype(values.dtype)
    return bag_sum(values, starts) / lengths.reshape(-1, *[1] * (values.ndim - 1))


def bag_mean_and_spread(values: Any, starts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over each bag's tokens, in double precision and NumPy's memory."""
    mean, square = (np.asarray(bag_mean(x, starts), dtype=np.float64) for x in (values, values * values))
    return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def bag_extremes(values: Any, starts: Any) -> tuple[Any, Any]:
    """The least and the largest value of each bag's tokens, columns each by itself."""
    if namespace(values) is np:
        parts = np.split(values, starts[1:])  # a third of the time of `reduceat` where there are many columns
        return np.stack([part.min(axis=0) for part in parts]), np.stack([part.max(axis=0) for part in parts])
    rows = layout_of(starts, len(values)).rows
    return -_kernels().largest(-values, rows)[: len(rows)], _kernels().largest(values, rows)[: len(rows)]


def bag_softmax(scores: Any, starts: Any) -> tuple[Any, Any]:
    """softmax(scores) within each bag, and log mean exp(scores) of each bag; columns of scores each by itself."""
    if namespace(scores) is not np:
        return _kernels().softmax(scores, layout_of(starts, len(scores)))
    lengths = lengths_of(starts, len(scores))
    top = np.maximum.reduceat(scores, starts, axis=0)
    weights = scores - np.repeat(top, lengths, axis=0)
    np.exp(weights, out=weights)
    total = bag_sum(weights, starts)
    weights /= np.repeat(total, lengths, axis=0)
    return weights, top + np.log((total.T / lengths.astype(scores.dtype)).T)


def bag_exponentials(scores: Any, starts: Any) -> tuple[Any, Any, Any]:
    """exp(scores) up to a factor for each bag, its sum over each bag, and log mean exp(scores); columns each by itself.

    The weights of `bag_softmax` are the exponentials over their sum. Where they are only summed over a bag, dividing the sum
    afterwards saves a pass over the tokens; where no score is large, the factor is one, which saves two more.
    """
    if namespace(scores) is np and np.max(scores) <= LARGEST_EXPONENT and np.min(scores) >= -LARGEST_EXPONENT:
        weights = np.exp(scores)
        total = bag_sum(weights, starts)
        lengths = lengths_of(starts, len(scores)).astype(scores.dtype)
        return weights, total, np.log(total / lengths.reshape(-1, *[1] * (scores.ndim - 1)))
    weights, smooth_maximum = bag_softmax(scores, starts)
    return weights, 1.0, smooth_maximum


def weighted_bag_sum(weights: Any, tokens: Any, starts: Any) -> Any:
    """sum_l weights_l tokens_l of each bag: (bags, features)."""
    if namespace(tokens) is not np:
        layout = layout_of(starts, len(tokens))
        return _kernels().weighted_sums(weights.astype(tokens.dtype), tokens, layout.rows)[: len(layout.rows)]
    return _selector(weights.astype(tokens.dtype), starts) @ tokens


def _added_row_by_row(values: np.ndarray, starts: np.ndarray) -> bool:
    """Whether a sparse product is faster and accurate enough: it adds rows one after the other, `reduceat` sums each column
    pairwise."""
    if values.ndim != 2 or values.shape[1] < WIDE or values.size < MANY or not values.flags.c_contiguous:
        return False
    if values.dtype != np.float64:
        return values.dtype == np.float32 and int(lengths_of(starts, len(values)).max()) <= SHORT
    return True


def _selector(weights: np.ndarray, starts: np.ndarray) -> Any:
    """(bags, tokens): each token's weight in its own bag's row."""
    from scipy.sparse import csr_array

    total = len(weights)
    return csr_array((weights, np.arange(total), np.append(starts, total)), shape=(len(starts), total))


class Layout(NamedTuple):
    """Where the bags lie, for JAX: sums are then made of gathers, and the same on every run (scattered sums are not)."""

    rows: Any
    bag_of_token: Any

    def by_bag(self, values: Any, filler: float) -> Any:
        """(bags, longest bag, ...) values, the filler where a bag has no more."""
        import jax.numpy as jnp

        beyond = jnp.full((1, *values.shape[1:]), filler, dtype=values.dtype)
        return jnp.concatenate([values, beyond])[self.rows]


def layout_of(starts: Any, total: int) -> Layout:
    """The layout of bags with these first rows, on the current JAX device (a layout: itself)."""
    if isinstance(starts, Layout):
        return starts
    import jax

    return _layout(np.asarray(starts, dtype=np.int64).tobytes(), total, jax.config.jax_default_device)  # type: ignore[attr-defined]


@lru_cache(maxsize=4)  # the same bags are summed over again and again
def _layout(starts_bytes: bytes, total: int, device: Any) -> Layout:
    import jax.numpy as jnp

    starts = np.frombuffer(starts_bytes, dtype=np.int64)
    lengths = lengths_of(starts, total)
    place = np.arange(lengths.max())
    rows = np.where(place < lengths[:, None], starts[:, None] + place, total)
    return Layout(jnp.asarray(rows), jnp.asarray(np.repeat(np.arange(len(starts)), lengths)))


@lru_cache(maxsize=1)
def _kernels() -> SimpleNamespace:
    """The sums on a device, each compiled as one (JAX is imported here, not before)."""
    import jax
    import jax.numpy as jnp

    def softmax(scores, layout):
        top = layout.by_bag(scores, -np.inf).max(axis=1)
        weights = jnp.exp(scores - top[layout.bag_of_token])
        total = layout.by_bag(weights, 0.0).sum(axis=1)
        mean = (total.T / lengths_of(layout, len(scores)).astype(scores.dtype)).T
        return weights / total[layout.bag_of_token], top + jnp.log(mean)

    def in_batches(some, tokens, rows):
        """Some bags at a time: gathered tokens take room."""
        bags, longest = rows.shape
        count = max(1, min(bags, DEVICE_BLOCK_BYTES // (longest * tokens.shape[1] * tokens.dtype.itemsize)))
        batches = -(-bags // count)
        rows = jnp.append(rows, jnp.full((batches * count - bags, longest), len(tokens)), axis=0)
        return jax.lax.map(some, rows.reshape(batches, count, longest)).reshape(batches * count, -1)

    def weighted_sums(weights, tokens, rows):
        weights = jnp.append(weights, 0)

        def some(batch):
            return jnp.einsum("bl,bld->bd", weights[batch], tokens.at[batch].get(mode="clip"))

        return in_batches(some, tokens, rows)

    def largest(tokens, rows):
        return in_batches(
            lambda batch: tokens.at[batch].get(mode="fill", fill_value=-jnp.inf).max(axis=1), tokens, rows
        )

    return SimpleNamespace(
        take=jax.jit(lambda values, where: values[where]),
        sums=jax.jit(lambda values, layout: layout.by_bag(values, 0.0).sum(axis=1)),
        softmax=jax.jit(softmax),
        weighted_sums=jax.jit(weighted_sums),
        largest=jax.jit(largest),
    )
