"""The explorer's state: every field of the page, its checks, and its form in the URL.

The page's whole state is a flat dictionary of strings and numbers; the URL's query holds it, and any page opened with that
URL shows the same view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from .._core.validation import real_number, whole_number
from ..bag_models import BagModel, get_bag_model
from ..losses import LOSSES
from ..schedules import Stage
from ..task import Task
from ..training import Training

VIEWS = {
    "curves": "Learning curves",
    "alignment": "Alignment",
    "capacity": "Capacity",
    "phase": "Phase diagram",
    "bag": "One bag",
    "training": "Training",
    "lengths": "Longer bags",
    "heads": "Heads",
}
BAG_MODELS = {
    "attention": "attention",
    "tied": "tied query and readout",
    "pooled": "pooled",
    "heads:2": "two attention heads",
}
COLOURS = {"error": "test error of attention", "gain": "attention minus pooling"}
LONGEST_TEXT = 2_000  # of a setting to compare with, in the address
LONGEST, LARGEST_D, MOST_TRIALS = 5_000, 5_000, 200
# Numbers of the page lie between these, or are zero where the library takes it: a figure shows their neighbourhood, and what
# is computed there must stay within what floats can hold.
LEAST, LARGEST = 1e-9, 1e9


@dataclass(frozen=True)
class Field:
    """A number on the page.

    Attributes
    ----------
    name : str
        The field of `Task` or `Training`.
    label, symbol : str
        Shown beside it.
    low, high : float
        Ends of its slider.
    logarithmic : bool
        Whether the slider moves the logarithm.
    step : float
        Step of a linear slider.
    whole : bool
        Whether it is a whole number.
    group : str
        "task" or "training".
    """

    name: str
    label: str
    symbol: str
    low: float
    high: float
    logarithmic: bool = False
    step: float = 0.01
    whole: bool = False
    group: str = "task"

    @property
    def default(self) -> float:
        """What the page begins with."""
        return float(getattr(Task() if self.group == "task" else Training(), self.name))


FIELDS = (
    Field("length", "Length", "L", 2, 1000, logarithmic=True, whole=True),
    Field("sparsity", "Sparsity", "R", 1, 20, step=1, whole=True),
    Field("strength", "Strength", "θ", 0, 12, step=0.1),
    Field("prevalence", "Prevalence", "π", 0.01, 0.99),
    Field("alpha0", "Samples, steps", "α₀ = n₀/d", 0.1, 100, logarithmic=True, group="training"),
    Field("alpha1", "Samples, readout", "α₁ = n₁/d", 0.1, 100, logarithmic=True, group="training"),
    Field("beta", "Inverse temperature", "β", 0.1, 10, logarithmic=True, group="training"),
    Field("eta_w", "Readout rate", "η_w", 0.01, 100, logarithmic=True, group="training"),
    Field("eta_b", "Bias rate", "η_b", 0.01, 100, logarithmic=True, group="training"),
    Field("eta_q", "Query rate", "η_q", 0.1, 10_000, logarithmic=True, group="training"),
    Field("ridge", "Ridge", "λ", 1e-6, 10, logarithmic=True, group="training"),
)
NUMBERS = {field.name: field for field in FIELDS}
AXES = ("strength", "length", "sparsity", "prevalence", "alpha0", "alpha1", "beta", "eta_q", "ridge")
CHOICES: dict[str, tuple[str, ...]] = {
    "loss": tuple(LOSSES),
    "view": tuple(VIEWS),
    "equal": ("yes", "no"),
    "x": AXES,
    "y": AXES,
    "colour": tuple(COLOURS),
    "model": tuple(BAG_MODELS),
}
WHOLE = {"d": (2, LARGEST_D), "trials": (2, MOST_TRIALS), "seed": (0, 2**31 - 1)}
# Fields of the view "training": label, default and largest value. All may be zero but the number of steps and the sharpness.
# The largest rates and decays are far beyond what descent survives; the page then says that it diverges.
MOST_STEPS = 60
DESCENT: dict[str, tuple[str, float, float]] = {
    "steps": ("Steps", 30, MOST_STEPS),
    "rate_q": ("Query rate", 1.0, 1e4),
    "rate_w": ("Readout rate", 1.0, 1e4),
    "rate_b": ("Bias rate", 0.5, 1e4),
    "decay": ("Weight decay", 0.1, 1e4),
    "sharpness": ("Sharpness", 1.0, 1e3),
    "start": ("Norm at the start", 0.0, 1e2),
}
DEFAULTS: dict[str, Any] = {
    **{field.name: field.default for field in FIELDS},
    "loss": "logistic",
    "view": "curves",
    "equal": "yes",
    "x": "strength",
    "y": "alpha0",
    "colour": "error",
    "d": 500,
    "trials": 8,
    "seed": 0,
    "model": "attention",
    **{name: default for name, (_, default, _) in DESCENT.items()},
    "compare": "",
}
# What a setting is when two are compared; the view and what belongs to it are common to both.
COMPARED = (*NUMBERS, "loss", "equal", "model", *DESCENT)
NAMES = tuple(DEFAULTS)


def tidy(value: float) -> float | int:
    """Whole numbers without a decimal point, as people write them."""
    return int(value) if float(value).is_integer() else value


DEFAULTS = {name: tidy(value) if isinstance(value, float) else value for name, value in DEFAULTS.items()}


@dataclass(frozen=True)
class Descent:
    """Training step by step: gradient descent on the mean loss plus (decay/2) ||theta||^2 for each direction theta.

    Attributes
    ----------
    model : str
        The bag model's name, one of `BAG_MODELS`.
    steps : int
        T, gradient steps on all the data.
    rate_q, rate_w, rate_b : float
        Learning rates of queries, readouts and the bias.
    decay : float
        Weight decay of every direction.
    sharpness : float
        s of the models that have one.
    start : float
        Norm of every direction at its random start.
    """

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
    """The fields of the view "training" that a model has a use for."""
    chosen = get_bag_model(model)
    unused = set() if any(name.startswith("q") for name in chosen.directions) else {"rate_q"}
    unused |= {"sharpness"} if chosen.sharpness is None else set()
    return tuple(name for name in DESCENT if name not in unused)


def _descent(raw: Mapping[str, Any], messages: dict[str, str]) -> Descent:
    """Fields of the view "training", checked where they are on the screen and at their defaults elsewhere."""
    shown = raw.get("view") == "training" and raw.get("model") in CHOICES["model"]
    values = {name: default for name, (_, default, _) in DESCENT.items()}
    for name in descent_fields(raw["model"]) if shown else ():
        try:
            if name == "steps":
                values[name] = whole_number(name, raw.get(name), 1)
            else:
                values[name] = real_number(name, raw.get(name), 0.0, open_low=name == "sharpness")
            if values[name] > DESCENT[name][2]:
                raise ValueError(f"{name} must be at most {DESCENT[name][2]:,.0f} on this page")
            if 0 < values[name] < LEAST:
                raise ValueError(
                    f"{name} must be {'' if name == 'sharpness' else '0 or '}at least {LEAST:g} on this page"
                )
        except ValueError as error:
            messages[name] = str(error)
    steps = int(values.pop("steps"))
    return Descent(model=raw["model"] if shown else "attention", steps=steps, **values)


@dataclass(frozen=True)
class State:
    """A valid state."""

    task: Task
    training: Training
    view: str
    equal_samples: bool
    x: str
    y: str
    colour: str
    d: int
    trials: int
    seed: int
    descent: Descent


def from_query(query: str) -> tuple[dict[str, Any], list[str]]:
    """The state in a URL's query (missing names take their defaults), and remarks on what could not be read."""
    values, remarks = dict(DEFAULTS), []
    for name, text in parse_qsl(query.lstrip("?"), keep_blank_values=True):
        if name not in DEFAULTS:
            remarks.append(f"the address names {name[:40]!r}, which this page does not know")
        elif name == "compare":
            problems = from_query(text)[1] if len(text) <= LONGEST_TEXT else ["it is too long"]
            remarks += [f"of the setting to compare with, {problem}" for problem in problems[:1]]
            values[name] = "" if problems else text
        elif name in CHOICES:
            if text in CHOICES[name]:
                values[name] = text
            else:
                remarks.append(f"the address asks for {name} {text[:40]!r}; it can be {', '.join(CHOICES[name])}")
        else:
            try:
                values[name] = tidy(float(text)) if math.isfinite(float(text)) else DEFAULTS[name]
            except ValueError:
                remarks.append(f"the address gives {name} as {text[:40]!r}, which is not a number")
    return values, remarks


