"""What tests of several packages share: data at hand, bags drawn from the model, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from sparsetoken import Task
from sparsetoken.simulation.samplers import sample_bags

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"


def drawn_bags(count: int, d: int, seed: int, **task) -> tuple[np.ndarray, np.ndarray]:
    """Bags (count, L, d) and labels (-1 or +1) drawn from `Task(**task)`."""
    tokens, labels, _ = sample_bags(Task(**task), count, d, seed)
    return tokens, labels


def ragged_bags(count: int, d: int, seed: int, shortest: int = 3, longest: int = 9, strength: float = 3.0):
    """A list of bags of different lengths, the first token of a positive one carrying the signal, and labels 0 or 1."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    bags = [rng.standard_normal((length, d)) for length in rng.integers(shortest, longest + 1, count)]
    for bag, label in zip(bags, labels):
        bag[0, 0] += strength * label
    return bags, labels


def command_line(capsys) -> Callable[..., tuple[int, str, str]]:
    """A function that runs the command with its arguments here and returns (exit code, output, errors)."""
    from sparsetoken.cli import main

    def call(*arguments) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return int(code or 0), printed.out, printed.err

    return call
