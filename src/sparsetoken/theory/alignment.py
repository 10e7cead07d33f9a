"""What the two gradient steps on D0 give: their limits, and at a given dimension their law (formulas in `step_formulas`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..losses import Loss
from ..results import TwoSteps, two_steps_from
from ..task import Task
from ..training import Training
from .step_formulas import alignment_formulas, bag_groups, first_step, second_step


@dataclass(frozen=True, kw_only=True, repr=False)
class Alignment(TwoSteps):
    """Limits of readout, bias and query after the two gradient steps.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`: of w1 under "w", of q2 under "q"; gamma = `cosine["q"]`, k = `sharpness`.
    rate : float
        K of |gamma| = 1 - K/alpha0 + o(1/alpha0); NaN where the query learns nothing (C = 0).
    anti_margin : float
        The left side of the anti-alignment condition, pi E[h+] theta^2 R (1 - R/L) + (L - 1) E[h]; for bags of several
        lengths, the mean length times the average of the same over L. With eta_w > 0 the query points away from the signal
        exactly when it is positive.
    anti_aligned : bool
        Whether the query points away from the signal.
    """

    rate: float
    anti_margin: float
    anti_aligned: bool


def _rate(loss: Loss, task: Task, eta_w, eta_b) -> float:
    """K = lim alpha0 Q/(2 C^2), with the fields of alpha0 = infinity (no noise in w1, no own pull)."""
    groups = bag_groups(task, task.kinds, task.prevalence)
    first = first_step(loss, groups, 1.0, eta_b)
    noiseless = first._replace(norm=abs(first.overlap))
    second = second_step(loss, groups, noiseless, np.inf, eta_w, eta_b, task.correlation)
    C = (second.signal + second.mean) * first.overlap
    Q = second.mean**2 * first.noise + second.noise(noiseless, 1.0)
    return float(Q / (2 * C**2)) if eta_w * C != 0 else float("nan")


def alignment(task: Task, training: Training) -> Alignment:
    """Limits of readout, bias and query after the two gradient steps.

    Parameters
    ----------
    task : Task
        What the data is.
    training : Training
        How it is learned; alpha0, the three rates, beta and the loss matter.

    Returns
    -------
    Alignment
    """
    Task.require(task)
    Training.require(training)
    loss = training.loss_function
    t = training
    f = alignment_formulas(loss, task, task.prevalence, t.alpha0, t.eta_w, t.eta_b, t.eta_q, t.beta)
    a, condition = float(f["a"]), task.mean_length * float(f["condition"])
    fields = two_steps_from(a, float(f["norm_w"]), float(f["overlap_q"]), float(f["norm_q"]), float(f["bias"]), t.beta)
    if fields["norm"]["q"] > 0:  # the formula's own cosine has no rounding from the rates' scale
        fields["cosine"]["q"] = float(f["cos_q"])
    return Alignment(
        **fields,
        rate=_rate(loss, task, t.eta_w, t.eta_b),
        anti_margin=condition,
        anti_aligned=bool(condition > 0 and a > 0),
    )
