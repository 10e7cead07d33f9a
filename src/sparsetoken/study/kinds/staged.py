"""Kinds of trial about staged training: the two gradient steps, what follows them, several heads; drawn and in theory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._core.validation import whole_number
from ...classifiers import check_model, has_query
from ...deployment import Deployment
from ...results import NotConvergedWarning
from ...simulation.readout import FeatureMap
from ...simulation.samplers.drawn_bags import draw_bags, sample_count
from ...task import Task, Tokens
from ...training import Training
from ..kind_registry import trial_kind
from .columns import BINS, ERROR, MEASURES, QUERY, columns

ACCURACY = 4e-4  # absolute, on the test error: far below what a figure shows; its standard error enters every criterion
ERM_FIELDS = (*ERROR, *MEASURES, "standard_error")
FORECAST_FIELDS = (*ERM_FIELDS, "cosine_w", *QUERY)
TWO_STEPS = ("cosine_w", "norm_w", "bias", "cosine_q", "norm_q")
ALIGNMENT = (*TWO_STEPS, "overlap_w", "overlap_q", "sharpness", "rate", "anti_margin", "anti_aligned")
MASSES = ("mass", "mass_se", "negative_mass", "negative_mass_se", "uniform")
SIMULATED = (*ERROR, *MEASURES, *QUERY, "cosine_w")


def check_sizes(arguments: Mapping[str, Any]) -> None:
    """Refuse, before anything runs, impossible dimensions or models, and data larger than any memory."""
    d = whole_number("d", arguments["d"], 2)
    model = arguments.get("model", "pooled")
    check_model(model)
    alphas = [arguments[name] for name in ("alpha", "alpha_high", "alpha1") if name in arguments]
    if "model" not in arguments or not alphas:
        return
    if arguments.get("equal_samples") and not has_query(model):
        alphas[0] += arguments["alpha0"]
    task = task_of(arguments)
    FeatureMap(model).check(task)
    require_memory(d, max(alphas) * d * d * (task.longest if model == "vectorized" else 1), f"{model} features")


def task_of(arguments: Mapping[str, Any]) -> Task:
    """The task in a trial's flat arguments."""
    return Task.from_dict({name: arguments[name] for name in Task.field_names() if name in arguments})


def require_memory(d: int, numbers: float, what: str) -> None:
    """Refuse more than 16 GB, four times the largest design matrix of the paper's studies."""
    if numbers > 2e9:
        raise ValueError(f"d must be smaller than {d:,}: the {what} would be {8e-9 * numbers:,.0f} GB")


def check_bins(arguments: Mapping[str, Any]) -> None:
    """Refuse histograms without bins, or with too many for a table."""
    whole_number("bins", arguments["bins"], 1, 10_000)
    if "d" in arguments:
        check_sizes(arguments)


def with_sharpness(task: Task, training: Training, sharpness: float | None) -> Training:
    """The training with eta_q chosen so that the predicted k = beta ||q2|| is `sharpness` (unchanged for None)."""
    if sharpness is None:
        return training
    from ...theory import alignment

    unit = alignment(task, training.but(eta_q=1.0)).sharpness
    if unit == 0:
        raise ValueError("sharpness needs a query with a direction, and the two steps give none")
    return training.but(eta_q=float(sharpness) / unit)


def fields_of(result: Any, names: Iterable[str] = ERM_FIELDS) -> dict[str, Any]:
    """Some of a result's numbers by name."""
    return {name: getattr(result, name) for name in names}


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


@trial_kind("two_steps", version=2, check=check_sizes, columns=columns(*TWO_STEPS))
def two_steps_trial(task: Task, training: Training, d: int, seed: int) -> dict[str, float]:
    """The two gradient steps alone."""
    from ...simulation.two_steps import two_steps

    row = two_steps(task, training, d, seed).to_row()
    return {name: row[name] for name in TWO_STEPS}


@trial_kind("steps_given_share", check=check_sizes, columns=columns(*TWO_STEPS, "given_share"))
def steps_given_share_trial(task: Task, training: Training, d: int, seed: int) -> dict[str, float]:
    """The two gradient steps, and the cosine that the formulas give for the share of positives of this very D0."""
    from ...theory import alignment

    labels = draw_bags(task, sample_count("alpha0", training.alpha0, d), seed, "0").labels
    cosine = alignment(task.but(prevalence=float((labels > 0).mean())), training).query_cosine
    return {**two_steps_trial(task, training, d, seed), "given_share": cosine}


@trial_kind("alignment", version=2, columns=columns(*ALIGNMENT))
def alignment_trial(task: Task, training: Training) -> dict[str, Any]:
    """Limits after the two gradient steps."""
    from ...theory import alignment

    return alignment(task, training).to_row()


