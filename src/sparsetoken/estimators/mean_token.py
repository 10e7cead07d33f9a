"""The mean token of a bag, as far as its tokens tell it.

The mean of three tokens is known less well than that of three hundred. With sigma^2 the variance of tokens within a bag and
tau^2 that of the bags' true means, the best linear guess of a bag's true mean from L_i tokens with mean x_i draws it towards
the mean g of all tokens,

    g + L_i / (L_i + c) (x_i - g),     c = sigma^2 / tau^2,

as if every bag held c average tokens besides its own. A classifier on the plain means must learn one slope for short and long
bags alike, and is too sure of the short ones. Where all bags are equally long nothing changes but a factor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from .._core.devices import to_host
from ..bags.bags import Bags
from ..bags.scratch import row_blocks
from ..bags.segments import bag_mean
from .heads import Head
from .lift import SPAN_SHARE

# The most tokens that are added: where bags do not differ at all, what is left are differences by chance, and longer bags than
# this are still worth no more than their mean.
MOST_ADDED = 100.0


@dataclass(frozen=True)
class MeanTokens:
    """Bags of one token each, the mean of a bag's tokens, and the way back from a head on them to one on the tokens.

    Attributes
    ----------
    bags : Bags
        The means, drawn towards the mean of all tokens where that was asked for; where they are far fewer than features, in a
        basis of their span. The weights of a pooled head lie in that span, so nothing changes but the time that a fit takes.
    basis : ndarray of shape (features, rank) or None
        That basis.
    added : float
        c: average tokens that every bag is taken to hold besides its own.
    center : ndarray of shape (features,) or None
        g, where c is not zero.
    factor : float
        By which all means were multiplied, so that ridges mean what they mean without c.
    """

    bags: Bags
    basis: np.ndarray | None = None
    added: float = 0.0
    center: np.ndarray | None = None
    factor: float = 1.0

    def on_tokens(self, head: Head) -> Head:
        """The head that sees tokens, from one that sees these means."""
        readout = self.factor * (head.readout if self.basis is None else self.basis @ head.readout)
        usual = 0.0 if self.center is None else float(self.center @ readout)
        found = replace(head, query=np.zeros(len(readout)), readout=readout, bias=head.bias - usual)
        return replace(found, added=self.added, usual=usual)


def mean_tokens(bags: Bags, drawn_in: bool = False) -> MeanTokens:
    """The mean tokens of some bags.

    Parameters
    ----------
    bags : Bags
        The bags as a candidate sees them, their tokens NumPy's or JAX's.
    drawn_in : bool
        Whether the means are drawn towards the mean of all tokens, as the module's head says.

    Returns
    -------
    MeanTokens
        What a pooled head is fitted to.
    """
    means = to_host(bag_mean(bags.tokens, bags.starts)) if bags.n_tokens > len(bags) else to_host(bags.tokens)
    added, center, factor = (added_tokens(bags, means) if drawn_in else 0.0), None, 1.0
    if added > 0:
        lengths = bags.lengths
        center = (lengths / bags.n_tokens) @ means.astype(np.float64)
        shares = lengths / (lengths + added)
        factor = 1.0 / float(np.sqrt(np.mean(shares**2)))
        means = ((factor * shares)[:, None] * (means - center)).astype(means.dtype)
    basis, places = None, np.arange(len(bags), dtype=np.intp)
    if len(bags) < SPAN_SHARE * bags.n_features:
        means = means.astype(np.float64)
        values, vectors = eigh(means @ means.T)
        keep = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
        if keep.any():
            basis = means.T @ (vectors[:, keep] / np.sqrt(values[keep]))
            means = vectors[:, keep] * np.sqrt(values[keep])
    return MeanTokens(Bags.trusted(np.ascontiguousarray(means), places, bags.ids, None), basis, added, center, factor)


def added_tokens(bags: Bags, means: np.ndarray) -> float:
    """c = sigma^2 / tau^2, both summed over the features, by the analysis of variance of bags that differ in length.

    With N tokens in n bags, S the squares of the tokens' distances from their bag's mean and B = sum_i L_i |x_i - g|^2:
    sigma^2 = S / (N - n) and tau^2 = (B - (n - 1) sigma^2) / (N - sum_i L_i^2 / N).

    Parameters
    ----------
    bags : Bags
        The bags.
    means : ndarray of shape (bags, features)
        Their mean tokens.

    Returns
    -------
    float
        Between 0 and MOST_ADDED; 0 where all bags are equally long.
    """
    lengths, total, count = bags.lengths.astype(np.float64), bags.n_tokens, len(bags)
    if lengths.min() == lengths.max():
        return 0.0
    means = means.astype(np.float64)
    center = (lengths / total) @ means
    around, between = _squares(bags.tokens, center), np.sum((means - center) ** 2, axis=1)
    among = float(lengths @ between)
    within = max(around - among, 0.0) / (total - count)
    differing = (among - (count - 1) * within) / (total - float(lengths @ lengths) / total)
    if not within < MOST_ADDED * differing:
        return MOST_ADDED if within > 0 else 0.0
    return float(within / differing)


def _squares(tokens: Any, center: np.ndarray) -> float:
    """sum_l |x_l - g|^2, a block of tokens at a time."""
    usual = center.astype(tokens.dtype)
    return sum(float(((tokens[block] - usual) ** 2).sum()) for block in row_blocks(tokens))
