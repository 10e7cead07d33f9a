"""Kinds of trial that compute predictions; stored like simulations, so a second run costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..._core.roots import FOUND, falling_root
from ...classifiers import check_model, has_query
from ...deployment import Deployment
from ...task import Task, Tokens
from ...training import Training
from ..kind import trial_kind
from .columns import BINS, ERROR, MEASURES, QUERY, columns
from .simulation import TWO_STEPS, Bins, GivenQuery, GivenReadout, check_bins, with_sharpness

ACCURACY = 4e-4  # absolute, on the test error: far below what a figure shows; its standard error enters every criterion

LIMIT_FIELDS = ("overlap", "test_error", "reachable_overlap", "reachable_test_error")
STRENGTHS = (1e-6, 1e6)  # among which a needed strength is sought

ERM_FIELDS = (*ERROR, *MEASURES, "standard_error")
FORECAST_FIELDS = (*ERM_FIELDS, "cosine_w", *QUERY)
ALIGNMENT = (*TWO_STEPS, "overlap_w", "overlap_q", "sharpness", "rate", "anti_margin", "anti_aligned")


def fields_of(found: Any, names: Iterable[str] = ERM_FIELDS) -> dict[str, Any]:
    """Some of a result's numbers by name."""
    return {name: getattr(found, name) for name in names}


@trial_kind("alignment", version=2, columns=columns(*ALIGNMENT))
def alignment_trial(task: Task, training: Training) -> dict[str, Any]:
    """Limits after the two gradient steps."""
    from ...theory import alignment

    return alignment(task, training).to_row()


MASSES = ("mass", "mass_se", "negative_mass", "negative_mass_se", "uniform")


@trial_kind(
    "attention_mass_theory",
    version=1,
    check=check_bins,
    columns=columns("bin", "share", "share_se", *MASSES, "cosine_q", "k"),
)
def attention_mass_theory_trial(
    task: Task, training: Training, sharpness: float | None = None, bins: int = 10
) -> list[dict[str, float]]:
    """The predicted law of the attention mass on signal tokens after the two gradient steps, rows as in `attention_mass`."""
    import numpy as np

    from ...theory import alignment, attention_mass

    steps = alignment(task, with_sharpness(task, training, sharpness))
    found = attention_mass(task, steps.query_cosine, steps.sharpness)
    shares, errors = found.shares(np.linspace(0.0, 1.0, bins + 1))
    means = (found.mean, found.standard_error, found.negative_mean, found.negative_standard_error, found.uniform)
    common = {**dict(zip(MASSES, means)), "cosine_q": steps.cosine["q"], "k": steps.sharpness}
    return [{"bin": i, "share": shares[i], "share_se": errors[i], **common} for i in range(bins)]


@dataclass(frozen=True)
class Chosen:
    """A classifier; `sharpness` sets the eta_q of one with a query through the predicted k."""

    model: str = "attention"
    sharpness: float | None = None

    def forecast(
        self, task: Task, training: Training, warm_start: Any = None, **options: Any
    ) -> tuple[dict[str, Any], Any]:
        """A row of `forecast`, and the result that it was read from."""
        from ...theory import Accuracy, forecast

        chosen = with_sharpness(task, training, self.sharpness) if has_query(self.model) else training
        found = forecast(
            task, chosen, self.model, accuracy=Accuracy(ACCURACY, warm_start=warm_start), with_capacity=False, **options
        )
        row = found.to_row()
        own = {"k": found.sharpness, "eta_q_used": chosen.eta_q}
        return {name: row[name] for name in FORECAST_FIELDS} | own, found.result


@trial_kind("forecast", version=3, columns=columns(*FORECAST_FIELDS, "k", "eta_q_used"))
def forecast_trial(
    task: Task, training: Training, chosen: Chosen, *, tokens: Tokens, deployment: Deployment
) -> dict[str, Any]:
    """The limit of `simulate` as d grows; `sharpness` sets eta_q through the predicted k, which is given as `k`."""
    return chosen.forecast(task, training, tokens=tokens, deployment=deployment)[0]


@trial_kind("coloured_forecast", version=1, columns=columns(*FORECAST_FIELDS, "k", "eta_q_used"))
def coloured_forecast_trial(task: Task, training: Training, d: int, covariance: str, chosen: Chosen) -> dict[str, Any]:
    """The limit of `simulate` in coloured noise, at the spectrum of dimension d and a signal spread evenly over it."""
    from ...laws.coloured import spectrum_of

    return chosen.forecast(task, training, tokens=Tokens(covariance=spectrum_of(covariance, dimension=d)))[0]


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


