"""Do plans hold? Random tasks, n and d: what is promised of each learner beside fresh simulations at that size.

Settings are chosen, forecasts made and combined with simulations on seeds of `planning.tuning` and `planning.forecast_at`; the
simulations that judge them use others. A promise holds when it is within 15 % of the fresh mean, or within three standard
errors (of both).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sparsetoken import Task, simulate
from sparsetoken.planning import Criterion, Expected, Outlook
from sparsetoken.planning.forecast_at import message_passing_error, with_both_classes
from sparsetoken.planning.plan import expected_of

from .measure import case

CASES, SEED = 12, 7  # tasks on which nothing was chosen
LEARNERS = ("attention", "pooled", "message_passing")
FRESH_SEED = 1000  # of the simulations that judge
FIELDS = (
    *("case", "learner", "length", "sparsity", "strength", "prevalence", "n", "d", "limit", "promised", "promised_se"),
    *("simulated", "fresh", "fresh_se", "trials", "off", "holds", "seconds"),
)


def random_case(number: int, seed: int) -> tuple[Task, int, int]:
    """A task, n (50 to 5,000) and d (20 to 1,000); n/d between 0.3 and 50."""
    rng = np.random.default_rng([seed, number])

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    length = round(log_uniform(4, 100))
    sparsity = int(rng.integers(1, max(2, min(4, length // 4) + 1)))
    task = Task(length, sparsity, round(rng.uniform(2.5, 6.0), 2), round(float(rng.uniform(0.1, 0.6)), 2))
    n = round(log_uniform(50, 5000))
    d = round(log_uniform(max(20, n / 50), min(1000, n / 0.3)))
    return task, n, d


def fresh_mean(task: Task, n: int, d: int, learner: str, outlook: Outlook, seed: int) -> tuple[float, float, int]:
    """Mean test error over fresh data sets, its standard error, and their number; more where they are cheap."""
    if learner == "message_passing":
        trials = int(np.clip(2e7 / (n * task.mean_length * d), 4, 16))
        simulated = message_passing_error(task, n, d, FRESH_SEED + seed, trials)
        return simulated.loss, simulated.standard_error, trials
    trials = int(np.clip(4e7 / (n * min(n, d)), 8, 60))
    training = outlook.settings(learner, task, n / d, thorough=True).training
    results = with_both_classes(lambda s: simulate(task, training, d, s, learner), trials, FRESH_SEED + seed)
    errors = [result.test_error for result in results]
    return float(np.mean(errors)), float(np.std(errors, ddof=1) / trials**0.5), trials


def holds(row: Expected, fresh: float, error: float) -> bool:
    """Whether a promise is within 15 % or three standard errors of both."""
    return abs(row.value - fresh) <= max(0.15 * fresh, 3 * float(np.hypot(error, row.standard_error)), 1e-4)


def judged(number: int, seed: int) -> list[dict[str, Any]]:
    """One row per learner: what was promised, and what fresh simulations give."""
    task, n, d = random_case(number, seed)
    outlook, rows = Outlook(Criterion(), d=d), []
    for learner in LEARNERS:
        begin = time.process_time()
        row = expected_of(outlook, learner, task, n / d)
        seconds = round(time.process_time() - begin, 1)
        fresh, error, trials = fresh_mean(task, n, d, learner, outlook, seed)
        of_task = task.length, task.sparsity, task.strength, task.prevalence, n, d
        promised = row.limit, row.value, row.standard_error, row.simulated
        verdict = fresh, error, trials, row.value / max(fresh, 1e-6) - 1, holds(row, fresh, error), seconds
        rows.append(dict(zip(FIELDS, (number, learner, *of_task, *promised, *verdict), strict=True)))
    return rows


@case("plans", "test errors that plans predict, beside fresh simulations at the same n and d: random tasks")
def plans(quick: bool) -> list[dict[str, Any]]:
    """A row for each learner."""
    rows = [row for number in range(1 if quick else CASES) for row in judged(number, SEED)]
    return [_summary(learner, [row for row in rows if row["learner"] == learner]) for learner in LEARNERS]


def _summary(learner: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    limits = [abs(row["limit"] / max(row["fresh"], 1e-6) - 1) for row in rows]
    near = [
        gap <= max(0.15, 3 * row["fresh_se"] / max(row["fresh"], 1e-6)) for gap, row in zip(limits, rows, strict=True)
    ]
    return {
        "learner": learner,
        "cases": len(rows),
        "predictions that hold": sum(row["holds"] for row in rows),
        "limits that would": sum(near),
        "prediction's median error": f"{np.median([abs(row['off']) for row in rows]):.1%}",
        "limit's median error": f"{np.median(limits):.1%}",
    }
