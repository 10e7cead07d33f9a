"""Kinds of trial about several attention heads under one readout: trained in stages, simulated and in theory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..._core.validation import whole_number
from ...results import NotConvergedWarning
from ...task import Task
from ...training import Training
from ..kind import trial_kind
from .columns import columns
from .simulation import check_sizes, with_sharpness
from .theory import ACCURACY


def check_heads(arguments: Mapping[str, Any]) -> None:
    """Refuse numbers of heads that cannot be, and data that no machine holds: features have heads x d coordinates."""
    heads = whole_number("heads", arguments["heads"], 1)
    if "d" in arguments:
        check_sizes({**arguments, "model": "attention", "alpha1": heads * arguments["alpha1"]})


def of_heads(task: Task, training: Training, heads: int, sharpness: float | None) -> Training:
    """The training with eta_q such that every head, which has its share of D0, is predicted to have that sharpness."""
    share = with_sharpness(task, training.but(alpha0=training.alpha0 / heads), sharpness)
    return training.but(eta_q=share.eta_q)


@trial_kind("heads", version=1, check=check_heads, columns=columns("test_error", "train_loss", "cosine_q"))
def heads_trial(
    task: Task, training: Training, d: int, seed: int, heads: int = 2, sharpness: float | None = None
) -> dict[str, Any]:
    """Staged training of several heads; `cosine_q` is the mean over heads."""
    from ...simulation.simulate import simulate

    chosen = of_heads(task, training, heads, sharpness)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        found = simulate(task, chosen, d, seed, model=f"heads:{heads}")
    cosine = sum(found.cosine[f"q{h + 1}"] for h in range(heads)) / heads
    return {"test_error": found.test_error, "train_loss": found.train_loss, "cosine_q": cosine}


@trial_kind(
    "heads_forecast",
    version=1,
    check=check_heads,
    columns=columns("test_error", "standard_error", "train_loss", "cosine_q", "k"),
)
def heads_forecast_trial(
    task: Task, training: Training, heads: int = 2, sharpness: float | None = None, accuracy: float = ACCURACY
) -> dict[str, Any]:
    """The limit of `heads` as d grows."""
    from ...theory import forecast

    chosen = of_heads(task, training, heads, sharpness)
    # One head has a theory of its own, which is quicker.
    model, query = ("attention", "q") if heads == 1 else (f"heads:{heads}", "q1")
    found = forecast(task, chosen, model, accuracy=accuracy, with_capacity=False)
    return {
        "test_error": found.test_error,
        "standard_error": found.standard_error,
        "train_loss": found.train_loss,
        "cosine_q": found.cosine[query],
        "k": found.sharpness,
    }
