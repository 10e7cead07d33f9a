"""The options `--test-...` of `forecast` and `simulate`: a classifier tested on other bags than it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import typer

from .values import parse_values

_TASK = ("length", "sparsity", "strength", "prevalence")
# Options without their "test-", and the words that --help has for them.
WORDS = {
    "length": "Tokens per bag at test time; the classifier stays as trained.",
    "sparsity": "Signal tokens in a positive bag at test time.",
    "strength": "The signal's size at test time.",
    "prevalence": "P(y = +1) at test time.",
    "sharpness": "k = β‖q‖ at test time (models with a query).",
    "bias_shift": "Added to the trained bias at test time.",
}


def option(name: str) -> Any:
    """The option `--test-NAME`."""
    return typer.Option(None, f"--test-{name.replace('_', '-')}", help=WORDS[name])


class TestOptions(NamedTuple):
    """The options as they were written (see `with_blocks`), in the order of `WORDS`."""

    test_length: str = option("length")
    test_sparsity: str = option("sparsity")
    test_strength: str = option("strength")
    test_prevalence: str = option("prevalence")
    test_sharpness: str = option("sharpness")
    test_bias_shift: str = option("bias_shift")


class Tests(NamedTuple):
    """The values asked for at test time.

    Attributes
    ----------
    values : mapping of str to sequence of float
        Of the options given, by their names in `WORDS`.
    """

    values: Mapping[str, Sequence[float]]

    @classmethod
    def parse(cls, given: TestOptions) -> Tests:
        """From the texts of the options; None for an option that was not given."""
        pairs = zip(WORDS, given, strict=True)
        return cls({name: parse_values(f"test_{name}", text) for name, text in pairs if text is not None})

    @property
    def swept(self) -> list[str]:
        """The columns of those with several values."""
        return [f"tested_{name}" for name, values in self.values.items() if len(values) > 1]

    @property
    def title(self) -> str:
        """The values that are the same for all rows, in words."""
        fixed = ", ".join(f"{name} {values[0]:g}" for name, values in self.values.items() if len(values) == 1)
        return f"; tested at {fixed}" if fixed else ""

    def combinations(self) -> Iterator[tuple[dict[str, float], dict[str, Any]]]:
        """(columns of the row, arguments of `forecast` and `simulate`) of every combination; one without any if none."""
        for chosen in product(*self.values.values()):
            at = dict(zip(self.values, chosen))
            arguments: dict[str, Any] = {f"test_{name}": v for name, v in at.items() if name not in _TASK}
            if changed := {name: v for name, v in at.items() if name in _TASK}:
                arguments["test_task"] = changed
            yield {f"tested_{name}": value for name, value in at.items()}, arguments
