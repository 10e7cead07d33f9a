"""What tokens are made of besides the signal: entries of a named law, coloured Gaussians, or the user's own bags.

Noise that is not white and Gaussian is a `TokenNoise`, which assigns tokens to the data sets of a trial. Where no formula gives
the test error, every test bag is scored twice, as it is and with the signal planted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from .._core.validation import real_number, rejection
from ..bags import Bags
from ..bags.reading.shipped import SHIPPED, shipped_bags
from .seeds import stream

# Draws a block of noise: (generator, first bag, last bag) -> tokens (last - first, L, d).
TokenDraw = Callable[[np.random.Generator, int, int], np.ndarray]

STANDARDS = ("features", "whiten", "scale", "none")
TOKEN_SOURCES = ("own", "mixed")
# Test bags where noise can be drawn without limit: a standard error of 0.003 at worst, below the spread between trials.
TEST_BAGS = 10_000
_RANK = 1e-10  # variances below this share of the largest are rounding


@dataclass(frozen=True)
class Demand:
    """What a data set needs: `count` bags of `length` tokens; `count` None takes all that there are."""

    count: int | None
    length: int


class TokenNoise:
    """Base of the kinds of noise: a `name`, the `dimension` of its tokens where that is fixed, and `assign`."""

    name: str
    dimension: int | None = None

    def assign(self, seed: int, d: int, demands: Mapping[str, Demand]) -> dict[str, tuple[int, TokenDraw]]:
        """For every data set ("0", "1", ":0" of a descent, "_test") the number of its bags, and what draws their tokens."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(frozen=True, repr=False)
