"""Which of two classes holds the signal: a learner that looks for signal tokens in the bags of one class tries both.

A side is +1 where `classes_[1]` holds the signal and -1 where `classes_[0]` does. A learner that treats the classes differently
is fitted with `side * signs` for every side of `sides_to_try`, keeps the one that explains the labels better and sets
`self.side_`; log odds and token scores are multiplied by it. So the names of the classes decide nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags.forms import shown


def sides_to_try(positive_label: Any, classes: np.ndarray) -> tuple[float, ...]:
    """(+1, -1), or the one side that `positive_label` stands for."""
    if positive_label is None:
        return (1.0, -1.0)
    if len(classes) > 2:
        raise ValueError(f"positive_label must be None for {len(classes)} classes: it is found out for each of them")
    labels = classes.tolist()
    if positive_label not in labels:
        raise ValueError(
            f"positive_label must be None or one of {shown(classes[0])} and {shown(classes[1])}, got {positive_label!r}"
        )
    return (1.0 if labels.index(positive_label) == 1 else -1.0,)


def signal_class(side: float, classes: np.ndarray) -> Any:
    """The label of the class that holds the signal."""
    return classes.tolist()[1 if side > 0 else 0]
