"""`plan`, `solve`, `test-size`: how many bags, which settings, what to expect, for a task or for the bags of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from .._core.validation import real_number
from .bag_files import LabelledOptions
from .options import OWN_BAGS, JsonFile, LossOptions, Options, TaskOptions, command, option, rare
from .printing import deliver, echo_text, stages


@dataclass(frozen=True)
class Sizes(Options):
    """How many bags, of what dimension, for which value of which criterion."""

    n: int = option(None, "n, bags to learn from [with --from, those of the file].", "--samples", "-n")
    d: int = option(None, "d, dimension of a token.", "--dimension", "-d")
    criterion: str = option(
        "error", "error, threshold_error, balanced_error, auc or sensitivity@0.95 (at that specificity)."
    )
    target: float = option(None, "Value of the criterion aimed at.", "--target", "--target-error")


@dataclass(frozen=True)
class OwnBags(LabelledOptions):
    """A file or folder of labelled bags to plan for."""

    panel: ClassVar[str] = "Your own bags"
    source: Path = option(None, "File of labelled bags, or a folder of them, as `fit` takes it.", "--from")
    budget: float = option(60.0, "CPU seconds that measuring the default learner may take.")

    def plan(self, **wanted: Any) -> Any:
        """The plan for the bags of the file."""
        from ..bags.input_forms import checked_treatment
        from ..planning import plan_for_bags

        real_number("budget", self.budget, 0.0, open_low=True)
        checked_treatment(self.missing, ("error", "drop-token"))
        read = self.read_from(self.source)
        positive = self.positive_of(read.labels)
        return plan_for_bags(read.bags, read.labels, budget=self.budget, positive_label=positive, **wanted)

    def check_absent(self) -> None:
        """Refuse options of a file where there is none."""
        for name in self.changed():
            raise ValueError(f"--{name.replace('_', '-')} goes with a file of bags: give one with --from")


@dataclass(frozen=True)
class PlanFiles(JsonFile):
    """Files for numbers and a picture."""

    plot: Path = option(None, "Picture of the learning curves (.png, .svg or .pdf).")


@command(OWN_BAGS)
def plan(
    *,
    sizes: Sizes,
    own: OwnBags,
    task: TaskOptions,
    loss: LossOptions,
    ask: list[str] = option(["all"], "samples, strength, length (with --target), crossing, all or none; repeatable."),
    curve: bool = rare(False, "Predict the learning curves too (implied by --plot)."),
    files: PlanFiles,
) -> None:
    """Show the best settings for n bags of d-dimensional tokens, and what to expect.

    With --from, measure the learner that `fit` uses on parts of your bags, and show how good it is now, what more bags would
    bring, and how many your target needs.

    Example: sparsetoken plan --from bags.csv --target 0.05
    """
    from ..planning import plan as make_plan
    from ..planning.plan import CROSSING, CURVE, OF_TARGET
    from ..plotting.show import write_picture

    files.check((own.source, own.labels))
    wanted: dict[str, Any] = {"n": sizes.n, "criterion": sizes.criterion, "target": sizes.target}
    made: Any
    if own.source is None:
        own.check_absent()
        if sizes.n is None or sizes.d is None:
            raise ValueError("give the number of bags with -n and the tokens' dimension with -d, or a file with --from")
        questions = {name for name in ask if name not in ("all", "none")}
        if "all" in ask:
            questions |= {CROSSING, *(() if sizes.target is None else OF_TARGET)}
        if curve or files.plot is not None:
            questions.add(CURVE)
        with stages("planning") as say:
            made = make_plan(task.task(), d=sizes.d, loss=loss.loss, questions=questions, progress=say, **wanted)
    else:
        changed = [*task.changed(), *({"loss"} & set(loss.changed())), *["dimension"] * (sizes.d is not None)]
        for name in (text.replace("_", "-") for text in changed):
            raise ValueError(f"--{name} does not go with --from, which takes the file's bags as they are: leave it out")
        with stages("planning") as say:
            made = own.plan(progress=say, **wanted)
    drawn = files.writers(made.to_dict(), draw=lambda path: write_picture(path, made.figure()))
    deliver(lambda: echo_text(str(made)), drawn)


@command(OWN_BAGS)
def solve(
    *,
    unknown: str = option(
        None, "n, d, error, strength, length, sparsity or prevalence [what is not given of n, error].", "--for"
    ),
    sizes: Sizes,
    learner: str = option("attention", "attention, pooled, vectorized, message_passing or optimal (the Bayes limit)."),
    task: TaskOptions,
    loss: LossOptions,
    files: JsonFile,
) -> int:
    """Power analysis: the number of bags that a target needs, or whichever quantity --for names.

    Without -d the answer is n/d. The exit code is 1 where there is no solution.

    Example: sparsetoken solve --target 0.05 -d 100
    """
    from ..planning.solve import solve as solve_for

    files.check()
    if unknown is None:
        if sizes.n is not None and sizes.target is not None:
            raise ValueError("nothing is left to solve for: leave out -n or --target, or name the unknown with --for")
        unknown = "error" if sizes.target is None and sizes.n is not None else "n"
    with stages("solving"):
        answer = solve_for(task.task(), unknown, learner=learner, loss=loss.loss, **vars(sizes))
    deliver(lambda: echo_text(str(answer)), files.writers(answer.to_dict()))
    return 0 if answer.solved else 1


@command(OWN_BAGS, "test-size")
def size_of_test(
    error: float = option(..., "Error rate expected.", show_default=False),
    width: float = option(None, "Whole width of the interval wanted, such as 0.04."),
    versus: float = option(None, "Instead of --width: error rate of a classifier to compare with."),
    disagreement: float = option(None, "With --versus: share of bags on which exactly one of the two is wrong."),
    power: float = option(0.8, "With --versus: probability of finding the difference."),
    confidence: float = option(0.95, "Of the interval; one minus the level of the comparison's test."),
) -> None:
    """Bags to test on, for an error rate known to a wanted width or to tell two classifiers apart (exact).

    Example: sparsetoken test-size --error 0.1 --width 0.04
    """
    from ..planning.evaluation_sizes import error_interval, sample_size_for_comparison, sample_size_for_error

    if (width is None) == (versus is None):
        raise ValueError("give either --width or --versus")
    level = f"{100 * confidence:g}%"
    if width is not None:
        m = sample_size_for_error(error, width, confidence)
        low, high = error_interval(round(error * m), m, confidence)
        echo_text(
            f"{m:,} test bags: an error of {error:g} is then known to lie between {low:.4g} and {high:.4g} ({level} interval)."
        )
        return
    m = sample_size_for_comparison(error, versus, power, confidence, disagreement)
    echo_text(
        f"{m:,} test bags, the same for both: the exact McNemar test at {level} confidence then finds errors of "
        f"{error:g} and {versus:g} different with probability {power:g}."
    )
