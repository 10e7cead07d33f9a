"""`train`: gradient descent on a bag model step by step, exact theory and simulation side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from .._core.replicates import standard_error
from . import app
from .fields import DISTURBANCES, TaskOptions
from .option_blocks import with_blocks
from .user_code import DESCENDED_LOSS, MODULES

# Rows of the table at most: the first steps, then ever fewer.
_ROWS = 16


@app.command()
@with_blocks
def train(
    of_task: TaskOptions,
    model: str = typer.Option(
        "attention",
        "--model",
        "-m",
        help="attention, pooled, tied, tied:2, heads:2, gated, two_layer, self_attention or thresholded.",
    ),
    loss: str = DESCENDED_LOSS,
    alpha: float = typer.Option(2.0, help="n/d, bags per dimension; every step uses all of them."),
    steps: int = typer.Option(20, "--steps", "-T", help="Gradient steps."),
    rates: str = typer.Option("1", help="Learning rates: one number for all, or q=1,w=1,bias=0.5."),
    decay: str = typer.Option("0", help="Weight decay: one number for all directions, or q=0.1,w=0.1."),
    momentum: float = typer.Option(0.0, help="Momentum of all directions."),
    start: str = typer.Option(
        "",
        help="Norms of a random start, its cosines with the signal, and its bias: "
        "q=0.5,cosine[q]=0.2,w=0.1,bias=0.2 (zero where not named).",
    ),
    stages: Path = typer.Option(
        None,
        help="A TOML file with the schedule, a table [[stage]] for each stage; replaces alpha, steps, rates, decay, momentum.",
    ),
    d: int = typer.Option(1000, "--dimension", "-d", help="d of the simulations."),
    trials: int = typer.Option(4, "--trials", "-t", help="Simulated runs; 0 for the theory alone."),
    theory: bool = typer.Option(True, "--theory/--no-theory", help="Compute the exact limit."),
    sampler: str = typer.Option("reduced", help="reduced (exact in law, no tokens) or tensor (every token)."),
    seed: int = typer.Option(0, "--seed", help="One integer all runs' randomness comes from."),
    accuracy: float = typer.Option(1e-3, help="Error allowed on the theory's test error."),
    json_file: Path = typer.Option(None, "--json", help="Write every number here."),
    csv_file: Path = typer.Option(None, "--csv", help="Write one line per step here."),
    plot: Path = typer.Option(None, "--plot", help="Draw the errors over the steps (png, pdf or svg)."),
    modules: list[Path] = MODULES,
) -> None:
    """Train query, readout and bias together for many steps, and print theory and measurement step by step.

    Descends the mean loss of the data plus (decay/2) ‖θ‖² for each direction θ of the model; the bias has no decay.
    """
    from .._core.files import check_apart, check_ending, check_writable
    from .._core.validation import whole_number
    from ..bag_models import get_bag_model
    from ..plotting.pictures import ENDINGS
    from ..schedules import Stage
    from .console import deliver, print_table, write_csv, write_json
    from .values import parse_named

    task = of_task.task()
    chosen = get_bag_model(model)
    names = chosen.directions
    if stages is None:
        rate = parse_named("rates", rates, (*names, "bias"))
        schedule = [Stage(steps, alpha, rate, parse_named("decay", decay, names), momentum)]
    else:
        schedule = read_stages(stages)
    # A lone number is the norm of all directions; the bias is named.
    begin = parse_named("start", start, chosen.start_names if "=" in start else names) if start else None
    whole_number("trials", trials, 0)
    if not theory and not trials:
        raise ValueError("trials must be at least 1 without the theory")
    check_writable(plot, endings=ENDINGS)
    for file in (json_file, csv_file):
        check_writable(file)
    check_apart((json_file, csv_file, plot), (stages,))
    check_ending(json_file, ".json")
    check_ending(csv_file, ".csv")

    exact, runs = _compute(task, chosen, schedule, loss, begin, theory, d, trials, sampler, seed, accuracy)
    rows, columns = _table(exact, runs)
    drawn = "one run" if trials == 1 else f"mean ± standard error of {trials} runs"
    title = (
        f"{chosen.name}, L {task.length:g}, R {task.sparsity:g}, θ {task.strength:g}, π {task.prevalence:g}, "
        + "".join(f"{name.replace('_', ' ')} {getattr(task, name):g}, " for name in DISTURBANCES if getattr(task, name))
        + f"{loss} loss, "
        + (f"α {alpha:g}" if stages is None else f"schedule of {stages.name}")
        + (f"; simulated: {drawn} at d {d}, seed {seed}" if trials else "")
    )
    record = {
        "task": task.to_dict(),
        "model": chosen.name,
        "loss": loss,
        "stages": [stage.to_dict() for stage in schedule],
        "start": begin,
        "theory": None if exact is None else exact.to_dict(),
        "simulation": [run.to_dict() for run in runs],
    }

    def show() -> None:
        print_table(title, columns, rows)
        for line in _remarks(task, schedule, exact, runs):
            print(line)

    deliver(
        show,
        [
            (json_file, lambda path: write_json(path, record)),
            (csv_file, lambda path: write_csv(path, _lines(exact, runs))),
            (plot, lambda path: _draw(path, exact, runs)),
        ],
    )


def read_stages(path: Path) -> list[Any]:
    """The schedule of a TOML file: tables [[stage]] with the fields of `Stage`; nothing in it is executed."""
    import tomllib

    from ..schedules import as_stages

    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    if set(plain) != {"stage"} or not isinstance(plain["stage"], list):
        raise ValueError(f"{path} must hold tables [[stage]] and nothing else")
    for stage in plain["stage"]:
        if isinstance(stage, dict) and isinstance(stage.get("data"), list):
            stage["data"] = tuple(stage["data"])
        if isinstance(stage, dict) and isinstance(stage.get("alpha"), list):
            stage["alpha"] = tuple(stage["alpha"])
    return list(as_stages(plain["stage"]))


def _compute(task, model, schedule, loss, begin, theory, d, trials, sampler, seed, accuracy) -> tuple[Any, list[Any]]:
    import warnings

    from .._core.progress import progress
    from ..simulation.repeats import trial_seeds

    runs, exact = [], None
    with progress() as bars:
        advance = bars("training", trials + bool(theory))
        if theory:
            from ..theory import UnstableTrainingWarning, trajectory

            with warnings.catch_warnings():  # `_remarks` says it in a line of its own
                warnings.simplefilter("ignore", UnstableTrainingWarning)
                exact = trajectory(task, model, schedule, loss, begin, accuracy=accuracy)
            advance(1)
        for one in trial_seeds(seed, trials) if trials else []:
            from ..simulation.trajectory import simulate_trajectory

            runs.append(simulate_trajectory(task, model, schedule, d, one, sampler, loss, begin))
            advance(1)
    return exact, runs


def _shown(steps: int) -> list[int]:
    """All steps where they are few; otherwise the first ones, then ever fewer, and the last."""
    if steps < _ROWS:
        return list(range(steps + 1))
    spaced = {round(math.expm1(math.log1p(steps) * k / (_ROWS - 2))) for k in range(_ROWS - 1)}
    return sorted(spaced | {0, 1, 2, steps})


def _best(exact: Any, runs: Sequence[Any]) -> int:
    """The step with the least test error: the theory's, or that of the runs' mean."""
    if exact is not None:
        return exact.best_step
    means = [sum(values) for values in zip(*(run.test_error for run in runs))]
    return means.index(min(means))


def _table(exact: Any, runs: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """Rows and headings: test error and training loss of both sides, and the directions' cosines."""
    from .._core.words import with_error
    from ..simulation.repeats import mean_and_error

    one = exact if exact is not None else runs[0]
    best = _best(exact, runs)
    shown = sorted({*_shown(one.steps), best})
    fields = {"test error": "test_error", "train loss": "train_loss"}
    fields |= {f"cos({name}, ξ)": f"cosine[{name}]" for name in one.directions}
    table = {id(run): run.columns() for run in (exact, *runs) if run is not None}
    columns, cells = ["step"], [[f"{t}{' *' if t == best else ''}"] for t in shown]
    for heading, field in fields.items():
        if exact is not None:
            columns.append(heading + (", theory" if runs else ""))
            for row, t in zip(cells, shown):
                row.append(f"{table[id(exact)][field][t]:.4f}")
        if runs:
            columns.append(heading + (", simulated" if exact is not None else ""))
            for row, t in zip(cells, shown):
                row.append(with_error(*mean_and_error(table[id(run)][field][t] for run in runs)))
    return cells, columns


