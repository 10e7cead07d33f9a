"""The command `forecast`: the theory's numbers, for one point or over ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._core.workers import progress
from ..task import Task, Tokens
from ..training import Training
from .options import THEORY, DeploymentOptions, DrawnFiles, SignalOptions, TaskOptions, TrainingOptions, command, option
from .printing import deliver, echo, echo_text, print_table
from .values import OptionGrid, at_test, cell, columns_of, failure_in_words, line_per_row, of_signals, settings_in_words

_IN_SWEEPS = ("test_error", "auc", "sensitivity", "specificity", "train_loss", "cosine_q", "sharpness", "capacity")


@command(THEORY)
def forecast(
    *,
    model: list[str] = option(
        ["attention"],
        "attention, pooled, vectorized, elementwise (:relu, :tanh, ...), bayes, heads:2, your own (--module) or all; "
        "repeatable.",
        "-m",
    ),
    accuracy: float = option(2e-4, "Absolute error allowed on the test error."),
    task: TaskOptions,
    training: TrainingOptions,
    signals: SignalOptions,
    test: DeploymentOptions,
    files: DrawnFiles,
) -> int:
    """Exact asymptotics of the classifiers: what `simulate` tends to as d grows.

    Numbers may be lists (1,2,4) or ranges (0.5:8:16, or 1e-5:1:6:log); then every combination is computed. With --test-...
    options the classifier is trained on one kind of bags and tested on another.

    Example: sparsetoken forecast -m attention -m bayes --alpha1 0.5:8:16 --plot curve.png
    """
    from ..classifiers import FORECAST
    from ..plotting.show import write_picture
    from ..theory.sweep import ForecastGrid

    files.check((signals.signals,))
    trained, tested = OptionGrid(task.grid(), training.grid()), OptionGrid(test.grid())
    several = signals.read()
    models = list(FORECAST) if "all" in model else list(dict.fromkeys(model))
    OptionGrid(trained.values, tested.values).check(len(models))
    swept = [*trained.swept, *(at_test(name) for name in tested.swept)]
    if files.plot is not None and len(swept) != 1:
        raise ValueError("plot needs exactly one field given as a range, such as --alpha1 0.5:8:16")
    first_task, taught = training.with_task(next(trained.cases()))
    options = {"accuracy": accuracy, "tokens": Tokens(signals=several)}
    rows = _compute(first_task, taught, models, trained, tested, options)
    failed = [row for row in rows if row["failure"]]
    if len(failed) == len(rows):
        raise ValueError(failed[0]["failure"])

    about = {**first_task.to_dict(), **taught.to_dict()}
    # Theory has no schedules or positions, and what varies has columns.
    fixed = {name: v for name, v in about.items() if name not in (*swept, "positions", "schedule", "steps")}
    title = f"theory: {settings_in_words(fixed | tested.fixed, several)}"
    records = [{**about, **of_signals(several), **row} for row in rows]

    def show() -> None:
        # No limit is exactly zero: it is below double precision.
        shown = [{n: math.ulp(0.0) if n.endswith("_error") and v == 0.0 else v for n, v in row.items()} for row in rows]
        if not swept:
            errors = [f"{row['model']} {cell(row, 'test_error')}" for row in shown if not row["failure"]]
            echo_text(f"test error: {', '.join(errors)}")
        print_table(title, *_table(shown, swept), 1 + len(swept))
        _remarks(rows)

    def draw(path: Path) -> None:
        write_picture(path, ForecastGrid(rows, swept).plot().figure)

    failures = [failure_in_words(row["model"], row, swept, row["failure"]) for row in failed]
    return deliver(show, files.writers(records, records, draw), failures)


def _compute(
    task: Task, training: Training, models: list[str], trained: Any, tested: Any, options: Mapping[str, Any]
) -> list[dict[str, Any]]:
    from ..deployment import Deployment
    from ..theory.sweep import forecast_grid

    over = {name: trained.values[name] for name in trained.swept}
    tests = list(tested.cases())
    rows: list[dict[str, Any]] = []
    with progress() as bars:
        advance = bars("points", len(models) * len(tests) * math.prod(map(len, over.values())))
        for test in tests:
            grid = forecast_grid(
                task, training, models, over=over, deployment=Deployment.from_dict(test),
                progress=lambda done, total: advance(1), **options,
            )  # fmt: skip
            rows += [{at_test(name): value for name, value in test.items()} | row for row in grid]
    return rows


def _table(rows: Sequence[Mapping[str, Any]], swept: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """A sweep: a line per point, the main quantities as columns. One point: a column per model, a line per quantity."""
    columns = columns_of(rows)
    # Tested elsewhere it is usually the threshold that is wrong: only there are these two shown.
    if not any(key.startswith("tested_") for row in rows for key in row):
        columns = {name: heading for name, heading in columns.items() if name not in ("sensitivity", "specificity")}
    if swept:
        return line_per_row(rows, swept, {name: columns[name] for name in _IN_SWEEPS if name in columns})
    lines = [[heading, *(cell(row, name) for row in rows)] for name, heading in columns.items()]
    return ["", *(row["model"] for row in rows)], lines


def _remarks(rows: list[dict[str, Any]]) -> None:
    if any(row.get("hard") for row in rows):
        reached = [f"{row['reachable_test_error']:.4g}" for row in rows if row.get("hard")]
        echo(f"hard phase: the Bayes error is possible in principle; the best known fast method reaches {reached[0]}")
    anti = [row for row in rows if not row["failure"] and row.get("cosine_q", math.nan) < 0]
    if anti:
        echo("the query is anti-aligned with the signal (cos(q, ξ) < 0): try --eta-b auto")
