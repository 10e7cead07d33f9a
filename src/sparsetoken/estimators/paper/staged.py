"""The four-stage training: two gradient steps on D0 give the query, then a convex readout is fitted on D1.

    f_q(X) = X^T softmax(X q),     q = sharpness * q2 / (spread of <x, q2> over the noise tokens)
    min over w, b on D1 of  sum_i p_i l(<w, f_q(X_i)> + b; y_i) + (ridge/2) ||w||^2

On data drawn from the model the spread is ||q2|| and sharpness is k = beta ||q|| of the theory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ..._core.arrays import namespace
from ..._core.devices import to_host
from ..._core.validation import real_number, rejection
from ...bags.bags import Bags
from ...bags.sums_per_bag import bag_softmax, weighted_bag_sum
from ...bags.temporary_files import room_left
from ...solvers.erm import fit_erm
from ...training import MOST_PRODUCTS, number_of_products
from ..calibration import Calibration, best_calibrated, unvalidated_calibration
from ..labels import auto_or_number
from .linear import RIDGES, Readout, ReadoutClassifier, TrainingSet, ridge_path
from .two_steps import Steps, noise_scales, one_product, pooled_tokens, two_gradient_steps

# Shares of the bags for the two steps to choose from. By forecast (L = 10 to 50, theta = 3.5 to 6, alpha = 2 and 6, ridge
# 0.01) the best share lies between a third, for strong signals, and two thirds, for weak ones; the best of these three
# has an error at most 4 % above that of the best share between 0.2 and 0.8.
# With few bags every split leaves one of the stages too few, and the result depends on the split: using all bags for both is
# tried as well.
SPLITS: tuple[float | str, ...] = (0.35, 0.5, 0.65, "reuse")
# Directions of the query to choose from: on long bags with a weak signal a second product reduces the error by half or more.
WAYS = ("steps", "products:2")
# Sharpnesses k to choose from, a factor of two apart: from nearly uniform attention to nearly a maximum over tens of tokens.
SHARPNESSES = (0.75, 1.5, 3.0)

# Features of all bags at several queries that are held at a time, in bytes: a pass over the tokens makes as many as go in.
FEATURE_BYTES = 2**28

Attend = Callable[[Any, Any], Any]  # scores <x_l, q> of all tokens, first rows of the bags -> the tokens' weights


def softmax_attention(scores: Any, starts: Any) -> Any:
    """softmax over each bag."""
    return bag_softmax(scores, starts)[0]


def attention_features(part: Bags, queries: np.ndarray, attend: Attend) -> Any:
    """sum_l a_l x_l of each bag and query, a the weights that `attend` gives its tokens."""
    tokens, starts = part.tokens, part.starts
    scores = (tokens @ queries.T.astype(tokens.dtype)).astype(np.float64)
    # In long bags one matrix product per bag is quicker than one sparse product per query.
    if namespace(tokens) is np and len(queries) > 1 and len(tokens) >= 64 * len(part):
        weights = np.stack([attend(column, starts) for column in scores.T], axis=1).astype(tokens.dtype)
        ends = np.append(starts[1:], len(tokens))
        return np.stack([weights[a:b].T @ tokens[a:b] for a, b in zip(starts, ends)])
    found = [weighted_bag_sum(attend(scores[:, k], starts), tokens, starts) for k in range(len(queries))]
    return namespace(found[0]).stack(found, axis=1)


class UnitQuery(NamedTuple):
    """A query of unit spread over the noise tokens, the bags left for the readout, the split that was used, the difference of
    the classes' mean <xbar, q> on these bags, in standard errors, and which side holds the signal."""

    direction: np.ndarray
    second: np.ndarray
    split: float | str
    statistic: float
    side: float


@dataclass(frozen=True)
class Staged:
    """A query, what its direction came from, its sharpness, and the readout with the features and labels it was fitted to."""

    query: UnitQuery
    query_by: str
    sharpness: float
    readout: Readout
    features: np.ndarray
    labels: np.ndarray


def products_of(query_by: str) -> int:
    """The number of products with the labelled second moment of a name."""
    count = 1 if query_by == "steps" else number_of_products(query_by, 2)
    if count is None:
        raise rejection("query_by", query_by, f"auto, steps or products:K (K from 2 to {MOST_PRODUCTS})")
    return count


