"""Which of strength, samples, length and prevalence moves the result most.

At the best settings the loss does not change with them to first order, so its slope at fixed settings is the slope of the
best loss as well. Slopes are central differences of the theory on common random draws.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..task import Task
from ..theory import alignment, attention_law, erm
from ..training import Training
from .criterion import Criterion, Measured
from .tuning import ACCURACY

PARAMETERS = ("strength", "samples", "length", "prevalence")
_STEP = 0.05  # of the logarithm


@dataclass(frozen=True)
class Slope:
    """d loss/d log(parameter), its standard error, and the loss's change when the parameter grows by a tenth."""

    parameter: str
    slope: float
    standard_error: float

    @property
    def change(self) -> float:
        return self.slope * float(np.log(1.1))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"change_for_ten_percent_more": self.change}


def _moved(task: Task, training: Training, name: str, log_step: float) -> tuple[Task, Training, float]:
    """Task and training with one parameter moved, and by how much (in logs) it has moved really."""
    factor = float(np.exp(log_step))
    if name == "samples":
        return task, training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor), log_step
    if name == "length":
        jump = max(1, round(task.length * abs(factor - 1)))
        length = max(task.sparsity, task.length + (jump if log_step > 0 else -jump))
        return task.but(length=length), training, float(np.log(length / task.length))
    if name == "prevalence":
        factor = min(factor, 0.5 * (1 + 1 / task.prevalence))  # stays below one
        return task.but(prevalence=task.prevalence * factor), training, float(np.log(factor))
    return task.but(strength=task.strength * factor), training, log_step


def sensitivities(
    task: Task, training: Training, criterion: Criterion, accuracy: float = ACCURACY, step: float = _STEP
) -> list[Slope]:
    """Slopes of attention's loss, the steepest first."""

    def measured(task: Task, training: Training) -> Measured:
        steps = alignment(task, training)
        law = attention_law(task, steps.query_cosine, steps.sharpness)
        return criterion.of_readout(erm(law, training.alpha1, training.ridge, training.loss, accuracy=accuracy))

    slopes = []
    for name in PARAMETERS:
        sides = [_moved(task, training, name, sign * step) for sign in (1, -1)]
        width = sides[0][2] - sides[1][2]
        if width == 0:  # a single token, which cannot be fewer
            continue
        up, down = (measured(*side[:2]) for side in sides)
        # Common draws make the difference surer than its two ends; their errors in quadrature bound its own.
        error = float(np.hypot(up.standard_error, down.standard_error)) / width
        slopes.append(Slope(name, (up.loss - down.loss) / width, error))
    return sorted(slopes, key=lambda slope: -abs(slope.slope))
