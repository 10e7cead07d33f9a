"""`train`: gradient descent on a bag model step by step, exact theory and simulation side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from .._core.validation import real_number, whole_number
from .._core.workers import progress
from ..task import NEUTRAL_FIELDS
from .options import SEED, THEORY, DrawnFiles, LossOptions, Options, TaskOptions, command, option, rare
from .printing import deliver, echo_text, print_table
from .values import parse_named


@dataclass(frozen=True)
class ScheduleOptions(Options):
    """The schedule of one stage, or of a file."""

    panel: ClassVar[str] = "Schedule"
    alpha: float = option(2.0, "n/d, bags per dimension; every step uses all of them.")
    steps: int = option(20, "Gradient steps.", "-T")
    rates: str = option("1", "Learning rates: one number for all, or q=1,w=1,bias=0.5.")
    decay: str = option("0", "Weight decay: one number for all directions, or q=0.1,w=0.1.")
    momentum: float = rare(0.0, "Momentum of all directions.")
    stages: Path = rare(None, "TOML file with a table [[stage]] for each stage, instead of the options above.")
    start: str = rare(
        "", "Random start: norms, cosines with the signal and bias, such as q=0.5,cosine[q]=0.2,w=0.1,bias=0.2 [zero]."
    )

    def read(self, model: Any) -> tuple[list[Any], dict[str, float] | None]:
        """The stages for a bag model, and where training starts."""
        from ..schedules import Stage

        # A lone number is the norm of all directions; the bias is named.
        names = model.start_names if "=" in self.start else model.directions
        start = parse_named("start", self.start, names) if self.start else None
        if self.stages is not None:
            return read_stages(self.stages), start
        rates = parse_named("rates", self.rates, (*model.directions, "bias"))
        decay = parse_named("decay", self.decay, model.directions)
        return [Stage(self.steps, self.alpha, rates, decay, self.momentum)], start


@dataclass(frozen=True)
class TheoryAndRuns(Options):
    """The exact limit, and the simulated runs beside it."""

    d: int = option(1000, "d of the simulations.", "--dimension", "-d")
    trials: int = option(4, "Simulated runs; 0 for the theory alone.", "-t")
    theory: bool = option(True, "Compute the exact limit.", "--theory/--no-theory")
    seed: int = SEED
    sampler: str = rare("reduced", "reduced (exact in law, no tokens) or tensor (every token).")
    accuracy: float = rare(1e-3, "Error allowed on the theory's test error.")

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        real_number("accuracy", self.accuracy, 0.0, open_low=True)
        if not whole_number("trials", self.trials, 0) and not self.theory:
            raise ValueError("trials must be at least 1 without the theory")


@command(THEORY)
def train(
    *,
    model: str = option(
        "attention", "attention, pooled, tied, tied:2, heads:2, gated, two_layer, self_attention or thresholded.", "-m"
    ),
    sides: TheoryAndRuns,
    schedule: ScheduleOptions,
    task: TaskOptions,
    loss: LossOptions,
    files: DrawnFiles,
) -> int:
    """Train query, readout and bias together for many steps, and print theory and measurement step by step.

    Descends the mean loss of the data plus (decay/2) ‖θ‖² for each direction θ of the model; the bias has no decay. The loss
    may also be focal:2.

    Example: sparsetoken train -m tied --rates 0.5 --decay 0.1 -T 40
    """
    from ..bag_models import get_bag_model

    files.check((schedule.stages,))
    wanted, chosen = task.task(), get_bag_model(model)
    stages, start = schedule.read(chosen)
    sides.check()
    exact, runs, failures = _compute((wanted, chosen, stages), {"loss": loss.loss, "start": start}, sides)
    best = _best(exact, runs)

    samples = f"α {schedule.alpha:g}" if schedule.stages is None else f"schedule of {schedule.stages.name}"
    title = f"{chosen.name}, {_task_in_words(wanted)}, {loss.loss} loss, {samples}"
    if runs:
        drawn = "one run" if len(runs) == 1 else f"mean ± standard error of {len(runs)} runs"
        title += f"; simulated: {drawn} at d {sides.d}, seed {sides.seed}"
    record = {
        "task": wanted.to_dict(),
        "model": chosen.name,
        "loss": loss.loss,
        "stages": [stage.to_dict() for stage in stages],
        "start": start,
        "theory": None if exact is None else exact.to_dict(),
        "simulation": [run.to_dict() for run in runs],
    }

    def show() -> None:
        echo_text("\n".join(_answer(wanted, stages, exact, runs, best)))
        print_table(title, *_table(exact, runs, best))

    return deliver(
        show, files.writers(record, lambda: _lines(exact, runs), lambda path: _draw(path, exact, runs)), failures
    )


def _task_in_words(task: Any) -> str:
    more = [f", {name.replace('_', ' ')} {getattr(task, name):g}" for name in NEUTRAL_FIELDS if getattr(task, name)]
    return f"L {task.length:g}, R {task.sparsity:g}, θ {task.strength:g}, π {task.prevalence:g}" + "".join(more)


def read_stages(path: Path) -> list[Any]:
    """The schedule of a TOML file: tables [[stage]] with the fields of `Stage`; nothing in it is executed."""
    import tomllib

    from ..schedules import as_stages

    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if set(plain) != {"stage"} or not isinstance(plain["stage"], list):
        raise ValueError(f"{path} must hold tables [[stage]] and nothing else")
    return list(as_stages(plain["stage"]))


def _compute(
    problem: tuple[Any, Any, Any], options: Mapping[str, Any], sides: TheoryAndRuns
) -> tuple[Any, list[Any], list[str]]:
    """The limit (or None), the simulated runs, which come first and report their errors at once, and what failed in words."""
    from ..simulation.seeds import trial_seeds
    from ..simulation.trajectory import simulate_trajectory
    from ..theory import UnstableTrainingWarning, trajectory

    seeds = trial_seeds(sides.seed, sides.trials) if sides.trials else []
    work = [
        (f"run {k}", partial(simulate_trajectory, *problem, sides.d, seed, sampler=sides.sampler, **options))
        for k, seed in enumerate(seeds)
    ]
    if sides.theory:
        work.append(("theory", partial(trajectory, *problem, accuracy=sides.accuracy, **options)))
    results, failures = {}, []
    with progress() as bars, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableTrainingWarning)  # `_answer` reports it
        advance = bars("training", len(work))
        for name, compute in work:
            try:
                results[name] = compute()
            except (ValueError, ArithmeticError, MemoryError) as error:
                if not results:
                    raise
                failures.append(f"{name} failed: {error or type(error).__name__}")
            advance(1)
    exact = results.pop("theory", None)
    return exact, list(results.values()), failures


def _shown(steps: int) -> list[int]:
    """All steps where they are few; otherwise the first ones, then ever fewer, and the last."""
    rows = 16
    if steps < rows:
        return list(range(steps + 1))
    spaced = {round(math.expm1(math.log1p(steps) * k / (rows - 2))) for k in range(rows - 1)}
    return sorted(spaced | {0, 1, 2, steps})


def _best(exact: Any, runs: Sequence[Any]) -> int:
    """The step with the least test error, of the theory or of the runs' mean."""
    if exact is not None:
        return exact.best_step
    means = [sum(values) for values in zip(*(run.test_error for run in runs))]
    return means.index(min(means))


