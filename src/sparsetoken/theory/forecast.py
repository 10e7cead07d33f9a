"""Forecasts: alignment -> law -> ERM -> capacity in one call, with the fields and sample accounting of `simulate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..deployment import Deployment, check_query_to_sharpen, deployment_of
from ..laws.heads import heads_law
from ..laws.law import Law, attention_law, law_of_model, same_mechanism
from ..laws.signals import Signals
from ..models import SIMULATED, check_model, has_query, heads_of
from ..results import NOT_PLAIN, ClassifierResult, directions_of_readout
from ..task import Task
from ..training import Training
from .alignment import Alignment, alignment
from .bayes import bayes_limit
from .capacity import capacity
from .continuation import WarmStart
from .erm import ErmResult, erm
from .heads import HeadsResult
from .refinement import DEFAULT_ACCURACY
from .signals import SignalsAlignment, signals_alignment


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
    steps : Alignment or None
        The limits after the two gradient steps; None without a query.
    alpha : float
        n/d of the readout, after sample accounting.
    capacity : float
        Its separability threshold alpha*; NaN where it was not asked for.
    reachable_test_error, hard : float, bool
        Bayes limit only: the test error that message passing reaches, and whether it is larger than the optimum.
    residual : float
        Largest entry of the fixed point's undamped scaled residual.
    result : ErmResult, HeadsResult or None
        The fixed point behind the numbers, a start for neighbouring forecasts.
    """

    alpha: float = float("nan")
    capacity: float = float("nan")
    reachable_test_error: float = float("nan")
    hard: bool = False
    residual: float = 0.0
    result: ErmResult | HeadsResult | None = field(default=None, compare=False, metadata=NOT_PLAIN)


_FROM_THE_FIXED_POINT = (
    *("test_error", "standard_error", "auc", "sensitivity", "specificity", "balanced_error"),
    *("train_loss", "train_error", "norm_w", "bias", "m_q", "m_u", "nu", "residual"),
)
# Along a sweep in alpha1 or ridge the law stays the same: its draws, pushed through the softmax, are kept.
_attention_law = lru_cache(maxsize=2)(attention_law)


def law_of(task: Task, training: Training, model: str, activation: Any = "sigmoid") -> tuple[Law, Alignment | None]:
    """The law of (T, S, kappa) that a model trained this way gives, and the alignment behind it.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned.
    model : str
        A trained model: attention, pooled, vectorized, elementwise or a mechanism of the user's.
    activation : str or callable
        Of the elementwise model.

    Returns
    -------
    tuple of Law and Alignment or None
        None for models without a query.
    """
    if not check_model(model, SIMULATED).has_query:
        return law_of_model(task, model), None
    steps = alignment(task, training)
    if model == "attention":
        return _attention_law(task, steps.query_cosine, steps.sharpness), steps
    return law_of_model(task, model, steps.query_cosine, steps.sharpness, activation), steps


def check_schedule(training: Training) -> None:
    """The theory's formulas hold for disjoint D0 and D1: say so where the training is another one."""
    if training.schedule != "staged":
        raise ValueError(
            f"the theory covers the staged schedule (D0 and D1 disjoint), not {training.schedule!r}; simulate it instead"
        )


def readout_alpha(training: Training, model: str, equal_samples: bool) -> float:
    """n/d of the readout: alpha1, and alpha0 as well for models without a query when samples are to be equal."""
    check_schedule(training)
    return training.alpha1 + (training.alpha0 if equal_samples and not has_query(model) else 0.0)


def forecast(
    task: Task,
    training: Training,
    model: str = "attention",
    *,
    activation: Any = "sigmoid",
    equal_samples: bool = False,
    accuracy: float = DEFAULT_ACCURACY,
    with_capacity: bool = True,
    warm_start: WarmStart | None = None,
    test_task: Task | Mapping[str, Any] | None = None,
    test_sharpness: float | None = None,
    test_bias_shift: float = 0.0,
    signals: Any = None,
) -> Forecast:
    """Exact asymptotics of `simulate(task, training, d, seed, model)` as d grows.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned; the schedule must be "staged".
    model : str
        "attention", "pooled", "vectorized", "elementwise", "bayes" for the information-theoretic limit at alpha0 + alpha1, or
        "heads:H" for H attention heads under one readout, each with a query from its own share of D0; or a mechanism of one's
        own, by the name it was registered under (`register_mechanism`).
    activation : str or callable
        Of the elementwise model.
    equal_samples : bool
        Give pooled and vectorized alpha0 + alpha1 (models with a query have used D0 already).
    accuracy : float
        Absolute error allowed on the test error.
    with_capacity : bool
        Also compute the separability threshold.
    warm_start : WarmStart, optional
        That of a neighbouring forecast's `result`.
    test_task : Task or mapping, optional
        What the trained classifier is tested on, or the fields in which that differs from `task`; for the vectorized model
        with bags of the same length.
    test_sharpness : float, optional
        k = beta ||q|| at test time, for models with a query; the trained one by default.
    test_bias_shift : float
        Added to the trained bias at test time.
    signals : Signals, int or array (J, dimension), optional
        Several signals, of which a positive bag carries one or more (`theory.Signals.of`), for "heads:H". `overlap` and
        `cosine` then have an entry per signal, "w:1" and "q1:1" for the first.

    Returns
    -------
    Forecast
        Where a test option is given, its measures on fresh bags (`test_error`, `auc`, `sensitivity`, `specificity`,
        `balanced_error`) are those of the test, all other fields those of the training; `trained` and `tested` say what
        the two were.

    Raises
    ------
    ValueError
        If the model is unknown, the schedule is not "staged", or the classifier cannot be tested as asked.
    """
    if (heads := heads_of(model)) is not None:
        check_schedule(training)
        wanted = deployment_of("attention", task, test_task, test_sharpness, test_bias_shift)
        several = None if signals is None else Signals.of(signals)
        return _heads_forecast(task, training, heads, accuracy, with_capacity, warm_start, wanted, several)
    if signals is not None:
        raise ValueError(f"signals are served by the model 'heads:H' ('heads:1' is attention), not by {model!r}")
    check_model(model)
    check_schedule(training)
    deployment = deployment_of(model, task, test_task, test_sharpness, test_bias_shift)
    if model == "bayes":
        return _bayes_forecast(task, training.alpha0 + training.alpha1)
    law, steps = law_of(task, training, model, activation)
    alpha = readout_alpha(training, model, equal_samples)
    result = erm(law, alpha, training.ridge, training.loss, accuracy=accuracy, warm_start=warm_start)
    sharpness = float("nan") if steps is None else steps.sharpness
    result = deployed(result, steps, deployment, accuracy)
    record = {} if deployment is None else deployment.record(task, sharpness)
    threshold = capacity(law) if with_capacity else None
    errors = dict(result.errors)
    if threshold is not None:
        errors["capacity"] = threshold.standard_error
    return Forecast(
        model=model,
        **{name: getattr(result, name) for name in _FROM_THE_FIXED_POINT},
        **directions_of_readout(result.m_q, result.m_u, result.norm_w, steps),
        sharpness=sharpness,
        steps=steps,
        alpha=alpha,
        capacity=float("nan") if threshold is None else threshold.alpha,
        errors=errors,
        result=result,
        **record,
    )