class EntryNoise(TokenNoise):
    """Independent tokens, drawn by a function (generator, shape) -> tokens."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray] = field(compare=False)

    def assign(self, seed: int, d: int, demands: Mapping[str, Demand]) -> dict[str, tuple[int, TokenDraw]]:
        """As many bags as each data set needs, `TEST_BAGS` for one that takes all."""

        def tokens(length: int) -> TokenDraw:
            return lambda rng, first, last: self._checked(rng, (last - first, length, d))

        return {
            name: (TEST_BAGS if demand.count is None else demand.count, tokens(demand.length))
            for name, demand in demands.items()
        }

    def _checked(self, rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
        drawn = np.array(self.draw(rng, shape), dtype=np.float64)
        if drawn.shape != shape or not np.isfinite(drawn).all():
            raise ValueError(f"noise must give finite tokens of shape {shape}, got shape {drawn.shape}")
        return drawn


class RealNoise(TokenNoise):
    """The user's own negative bags as noise.

    Every trial shuffles the bags by its seed and holds `test_share` of them out for the test; the rest is split into D0 and
    D1, which share no bag. A trial's bag takes L tokens, drawn without replacement, of one bag that has at least as many;
    shorter bags are left out.

    Parameters
    ----------
    bags : Bags or what `Bags` takes
        Bags without the signal.
    standardise : {"features", "whiten", "scale", "none"}
        What is done to all tokens together, so that theta counts in units of the noise. "features": every feature has
        mean 0 and variance 1. "whiten": mean 0 and the identity as covariance. "scale": mean 0, and variance 1 on average
        over the features. "none": nothing. Constant features (with "whiten": directions) are dropped, except with "none".
        Means and variances are those of all the bags given, the held-out ones included.
    tokens : {"own", "mixed"}
        "own": the tokens of a bag stay together, with any correlation between them. "mixed": tokens are shuffled
        across the bags of a data set.
    replace : bool
        Whether a data set may use its bags (with "mixed": its tokens) several times; if not, a trial that needs more is
        refused. Data sets never share bags. The test then has at least 2,000 bags made of held-out tokens, and its standard
        error treats them as independent, an approximation.
    test_share : float
        Share of the bags held out for the test.
    name : str
        What it is called.

    Attributes
    ----------
    dimension : int
        Features that are left.

    Raises
    ------
    ValueError
        If there are no bags, or no two tokens that differ.
    """

    def __init__(
        self,
        bags: Any,
        standardise: str = "features",
        tokens: str = "own",
        replace: bool = False,
        test_share: float = 0.3,
        name: str = "real",
    ):
        if standardise not in STANDARDS:
            raise rejection("standardise", standardise, f"one of {', '.join(STANDARDS)}")
        if tokens not in TOKEN_SOURCES:
            raise rejection("tokens", tokens, f"one of {', '.join(TOKEN_SOURCES)}")
        if not isinstance(replace, bool):
            raise rejection("replace", replace, "true or false")
        share = real_number("test_share", test_share, 0.0, 1.0, open_low=True, open_high=True)
        raw = Bags(bags)
        self.bags = raw.with_tokens(standardised(raw.tokens, standardise))
        self.standardise, self.tokens, self.replace, self.name = standardise, tokens, replace, name
        self.test_share, self.dimension = share, self.bags.n_features

    def assign(self, seed: int, d: int, demands: Mapping[str, Demand]) -> dict[str, tuple[int, TokenDraw]]:
        """Disjoint bags for every data set; the test uses the held-out ones, all of them where its count is None."""
        rng = stream(seed, "noise")
        order = rng.permutation(len(self.bags))
        held_out = max(1, round(self.test_share * len(order)))
        learned = {name: demand for name, demand in demands.items() if name != "_test"}
        wanted = sum(demand.count or 0 for demand in learned.values())
        assigned = {}
        if "_test" in demands:
            assigned["_test"] = self._groups("_test", order[:held_out], demands["_test"].length, rng)
        if learned:
            (length,) = {demand.length for demand in learned.values()}
            groups = self._groups("training", order[held_out:], length, rng)
            # Every data set gets as many as it needs; where they are too few, a proportional share.
            scale = min(1.0, len(groups) / wanted)
            first = 0
            for name, demand in learned.items():
                last = first + int(scale * (demand.count or 0))
                assigned[name], first = groups[first:last], last
        return {name: self._source(name, assigned[name], demand) for name, demand in demands.items()}

    def _groups(self, purpose: str, chosen: np.ndarray, length: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Rows of tokens, bag by bag: of the chosen bags with enough tokens, or of bags made of all their tokens."""
        groups = [self._rows(bag) for bag in chosen]
        if self.tokens == "mixed":
            rows = rng.permutation(np.concatenate([np.empty(0, int), *groups]))
            groups = [rows[k : k + length] for k in range(0, len(rows) - length + 1, length)]
        else:
            groups = [rows for rows in groups if len(rows) >= length]
        if not groups:
            raise ValueError(
                f"noise has no bags of {length} tokens for the {purpose.strip('_')}: give more or longer bags, a smaller "
                "length, or mixed tokens"
            )
        return groups

    def _source(self, dataset: str, groups: list[np.ndarray], demand: Demand) -> tuple[int, TokenDraw]:
        """How many bags a data set has, and what draws them."""
        length, tokens = demand.length, self.bags.tokens
        everything = max(len(groups), 2_000) if self.replace else len(groups)  # a standard error of 0.007 at worst
        count = everything if demand.count is None else demand.count
        again = count > len(groups)
        if again and (not self.replace or not groups):
            raise ValueError(
                f"noise has {len(groups)} bags of {length} tokens for {_name(dataset)}, which needs {count}: give more bags, "
                "take fewer samples, or let bags be used again (replace)"
            )
        pool = np.concatenate(groups) if again and self.tokens == "mixed" else None

        def draw(rng: np.random.Generator, first: int, last: int) -> np.ndarray:
            if pool is not None:
                return tokens[pool[rng.integers(len(pool), size=(last - first, length))]]
            places = rng.integers(len(groups), size=last - first) if again else range(first, last)
            return tokens[np.stack([rng.permutation(groups[i])[:length] for i in places])]

        return count, draw

    def _rows(self, bag: int) -> np.ndarray:
        starts = self.bags.starts
        end = starts[bag + 1] if bag + 1 < len(starts) else self.bags.n_tokens
        return np.arange(starts[bag], end)


