"""Numbers in words: a value to the digits that its error supports."""

from __future__ import annotations

import math

MOST_DECIMALS = 8  # errors below that are rounding, but in values that are small themselves


def with_error(value: float, error: float = math.nan) -> str:
    """`0.0373 ± 0.0011`: the value to the digits its error supports; a dash where there is no number.

    Parameters
    ----------
    value : float
        The number.
    error : float
        Its standard error; none is shown where it is NaN, infinite, or no more than the rounding of the value.

    Returns
    -------
    str
        Both, with two digits of the error.
    """
    if math.isnan(value):
        return "-"
    if not math.isfinite(error) or error <= 1e-12 * abs(value):
        return f"{value:.4g}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    if decimals > MOST_DECIMALS:
        if abs(value) >= 10.0 ** (4 - MOST_DECIMALS):
            return f"{value:.4g}"
        digits = 1 if value == 0 else max(1, math.floor(math.log10(abs(value))) + decimals)
        return f"{value:.{digits}e} ± {error:.1e}"
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
