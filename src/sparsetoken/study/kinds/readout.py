"""Kinds of trial about the readout alone, with a query of given cosine and sharpness; drawn and in theory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...simulation.readout import FeatureMap, fit_readout
from ...simulation.samplers.drawn_bags import DrawnBags, draw_bags, sample_count
from ...simulation.seeds import stream
from ...solvers.erm import fit_erm, separable
from ...task import Task
from ..kind_registry import trial_kind
from .columns import BINS, ERROR, columns
from .staged import ACCURACY, ERM_FIELDS, Bins, check_bins, check_sizes, fields_of


@dataclass(frozen=True)
class GivenQuery:
    """A classifier whose query has this cosine with the signal, and this sharpness."""

    model: str = "attention"
    cosine: float = 1.0
    sharpness: float = 1.0

    @property
    def features(self) -> FeatureMap:
        """What makes its features, drawn."""
        return FeatureMap(self.model, self.cosine, self.sharpness)

    def law(self, task: Task) -> Any:
        """What makes them in theory."""
        from ...laws.law import law_of_model

        return law_of_model(task, self.model, self.cosine, self.sharpness)


@dataclass(frozen=True)
class GivenReadout(GivenQuery):
    """Its readout, trained with this loss and ridge."""

    ridge: float = 1e-3
    loss: str = "logistic"


@trial_kind("readout", check=check_sizes, columns=columns(*ERROR))
def readout_trial(task: Task, d: int, seed: int, alpha: float, given: GivenReadout) -> dict[str, float]:
    """The convex readout (stage 4) alone, on n = alpha d samples, with a query of given cosine and sharpness."""
    feature_map, bags = given.features, draw_bags(task, sample_count("alpha", alpha, d), seed, "1")
    readout = fit_readout(feature_map.draw(bags, d, seed), bags.labels, given.ridge, given.loss)
    special = readout.w[: feature_map.special_count(task)]
    measured = feature_map.measures(task, special, readout.norm, readout.bias, stream(seed, "quadrature"))
    trained = {"train_loss": readout.train_loss, "train_error": readout.train_error}
    tested = {"test_error": measured.test_error, "balanced_error": measured.balanced_error}
    return {**tested, **trained, "norm_w": readout.norm, "bias": readout.bias}


@trial_kind("readout_theory", version=2, columns=columns("alpha", *ERM_FIELDS))
def readout_theory_trial(
    task: Task, alpha: list[float], given: GivenReadout, accuracy: float = ACCURACY
) -> list[dict[str, float]]:
    """The limit of `readout`, for a whole list of alpha (one law serves them all); a row for each."""
    from ...theory import erm_sweep

    results = erm_sweep(given.law(task), alpha, given.ridge, given.loss, accuracy=accuracy)
    return [{"alpha": value, **fields_of(result)} for value, result in zip(alpha, results)]


@trial_kind("left_out", check=check_sizes, columns=columns("fitted", "left_out", "shortcut"))
def left_out_trial(
    task: Task, d: int, seed: int, alpha: float, given: GivenReadout, bags: int = 8
) -> list[dict[str, float]]:
    """The score of some training bags by the readout fitted to all, by the one fitted without that bag, and by the shortcut
    r + V kappa^2 l'(r) that the theory takes for it, with the theory's V: a row for each bag."""
    from ...losses import get_loss
    from ...theory import erm

    drawn = draw_bags(task, sample_count("alpha", alpha, d), seed, "1")
    features, labels = given.features.draw(drawn, d, seed), drawn.labels
    V = float(erm(given.law(task), alpha, given.ridge, given.loss).V)
    whole, rows = fit_readout(features, labels, given.ridge, given.loss), []
    for i in range(bags):
        rest = np.arange(len(labels)) != i
        without = fit_readout(features[rest], labels[rest], given.ridge, given.loss)
        r, kappa2 = float(features[i] @ whole.w + whole.bias), float(np.mean(features[i] ** 2))
        shortcut = r + V * kappa2 * float(get_loss(given.loss).slope(r, labels[i]))
        left = float(features[i] @ without.w + without.bias)
        rows.append({"fitted": r, "left_out": left, "shortcut": shortcut})
    return rows


@trial_kind("separability", check=check_sizes, columns=columns("alpha_star", "n_star"))
def separability_trial(task: Task, d: int, seed: int, alpha_high: float, given: GivenQuery) -> dict[str, float]:
    """The largest n for which the first n samples of one endless sequence are separable, as alpha_star = n/d.

    The share of draws with alpha_star >= alpha is the probability that n = alpha d samples are separable.
    """
    most = sample_count("alpha_high", alpha_high, d)
    bags = draw_bags(task, most, seed, "1")
    labels, features = bags.labels, given.features.draw(bags, d, seed)
    if separable(features, labels):
        raise ValueError(f"alpha_high = {alpha_high:g} is too small: its samples are still separable")
    low, high = 1, most
    while high - low > 1:
        middle = (low + high) // 2
        x, y = features[:middle], labels[:middle]
        if abs(y.sum()) == middle or separable(x, y):
            low = middle
        else:
            high = middle
    return {"alpha_star": low / d, "n_star": low}


@trial_kind("capacity", columns=columns("alpha_star", "standard_error"))
def capacity_trial(task: Task, given: GivenQuery) -> dict[str, float]:
    """The largest alpha at which data are separable."""
    from ...theory import capacity

    threshold = capacity(given.law(task))
    return {"alpha_star": threshold.alpha, "standard_error": threshold.standard_error}


@trial_kind("margins", check=check_bins, columns=columns(*BINS, "train_share", "test_share"))
def margins_trial(
    task: Task, d: int, seed: int, alpha: float, histogram: Bins, given: GivenReadout
) -> list[dict[str, float]]:
    """Histograms of training and test margins y (<w, f> + b); the first and last bins take what lies outside."""
    count = sample_count("alpha", alpha, d)
    bags = draw_bags(task, count, seed, "1")
    feature_map = given.features
    labels, features = bags.labels, feature_map.draw(bags, d, seed)
    fit = fit_erm(features, labels, given.ridge, given.loss)
    train = histogram.shares(labels * (features @ fit.coef + fit.bias))
    test = histogram.shares(
        _fresh_margins(draw_bags(task, count, seed, "_test"), seed, feature_map, fit.coef, fit.bias)
    )
    return histogram.rows(train_share=train, test_share=test)


def _fresh_margins(bags: DrawnBags, seed: int, feature_map: FeatureMap, w: np.ndarray, bias: float) -> np.ndarray:
    """Margins of fresh bags. Beyond its leading coordinates w sees pure noise: one number per bag is drawn for it."""
    lead = feature_map.special_count(bags.task)
    small = 3 if lead == 2 else 2  # the least dimension with a noise coordinate after the leading ones
    other_seed = int(stream(seed, "tokens_test").integers(2**62))
    features = feature_map.draw(bags, small, other_seed)
    rest = float(np.linalg.norm(w[lead:]))
    return bags.truth * (features[:, :lead] @ w[:lead] + rest * features[:, lead] + bias)


@trial_kind("margins_theory", version=2, check=check_bins, columns=columns(*BINS, "train_share", "test_share"))
def margins_theory_trial(task: Task, alpha: float, histogram: Bins, given: GivenReadout) -> list[dict[str, float]]:
    """Predicted shares of training and test margins in bins; the first and last ones take what lies outside."""
    from ...theory import erm

    limit = erm(given.law(task), alpha, given.ridge, given.loss, accuracy=ACCURACY)
    edges = histogram.edges
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(edges)
    densities = limit.margin_densities((0.5 * (edges[:-1] + edges[1:])[:, None] + half[:, None] * nodes).ravel())
    step = 0.1
    below = limit.margin_densities(np.arange(edges[0] - 15.0, edges[0], step) + 0.5 * step)
    shares = {}
    for name in ("train", "test"):
        share = (densities[name].reshape(histogram.bins, -1) * weights).sum(axis=1) * half
        share[0] += below[name].sum() * step
        share[-1] += 1.0 - share.sum()  # what lies above the last edge is the remainder
        shares[f"{name}_share"] = share
    return histogram.rows(**shares)
