"""What `plan` prints, and what weights of the rare class change: figures of docs/plan.md."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from examples.digits_bags import digit_bags

from sparsetoken import Task
from sparsetoken._core.averages import mean_and_error, with_error
from sparsetoken.planning import Criterion
from sparsetoken.planning.forecast_at import simulated_losses
from sparsetoken.planning.tuning import tune_attention

from .measure import case
from .training_measured import timed_row

PLAN = "plan --length 10 --strength 5 -n 1000 -d 250 --ask none"
FROM_BAGS = "plan --from bags.csv.gz --bag bag_id --label label --target 0.03 --budget 300"


def printed(command: str, folder: str | None = None) -> dict[str, Any]:
    """A command of the program and what it prints, eighty columns wide."""
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))),
    }
    done = subprocess.run(
        [sys.executable, "-m", "sparsetoken", *command.split()],
        cwd=folder, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return {"command": f"sparsetoken {command}", "output": done.stdout.strip("\n")}


@case("plan_printed", "what `sparsetoken plan` prints for a task, n and d")
def plan_printed(quick: bool) -> list[dict[str, Any]]:
    return [printed("test-size --error 0.1 --width 0.1" if quick else PLAN)]


@case("plan_from_bags", "what `sparsetoken plan --from` prints for 300 bags of ten digits, half of which hold a nine")
def plan_from_bags(quick: bool) -> list[dict[str, Any]]:
    import pandas as pd

    bags, labels, _ = digit_bags(10, train=40 if quick else 300)[0]
    with tempfile.TemporaryDirectory() as folder:
        table = pd.DataFrame(bags.tokens, columns=[f"x{j}" for j in range(bags.tokens.shape[1])])
        owner = np.repeat(np.arange(len(labels)), bags.lengths)
        table.assign(bag_id=owner, label=labels[owner]).to_csv(Path(folder, "bags.csv.gz"), index=False)
        return [printed(FROM_BAGS + " --budget 1" * quick, folder)]


@case(
    "weighted_losses",
    "plans at rare positives, 2,000 bags in dimension 250: losses that count positive bags more often",
)
def weighted_losses(quick: bool) -> list[dict[str, Any]]:
    task = Task(length=10, strength=4.75, prevalence=0.05)
    n, d, weights = (200, 25, (1,)) if quick else (2000, 250, (1, 4, 19, 76))
    return [timed_row(lambda: _weighted(task, n, d, weight)) for weight in weights]  # noqa: B023


def _weighted(task: Task, n: int, d: int, weight: int) -> dict[str, Any]:
    loss = "logistic" if weight == 1 else f"logistic:positives={weight}"
    settings = tune_attention(task, n / d, "threshold_error", loss, d)
    losses = simulated_losses(task, settings.training, d, "attention", Criterion("threshold_error"))
    return {
        "loss": f"`{loss}`",
        "cosine of the query": f"{settings.cosine:.2f}",
        "predicted": with_error(settings.measured.loss, settings.measured.standard_error),
        f"simulated, {len(losses)} data sets": with_error(*mean_and_error(losses)),
    }
