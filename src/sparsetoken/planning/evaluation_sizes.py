"""How many bags to test on: for an error known to a wanted width, or to tell two classifiers apart. Exact binomial laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.stats import binom, binomtest

from .._core.validation import real_number, whole_number


def error_interval(wrong: int, tested: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact (Clopper-Pearson) interval of an error rate from `wrong` of `tested` bags.

    Parameters
    ----------
    wrong : int
        Bags predicted wrongly, between 0 and `tested`.
    tested : int
        Bags tested.
    confidence : float
        Probability that the interval holds the true rate, at least.
    """
    tested = whole_number("tested", tested, 1)
    wrong = whole_number("wrong", wrong, 0, tested)
    confidence = real_number("confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    interval = binomtest(wrong, tested).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def sample_size_for_error(error: float, width: float, confidence: float = 0.95) -> int:
    """The number of test bags that measures an error rate with an interval no wider than wanted.

    The interval is exact (Clopper-Pearson), taken at the expected number of wrong bags.

    Parameters
    ----------
    error : float
        The error rate expected.
    width : float
        Whole width of the interval, high end minus low end.
    confidence : float
        As for `error_interval`.

    Raises
    ------
    ValueError
        If more than ten million bags would be needed.
    """
    error = real_number("error", error, 0.0, 1.0)
    width = real_number("width", width, 0.0, 1.0, open_low=True, open_high=True)
    confidence = real_number("confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)

    def narrow(m: int) -> bool:
        low, high = error_interval(round(error * m), m, confidence)
        return high - low <= width

    return _least(narrow, f"an interval of width {width:g}")


def comparison_power(
    error: float, other: float, tested: int, disagreement: float | None = None, confidence: float = 0.95
) -> float:
    """Probability that the exact McNemar test on one test set finds two classifiers different.

    Parameters
    ----------
    error, other : float
        Their error rates.
    tested : int
        Bags that both are tested on.
    disagreement : float, optional
        Share of bags on which exactly one of the two is wrong; by default as if their errors were independent.
    confidence : float
        One minus the level of the two-sided test.
    """
    error, other = real_number("error", error, 0.0, 1.0), real_number("other", other, 0.0, 1.0)
    tested = whole_number("tested", tested, 1)
    confidence = real_number("confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    gap, most = abs(error - other), min(error + other, 2 - error - other)
    if disagreement is None:
        share = error * (1 - other) + other * (1 - error)
    else:
        share = real_number("disagreement", disagreement, 0.0, 1.0)
        if not gap - 1e-12 <= share <= most + 1e-12:
            raise ValueError(f"disagreement must lie between {gap:g} and {most:g} for these errors, got {share:g}")
    if share == 0:
        return 0.0
    worse = (share + gap) / (2 * share)  # share of the disagreements at which the worse classifier is wrong
    low, high = binom.ppf([1e-9, 1 - 1e-9], tested, share)  # hardly any numbers of disagreements are left out
    counts = np.arange(int(low), int(high) + 1)
    tail = (1 - confidence) / 2
    # Significant where P(X <= k) <= tail or P(X >= k) <= tail under a fair coin.
    k = binom.ppf(tail, counts, 0.5)
    k = np.where(binom.cdf(k, counts, 0.5) <= tail, k, k - 1)
    power = binom.cdf(k, counts, worse) + binom.sf(counts - k - 1, counts, worse)
    return float(binom.pmf(counts, tested, share) @ np.where(k >= 0, power, 0.0))


def sample_size_for_comparison(
    error: float, other: float, power: float = 0.8, confidence: float = 0.95, disagreement: float | None = None
) -> int:
    """The number of test bags with which two classifiers of given error rates can be distinguished.

    Both are tested on the same bags and compared by the exact McNemar test.

    Parameters
    ----------
    error, other : float
        Their error rates; not equal.
    power : float
        Probability that the test finds them different.
    confidence, disagreement
        As for `comparison_power`. Classifiers that err on the same bags disagree less, and need fewer.

    Raises
    ------
    ValueError
        If the errors are equal, or more than ten million bags would be needed.
    """
    power = real_number("power", power, 0.0, 1.0, open_low=True, open_high=True)
    confidence = real_number("confidence", confidence, 0.0, 1.0, open_low=True, open_high=True)
    if error == other:
        raise ValueError(f"error and other must differ, both are {error:g}: equal classifiers cannot be distinguished")

    def enough(m: int) -> bool:
        return comparison_power(error, other, m, disagreement, confidence) >= power

    return _least(enough, f"power {power:g}")


def _least(holds: Callable[[int], bool], what: str) -> int:
    """The least whole number from which a condition holds (to within the steps of a discrete law), by bisection."""
    high, most = 1, 10**7
    while not holds(high):
        if high >= most:
            raise ValueError(f"{what} would need more than {most:,} test bags")
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
