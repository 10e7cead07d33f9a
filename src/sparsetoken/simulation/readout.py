"""The readout of a trial: its features, its fit, and its test error and other measures from the law of its score.

The law of the score given the class comes from the law of (T, S, kappa) that theory has for the classifier: no test set is
needed. Its quasi-random points are the same in all trials, so that an average over trials keeps their error.

The readout's *special* directions are those along which features are more than isotropic noise: xi for pooling, xi at each
token for the vectorized classifier, qhat and u (the part of xi orthogonal to the query) for attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.averages import standard_error
from .._core.devices import working_on
from ..activations import Weighting
from ..classifiers import check_model, classifier
from ..laws.coloured import Query, Spectrum, coloured_law
from ..laws.draws import EXPLICIT_TOKENS
from ..laws.error_measures import ScoreLaw, fresh_measures, mean_and_scatter, point_law, score_laws, shares_beaten
from ..laws.law import Law, law_from_samples, law_of_model
from ..laws.signals import draw_places, subset_law
from ..losses import Loss, get_loss
from ..solvers.erm import fit_erm
from ..task import Task
from ..trajectories import mistakes
from .samplers import reduced
from .samplers.drawn_bags import DrawnBags, draw_bags

# Draws per replicate of a law: standard errors of a test error near 1e-4.
POINTS = 2**9
# Draws of the signal tokens' places when there are too many subsets to list: replicates, and places in each.
REPLICATES, PLACE_DRAWS = 8, 2**12


@dataclass(frozen=True)
class TrainedReadout:
    """A trained readout."""

    w: np.ndarray
    bias: float
    train_loss: float
    train_error: float
    stopped: str
    gradient_norm: float
    converged: bool

    @property
    def norm(self) -> float:
        """||w||."""
        return float(np.linalg.norm(self.w))


def fit_readout(x: Any, y: np.ndarray, ridge: float, loss: str | Loss, device: Any = None) -> TrainedReadout:
    """Minimise (1/n) sum l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised."""
    fit = fit_erm(x, y, ridge, loss, device="numpy" if device is None else "auto")
    with working_on(device):
        z = np.asarray(x @ fit.coef) + fit.bias
    train_error = float(mistakes(z, y).mean())
    train_loss = float(get_loss(loss).value(z, y).mean())
    return TrainedReadout(fit.coef, fit.bias, train_loss, train_error, fit.stopped, fit.gradient_norm, fit.converged)


@dataclass(frozen=True)
class Measures:
    """Population measures of one classifier, under the names of `results.ClassifierResult`."""

    test_error: float
    standard_error: float
    auc: float
    sensitivity: float
    specificity: float
    balanced_error: float
    errors: Mapping[str, float]


def summarised(positive: ScoreLaw, negative: ScoreLaw, prevalence: float) -> Measures:
    """Means and standard errors over the replicates of both laws."""
    replicates = fresh_measures(positive, negative, prevalence)
    pairs = {name: mean_and_scatter(values) for name, values in replicates.items()}
    means, errors = ({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
    return Measures(**means, standard_error=errors.pop("test_error"), errors=errors)


def readout_measures(law: Law, m_q: float, m_u: float, norm: float, bias: float) -> Measures:
    """<w, f> + b on a law of (T, S, kappa), for a readout with m_q along qhat and m_u along u."""
    rest = math.sqrt(max(norm**2 - m_q**2 - m_u**2, 0.0))
    x = np.array([m_q, m_u, math.log(max(rest, 1e-300)), bias, 0.0])  # the rest may vanish
    return summarised(*score_laws(x, law.at(POINTS if law.refinable else 0)[0]), law.prevalence)


def vectorized_measures(
    task: Task, overlaps: np.ndarray, norm: float, bias: float, rng: np.random.Generator
) -> Measures:
    """<W, X> + b with overlaps_l = <W_l, xi>: a mixture over the subsets the signal tokens may form."""
    positive = []
    for kind in task.kinds:
        plain = task.single(kind)
        law = subset_law(plain)
        if law is None:
            places = draw_places(rng, plain, REPLICATES * PLACE_DRAWS).reshape(REPLICATES, PLACE_DRAWS, -1)
            probability = np.full((1, PLACE_DRAWS), 1.0 / PLACE_DRAWS)
        else:
            places, probability = law[0][None], law[1][None]
        mean = kind.strength * overlaps[places].sum(axis=-1) + bias
        positive.append((kind.probability, ScoreLaw(mean, np.full(mean.shape, norm), probability)))
    carrying, empty = _side_by_side(positive), point_law(bias, norm)
    if task.contamination:
        empty = _side_by_side([(1.0 - task.contamination, empty), (task.contamination, carrying)])
    return summarised(carrying, empty, task.prevalence)


def _side_by_side(parts: Sequence[tuple[float, ScoreLaw]]) -> ScoreLaw:
    """A mixture of laws, with their probabilities."""
    replicates = max(len(law.mean) for _, law in parts)
    columns = [
        [np.broadcast_to(v, (replicates, law.mean.shape[1])) for v in (law.mean, law.deviation, p * law.weight)]
        for p, law in parts
    ]
    return ScoreLaw(*(np.concatenate(arrays, axis=1) for arrays in zip(*columns)))


def counted_measures(positive: np.ndarray, negative: np.ndarray, prevalence: float) -> Measures:
    """Measures from scores of test bags, each of which was scored with and without the signal."""
    missed, false = mistakes(positive, 1.0), mistakes(negative, -1.0)
    below, above = shares_beaten(positive, negative), shares_beaten(negative, positive)
    shares = {
        "test_error": prevalence * missed + (1.0 - prevalence) * false,
        "sensitivity": 1.0 - missed,
        "specificity": 1.0 - false,
        "balanced_error": 0.5 * missed + 0.5 * false,
    }
    # DeLong's variance, without the covariance of the pairs.
    errors = {"auc": math.hypot(standard_error(below), standard_error(above))}
    errors |= {name: standard_error(values) for name, values in shares.items()}
    means = {name: float(values.mean()) for name, values in shares.items()}
    return Measures(**means, auc=float(below.mean()), standard_error=errors.pop("test_error"), errors=errors)


def coloured_measures(
    task: Task,
    w: np.ndarray,
    bias: float,
    signal: np.ndarray,
    root: np.ndarray,
    query: np.ndarray | None,
    activation: Callable[[Any], Any] | None,
) -> Measures:
    """Measures in Gaussian noise of covariance diag(root^2)."""
    if len(w) > len(signal):
        tokens = w.reshape(task.longest, -1)
        return vectorized_measures(
            task, tokens @ signal, float(np.linalg.norm(root * tokens)), bias, np.random.default_rng(0)
        )
    if query is None or not (root * query).any():  # all tokens alike, at a weight of sigma(0)/L
        level = 1.0 if query is None or activation is None else float(activation(np.zeros(task.longest))[0])
        plain, size = task.only_kind("coloured noise"), abs(level) * float(np.linalg.norm(root * w))
        shift = level * plain.strength * plain.sparsity / plain.length * float(w @ signal)
        scale = size / math.sqrt(plain.length)
        return summarised(point_law(shift + bias, scale), point_law(bias, scale), task.prevalence)
    law = coloured_law(task, Spectrum(root**2, signal), Query(query * signal, query**2), 1.0, activation)
    population = law.at(POINTS)[0]
    a = root**2 * query / np.linalg.norm(root * query)
    along, across = float(w @ a), float(w @ signal)
    rest = math.sqrt(max(0.0, float(((root * w) ** 2).sum()) - along**2))  # sqrt(w^T Sigma' w)
    laws = [
        ScoreLaw(along * columns.T + across * columns.S + bias, rest * columns.kappa, columns.weight)
        for _, _, columns in population.classes()
    ]
    return summarised(laws[0], laws[1], task.prevalence)


@dataclass(frozen=True)
class FeatureMap:
    """A classifier's map from bag to feature; `cosine` and `sharpness` are those of its query."""

    model: str
    cosine: float = 1.0
    sharpness: float = 0.0

    def __post_init__(self) -> None:
        check_model(self.model)

    @property
    def activation(self) -> Callable[[Any], Any] | None:
        """The function used instead of the softmax."""
        return classifier(self.model).weighting

    def special_count(self, task: Task) -> int:
        """How many special directions there are: the leading coordinates of reduced features."""
        return {"pooled": 1, "vectorized": task.longest}.get(self.model, 2)

    def check(self, task: Task) -> None:
        """Raise ValueError if the classifier cannot be used on the bags of a task."""
        if self.model == "vectorized":
            task.require_plain("the vectorized classifier, which has weights for every token", "length")
            task.require_plain("the vectorized classifier, whose features would have two noise levels", "correlation")

    def leading(self, bags: DrawnBags, seed: int) -> reduced.Leading:
        """The special coordinates of reduced features of bags, exact in law."""
        self.check(bags.task)
        if self.model == "pooled":
            return reduced.draw_pooled(bags, seed)
        if self.model == "vectorized":
            return reduced.draw_flattened(bags, seed)
        return reduced.draw_attended(bags, seed, self.cosine, self.sharpness, self.activation)

    def draw(self, bags: DrawnBags, d: int, seed: int) -> np.ndarray:
        """Reduced features of bags, exact in law; the special coordinates come first."""
        dimension = d * (bags.task.longest if self.model == "vectorized" else 1)
        return reduced.draw_features(self.leading(bags, seed), dimension)

    def coordinates(self, task: Task, special: np.ndarray) -> tuple[float, float]:
        """(m_q, m_u) of a readout: qhat is xi at every token (vectorized), or xi itself, with no u, where no query points
        elsewhere."""
        if self.model == "vectorized":
            return float(special.sum()) / math.sqrt(task.longest), 0.0
        if self.model == "pooled" or abs(self.cosine) == 1.0:
            return float(special[0]), 0.0
        return float(special[0]), float(special[1])

    def law(self, task: Task) -> Law:
        """The law of (T, S, kappa) on the bags of a task, from drawn bags where these are too long for the theory."""
        if not isinstance(self.activation, Weighting) or task.longest <= EXPLICIT_TOKENS:
            return law_of_model(task, self.model, self.cosine, self.sharpness)
        count = max(2**10, 2**24 // task.longest)  # drawing so many tokens takes a second or two
        bags = draw_bags(task.but(prevalence=0.5), count, 0, "_test")
        drawn = reduced.draw_statistics(bags, 0, self.cosine, self.sharpness, self.activation)
        rows = np.stack(drawn[:3], axis=1)
        return law_from_samples(rows[bags.truth > 0], rows[bags.truth < 0], task.prevalence)

    def measures(self, task: Task, special: np.ndarray, norm: float, bias: float, rng: np.random.Generator) -> Measures:
        """Test error and the other measures of a readout."""
        if self.model == "vectorized":
            return vectorized_measures(task, special, norm, bias, rng)
        return readout_measures(self.law(task), *self.coordinates(task, special), norm, bias)
