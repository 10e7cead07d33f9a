"""Schedules of training: stages of gradient steps, each with its data, learning rates, weight decay and momentum.

One step t on data set k with n_k = alpha_k d bags moves the directions Theta = [theta_1 .. theta_r] and the bias b by

    Theta_{t+1} = Theta_t (I - Lambda_t D_t) + rho_t (Theta_t - Theta_{t-1}) - (1/n_k) sum_i X_i^T G_i^t D_t
    b_{t+1} = b_t - eta_b (1/n_k) sum_i dl/db,            G_i^t = dl(score(X_i Theta_t, b_t); y_i)/dH   (L x r)

with D_t = diag(rates), Lambda_t = diag(decay), momentum rho_t: gradient descent on the mean loss plus
sum_a (decay_a/2) ||theta_a||^2. The bias has neither decay nor momentum.

Eq. (25) of docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ._core.frozen import Description, FrozenMapping
from ._core.validation import LARGEST_RATIO, real_number, whole_number

FRESH = "fresh"
# Steps of a stage. Theory and simulation without tokens use all earlier steps: time grows like the square of their number, and
# a table of pairs of steps takes 400 MB here.
MOST_STEPS = 20_000
# A default schedule for tokens of white unit noise: learning rates of directions and bias, and weight decay.
FIRST_RATE, FIRST_BIAS_RATE, FIRST_DECAY = 1.0, 0.5, 0.15


def _over_steps(name: str, value: Any, steps: int, low: float, high: float = np.inf) -> float | tuple[float, ...]:
    """A number, or one number per step, each checked; a constant row stays a row."""
    if isinstance(value, str) or not np.ndim(value):
        return real_number(name, value, low, high)
    row = np.asarray(value, dtype=float)
    if row.shape != (steps,):
        raise ValueError(f"{name} must be a number or an array over the stage's {steps} steps, got shape {row.shape}")
    return tuple(real_number(name, float(x), low, high) for x in row)


def _per_direction(name: str, values: Any, steps: int) -> FrozenMapping[str, float | tuple[float, ...]]:
    if not isinstance(values, Mapping):
        raise ValueError(f"{name} must be a mapping from names of directions to numbers, got {values!r}")
    for key in values:
        if not isinstance(key, str):
            raise ValueError(f"{name} must have names of directions as keys, got {key!r}")
    return FrozenMapping({key: _over_steps(f"{name}[{key!r}]", value, steps, 0.0) for key, value in values.items()})


@dataclass(frozen=True)
class Stage(Description):
    """A number of gradient steps of one kind; a schedule is a list of stages.

    Parameters
    ----------
    steps : int
        How many gradient steps, from 1 to 20,000.
    alpha : float or tuple of float
        n/d, bags per dimension of each data set the stage uses; with several data sets one number for all or one for each.
    rates : dict
        Learning rate of each direction, by its name, and of "bias": a number, or an array over the stage's steps. What is
        not named has rate 0 and stays where it is.
    decay : dict
        Weight decay of each direction, by its name (number or array over steps; 0 where not named). A step shrinks the
        direction by the factor 1 - decay * rate.
    momentum : float or array
        Momentum rho in [0, 1), for all directions; a number or an array over steps.
    data : str or tuple of str
        The data set of that name, shared by all stages that name it (their alpha must agree); "fresh", a new one for every
        step; or a tuple of names, data sets used in turn (mini-batches).
    """

    steps: int
    alpha: float | tuple[float, ...]
    rates: Mapping[str, Any] = field(default_factory=dict)
    decay: Mapping[str, Any] = field(default_factory=dict)
    momentum: Any = 0.0
    data: str | tuple[str, ...] = "all"

    def __post_init__(self):
        put = partial(object.__setattr__, self)
        put("steps", whole_number("steps", self.steps, 1, MOST_STEPS))
        put("rates", _per_direction("rates", self.rates, self.steps))
        put("decay", _per_direction("decay", self.decay, self.steps))
        if "bias" in self.decay:
            raise ValueError("decay must name directions only: the bias has no weight decay")
        put("momentum", _over_steps("momentum", self.momentum, self.steps, 0.0, 1.0))
        if np.max(self.momentum) >= 1:
            raise ValueError(f"momentum must be below 1, got {self.momentum!r}")
        if not isinstance(self.data, str | Sequence):
            raise ValueError(f"data must be a name or a tuple of names, got {self.data!r}")
        data = self.data if isinstance(self.data, str) else tuple(self.data)
        names = (data,) if isinstance(data, str) else data
        if not names or not all(isinstance(n, str) and n for n in names):
            raise ValueError(f"data must be a name or a tuple of names, got {self.data!r}")
        if not isinstance(data, str) and (FRESH in names or len(set(names)) < len(names)):
            raise ValueError(f"data must be distinct names other than {FRESH!r} when several are given, got {data!r}")
        put("data", data)
        alpha = self.alpha
        if np.ndim(alpha):
            if len(alpha) != len(names):  # type: ignore[arg-type]
                raise ValueError(f"alpha must be a number or one number per data set ({len(names)}), got {alpha!r}")
            put("alpha", tuple(real_number("alpha", a, 1 / LARGEST_RATIO, LARGEST_RATIO) for a in alpha))  # type: ignore[union-attr]
        else:
            put("alpha", real_number("alpha", alpha, 1 / LARGEST_RATIO, LARGEST_RATIO))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        plain = super().to_dict()
        for name in ("rates", "decay"):
            plain[name] = {k: list(v) if isinstance(v, tuple) else v for k, v in plain[name].items()}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Stage:
        """A stage from plain data; unknown fields are refused."""
        if isinstance(plain, cls):
            return plain
        cls._check_names(plain)
        for name in ("steps", "alpha"):
            if name not in plain:
                raise ValueError(f"a stage needs {name}; it has {', '.join(plain) or 'no fields'}")
        return cls(**plain)


class Schedule(NamedTuple):
    """A list of stages written out step by step, T steps on K data sets, r directions."""

    data_set: np.ndarray
    alpha: np.ndarray
    names: tuple[str, ...]
    rates: np.ndarray
    decay: np.ndarray
    momentum: np.ndarray

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return len(self.momentum)


def as_stages(stages: Stage | Mapping[str, Any] | Sequence[Any]) -> tuple[Stage, ...]:
    """A stage, its plain form, or a list of either, as a tuple of stages."""
    if isinstance(stages, (Stage, Mapping)):
        stages = [stages]
    if isinstance(stages, str) or not isinstance(stages, Sequence) or not stages:
        raise ValueError(f"stages must be a Stage or a list of stages, got {stages!r}")
    return tuple(Stage.from_dict(stage) for stage in stages)


def expand(stages: Stage | Sequence[Stage], directions: Sequence[str]) -> Schedule:
    """The stages as arrays over steps."""
    columns = {name: i for i, name in enumerate((*directions, "bias"))}
    index: dict[str, int] = {}
    alphas: list[float] = []
    names: list[str] = []
    sets: list[int] = []
    rates, decay, momentum = [], [], []

    def data_set(name: str, alpha: float) -> int:
        if name != FRESH and name in index:
            if alphas[index[name]] != alpha:
                raise ValueError(f"alpha of data set {name!r} must be the same in all stages, got {alpha:g} and before it "
                                 f"{alphas[index[name]]:g}")  # fmt: skip
            return index[name]
        alphas.append(alpha)
        names.append(name)
        index[name] = len(alphas) - 1
        return index[name]

    chosen = as_stages(stages)
    for stage in chosen:
        last = stage is chosen[-1]
        places = (stage.data,) if isinstance(stage.data, str) else stage.data
        sizes = stage.alpha if isinstance(stage.alpha, tuple) else (stage.alpha,) * len(places)
        # Each set is made when a step first uses it; the extra turn after the last stage may make one more.
        sets += [data_set(places[t % len(places)], sizes[t % len(places)]) for t in range(stage.steps + last)]
        table = np.zeros((stage.steps, len(columns)))
        shrink = np.zeros((stage.steps, len(columns) - 1))
        for what, settings, into in (("rates", stage.rates, table), ("decay", stage.decay, shrink)):
            for name, value in settings.items():
                if name not in columns:
                    raise ValueError(f"{what} must name {', '.join(columns)}, got {name!r}")
                into[:, columns[name]] = value
        rates.append(table)
        decay.append(shrink)
        momentum.append(np.broadcast_to(np.asarray(stage.momentum, float), stage.steps))
    return Schedule(
        np.array(sets),
        np.array(alphas),
        tuple(names),
        np.concatenate(rates),
        np.concatenate(decay),
        np.concatenate(momentum),
    )
