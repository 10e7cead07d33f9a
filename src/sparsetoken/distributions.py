"""Numbers that differ from bag to bag: `Distribution`, a few values with their probabilities, and how one is written.

It may be given as a single number, a mapping value -> probability, the text "10:0.5,20:0.5", or an object that draws numbers;
the last is replaced by a few values at once, so that theory and simulation use the same distribution.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ._core.validation import rejection, shown

ATOMS = 5  # values that replace an object that draws numbers: a Gauss rule of five reproduces the first nine moments
KEPT_VALUES = 12  # distinct whole numbers up to which all of them are kept
# Equally likely values that a quantile function is read at, and values drawn where there is none: moments are then known to
# 1/256 of a deviation.
_QUANTILES, _DRAWS = 4096, 1 << 16

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Distribution:
    """A few values and their probabilities."""

    atoms: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        total: dict[float, float] = {}
        for value, probability in self.atoms:
            if not (np.isfinite(value) and np.isfinite(probability) and probability >= 0):
                raise rejection("probability", probability, "a number >= 0, of a finite value")
            total[value] = total.get(value, 0.0) + float(probability)
        kept = sorted((value, p) for value, p in total.items() if p > 0)
        whole = sum(p for _, p in kept)
        if not abs(whole - 1.0) <= 1e-6:  # six written digits
            raise ValueError(f"probabilities must sum to 1, got {whole:.6g}")
        if abs(whole - 1.0) > 1e-12:  # a distribution that is read back stays the same to the last bit
            kept = [(value, p / whole) for value, p in kept]
        object.__setattr__(self, "atoms", tuple(kept))

    @property
    def values(self) -> tuple[float, ...]:
        """The values, in rising order."""
        return tuple(value for value, _ in self.atoms)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Their probabilities."""
        return tuple(p for _, p in self.atoms)

    @property
    def mean(self) -> float:
        """The mean value."""
        return float(sum(value * p for value, p in self.atoms))

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        mean = self.mean
        return float(sum((value - mean) ** 2 * p for value, p in self.atoms) ** 0.5)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return iter(self.atoms)

    def __str__(self) -> str:
        return self.to_plain()

    def __format__(self, specification: str) -> str:
        """The text; a number format is applied to values and probabilities."""
        return ",".join(f"{value:{specification}}:{p:{specification}}" for value, p in self.atoms)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{value!r}: {p!r}" for value, p in self.atoms) + "}"

    def to_plain(self) -> str:
        """The text "value:probability,..." that reads back as this distribution."""
        return ",".join(f"{value!r}:{p!r}" for value, p in self.atoms)

    def mapped(self, function: Callable[[float], float]) -> Distribution:
        """The distribution of a function of the value."""
        return Distribution(tuple((function(value), p) for value, p in self.atoms))

    @classmethod
    def from_values(cls, values: Any, *, atoms: int = ATOMS, whole: bool = False) -> Distribution:
        """The distribution of a sample, or a few values with its first moments."""
        x, counts = np.unique(np.asarray(values, dtype=float).ravel(), return_counts=True)
        if not len(x) or not np.isfinite(x).all():
            raise ValueError("values must be finite numbers, at least one")
        w = counts / counts.sum()
        if len(x) > max(atoms, KEPT_VALUES if whole else 0):
            x, w = _gauss_rule(x, w, atoms)
            if whole:
                x = np.round(x)
        plain = int if whole else float
        return cls(tuple((plain(value), float(p)) for value, p in zip(x, w)))

    @classmethod
    def from_sampler(cls, sampler: Any, *, whole: bool = False) -> Distribution:
        """A few values with the first moments of an object that draws numbers."""
        wanted = _DRAWS
        if (quantile := getattr(sampler, "ppf", None)) is not None:
            wanted = _QUANTILES
            drawn = quantile((np.arange(wanted) + 0.5) / wanted)
        elif callable(draw := getattr(sampler, "rvs", None)):
            drawn = draw(size=wanted, random_state=np.random.default_rng(0))
        else:
            drawn = sampler(np.random.default_rng(0), wanted)
        numbers = np.asarray(drawn, dtype=float)
        if numbers.shape != (wanted,):
            raise ValueError(f"it must return as many numbers as requested ({wanted:,}), got shape {numbers.shape}")
        return cls.from_values(np.round(numbers) if whole else numbers, whole=whole)


def _gauss_rule(x: np.ndarray, w: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule of the measure with weights w at x: Lanczos' method with full orthogonalisation."""
    centre, scale = float(w @ x), float(np.ptp(x)) or 1.0
    t = (x - centre) / scale
    basis = [np.sqrt(w)]
    diagonal, off = [], []
    for i in range(count):
        v = t * basis[i]
        diagonal.append(float(basis[i] @ v))
        for _ in range(2):
            for b in basis:
                v = v - (b @ v) * b
        norm = float(np.linalg.norm(v))
        if i + 1 < count:
            if norm < 1e-12:
                break
            off.append(norm)
            basis.append(v / norm)
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
    weights = vectors[0] ** 2
    return np.clip(centre + scale * nodes, x[0], x[-1]), weights / weights.sum()


def number_or_distribution(
    name: str, value: Any, check: Callable[[str, Any], Number], *, whole: bool
) -> Number | Distribution:
    """A number, or what it may be from bag to bag, as a user writes it."""
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(value, str):
        pairs = _from_text(name, value)
    elif isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, Distribution):
        pairs = value.atoms
    elif draws_numbers(value):
        try:
            pairs = Distribution.from_sampler(value, whole=whole).atoms
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} cannot be drawn from {shown(value)}: {error}") from None
    else:
        return check(name, value)
    checked = []
    for key, probability in pairs:
        number = _number(key) if isinstance(key, str) else key
        chance = _number(probability) if isinstance(probability, str) else probability
        if isinstance(chance, bool) or not isinstance(chance, int | float | np.number) or not 0 <= chance <= 1:
            raise rejection(f"{name}: a probability", probability, "a number in [0, 1]")
        if chance > 0:
            checked.append((check(name, number), float(chance)))
    try:
        distribution = Distribution(tuple(checked))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return check(name, distribution.values[0]) if len(distribution.atoms) == 1 else distribution


def draws_numbers(value: Any) -> bool:
    """Whether an object draws numbers: it has `ppf` or `rvs`, or is a function of two arguments."""
    if isinstance(value, type):
        return False
    if callable(getattr(value, "ppf", None)) or callable(getattr(value, "rvs", None)):
        return True
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True


def _from_text(name: str, text: str) -> list[tuple[str, str]]:
    """The pairs of "10:0.5,20:0.5"; a lone number has probability 1."""
    parts = [part.split(":") for part in text.split(",")]
    if len(parts) == 1 and len(parts[0]) == 1:
        return [(parts[0][0], "1")]
    if any(len(part) != 2 for part in parts):
        raise rejection(name, text, "a number, or value:probability pairs such as 10:0.5,20:0.5")
    return [(value, probability) for value, probability in parts]


def _number(text: str) -> Any:
    """A number from its text; the text itself where it is none, for the check to reject."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