@trial_kind("alignment_law", columns=columns("cosine_q", "norm_q", "cosine_q_spread", "share_negative"))
def alignment_law_trial(task: Task, training: Training, d: int) -> dict[str, float]:
    """The law of the query after the two steps at a dimension."""
    from ...theory import alignment

    law = alignment(task, training, d=d)
    query = {"cosine_q": law.cosine["q"], "norm_q": law.norm["q"], "cosine_q_spread": law.spread["cosine_q"]}
    return {**query, "share_negative": law.share_negative}


@trial_kind("attention_mass", check=check_bins, columns=columns(*BINS, "share", "mass", "negative_mass", "cosine_q"))
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

    A row per bin of the mass in [0, 1], with its `share` of the positive bags; other columns are the same in every row.
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
    signal[data.labels < 0, :sparsity] = True  # negative bags have no signal, so any places will do
    masses = np.empty(test_samples)
    for rows, tokens in data.blocks():
        masses[rows] = (softmax(training.beta * (tokens @ steps.query)) * signal[rows]).sum(axis=1)
    positive, negative = masses[data.labels > 0], masses[data.labels < 0]
    common = {"mass": positive.mean(), "negative_mass": negative.mean(), "cosine_q": steps.cosine["q"]}
    histogram = Bins(0.0, 1.0, bins)
    return [row | common for row in histogram.rows(share=histogram.shares(positive))]


@trial_kind(
    "attention_mass_theory", check=check_bins, columns=columns("bin", "share", "share_se", *MASSES, "cosine_q", "k")
)
def attention_mass_theory_trial(
    task: Task, training: Training, sharpness: float | None = None, bins: int = 10
) -> list[dict[str, float]]:
    """The predicted law of the attention mass on signal tokens after the two gradient steps, rows as in `attention_mass`."""
    from ...theory import alignment, attention_mass

    steps = alignment(task, with_sharpness(task, training, sharpness))
    law = attention_mass(task, steps.query_cosine, steps.sharpness)
    shares, errors = law.shares(np.linspace(0.0, 1.0, bins + 1))
    means = (law.mean, law.standard_error, law.negative_mean, law.negative_standard_error, law.uniform)
    common = {**dict(zip(MASSES, means)), "cosine_q": steps.cosine["q"], "k": steps.sharpness}
    return [{"bin": i, "share": shares[i], "share_se": errors[i], **common} for i in range(bins)]


@dataclass(frozen=True)
class Chosen:
    """A classifier; `sharpness` sets the eta_q of one with a query through the predicted k."""

    model: str = "attention"
    sharpness: float | None = None

    def training(self, task: Task, training: Training) -> Training:
        """The training with the eta_q that `sharpness` sets."""
        return with_sharpness(task, training, self.sharpness) if has_query(self.model) else training

    def forecast(
        self, task: Task, training: Training, warm_start: Any = None, error: float = ACCURACY, **options: Any
    ) -> tuple[dict[str, Any], Any]:
        """A row of `forecast`, and the result that it was read from."""
        from ...theory import Accuracy, forecast

        chosen, accuracy = self.training(task, training), Accuracy(error, warm_start=warm_start)
        limit = forecast(task, chosen, self.model, accuracy=accuracy, with_capacity=False, **options)
        row = limit.to_row()
        query = {"k": limit.sharpness, "eta_q_used": chosen.eta_q}
        return {name: row[name] for name in FORECAST_FIELDS} | query, limit.result


def simulated_quietly(
    task: Task, training: Training, d: int, seed: int, model: str = "attention", **options: Any
) -> Any:
    """`simulate`, without a warning where the solver has not converged; see the column `converged`."""
    from ...simulation.simulate import simulate

    with warnings.catch_warnings(action="ignore", category=NotConvergedWarning):
        return simulate(task, training, d, seed, model, **options)


@trial_kind("simulate", version=4, check=check_sizes, columns=columns(*SIMULATED, "converged"))
def simulate_trial(
    task: Task, training: Training, d: int, seed: int, chosen: Chosen, *, tokens: Tokens, deployment: Deployment
) -> dict[str, Any]:
    """The whole training of one classifier; `sharpness` sets eta_q through the predicted k."""
    settled = chosen.training(task, training)
    result = simulated_quietly(task, settled, d, seed, chosen.model, tokens=tokens, deployment=deployment)
    row = result.to_row()
    return {**{name: row[name] for name in SIMULATED}, "converged": float(result.converged)}


@trial_kind("forecast", version=3, columns=columns(*FORECAST_FIELDS, "k", "eta_q_used"))
def forecast_trial(
    task: Task, training: Training, chosen: Chosen, *, tokens: Tokens, deployment: Deployment
) -> dict[str, Any]:
    """The limit of `simulate` as d grows; `sharpness` sets eta_q through the predicted k, which is given as `k`."""
    return chosen.forecast(task, training, tokens=tokens, deployment=deployment)[0]