def _name(dataset: str) -> str:
    return {"_test": "the test", ":0": "the training"}.get(dataset, f"D{dataset}")


def standardised(tokens: np.ndarray, standard: str) -> np.ndarray:
    """Tokens (N, d) made comparable with unit noise; see `RealNoise`."""
    x = np.asarray(tokens, dtype=np.float64)
    if standard == "none":
        return x
    x = x - x.mean(axis=0)
    variance = (x**2).mean(axis=0)
    if len(x) < 2 or not (variance > _RANK * variance.max()).sum() > 1:
        raise ValueError("noise must have at least two tokens that differ in at least two features")
    if standard == "whiten":
        values, vectors = np.linalg.eigh(x.T @ x / len(x))
        kept = values > _RANK * values.max()
        return x @ (vectors[:, kept] / np.sqrt(values[kept]))
    x = x[:, variance > _RANK * variance.max()]
    return x / (np.sqrt((x**2).mean(axis=0)) if standard == "features" else np.sqrt((x**2).mean()))


def _sparse(rng: np.random.Generator, shape: tuple[int, ...], share: float) -> np.ndarray:
    return rng.standard_normal(shape) * (rng.random(shape) < share) / np.sqrt(share)


def _student(rng: np.random.Generator, shape: tuple[int, ...], degrees: float) -> np.ndarray:
    return np.sqrt((degrees - 2.0) / degrees) * rng.standard_t(degrees, shape)


# Laws of entries of mean 0 and variance 1. With a parameter: its default, and the bounds that it lies between.
_PLAIN: dict[str, Callable] = {
    "rademacher": lambda rng, shape: 2.0 * rng.integers(0, 2, shape) - 1.0,
    "uniform": lambda rng, shape: np.sqrt(12.0) * (rng.random(shape) - 0.5),
    "laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2.0),
}
_WITH_PARAMETER = {"sparse": (_sparse, 0.1, 0.0, 1.0), "student": (_student, 5.0, 2.0, np.inf)}
NOISES = ("gaussian", *_PLAIN, *_WITH_PARAMETER, *SHIPPED)


def noise_of(value: Any) -> TokenNoise | None:
    """The `TokenNoise` of an argument: a name, a function, bags or a `TokenNoise`."""
    if value is None or isinstance(value, TokenNoise):
        return value
    if isinstance(value, str):
        return _named(value)
    if callable(value):
        return EntryNoise(getattr(value, "__name__", "own"), value)
    return RealNoise(value)


@lru_cache(maxsize=16)  # standardising takes longer than many trials
def _shipped(name: str, standard: str, tokens: str, text: str) -> TokenNoise:
    return RealNoise(shipped_bags(name), standard, tokens, replace=True, name=text)


def _named(text: str) -> TokenNoise | None:
    name, _, parameter = text.partition(":")
    if name in SHIPPED:
        standard, tokens = "features", "mixed" if name == "digits" else "own"  # the digits are single tokens, not bags
        for word in parameter.split(":") if parameter else ():
            if word in TOKEN_SOURCES:
                tokens = word
            elif word in STANDARDS:
                standard = word
            else:
                raise rejection(
                    "noise", text, f"{name}, with one of {', '.join(STANDARDS + TOKEN_SOURCES)} behind a colon"
                )
        return _shipped(name, standard, tokens, text)
    if name in _PLAIN:
        if parameter:
            raise ValueError(f"noise {name!r} takes no parameter, got {parameter!r}")
        return EntryNoise(name, _PLAIN[name])
    if name in _WITH_PARAMETER:
        draw, default, low, high = _WITH_PARAMETER[name]
        try:
            number = float(parameter or default)
        except ValueError:
            raise rejection("noise", text, f"{name}:NUMBER") from None
        number = real_number(f"noise {name}", number, low, high, open_low=True, open_high=True)
        return EntryNoise(text, lambda rng, shape: draw(rng, shape, number))
    if text == "gaussian":
        return None
    raise rejection("noise", text, f"one of {', '.join(NOISES)}, a function, or bags")
