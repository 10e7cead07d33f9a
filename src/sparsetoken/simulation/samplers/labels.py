"""Sample sizes and labels, the same for both samplers."""

from __future__ import annotations

import numpy as np

from ...task import Task
from .streams import stream


def sample_count(name: str, alpha: float, d: int) -> int:
    """n = alpha d, rounded; `name` (alpha0, alpha1) is for the message."""
    count = round(alpha * d)
    if count < 2:
        raise ValueError(f"{name} = {alpha:g} gives {count} samples at d = {d}, at least 2 are needed")
    return count


def draw_truth(task: Task, count: int, seed: int, dataset: str) -> np.ndarray:
    """`count` true labels, P(+1) = prevalence; `dataset` is "0", "1", ":k" (the k-th of a trajectory) or "_test"."""
    return np.where(stream(seed, f"labels{dataset}").random(count) < task.prevalence, 1.0, -1.0)


def check_classes(labels: np.ndarray, dataset: str, task: Task) -> None:
    """Raise ValueError if a data set to learn from holds a single class."""
    if dataset != "_test":
        name = f"data set {dataset[1:]}" if dataset.startswith(":") else f"D{dataset}"
        require_both_classes(labels, name, task)


def require_both_classes(labels: np.ndarray, name: str, task: Task) -> None:
    """Raise ValueError if all labels are the same; `name` is the data set, for the message."""
    if abs(labels.sum()) == len(labels):
        sign = "positive" if labels[0] > 0 else "negative"
        raise ValueError(
            f"{name} holds only {sign} samples ({len(labels)} of them, prevalence {task.prevalence:g}): "
            "take more samples, another prevalence or another seed"
        )