def deployed(result: ErmResult, steps: Alignment | None, deployment: Deployment | None, accuracy: float) -> ErmResult:
    """The readout tested where it is deployed; as it is where that is None.

    Parameters
    ----------
    result : ErmResult
        The trained readout.
    steps : Alignment or None
        The two steps that gave its query; None for models without one.
    deployment : Deployment or None
        Other bags, another sharpness, a shift of the bias.
    accuracy : float
        Absolute error allowed on the test error.

    Returns
    -------
    ErmResult
        The same readout with the measures on those bags.
    """
    if deployment is None:
        return result
    if steps is not None:
        check_query_to_sharpen(deployment, steps.norm["q"])
    there = same_mechanism(result.law, deployment.task, deployment.sharpness)
    return result.on(there, deployment.bias_shift, accuracy=accuracy)


def _heads_forecast(
    task: Task,
    training: Training,
    heads: int,
    accuracy: float,
    with_capacity: bool,
    warm_start: WarmStart | None,
    deployment: Deployment | None,
    signals: Signals | None,
) -> Forecast:
    """Several heads: each has its query from its own share of D0, and they are orthogonal off the signals."""
    part = training.but(alpha0=training.alpha0 / heads)
    steps: Alignment | SignalsAlignment
    if signals is None:
        steps = alone = alignment(task, part)

        def make(bags, k):
            return heads_law(bags, [alone.query_cosine] * heads, [k] * heads)
    else:
        steps = several = signals_alignment(task, part, signals)

        def make(bags, k):
            return several.law(bags, signals, heads, k)

    law = make(task, steps.sharpness)
    result = erm(law, training.alpha1, training.ridge, training.loss, accuracy=accuracy, warm_start=warm_start)
    record: dict[str, Any] = {}
    if deployment is not None:
        check_query_to_sharpen(deployment, steps.norm["q"])
        k = steps.sharpness if deployment.sharpness is None else deployment.sharpness
        result = result.on(make(deployment.task, k), deployment.bias_shift, accuracy=accuracy)
        record = deployment.record(task, steps.sharpness)
    # Five times coarser than for one head: the draws of several cost more, and the error is told.
    threshold = capacity(law, accuracy=5e-3) if with_capacity else None
    extra = {} if threshold is None else {"capacity": threshold.standard_error}
    names = [name for name in _FROM_THE_FIXED_POINT if name not in ("m_q", "m_u", "nu")]
    if signals is None:
        overlap, cosine, places = dict(result.overlap), dict(result.cosine), [""]
    else:
        along = result.signal_overlap.sum(0) / heads**0.5
        places = [f":{j + 1}" for j in range(len(signals))]
        overlap = {f"w{place}": float(v) for place, v in zip(places, along)}
        cosine = {name: value / result.norm_w for name, value in overlap.items()}
    for h in range(heads):
        overlap |= {f"q{h + 1}{place}": steps.overlap[f"q{place}"] for place in places}
        cosine |= {f"q{h + 1}{place}": steps.cosine[f"q{place}"] for place in places}
    return Forecast(
        model=f"heads:{heads}",
        **{name: getattr(result, name) for name in names},
        overlap=overlap,
        cosine=cosine,
        sharpness=steps.sharpness,
        steps=steps,
        alpha=training.alpha1,
        capacity=float("nan") if threshold is None else threshold.alpha,
        errors={**result.errors, **extra},
        result=result,
        **record,
    )


def _bayes_forecast(task: Task, alpha: float) -> Forecast:
    limit = bayes_limit(task, alpha)
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
