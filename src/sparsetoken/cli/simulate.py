"""`simulate`: repeated trials, over a grid where values are given as lists or ranges."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import typer

from . import app, deployment
from . import noise as noise_options
from . import signals as signal_options
from .console import echo
from .fields import ACTIVATION, DISTURBANCES, EQUAL_SAMPLES, TaskOptions, TrainingOptions
from .option_blocks import with_blocks
from .user_code import LOSS, MODULES

# Column of the table: result field and heading.
_COLUMNS = (
    ("test_error", "test error"),
    ("auc", "AUC"),
    ("train_loss", "train loss"),
    ("train_error", "train error"),
    ("cosine_q", "cos(q, ξ)"),
    ("cosine_w", "cos(w, ξ)"),
    ("norm_w", "‖w‖"),
    ("bias", "b"),
)


@app.command()
@with_blocks
def simulate(
    *,
    of_task: TaskOptions,
    positions: str = typer.Option(
        "uniform", help="Signal tokens' places: uniform, block, fixed:0,3 or weighted:1,2,..."
    ),
    loss: str = LOSS,
    of_training: TrainingOptions,
    schedule: str = typer.Option("staged", help="staged, reuse (D0 again for the readout) or joint."),
    steps: str = typer.Option(
        "50", help="Gradient steps of schedule joint, with the three rates; the others take none of it."
    ),
    d: str = typer.Option(
        None, "--dimension", "-d", help="d, dimension of a token: 1000, or what the noise or covariance has."
    ),
    model: list[str] = typer.Option(
        ["attention"],
        "--model",
        "-m",
        help="attention, pooled, vectorized, elementwise, heads:2 (several heads), one of your own (--module) or all; "
        "repeatable.",
    ),
    sampler: str = typer.Option(
        None, help="reduced (exact in law, fast) or tensor (every token); reduced in Gaussian noise, else tensor."
    ),
    noise: str = noise_options.NOISE,
    covariance: str = noise_options.COVARIANCE,
    standardise: str = noise_options.STANDARDISE,
    mixed: bool = noise_options.MIXED,
    replace: bool = noise_options.REPLACE,
    bag: str = noise_options.BAG,
    label: str = noise_options.LABEL,
    ignore: list[str] = noise_options.IGNORE,
    activation: str = ACTIVATION,
    equal_samples: bool = EQUAL_SAMPLES,
    signals: signal_options.SignalOptions,
    of_test: deployment.TestOptions,
    trials: int = typer.Option(8, "--trials", "-t", help="Independent trials of each case."),
    seed: int = typer.Option(0, "--seed", help="One integer all trials' randomness comes from."),
    workers: int = typer.Option(1, "--workers", "-w", help="Processes; results do not depend on their number."),
    json_file: Path = typer.Option(None, "--json", help="Write every trial, means and standard errors here."),
    csv_file: Path = typer.Option(None, "--csv", help="Write one line per trial here."),
    modules: list[Path] = MODULES,
) -> int:
    """Train classifiers on simulated data and print mean and standard error over trials.

    Numbers may be lists (1,2,4) or ranges (0.5:8:6, or 1e-5:1:6:log); then every combination is run. With --test-...
    options the classifier is trained on one kind of bags and tested on another.
    """
    from .._core.files import check_apart, check_ending, check_writable
    from .._core.validation import whole_number
    from ..models import SIMULATED
    from ..simulation.repeats import trial_seeds
    from ..simulation.token_source import token_source
    from ..task import Positions, Task
    from ..training import Training
    from .console import deliver, print_table, write_csv, write_json
    from .values import check_combinations, parse_values

    found_noise = noise_options.read_noise(noise, standardise, mixed, replace, bag, label, ignore)
    found_covariance = noise_options.read_covariance(covariance)
    source = token_source(found_noise, found_covariance, None, None)
    d = d or f"{source.dimension(None) or 1000}"
    several = signal_options.read_signals(signals)
    sampler = sampler or (source.sampler if several is None else "tensor")
    given = {"d": d} | of_task._asdict() | of_training._asdict() | {"steps": steps}
    grid = {name: parse_values(name, text) for name, text in given.items()}
    tests = deployment.Tests.parse(of_test)
    models = list(SIMULATED) if "all" in model else list(dict.fromkeys(model))
    where = _positions(positions, Positions)
    for file in (json_file, csv_file):
        check_writable(file)
    check_apart((json_file, csv_file), (noise, covariance, signals.signals))
    check_ending(json_file, ".json")
    check_ending(csv_file, ".csv")
    check_combinations([*grid.values(), *tests.values.values()], len(models) * whole_number("trials", trials, 1))
    seeds = trial_seeds(seed, trials)
    cases = []
    for values in product(*grid.values()):
        case: dict[str, Any] = dict(zip(grid, values, strict=True))
        task = Task(**{name: case[name] for name in of_task._fields}, positions=where)
        training = Training(loss, schedule=schedule, **{name: case[name] for name in (*of_training._fields, "steps")})
        dimension = whole_number("d", case["d"], 2)
        cases += [(task, training, dimension, name, *test) for name in models for test in tests.combinations()]
    options = {"sampler": sampler, "activation": activation, "equal_samples": equal_samples}
    origin = {"noise": noise or "gaussian"} | ({} if covariance is None else {"covariance": covariance})
    made_of = {"noise": found_noise, "covariance": found_covariance, "signals": several}
    results = _run(cases, seeds, options | made_of, workers)

    swept = [*(name for name, values in grid.items() if len(values) > 1), *tests.swept]
    rows, records, lines, failures = [], [], [], []
    for (task, training, dimension, name, tested, _), found in zip(cases, results, strict=True):
        about = {"model": name, "d": dimension} | task.to_dict() | training.to_dict() | tested
        about |= signal_options.described(several)
        reason = next((one for one in found if isinstance(one, Exception)), None)
        if reason is not None:
            place = "".join(f", {key} {about[key]:g}" for key in swept)
            failures.append((f"{name}{place} failed: {reason}", reason))
            continue
        summary = _summary(found)
        rows.append(([name, *(f"{about[key]:g}" for key in swept)], summary))
        records.append(
            {"case": about, "options": options | origin, **summary, "trials": [one.to_dict() for one in found]}
        )
        lines += [about | {"trial": k} | one.to_row() for k, one in enumerate(found)]
    if not rows:
        raise failures[0][1]
    silent = {name for name in DISTURBANCES if list(grid[name]) == [0.0]} | (
        {"steps"} if schedule != "joint" else set()
    )
    told = {name: values for name, values in grid.items() if name not in silent}
    fixed = ", ".join(f"{key} {value:g}" for key, (value, *more) in told.items() if not more)
    title = f"{fixed}, {loss} loss, {schedule}, {sampler} sampler"
    title += "".join(f", {name} {value}" for name, value in origin.items() if value != "gaussian")
    title += signal_options.in_words(several) + tests.title
    title += f"; mean ± standard error of {trials} trials, seed {seed}"
    columns = _columns([summary["mean"] for _, summary in rows])
    headings = ["model", *swept, *(heading for _, heading in columns), "seconds"]
    lines_shown = [[*first, *_cells(summary, columns)] for first, summary in rows]
    deliver(
        lambda: print_table(title, headings, lines_shown, 1 + len(swept)),
        [
            (json_file, lambda path: write_json(path, {"seed": seed, "cases": records})),
            (csv_file, lambda path: write_csv(path, lines)),
        ],
    )
    for words, _ in failures:
        echo(words, err=True)
    return 1 if failures else 0


def _positions(text: str, kind: Any) -> Any:
    """`uniform`, `block`, `fixed`, `fixed:0,3` or `weighted:1,2,1`."""
    name, _, numbers = text.partition(":")
    if not numbers:
        return kind.of(name)
    try:
        listed = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        raise ValueError(f"positions must be a kind, or a kind:a,b,c with numbers, got {text!r}") from None
    return kind(name, weights=listed) if name == "weighted" else kind(name, places=listed)


def _run(cases: list, seeds: list[int], options: dict[str, Any], workers: int) -> list[list]:
    """Results case by case, trial by trial; in the place of one that failed, its error."""
    from concurrent.futures import BrokenExecutor

    from .._core.progress import progress
    from ..study.executor import open_executor

    jobs = [
        ((task, training, d, seed, name), options | arguments)
        for task, training, d, name, _, arguments in cases
        for seed in seeds
    ]
    found: list = []
    with open_executor(workers=workers) as executor, progress() as bars:
        advance = bars("trials", len(jobs))
        if workers == 1:
            for job in jobs:
                found.append(_trial(*job))
                advance(1)
        else:
            futures = [executor.submit(_trial, *job) for job in jobs]
            for future in futures:
                try:
                    found.append(future.result())
                except BrokenExecutor:  # what the others have found is worth showing all the same
                    found.append(MemoryError("a worker process died, most likely for lack of memory"))
                advance(1)
    return [found[k : k + len(seeds)] for k in range(0, len(found), len(seeds))]


def _trial(job: tuple, options: dict[str, Any]) -> Any:
    from ..simulation.trial import simulate as one_trial

    try:
        return one_trial(*job, **options)
    except (ValueError, ArithmeticError, MemoryError) as error:
        return error


def _summary(found: list) -> dict[str, dict[str, float]]:
    from ..simulation.repeats import mean_and_error

    rows = [one.to_row() for one in found]
    numbers = [name for name, value in rows[0].items() if isinstance(value, float)]
    pairs = {name: mean_and_error(row[name] for row in rows) for name in numbers}
    pairs["seconds"] = mean_and_error(sum(one.seconds.values()) for one in found)
    return {
        "mean": {name: pair[0] for name, pair in pairs.items()},
        "standard_error": {name: pair[1] for name, pair in pairs.items()},
    }


def _columns(means: list[dict[str, float]]) -> list[tuple[str, str]]:
    """Fields and headings of what at least one case has; several heads or signals have a cosine each."""
    known = [*_COLUMNS, *((name, signal_options.heading(name)) for name in signal_options.more_cosines(means))]
    return [(name, words) for name, words in known if any(not math.isnan(mean.get(name, math.nan)) for mean in means)]


def _cells(summary: dict[str, dict[str, float]], columns: list[tuple[str, str]]) -> list[str]:
    from .._core.words import with_error

    mean, error = summary["mean"], summary["standard_error"]
    cells = [with_error(mean.get(name, math.nan), error.get(name, math.nan)) for name, _ in columns]
    return [*cells, f"{mean['seconds']:.2f}"]
