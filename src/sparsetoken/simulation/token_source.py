"""What the tokens of a trial are made of, as `simulate` is told: the noise, and the signal's direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import rejection
from ..laws.coloured import Spectrum, power_spectrum
from ..task import Task
from .noise import Demand, Noise, Tokens, noise_of
from .samplers.coloured import coloured_tokens
from .samplers.tensor import draw_signal


@dataclass(frozen=True, eq=False)
class TokenSource:
    """What tokens are made of.

    Attributes
    ----------
    noise : Noise or None
        Other than Gaussian noise.
    spectrum : Spectrum or None
        Coloured Gaussian noise.
    signal : ndarray or None
        The signal's direction, a unit vector; None for a random one. In coloured noise, in the eigenbasis.
    """

    noise: Noise | None = None
    spectrum: Spectrum | None = None
    signal: np.ndarray | None = None

    @property
    def name(self) -> str:
        """What the noise is called in results."""
        if self.spectrum is not None:
            return "coloured"
        return "gaussian" if self.noise is None else self.noise.name

    @property
    def sampler(self) -> str:
        """The sampler that serves it by default."""
        return "reduced" if self.noise is None else "tensor"

    def dimension(self, d: Any) -> Any:
        """d, checked against the dimension that noise, covariance or signal have; or, for None, that dimension."""
        for name, own in (
            ("the number of the noise's features", None if self.noise is None else self.noise.dimension),
            ("the covariance's dimension", None if self.spectrum is None else self.spectrum.dimension),
            ("the number of the signal's coordinates", None if self.signal is None else len(self.signal)),
        ):
            if own is not None and d is not None and d != own:
                raise ValueError(f"d must be {name} ({own}) or None, got {d!r}")
            d = own if d is None else d
        return d

    def check(self, sampler: str, schedule: str, model: str, device: str) -> None:
        """Raise ValueError where this noise is not served."""
        if self == WHITE:
            return
        if device not in ("numpy", "auto"):
            raise ValueError(f"device {device!r} serves white Gaussian noise only")
        if sampler == "tensor":
            return
        if self.noise is not None:
            raise ValueError(f"noise {self.noise.name!r} needs every token: use sampler 'tensor', not 'reduced'")
        if self.spectrum is not None and (model == "vectorized" or schedule != "staged"):
            raise ValueError(
                "in coloured noise the sampler 'reduced' serves the schedule 'staged' and models other than vectorized: "
                "use 'tensor'"
            )

    def check_task(self, task: Task) -> None:
        """Raise ValueError where bags that differ are not served in this noise."""
        if self.noise is not None or self.spectrum is not None:
            task.require_plain(f"{self.name} noise")

    def directions(self, seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        """The signal's direction, and the root of the noise's variances."""
        signal = draw_signal(seed, d) if self.signal is None else self.signal
        return signal, np.ones(d) if self.spectrum is None else np.sqrt(self.spectrum.eigenvalues)

    def deal(self, seed: int, d: int, demands: Mapping[str, Demand]) -> dict[str, tuple[int, Tokens | None]]:
        """For every data set the number of its bags, and what draws their tokens (None: white Gaussian ones)."""
        if self.noise is not None:
            return dict(self.noise.deal(seed, d, demands))
        tokens: dict[str, tuple[int, Tokens | None]] = {}
        for name, demand in demands.items():
            source = None
            if self.spectrum is not None:
                source = coloured_tokens(np.sqrt(self.spectrum.eigenvalues), demand.length)
            tokens[name] = (demand.count or 0, source)
        return tokens


WHITE = TokenSource()


def token_source(noise: Any, covariance: Any, signal: Any, d: int | None) -> TokenSource:
    """The source that the arguments of `simulate` describe.

    Parameters
    ----------
    noise, covariance, signal : object
        As `simulate` takes them.
    d : int or None
        The dimension asked for, which a covariance given by its name needs.

    Returns
    -------
    TokenSource

    Raises
    ------
    ValueError
        If they make no sense, alone or together.
    """
    found = noise_of(noise)
    if covariance is None:
        return WHITE if found is None and signal is None else TokenSource(found, None, _direction(signal))
    if found is not None:
        raise ValueError("covariance is that of Gaussian noise: give covariance or noise, not both")
    if isinstance(covariance, str):
        covariance = power_spectrum(covariance, 1000 if d is None and signal is None else d or len(signal))
    if isinstance(covariance, Spectrum):
        if signal is not None:
            raise ValueError("signal must not be given beside a Spectrum, which has one of its own")
        return TokenSource(None, covariance, covariance.direction)
    spectrum = Spectrum.of(covariance, signal)
    return TokenSource(None, spectrum, None if signal is None else spectrum.direction)


def _direction(signal: Any) -> np.ndarray | None:
    if signal is None:
        return None
    try:
        given = np.array(signal, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not np.isfinite(given).all() or not given.any():
        raise rejection("signal", signal, "a list of finite numbers, not all zero")
    return given / np.linalg.norm(given)
