"""Kinds of trial that draw random data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.validation import whole_number
from ...classifiers import check_model, has_query
from ...deployment import Deployment
from ...results import NotConvergedWarning
from ...simulation.feature_map import FeatureMap
from ...simulation.readout import fit_readout
from ...simulation.samplers.drawn_bags import DrawnBags, draw_bags, draw_truth, sample_count
from ...simulation.seeds import stream
from ...solvers.erm import fit_erm
from ...task import Task, Tokens
from ...training import Training
from ..kind import trial_kind
from .columns import BINS, ERROR, MEASURES, QUERY, columns

# Numbers in a design matrix (16 GB): four times the largest of the paper's studies.
MOST_NUMBERS = 2e9
MOST_BINS = 10_000


def check_sizes(arguments: Mapping[str, Any]) -> None:
    """Refuse, before anything runs, a dimension or a model that cannot be, and data that no machine holds."""
    d = whole_number("d", arguments["d"], 2)
    model = arguments.get("model", "pooled")
    check_model(model)
    alphas = [arguments[name] for name in ("alpha", "alpha_high", "alpha1") if name in arguments]
    if "model" not in arguments or not alphas:
        return
    if arguments.get("equal_samples") and not has_query(model):
        alphas[0] += arguments["alpha0"]
    task = Task.from_dict({f: arguments[f] for f in Task.__dataclass_fields__ if f in arguments})
    FeatureMap(model).check(task)
    numbers = max(alphas) * d * d * (task.longest if model == "vectorized" else 1)
    if numbers > MOST_NUMBERS:
        raise ValueError(f"d must be smaller than {d:,}: the {model} features would be {8e-9 * numbers:,.0f} GB")


def check_bins(arguments: Mapping[str, Any]) -> None:
    """Refuse histograms without bins, or with more of them than a table is for."""
    whole_number("bins", arguments["bins"], 1, MOST_BINS)
    if "d" in arguments:
        check_sizes(arguments)


def check_tokens(arguments: Mapping[str, Any]) -> None:
    """Refuse bags whose tokens no machine holds all at once."""
    d, task = whole_number("d", arguments["d"], 2), Task.from_dict({f: arguments[f] for f in Task.__dataclass_fields__})
    numbers = arguments["alpha"] * d * task.longest * d
    if numbers > MOST_NUMBERS:
        raise ValueError(f"d must be smaller than {d:,}: the tokens of all bags would be {8e-9 * numbers:,.0f} GB")


# A separating margin below this share of the features' size counts as none.
LEAST_MARGIN = 1e-6


@dataclass(frozen=True)
class GivenQuery:
    """A classifier whose query has this cosine with the signal, and this sharpness."""

    model: str = "attention"
    cosine: float = 1.0
    sharpness: float = 1.0


@dataclass(frozen=True)
class GivenReadout(GivenQuery):
    """Its readout, trained with this loss and ridge."""

    ridge: float = 1e-3
    loss: str = "logistic"


@dataclass(frozen=True)
class Bins:
    """Bins of a histogram; the first and last ones take what lies outside."""

    low: float
    high: float
    bins: int

    @property
    def edges(self) -> np.ndarray:
        """Their edges, one more than there are bins."""
        return np.linspace(self.low, self.high, self.bins + 1)

    def shares(self, values: np.ndarray) -> np.ndarray:
        """The share of the values in each."""
        return np.bincount(np.searchsorted(self.edges[1:-1], values), minlength=self.bins) / len(values)

    def rows(self, **columns: np.ndarray) -> list[dict[str, float]]:
        """A row per bin, with its edges and its part of every column."""
        edges = self.edges
        return [
            {"bin": i, "left": edges[i], "right": edges[i + 1], **{name: values[i] for name, values in columns.items()}}
            for i in range(self.bins)
        ]


def with_sharpness(task: Task, training: Training, sharpness: float | None) -> Training:
    """The training with eta_q chosen so that the predicted k = beta ||q2|| is `sharpness` (unchanged for None)."""
    if sharpness is None:
        return training
    from ...theory import alignment

    unit = alignment(task, training.but(eta_q=1.0)).sharpness
    if unit == 0:
        raise ValueError("sharpness needs a query with a direction, and the two steps give none")
    return training.but(eta_q=float(sharpness) / unit)


SIMULATED = (*ERROR, *MEASURES, *QUERY, "cosine_w")


@trial_kind("simulate", version=4, check=check_sizes, columns=columns(*SIMULATED, "converged"))
def simulate_trial(
    task: Task,
    training: Training,
    d: int,
    seed: int,
    model: str = "attention",
    sharpness: float | None = None,
    *,
    tokens: Tokens,
    deployment: Deployment,
) -> dict[str, Any]:
    """The whole training of one classifier; `sharpness` sets eta_q through the predicted k."""
    from ...simulation.simulate import simulate

    chosen = with_sharpness(task, training, sharpness) if has_query(model) else training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # the column `converged` says it
        result = simulate(task, chosen, d, seed, model, tokens=tokens, deployment=deployment)
    row = result.to_row()
    return {**{name: row[name] for name in SIMULATED}, "converged": float(result.converged)}


TWO_STEPS = ("cosine_w", "norm_w", "bias", "cosine_q", "norm_q")


@trial_kind("two_steps", version=2, check=check_sizes, columns=columns(*TWO_STEPS))
def two_steps_trial(task: Task, training: Training, d: int, seed: int) -> dict[str, float]:
    """The two gradient steps alone."""
    from ...simulation.two_steps import two_steps

    row = two_steps(task, training, d, seed).to_row()
    return {name: row[name] for name in TWO_STEPS}


@trial_kind(
    "attention_mass", version=1, check=check_bins, columns=columns(*BINS, "share", "mass", "negative_mass", "cosine_q")
)
def attention_mass_trial(
    task: Task,
    training: Training,
    d: int,
    seed: int,
    sharpness: float | None = None,
    test_samples: int = 400,
    bins: int = 10,
) -> list[dict[str, float]]:
    """The attention mass on signal tokens of fresh bags after the two gradient steps, every token drawn.

    A row per bin of the mass in [0, 1], with its `share` of the positive bags; `mass` and `negative_mass` are the means over
    positive bags and over the same places of negative ones, the same in every row.
    """
    from ...activations import softmax
    from ...simulation.samplers.tensor import TensorData
    from ...simulation.two_steps import two_steps

    _, sparsity, _, _ = task.only_kind("the attention mass")
    steps = two_steps(task, with_sharpness(task, training, sharpness), d, seed, "tensor")
    data = TensorData(task, test_samples, d, seed, "_test", signal=steps.signal)
    signal = np.zeros((test_samples, task.longest), dtype=bool)
    which, places, _ = data.carriers
    signal[which, places] = True
    signal[data.labels < 0, :sparsity] = True  # places hold nothing there, so any will do
    masses = np.empty(test_samples)
    for rows, tokens in data.blocks():
        masses[rows] = (softmax(training.beta * (tokens @ steps.query)) * signal[rows]).sum(axis=1)
    positive, negative = masses[data.labels > 0], masses[data.labels < 0]
    common = {"mass": positive.mean(), "negative_mass": negative.mean(), "cosine_q": steps.cosine["q"]}
    histogram = Bins(0.0, 1.0, bins)
    return [row | common for row in histogram.rows(share=histogram.shares(positive))]


@trial_kind("readout", version=1, check=check_sizes, columns=columns(*ERROR))
def readout_trial(task: Task, d: int, seed: int, alpha: float, given: GivenReadout) -> dict[str, float]:
    """The convex readout (stage 4) alone, on n = alpha d samples, with a query of given cosine and sharpness."""
    feature_map = FeatureMap(given.model, given.cosine, given.sharpness)
    bags = draw_bags(task, sample_count("alpha", alpha, d), seed, "1")
    readout = fit_readout(feature_map.draw(bags, d, seed), bags.labels, given.ridge, given.loss)
    special = readout.w[: feature_map.special_count(task)]
    found = feature_map.measures(task, special, readout.norm, readout.bias, stream(seed, "quadrature"))
    trained = {"train_loss": readout.train_loss, "train_error": readout.train_error}
    tested = {"test_error": found.test_error, "balanced_error": found.balanced_error}
    return {**tested, **trained, "norm_w": readout.norm, "bias": readout.bias}


@trial_kind("left_out", check=check_sizes, columns=columns("fitted", "left_out", "shortcut"))
def left_out_trial(
    task: Task, d: int, seed: int, alpha: float, given: GivenReadout, bags: int = 8
) -> list[dict[str, float]]:
    """The score of some training bags by the readout fitted to all, by the one fitted without that bag, and by the shortcut
    r + V kappa^2 l'(r) that the theory takes for it, with the theory's V: a row for each bag."""
    from ...laws.law import law_of_model
    from ...losses import get_loss
    from ...theory import erm

    drawn = draw_bags(task, sample_count("alpha", alpha, d), seed, "1")
    features, labels = FeatureMap(given.model, given.cosine, given.sharpness).draw(drawn, d, seed), drawn.labels
    V = float(erm(law_of_model(task, given.model, given.cosine, given.sharpness), alpha, given.ridge, given.loss).V)
    whole, rows = fit_readout(features, labels, given.ridge, given.loss), []
    for i in range(bags):
        rest = np.arange(len(labels)) != i
        without = fit_readout(features[rest], labels[rest], given.ridge, given.loss)
        r, kappa2 = float(features[i] @ whole.w + whole.bias), float(np.mean(features[i] ** 2))
        shortcut = r + V * kappa2 * float(get_loss(given.loss).slope(r, labels[i]))
        left = float(features[i] @ without.w + without.bias)
        rows.append({"fitted": r, "left_out": left, "shortcut": shortcut})
    return rows


def separable(features: np.ndarray, labels: np.ndarray) -> bool:
    """Can a hyperplane with a bias part the classes? Certified both ways, by regularised logistic regression.

    Yes, when some minimiser has all margins positive. No, when the weights a_i = -l' y_i of a minimiser at ridge lambda
    prove that no unit w has a margin above  (lambda ||w|| + ||gradient||) / mean(a),  once this is negligible.
    """
    scale = float(np.sqrt(np.mean(features**2)))
    start = None
    # The certificates hold for any ridge and tolerance: these take the least time at the sizes of the paper's studies.
    for ridge in (1e-3, 1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14):
        fit = fit_erm(features, labels, ridge * scale**2, start=start, tolerance=1e-2)
        margins = labels * (features @ fit.coef + fit.bias)
        if margins.min() > 0:
            return True
        pull = ridge * scale**2 * float(np.linalg.norm(fit.coef)) * (1.0 + fit.gradient_norm)
        if pull / np.mean(1.0 / (1.0 + np.exp(np.clip(margins, -700, 700)))) < LEAST_MARGIN * scale:
            return False
        start = fit
    raise ArithmeticError("separability could not be decided: the largest margin is too small for double precision")


@trial_kind("separability", version=1, check=check_sizes, columns=columns("alpha_star", "n_star"))
def separability_trial(task: Task, d: int, seed: int, alpha_high: float, given: GivenQuery) -> dict[str, float]:
    """The largest n for which the first n samples of one endless sequence are separable, as alpha_star = n/d.

    The share of draws with alpha_star >= alpha is the probability that n = alpha d samples are separable.
    """
    most = sample_count("alpha_high", alpha_high, d)
    bags = draw_bags(task, most, seed, "1")
    labels, features = bags.labels, FeatureMap(given.model, given.cosine, given.sharpness).draw(bags, d, seed)
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


@trial_kind("margins", version=1, check=check_bins, columns=columns(*BINS, "train_share", "test_share"))
def margins_trial(
    task: Task, d: int, seed: int, alpha: float, histogram: Bins, given: GivenReadout
) -> list[dict[str, float]]:
    """Histograms of training and test margins y (<w, f> + b); the first and last bins take what lies outside."""
    count = sample_count("alpha", alpha, d)
    bags = draw_bags(task, count, seed, "1")
    feature_map = FeatureMap(given.model, given.cosine, given.sharpness)
    labels, features = bags.labels, feature_map.draw(bags, d, seed)
    fit = fit_erm(features, labels, given.ridge, given.loss)
    train = histogram.shares(labels * (features @ fit.coef + fit.bias))
    test = histogram.shares(
        _fresh_margins(draw_bags(task, count, seed, "_test"), seed, feature_map, fit.coef, fit.bias)
    )
    return histogram.rows(train_share=train, test_share=test)


def _fresh_margins(bags: DrawnBags, seed: int, feature_map: FeatureMap, w: np.ndarray, bias: float) -> np.ndarray:
    """Margins of fresh bags. Beyond its leading coordinates w meets pure noise, of which one number per bag is drawn."""
    lead = feature_map.special_count(bags.task)
    small = 3 if lead == 2 else 2  # the least dimension with a noise coordinate after the leading ones
    other_seed = int(stream(seed, "tokens_test").integers(2**62))
    features = feature_map.draw(bags, small, other_seed)
    rest = float(np.linalg.norm(w[lead:]))
    return bags.truth * (features[:, :lead] @ w[:lead] + rest * features[:, lead] + bias)


@trial_kind(
    "message_passing", version=1, check=check_tokens, columns=columns("test_error", "overlap", "expected_overlap")
)
def message_passing_trial(task: Task, d: int, seed: int, alpha: float, test_samples: int = 4000) -> dict[str, float]:
    """Approximate message passing with known strength and sparsity, tested on fresh bags.

    A fresh bag is seen through its tokens' products with the estimate alone, so it is drawn in two dimensions.
    """
    from ...estimators import MessagePassingClassifier
    from ...simulation.samplers import TensorData

    length, sparsity, strength, _ = task.only_kind("message passing with a known task")
    data = TensorData(task, sample_count("alpha", alpha, d), d, seed, "1")
    bags = np.concatenate([tokens for _, tokens in data.blocks()])
    plain = {"whiten": False, "scale": False, "calibrate": False}
    learner = MessagePassingClassifier(strength=strength, sparsity=sparsity, **plain).fit(bags, data.labels)
    norm = float(np.linalg.norm(learner.signal_))
    cosine = float(learner.signal_ @ data.signal) / norm
    labels = draw_truth(task, test_samples, seed, "_test")
    rng = stream(seed, "tokens_test")
    along = rng.standard_normal((test_samples, length))
    along[labels > 0, :sparsity] += cosine * strength
    flat = along[:, :, None] * (learner.signal_ / norm)  # the rest has no effect on the score
    wrong = learner.predict(flat) != labels
    return {"test_error": float(wrong.mean()), "overlap": cosine**2, "expected_overlap": float(learner.overlap_)}