def fit_staged(
    data: TrainingSet,
    attend: Attend,
    ridge: float | str,
    split: float | str,
    sharpness: float | str,
    eta_w: float,
    eta_b: float | str,
    query_by: str,
) -> Staged:
    """The staged training; whatever is "auto" is chosen by the calibrated loss of bags that neither the query nor the readout
    has seen (5 folds over all bags), which also calibrates."""
    signs, weights = data.signs, data.weights
    splits: tuple[float | str, ...] = SPLITS if split == "auto" else (split,)
    sharpnesses = SHARPNESSES if sharpness == "auto" else (float(sharpness),)
    ridges = RIDGES if ridge == "auto" else (float(ridge),)
    first, *further = _ways(query_by, eta_b, held_out="auto" in (split, sharpness, ridge))
    # A direction that needs more data is tried on all bags where reuse is allowed.
    starts = [*((first, share) for share in splits), *((way, splits[-1]) for way in further)]
    settings = list(product(starts, sharpnesses, ridges))
    folds = data.folds() if len(settings) > 1 else []
    training = _Training(data, attend, _mixed_order(signs, data.seed, data.groups))
    everything = np.arange(len(signs))
    kept_in = [np.setdiff1d(everything, held) for held in folds]
    *tried, final_queries = training.queries([*kept_in, everything], starts, eta_w, eta_b)
    chosen, calibration, held_out = settings[0], Calibration(), None
    if folds:
        scores = training.held_out_scores(folds, tried, sharpnesses, ridges)
        best, held_out, calibration = best_calibrated(scores, signs, weights, data.groups)
        chosen = settings[best]
    elif len(settings) > 1:  # nothing can be held out
        calibration = unvalidated_calibration(signs, weights)
        chosen = (starts[len(splits) - 1], sharpnesses[len(sharpnesses) // 2], ridges[len(ridges) // 2])
    start, k, used_ridge = chosen
    query = final_queries[starts.index(start)]
    y, p = signs[query.second], _class_shares_kept(signs, weights, query.second)
    features = to_host(training.features(k * query.direction[None, :])[query.second, 0])
    readout = Readout(fit_erm(features, y, used_ridge, data.loss, p), used_ridge, calibration, held_out)
    return Staged(query, start[0], k, readout, features, y)


def _ways(query_by: str, eta_b: float | str, held_out: bool) -> tuple[str, ...]:
    """The directions to try: "auto" tries further products where something is chosen by held-out bags anyway."""
    if query_by == "auto":
        return WAYS if held_out and isinstance(eta_b, str) else WAYS[:1]
    if products_of(query_by) > 1 and not isinstance(eta_b, str):
        raise ValueError(f"query_by={query_by!r} needs eta_b='auto': residuals that sum to zero")
    return (query_by,)


@dataclass(frozen=True)
class _Training:
    """The bags, how tokens are weighted, and the order in which bags are split."""

    data: TrainingSet
    attend: Attend
    order: np.ndarray

    def queries(
        self, subsets: list[np.ndarray], starts: list[tuple[str, float | str]], eta_w: float, eta_b: float | str
    ) -> list[list[UnitQuery]]:
        """For each subset of the bags and each start (way, split), the query from its share of them."""
        bags, signs = self.data.bags, self.data.signs
        mixed = [self.order[np.isin(self.order, some)] for some in subsets]
        parts = [_parts(order, signs, share, self.data.groups) for order in mixed for _, share in starts]
        weights = np.zeros((len(parts), len(signs)))
        for row, (first, _, _) in zip(weights, parts):
            row[first] = self.data.weights[first]
        pooled = pooled_tokens(bags)
        steps = two_gradient_steps(bags, pooled, signs, weights, self.data.loss, eta_w, eta_b)
        queries = self._further(steps, np.tile([products_of(way) for way, _ in starts], len(subsets)))
        spreads, sides = noise_scales(bags, pooled, signs, weights, queries, self.data.sides)
        found = []
        for query, spread, side, (_, second, used) in zip(queries, spreads, sides, parts):
            direction = query / spread if spread > 0 else query
            statistic = _query_statistic(pooled[second] @ direction, side * signs[second])
            found.append(UnitQuery(direction, second, used, statistic, float(side)))
        return [found[i : i + len(starts)] for i in range(0, len(found), len(starts))]

    def _further(self, steps: Steps, products: np.ndarray) -> np.ndarray:
        """Each query after its number of products in all, one pass over the tokens for each after the first.

        The second moment changes its sign with the classes' names: each query points to the side of the one before.
        """
        queries = steps.query.copy()
        for done in range(1, int(products.max())):
            rows = np.flatnonzero(products > done)
            size = np.linalg.norm(queries[rows], axis=1, keepdims=True)
            following = one_product(self.data.bags, steps.pull[rows], queries[rows] / np.where(size > 0, size, 1.0))
            same = (following * queries[rows]).sum(axis=1, keepdims=True) >= 0
            queries[rows] = np.where(same, following, -following)
        return queries

    def features(self, queries: np.ndarray) -> Any:
        """(bags, queries, features): one pass over the tokens."""
        return self.data.bags.per_bag(attention_features, shared=(queries, self.attend))

    def held_out_scores(
        self,
        folds: list[np.ndarray],
        tried: list[list[UnitQuery]],
        sharpnesses: tuple[float, ...],
        ridges: tuple[float, ...],
    ) -> np.ndarray:
        """(settings, bags): the score of each bag by trainings that never saw its fold, the ridges running fastest."""
        bags, signs, loss = self.data.bags, self.data.signs, self.data.loss
        block = len(sharpnesses) * len(ridges)  # settings that share a query
        scores = np.empty((len(tried[0]) * block, len(signs)))
        jobs = [(held, query, i * block) for held, queries in zip(folds, tried) for i, query in enumerate(queries)]
        # Where every pass reads files, features too large for memory go to a temporary file that takes at most half of the free
        # disk.
        room = max(FEATURE_BYTES, room_left() // 2) if bags.in_files else FEATURE_BYTES
        at_once = max(1, room // (len(sharpnesses) * len(bags) * bags.n_features * bags.dtype.itemsize))
        for first in range(0, len(jobs), at_once):
            some = jobs[first : first + at_once]
            features = self.features(np.concatenate([[k * q.direction for k in sharpnesses] for _, q, _ in some]))
            for i, (held, query, row) in enumerate(some):
                y, p = signs[query.second], _class_shares_kept(signs, self.data.weights, query.second)
                for column in range(i * len(sharpnesses), (i + 1) * len(sharpnesses)):
                    seen, unseen = (to_host(features[rows, column]) for rows in (query.second, held))
                    scores[row : row + len(ridges), held] = ridge_path(seen, unseen, y, p, loss, ridges)
                    row += len(ridges)
        return scores


def _mixed_order(signs: np.ndarray, seed: int, groups: np.ndarray | None = None) -> np.ndarray:
    """A random order of the bags in which any run of bags holds both classes at nearly their frequencies; groups stay
    together."""
    rng, place = np.random.default_rng(seed), np.empty(len(signs))
    for sign in (signs[0], -signs[0]):  # the class of the first bag first, whatever it is called
        group = np.flatnonzero(signs == sign)
        place[rng.permutation(group)] = (np.arange(len(group)) + rng.random()) / len(group)
    if groups is not None:
        _, code = np.unique(groups, return_inverse=True)
        middle = np.bincount(code, place) / np.bincount(code)
        return np.lexsort((place, middle[code]))
    return np.argsort(place, kind="stable")


def _parts(
    order: np.ndarray, signs: np.ndarray, share: float | str, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float | str]:
    """D0, D1 and the share that was used: "reuse" (the same bags twice) also where a class is too small to be in both."""
    everything = np.sort(order)
    if share == "reuse":
        return everything, everything, "reuse"
    cut = round(float(share) * len(order))
    if groups is not None:  # between two groups, as near as there is a place
        between = np.flatnonzero(np.diff(groups[order]) != 0) + 1
        cut = int(between[np.argmin(np.abs(between - cut))]) if len(between) else 0
    first, second = np.sort(order[:cut]), np.sort(order[cut:])
    if any(len(np.unique(signs[part])) < 2 for part in (first, second)):
        return everything, everything, "reuse"
    return first, second, float(share)


def _class_shares_kept(signs: np.ndarray, weights: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Weights of a part of the bags in which each class has the share of the weight that it has among all bags.

    Bags of equal weight are split at the classes' frequencies already and keep their weights; a bag of large weight is on one
    side only.
    """
    p = weights[part].copy()
    if np.ptp(weights) > 0:
        for sign in (1.0, -1.0):
            own = signs[part] == sign
            p[own] *= weights[signs == sign].sum() / p[own].sum()
    return p


def _query_statistic(scores: np.ndarray, signs: np.ndarray) -> float:
    """Difference of the mean <xbar, q> between signal and noise class in standard errors: negative means anti-aligned."""
    positive, negative = scores[signs > 0], scores[signs < 0]
    variance = sum(float(np.var(s, ddof=1)) / len(s) for s in (positive, negative) if len(s) > 1)
    gap = float(positive.mean() - negative.mean())
    return gap / np.sqrt(variance) if variance > 0 else 0.0


class StagedClassifier(ReadoutClassifier):
    """Base of the classifiers that are trained in stages: two gradient steps for the query, then a convex readout."""

    split: float | str
    sharpness: float | str
    eta_w: float
    eta_b: float | str
    training: str = "staged"  # the only one for elementwise attention, as are the steps
    query_by: str = "steps"

    @property
    def _sums_only(self) -> bool:
        return self.training == "staged"

    def _attend(self, scores: Any, starts: Any) -> Any:
        return softmax_attention(scores, starts)

    def _features(self, bags: Bags) -> Any:
        return attention_features(bags, self.query_[None, :], self._attend)[:, 0]

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        ridge, share = auto_or_number("ridge", self.ridge), {"high": 1.0, "open_low": True, "open_high": True}
        split = auto_or_number("split", self.split, ("auto", "reuse"), "a share in (0, 1)", **share)
        sharpness = auto_or_number("sharpness", self.sharpness)
        eta_w, eta_b = real_number("eta_w", self.eta_w, 0.0), auto_or_number("eta_b", self.eta_b)
        data = self._training_set(bags, signs, weights, groups)
        found = fit_staged(data, self._attend, ridge, split, sharpness, eta_w, eta_b, self.query_by)
        self.query_, self.split_ = found.sharpness * found.query.direction, found.query.split
        self.sharpness_, self.query_by_, self.side_ = found.sharpness, found.query_by, found.query.side
        self.diagnostics_["query_statistic"] = found.query.statistic
        return self._finish(found.readout, found.features, found.labels, signs)
