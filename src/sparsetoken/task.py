"""What the data is: `Task`, and where its signal tokens sit: `Positions`.

A task is frozen, validated and hashable, and goes to and from a plain dictionary, so that one description drives theory,
simulation, studies and the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._core.description import Description
from ._core.validation import real_number, rejection, whole_number

POSITION_KINDS = ("uniform", "block", "fixed", "weighted")


@dataclass(frozen=True)
class Positions:
    """Where the R signal tokens of a positive bag sit.

    Parameters
    ----------
    kind : {"uniform", "block", "fixed", "weighted"}
        "uniform": R places drawn without replacement, all alike (the default); "block": R neighbouring places, cyclically,
        with a random start; "fixed": always the same `places`; "weighted": R places drawn one after the other without
        replacement, with chances proportional to `weights`.
    places : tuple of int, optional
        The places of "fixed" (the first R when none are given).
    weights : tuple of float, optional
        The chances of "weighted", one per token.
    """

    kind: str = "uniform"
    places: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self):
        if self.kind not in POSITION_KINDS:
            raise rejection("positions", self.kind, f"one of {', '.join(POSITION_KINDS)}")
        if self.places is not None:
            if self.kind != "fixed":
                raise ValueError(f"places belong to positions 'fixed', not to {self.kind!r}")
            if isinstance(self.places, str) or not isinstance(self.places, Iterable):
                raise rejection("places", self.places, "a list of token indices")
            places = tuple(whole_number("places", p, 0) for p in self.places)
            if len(set(places)) != len(places):
                raise rejection("places", self.places, "distinct token indices")
            object.__setattr__(self, "places", places)
        if (self.weights is not None) != (self.kind == "weighted"):
            raise ValueError("positions 'weighted' needs weights, and only it takes them")
        if self.weights is not None:
            if isinstance(self.weights, str) or not isinstance(self.weights, Iterable):
                raise rejection("weights", self.weights, "a list of numbers")
            weights = tuple(real_number("weights", w, 0.0) for w in self.weights)
            object.__setattr__(self, "weights", weights)

    def check_fits(self, length: int, sparsity: int) -> None:
        """Raise ValueError unless these positions can serve bags of `length` tokens with `sparsity` signal ones."""
        if self.places is not None:
            if len(self.places) != sparsity:
                raise ValueError(f"places must name as many tokens as sparsity ({sparsity}), got {len(self.places)}")
            if max(self.places) >= length:
                raise ValueError(f"places must lie below length ({length}), got {max(self.places)}")
        if self.weights is not None:
            if len(self.weights) != length:
                raise ValueError(f"weights must have one entry per token ({length}), got {len(self.weights)}")
            if sum(w > 0 for w in self.weights) < sparsity:
                raise ValueError(f"weights must have at least sparsity ({sparsity}) positive entries")

    @classmethod
    def of(cls, value: Positions | str | Mapping[str, Any]) -> Positions:
        """Positions from a `Positions`, the name of a kind, or a plain dictionary of the fields."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(value)
        if isinstance(value, Mapping):
            unknown = set(value) - {"kind", "places", "weights"}
            if unknown:
                raise ValueError(f"positions has no field {sorted(unknown)[0]!r}; it has kind, places, weights")
            given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
            return cls(**given)
        raise rejection("positions", value, f"one of {', '.join(POSITION_KINDS)} or a Positions")

    def to_plain(self) -> str | dict[str, Any]:
        if self.places is None and self.weights is None:
            return self.kind
        plain: dict[str, Any] = {"kind": self.kind}
        if self.places is not None:
            plain["places"] = list(self.places)
        if self.weights is not None:
            plain["weights"] = list(self.weights)
        return plain


@dataclass(frozen=True)
class Task(Description):
    """Sparse-token classification: bags of L tokens in R^d, R of which carry the signal when y = +1.

    A negative bag is noise, all entries N(0, 1); a positive bag has theta xi added to R of its tokens, at random places.

    Parameters
    ----------
    length : int
        L, tokens per bag.
    sparsity : int
        R, signal tokens in a positive bag, at most `length`.
    strength : float
        theta, the signal's size along the unknown unit vector xi, against unit noise.
    prevalence : float
        pi = P(y = +1), between 0 and 1.
    positions : Positions, str or dict
        Law of the signal tokens' places; see `Positions`.
    """

    length: int = 10
    sparsity: int = 1
    strength: float = 5.0
    prevalence: float = 0.5
    positions: Positions = field(default_factory=Positions)

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("length", whole_number("length", self.length, 1))
        put("sparsity", whole_number("sparsity", self.sparsity, 1))
        if self.sparsity > self.length:
            raise rejection("sparsity", self.sparsity, f"at most length ({self.length})")
        put("strength", real_number("strength", self.strength, 0.0))
        put("prevalence", real_number("prevalence", self.prevalence, 0.0, 1.0, open_low=True, open_high=True))
        put("positions", Positions.of(self.positions))
        self.positions.check_fits(self.length, self.sparsity)
