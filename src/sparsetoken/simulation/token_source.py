"""What the tokens of a trial are made of, from the arguments of `simulate`: the noise, and the signal's direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.validation import rejection
from ..classifiers import Classifier
from ..laws.coloured import Spectrum, spectrum_of
from ..laws.signals import Signals
from ..task import Task, Tokens
from .noise import Demand, EntryNoise, TokenDraw, TokenNoise, noise_of
from .samplers.tensor import draw_signal


@dataclass(frozen=True, eq=False)
class TokenSource:
    """What tokens are made of."""

    noise: TokenNoise | None = None
    spectrum: Spectrum | None = None
    signal: np.ndarray | None = None
    signals: Signals | None = None

    @property
    def name(self) -> str:
        """What the noise is called in results."""
        if self.spectrum is not None:
            return "coloured"
        return "gaussian" if self.noise is None else self.noise.name

    @property
    def sampler(self) -> str:
        """The sampler that serves it by default."""
        return "reduced" if self.noise is None and self.signals is None else "tensor"

    def dimension(self, d: Any) -> Any:
        """d, checked against the dimension that noise, covariance or signal have; or, for None, that dimension."""
        for name, size in (
            ("the number of the noise's features", None if self.noise is None else self.noise.dimension),
            ("the covariance's dimension", None if self.spectrum is None else self.spectrum.dimension),
            ("the number of the signal's coordinates", None if self.signal is None else len(self.signal)),
        ):
            if size is not None and d is not None and d != size:
                raise ValueError(f"d must be {name} ({size}) or None, got {d!r}")
            d = size if d is None else d
        return d

    @property
    def white(self) -> bool:
        """Whether the noise is white and Gaussian, with a signal in a random direction."""
        return self.noise is None and self.spectrum is None and self.signal is None and self.signals is None

    def check(self, sampler: str, schedule: str, chosen: Classifier) -> None:
        """Raise ValueError where these tokens are not served."""
        if chosen.heads is not None and (self.noise is not None or self.spectrum is not None):
            raise ValueError(f"model {chosen.name!r} is simulated in white Gaussian noise, not in {self.name} noise")
        if self.signals is not None and chosen.heads is None:
            raise ValueError(
                f"signals are served by the model 'heads:H' ('heads:1' is attention), not by {chosen.name!r}"
            )
        if sampler == "tensor":
            return
        if self.signals is not None:
            raise ValueError("several signals need every token: use sampler 'tensor', not 'reduced'")
        if self.noise is not None:
            raise ValueError(f"noise {self.noise.name!r} needs every token: use sampler 'tensor', not 'reduced'")
        if self.spectrum is not None and (chosen.name == "vectorized" or schedule != "staged"):
            raise ValueError(
                "in coloured noise the sampler 'reduced' serves the schedule 'staged' and models other than vectorized: "
                "use 'tensor'"
            )

    def check_task(self, task: Task) -> None:
        """Raise ValueError where bags of this kind are not served."""
        if self.noise is not None or self.spectrum is not None:
            task.require_plain(f"{self.name} noise")
        if self.signals is not None:
            self.signals.check(task.only_kind("several signals").sparsity)

    def directions(self, seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
        """The signal's direction, and the root of the noise's variances."""
        signal = draw_signal(seed, d) if self.signal is None else self.signal
        return signal, np.ones(d) if self.spectrum is None else np.sqrt(self.spectrum.eigenvalues)

    def assign(self, seed: int, d: int, demands: Mapping[str, Demand]) -> dict[str, tuple[int, TokenDraw | None]]:
        """For every data set the number of its bags, and what draws their tokens (None: white Gaussian ones)."""
        noise = self.noise
        if self.spectrum is not None:
            root = np.sqrt(self.spectrum.eigenvalues)
            noise = EntryNoise(self.name, lambda rng, shape: root * rng.standard_normal(shape))
        if noise is None:
            return {name: (demand.count or 0, None) for name, demand in demands.items()}
        return dict(noise.assign(seed, d, demands))


WHITE = TokenSource()


def token_source(tokens: Tokens | None, d: int | None) -> TokenSource:
    """The source that the argument `tokens` of `simulate` describes."""
    if tokens is None:
        return WHITE
    Tokens.require(tokens)
    noise = noise_of(tokens.noise)
    signals = None if tokens.signals is None else Signals.of(tokens.signals)
    if signals is not None and tokens.signal is not None:
        raise ValueError("tokens have one signal or several signals: give signal or signals, not both")
    if tokens.covariance is None:
        return TokenSource(noise, None, _direction(tokens.signal), signals)
    if noise is not None:
        raise ValueError("covariance is that of Gaussian noise: give covariance or noise, not both")
    spectrum = spectrum_of(tokens.covariance, tokens.signal, d)
    drawn = tokens.signal is None and not isinstance(tokens.covariance, Spectrum)
    return TokenSource(None, spectrum, None if drawn else spectrum.direction, signals)


def _direction(signal: Any) -> np.ndarray | None:
    if signal is None:
        return None
    try:
        direction = np.array(signal, dtype=np.float64)
    except (TypeError, ValueError):
        direction = np.empty(0)
    if direction.ndim != 1 or not np.isfinite(direction).all() or not direction.any():
        raise rejection("signal", signal, "a list of finite numbers, not all zero")
    return direction / np.linalg.norm(direction)