def _remarks(task: Any, schedule: Sequence[Any], exact: Any, runs: Sequence[Any]) -> list[str]:
    """The best step, and how far it is from what no training can beat."""
    from .._core.words import with_error
    from ..schedules import expand
    from ..simulation.repeats import mean_and_error
    from ..theory import bayes_limit

    one = exact if exact is not None else runs[0]
    best = _best(exact, runs)
    found = (exact.test_error[best], exact.standard_error[best]) if exact is not None else None
    error = with_error(*(found or mean_and_error(run.test_error[best] for run in runs)))
    lines = [f"* best step {best}: test error {error}"]
    if exact is not None and "unstable_from" in exact.details:
        lines.append(
            f"training is unstable from step {exact.details['unstable_from']} on: finite runs come near the limit at very "
            "large d only; smaller rates help"
        )
    samples = float(sum(expand(schedule, one.directions).alpha))
    try:
        limit = bayes_limit(task, samples)
    except ArithmeticError as error:  # the training itself stands without its comparison
        return [*lines, f"the Bayes limit at these samples is not available: {error}"]
    return [
        *lines,
        f"no classifier trained on these samples (α = {samples:g}) has an error below {limit.test_error:.4f}",
    ]


def _lines(exact: Any, runs: Sequence[Any]) -> list[dict[str, Any]]:
    """One record per step and source."""
    sources = ([("theory", exact)] if exact is not None else []) + [(f"run {k}", run) for k, run in enumerate(runs)]
    lines = []
    for source, one in sources:
        columns = {name: values.tolist() for name, values in one.columns().items()}
        lines += [{"source": source, **dict(zip(columns, values))} for values in zip(*columns.values())]
    return lines


def _draw(path: Path, exact: Any, runs: Sequence[Any]) -> None:
    """Theory as lines, simulations as points with error bars."""
    import numpy as np

    from ..plotting.pictures import write_picture
    from ..plotting.show import axes_for, legend_above
    from ..plotting.style import TEST_ERROR, TRAINING_ERROR

    ax = axes_for(size=(6.4, 4.2))
    if exact is not None:
        exact.plot(ax)
    for name, label, colour in (
        ("test_error", "test error", TEST_ERROR),
        ("train_error", "training error", TRAINING_ERROR),
    ):
        if not runs:
            break
        table = np.array([getattr(run, name) for run in runs])
        error = standard_error(table, alone=0.0)
        ax.errorbar(
            np.arange(table.shape[1]), table.mean(0), error, fmt="o", ms=3, color=colour, label=f"{label}, simulated"
        )
    ax.set(xlabel="gradient step t", ylabel="error")
    legend_above(ax)
    write_picture(path, ax.figure)
