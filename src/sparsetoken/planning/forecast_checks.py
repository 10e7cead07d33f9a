"""The theory's forecasts held against measurements on parts of the bags at hand, and what that says about trusting them.

Learners are trained on random parts of the bags and tested on the others. The plain forecast is that of the estimated task; the
calibrated one has the strength at which the theory meets what was measured on half of the bags.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from .._core.rootfind import FOUND, falling_root
from ..laws.measures import shares_beaten
from ..task import Task
from .criterion import Criterion
from .estimate import STRONGEST, Estimate
from .learners import NAMES, Outlook
from .tuning import staged_classifier

FRACTIONS = (0.3, 0.5, 0.8)  # of the bags, to learn from; the others are tested on
CALIBRATED_AT = 0.5
EXTRAPOLATED = (1, 2, 4)  # times the bags at hand
REPETITIONS = 6
CHECKED = ("attention", "pooled", "message_passing")
# Kinds of bags that stand for their differences. A plan takes about 1 CPU s per kind, and 30 kinds instead of 120 move its
# test errors by less than a tenth.
MOST_KINDS = 20
_CLOSE = 0.02  # losses this near count as equal
_MOST = 0.8  # share of checks that must agree


@dataclass(frozen=True)
class Check:
    """Forecasts beside their measurement on random parts of the bags (values of the criterion).

    Attributes
    ----------
    learner : str
        Who learnt.
    n : int
        From how many bags.
    forecast : float
        Of the estimated task.
    calibrated : float or None
        Of the calibrated one; None where the learner does no better than chance, and the measurement itself where it was
        made from it (`fitted`).
    measured, standard_error : float
        On the bags left out.
    fitted : bool
        Whether the calibration has seen this measurement.
    """

    learner: str
    n: int
    forecast: float
    calibrated: float | None
    measured: float
    standard_error: float
    fitted: bool

    def agrees(self, value: float | None) -> bool:
        """Whether a value agrees with the measurement: within two standard errors, or 0.02."""
        return value is not None and abs(value - self.measured) <= max(2 * self.standard_error, _CLOSE)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, with both verdicts."""
        return asdict(self) | {
            "forecast_agrees": self.agrees(self.forecast),
            "calibrated_agrees": self.agrees(self.calibrated),
        }


def check_forecasts(
    bags: Any, labels: np.ndarray, found: Estimate, by: Criterion, repetitions: int, say: Callable[[str], None]
) -> tuple[list[Check], list[dict[str, Any]]]:
    """Forecast, calibrated and measured values of every checked learner at every fraction, and calibrated ones beyond."""
    d, estimated = max(2, round(found.dimension)), found.differing_task(MOST_KINDS)
    outlook = Outlook(by, d=d, doubtful=False)  # the plan's own forecasts have been held against the Bayes limit
    positive = labels == np.unique(labels)[1]
    sizes = {fraction: round(fraction * len(bags)) for fraction in FRACTIONS}
    checks, more = [], []
    for learner in CHECKED:
        measured = {}
        say(f"checking {NAMES[learner]}")
        for fraction, n in sizes.items():
            makers: dict[str, Callable[[], Any]] = {
                "attention": lambda n=n: staged_classifier(outlook.attention(estimated, n / d)),  # type: ignore[misc]
                "pooled": _pooled,
                "message_passing": partial(_message_passing, found),
            }
            measured[fraction] = _measure(makers[learner], bags, positive, n, by, repetitions)
        say(f"calibrating {NAMES[learner]}")
        task = _calibrated(outlook, learner, estimated, sizes[CALIBRATED_AT] / d, measured[CALIBRATED_AT][0])
        for fraction, n in sizes.items():
            value, error = measured[fraction]
            plain = outlook.measured(learner, estimated, n / d).loss
            calibrated = None if task is None else by.shown(outlook.measured(learner, task, n / d).loss)
            checks.append(
                Check(learner, n, by.shown(plain), calibrated, by.shown(value), error, fraction == CALIBRATED_AT)
            )
        if task is None:
            continue
        for factor in EXTRAPOLATED:
            n = factor * len(bags)
            more.append({"learner": learner, "n": n, "value": by.shown(outlook.measured(learner, task, n / d).loss)})
    return checks, more


def _calibrated(outlook: Outlook, learner: str, task: Task, alpha: float, measured: float) -> Task | None:
    """The task with the strength at which a learner's forecast meets the measured loss; None near chance or out of range."""
    if measured >= 0.95 * outlook.criterion.chance(task):
        return None
    aim = max(measured, 1e-4)

    def gap(theta):
        return outlook.measured(learner, task.at_strength(theta), alpha).loss - aim

    status, theta = falling_root(gap, task.mean_strength, 0.2, STRONGEST)
    return task.at_strength(theta) if status == FOUND else None


def _pooled() -> Any:
    from ..estimators import PooledClassifier

    return PooledClassifier()


def _message_passing(found: Estimate) -> Any:
    from ..estimators import MessagePassingClassifier

    return MessagePassingClassifier(sparsity=found.task.sparsity)


def _measure(make, bags, positive: np.ndarray, n: int, by: Criterion, repetitions: int) -> tuple[float, float]:
    """Mean loss on the bags left out, and its standard error as an estimate of the expected loss at this size.

    The error counts the number of bags tested and the scatter between parts, undivided: parts of one set of bags share what is
    peculiar to it, so repeating them does not average it away.
    """
    from sklearn.model_selection import train_test_split

    losses = []
    for seed in range(repetitions):
        train, test = train_test_split(np.arange(len(bags)), train_size=n, stratify=positive, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # learners on small parts warn of weak fits: that is what is measured
            scores = make().fit(bags[train], positive[train]).decision_function(bags[test])
        if by.kind == "auc":
            losses.append(1.0 - shares_beaten(scores[positive[test]], scores[~positive[test]]).mean())
        else:
            losses.append(float(np.mean((scores > 0) != positive[test])))
    mean = float(np.mean(losses))
    sampling = mean * (1 - mean) / min(repetitions * (len(bags) - n), len(bags))
    return mean, float(np.sqrt(np.var(losses, ddof=1) + sampling))


def verdict(checks: list[Check], found: Estimate) -> tuple[str, str]:
    """What to rely on (see `Reasons.trust`), and why in words."""
    plain = sum(check.agrees(check.forecast) for check in checks)
    fresh = [check for check in checks if not check.fitted]
    calibrated = sum(check.agrees(check.calibrated) for check in fresh)
    counts = (
        f"{plain} of {len(checks)} forecasts agree with measurement, and {calibrated} of {len(fresh)} calibrated ones "
        "at sizes that they had not seen"
    )
    if found.signal_found and plain >= _MOST * len(checks):
        return "forecast", f"{counts}: these bags behave as the theory says"
    if found.signal_found and calibrated >= _MOST * len(fresh):
        return "calibrated", f"{counts}: take the curves' shape from the theory, their level from measurement"
    return "measurement", f"{counts}: these bags are not like the theory's, rely on measurement alone"
