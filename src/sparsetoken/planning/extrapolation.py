"""A measured learning curve carried on to more bags, with an error bar.

The law is loss(n) = e (rho + (1 - rho) F(n/n1)), at most chance: e is the loss at the largest size measured, n1; rho is the
share of it that no number of bags removes; the rest falls with a local exponent c at n1 that itself changes as n^g,

    F(x) = exp(-c (x^g - 1)/g),    x^-c for g = 0,

so that g = 0 is a power law, and with g > 0 the fall grows steeper (up to x = 5; from there on it keeps its exponent): curves
that leave the level of chance late, and learners that have soon seen all there is to see, do that. A few noisy points do not
determine four numbers, so all of them are kept that the points allow: a grid over (e, rho, c, g) weighted by prior and
likelihood. What the curve will be at n, and how many bags a target needs, are then quantiles over the grid.

The likelihood is normal, with the binomial variance of the bags tested (at the law's own loss) and the measured correlation
between sizes, which share their test bags; a real curve is not quite of this family, so points count less the farther they
lie from n1, and the forecast widens in the same measure beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.validation import whole_number
from .learning_curve import MeasuredCurve

# The choices below were made on 22 sets of bags and confirmed on others: see docs/plan.md and
# benchmarks/forecast_backtest.py.
LEVEL = 0.9  # probability that an interval is meant to hold
INFLATION = 1.2  # of the binomial standard errors: training sets of one set of bags are alike, and others would differ
MISFIT = 0.25  # relative departure from the law for every factor e of bags away from n1
MEAN_EXPONENT, EXPONENT_SPREAD = 1.0, 0.6  # prior of c: log-normal
EXPONENTS = (0.1, 5.0)
BENDS = (0.0, 0.5, 1.0)  # values of g, equally likely: power law, half-way, exponential
BENT_UP_TO = 5.0  # times n1, from where on c no longer changes: the measured sizes span such a factor, and say no more
FLOOR_POWER = 1.7  # prior of rho: density proportional to (1 - rho)^(FLOOR_POWER - 1)
FARTHEST = 1000.0  # times the bags at hand up to which a target is sought
_DRAWS = 4000  # from the grid
_GRID = (60, 14, 16)  # points of e, rho, c
_REACH = 6.0  # standard errors of the last measured loss that the grid of e reaches to either side
_FARTHEST_MISFIT = 8.0  # times n1, from where on the departure from the law does not grow


@dataclass(frozen=True)
class Interval:
    """A value to expect and an interval for it.

    Attributes
    ----------
    value : float
        The median.
    low, high : float
        Ends of the interval.
    level : float
        Probability that it is meant to hold.
    """

    value: float
    low: float
    high: float
    level: float = LEVEL

    def to_dict(self) -> dict[str, float]:
        """The fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class BagsNeeded:
    """How many bags a target needs.

    Attributes
    ----------
    target : float
        The criterion's value aimed at.
    status : str
        "met" with the bags at hand; "found"; "doubtful": less likely than not within `FARTHEST` times the bags at hand;
        "impossible": less likely than one in twenty.
    value : int or None
        Bags with which the target is met as likely as not; None where that is not within reach.
    low, high : int or None
        Ends of the interval; None: beyond `FARTHEST` times the bags at hand.
    probability : float
        That the target can be met with `FARTHEST` times the bags at hand.
    met_now : float
        Probability that it is met with the bags at hand.
    """

    target: float
    status: str
    value: int | None
    low: int | None
    high: int | None
    probability: float
    met_now: float

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Extrapolation:
    """A measured learning curve and all the laws that it allows.

    Parameters
    ----------
    curve : MeasuredCurve
        What was measured.
    """

    curve: MeasuredCurve

    @cached_property
    def _laws(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(e, rho, c, g, z) of the draws; z is the standardised departure from the law."""
        curve = self.curve
        # Even in the root: Jeffreys' prior of a share. The root of a measured share has the same deviation everywhere.
        root, top = math.sqrt((curve.losses[-1] * curve.tested + 0.5) / (curve.tested + 1.0)), math.sqrt(self._worst)
        reach = _REACH * INFLATION * 0.5 / math.sqrt(curve.tested)
        ends = max(min(root - reach, 0.5 * top), 0.0), min(root + reach, top)
        e = np.linspace(*ends, _GRID[0] + 1)[1:] ** 2
        rho = (np.arange(_GRID[1]) + 0.5) / _GRID[1]
        c = np.geomspace(EXPONENTS[0], EXPONENTS[1], _GRID[2])
        grid = [axis.ravel() for axis in np.meshgrid(e, rho, c, BENDS, indexing="ij")]
        E, P, C, G = grid
        prior = (FLOOR_POWER - 1) * np.log1p(-P) - 0.5 * (np.log(C / MEAN_EXPONENT) / EXPONENT_SPREAD) ** 2
        sizes = np.array(curve.sizes, dtype=float)
        away = np.log(sizes / sizes[-1])
        losses = self._law(E[:, None], P[:, None], C[:, None], G[:, None], sizes)
        m = curve.tested
        seen = (np.array(curve.losses) * m + 0.5) / (m + 1.0)  # none wrong of m is not a loss of zero
        # The variance of a share near zero is that of half a bag more: a normal law there would be far too sure.
        share = (losses * m + 0.5) / (m + 1.0)
        deviation = INFLATION * np.sqrt(share * (1 - share) / m)
        covariance = deviation[:, :, None] * np.array(curve.correlation) * deviation[:, None, :]
        every = np.arange(len(sizes))
        covariance[:, every, every] += (MISFIT * away * losses) ** 2 + 1e-12
        gap = seen - losses
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, gap[:, :, None])[:, :, 0]
        log_weight = prior - 0.5 * (white**2).sum(1) - np.log(factor[:, every, every]).sum(1)
        weight = np.exp(log_weight - log_weight.max())
        # Systematic draws: every grid point as often as its weight says, to within one.
        places = (np.arange(_DRAWS) + 0.5) / _DRAWS * weight.sum()
        rows = np.searchsorted(np.cumsum(weight), places).clip(max=len(weight) - 1)
        z = np.random.default_rng(0).permutation(_normal_scores(_DRAWS))
        return E[rows], P[rows], C[rows], G[rows], z

    def _law(self, e: np.ndarray, rho: np.ndarray, c: np.ndarray, g: np.ndarray, n: Any) -> np.ndarray:
        log_x = np.log(np.asarray(n, dtype=float) / self.curve.sizes[-1])
        bent = np.minimum(log_x, math.log(BENT_UP_TO))
        # (x^g - 1)/g, which is log x at g = 0; farther out a straight line in log x.
        along = np.where(g == 0, bent, np.expm1(g * bent) / np.where(g == 0, 1.0, g)) + np.exp(g * bent) * (
            log_x - bent
        )
        return np.minimum(e * (rho + (1 - rho) * np.exp(np.minimum(-c * along, 50.0))), self._worst)

    @property
    def _worst(self) -> float:
        """The largest loss considered: that of chance, and a little more, since learners on few bags can be worse."""
        return min(1.0, 1.2 * self.curve.chance)

    def draws(self, n: float) -> np.ndarray:
        """Losses at n bags, one for each of the laws that the measurement allows."""
        e, rho, c, g, z = self._laws
        away = np.clip(math.log(n / self.curve.sizes[-1]), -math.log(_FARTHEST_MISFIT), math.log(_FARTHEST_MISFIT))
        return np.minimum(self._law(e, rho, c, g, n) * np.exp(MISFIT * abs(away) * z), self._worst)

    def at(self, n: float, level: float = LEVEL, tested: int | None = None) -> Interval:
        """The criterion's value to expect with n bags.

        Parameters
        ----------
        n : float
            Bags to learn from.
        level : float
            Probability that the interval is meant to hold.
        tested : int, optional
            Bags of a test: then the interval is for the value that is measured on that many fresh bags, chance included; by
            default it is for the value itself.

        Returns
        -------
        Interval
            Median and interval.
        """
        tail = (1 - level) / 2
        drawn = self.draws(n)
        if tested is not None:
            count = whole_number("tested", tested, 1)
            measured = np.random.default_rng(1).binomial(count, np.clip(drawn, 0.0, 1.0)) / count
            low, high = np.quantile(measured, [tail, 1 - tail])
            middle = np.quantile(drawn, 0.5)
        else:
            low, middle, high = np.quantile(drawn, [tail, 0.5, 1 - tail])
        low, middle, high = (self.curve.criterion.shown(float(v)) for v in (low, middle, high))
        return Interval(middle, min(low, high), max(low, high), level)

    def floor(self, level: float = LEVEL) -> Interval:
        """Where the curve levels off, with any number of bags."""
        e, rho, *_, z = self._laws
        tail = (1 - level) / 2
        drawn = np.minimum(e * rho * np.exp(MISFIT * math.log(_FARTHEST_MISFIT) * z), self._worst)
        low, middle, high = (self.curve.criterion.shown(float(v)) for v in np.quantile(drawn, [tail, 0.5, 1 - tail]))
        return Interval(middle, min(low, high), max(low, high), level)

    def needed(self, target: float, level: float = LEVEL) -> BagsNeeded:
        """How many bags a target needs.

        Parameters
        ----------
        target : float
            The criterion's value aimed at.
        level : float
            Probability that the interval is meant to hold.

        Returns
        -------
        BagsNeeded
            Median and interval, or why there is none.
        """
        aim, here = self.curve.criterion.shown(target), self.curve.n
        factors = np.geomspace(1 / 16, FARTHEST, 240)
        sizes = np.unique(np.maximum(np.round(here * factors), 2))
        sizes = np.union1d(sizes, [here])
        met = np.stack([self.draws(n) <= aim for n in sizes])  # (sizes, draws)
        first = np.where(met.any(0), met.argmax(0), len(sizes))
        needs = np.append(sizes, math.inf)[first]
        probability = float(np.mean(np.isfinite(needs)))
        now = float(np.mean(met[np.searchsorted(sizes, here)]))
        tail = (1 - level) / 2
        low, middle, high = np.quantile(needs, [tail, 0.5, 1 - tail], method="inverted_cdf")
        if now >= 0.5:
            status = "met"
        elif np.isfinite(middle):
            status = "found"
        else:
            status = "doubtful" if probability >= 0.05 else "impossible"

        def whole(v):
            return int(v) if np.isfinite(v) else None

        return BagsNeeded(target, status, whole(middle), whole(low), whole(high), probability, now)

    def frame(self, times: Iterable[float] = (1, 2, 4, 8)) -> Any:
        """A pandas table: what was measured, then what is forecast for more bags.

        Parameters
        ----------
        times : iterable of float
            Forecasts are for that many times the bags there are.

        Returns
        -------
        pandas.DataFrame
            Columns n, value (of the criterion), standard_error (measured), low and high (forecast), measured (whether).
        """
        import pandas as pd

        curve = self.curve
        rows: list[dict[str, Any]] = [
            {"n": n, "value": curve.criterion.shown(loss), "standard_error": error, "measured": True}
            for n, loss, error in zip(curve.sizes, curve.losses, curve.standard_errors)
        ]
        for n in sorted({round(factor * curve.n) for factor in times}):
            ahead = self.at(n)
            rows.append({"n": n, "value": ahead.value, "low": ahead.low, "high": ahead.high, "measured": False})
        return pd.DataFrame(rows, columns=["n", "value", "standard_error", "low", "high", "measured"])

    def to_dict(self) -> dict[str, Any]:
        """Measured points, forecasts at 1, 2, 4 and 8 times the bags, and where the curve levels off."""
        rows = [{"n": k * self.curve.n, **self.at(k * self.curve.n).to_dict()} for k in (1, 2, 4, 8)]
        return {"measured": self.curve.to_dict(), "forecast": rows, "floor": self.floor().to_dict()}


def _normal_scores(count: int) -> np.ndarray:
    """Quantiles of the standard normal at the middles of `count` equal shares."""
    from scipy.special import ndtri

    return ndtri((np.arange(count) + 0.5) / count)
