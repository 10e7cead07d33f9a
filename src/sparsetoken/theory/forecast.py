"""Forecasts: alignment -> law -> ERM -> capacity in one call, with the fields and sample accounting of `simulate`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from .._core.validation import whole_number
from ..classifiers import Classifier, check_model, classifier, has_query
from ..deployment import Deployment, deployment_of
from ..laws.coloured import Query, coloured_law, spectrum_of
from ..laws.draws import kept_with_draws
from ..laws.heads import heads_law
from ..laws.law import Law, law_of_model
from ..laws.signals import Signals
from ..results import NOT_PLAIN, ClassifierResult, cosine_of
from ..task import Task, Tokens
from ..training import Training
from .accuracy import Accuracy
from .alignment import Alignment, AlignmentLaw, alignment, signals_alignment
from .bayes.limit import bayes_limit
from .capacity import capacity
from .coloured_alignment import coloured_alignment, noise_directions
from .finite_size import FINEST, READOUT_MEASURES, averaged_measures, coloured_measures, sample_sizes
from .fixed_point.coloured import ColouredResult
from .fixed_point.erm import erm
from .fixed_point.heads import HeadsResult
from .fixed_point.plain import ErmResult


@dataclass(frozen=True, kw_only=True, repr=False)
class Forecast(ClassifierResult):
    """Exact asymptotics of one classifier under one training.

    The Bayes limit (model "bayes") has `test_error`, which no learner beats at alpha0 + alpha1 samples per dimension, and
    under "w" the cosine of the best estimate of xi; what is particular to a trained readout is NaN.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `errors`: the limits of what `simulate` gives.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, errors, trained, tested
        See there; standard errors come from the sampling of the law.
    steps : Alignment, AlignmentLaw or None
        The limits after the two gradient steps, with `d` their law; None without a query.
    alpha : float
        n/d of the readout, after sample accounting.
    capacity : float
        Its separability threshold alpha*; NaN unless computed (`with_capacity`).
    reachable_test_error, hard : float, bool
        Bayes limit only: the test error that message passing reaches, and whether it is larger than the optimum.
    d : int or None
        The dimension, where numbers are means over data sets of that dimension; in white noise those of the training data are
        then NaN.
    spread : mapping
        Standard deviations between data sets at that dimension, by field ("test_error", "auc", .., "cosine_q", "sharpness"), as
        far as class shares and queries cause them; readouts with the same query differ as well, by order 1/sqrt(d).
    residual : float
        Largest entry of the fixed point's undamped scaled residual.
    result : ErmResult, HeadsResult, ColouredResult or None
        The fixed point behind the numbers, a start for neighbouring forecasts.
    """

    alpha: float = math.nan
    capacity: float = math.nan
    reachable_test_error: float = math.nan
    hard: bool = False
    d: int | None = None
    spread: Mapping[str, float] = field(default_factory=dict)
    residual: float = 0.0
    result: ErmResult | HeadsResult | ColouredResult | None = field(default=None, compare=False, metadata=NOT_PLAIN)


# Where fewer directions carry the noise, queries differ between data sets at any d (eigenvalues j^-a: a above about 0.5): the
# limit's test error is 7 % too small at 24, 18 % at 12 (.088 for .104 in simulations, d = 300).
FEW_DIRECTIONS = 30


# Along a sweep in alpha1 or ridge the law stays the same: its draws, after the softmax, are cached. The classifier is
# part of the key because a name may be registered again.
@kept_with_draws(2)
def _law(task: Task, chosen: Classifier, cosine: float, sharpness: float) -> Law:
    return law_of_model(task, chosen.name, cosine, sharpness)


def law_of(task: Task, training: Training, model: str) -> tuple[Law, Alignment | None]:
    """The law of (T, S, kappa) that a model trained this way gives, and the alignment behind it."""
    chosen = check_model(model)
    if not chosen.has_query:
        return law_of_model(task, model), None
    steps = alignment(task, training)
    return _law(task, chosen, steps.query_cosine, steps.sharpness), steps


def check_schedule(training: Training) -> None:
    """Refuse schedules without formulas: those of the theory hold for disjoint D0 and D1."""
    if training.schedule != "staged":
        raise ValueError(
            f"the theory covers the staged schedule (D0 and D1 disjoint), not {training.schedule!r}; simulate it instead"
        )


def readout_alpha(training: Training, model: str) -> float:
    """n/d of the readout: alpha1, and alpha0 as well for models without a query when samples are to be equal."""
    check_schedule(training)
    return training.alpha1 + (training.alpha0 if training.equal_samples and not has_query(model) else 0.0)


def forecast(
    task: Task,
    training: Training,
    model: str = "attention",
    *,
    tokens: Tokens | None = None,
    deployment: Deployment | None = None,
    accuracy: float | Accuracy | None = None,
    with_capacity: bool | None = None,
    d: int | None = None,
) -> Forecast:
    """Exact asymptotics of `simulate(task, training, d, seed, model)` as d grows, or its mean over data sets at one d.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned; the schedule must be "staged".
    model : str
        "attention", "pooled", "vectorized", "elementwise" (with the logistic sigmoid; "elementwise:relu" and so on with another
        activation), "bayes" for the information-theoretic limit at alpha0 + alpha1, "heads:H" for H attention heads under one
        readout, each with a query from its own share of D0, or a name given to `register_classifier`.
    tokens : Tokens, optional
        What tokens are made of, white Gaussian noise by default. A `covariance` is served for one attention head and pooling,
        `signals` for "heads:H"; `overlap` and `cosine` then have an entry per signal, "w:1" and "q1:1" for the first.
    deployment : Deployment, optional
        What the trained classifier is tested on, where that is not what it was trained on.
    accuracy : float or Accuracy, optional
        Absolute error allowed on the test error. Where it cannot be met there is a warning (`theory.AccuracyWarning`), or with
        `Accuracy(1e-5, strict=True)` an error; `Accuracy(1e-3, warm_start=...)` starts from a neighbouring forecast's `result`.
        By default 2e-4 in the limit; without one, the Bayes limit and forecasts at a given d are computed on a fixed number of
        draws.
    with_capacity : bool, optional
        Also compute the separability threshold; by default in the limit, not in means over data sets.
    d : int, optional
        Dimension of a token: what n = alpha d bags lead to on average over data sets, whose class shares and queries differ,
        up to terms of relative order 1/d. For classifiers with one query or none; in white noise, tested as they were trained.
        With a covariance d is its dimension. Where fewer than 30 directions carry its noise, (tr Sigma^2)^2/tr Sigma^4 < 30,
        queries differ between data sets at any d, and the forecast is this average without being asked.

    Returns
    -------
    Forecast
        With a deployment, its measures on fresh bags (`test_error`, `auc`, `sensitivity`, `specificity`, `balanced_error`) are
        those of the test, all other fields those of the training; `trained` and `tested` describe the two.

    Raises
    ------
    ValueError
        If the model is unknown, the schedule is not "staged", the theory has no formula for the tokens, or the classifier
        cannot be tested on the deployment.
    """
    Task.require(task)
    Training.require(training)
    chosen = classifier(model)
    check_schedule(training)
    tokens = _checked_tokens(tokens, chosen)
    test = deployment_of(deployment, model, task)
    d = None if d is None else whole_number("d", d, 2)
    if tokens.covariance is not None:
        spectrum = spectrum_of(tokens.covariance, tokens.signal, d)
        if d not in (None, spectrum.dimension):
            raise ValueError(f"d must be the covariance's dimension ({spectrum.dimension}) or None, got {d}")
        if d is not None or (chosen.has_query and noise_directions(spectrum) < FEW_DIRECTIONS):
            measures = partial(coloured_measures, task, training, chosen, spectrum, test, bool(with_capacity))
            mean = _forecast_at(training, chosen.name, spectrum.dimension, accuracy, measures)
            return mean if test is None else replace(mean, **test.record(task, mean.sharpness))
    elif d is not None:
        if test is not None or not chosen.trainable or chosen.heads is not None:
            raise ValueError("d is for models with one query or none, tested as they were trained")
        if with_capacity or (isinstance(accuracy, Accuracy) and accuracy.warm_start is not None):
            raise ValueError("with_capacity and a warm start are for the limit, not for a given d")
        return _forecast_at(training, model, d, accuracy, partial(averaged_measures, task, training, model, d))
    if not chosen.trainable:
        return _bayes_forecast(task, training.alpha0 + training.alpha1, accuracy)
    (law, steps), alpha = _law_and_steps(task, training, chosen, tokens), readout_alpha(training, model)
    wanted = Accuracy() if accuracy is None else Accuracy.of(accuracy)
    aim, strict = wanted.test_error, wanted.strict
    result = erm(law, alpha, training.ridge, training.loss, accuracy=aim, warm_start=wanted.warm_start, strict=strict)
    sharpness = math.nan if steps is None else steps.sharpness
    record: dict[str, Any] = {}
    if test is not None:
        if steps is not None:
            test.check_query(steps.norm["q"])
        test_law = law.elsewhere(test.bags, test.sharpness)
        result = result.on(test_law, test.bias_shift, accuracy=aim, strict=strict)
        record = test.record(task, sharpness)
    errors, threshold = dict(result.errors), math.nan
    if with_capacity is not False:
        separability = capacity(law)
        threshold, errors["capacity"] = separability.alpha, separability.standard_error
    return Forecast(
        model=model,
        **{name: getattr(result, name) for name in (*READOUT_MEASURES, "m_q", "m_u", "nu", "residual")},
        **_directions(result, steps),
        sharpness=sharpness,
        steps=steps,
        alpha=alpha,
        capacity=threshold,
        errors=errors,
        result=result,
        **record,
    )


# steps, means, standard errors and spreads over data sets, on a number of times the usual draws
_Measures = Callable[[int], tuple[AlignmentLaw | None, dict[str, float], dict[str, float], dict[str, float]]]


def _forecast_at(
    training: Training, model: str, d: int, accuracy: float | Accuracy | None, measures: _Measures
) -> Forecast:
    refinement = 1
    steps, means, errors, spread = measures(refinement)
    if accuracy is not None:
        wanted = Accuracy.of(accuracy)
        # Both the draws of the law and those of the two steps: errors fall like the root of the latter.
        while (shortfall := wanted.shortfall(errors["test_error"])) > 1 and refinement < FINEST:
            refinement = min(FINEST, refinement * 2 ** math.ceil(2 * math.log2(shortfall)))
            steps, means, errors, spread = measures(refinement)
        if shortfall > 1:
            wanted.missed(errors["test_error"], f"at the finest sampling for d = {d}")
    fields: dict[str, Any] = {**means}
    for name in ("overlap", "cosine"):
        fields[name] = {"w": fields.pop(f"{name}_w"), **({} if steps is None else {"q": getattr(steps, name)["q"]})}
    if steps is not None:
        spread |= {name: steps.spread[name] for name in ("cosine_q", "sharpness")}
    return Forecast(
        model=model,
        **fields,
        standard_error=errors["test_error"],
        sharpness=math.nan if steps is None else steps.sharpness,
        steps=steps,
        alpha=sample_sizes(training, model, d).n1 / d,
        errors=errors,
        d=d,
        spread=spread,
    )


def _checked_tokens(tokens: Tokens | None, chosen: Classifier) -> Tokens:
    """The tokens, as far as the theory has formulas for them."""
    if tokens is None:
        return Tokens()
    Tokens.require(tokens)
    if tokens.noise is not None and not (isinstance(tokens.noise, str) and tokens.noise == "gaussian"):
        raise ValueError("noise must be Gaussian in theory: give its covariance, or simulate it instead")
    if tokens.signals is not None and chosen.heads is None:
        raise ValueError(f"signals are served by the model 'heads:H' ('heads:1' is attention), not by {chosen.name!r}")
    if tokens.covariance is not None and (chosen.heads is not None or chosen.name in ("vectorized", "bayes")):
        raise ValueError(
            f"covariance is served for one attention head and pooling, not for {chosen.name!r}: simulate it instead"
        )
    return tokens


def _law_and_steps(task: Task, training: Training, chosen: Classifier, tokens: Tokens) -> tuple[Any, Any]:
    """A classifier's law, and the limits after the two gradient steps behind its queries (None without a query)."""
    if chosen.heads is not None:
        # Each head's query comes from a separate share of D0; off the signals the queries are orthogonal.
        heads, part = chosen.heads, training.but(alpha0=training.alpha0 / chosen.heads)
        if tokens.signals is None:
            steps: Any = alignment(task, part)
            return heads_law(task, [steps.query_cosine] * heads, [steps.sharpness] * heads), steps
        signals = Signals.of(tokens.signals)
        steps = signals_alignment(task, part, signals)
        return steps.law(task, signals, heads), steps
    if tokens.covariance is None:
        return law_of(task, training, chosen.name)
    spectrum = spectrum_of(tokens.covariance, tokens.signal)
    if chosen.has_query:
        steps = coloured_alignment(task, training, spectrum)
        return coloured_law(task, spectrum, steps.query, training.beta, chosen.weighting), steps
    query = Query(spectrum.direction, spectrum.signal * 0.0 + 1.0)  # any: at beta = 0 tokens are averaged
    return coloured_law(task, spectrum, query, 0.0, chosen.weighting), None


