"""Reductions over ragged bags: values lie flat, one a token, and bag i owns values[starts[i] : starts[i] + lengths[i]].

No bag is ever padded, so a bag costs what its tokens cost. Every bag has at least one token (`Bags` sees to it), which
is what makes `reduceat` right.
"""

from __future__ import annotations

import numpy as np


def lengths_of(starts: np.ndarray, total: int) -> np.ndarray:
    """Tokens a bag, from the bags' first rows and the number of all tokens."""
    return np.diff(np.append(starts, total))


def starts_of(lengths: np.ndarray) -> np.ndarray:
    """First row of each bag, from the tokens a bag."""
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.intp)


def rows_of(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The token rows of the given bags, bag after bag."""
    return np.repeat(starts - starts_of(lengths), lengths) + np.arange(int(lengths.sum()))


def bag_sum(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sum over each bag's tokens."""
    return np.add.reduceat(values, starts, axis=0)


def bag_mean(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Mean over each bag's tokens."""
    lengths = lengths_of(starts, len(values)).astype(values.dtype)
    return bag_sum(values, starts) / lengths.reshape(-1, *[1] * (values.ndim - 1))


def bag_softmax(scores: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """softmax(scores) within each bag, and log mean exp(scores) of each bag."""
    lengths = lengths_of(starts, len(scores))
    top = np.maximum.reduceat(scores, starts)
    weights = np.exp(scores - np.repeat(top, lengths))
    total = bag_sum(weights, starts)
    return weights / np.repeat(total, lengths), top + np.log(total / lengths.astype(scores.dtype))


def weighted_bag_sum(weights: np.ndarray, tokens: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """sum_l weights_l tokens_l of each bag: (bags, features), as one sparse product."""
    from scipy.sparse import csr_array

    indptr = np.append(starts, len(tokens))
    selector = csr_array(
        (weights.astype(tokens.dtype), np.arange(len(tokens)), indptr), shape=(len(starts), len(tokens))
    )
    return selector @ tokens
