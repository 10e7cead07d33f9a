"""The page's state, a flat dictionary of strings and numbers: its fields, their checks, and its form in the URL."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from .._core.validation import real_number, whole_number
from ..bag_models import BagModel, get_bag_model
from ..losses import LOSSES
from ..schedules import Stage
from ..task import Task
from ..training import Training

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
VIEWS, BAG_MODELS, COLOURS, GOALS = (WORDS["choices"][name] for name in ("view", "model", "colour", "goal"))
MODELS = ("attention", "pooled", "vectorized")
LONGEST = 5_000  # tokens per bag, also of bags that a classifier is tested on
LEAST = 1e-9  # numbers are zero or at least this: their neighbours on an axis stay within what floats can hold


@dataclass(frozen=True)
class Field:
    """A number on the page: what its field takes (`least`, `largest`), and the ends of its slider (`low`, `high`)."""

    name: str
    label: str
    default: float
    largest: float
    least: float = 0.0
    whole: bool = False
    symbol: str = ""
    group: str = "training"  # or "task", "descent", "drawing"
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False
    step: float = 0.01

    def value(self, raw: Any) -> float:
        """The number that the page sends for this field, checked."""
        if raw is None:
            raise ValueError(f"{self.name} must be a number")
        if self.whole:
            return whole_number(self.name, raw, int(self.least), int(self.largest))
        number = real_number(self.name, raw, self.least, self.largest)
        if 0 < number < LEAST:
            raise ValueError(f"{self.name} must be 0 or at least {LEAST:g} on this page")
        return number


def _slider(name: str, label: str, symbol: str, low: float, high: float, **more: Any) -> Field:
    group = "task" if hasattr(Task(), name) else "training"
    default = tidy(float(getattr(Task() if group == "task" else Training(), name)))
    return Field(name, label, default, **{"largest": 1e9, **more}, symbol=symbol, low=low, high=high, group=group)


def tidy(value: float) -> float | int:
    """Whole numbers without a decimal point, as people write them."""
    return int(value) if float(value).is_integer() else value


FIELDS = (
    _slider("length", "Length", "L", 2, 1000, logarithmic=True, whole=True, least=1, largest=LONGEST),
    _slider("sparsity", "Sparsity", "R", 1, 20, step=1, whole=True, least=1, largest=LONGEST),
    _slider("strength", "Strength", "θ", 0, 12, step=0.1),
    _slider("prevalence", "Prevalence", "π", 0.01, 0.99, least=LEAST, largest=1 - LEAST),
    _slider("alpha0", "Samples, steps", "α₀ = n₀/d", 0.1, 100, logarithmic=True, least=1e-3, largest=1e4),
    _slider("alpha1", "Samples, readout", "α₁ = n₁/d", 0.1, 100, logarithmic=True, least=1e-3, largest=1e4),
    _slider("beta", "Inverse temperature", "β", 0.1, 10, logarithmic=True),
    _slider("eta_w", "Readout rate", "η_w", 0.01, 100, logarithmic=True),
    _slider("eta_b", "Bias rate", "η_b", 0.01, 100, logarithmic=True),
    _slider("eta_q", "Query rate", "η_q", 0.1, 10_000, logarithmic=True),
    _slider("ridge", "Ridge", "λ", 1e-6, 10, logarithmic=True, least=LEAST),
    # Training step by step. At its largest rates descent diverges, which the page reports.
    Field("steps", "Steps", 30, 60, least=1, whole=True, group="descent"),
    Field("rate_q", "Query rate", 1, 1e4, group="descent"),
    Field("rate_w", "Readout rate", 1, 1e4, group="descent"),
    Field("rate_b", "Bias rate", 0.5, 1e4, group="descent"),
    Field("decay", "Weight decay", 0.1, 1e4, group="descent"),
    Field("sharpness", "Sharpness", 1, 1e3, least=LEAST, group="descent"),
    Field("start", "Norm at the start", 0, 1e2, group="descent"),
    Field("d", "Dimension d", 500, 5_000, least=2, whole=True, group="drawing"),
    Field("trials", "Trials", 8, 200, least=2, whole=True, group="drawing"),
    Field("seed", "Seed", 0, 2**31 - 1, whole=True, group="drawing"),
)
NUMBERS = {field.name: field for field in FIELDS}
TASK, TRAINING, DESCENT, DRAWING = (
    tuple(field for field in FIELDS if field.group == group) for group in ("task", "training", "descent", "drawing")
)
SLIDERS = (*TASK, *TRAINING)
AXES = ("strength", "length", "sparsity", "prevalence", "alpha0", "alpha1", "beta", "eta_q", "ridge")
CHOICES: dict[str, tuple[str, ...]] = {
    "loss": tuple(LOSSES),
    "view": tuple(VIEWS),
    "equal": ("yes", "no"),
    "x": AXES,
    "y": ("alpha0", *(name for name in AXES if name != "alpha0")),
    **{name: tuple(WORDS["choices"][name]) for name in ("colour", "goal", "model")},
}
# The page begins with each field's default and the first of each choice.
DEFAULTS: dict[str, Any] = {
    **{name: field.default for name, field in NUMBERS.items()},
    **{name: next(iter(allowed)) for name, allowed in CHOICES.items()},
    "compare": "",
}
# What a setting is when two are compared; the view and what belongs to it are common to both.
COMPARED = (*(field.name for field in (*SLIDERS, *DESCENT)), "loss", "equal", "model")


@dataclass(frozen=True)
class Descent:
    """Training step by step: gradient descent on the mean loss plus (decay/2) ||theta||^2 for each direction theta."""

    model: str
    steps: int
    rate_q: float
    rate_w: float
    rate_b: float
    decay: float
    sharpness: float
    start: float

    @property
    def bag_model(self) -> BagModel:
        """The model at its sharpness."""
        model = get_bag_model(self.model)
        return model if model.sharpness is None else model.with_sharpness(self.sharpness)

    def stage(self, alpha: float) -> Stage:
        """The schedule on n = alpha d bags."""
        directions = self.bag_model.directions
        rates = {name: self.rate_q if name.startswith("q") else self.rate_w for name in directions}
        return Stage(self.steps, alpha, rates | {"bias": self.rate_b}, dict.fromkeys(directions, self.decay))

    @property
    def start_norms(self) -> dict[str, float]:
        """Norms at the start by direction."""
        return dict.fromkeys(self.bag_model.directions, self.start)


def descent_fields(model: str) -> tuple[str, ...]:
    """The fields of the view "training" that a model uses."""
    chosen = get_bag_model(model)
    unused = set() if any(name.startswith("q") for name in chosen.directions) else {"rate_q"}
    unused |= {"sharpness"} if chosen.sharpness is None else set()
    return tuple(field.name for field in DESCENT if field.name not in unused)


@dataclass(frozen=True)
class State:
    """A valid state."""

    task: Task
    training: Training
    view: str
    x: str
    y: str
    colour: str
    goal: str
    d: int
    trials: int
    seed: int
    descent: Descent

    @property
    def samples(self) -> float:
        """alpha = alpha0 + alpha1."""
        return self.training.alpha0 + self.training.alpha1


def from_query(query: str) -> tuple[dict[str, Any], list[str]]:
    """The state in a URL's query (missing names take their defaults), and remarks on what could not be read."""
    values, remarks = dict(DEFAULTS), []
    for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=True):
        try:
            values[name] = _from_text(name, text)
        except ValueError as error:
            remarks.append(str(error))
    return values, remarks