def other_of(raw: Mapping[str, Any]) -> tuple[State | None, str]:
    """The setting that the page compares with, in the view that the fields choose.

    Parameters
    ----------
    raw : mapping
        What the fields hold; `compare` is a query with the other setting's values.

    Returns
    -------
    tuple of State or None, and str
        None where there is nothing to compare with, and why, if that was not meant.
    """
    text = raw.get("compare")
    if not text:
        return None, ""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        return None, "the setting to compare with cannot be read"
    values, _ = from_query(text)
    state, messages = check({**raw, **{name: values[name] for name in COMPARED}})
    return state, "; ".join(messages.values())


def check(raw: Mapping[str, Any]) -> tuple[State | None, dict[str, str]]:
    """Check the page's fields.

    Parameters
    ----------
    raw : mapping
        What the fields hold, by name.

    Returns
    -------
    tuple of State or None, and dict
        The state behind the fields and no messages; or None and a message for each field that is wrong.
    """
    messages: dict[str, str] = {}
    task_fields = [f.name for f in FIELDS if f.group == "task"]
    training_fields = [f.name for f in FIELDS if f.group == "training"]
    for names, kind in ((task_fields, Task), (training_fields, Training)):
        for name in names:
            try:
                # Laws of lengths, say, have no place here.
                if raw.get(name) is None or isinstance(raw[name], str | Mapping):
                    raise ValueError(f"{name} must be a number")
                if name != "sparsity":
                    kind(**{name: raw[name]})
                else:
                    whole_number(name, raw[name], 1)
            except ValueError as error:
                messages[name] = str(error)
    if "length" not in messages and raw["length"] > LONGEST:
        messages["length"] = f"length must be at most {LONGEST:,} on this page; the library takes longer bags"
    if "alpha0" not in messages and not 1e-3 <= raw["alpha0"] <= 1e4:
        messages["alpha0"] = "alpha0 must be between 0.001 and 10,000 on this page"
    if "alpha1" not in messages and not 1e-3 <= raw["alpha1"] <= 1e4:
        messages["alpha1"] = "alpha1 must be between 0.001 and 10,000 on this page"
    if "ridge" not in messages and raw["ridge"] < LEAST:
        messages["ridge"] = f"ridge must be at least {LEAST:g} on this page"
    for name in (*task_fields, *training_fields):
        if name not in messages and raw[name] > LARGEST:
            messages[name] = f"{name} must be at most {LARGEST:g} on this page"
        elif name not in messages and 0 < raw[name] < LEAST:
            messages[name] = f"{name} must be 0 or at least {LEAST:g} on this page"
    for name, (low, high) in WHOLE.items():
        try:
            if whole_number(name, raw.get(name), low) > high:
                raise ValueError(f"{name} must be at most {high:,}")
        except ValueError as error:
            messages[name] = str(error)
    for name, allowed in CHOICES.items():
        if raw.get(name) not in allowed:
            messages[name] = f"{name} must be one of {', '.join(allowed)}"
    if raw.get("view") == "phase" and raw.get("x") == raw.get("y"):
        messages["y"] = "the two axes must differ"
    descent = _descent(raw, messages)
    if messages:
        return None, messages
    try:
        task = Task(**{name: raw[name] for name in task_fields})
    except ValueError as error:
        return None, {str(error).split()[0]: str(error)}
    rates: dict[str, Any] = {name: real_number(name, raw[name], 0.0) for name in training_fields}
    training = Training(loss=raw["loss"], **rates)
    state = State(
        task, training, raw["view"], raw["equal"] == "yes", raw["x"], raw["y"], raw["colour"],
        int(raw["d"]), int(raw["trials"]), int(raw["seed"]), descent,
    )  # fmt: skip
    return state, {}
