"""`forecast`: the theory's numbers, for one point or over ranges."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from . import app, deployment
from . import signals as signal_options
from .console import echo
from .fields import ACTIVATION, DISTURBANCES, EQUAL_SAMPLES, TaskOptions, TrainingOptions
from .option_blocks import with_blocks
from .user_code import LOSS, MODULES

_COLUMNS = (
    ("test_error", "test error"),
    ("auc", "AUC"),
    ("balanced_error", "balanced error"),
    ("sensitivity", "sensitivity"),
    ("specificity", "specificity"),
    ("train_loss", "train loss"),
    ("train_error", "train error"),
    ("cosine_q", "cos(q, ξ)"),
    ("sharpness", "k = β‖q‖"),
    ("cosine_w", "cos(w, ξ)"),
    ("norm_w", "‖w‖"),
    ("bias", "b"),
    ("capacity", "capacity α*"),
)

_IN_SWEEPS = ("test_error", "auc", "sensitivity", "specificity", "train_loss", "cosine_q", "sharpness", "capacity")
# Fields of task and training that the theory has one value of.
_OF_SIMULATIONS = ("positions", "schedule", "steps")
# Shown where a classifier is tested on other bags: there it is usually the threshold that is wrong.
_ELSEWHERE = ("sensitivity", "specificity")


@app.command()
@with_blocks
def forecast(
    *,
    of_task: TaskOptions,
    loss: str = LOSS,
    of_training: TrainingOptions,
    model: list[str] = typer.Option(
        ["attention"],
        "--model",
        "-m",
        help="attention, pooled, vectorized, elementwise, bayes, heads:2 (several heads), one of your own (--module) or all; "
        "repeatable.",
    ),
    activation: str = ACTIVATION,
    equal_samples: bool = EQUAL_SAMPLES,
    signals: signal_options.SignalOptions,
    of_test: deployment.TestOptions,
    accuracy: float = typer.Option(2e-4, "--accuracy", help="Absolute error allowed on the test error."),
    json_file: Path = typer.Option(None, "--json", help="Write the rows here."),
    csv_file: Path = typer.Option(None, "--csv", help="Write the rows here."),
    plot_file: Path = typer.Option(None, "--plot", help="Plot the test error over the range (PNG, PDF or SVG)."),
    modules: list[Path] = MODULES,
) -> int:
    """Exact asymptotics of the classifiers: what `simulate` tends to as d grows.

    Numbers may be lists (1,2,4) or ranges (0.5:8:16, or 1e-5:1:6:log); then every combination is computed. With --test-...
    options the classifier is trained on one kind of bags and tested on another.
    """
    from .._core.files import check_apart, check_ending, check_writable
    from .._core.words import with_error
    from ..models import FORECAST, heads_of
    from ..plotting.pictures import ENDINGS
    from ..task import Task
    from ..theory.sweep import forecast_grid
    from ..training import Training
    from .console import deliver, print_table, write_csv, write_json
    from .values import check_combinations, parse_values

    given = of_task._asdict() | of_training._asdict()
    grid = {name: parse_values(name, text) for name, text in given.items()}
    tests = deployment.Tests.parse(of_test)
    several = signal_options.read_signals(signals)
    for file in (json_file, csv_file):
        check_writable(file)
    check_writable(plot_file, endings=ENDINGS)
    check_apart((json_file, csv_file, plot_file), (signals.signals,))
    check_ending(json_file, ".json")
    check_ending(csv_file, ".csv")
    models = list(FORECAST) if "all" in model else list(dict.fromkeys(model))
    unknown = [name for name in models if heads_of(name) is None and name not in FORECAST]
    if unknown:
        raise ValueError(f"model must be one of {', '.join(FORECAST)}, heads:H or all, got {unknown[0]!r}")
    check_combinations([*grid.values(), *tests.values.values()], len(models))
    over = {name: values for name, values in grid.items() if len(values) > 1}
    swept = [*over, *tests.swept]
    if plot_file is not None and len(swept) != 1:
        raise ValueError("plot needs exactly one field given as a range, such as --alpha1 0.5:8:16")
    first = {name: values[0] for name, values in grid.items()}
    task = Task.from_dict({k: v for k, v in first.items() if k in Task.__dataclass_fields__})
    training = Training.from_dict(
        {"loss": loss} | {k: v for k, v in first.items() if k in Training.__dataclass_fields__}
    )
    options: dict[str, Any] = {"accuracy": accuracy, "activation": activation, "equal_samples": equal_samples}
    options |= {} if several is None else {"signals": several}
    rows = []
    for columns, arguments in tests.combinations():
        found = _compute(task, training, models, over, options | arguments, forecast_grid)
        rows += [{**columns, **row} for row in found]

    about = {**task.to_dict(), **training.to_dict()}
    fixed = ", ".join(
        f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}"
        for k, v in about.items()
        if k not in (*swept, *_OF_SIMULATIONS) and (k not in DISTURBANCES or v)
    )
    headings, cells = (_across if swept else _down)(rows, swept, with_error)
    failed = [row for row in rows if row["failure"]]
    if len(failed) == len(rows):
        raise ValueError(failed[0]["failure"])
    records = [{**about, **signal_options.described(several), **row} for row in rows]

    def show() -> None:
        print_table(f"theory: {fixed}{signal_options.in_words(several)}{tests.title}", headings, cells, 1 + len(swept))
        _remarks(rows)

    deliver(
        show,
        [
            (json_file, lambda path: write_json(path, records)),
            (csv_file, lambda path: write_csv(path, records)),
            (plot_file, lambda path: _plot(rows, swept[0], path)),
        ],
    )
    for row in failed:
        where = ", ".join(f"{name} {row[name]:g}" for name in swept)
        echo(f"{row['model']}{f' at {where}' if where else ''} failed: {row['failure']}", err=True)
    return 1 if failed else 0


def _cell(row: dict[str, Any], name: str, with_error: Any) -> str:
    value = row.get(name, math.nan)
    error = row.get("standard_error" if name == "test_error" else f"{name}_se", 0.0)
    return with_error(value, error if error > 1e-12 else 0.0)


def _columns_of(rows: list) -> list[tuple[str, str]]:
    """The columns worth showing; several heads or signals have a cosine each."""
    elsewhere_too = any(key.startswith("tested_") for row in rows for key in row)
    known = [column for column in _COLUMNS if elsewhere_too or column[0] not in _ELSEWHERE]
    return known + [(name, signal_options.heading(name)) for name in signal_options.more_cosines(rows)]


def _down(rows: list, swept: list[str], with_error: Any) -> tuple[list[str], list[list[str]]]:
    """One point: a column per model, a line per quantity; a model that failed has dashes, and its reason is said below."""
    lines = []
    for name, heading in _columns_of(rows):
        cells = [_cell(row, name, with_error) for row in rows]
        if any(cell != "-" for cell in cells):
            lines.append([heading, *cells])
    return ["", *(row["model"] for row in rows)], lines


def _across(rows: list, swept: list[str], with_error: Any) -> tuple[list[str], list[list[str]]]:
    """A sweep: a line per point, the main quantities as columns (files have them all)."""
    shown = [
        c for c in _columns_of(rows) if c[0] in _IN_SWEEPS and any(_cell(r, c[0], with_error) != "-" for r in rows)
    ]
    lines = []
    for row in rows:
        numbers = [_cell(row, name, with_error) for name, _ in shown]
        lines.append([row["model"], *(f"{row[name]:g}" for name in swept), *numbers])
    return ["model", *swept, *(heading for _, heading in shown)], lines


def _compute(task: Any, training: Any, models: list[str], over: dict, options: dict[str, Any], grid: Any) -> list:
    from .._core.progress import progress

    total = len(models) * math.prod(len(v) for v in over.values())
    if total < 4:
        return grid(task, training, models, over=over, **options)
    with progress() as bars:
        advance = bars("points", total)
        return grid(task, training, models, over=over, progress=lambda done, all_: advance(1), **options)


def _remarks(rows: list[dict[str, Any]]) -> None:
    """What a reader of the table should be told in words."""
    if any(row.get("hard") for row in rows):
        reached = [f"{row['reachable_test_error']:.4g}" for row in rows if row.get("hard")]
        echo(f"hard phase: the Bayes error is possible in principle; the best known fast method reaches {reached[0]}")
    anti = [row for row in rows if not row["failure"] and row.get("cosine_q", math.nan) < 0]
    if anti:
        echo("the query is anti-aligned with the signal (cos(q, ξ) < 0): try another eta_b")


def _plot(rows: list[dict[str, Any]], name: str, path: Path) -> None:
    from ..plotting.pictures import write_picture
    from ..plotting.show import axes_for, legend_above
    from ..plotting.style import colour, label

    axes = axes_for(size=(6.4, 4.2))
    for place, model in enumerate(dict.fromkeys(row["model"] for row in rows)):
        mine = [row for row in rows if row["model"] == model]
        x, y = [row[name] for row in mine], [row["test_error"] for row in mine]
        axes.plot(x, y, marker="o", markersize=3, label=label(model), color=colour(model, place))
    values = [row[name] for row in rows]
    if min(values) > 0 and max(values) / min(values) > 50:
        axes.set_xscale("log")
    symbols = {
        "alpha0": "α₀ = n₀/d",
        "alpha1": "α₁ = n₁/d",
        "strength": "strength θ",
        "length": "length L",
        "ridge": "ridge λ",
        "tested_length": "length L at test time",
        "tested_sharpness": "sharpness k at test time",
    }
    axes.set_xlabel(symbols.get(name, name))
    axes.set_ylabel("test error")
    axes.set_ylim(bottom=0)
    legend_above(axes)
    axes.grid(alpha=0.3)
    write_picture(path, axes.figure)