@trial_kind(
    "threshold_forecast",
    version=1,
    columns=columns("ridge", *ERM_FIELDS, "threshold_error", "cosine_q", "k", "eta_q_used"),
)
def threshold_forecast_trial(
    task: Task,
    training: Training,
    ridges: list[float],
    sharpness: float | None = None,
    cosine: float | None = None,
    accuracy: float = ACCURACY,
) -> list[dict[str, float]]:
    """Attention at each of several ridges (a row each): its error as it is, and with its threshold fitted to the task.

    The query is that of the two steps, `sharpness` setting eta_q; with `cosine` it is given, and `sharpness` is its k.
    """
    from ...theory import attention_law, erm
    from ...theory.forecast import law_of
    from ...theory.refit import threshold_error

    if cosine is None:
        chosen = with_sharpness(task, training, sharpness)
        law, steps = law_of(task, chosen, "attention")
        assert steps is not None
        query = {"cosine_q": steps.query_cosine, "k": steps.sharpness, "eta_q_used": chosen.eta_q}
    else:
        k = 1.0 if sharpness is None else sharpness
        law = attention_law(task, cosine, k)
        query = {"cosine_q": cosine, "k": k, "eta_q_used": float("nan")}
    rows, start = [], None
    for ridge in sorted(ridges, reverse=True):  # from where a fixed point is found at once
        found = erm(law, training.alpha1, ridge, training.loss, accuracy=accuracy, warm_start=start)
        start = found.warm_start
        rows.append({"ridge": ridge, **fields_of(found), "threshold_error": threshold_error(found, law), **query})
    return rows


# Factors on the trained sharpness among which the best at test time is sought, with its threshold: longer bags want sharper
# attention, and between neighbours the error changes by a few per cent.
_SHARPER = tuple(2.0 ** (i / 2) for i in range(5))

AT_TEST = ("test_error", "balanced_error", *MEASURES, "standard_error")


@trial_kind(
    "length_theory",
    version=1,
    columns=columns(
        "test_length", *AT_TEST, "threshold_error", "bias_shift", "sharpness_error", "k", "best_k", "query_error"
    ),
)
def length_theory_trial(task: Task, training: Training, test_lengths: list[int]) -> list[dict[str, float]]:
    """Attention trained at one length and tested at others: a row for each, with what is lost to what.

    `test_error` is that of the classifier as it is, `threshold_error` with its threshold fitted to the test bags,
    `sharpness_error` with sharpness and threshold fitted, `query_error` the same after a training with the query xi itself.
    """
    from ...theory import ErmResult, attention_law, erm, refit
    from ...theory.forecast import law_of
    from ...theory.refit import threshold_error

    law, steps = law_of(task, training, "attention")
    assert steps is not None
    perfect_law = attention_law(task, 1.0, steps.sharpness)
    solved, perfect = (
        erm(one, training.alpha1, training.ridge, training.loss, accuracy=ACCURACY) for one in (law, perfect_law)
    )

    def fitted(result: Any, cosine: float, bags: Task) -> tuple[float, float]:
        """(error, k) with the best sharpness and threshold."""
        laws = [(attention_law(bags, cosine, factor * steps.sharpness), factor) for factor in _SHARPER]
        tried = [(threshold_error(result, law), factor * steps.sharpness) for law, factor in laws]
        return min(tried)

    rows = []
    for length in test_lengths:
        bags = task.but(length=length)
        here, threshold = (f(solved, bags, accuracy=2e-3) for f in (ErmResult.on, refit))
        best, k = fitted(solved, steps.query_cosine, bags)
        rows.append(
            {
                "test_length": length,
                **fields_of(here, AT_TEST),
                "threshold_error": threshold.test_error,
                "bias_shift": threshold.tested["bias_shift"],
                "sharpness_error": min(best, threshold.test_error),
                "k": steps.sharpness,
                "best_k": k,
                "query_error": fitted(perfect, 1.0, bags)[0],
            }
        )
    return rows


@trial_kind("readout_theory", version=2, columns=columns("alpha", *ERM_FIELDS))
def readout_theory_trial(
    task: Task, alpha: list[float], given: GivenReadout, accuracy: float = ACCURACY
) -> list[dict[str, float]]:
    """The limit of `readout`, for a whole list of alpha (one law serves them all); a row for each."""
    from ...theory import erm_sweep

    found = erm_sweep(_law(task, given), alpha, given.ridge, given.loss, accuracy=accuracy)
    return [{"alpha": value, **fields_of(one)} for value, one in zip(alpha, found)]


def _law(task: Task, given: GivenQuery) -> Any:
    from ...laws.law import law_of_model

    return law_of_model(task, given.model, given.cosine, given.sharpness)