def _directions(result: ErmResult | HeadsResult | ColouredResult, steps: Any) -> dict[str, Any]:
    """`overlap` and `cosine` of the readout under "w" and of the query under "q", of several heads "q1" and so on; with several
    signals, those with signal j under "w:j" and "q1:j"."""
    if isinstance(result, HeadsResult):
        queries = [f"q{h + 1}" for h in range(result.law.heads)]
        along = result.signal_overlap.sum(0) / len(queries) ** 0.5
    else:
        queries, along = ["q"], [result.overlap["w"]]
    places = [""] if steps is None else [name[1:] for name in steps.overlap if name.startswith("q")]
    overlap = {f"w{place}": float(value) for place, value in zip(places, along, strict=True)}
    cosine = {name: cosine_of(value, result.norm_w) for name, value in overlap.items()}
    if steps is not None:
        for query in queries:
            overlap |= {f"{query}{place}": steps.overlap[f"q{place}"] for place in places}
            cosine |= {f"{query}{place}": steps.cosine[f"q{place}"] for place in places}
    return {"overlap": overlap, "cosine": cosine}


def _bayes_forecast(task: Task, alpha: float, accuracy: float | Accuracy | None) -> Forecast:
    limit = bayes_limit(task, alpha)
    if accuracy is not None:
        wanted, error = Accuracy.of(accuracy), limit.errors["test_error"]
        if wanted.shortfall(error) > 1:
            wanted.missed(error, "of the Bayes limit's draws")
    return Forecast(
        model="bayes",
        test_error=limit.test_error,
        cosine={"w": limit.overlap**0.5},
        alpha=alpha,
        reachable_test_error=limit.reachable_test_error,
        hard=limit.hard,
        standard_error=limit.errors["test_error"],
        errors={"reachable_test_error": limit.errors["reachable_test_error"]},
    )