@trial_kind("coloured_forecast", columns=columns(*FORECAST_FIELDS, "k", "eta_q_used"))
def coloured_forecast_trial(task: Task, training: Training, d: int, covariance: str, chosen: Chosen) -> dict[str, Any]:
    """The limit of `simulate` in coloured noise, at the spectrum of dimension d and a signal spread evenly over it."""
    from ...laws.coloured import spectrum_of

    tokens = Tokens(covariance=spectrum_of(covariance, dimension=d))
    return chosen.forecast(task, training, error=5e-3, tokens=tokens)[0]  # may be a mean over 64 drawn data sets


@trial_kind("forecast_curve", version=3, columns=columns(*FORECAST_FIELDS, "k", "eta_q_used"))
def forecast_curve_trial(
    task: Task,
    training: Training,
    over: str,
    values: list[float],
    chosen: Chosen,
    *,
    tokens: Tokens,
    deployment: Deployment,
) -> list[dict[str, Any]]:
    """Forecasts along one field of task or training (a row each), every one started from its neighbour's solution."""
    from ...theory.sweep import sweep

    def solve(point: Mapping[str, Any], start: Any) -> tuple[dict[str, Any], Any]:
        t = task.but(**point) if over in task.to_dict() else task
        r = training.but(**point) if over in training.to_dict() else training
        row, result = chosen.forecast(t, r, tokens=tokens, deployment=deployment, warm_start=start)
        return {**row, **point}, result

    check_model(chosen.model)
    if over not in (*task.to_dict(), *training.to_dict()):
        raise ValueError(f"over must be a field of the task or the training, got {over!r}")
    return sweep([{over: value} for value in values], solve, ACCURACY)


@trial_kind("forecast_at", columns=columns("test_error", "standard_error", "test_error_spread", "cosine_q", "k"))
def forecast_at_trial(task: Task, training: Training, d: int, chosen: Chosen) -> dict[str, float]:
    """The mean over data sets of `simulate` at a dimension, and its spread; `sharpness` sets eta_q through the limit's k."""
    from ...theory import forecast

    mean = forecast(task, chosen.training(task, training), chosen.model, d=d)
    query = {"cosine_q": mean.cosine.get("q", math.nan), "k": mean.sharpness}
    return {
        **fields_of(mean, ("test_error", "standard_error")),
        "test_error_spread": mean.spread["test_error"],
        **query,
    }


def check_heads(arguments: Mapping[str, Any]) -> None:
    """Refuse impossible numbers of heads, and data larger than any memory: features have heads x d coordinates."""
    heads = whole_number("heads", arguments["heads"], 1)
    if "d" in arguments:
        check_sizes({**arguments, "model": "attention", "alpha1": heads * arguments["alpha1"]})


def of_heads(task: Task, training: Training, heads: int, sharpness: float | None) -> Training:
    """The training with eta_q such that every head, which has its share of D0, is predicted to have that sharpness."""
    share = with_sharpness(task, training.but(alpha0=training.alpha0 / heads), sharpness)
    return training.but(eta_q=share.eta_q)


@trial_kind("heads", check=check_heads, columns=columns("test_error", "train_loss", "cosine_q"))
def heads_trial(
    task: Task, training: Training, d: int, seed: int, heads: int = 2, sharpness: float | None = None
) -> dict[str, Any]:
    """Staged training of several heads; `cosine_q` is the mean over heads."""
    chosen = of_heads(task, training, heads, sharpness)
    result = simulated_quietly(task, chosen, d, seed, f"heads:{heads}")
    cosine = sum(result.cosine[f"q{h + 1}"] for h in range(heads)) / heads
    return {"test_error": result.test_error, "train_loss": result.train_loss, "cosine_q": cosine}


@trial_kind(
    "heads_forecast", check=check_heads, columns=columns("test_error", "standard_error", "train_loss", "cosine_q", "k")
)
def heads_forecast_trial(
    task: Task, training: Training, heads: int = 2, sharpness: float | None = None, accuracy: float = ACCURACY
) -> dict[str, Any]:
    """The limit of `heads` as d grows."""
    from ...theory import forecast

    chosen = of_heads(task, training, heads, sharpness)
    # One head has a separate theory, which is quicker.
    model, query = ("attention", "q") if heads == 1 else (f"heads:{heads}", "q1")
    limit = forecast(task, chosen, model, accuracy=accuracy, with_capacity=False)
    row = fields_of(limit, ("test_error", "standard_error", "train_loss"))
    return {**row, "cosine_q": limit.cosine[query], "k": limit.sharpness}
