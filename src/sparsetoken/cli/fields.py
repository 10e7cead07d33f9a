"""The fields of a task and of its training as options, with the words that --help has for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import typer

from ..task import Task
from ..training import Training
from .values import DISTRIBUTED

# For bags that differ, or are not as they should be.
DISTURBANCES = {
    "label_noise": "Probability that a label seen in training is the other one; tests are about true labels.",
    "contamination": "Probability that a negative bag carries signal too.",
    "correlation": "ρ, correlation of two tokens of a bag in every coordinate.",
}
WORDS = {
    "length": "L, tokens per bag; 10:0.5,20:0.5 (value:probability) where bags differ.",
    "sparsity": "R, signal tokens in a positive bag; may differ likewise.",
    "strength": "θ, the signal's size; may differ likewise.",
    "prevalence": "π = P(y = +1).",
    **DISTURBANCES,
    "alpha0": "n0/d, samples of the two gradient steps.",
    "alpha1": "n1/d, samples of the readout.",
    "eta_w": "Rate of the readout's step.",
    "eta_b": "Rate of the bias's step.",
    "eta_q": "Rate of the query's step.",
    "beta": "Inverse temperature of the softmax.",
    "ridge": "λ of (1/n1) Σ l + (λ/2)‖w‖².",
}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _option(name: str) -> Any:
    """The option of a field, its default being the library's."""
    default = getattr(Task() if name in Task.__dataclass_fields__ else Training(), name)
    return typer.Option(f"{default:g}", f"--{name.replace('_', '-')}", help=WORDS[name])


class TaskOptions(NamedTuple):
    """A task's fields as text; commands that run over grids take lists and ranges (see `with_blocks`)."""

    length: str = _option("length")
    sparsity: str = _option("sparsity")
    strength: str = _option("strength")
    prevalence: str = _option("prevalence")
    label_noise: str = _option("label_noise")
    contamination: str = _option("contamination")
    correlation: str = _option("correlation")

    def task(self) -> Task:
        """The one task that they describe."""
        given = self._asdict()
        return Task.from_dict(
            {name: text if name in DISTRIBUTED else _number(name, text) for name, text in given.items()}
        )


class TrainingOptions(NamedTuple):
    """A training's numbers as text, lists and ranges included."""

    alpha0: str = _option("alpha0")
    alpha1: str = _option("alpha1")
    eta_w: str = _option("eta_w")
    eta_b: str = _option("eta_b")
    eta_q: str = _option("eta_q")
    beta: str = _option("beta")
    ridge: str = _option("ridge")


ACTIVATION = typer.Option("sigmoid", help="Of the elementwise model: sigmoid, relu, tanh, threshold:2, ...")
EQUAL_SAMPLES = typer.Option(False, "--equal-samples", help="Give pooled and vectorized n0 + n1 samples.")