@trial_kind("capacity", version=1, columns=columns("alpha_star", "standard_error"))
def capacity_trial(task: Task, given: GivenQuery) -> dict[str, float]:
    """The largest alpha at which data are separable."""
    from ...theory import capacity

    found = capacity(_law(task, given))
    return {"alpha_star": found.alpha, "standard_error": found.standard_error}


@trial_kind("margins_theory", version=2, check=check_bins, columns=columns(*BINS, "train_share", "test_share"))
def margins_theory_trial(task: Task, alpha: float, histogram: Bins, given: GivenReadout) -> list[dict[str, float]]:
    """Predicted shares of training and test margins in bins; the first and last ones take what lies outside."""
    import numpy as np

    from ...theory import erm

    found = erm(_law(task, given), alpha, given.ridge, given.loss, accuracy=ACCURACY)
    edges = histogram.edges
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(edges)
    densities = found.margin_densities((0.5 * (edges[:-1] + edges[1:])[:, None] + half[:, None] * nodes).ravel())
    step = 0.1
    below = found.margin_densities(np.arange(edges[0] - 15.0, edges[0], step) + 0.5 * step)
    shares = {}
    for name in ("train", "test"):
        share = (densities[name].reshape(histogram.bins, -1) * weights).sum(axis=1) * half
        share[0] += below[name].sum() * step
        share[-1] += 1.0 - share.sum()  # what lies above the last edge is the remainder
        shares[f"{name}_share"] = share
    return histogram.rows(**shares)


@trial_kind("bayes_limit", version=1, columns=columns(*LIMIT_FIELDS, *(f"{name}_se" for name in LIMIT_FIELDS), "hard"))
def bayes_limit_trial(task: Task, alpha: float) -> dict[str, Any]:
    """What no learner can beat with alpha d samples, and what message passing reaches."""
    from ...theory import bayes_limit

    found = bayes_limit(task, alpha)
    errors = {f"{name}_se": found.errors[name] for name in LIMIT_FIELDS}
    return {**fields_of(found, LIMIT_FIELDS), "hard": bool(found.hard), **errors}


def _crossing(error: Callable[[float], float], target: float, guess: float) -> float:
    """The strength at which a falling error meets the target, to one part in a thousand."""
    status, strength = falling_root(lambda x: error(x) - target, guess, *STRENGTHS, precision=1e-3)
    if status != FOUND:
        raise ValueError(f"no strength from {STRENGTHS[0]:g} to {STRENGTHS[1]:g} has an error of {target:g}")
    return strength


@trial_kind("known_strength", version=2, columns=columns("strength_needed"))
def known_strength_trial(
    length: int,
    mechanism: str,
    target: float = 0.1,
    sharpness: float = 1.0,
    sparsity: int = 1,
    prevalence: float = 0.5,
    guess: float = 4.0,
    points: int = 512,
) -> dict[str, float]:
    """The strength a classifier needs for the target error when the signal's direction is known.

    `mechanism` is "pooled", "attention", "elementwise", "elementwise:relu" (and so on), "hardmax" or "bayes".
    """

    def error(strength: float) -> float:
        return _known_error(Task(length, sparsity, strength, prevalence), mechanism, sharpness, points)

    return {"strength_needed": _crossing(error, target, guess)}


@trial_kind("known_error", columns=columns("test_error"))
def known_error_trial(task: Task, mechanism: str, sharpness: float = 1.0, points: int = 512) -> dict[str, float]:
    """The error of a classifier that knows the signal's direction; mechanisms as in `known_strength`."""
    return {"test_error": _known_error(task, mechanism, sharpness, points)}


def _known_error(task: Task, mechanism: str, sharpness: float, points: int) -> float:
    from ...theory.bayes import oracle as limits

    if mechanism == "pooled":
        return limits.pooled_error(task)
    if mechanism == "hardmax":
        return limits.hardmax_error(task)
    if mechanism == "bayes":
        return limits.bayes_error(task, points=points)[0]
    family, _, activation = mechanism.partition(":")
    return limits.known_signal_error(task, family, sharpness, activation or "sigmoid", points)[0]


@trial_kind("trained_strength", version=3, columns=columns("strength_needed", "cosine_q"))
def trained_strength_trial(
    task: Task,
    training: Training,
    model: str,
    target: float = 0.1,
    sharpness: float | None = None,
    guess: float = 5.0,
) -> dict[str, float]:
    """The strength a trained classifier needs for the target error (`strength` itself is not used)."""
    from ...theory import forecast

    def found(strength: float) -> Any:
        t = task.but(strength=strength)
        chosen = with_sharpness(t, training, sharpness) if model == "attention" else training
        return forecast(t, chosen, model, accuracy=1e-3, with_capacity=False)

    needed = _crossing(lambda strength: found(strength).test_error, target, guess)
    return {"strength_needed": needed, "cosine_q": found(needed).cosine.get("q", float("nan"))}
