"""What refitting one number gains when a trained classifier is tested on other bags: its threshold, which moves b, or its
sharpness, which moves the law of (T, S, kappa)."""

from __future__ import annotations

import math

import numpy as np

from .._core.root_finding import least_on_grid
from .._core.validation import real_number, rejection
from ..laws.draws import FAR
from ..laws.error_measures import score_laws
from ..laws.law import Law
from ..laws.populations import Population
from ..task import Task
from .accuracy import DEFAULT_ACCURACY
from .fixed_point.plain import ErmResult, check_same_geometry, readout_errors, shifted

WHAT = ("threshold", "sharpness")


def refit(
    result: ErmResult,
    where: Law | Task,
    what: str = "threshold",
    *,
    bounds: tuple[float, float] | None = None,
    accuracy: float = DEFAULT_ACCURACY,
) -> ErmResult:
    """A trained readout on other bags, with its threshold or its sharpness fitted to them.

    The fitted number is that of least test error on the law of those bags: the fit to infinitely many of them. It is found on
    one sampling of the law; the error, which is flat at its minimum, is then computed to the accuracy.

    Parameters
    ----------
    result : ErmResult
        The trained readout (`forecast(...).result` is one).
    where : Law or Task
        The test bags; a task for "sharpness", since a law has one already.
    what : {"threshold", "sharpness"}
        What is fitted: a shift of the bias, or k = beta ||q||.
    bounds : pair of float, optional
        Smallest and largest sharpness, positive; by default the trained one over 16 and times 16.
    accuracy : float
        As in `erm`.

    Returns
    -------
    ErmResult
        As of `result.on`: `tested["bias_shift"]` or `tested["sharpness"]` is what was found.
    """
    if what not in WHAT:
        raise rejection("what", what, f"one of {', '.join(WHAT)}")
    if not isinstance(result, ErmResult):
        raise rejection("result", result, "the ErmResult of a classifier with one query or none, in white noise")
    if not isinstance(where, Task | Law):
        raise rejection("where", where, "a Law or a Task")
    if what == "threshold":
        if bounds is not None:
            raise ValueError("bounds are for what='sharpness'; thresholds are sought over all scores")
        law = result.law.elsewhere(where) if isinstance(where, Task) else where
        check_same_geometry(result.law, law)
        population = law.at(max(result.points, law.first_points) if law.refinable else 0)[0]
        return result.on(law, _best_shift(result.fixed_point, population), accuracy=accuracy)
    if not isinstance(where, Task):
        raise ValueError("where must be a Task for what='sharpness', since a law has its sharpness already")
    if "sharpness" not in result.law.parameters:
        raise ValueError(f"what='sharpness' is for classifiers with a query, not for {result.model!r}")
    low, high = _sharpness_bounds(result.law.parameters["sharpness"], bounds)

    def error(log_k: float) -> float:
        law = result.law.elsewhere(where, math.exp(log_k))
        return _error(result.fixed_point, law.at(law.first_points)[0])

    # Steps of a factor 2^(1/2) over the default range; the error has one or two minima, far wider than that.
    best, _ = least_on_grid(error, np.linspace(math.log(low), math.log(high), 17))
    return result.on(result.law.elsewhere(where, math.exp(best)), accuracy=accuracy)


def error_at_best_threshold(result: ErmResult, law: Law) -> float:
    """Test error of a trained readout on a law with its threshold fitted to it, on the law's first sampling (no error bar)."""
    check_same_geometry(result.law, law)
    population = law.at(law.first_points)[0]
    x = result.fixed_point
    return _error(shifted(x, _best_shift(x, population)), population)


def _sharpness_bounds(trained: float, bounds: tuple[float, float] | None) -> tuple[float, float]:
    if bounds is None:
        if trained == 0:
            raise ValueError("bounds must be given for what='sharpness' where the trained sharpness is 0")
        return trained / 16.0, trained * 16.0
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise rejection("bounds", bounds, "a pair of numbers") from None
    low = real_number("bounds", low, 0.0, open_low=True)
    return low, real_number("bounds", high, low, open_low=True)


def _best_shift(x: np.ndarray, population: Population) -> float:
    """The shift of the bias with the least test error on a population."""
    laws = score_laws(x, population)
    spread = [law.mean + step * law.deviation for law in laws for step in (-2.0, 0.0, 2.0)]
    scores = np.concatenate([np.ravel(values) for values in spread])
    # Beyond this range every bag is put into one class.
    widest = FAR * max(float(law.deviation.max()) for law in laws)
    ends = scores.min() - widest, scores.max() + widest
    thresholds = np.quantile(scores, np.linspace(0.0, 1.0, 101))
    candidates = np.unique(-np.array([*thresholds, *ends, 0.0]))
    return least_on_grid(lambda shift: _error(shifted(x, shift), population), candidates)[0]


def _error(x: np.ndarray, population: Population) -> float:
    """Test error of the readout x, averaged over the replicates of a population."""
    return float(np.mean(readout_errors(x, population)))
