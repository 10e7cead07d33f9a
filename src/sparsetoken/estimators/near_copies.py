"""Bags that are nearly the same: they count as one group, so that none of them tests what was learnt from another.

Repeated measurements, augmented bags and overlapping crops give each other away where they sit on both sides of an inner split:
held-out losses then promise what no new bag will keep. Identical bags are merged before (`canonical`); users who know their
groups say so. This module finds the rest, as far as it is beyond doubt.
"""

from __future__ import annotations

import numpy as np

from .kernels import squared_distances

# Pairs are compared one by one, so that the time grows with the square of the bags' number.
MOST_BAGS = 3000
# Quantiles of the squared distances between bags that tell how many independent directions d these have: of chi squared with d
# degrees of freedom they have the ratio observed. Copies, which are among the closest pairs, leave them alone as long as there
# are six or more different bags.
LOWER, UPPER = 0.2, 0.5
SAMPLE = 1000  # bags whose distances give these quantiles, at most
SAMPLED_VALUES = 37  # every so many-th of these distances tells where the quantiles lie
# Near copies are pairs so close that at most this share of them would be found among bags which have nothing to do with each
# other (the false discovery rate) ...
CHANCE = 0.02
# ... and closer than this share of the median distance, whatever chance says.
NEAR = 0.5
# Different bags that agree this closely (squared distance over the median) hold few different values, such as marks or counts:
# new bags will agree with training bags in the same way, and what was learnt from those counts.
SAME = 1e-12
# A class whose bags are all alike looks like copies of one bag, and new bags of it will be alike in the same way. Its bags stay
# apart where copies would leave it fewer groups than this, which is what the inner folds need, with most of its bags in one.
LEAST_GROUPS = 5
# Bags that are compared with all others at a time, and the most that a product of two points is off in single precision, in
# units of their lengths: a hundred times what is seen with thousands of features.
ROWS, IN_SINGLE = 250, 1e-4
# Added to standard deviations within a bag, in units of those over all tokens, before their logarithm is taken.
LEAST_SPREAD = 0.1


def near_copies(rows: np.ndarray, classes: np.ndarray) -> np.ndarray | None:
    """Groups of bags that are near copies of each other.

    Parameters
    ----------
    rows : ndarray of shape (bags, 2 features)
        Mean and standard deviation of each bag's scaled tokens.
    classes : ndarray of int
        The class of every bag, numbered from 0.

    Returns
    -------
    ndarray of int or None
        The group of every bag, numbered in their order; None where no bag has a near copy, or there are too many bags to ask.
    """
    n, d = len(rows), rows.shape[1] // 2
    if not 6 < n <= MOST_BAGS:
        return None
    points = np.array(rows, dtype=np.float64)
    np.log(LEAST_SPREAD + rows[:, d:], out=points[:, d:])
    points -= points.mean(axis=0)
    spread = np.sqrt(np.einsum("ij,ij->j", points, points) / n)
    varies = spread > 1e-9
    if not varies.any():
        return None
    points = points / spread if varies.all() else points[:, varies] / spread[varies]
    norms = np.einsum("ij,ij->i", points, points)
    every = -(-n // SAMPLE)
    single = points.astype(np.float32)
    pairs, closest = _distances(single[::every], norms[::every])
    lower, middle = _quantile(pairs, LOWER), _quantile(pairs, UPPER)
    if not lower > 0:  # `_chance` makes nothing of what is far below the median, as rounding errors are
        return None
    if every > 1:
        closest = _distances(single, norms, False)[1]
    first, second, distance = _close_pairs(points, norms, closest, NEAR**2 * middle)
    distance = distance / middle
    if not len(distance) or np.any(distance < SAME):
        return None
    expected = n * (n - 1) / 2 * _chance(lower / middle, np.sort(distance))
    kept = np.flatnonzero(expected <= CHANCE * np.arange(1, len(expected) + 1))
    if not len(kept):
        return None
    near = distance <= np.sort(distance)[kept[-1]]
    links = np.stack([first[near], second[near]])
    groups = _joined(links, n)
    alike = _alike(groups, classes)
    if np.any(alike):
        links = links[:, ~np.any(alike[classes[links]], axis=0)]
        if not links.size:
            return None
        groups = _joined(links, n)
    _, first_of, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first_of))[codes]


