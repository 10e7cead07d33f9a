"""What tokens are made of besides the planted signal: `Tokens`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._core.frozen import Description


@dataclass(frozen=True, eq=False)
class Tokens(Description):
    """What tokens are made of: their noise, and the direction of the signal that is planted in it.

    By default the noise is white and Gaussian and the signal's direction uniformly random.

    Parameters
    ----------
    noise : str, callable, RealNoise, Bags or what `Bags` takes, optional
        The noise: a name ("rademacher", "student:5", "photographs", ...), a function of a generator and a shape, or bags
        without the signal; see `simulation.RealNoise`. For simulations: the test error is then counted on fresh bags.
    covariance : array (d, d) or (d,), Spectrum or str, optional
        Gaussian noise of that covariance: a matrix, its eigenvalues, a `theory.Spectrum`, which has its own signal, or
        "power:a", eigenvalues proportional to j^-a with mean 1.
    signal : array (d,), optional
        The signal's direction xi, of any length: in the coordinates of the noise as it is standardised, or of the covariance.
        By default a random one in simulations, and one spread evenly over the eigenvalues in theory.
    signals : Signals, int or array (J, dimension), optional
        Several signals, of which a positive bag carries one or more (`theory.Signals.of`), for the model "heads:H".
    """

    noise: Any = None
    covariance: Any = None
    signal: Any = None
    signals: Any = None
