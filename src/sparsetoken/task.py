"""What the data is: `Task`, its `BagKind`s, where signal tokens sit (`Positions`) and what tokens are made of (`Tokens`).

A task is frozen, validated and hashable, and goes to and from a plain dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

from ._core.frozen import Description
from ._core.validation import real_number, rejection, whole_number
from .distributions import Distribution, number_or_distribution

POSITION_KINDS = ("uniform", "block", "fixed", "weighted")
# Of bags: each is drawn separately, and a thousand take as many draws as half a million bags of a plain task.
MOST_KINDS = 1000
_DISTURBANCES = ("label_noise", "contamination", "correlation")
# Fields that change nothing at these values: a task's key leaves them out then.
NEUTRAL_FIELDS = dict.fromkeys(_DISTURBANCES, 0.0)


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
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
            return cls(**values)
        raise rejection("positions", value, f"one of {', '.join(POSITION_KINDS)} or a Positions")

    def to_plain(self) -> str | dict[str, Any]:
        if self.places is None and self.weights is None:
            return self.kind
        lists = {"places": self.places, "weights": self.weights}
        return {"kind": self.kind} | {name: list(entries) for name, entries in lists.items() if entries is not None}


class BagKind(NamedTuple):
    """One of the kinds of bags that a task is made of."""

    length: int
    sparsity: int
    strength: float
    probability: float


@dataclass(frozen=True, repr=False)
class Task(Description):
    """Sparse-token classification: bags of L tokens in R^d, R of which carry the signal when y = +1.

    A negative bag is noise, all entries N(0, 1); a positive bag has theta xi added to R of its tokens, at random places.
    Length, sparsity and strength may differ from bag to bag: each is a number, a mapping value -> probability, the text
    "10:0.5,20:0.5", or an object that draws numbers (a frozen distribution of SciPy, or a function of a generator and a
    size), which is replaced by five values with its first nine moments. They are drawn independently of each other and of the
    label: a task is a finite mixture of `kinds` of bags, the same in both classes.

    Parameters
    ----------
    length : int or distribution
        L, tokens per bag. Nothing else is scaled with it: theta is the size of the signal in a token, however many there are.
    sparsity : int or distribution
        R, signal tokens in a bag with signal, at most the shortest `length`.
    strength : float or distribution
        theta, the signal's size along the unknown unit vector xi, against unit noise; the same for all signal tokens of a
        bag.
    prevalence : float
        pi = P(y = +1), between 0 and 1: the share of the true labels, before any is flipped.
    positions : Positions, str or dict
        Law of the signal tokens' places; see `Positions`.
    label_noise : float
        Probability in [0, 1/2] that the label seen in training is -y, whatever y: symmetric, for every bag by itself. Test
        error, AUC and the other test measures refer to the true label; training loss and training error to the label seen.
    contamination : float
        Probability in [0, 1) that a negative bag carries signal, with R and theta distributed as in positive bags.
    correlation : float
        rho in [0, 1), the correlation of two tokens of a bag in every coordinate: a token's noise is sqrt(rho) times a
        vector N(0, I) that all tokens of the bag share plus sqrt(1 - rho) times one of its own.
    """

    length: int | Distribution = 10
    sparsity: int | Distribution = 1
    strength: float | Distribution = 5.0
    prevalence: float = 0.5
    positions: Positions = field(default_factory=Positions)
    label_noise: float = 0.0
    contamination: float = 0.0
    correlation: float = 0.0

    def __post_init__(self):
        put = partial(object.__setattr__, self)

        def count(name, value):
            return whole_number(name, value, 1)

        def size(name, value):
            return real_number(name, value, 0.0, 1e50)  # whose sixth power is still a number

        put("length", number_or_distribution("length", self.length, count, whole=True))
        put("sparsity", number_or_distribution("sparsity", self.sparsity, count, whole=True))
        put("strength", number_or_distribution("strength", self.strength, size, whole=False))
        shortest, most = min(_values(self.length)), max(_values(self.sparsity))
        if most > shortest:
            raise rejection("sparsity", self.sparsity, f"at most length ({shortest})")
        put("prevalence", real_number("prevalence", self.prevalence, 0.0, 1.0, open_low=True, open_high=True))
        put("positions", Positions.of(self.positions))
        put("label_noise", real_number("label_noise", self.label_noise, 0.0, 0.5))
        put("contamination", real_number("contamination", self.contamination, 0.0, 1.0, open_high=True))
        put("correlation", real_number("correlation", self.correlation, 0.0, 1.0, open_high=True))
        if (kinds := len(self.kinds)) > MOST_KINDS:
            raise ValueError(
                f"length, sparsity and strength make {kinds:,} kinds of bags, at most {MOST_KINDS:,} are allowed"
            )
        for shape in {(kind.length, kind.sparsity) for kind in self.kinds}:
            self.positions.check_fits(*shape)

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in ("length", "sparsity", "strength", "prevalence")]
        if self.positions != Positions():
            shown.append(f"positions={self.positions!r}")
        shown += [f"{name}={getattr(self, name)!r}" for name in _DISTURBANCES if getattr(self, name)]
        return f"Task({', '.join(shown)})"

    @cached_property
    def kinds(self) -> tuple[BagKind, ...]:
        """The kinds of bags: all combinations of length, sparsity and strength with their probabilities."""
        return tuple(
            BagKind(L, R, theta, p * q * r)
            for (L, p), (R, q), (theta, r) in product(*map(_atoms, (self.length, self.sparsity, self.strength)))
        )

    @property
    def differing(self) -> str | None:
        """The name of a field that makes bags differ from the plain model's; None for a plain task."""
        for name in ("length", "sparsity", "strength"):
            if isinstance(getattr(self, name), Distribution):
                return name
        return next((name for name in _DISTURBANCES if getattr(self, name)), None)

    @property
    def mean_length(self) -> float:
        """Mean number of tokens per bag."""
        return _mean(self.length)

    @property
    def mean_sparsity(self) -> float:
        """Mean number of signal tokens of a bag with signal."""
        return _mean(self.sparsity)

    @property
    def mean_strength(self) -> float:
        """Mean of theta."""
        return _mean(self.strength)

    @property
    def longest(self) -> int:
        """The largest number of tokens that a bag can have."""
        return int(max(_values(self.length)))

    @property
    def observed_prevalence(self) -> float:
        """The share of bags seen as positive in training: pi (1 - 2 label_noise) + label_noise."""
        return self.prevalence * (1.0 - self.label_noise) + (1.0 - self.prevalence) * self.label_noise

    def at_strength(self, strength: float) -> Task:
        """The task with all strengths moved in proportion to a mean of `strength` (a plain task: to that strength)."""
        if not isinstance(self.strength, Distribution):
            return self.but(strength=strength)
        factor = strength / self.mean_strength
        return self.but(strength=self.strength.mapped(lambda theta: theta * factor))

    def at_length(self, length: float) -> Task:
        """The task with all lengths moved in proportion to a mean of about `length`, whole and no less than the sparsity."""
        if not isinstance(self.length, Distribution):
            return self.but(length=round(length))
        factor, least = length / self.mean_length, max(_values(self.sparsity))
        return self.but(length=self.length.mapped(lambda L: max(int(least), round(L * factor))))

    def single(self, kind: BagKind) -> Task:
        """The plain task whose bags are all of one kind, with the same prevalence and positions."""
        return Task(kind.length, kind.sparsity, kind.strength, self.prevalence, self.positions)

    def only_kind(self, what: str) -> BagKind:
        """The one kind of bags of a plain task; ValueError for any other (see `require_plain`)."""
        self.require_plain(what)
        return self.kinds[0]

    def require_plain(self, what: str, *fields: str) -> None:
        """Raise ValueError where one of these fields (by default, any) makes bags differ; `what` is what needs a plain task."""
        for name in fields or ("length", "sparsity", "strength", *_DISTURBANCES):
            value = getattr(self, name)
            if isinstance(value, Distribution) or (name in _DISTURBANCES and value):
                allowed = "0" if name in _DISTURBANCES else "one number"
                raise ValueError(f"{name} must be {allowed} for {what}, got {value}")


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


def _atoms(value: Any) -> tuple[tuple[Any, float], ...]:
    return value.atoms if isinstance(value, Distribution) else ((value, 1.0),)


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(v for v, _ in _atoms(value))


def _mean(value: Any) -> float:
    return value.mean if isinstance(value, Distribution) else value
