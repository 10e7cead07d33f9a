"""`simulate`: repeated trials, over a grid where values are given as lists or ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .console import deliver, echo_text, print_table
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
from .values import (
    HEADINGS,
    OptionGrid,
    at_test,
    cosine_columns,
    failure_in_words,
    numbers_in_words,
    of_signals,
    parse_values,
    signals_in_words,
    tested_in_words,
)

if TYPE_CHECKING:
    from ..task import Task
    from ..training import Training

_COLUMNS = ("test_error", "auc", "train_loss", "train_error", "cosine_q", "cosine_w", "norm_w", "bias")


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
    from .._core.validation import whole_number
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
    cases = [_case(values, name, where, training.plain(), options) for values in grid.cases() for name in models]
    results = _run([compute for _, compute in cases], seeds, trial.workers)

    swept = [at_test(name) for name in grid.swept]
    done, failures = [], []
    for (about, _), trial_results in zip(cases, results, strict=True):
        reason = next((one for one in trial_results if isinstance(one, Exception)), None)
        if reason is None:
            done.append(_Outcome({**about, **of_signals(several)}, trial_results))
        else:
            failures.append((about, reason))
    if not done:
        raise failures[-1][1]
    title = f"{_settings(grid.fixed, training, noise, sampler)}{signals_in_words(several)}{tested_in_words(grid.fixed)}"
    drawn = "one trial" if trial.trials == 1 else f"mean ± standard error of {trial.trials} trials"
    title += f"; {drawn}, seed {trial.seed}"
    about = {"sampler": sampler, **noise.described()}
    record = {"seed": trial.seed, "cases": [outcome.record(about) for outcome in done]}

    def show() -> None:
        if not swept:
            echo_text("test error: " + ", ".join(f"{one.about['model']} {one.shown('test_error')}" for one in done))
        print_table(title, *_table(done, swept), 1 + len(swept))

    lines = files.writers(record, lambda: [line for outcome in done for line in outcome.lines()])
    failed = [failure_in_words(point["model"], point, swept, reason) for point, reason in failures]
    return deliver(show, lines, failed)


def _settings(fixed: Mapping[str, Any], training: ScheduledTraining, noise: NoiseOptions, sampler: str) -> str:
    """What all cases share, for the title."""
    silent = () if training.schedule == "joint" else ("steps",)
    words = [numbers_in_words({name: value for name, value in fixed.items() if name not in silent})]
    words += [f"{training.loss} loss", training.schedule, f"{sampler} sampler"]
    words += [] if training.query_by == "steps" else [f"query_by {training.query_by}"]
    return ", ".join([*words, *(f"{name} {value}" for name, value in noise.described().items() if value != "gaussian")])


def _case(
    values: Mapping[str, Any], model: str, positions: Any, plain: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any], Callable[[int], Any]]:
    """What one combination of values is called, and what computes a trial of it from a seed."""
    from .._core.validation import whole_number
    from ..deployment import Deployment
    from ..task import Task
    from ..training import Training

    def of(kind: Any) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name in kind.__dataclass_fields__}

    tested = {name: value for name, value in values.items() if name.startswith("test_")}
    task, training = Task(**of(Task), positions=positions), Training(**plain, **of(Training))
    d = whole_number("d", values["d"], 2)
    about = {"model": model, "d": d} | task.to_dict() | training.to_dict()
    about |= {at_test(name): value for name, value in tested.items()}
    return about, partial(_trial, task, training, d, model=model, deployment=Deployment.from_dict(tested), **options)


def _positions(text: str) -> Any:
    """`uniform`, `block`, `fixed`, `fixed:0,3` or `weighted:1,2,1`."""
    from ..task import Positions

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

    from .._core.workers import progress
    from ..study.executor import open_executor

    found: list = []
    with open_executor(workers=workers) as executor, progress() as bars:
        advance = bars("trials", len(cases) * len(seeds))
        futures = (executor.submit(case, seed) for case in cases for seed in seeds)
        for future in futures if workers == 1 else list(futures):
            try:
                found.append(future.result())
            except BrokenExecutor:  # the other results are still shown
                found.append(MemoryError("a worker process died, most likely for lack of memory"))
            advance(1)
    return [found[k : k + len(seeds)] for k in range(0, len(found), len(seeds))]


def _trial(task: Task, training: Training, d: int, seed: int, **options: Any) -> Any:
    from ..simulation.simulate import simulate as one_trial

    try:
        return one_trial(task, training, d, seed, **options)
    except (ValueError, ArithmeticError, MemoryError) as error:
        return error


class _Outcome:
    """A case with its trials, and their means and standard errors."""

    def __init__(self, about: dict[str, Any], trials: list[Any]) -> None:
        from .._core.averages import mean_and_error

        self.about, self.trials = about, trials
        rows = [{**trial.to_row(), "seconds": sum(trial.seconds.values())} for trial in trials]
        numbers = [name for name, value in rows[0].items() if isinstance(value, float)]
        pairs = {name: mean_and_error(row[name] for row in rows) for name in numbers}
        self.mean = {name: pair[0] for name, pair in pairs.items()}
        self.standard_error = {name: pair[1] for name, pair in pairs.items()}

    def shown(self, name: str) -> str:
        """A mean with its standard error; a dash where the classifier has no such number."""
        from .._core.averages import with_error

        return with_error(self.mean.get(name, math.nan), self.standard_error.get(name, math.nan))

    def record(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What the JSON file holds of it."""
        trials = [trial.to_dict() for trial in self.trials]
        means = {"mean": self.mean, "standard_error": self.standard_error}
        return {"case": self.about, "options": options, **means, "trials": trials}

    def lines(self) -> list[dict[str, Any]]:
        """A line of the CSV file per trial."""
        return [self.about | {"trial": k} | trial.to_row() for k, trial in enumerate(self.trials)]


def _table(outcomes: Sequence[_Outcome], swept: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a column for what at least one case has; several heads or signals have a cosine each."""
    means = [outcome.mean for outcome in outcomes]
    known = [*((name, HEADINGS[name]) for name in _COLUMNS), *cosine_columns(means)]
    columns = [(name, text) for name, text in known if any(not math.isnan(mean.get(name, math.nan)) for mean in means)]
    rows = []
    for outcome in outcomes:
        first = [outcome.about["model"], *(f"{outcome.about[name]:g}" for name in swept)]
        rows.append([*first, *(outcome.shown(name) for name, _ in columns), f"{outcome.mean['seconds']:.2f}"])
    return ["model", *swept, *(heading for _, heading in columns), "seconds"], rows
