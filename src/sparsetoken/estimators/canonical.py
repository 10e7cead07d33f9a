"""An order of the training bags that depends on what they hold, not on how they came: inner splits follow it.

Bags are sorted by a number made of their standardised tokens, so neither the order in which the bags are given, nor the
features' units and origin, nor single or double precision move a bag from one inner fold to another.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..bags.bags import Bags
from ..bags.cluster import ClusterBags
from ..bags.scaler import MOMENTS, BagScaler, Moments, merged_moments, part_moments
from ..bags.scratch import rowwise
from ..bags.segments import bag_mean
from .training_range import SUMMARIES, training_summaries

# Numbers beyond these bounds would overflow or lose digits in single precision.
LEAST_SINGLE, LARGEST_SINGLE = 1e-30, 1e30
# Decimals of the sorting number that count. Rounding errors are far smaller, and different bags rarely agree in as many.
DECIMALS = 9
CONTENTS, NUMBERS, MEAN_TOKENS = "contents", "sorting numbers", "mean tokens"  # names of what bags keep


class Canonical(NamedTuple):
    """Which bags to use, and what became of the others.

    Attributes
    ----------
    rows : ndarray
        The indices of the bags to use, in order.
    weights : ndarray
        The summed weights of each and its copies.
    places : ndarray
        For every bag its place among the rows, -1 for a bag of weight zero.
    """

    rows: np.ndarray
    weights: np.ndarray
    places: np.ndarray


def canonical(bags: Bags, labels: np.ndarray, weights: np.ndarray, real_valued: bool = False) -> Canonical:
    """The bags of positive weight, identical ones once, in an order of their own.

    Parameters
    ----------
    bags : Bags
        All bags.
    labels, weights : ndarray
        Their labels (-1 or +1) and weights.
    real_valued : bool
        Whether labels are any numbers instead: then copies are merged where their labels are equal.

    Returns
    -------
    Canonical
        The bags to use.
    """
    if real_valued:
        tags = np.asarray(labels, dtype=np.float64)[:, None].view(np.uint8)
    else:
        tags = np.where(np.asarray(labels) > 0, ord("+"), ord("-")).astype(np.uint8)[:, None]
    used = np.asarray(weights) > 0
    digest = _digest_of(bags, used)
    # The first bag of the same content and label, for bags that may have one.
    first = np.arange(len(bags))
    known: dict[bytes, int] = {}
    for i in np.flatnonzero(used & _perhaps_copied(bags, used)):
        first[i] = known.setdefault(digest(int(i)) + tags[i].tobytes(), int(i))
    rows = np.flatnonzero(used & (first == np.arange(len(bags))))
    merged = np.bincount(first[used], np.asarray(weights, dtype=np.float64)[used], minlength=len(bags))[rows]
    everything = len(rows) == len(bags) and not isinstance(bags, ClusterBags)  # then no copy of the tokens is needed
    numbers = _sorting_numbers(bags)[rows] if everything else _sorting_numbers(bags[rows])
    order = np.argsort(numbers, kind="stable")
    # Bags that the numbers do not tell apart come in the order of their contents, however they were given.
    same = np.flatnonzero(np.diff(numbers[order]) == 0)
    for run in np.split(same, np.flatnonzero(np.diff(same) > 1) + 1) if len(same) else []:
        tied = slice(run[0], run[-1] + 2)
        order[tied] = sorted(order[tied], key=lambda k: digest(int(rows[k])) + tags[rows[k]].tobytes())
    places = np.full(len(bags), -1)
    places[rows[order]] = np.arange(len(rows))
    return Canonical(rows[order], merged[order], np.where(used, places[first], -1))


def joined_groups(groups: np.ndarray | None, places: np.ndarray) -> np.ndarray | None:
    """The groups of the canonical bags; groups that hold copies of the same bag become one.

    Parameters
    ----------
    groups : ndarray of int or None
        The group of every bag.
    places : ndarray
        As `Canonical` has them.

    Returns
    -------
    ndarray of int or None
        Numbered in the order of the canonical bags, so that names do not matter.
    """
    if groups is None:
        return None
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    used = places >= 0
    count, bags = int(groups.max()) + 1, int(places.max()) + 1
    links = coo_array((np.ones(used.sum()), (groups[used], count + places[used])), shape=(count + bags,) * 2)
    _, component = connected_components(links, directed=False)
    own = component[count:]
    _, first, codes = np.unique(own, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def _digest_of(bags: Any, used: np.ndarray) -> Callable[[int], bytes]:
    """A bag's number -> 16 bytes that say what it holds.

    On a cluster, where a pass reads all files, those of all bags are made at once, and the moments of the used bags come along:
    order and scaling need them next. If there are copies among the bags they are of no use, and another pass finds those of the
    bags without copies.
    """
    if not isinstance(bags, ClusterBags):
        return lambda i: _digest(bags[i])
    digests = bags.kept_rows(CONTENTS)
    if digests is None:
        places, found, moments = bags.combined(
            _digests_and_moments, _digests_and_moments_of_both, own=(np.arange(len(bags)), used)
        )
        bags[used].keep(MOMENTS, moments)
        digests = np.empty_like(found)
        digests[places] = found
        bags.keep_rows(CONTENTS, digests)
    return lambda i: digests[i].tobytes()


def _perhaps_copied(bags: Any, used: np.ndarray) -> np.ndarray:
    """Whether another of the used bags is as long and has the same first, middle and last token, as far as a sum of their bits
    tells; on a cluster, where this would be a pass, True.

    Reading a bag in full takes longer than all else that is asked of it here, and hardly any bag is a copy.
    """
    if isinstance(bags, ClusterBags):
        return np.ones(len(bags), dtype=bool)
    rng, lengths = np.random.default_rng(0), bags.lengths
    sums = lengths.astype(np.uint64)
    for rows in (bags.starts, bags.starts + lengths // 2, bags.starts + lengths - 1):
        bits = _bytes(bags.tokens[rows]).view(np.uint32)
        sums += bits @ rng.integers(1, 2**63, bits.shape[1], dtype=np.uint64)
    found = np.zeros(len(bags), dtype=bool)
    _, code, count = np.unique(sums[used], return_inverse=True, return_counts=True)
    found[used] = count[code] > 1
    return found


_Contents = tuple[np.ndarray, np.ndarray, Moments | None]


def _digests_and_moments(part: Bags, places: np.ndarray, used: np.ndarray) -> _Contents:
    own = part if used.all() else part[used] if used.any() else None
    return places, _digests(part), None if own is None else part_moments(own)


def _digests_and_moments_of_both(one: _Contents, other: _Contents) -> _Contents:
    moments = one[2] or other[2]
    if one[2] is not None and other[2] is not None:
        moments = merged_moments(one[2], other[2])
    return np.append(one[0], other[0]), np.append(one[1], other[1], axis=0), moments


def _digests(part: Bags) -> np.ndarray:
    return np.frombuffer(b"".join(_digest(bag) for bag in part), dtype=np.uint8).reshape(len(part), 16)


def _digest(bag: np.ndarray) -> bytes:
    return blake2b(_bytes(bag).tobytes(), digest_size=16).digest()


def _bytes(tokens: np.ndarray) -> np.ndarray:
    """The bytes of each token, (tokens, bytes), the same where the numbers are the same."""
    return np.ascontiguousarray(tokens + tokens.dtype.type(0)).view(np.uint8)  # -0.0 and 0.0 are the same number


def _sorting_numbers(bags: Any) -> np.ndarray:
    """For each bag the mean over its tokens of <g, z> + <h, |z|>, z the standardised token and g, h fixed random numbers.

    |z| tells apart bags of the same mean. The tokens are standardised with their own moments over all bags, hence units
    and origins drop out.
    """
    known = bags.kept_rows(NUMBERS) if isinstance(bags, ClusterBags) else bags.kept(NUMBERS)
    if known is not None:
        return known
    scaler = BagScaler(clip=False).fit(bags)
    g, h = np.random.default_rng(0).standard_normal((2, bags.n_features)) / np.sqrt(bags.n_features)
    if not isinstance(bags, ClusterBags):
        numbers = np.round(bags.per_bag(_numbers, shared=(scaler, g, h)), DECIMALS)
        bags.keep(NUMBERS, numbers)
        return numbers
    # There the scaled bags' summaries come along: every learner that trains on a cluster asks for them next.
    standard = BagScaler().fit(bags)
    found = bags.per_bag(_numbers_and_summaries, shared=(scaler, g, h, standard))
    scaled = bags.scaled_by(standard)
    scaled.keep_rows(MEAN_TOKENS, found[:, 1 : 1 + bags.n_features].astype(bags.dtype))
    scaled.keep_rows(SUMMARIES, found[:, 1:])
    numbers = np.round(found[:, 0], DECIMALS)
    bags.keep_rows(NUMBERS, numbers)
    return numbers


def _numbers_and_summaries(
    part: Bags, scaler: BagScaler, g: np.ndarray, h: np.ndarray, standard: BagScaler
) -> np.ndarray:
    """The sorting number of each bag, and beside it the summaries of its scaled tokens, the mean token first."""
    return np.column_stack([_numbers(part, scaler, g, h), training_summaries(part, standard)])


def mean_token(part: Bags) -> Any:
    """xbar of each bag, in the tokens' precision."""
    return bag_mean(part.tokens, part.starts)


