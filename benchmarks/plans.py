"""Do plans hold? Random tasks, n and d: the recommended settings' forecast beside fresh simulations at that size.

    python -m benchmarks.plans --count 50 --seed 0 --out plans.csv

Settings are chosen by the theory and by queries drawn from seeds of their own; the simulations that judge them use others
(`planning.tuning`: SEARCH_SEED, REPORT_SEED and CONFIRM_SEED). A recommendation holds when its forecast is within 15 % of the
simulated value, or within three standard errors of it.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import Task
from sparsetoken.planning import Outlook, confirm
from sparsetoken.planning.tuning import ACCURACY, CONFIRM_SEED

LEARNERS = ("attention", "pooled")
FIELDS = (
    *("case", "learner", "length", "sparsity", "strength", "prevalence", "n", "d", "ridge", "limit", "forecast"),
    *(
        "forecast_se",
        "simulated",
        "simulated_se",
        "trials",
        "simulated_n",
        "simulated_d",
        "off",
        "z",
        "holds",
        "seconds",
    ),
)


def random_case(case: int, seed: int) -> tuple[Task, int, int]:
    """A task, n (50 to 100,000) and d (20 to 2,000); n/d between 0.3 and 200."""
    rng = np.random.default_rng([seed, case])

    def log_uniform(low, high):
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    length = round(log_uniform(4, 200))
    sparsity = int(rng.integers(1, max(2, min(4, length // 4) + 1)))
    task = Task(length, sparsity, round(rng.uniform(2.5, 6.0), 2), round(float(rng.uniform(0.1, 0.6)), 2))
    n = round(log_uniform(50, 1e5))
    d = round(log_uniform(max(20, n / 200), min(2000, n / 0.3)))
    return task, n, d


def trials_for(n: int, d: int) -> int:
    """More trials where they are cheap."""
    return int(np.clip(8_000_000 / (n * min(n, d)), 6, 24))


def _over(gap: float, error: float) -> float:
    """The gap in standard errors; NaN where all trials agree exactly (a classifier that always says the same)."""
    return gap / error if error > 0 else math.nan


def judged(case: int, seed: int) -> list[dict[str, Any]]:
    """One row per learner: what was promised, and what simulations give."""
    task, n, d = random_case(case, seed)
    outlook, rows = Outlook(d=d), []
    for learner in LEARNERS:
        begin = time.perf_counter()
        settings = (
            outlook.attention(task, n / d, ACCURACY, starts=2)
            if learner == "attention"
            else outlook.linear(learner, task, n / d)
        )
        found = confirm(
            task, settings.training, d, learner, settings.loss, trials=trials_for(n, d), seed=CONFIRM_SEED + seed
        )
        gap = found.forecast - found.value
        promised = settings.training.ridge, settings.limit.loss, settings.loss, settings.measured.standard_error
        measured = found.value, found.standard_error, found.trials, found.n, found.d
        verdict = (
            gap / found.value,
            _over(gap, found.standard_error),
            found.agrees,
            round(time.perf_counter() - begin, 1),
        )
        known = task.length, task.sparsity, task.strength, task.prevalence, n, d
        rows.append(dict(zip(FIELDS, (case, learner, *known, *promised, *measured, *verdict), strict=True)))
    return rows


def main() -> None:
    """Run the cases, write every row as it comes, and say how many hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    held, all_rows = 0, 0
    file = options.out.open("w", newline="") if options.out else sys.stdout
    writer = csv.DictWriter(file, FIELDS)
    writer.writeheader()
    worst = 0.0
    for case in range(options.first, options.first + options.count):
        for row in judged(case, options.seed):
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
            file.flush()
            all_rows, held = all_rows + 1, held + row["holds"]
            worst = max(worst, min(abs(row["off"]) / 0.15, abs(row["z"]) / 3 if math.isfinite(row["z"]) else 0.0))
    print(f"{held} of {all_rows} recommendations hold; the worst uses {worst:.0%} of what is allowed", file=sys.stderr)


if __name__ == "__main__":
    main()
