"""Bags that several of the planner's tests look at."""

from __future__ import annotations

import numpy as np

from sparsetoken import Task

TRUTH = Task(length=10, strength=5.0)  # of the fixture `drawn`


def mixed_bags(parts: list[tuple[int, int, int, float]], d: int = 60) -> tuple[list[np.ndarray], np.ndarray]:
    """Bags of several kinds (bags, L, R, theta) with one signal direction."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(d)
    signal /= np.linalg.norm(signal)
    bags, labels = [], []
    for count, length, sparsity, strength in parts:
        for i in range(count):
            tokens = rng.standard_normal((length, d))
            if i % 2:
                tokens[rng.choice(length, sparsity, replace=False)] += strength * signal
            bags.append(tokens)
            labels.append(i % 2)
    return bags, np.array(labels)
