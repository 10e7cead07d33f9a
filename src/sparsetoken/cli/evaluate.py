"""`evaluate`: learners and baselines compared on a file of bags by cross-validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .._core.validation import whole_number
from .._core.workers import progress
from ..estimators.learners import MAJORITY, chosen_learners
from .bag_files import LabelledBags, in_words, is_regression
from .options import OWN_BAGS, SEED, DrawnFiles, command, option
from .printing import deliver, echo, echo_text, print_table

LONG = 60.0  # seconds: a learner that takes longer is announced after its first fit


@command(OWN_BAGS)
def evaluate(
    *,
    given: LabelledBags,
    model: list[str] = option([], "Learner to evaluate; repeatable [all].", "-m"),
    folds: int = option(10, "Folds of each cross-validation."),
    repeats: int = option(5, "Repetitions with fresh folds."),
    seed: int = SEED,
    files: DrawnFiles,
) -> None:
    """Repeated stratified cross-validation of all learners and of simple baselines.

    Example: sparsetoken evaluate bags.csv --folds 5 --repeats 2 -m bag-classifier -m "mean-pool LR"
    """
    files.check((given.file, given.labels))
    whole_number("seed", seed, 0)
    read = given.read_from(given.file)
    numbers = is_regression(given.task, read.labels)
    measures = _OF_NUMBERS if numbers else _OF_CLASSES
    results = _compared(given, read, model, (folds, whole_number("repeats", repeats, 1), seed), numbers)
    title = f"{given.file.name}: {in_words(read.bags)}; {repeats} x {folds}-fold cross-validation"
    title += ", mean ± standard error over bags"
    # Held-out scores and predictions of all bags are no part of the table.
    aside = ("scores", "predictions", "codes")
    rows = [{k: v for k, v in vars(e).items() if k not in aside} for e in results]

    def show() -> None:
        echo_text("\n".join(verdict_in_words(results)))
        print_table(title, *_table(results, measures))

    deliver(show, files.writers(rows, rows, lambda path: _draw(results, title, path, measures)))


# Field of a result -> its name. The first two have standard errors and are drawn; the first one ranks the learners.
_OF_CLASSES = {"accuracy": "accuracy", "auc": "AUC", "log_loss": "log loss", "token_auc": "token AUC"}
_OF_NUMBERS = {"r2": "R²", "mae": "mean absolute error", "rmse": "RMSE"}


def _table(results: list[Any], measures: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; a measure that no learner has is left out."""
    from .._core.averages import with_error

    shown = [name for name in measures if any(getattr(e, name) == getattr(e, name) for e in results)]
    errors = list(measures)[:2]
    rows = [
        [
            e.learner,
            *(with_error(getattr(e, name), getattr(e, f"{name}_error")) for name in errors),
            *(f"{getattr(e, name):.3g}".replace("nan", "-") for name in shown if name not in errors),
            f"{e.fit_seconds:.2g}",
        ]
        for e in results
    ]
    return ["learner", *(measures[name] for name in shown), "CPU s"], rows


def _compared(given: LabelledBags, read: Any, names: list[str], plan: tuple[int, int, int], numbers: bool) -> list[Any]:
    from ..estimators.evaluation import evaluate as cross_validate
    from ..estimators.evaluation import evaluate_regression, regression_splits, stratified_splits

    steps: Iterator[Any]
    makers = chosen_learners(names, read.bags, numbers)
    positive = given.positive_of(read.labels)
    makers = {name: partial(_prepared, given, positive, name, make) for name, make in makers.items()}
    if numbers:
        splits = regression_splits(len(read.bags), *plan, read.groups)
        steps = evaluate_regression(read.bags, read.labels, makers, splits, read.groups)
    else:
        splits = stratified_splits(read.labels, *plan, read.groups)
        steps = cross_validate(read.bags, read.labels, makers, splits, read.token_labels, read.groups)
    results = _finished(steps, len(makers), len(splits) * plan[0])
    return sorted(results, key=lambda e: -e.r2 if numbers else (-e.accuracy, -e.auc))


