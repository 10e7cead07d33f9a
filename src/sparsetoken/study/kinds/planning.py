"""A kind of trial that follows the planner's advice."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...planning.tuning import tune_attention
from ...results import NotConvergedWarning
from ...simulation.seeds import trial_seeds
from ...task import Task
from ...training import Training
from ..kind import trial_kind
from .columns import PLANNED, columns
from .simulation import check_sizes


@trial_kind(
    "planned",
    version=1,
    check=lambda arguments: check_sizes({**arguments, "model": "attention"}),
    columns=columns(
        "trial",
        "planned_error",
        "default_error",
        "expected",
        "expected_se",
        "limit",
        "share",
        "k",
        "cosine_q",
        *PLANNED,
    ),
)
def planned_trial(
    task: Task, alpha: float, d: int, seed: int, trials: int = 16, thorough: bool = False
) -> list[dict[str, Any]]:
    """Staged attention as the planner advises for n = alpha d bags, and as it is by default: a row per simulated data set.

    `expected` is the error that the plan promises at this n and d. The default training splits the samples in halves.
    A thorough plan searches from two starts and tries the neighbours of what it finds, as the command `plan` does.
    """
    from ...simulation.simulate import simulate

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        for i, s in enumerate(trial_seeds(seed, trials)):
            runs = {"planned_error": chosen, "default_error": default}
            rows.append({"trial": i, **advice, **{k: simulate(task, t, d, s).test_error for k, t in runs.items()}})
    return rows
