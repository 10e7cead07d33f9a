"""Which of strength, samples, length and prevalence moves the result most.

At the best settings the loss does not change with them to first order, so its slope at fixed settings is the slope of the
best loss as well. Slopes are central differences of the theory on common random draws.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..task import Task
from ..theory import attention_law
from ..training import Training
from .criterion import Criterion, Measured
from .finite_size import averaged_readout, on_fixed_draws, solved
from .tuning import mean_alignment

PARAMETERS = ("strength", "samples", "length", "prevalence")
_STEP = 0.05  # of the logarithm
_POINTS = 256  # draws per replicate and class, the same for both ends of a difference


@dataclass(frozen=True)
class Slope:
    """How the loss moves with a parameter.

    Attributes
    ----------
    parameter : str
        One of `PARAMETERS`.
    slope, standard_error : float
        d loss/d log(parameter), and its standard error.
    """

    parameter: str
    slope: float
    standard_error: float

    @property
    def change(self) -> float:
        """The loss's change when the parameter grows by a tenth."""
        return self.slope * float(np.log(1.1))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data, and the change."""
        return asdict(self) | {"change_for_ten_percent_more": self.change}


def _moved(task: Task, training: Training, name: str, log_step: float) -> tuple[Task, Training, float]:
    """Task and training with one parameter moved, and by how much (in logs) it has moved really."""
    factor = float(np.exp(log_step))
    if name == "samples":
        return task, training.but(alpha0=training.alpha0 * factor, alpha1=training.alpha1 * factor), log_step
    if name == "length":
        jump = max(1, round(task.mean_length * abs(factor - 1)))
        least = max(kind.sparsity for kind in task.kinds)
        moved = task.at_length(max(least, task.mean_length + (jump if log_step > 0 else -jump)))
        return moved, training, float(np.log(moved.mean_length / task.mean_length))
    if name == "prevalence":
        factor = min(factor, 0.5 * (1 + 1 / task.prevalence))  # stays below one
        return task.but(prevalence=task.prevalence * factor), training, float(np.log(factor))
    return task.at_strength(task.mean_strength * factor), training, log_step


def sensitivities(
    task: Task, training: Training, criterion: Criterion, d: int | None = None, step: float = _STEP
) -> list[Slope]:
    """Slopes of attention's loss, the steepest first.

    Parameters
    ----------
    task : Task
        The task.
    training : Training
        The settings, which are kept.
    criterion : Criterion
        Whose loss.
    d : int, optional
        Dimension: the loss is then the one to expect at this size. None: in the limit.
    step : float
        Of the logarithm of each parameter, to either side.

    Returns
    -------
    list of Slope
        One per parameter that can be moved.
    """

    def measured(task: Task, training: Training) -> Measured:
        n0 = None if d is None else max(2, round(training.alpha0 * d))
        gamma, norm = mean_alignment(task, training, n0)
        law = on_fixed_draws(attention_law(task, gamma, training.beta * norm), _POINTS)
        if d is None:
            return criterion.of_readout(solved(law, training.alpha1, training.ridge, training.loss)[0])
        n1 = max(2, round(training.alpha1 * d))
        return averaged_readout(law, n1, training.alpha1, training.ridge, training.loss, criterion).measured

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