def _prepared(given: LabelledBags, positive: Any, name: str, make: Callable[[], Any]) -> Any:
    """A fresh learner with the settings of the options, as far as it has them."""
    estimator = make()
    if positive is not None and "positive_label" in estimator.get_params():
        estimator.set_params(positive_label=positive)
    # Tokens to drop were dropped at reading, for all learners, the baselines included.
    return given.prepared(name, estimator) if given.missing == "impute" else estimator


def _finished(steps: Iterator[Any], learners: int, fits: int) -> list[Any]:
    """The results among an evaluation's steps, of which a fit is None; a learner of over a minute is announced."""
    results: list[Any] = []
    with progress() as add:
        advance, begun, first = add("cross-validating", learners * fits), time.monotonic(), True
        for step in steps:
            if step is not None:
                results.append(step)
                begun, first = time.monotonic(), True
                continue
            advance(1)
            seconds = (time.monotonic() - begun) * fits
            if first and seconds > LONG:
                place = f"learner {len(results) + 1} of {learners}"
                echo(f"{place}: about {seconds / 60:.0f} min for {fits} fits (fewer with --folds, --repeats)", err=True)
            first = False
    return results


def _draw(results: list[Any], title: str, path: Path, measures: Mapping[str, str]) -> None:
    from ..plotting.show import new_figure, write_picture
    from ..plotting.style import MEASURED

    figure = new_figure((8.5, 1.6 + 0.38 * len(results)))
    axes = figure.subplots(1, 2, sharey=True)
    places = list(range(len(results)))[::-1]
    for axis, name in zip(axes, measures):
        values, errors = ([getattr(e, field) for e in results] for field in (name, f"{name}_error"))
        axis.errorbar(values, places, xerr=errors, fmt="o", capsize=3, color=MEASURED)
        axis.set_xlabel(f"{measures[name]}, held out (mean ± s.e.)")
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(places, [f"{e.learner}  ({e.fit_seconds:.2g} s)" for e in results])
    figure.suptitle(title.replace("; ", "\n"), fontsize=9)
    write_picture(path, figure)


def verdict_in_words(results: Sequence[Any]) -> list[str]:
    """The conclusion of a comparison of learners, the best first; by accuracy for classes, by R² for numbers."""
    learners = [e for e in results if e.learner != MAJORITY]
    if not learners:
        return []
    best, evidence = learners[0], 3.0  # standard errors: the best of ten learners is often two above by chance
    none = ": no learner is clearly better than that, so there is no evidence of a signal"
    if hasattr(best, "r2"):
        sentence = f"best: {best.learner}, held-out R² {best.r2:.3f} (± {best.r2_error:.3f})"
        if best.r2 <= evidence * best.r2_error:
            return [f"{sentence}; always predicting the mean label gives 0{none}"]
        return [f"{sentence}, typical error {best.rmse:.3g}", *_as_good(best, learners, "r2")]
    sentence = (
        f"best: {best.learner}, held-out error {_share(1 - best.accuracy, best.accuracy_error)}, AUC {best.auc:.3f}"
    )
    for baseline in (e for e in results if e.learner == MAJORITY):
        sentence += f"; always predicting the commonest label gives {1 - baseline.accuracy:.1%}"
        gain, error = best.accuracy - baseline.accuracy, math.hypot(best.accuracy_error, baseline.accuracy_error)
        if gain <= evidence * error:
            # Where one class is rare, the commonest label is hard to beat in accuracy, and the AUC is more informative.
            if best.auc - 0.5 <= evidence * best.auc_error:
                return [f"{sentence}{none}"]
            sentence += f", which is not clearly worse, but the ranking of bags is informative (AUC {best.auc:.3g})"
    return [sentence, *_as_good(best, learners, "accuracy")]


def _as_good(best: Any, learners: Sequence[Any], measure: str) -> list[str]:
    if len(learners) < 2:
        return []

    def behind(e: Any) -> float:
        errors = (getattr(learner, f"{measure}_error") for learner in (best, e))
        return getattr(best, measure) - getattr(e, measure) - 2 * math.hypot(*errors)

    equals = ", ".join(e.learner for e in learners if e is not best and behind(e) <= 0)
    worse = "all others are clearly worse (by more than 2 standard errors)"
    return [f"not clearly worse (within 2 standard errors): {equals}" if equals else worse]


def _share(value: float, error: float) -> str:
    return f"{value:.1%} (± {error:.1%})" if error > 0 else f"{value:.1%}"
