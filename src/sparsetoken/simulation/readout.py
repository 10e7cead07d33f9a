"""The last stage of every trial: the convex readout, and its loss and error on its training samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.devices import working_on
from ..losses import Loss, get_loss
from ..solvers.erm import fit_erm


@dataclass(frozen=True)
class TrainedReadout:
    """A trained readout."""

    w: np.ndarray
    bias: float
    train_loss: float
    train_error: float
    stopped: str
    gradient_norm: float
    converged: bool

    @property
    def norm(self) -> float:
        """||w||."""
        return float(np.linalg.norm(self.w))


def fit_readout(x: Any, y: np.ndarray, ridge: float, loss: str | Loss, device: Any = None) -> TrainedReadout:
    """Minimise (1/n) sum l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised."""
    fit = fit_erm(x, y, ridge, loss, device="numpy" if device is None else "auto")
    with working_on(device):
        z = np.asarray(x @ fit.coef) + fit.bias
    train_error = float(np.mean(z * y <= 0.0))  # a score of zero counts as a mistake
    train_loss = float(get_loss(loss).value(z, y).mean())
    return TrainedReadout(fit.coef, fit.bias, train_loss, train_error, fit.stopped, fit.gradient_norm, fit.converged)