def mean_tokens(bags: Any) -> Any:
    """`mean_token` by a pass over all bags, which is not made where bags on a cluster know it already.

    Parameters
    ----------
    bags : Bags or ClusterBags
        All bags, scaled where that is wanted.

    Returns
    -------
    array of shape (bags, features)
        NumPy's or JAX's, in the tokens' precision.
    """
    known = bags.kept_rows(MEAN_TOKENS) if isinstance(bags, ClusterBags) else None
    return bags.per_bag(mean_token) if known is None else known


def _numbers(part: Bags, scaler: BagScaler, g: np.ndarray, h: np.ndarray) -> np.ndarray:
    def of_tokens(tokens: np.ndarray) -> np.ndarray:
        if scaler.scale_.min() > LEAST_SINGLE and max(tokens.max(), -tokens.min()) < LARGEST_SINGLE:
            rounded = tokens.astype(np.float32)
        else:  # the same digits of larger or smaller numbers, which takes longer
            digits, exponents = np.frexp(tokens.astype(np.float64))
            rounded = np.ldexp(digits.astype(np.float32).astype(np.float64), exponents)
        z = rounded - scaler.mean_  # in double precision
        z /= scaler.scale_
        along = z @ g
        return (along + np.abs(z, out=z) @ h)[:, None]

    return bag_mean(rowwise(of_tokens, part.tokens, 1, np.float64)[:, 0], part.starts)
