"""Forecasts: alignment -> law -> ERM -> capacity in one call, with the field names and sample accounting of `simulate`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any

import numpy as np

from ..laws.law import Law, attention_law, elementwise_law, pooled_law, vectorized_law
from ..task import Task
from ..training import Training
from .alignment import Alignment, alignment
from .bayes import bayes_limit
from .capacity import capacity
from .erm import DEFAULT_ACCURACY, ErmResult, erm

MODELS = ("attention", "pooled", "vectorized", "elementwise", "bayes")
WITH_QUERY = ("attention", "elementwise")


@dataclass(frozen=True)
class Forecast:
    """Exact asymptotics of one classifier under one training.

    Fields shared with `simulate` have its names: test_error, train_loss, train_error, norm_w, bias (of the readout), auc,
    sensitivity, specificity, balanced_error, cos_readout (the readout's cosine with xi), cos_w, cos_q, norm_q (of the two
    steps; NaN without a query). alpha is the readout's n/d after sample accounting; capacity its separability threshold.
    standard_error is that of the test error, `errors` has the others'. Bayes limit ("bayes"): test_error is what no learner
    beats at alpha0 + alpha1, reachable_test_error what message passing reaches, cos_readout the estimate's cosine.
    """

    model: str
    test_error: float
    train_loss: float = float("nan")
    train_error: float = float("nan")
    norm_w: float = float("nan")
    bias: float = float("nan")
    cos_readout: float = float("nan")
    auc: float = float("nan")
    sensitivity: float = float("nan")
    specificity: float = float("nan")
    balanced_error: float = float("nan")
    cos_w: float = float("nan")
    cos_q: float = float("nan")
    norm_q: float = float("nan")
    sharpness: float = float("nan")
    alpha: float = float("nan")
    capacity: float = float("nan")
    reachable_test_error: float = float("nan")
    hard: bool = False
    standard_error: float = 0.0
    residual: float = 0.0
    errors: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    result: ErmResult | None = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("result", "errors")}
        return plain | {"errors": dict(self.errors)}


# Along a sweep in alpha1 or ridge the law stays the same: its draws, pushed through the softmax, are kept.
_attention_law = lru_cache(maxsize=2)(attention_law)


def law_of(task: Task, training: Training, model: str, activation: Any = "sigmoid") -> tuple[Law, Alignment | None]:
    """The law of (T, S, kappa) that a model trained this way gives, and the alignment behind it."""
    if model == "pooled":
        return pooled_law(task), None
    if model == "vectorized":
        return vectorized_law(task), None
    steps = alignment(task, training)
    if model == "attention":
        return _attention_law(task, steps.cos_q, steps.sharpness), steps
    if model == "elementwise":
        return elementwise_law(task, steps.cos_q, steps.sharpness, activation), steps
    raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")


def readout_alpha(training: Training, model: str, equal_samples: bool) -> float:
    """n/d of the readout: alpha1, and alpha0 as well for models without a query when samples are to be equal."""
    if training.schedule != "staged":
        raise ValueError(
            f"the theory covers the staged schedule (D0 and D1 disjoint), not {training.schedule!r}; simulate it instead"
        )
    return training.alpha1 + (training.alpha0 if equal_samples and model not in WITH_QUERY else 0.0)


def _cos_readout(result: ErmResult, steps: Alignment | None) -> float:
    """Cosine of w with xi = gamma qhat + sqrt(1 - gamma^2) u (without a query qhat is xi itself)."""
    gamma = 1.0 if steps is None else steps.cos_q
    overlap = gamma * result.m_q + (1 - gamma**2) ** 0.5 * result.m_u
    return float(overlap / result.norm_w) if np.isfinite(result.norm_w) and result.norm_w > 0 else 0.0


def forecast(
    task: Task,
    training: Training,
    model: str = "attention",
    *,
    activation: Any = "sigmoid",
    equal_samples: bool = False,
    accuracy: float = DEFAULT_ACCURACY,
    with_capacity: bool = True,
    start: np.ndarray | None = None,
    points: int | None = None,
    offset: np.ndarray | None = None,
) -> Forecast:
    """Exact asymptotics of `simulate(task, training, d, seed, model)` as d grows; see `Forecast`.

    model "bayes" gives the information-theoretic limit at alpha0 + alpha1. `accuracy` is the absolute error allowed on the
    test error; `start`, `points` and `offset` are those of a neighbouring forecast's `result`.
    """
    if model == "bayes":
        limit = bayes_limit(task, training.alpha0 + training.alpha1)
        return Forecast(
            "bayes",
            limit.test_error,
            cos_readout=limit.overlap**0.5,
            alpha=training.alpha0 + training.alpha1,
            reachable_test_error=limit.reachable_test_error,
            hard=limit.hard,
            standard_error=limit.errors["test_error"],
            errors={"reachable_test_error": limit.errors["reachable_test_error"]},
        )
    law, steps = law_of(task, training, model, activation)
    alpha = readout_alpha(training, model, equal_samples)
    near: dict[str, Any] = {"start": start, "points": points, "offset": offset}
    result = erm(law, alpha, training.ridge, training.loss, accuracy=accuracy, **near)
    threshold = capacity(law) if with_capacity else None
    shared = ("test_error", "train_loss", "train_error", "norm_w", "bias", "auc", "sensitivity", "specificity")
    values = {name: getattr(result, name) for name in (*shared, "balanced_error", "standard_error", "residual")}
    errors = dict(result.errors)
    if threshold is not None:
        errors["capacity"] = threshold.standard_error
    if steps is not None:
        values |= {"cos_w": steps.cos_w, "cos_q": steps.cos_q, "norm_q": steps.norm_q, "sharpness": steps.sharpness}
    return Forecast(
        model=model,
        cos_readout=_cos_readout(result, steps),
        alpha=alpha,
        capacity=float("nan") if threshold is None else threshold.alpha,
        errors=errors,
        result=result,
        **values,
    )
