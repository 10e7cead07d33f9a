"""Kinds of trial whose settings theory chooses, or refits to other bags."""

from __future__ import annotations

import math
from typing import Any

from ...planning.tuning import best_rates, tune_attention
from ...simulation.seeds import trial_seeds
from ...task import Task
from ...training import Training
from ..kind_registry import trial_kind
from .columns import MEASURES, PLANNED, columns
from .staged import ACCURACY, ERM_FIELDS, check_sizes, fields_of, simulated_quietly, with_sharpness

AT_TEST = ("test_error", "balanced_error", *MEASURES, "standard_error")


@trial_kind(
    "threshold_forecast", columns=columns("ridge", *ERM_FIELDS, "threshold_error", "cosine_q", "k", "eta_q_used")
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
    from ...theory.refit import error_at_best_threshold

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
        readout = erm(law, training.alpha1, ridge, training.loss, accuracy=accuracy, warm_start=start)
        start = readout.warm_start
        rows.append(
            {"ridge": ridge, **fields_of(readout), "threshold_error": error_at_best_threshold(readout, law), **query}
        )
    return rows


@trial_kind(
    "length_theory",
    columns=columns(
        "test_length", *AT_TEST, "threshold_error", "bias_shift", "sharpness_error", "k", "best_k", "query_error"
    ),
)
def length_theory_trial(task: Task, training: Training, test_lengths: list[int]) -> list[dict[str, float]]:
    """Attention trained at one length and tested at others: a row for each, with the parts of the loss in accuracy."""
    from ...theory import ErmResult, attention_law, erm, refit
    from ...theory.forecast import law_of
    from ...theory.refit import error_at_best_threshold

    law, steps = law_of(task, training, "attention")
    assert steps is not None
    perfect_law = attention_law(task, 1.0, steps.sharpness)
    solved, perfect = (
        erm(trained, training.alpha1, training.ridge, training.loss, accuracy=ACCURACY)
        for trained in (law, perfect_law)
    )

    def fitted(result: Any, cosine: float, bags: Task) -> tuple[float, float]:
        """(error, k) with the best threshold, and the best sharpness from the trained one up: longer bags need more."""
        # Between neighbours errors differ by a few per cent.
        sharper = [2.0 ** (i / 2) * steps.sharpness for i in range(5)]
        return min((error_at_best_threshold(result, attention_law(bags, cosine, k)), k) for k in sharper)

    rows = []
    for length in test_lengths:
        bags = task.but(length=length)
        as_trained, threshold = (f(solved, bags, accuracy=2e-3) for f in (ErmResult.on, refit))
        best, k = fitted(solved, steps.query_cosine, bags)
        rows.append(
            {
                "test_length": length,
                **fields_of(as_trained, AT_TEST),
                "threshold_error": threshold.test_error,
                "bias_shift": threshold.tested["bias_shift"],
                "sharpness_error": min(best, threshold.test_error),
                "k": steps.sharpness,
                "best_k": k,
                "query_error": fitted(perfect, 1.0, bags)[0],
            }
        )
    return rows


@trial_kind("staged_attention", columns=columns("test_error", "standard_error", "cosine_q", "k", "anti_aligned"))
def staged_attention_trial(task: Task, training: Training, tuned: bool = False) -> dict[str, Any]:
    """Attention after the two steps with its best sharpness of several; `tuned` takes the best rates of plain steps."""
    from ...laws.law import attention_law
    from ...theory import alignment
    from ...theory.fixed_point.plain import quick_readout

    if tuned:
        eta_w, eta_b = best_rates(task, training.loss, training.alpha0, centred=False)
        training = training.but(eta_w=eta_w, eta_b=eta_b)
    cosine = alignment(task, training).query_cosine
    tried = []
    for k in (0.3, 0.6, 1.2, 2.4, 4.8):
        law = attention_law(task, cosine, k).on_draws(64)  # standard errors of a tenth of a per cent
        readout = quick_readout(law, training.alpha1, training.ridge, training.loss)
        tried.append((readout.test_error, readout.standard_error, k))
    error, standard_error, k = min(tried)
    query = {"cosine_q": cosine, "k": k, "anti_aligned": cosine < 0}
    return {"test_error": error, "standard_error": standard_error, **query}


@trial_kind(
    "planned",
    check=lambda arguments: check_sizes({**arguments, "model": "attention"}),
    columns=columns("trial", "share", "k", "cosine_q", "limit", *PLANNED),
)
def planned_trial(
    task: Task, alpha: float, d: int, seed: int, trials: int = 16, thorough: bool = False
) -> list[dict[str, Any]]:
    """Staged attention as the planner advises for n = alpha d bags, and as it is by default: a row per simulated data set.

    The default training splits the samples in halves. The command `plan` makes a thorough plan.
    """
    settings = tune_attention(task, alpha, d=d, thorough=thorough)
    chosen, default = settings.training, Training(alpha0=alpha / 2, alpha1=alpha / 2)
    advice = {
        "expected": settings.loss,
        "expected_se": settings.measured.standard_error,
        "limit": settings.limit.loss,
        "share": settings.share,
        "k": settings.sharpness,
        "cosine_q": settings.cosine,
        **{f"planned_{name}": getattr(chosen, name) for name in ("eta_w", "eta_q", "beta", "ridge")},
        "planned_eta_b": math.nan if isinstance(chosen.eta_b, str) else chosen.eta_b,
    }
    rows = []
    for i, s in enumerate(trial_seeds(seed, trials)):
        planned, plain = (simulated_quietly(task, training, d, s).test_error for training in (chosen, default))
        rows.append({"trial": i, **advice, "planned_error": planned, "default_error": plain})
    return rows
