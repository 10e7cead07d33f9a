"""Exact in law, without the tokens, in coloured Gaussian noise: tokens theta v_l xi + Sigma^{1/2} z_l.

Everything is in the eigenbasis of Sigma, where Sigma^{1/2} multiplies coordinates by `root` = sqrt(s_j). With `root` =
1 the laws are those of `reduced`, which turns xi into the first axis and so needs fewer numbers still; the two gradient
steps are drawn there for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import token_weights
from ...task import Task
from .reduced import BLOCK_TOKENS
from .streams import stream


def coloured_tokens(root: np.ndarray, length: int) -> Callable[[np.random.Generator, int, int], np.ndarray]:
    """What draws the tokens of the tensor sampler: (generator, first bag, last bag) -> tokens."""
    return lambda rng, first, last: root * rng.standard_normal((last - first, length, len(root)))


def draw_coloured_features(
    task: Task,
    labels: np.ndarray,
    signal: np.ndarray,
    root: np.ndarray,
    seed: int,
    query: np.ndarray,
    activation: Callable[[Any], Any] | None = None,
) -> np.ndarray:
    """Attended features f = T a + S xi + kappa Sigma'^{1/2} z (n, d) of `laws.coloured`.

    Parameters
    ----------
    task : Task
        What the bags are.
    labels : ndarray (n,)
        -1 or +1.
    signal, root : ndarray (d,)
        xi and sqrt(s_j).
    seed : int
        Of the trial.
    query : ndarray (d,)
        beta q; zero is pooling.
    activation : callable, optional
        Of elementwise attention; None for softmax.

    Returns
    -------
    ndarray (n, d)
    """
    rng = stream(seed, "features")
    n, positive = len(labels), labels > 0
    spread = float(np.linalg.norm(root * query))  # sigma of beta q
    length, sparsity, theta, _ = task.only_kind("coloured noise")
    shift = theta * float(signal @ query)
    along, mass, kappa = np.empty(n), np.zeros(n), np.empty(n)
    block = max(1, BLOCK_TOKENS // length)
    for first in range(0, n, block):
        which = slice(first, min(first + block, n))
        t = rng.standard_normal((which.stop - first, length))
        scores = spread * t
        scores[positive[which], :sparsity] += shift
        weights = token_weights(scores, activation)
        along[which], kappa[which] = (weights * t).sum(axis=1), np.linalg.norm(weights, axis=1)
        mass[which] = weights[:, :sparsity].sum(axis=1) * positive[which]
    features = root * rng.standard_normal((n, len(root)))
    if spread > 0:  # what the noise has along the query is `along` already
        a = root**2 * query / spread
        features -= np.outer(features @ query / spread, a)
        features *= kappa[:, None]
        features += np.outer(along, a)
    else:
        features *= kappa[:, None]
    return features + np.outer(theta * mass, signal)
