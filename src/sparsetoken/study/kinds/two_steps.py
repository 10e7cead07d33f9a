"""Kinds of trial about the two gradient steps at a given dimension, drawn and predicted, and the attention they lead to."""

from __future__ import annotations

import math
from typing import Any

from ...classifiers import has_query
from ...simulation.samplers.drawn_bags import draw_bags, sample_count
from ...task import Task
from ...training import Training
from ..kind import trial_kind
from .columns import columns
from .simulation import TWO_STEPS, check_sizes, with_sharpness
from .theory import Chosen

# Sharpnesses among which a query's best one is sought: between neighbours the error changes by a few per cent.
_SHARPNESSES = (0.3, 0.6, 1.2, 2.4, 4.8)
_POINTS = 64  # draws per replicate and class: standard errors of a tenth of a per cent


@trial_kind("steps_given_share", check=check_sizes, columns=columns(*TWO_STEPS, "given_share"))
def steps_given_share_trial(task: Task, training: Training, d: int, seed: int) -> dict[str, float]:
    """The two gradient steps, and the cosine that the formulas give for the share of positives of this very D0."""
    from ...simulation.two_steps import two_steps
    from ...theory import alignment

    row = two_steps(task, training, d, seed).to_row()
    labels = draw_bags(task, sample_count("alpha0", training.alpha0, d), seed, "0").labels
    given = alignment(task.but(prevalence=float((labels > 0).mean())), training).query_cosine
    return {**{name: row[name] for name in TWO_STEPS}, "given_share": given}


@trial_kind("alignment_law", columns=columns("cosine_q", "norm_q", "cosine_q_spread", "share_negative"))
def alignment_law_trial(task: Task, training: Training, d: int) -> dict[str, float]:
    """The law of the query after the two steps at a dimension."""
    from ...theory import alignment

    law = alignment(task, training, d=d)
    return {
        "cosine_q": law.cosine["q"],
        "norm_q": law.norm["q"],
        "cosine_q_spread": law.spread["cosine_q"],
        "share_negative": law.share_negative,
    }


@trial_kind("forecast_at", columns=columns("test_error", "standard_error", "test_error_spread", "cosine_q", "k"))
def forecast_at_trial(task: Task, training: Training, d: int, chosen: Chosen) -> dict[str, float]:
    """The mean over data sets of `simulate` at a dimension, and its spread; `sharpness` sets eta_q through the limit's k."""
    from ...theory import forecast

    if has_query(chosen.model):
        training = with_sharpness(task, training, chosen.sharpness)
    found = forecast(task, training, chosen.model, d=d)
    return {
        "test_error": found.test_error,
        "standard_error": found.standard_error,
        "test_error_spread": found.spread["test_error"],
        "cosine_q": found.cosine.get("q", math.nan),
        "k": found.sharpness,
    }


@trial_kind("staged_attention", columns=columns("test_error", "standard_error", "cosine_q", "k", "anti_aligned"))
def staged_attention_trial(task: Task, training: Training, tuned: bool = False) -> dict[str, Any]:
    """Attention after the two steps with its best sharpness of several; `tuned` takes the best rates of plain steps."""
    from ...laws.law import attention_law
    from ...planning.tuning import best_rates
    from ...theory import alignment
    from ...theory.fixed_point.plain import quick_readout

    if tuned:
        eta_w, eta_b = best_rates(task, training.loss, training.alpha0, centred=False)
        training = training.but(eta_w=eta_w, eta_b=eta_b)
    cosine = alignment(task, training).query_cosine
    tried = []
    for k in _SHARPNESSES:
        law = attention_law(task, cosine, k).on_draws(_POINTS)
        found = quick_readout(law, training.alpha1, training.ridge, training.loss)
        tried.append((found.test_error, found.standard_error, k))
    error, standard_error, k = min(tried)
    return {
        "test_error": error,
        "standard_error": standard_error,
        "cosine_q": cosine,
        "k": k,
        "anti_aligned": cosine < 0,
    }