def _from_text(name: str, text: str) -> Any:
    if name not in DEFAULTS:
        raise ValueError(f"the address names {name[:40]!r}, which is not a field of this page")
    if name == "compare":
        if problems := from_query(text)[1]:
            raise ValueError(f"of the setting to compare with, {problems[0]}")
        return text
    if name in CHOICES:
        if text not in CHOICES[name]:
            raise ValueError(f"the address has {name} {text[:40]!r}; it must be one of {', '.join(CHOICES[name])}")
        return text
    try:
        return tidy(float(text)) if math.isfinite(float(text)) else DEFAULTS[name]
    except ValueError:
        raise ValueError(f"the address gives {name} as {text[:40]!r}, which is not a number") from None


def other_of(raw: Mapping[str, Any]) -> tuple[State | None, str]:
    """The setting that the page compares with, in the view that the fields choose; why there is none."""
    text = raw.get("compare")
    if not text:
        return None, ""
    if not isinstance(text, str):
        return None, "the setting to compare with cannot be read"
    values, _ = from_query(text)
    state, messages = check({**raw, **{name: values[name] for name in COMPARED}})
    return state, "; ".join(messages.values())


def check(raw: Mapping[str, Any]) -> tuple[State | None, dict[str, str]]:
    """The state in the page's fields; None where some are wrong, with a message for each of these."""
    messages: dict[str, str] = {}
    for name, allowed in CHOICES.items():
        if raw.get(name) not in allowed:
            messages[name] = f"{name} must be one of {', '.join(allowed)}"
    if raw.get("view") == "phase" and raw.get("x") == raw.get("y"):
        messages["y"] = "the two axes must differ"
    training_shown = raw.get("view") == "training" and "model" not in messages
    shown = descent_fields(raw["model"]) if training_shown else ()
    values: dict[str, Any] = {field.name: field.default for field in DESCENT}  # those not on the screen
    for field in (*SLIDERS, *DRAWING, *(NUMBERS[name] for name in shown)):
        try:
            values[field.name] = field.value(raw.get(field.name))
        except ValueError as error:
            messages[field.name] = str(error)
    if messages:
        return None, messages
    of_task, of_training, of_descent, drawing = (
        {field.name: values[field.name] for field in group} for group in (TASK, TRAINING, DESCENT, DRAWING)
    )
    try:
        task = Task(**of_task)
    except ValueError as error:  # every field by itself is allowed, so it is more signal tokens than tokens
        return None, {"sparsity": str(error)}
    training = Training(raw["loss"], equal_samples=raw["equal"] == "yes", **of_training)
    descent = Descent(raw["model"] if training_shown else "attention", **of_descent)
    chosen = {name: raw[name] for name in ("view", "x", "y", "colour", "goal")}
    return State(task, training, descent=descent, **chosen, **drawing), {}