def _quantile(values: np.ndarray, share: float) -> float:
    """The quantile of many values, looked for among those between two of a sample; all are sorted where it is not there."""
    place = share * (len(values) - 1)
    before, after = int(place), min(int(place) + 1, len(values) - 1)
    sample = np.sort(values[::SAMPLED_VALUES])
    room = 4.0 * np.sqrt(len(sample) * share * (1.0 - share)) + 2.0  # standard errors of an order in a random sample
    middle = share * (len(sample) - 1)
    low, high = sample[max(0, int(middle - room))], sample[min(len(sample) - 1, int(middle + room))]
    below, inside = np.count_nonzero(values < low), np.sort(values[(values >= low) & (values <= high)])
    if not below <= before <= after < below + len(inside):
        return float(np.quantile(values, share))
    return float(inside[before - below] + (inside[after - below] - inside[before - below]) * (place - before))


def _distances(points: np.ndarray, norms: np.ndarray, all_pairs: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances of all pairs of points in single precision (if they are asked for), and from each point to the closest
    of those that follow; some points at a time, which stay near the processor."""
    pairs, closest = [], np.empty(len(points))
    sizes = norms.astype(np.float32)
    for start in range(0, len(points), ROWS):
        squares = points[start : start + ROWS] @ points[start:].T
        squares *= -2.0
        squares += sizes[start : start + ROWS, None]
        squares += sizes[start:]
        if all_pairs:
            pairs += [row[i + 1 :] for i, row in enumerate(squares)]
        np.fill_diagonal(squares, np.inf)
        closest[start : start + ROWS] = squares.min(axis=1)
    return np.concatenate(pairs) if all_pairs else np.zeros(0), closest


def _close_pairs(
    points: np.ndarray, norms: np.ndarray, closest: np.ndarray, most: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of points whose squared distance is below `most`: the earlier ones, the later ones, and the squared distances.

    Only points whose closest is not certainly farther, in single precision, are looked at again.
    """
    first, second, close = [], [], []
    asked = np.flatnonzero(closest - 2.0 * IN_SINGLE * np.sqrt(norms * norms.max()) < most)
    for start in range(0, len(asked), ROWS):
        some = asked[start : start + ROWS]
        squares = squared_distances(points[some], points[some[0] :])
        i, j = np.nonzero(squares < most)
        i, j = some[i], some[0] + j
        later = i < j
        first.append(i[later])
        second.append(j[later])
        close.append(squares[squares < most][later])
    nothing = np.zeros(0, dtype=int)
    return (
        np.concatenate([nothing, *first]),
        np.concatenate([nothing, *second]),
        np.concatenate([np.zeros(0), *close]),
    )


def _joined(links: np.ndarray, count: int) -> np.ndarray:
    """The groups that links, (2, links), make of so many bags."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one = np.ones(links.shape[1], dtype=bool)
    return connected_components(coo_array((one, tuple(links)), shape=(count, count)), directed=False)[1]


def _alike(groups: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """For every class, whether its bags are alike as a class, rather than copies of each other."""
    found = np.zeros(int(classes.max()) + 1, dtype=bool)
    for one in range(len(found)):
        sizes = np.unique(groups[classes == one], return_counts=True)[1]
        found[one] = len(sizes) < LEAST_GROUPS and 2 * sizes.max(initial=0) > max(sizes.sum(), 2)
    return found


def _chance(ratio: float, distances: np.ndarray) -> np.ndarray:
    """The share of pairs that would be closer by chance, of squared distances in units of the median."""
    from scipy.optimize import brentq
    from scipy.special import gammainc, gammaincinv

    def quantile(share: float, d: float) -> float:
        """Of chi squared with d degrees of freedom, over two."""
        return float(gammaincinv(0.5 * d, share))

    def gap(log_d: float) -> float:
        d = float(np.exp(log_d))
        return float(np.log(quantile(LOWER, d) / quantile(UPPER, d)) - np.log(ratio))

    low, high = np.log(0.5), np.log(1e4)
    if gap(low) >= 0:  # fewer directions than one: clusters, which say nothing about chance
        return np.ones(len(distances))
    d = float(np.exp(high if gap(high) <= 0 else brentq(gap, low, high)))
    return gammainc(0.5 * d, distances * quantile(UPPER, d))
