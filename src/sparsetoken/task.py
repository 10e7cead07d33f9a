"""What the data is (`Task`) and how a classifier learns from it (`Training`).

Both are frozen, validated and hashable, and both go to and from plain dictionaries, so the same description drives
theory, simulation, studies and the command line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from .losses import LOSSES, Loss, get_loss, loss_name

SCHEDULES = ("staged", "reuse", "joint")
POSITION_KINDS = ("uniform", "block", "fixed", "weighted")


def _reject(name: str, value: Any, allowed: str) -> ValueError:
    return ValueError(f"{name} must be {allowed}, got {value!r}")


def whole_number(name: str, value: Any, minimum: int) -> int:
    """`value` as an int, or a ValueError naming the field."""
    allowed = f"a whole number >= {minimum}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _reject(name, value, allowed)
    if not isinstance(value, Integral) and not float(value).is_integer():
        raise _reject(name, value, allowed)
    number = int(float(value)) if not isinstance(value, Integral) else int(value)
    if number < minimum:
        raise _reject(name, value, allowed)
    return number


def real_number(name: str, value: Any, low: float, high: float = math.inf, *, open_low=False, open_high=False) -> float:
    """`value` as a finite float inside the interval, or a ValueError naming the field."""
    left, right = "(" if open_low else "[", ")" if open_high or math.isinf(high) else "]"
    allowed = f"a number in {left}{low:g}, {high:g}{right}"
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(float(value)):
        raise _reject(name, value, allowed)
    x = float(value)
    if x < low or x > high or (open_low and x == low) or (open_high and x == high):
        raise _reject(name, value, allowed)
    return x


@dataclass(frozen=True)
class Positions:
    """Where the R signal tokens of a positive bag sit.

    - ``uniform``: R places drawn without replacement, all alike (the default);
    - ``block``: R neighbouring places, cyclically, with a random start;
    - ``fixed``: always the same `places` (the first R when none are given);
    - ``weighted``: R places drawn one after the other without replacement, with chances proportional to `weights`.
    """

    kind: str = "uniform"
    places: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self):
        if self.kind not in POSITION_KINDS:
            raise _reject("positions", self.kind, f"one of {', '.join(POSITION_KINDS)}")
        if self.places is not None:
            if self.kind != "fixed":
                raise ValueError(f"places belong to positions 'fixed', not to {self.kind!r}")
            if isinstance(self.places, str) or not isinstance(self.places, Iterable):
                raise _reject("places", self.places, "a list of token indices")
            places = tuple(whole_number("places", p, 0) for p in self.places)
            if len(set(places)) != len(places):
                raise _reject("places", self.places, "distinct token indices")
            object.__setattr__(self, "places", places)
        if (self.weights is not None) != (self.kind == "weighted"):
            raise ValueError("positions 'weighted' needs weights, and only it takes them")
        if self.weights is not None:
            if isinstance(self.weights, str) or not isinstance(self.weights, Iterable):
                raise _reject("weights", self.weights, "a list of numbers")
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
                raise ValueError(f"weights must have one entry a token ({length}), got {len(self.weights)}")
            if sum(w > 0 for w in self.weights) < sparsity:
                raise ValueError(f"weights must have at least sparsity ({sparsity}) positive entries")

    @classmethod
    def of(cls, value: Positions | str | Mapping[str, Any]) -> Positions:
        """Accept a Positions, a kind's name or a plain dictionary."""
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
        raise _reject("positions", value, f"one of {', '.join(POSITION_KINDS)} or a Positions")

    def to_plain(self) -> str | dict[str, Any]:
        if self.places is None and self.weights is None:
            return self.kind
        plain: dict[str, Any] = {"kind": self.kind}
        if self.places is not None:
            plain["places"] = list(self.places)
        if self.weights is not None:
            plain["weights"] = list(self.weights)
        return plain


class _Description:
    """Plain-dictionary conversion and field replacement shared by `Task` and `Training`."""

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, Positions):
                value = value.to_plain()
            elif f.name == "loss":
                value = loss_name(value)
            plain[f.name] = value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]):
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(plain, Mapping):
            raise ValueError(f"{cls.__name__} is read from a mapping of its fields, got {plain!r}")
        for name in plain:
            if name not in known:
                raise ValueError(f"{cls.__name__} has no field {name!r}; it has {', '.join(known)}")
        return cls(**plain)

    def but(self, **changes: Any):
        """A copy with some fields changed (and validated again)."""
        known = [f.name for f in fields(self)]  # type: ignore[arg-type]
        for name in changes:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(known)}")
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class Task(_Description):
    """Sparse-token classification: bags of L tokens in R^d, R of which carry the signal when y = +1.

    length      L, tokens a bag (default 10)
    sparsity    R, signal tokens in a positive bag (default 1)
    strength    theta, the signal's size along the unknown unit vector xi, against unit noise (default 5)
    prevalence  pi = P(y = +1) (default 0.5)
    positions   law of the signal tokens' places (default uniform); see `Positions`
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
            raise _reject("sparsity", self.sparsity, f"at most length ({self.length})")
        put("strength", real_number("strength", self.strength, 0.0))
        put("prevalence", real_number("prevalence", self.prevalence, 0.0, 1.0, open_low=True, open_high=True))
        put("positions", Positions.of(self.positions))
        self.positions.check_fits(self.length, self.sparsity)


@dataclass(frozen=True)
class Training(_Description):
    """The four-stage training of the attention classifier (and, by its last stage, of the others).

    loss      l(z; y), a name or a `Loss` (default "logistic")
    alpha0    n0/d, samples for the two gradient steps (default 2)
    alpha1    n1/d, samples for the convex readout (default 2)
    eta_w     learning rate of the readout's one step (default 1)
    eta_b     learning rate of the bias's one step (default 1)
    eta_q     learning rate of the query's one step (default 25: at the default task k = beta ||q2|| = 1.75;
              unit rates give 0.07, hardly more than pooling)
    beta      inverse temperature of the softmax (default 1)
    ridge     lambda of (1/n1) sum l + (lambda/2) ||w||^2, bias unpenalised (default 1e-3)
    schedule  "staged": D0 and D1 disjoint; "reuse": D0 serves again as D1 (n1 = n0, alpha1 unused);
              "joint": full-batch gradient descent on (q, w, b), on D1 with D0 added
    """

    loss: str | Loss = "logistic"
    alpha0: float = 2.0
    alpha1: float = 2.0
    eta_w: float = 1.0
    eta_b: float = 1.0
    eta_q: float = 25.0
    beta: float = 1.0
    ridge: float = 1e-3
    schedule: str = "staged"

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        loss = get_loss(self.loss)
        if LOSSES.get(loss.name) == loss:  # one spelling a loss, so that equal trainings compare equal
            put("loss", loss.name)
        put("alpha0", real_number("alpha0", self.alpha0, 0.0, open_low=True))
        put("alpha1", real_number("alpha1", self.alpha1, 0.0, open_low=True))
        for name in ("eta_w", "eta_b", "eta_q", "beta", "ridge"):
            put(name, real_number(name, getattr(self, name), 0.0))
        if self.schedule not in SCHEDULES:
            raise _reject("schedule", self.schedule, f"one of {', '.join(SCHEDULES)}")

    @property
    def loss_function(self) -> Loss:
        """The `Loss` object behind `loss`."""
        return get_loss(self.loss)
