"""`simulate`: repeated trials, over a grid where values are given as lists or ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .._core.validation import whole_number
from .._core.workers import progress
from ..task import Positions
from .options import (
    SEED,
    THEORY,
    DeploymentOptions,
    NoiseOptions,
    Options,
    SignalOptions,
    TableFiles,
    TaskOptions,
    TrainingOptions,
    command,
    option,
    rare,
)
from .printing import deliver, echo_text, print_table
from .values import (
    OptionGrid,
    at_test,
    cell,
    columns_of,
    failure_in_words,
    line_per_row,
    of_signals,
    parse_values,
    settings_in_words,
)


@dataclass(frozen=True)
class TrialOptions(Options):
    """Which trials are run, and how."""

    d: str = option(None, "d, dimension of a token [1000, or that of the noise].", "--dimension", "-d")
    trials: int = option(8, "Independent trials of each case.", "-t")
    seed: int = SEED
    workers: int = option(1, "Processes; results do not depend on their number.", "-w")
    sampler: str = rare(None, "reduced (exact in law, fast) or tensor (every token) [as the noise allows].")
    positions: str = rare("uniform", "Places of signal tokens: uniform, block, fixed:0,3 or weighted:1,2,...")


@dataclass(frozen=True)
class ScheduledTraining(TrainingOptions):
    """A training that may reuse its samples, or train all together."""

    schedule: str = rare("staged", "staged, reuse (D0 again for the readout) or joint.")
    steps: str = rare("50", "Gradient steps of schedule joint.")
    words: ClassVar[tuple[str, ...]] = (*TrainingOptions.words, "schedule")


@command(THEORY)
def simulate(
    *,
    model: list[str] = option(
        ["attention"],
        "attention, pooled, vectorized, elementwise (:relu, :tanh, ...), heads:2, your own (--module) or all; repeatable.",
        "-m",
    ),
    trial: TrialOptions,
    task: TaskOptions,
    training: ScheduledTraining,
    noise: NoiseOptions,
    signals: SignalOptions,
    test: DeploymentOptions,
    files: TableFiles,
) -> int:
    """Train classifiers on simulated data and print mean and standard error over trials.

    Numbers may be lists (1,2,4) or ranges (0.5:8:6, or 1e-5:1:6:log); then every combination is run. With --test-...
    options the classifier is trained on one kind of bags and tested on another.

    Example: sparsetoken simulate -m all -d 500 --alpha1 1,2,4
    """
    from ..classifiers import SIMULATED
    from ..simulation.seeds import trial_seeds
    from ..simulation.token_source import token_source

    files.check((noise.noise, noise.covariance, signals.signals))
    several = signals.read()
    tokens = noise.read(several)
    source = token_source(tokens, None)
    sampler = trial.sampler or source.sampler
    dimensions = {"d": parse_values("d", trial.d or f"{source.dimension(None) or 1000}")}
    grid = OptionGrid(dimensions, task.grid(), training.grid(), test.grid())
    models = list(SIMULATED) if "all" in model else list(dict.fromkeys(model))
    grid.check(len(models) * whole_number("trials", trial.trials, 1))
    seeds, where = trial_seeds(trial.seed, trial.trials), _positions(trial.positions)
    options = {"sampler": sampler, "tokens": tokens}
    cases = [_case(values, name, where, training, options) for values in grid.cases() for name in models]
    results = _run([compute for _, compute in cases], seeds, trial.workers)

    swept = [at_test(name) for name in grid.swept]
    finished, failures = [], []
    for (about, _), trials in zip(cases, results, strict=True):
        reason = next((result for result in trials if isinstance(result, Exception)), None)
        if reason is None:
            finished.append(({**about, **of_signals(several)}, trials))
        else:
            failures.append((about, reason))
    if not finished:
        raise failures[-1][1]
    about = {"sampler": sampler, **noise.described()}
    records = [
        {"case": case, "options": about, **_means(trials), "trials": [trial.to_dict() for trial in trials]}
        for case, trials in finished
    ]
    silent = () if training.schedule == "joint" else ("steps",)
    shared = {name: value for name, value in grid.fixed.items() if name not in silent}
    title = settings_in_words(shared, several, _words(training, about))
    drawn = "one trial" if trial.trials == 1 else f"mean ± standard error of {trial.trials} trials"

    def show() -> None:
        rows = [_row(record) for record in records]
        if not swept:
            echo_text("test error: " + ", ".join(f"{row['model']} {cell(row, 'test_error')}" for row in rows))
        print_table(f"{title}; {drawn}, seed {trial.seed}", *_table(rows, swept), 1 + len(swept))

    lines = [case | {"trial": k} | result.to_row() for case, trials in finished for k, result in enumerate(trials)]
    failed = [failure_in_words(point["model"], point, swept, reason) for point, reason in failures]
    return deliver(show, files.writers({"seed": trial.seed, "cases": records}, lines), failed)


def _words(training: ScheduledTraining, about: Mapping[str, str]) -> list[str]:
    """What all cases share beside numbers, for the title."""
    parts = [f"{training.loss} loss", training.schedule, f"{about['sampler']} sampler"]
    parts += [] if training.query_by == "steps" else [f"query_by {training.query_by}"]
    return parts + [f"{name} {value}" for name, value in about.items() if name != "sampler" and value != "gaussian"]


def _case(
    values: Mapping[str, Any], model: str, positions: Any, training: TrainingOptions, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Callable[[int], Any]]:
    """What one combination of values is called, and what computes a trial of it from a seed."""
    from ..deployment import Deployment
    from ..simulation.simulate import simulate as one_trial

    task, taught = training.with_task(values, positions)
    tested = {name: value for name, value in values.items() if name.startswith("test_")}
    d = whole_number("d", values["d"], 2)
    about = {"model": model, "d": d} | task.to_dict() | taught.to_dict()
    about |= {at_test(name): value for name, value in tested.items()}
    return about, partial(one_trial, task, taught, d, model=model, deployment=Deployment.from_dict(tested), **options)


def _positions(text: str) -> Any:
    listed: Any
    name, _, numbers = text.partition(":")
    if not numbers:
        return Positions.of(name)
    try:
        listed = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        raise ValueError(f"positions must be a kind, or a kind:a,b,c with numbers, got {text!r}") from None
    return Positions(name, **{"weights" if name == "weighted" else "places": listed})


def _run(cases: Sequence[Callable[[int], Any]], seeds: list[int], workers: int) -> list[list]:
    """Results case by case, trial by trial; in the place of one that failed, its error."""
    from concurrent.futures import BrokenExecutor

    from ..study.executor import open_executor

    results: list = []
    with open_executor(workers=workers) as executor, progress() as bars:
        advance = bars("trials", len(cases) * len(seeds))
        futures = (executor.submit(case, seed) for case in cases for seed in seeds)
        for future in futures if workers == 1 else list(futures):
            try:
                results.append(future.result())
            except BrokenExecutor:  # the other results are still shown
                results.append(MemoryError("a worker process died, most likely for lack of memory"))
            except (ValueError, ArithmeticError, MemoryError) as error:
                results.append(error)
            advance(1)
    return [results[k : k + len(seeds)] for k in range(0, len(results), len(seeds))]


def _means(trials: Sequence[Any]) -> dict[str, dict[str, float]]:
    from .._core.averages import mean_and_error

    rows = [{**trial.to_row(), "seconds": sum(trial.seconds.values())} for trial in trials]
    numbers = [name for name, value in rows[0].items() if isinstance(value, float)]
    pairs = {name: mean_and_error(row[name] for row in rows) for name in numbers}
    return {key: {name: pair[k] for name, pair in pairs.items()} for k, key in enumerate(("mean", "standard_error"))}


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    """A case's settings and means, with the names that a forecast's row has."""
    errors = {f"{name}_se": error for name, error in record["standard_error"].items()}
    return {**record["case"], **record["mean"], **errors, "standard_error": errors["test_error_se"]}


def _table(rows: Sequence[Mapping[str, Any]], swept: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines: the main quantities, and the time of a trial."""
    aside = ("balanced_error", "sensitivity", "specificity", "sharpness")  # files have them
    columns = {name: heading for name, heading in columns_of(rows).items() if name not in aside}
    headings, lines = line_per_row(rows, swept, columns)
    return [*headings, "seconds"], [[*line, f"{row['seconds']:.2f}"] for line, row in zip(lines, rows)]