def _table(exact: Any, runs: Sequence[Any], best: int) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: test error and training loss of both sides, and the directions' cosines."""
    from .._core.averages import mean_and_error, with_error

    first = exact if exact is not None else runs[0]
    shown = sorted({*_shown(first.steps), best})
    fields = {"test error": "test_error", "train loss": "train_loss"}
    fields |= {f"cos({name}, ξ)": f"cosine[{name}]" for name in first.directions}
    limit = None if exact is None else exact.columns()
    measured = [run.columns() for run in runs]
    both = ": theory / simulated" if limit is not None and runs else ""
    columns, cells = ["step"], [[f"{t}{' *' if t == best else ''}"] for t in shown]
    for heading, field in fields.items():
        columns.append(heading + both)
        for row, t in zip(cells, shown):
            parts = [] if limit is None else [with_error(limit[field][t])]
            parts += [with_error(*mean_and_error(run[field][t] for run in measured))] if runs else []
            row.append(" / ".join(parts))
    return columns, cells


def _answer(task: Any, schedule: Sequence[Any], exact: Any, runs: Sequence[Any], best: int) -> list[str]:
    """The best step, and how far it is from the Bayes limit."""
    from .._core.averages import mean_and_error, with_error
    from ..schedules import expand
    from ..theory import bayes_limit

    first = exact if exact is not None else runs[0]
    if exact is not None:
        error = with_error(exact.test_error[best], exact.standard_error[best])
    else:
        error = with_error(*mean_and_error(run.test_error[best] for run in runs))
    lines = [f"best step {best}: test error {error} (marked * below)"]
    if exact is not None and "unstable_from" in exact.details:
        lines.append(
            f"training is unstable from step {exact.details['unstable_from']} on: finite runs come near the limit at very "
            "large d only; smaller rates help"
        )
    samples = float(sum(expand(schedule, first.directions).alpha))
    try:
        limit = bayes_limit(task, samples)
    except ArithmeticError as error:  # the training's results do not need the comparison
        return [*lines, f"the Bayes limit at these samples is not available: {error}"]
    return [
        *lines,
        f"no classifier trained on these samples (α = {samples:g}) achieves an error below {with_error(limit.test_error)}",
    ]


def _lines(exact: Any, runs: Sequence[Any]) -> list[dict[str, Any]]:
    sources = ([("theory", exact)] if exact is not None else []) + [(f"run {k}", run) for k, run in enumerate(runs)]
    lines = []
    for source, run in sources:
        columns = {name: values.tolist() for name, values in run.columns().items()}
        lines += [{"source": source, **dict(zip(columns, values))} for values in zip(*columns.values())]
    return lines


def _draw(path: Path, exact: Any, runs: Sequence[Any]) -> None:
    from .._core.averages import standard_error
    from ..plotting.show import axes_for, legend_above, write_picture
    from ..plotting.style import TEST_ERROR, TRAINING_ERROR

    ax = axes_for(size=(6.4, 4.2))
    if exact is not None:
        exact.plot(ax)
    measures = (("test_error", "test error", TEST_ERROR), ("train_error", "training error", TRAINING_ERROR))
    for name, label, colour in measures if runs else ():
        table = np.array([getattr(run, name) for run in runs])
        error, how = standard_error(table, alone=0.0), {"fmt": "o", "ms": 3, "label": f"{label}, simulated"}
        ax.errorbar(np.arange(table.shape[1]), table.mean(0), error, color=colour, **how)
    ax.set(xlabel="gradient step t", ylabel="error")
    legend_above(ax)
    write_picture(path, ax.figure)
