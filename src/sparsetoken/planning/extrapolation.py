"""A measured learning curve extrapolated to more bags, with an error bar.

The law is loss(n) = a + b (n/n1)^-c with a, b, c >= 0, at most chance; n1 is the largest size measured. We write e = a + b
for the loss at n1 and rho = a/e for the share of it that remains. A few noisy points do not determine three numbers, so all
laws are kept that the points allow: a grid over (e, rho, c), weighted by prior and likelihood. What the curve will be at n,
and how many bags a target needs, are quantiles over the grid. Priors: e and rho have the arcsine law (Jeffreys' for a
share: curves that level off completely, or not at all, are likelier than those between), c is log-normal around 1 with a
factor e as its spread. That no number of bags improves the learner (rho = 1) is a separate hypothesis, of prior probability
FLAT. The likelihood is normal, with the binomial variance of the bags tested, the measured correlation between sizes, which
share their test bags, and a departure from the law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._core.frozen import Description
from .._core.validation import whole_number
from .learning_curve import MeasuredCurve

# Chosen on the sets CHOSEN_ON of benchmarks/forecast_backtest.py and confirmed on its others.
LEVEL = 0.9  # probability that an interval is meant to hold
MISFIT = 0.2  # relative departure of a measured point from the law
FLAT = 0.15  # prior probability that more bags do not help
FARTHEST = 1000.0  # times the bags at hand up to which a target is sought
TIMES = (1, 2, 4)  # times the bags at hand in tables and figures
GAIN = 0.1  # relative reduction of the loss that counts as an improvement


@dataclass(frozen=True)
class Interval(Description):
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


@dataclass(frozen=True)
class BagsNeeded(Description):
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
    def _laws(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(e, rho, c) of laws drawn from the grid."""
        e, rho, c, prior = self._grid()
        weight = np.log(prior) + self._log_likelihood(self._law(e, rho, c, np.array(self.curve.sizes)))
        weight = np.exp(weight - weight.max())
        # Systematic draws: every grid point in proportion to its weight, to within one.
        places = (np.arange(4000) + 0.5) / 4000 * weight.sum()
        rows = np.searchsorted(np.cumsum(weight), places).clip(max=len(weight) - 1)
        return e[rows], rho[rows], c[rows]

    def _grid(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(e, rho, c) of all laws and their prior weights."""
        # e is even in its root, six standard errors to either side of the last measured loss.
        tested = self.curve.tested
        root, top = math.sqrt((self.curve.losses[-1] * tested + 0.5) / (tested + 1.0)), math.sqrt(self._worst)
        reach = 3.0 / math.sqrt(tested)
        levels = np.linspace(max(min(root - reach, 0.5 * top), 0.0), min(root + reach, top), 61)[1:] ** 2
        shares = np.sin(np.linspace(0.0, np.pi / 2, 21)) ** 2
        e, rho, c = (axis.ravel() for axis in np.meshgrid(levels, shares, np.geomspace(0.05, 5.0, 24), indexing="ij"))
        flat = np.where(rho == shares[-1], FLAT, (1.0 - FLAT) / (len(shares) - 1))
        return e, rho, c, flat * np.exp(-0.5 * np.log(c) ** 2)

    def _log_likelihood(self, losses: np.ndarray) -> np.ndarray:
        """Of the measured points under laws with these losses, (laws, sizes)."""
        m = self.curve.tested
        seen = (np.array(self.curve.losses) * m + 0.5) / (m + 1.0)  # none wrong of m is not a loss of zero
        share = (losses * m + 0.5) / (m + 1.0)
        deviation = np.sqrt(share * (1 - share) / m)
        covariance = deviation[:, :, None] * np.array(self.curve.correlation) * deviation[:, None, :]
        diagonal = np.arange(losses.shape[1])
        covariance[:, diagonal, diagonal] += (MISFIT * losses) ** 2 + 1e-12
        factor = np.linalg.cholesky(covariance)
        white = np.linalg.solve(factor, (seen - losses)[:, :, None])[:, :, 0]
        return -0.5 * (white**2).sum(1) - np.log(factor[:, diagonal, diagonal]).sum(1)

    def _law(self, e: np.ndarray, rho: np.ndarray, c: np.ndarray, n: Any) -> np.ndarray:
        """loss(n) of every law, (laws,) or (laws, sizes)."""
        x = np.asarray(n, dtype=float) / self.curve.sizes[-1]
        if x.ndim:
            e, rho, c = e[:, None], rho[:, None], c[:, None]
        return np.minimum(e * (rho + (1 - rho) * x**-c), self._worst)

    @property
    def _worst(self) -> float:
        """The largest loss considered: that of chance, and a little more, since learners on few bags can be worse."""
        return min(1.0, 1.2 * self.curve.chance)

    def draws(self, n: float) -> np.ndarray:
        """Losses at n bags, one for each of the laws that the measurement allows."""
        return self._law(*self._laws, n)

    def at(self, n: float, level: float = LEVEL, tested: int | None = None) -> Interval:
        """The criterion's value to expect with n bags: median, and an interval meant to hold with probability `level`.

        The interval is for the value itself, or for the value measured on `tested` fresh bags, chance included.
        """
        losses = self.draws(n)
        measured = losses
        if tested is not None:
            count = whole_number("tested", tested, 1)
            measured = np.random.default_rng(1).binomial(count, np.clip(losses, 0.0, 1.0)) / count
        return self._interval(losses, measured, level)

    def floor(self, level: float = LEVEL) -> Interval:
        """Where the curve levels off, with any number of bags: median and interval."""
        e, rho, _ = self._laws
        return self._interval(e * rho, e * rho, level)

    def _interval(self, losses: np.ndarray, measured: np.ndarray, level: float) -> Interval:
        ends = np.quantile(measured, [(1 - level) / 2, (1 + level) / 2])
        low, high = sorted(self.curve.criterion.shown(float(v)) for v in ends)
        return Interval(self.curve.criterion.shown(float(np.median(losses))), low, high, level)

    def gain_probability(self, n: float, more: float) -> float:
        """Probability that the loss with `more` bags is at least a tenth (`GAIN`) smaller than with n."""
        return float(np.mean(self.draws(more) <= (1 - GAIN) * self.draws(n)))

    def needed(self, target: float, level: float = LEVEL) -> BagsNeeded:
        """How many bags a target value of the criterion needs: median and interval, or why there is none."""
        aim, here = self.curve.criterion.shown(target), self.curve.n
        sizes = np.unique(np.maximum(np.round(here * np.geomspace(1 / 16, FARTHEST, 240)), 2))
        sizes = np.union1d(sizes, [here])
        met = np.stack([self.draws(n) <= aim for n in sizes])  # (sizes, draws)
        first = np.where(met.any(0), met.argmax(0), len(sizes))
        needs = np.append(sizes, math.inf)[first]
        probability = float(np.mean(np.isfinite(needs)))
        now = float(np.mean(met[np.searchsorted(sizes, here)]))
        tails = [(1 - level) / 2, 0.5, (1 + level) / 2]
        low, middle, high = (
            int(v) if np.isfinite(v) else None for v in np.quantile(needs, tails, method="inverted_cdf")
        )
        if now >= 0.5:
            status = "met"
        elif middle is not None:
            status = "found"
        else:
            status = "doubtful" if probability >= 0.05 else "impossible"
        return BagsNeeded(target, status, middle, low, high, probability, now)

    def frame(self, times: Iterable[float] = TIMES) -> Any:
        """A pandas table: what was measured, then what is forecast for these times the bags there are.

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
        """Measured points, forecasts at 1, 2 and 4 times the bags, and the level that the curve approaches."""
        rows = [{"n": k * self.curve.n, **self.at(k * self.curve.n).to_dict()} for k in TIMES]
        return {"measured": self.curve.to_dict(), "forecast": rows, "floor": self.floor().to_dict()}
