"""An order of the training bags that depends on what they hold, not on how they came: inner splits follow it.

Bags are sorted by a number made of their standardised tokens, so neither the order in which the bags are given, nor the
features' units and origin, nor single or double precision move a bag from one inner fold to another.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from ..bags.bags import Bags
from ..bags.scaler import BagScaler
from ..bags.scratch import rowwise
from ..bags.segments import bag_mean

# Beyond this, numbers are not rounded to single precision, where they would overflow.
LARGEST_SINGLE = 1e30
# Decimals of the sorting number that count. Rounding errors are far smaller, and different bags rarely agree in as many.
DECIMALS = 9


def canonical(bags: Bags, signs: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bags of positive weight, identical ones once, in an order of their own.

    Parameters
    ----------
    bags : Bags
        All bags.
    signs, weights : ndarray
        Their labels and weights.

    Returns
    -------
    tuple of ndarrays
        The indices of the bags to use, in order, and the summed weights of each and its copies.
    """
    places: dict[bytes, int] = {}
    chosen: list[int] = []
    total: list[float] = []
    zero = bags.tokens.dtype.type(0)
    for i, bag in enumerate(bags):
        if not weights[i] > 0:
            continue
        content = (bag + zero).reshape(-1).view(np.uint8)  # -0.0 and 0.0 are the same number
        key = blake2b(content, digest_size=16, key=b"+" if signs[i] > 0 else b"-").digest()
        place = places.setdefault(key, len(chosen))
        if place == len(chosen):
            chosen.append(i)
            total.append(0.0)
        total[place] += float(weights[i])
    rows = np.array(chosen)
    # By content first: sums over the bags are then the same to the last digit in whatever order these came.
    by_content = np.array([place for _, place in sorted(places.items())])
    rows, merged = rows[by_content], np.array(total)[by_content]
    order = np.argsort(_sorting_numbers(bags[rows]), kind="stable")
    return rows[order], merged[order]


def _sorting_numbers(bags: Bags) -> np.ndarray:
    """For each bag the mean over its tokens of <g, z> + <h, |z|>, z the standardised token and g, h fixed random numbers.

    |z| tells apart bags of the same mean. The tokens are standardised with their own moments over all bags, hence units
    and origins drop out.
    """
    scaler = BagScaler(clip=False).fit(bags)
    g, h = np.random.default_rng(0).standard_normal((2, bags.n_features)) / np.sqrt(bags.n_features)

    def numbers(tokens: np.ndarray) -> np.ndarray:
        if np.abs(tokens).max() < LARGEST_SINGLE:
            tokens = tokens.astype(np.float32)
        z = scaler.scaled_block(tokens.astype(np.float64))
        return (z @ g + np.abs(z) @ h)[:, None]

    of_tokens = rowwise(numbers, bags.tokens, 1, np.float64)[:, 0]
    return np.round(bag_mean(of_tokens, bags.starts), DECIMALS)
