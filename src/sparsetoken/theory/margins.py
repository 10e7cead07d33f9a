"""Laws of the margins: y r on the training set, y h on fresh data (h the score, r its prox)."""

from __future__ import annotations

import numpy as np

from ..laws.measures import score_law
from ..laws.nodes import Population
from ..losses import Loss

_ENTRIES = 1 << 14  # entries of a drawn law used for a density: its noise is then below what a plot can show


def margin_densities(x: np.ndarray, loss: Loss, population: Population, margins) -> dict[str, np.ndarray]:
    """Densities of the training margins y r and of the test margins y h.

    h is Gaussian at every entry of the law. Since h = r + V kappa^2 l'(r; y), the density of r there is that of h at this
    point times 1 + V kappa^2 l''(r; y).

    Parameters
    ----------
    x : array (5,)
        The fixed point (m_q, m_u, log nu, b, log V).
    loss : Loss
        l.
    population : Population
        The law's entries.
    margins : array
        Where the densities are wanted.

    Returns
    -------
    dict of arrays
        `train` (of y r), `test` (of y h), and each class's: `train_positive`, `train_negative`, `test_positive`,
        `test_negative`. Those of a class integrate to 1; `train` and `test` mix them by prevalence. An interpolator (square
        loss, ridge 0, alpha < 1) has all training margins at 1: `train` is then zero elsewhere.
    """
    at = np.atleast_1d(np.asarray(margins, dtype=float))
    if not np.isfinite(at).all() or at.ndim != 1:
        raise ValueError("margins must be a list of finite numbers")
    V = np.exp(x[4])
    out: dict[str, np.ndarray] = {"train": np.zeros_like(at), "test": np.zeros_like(at)}
    for label, probability, columns in population.classes():
        mean, deviation = score_law(x, columns)
        weight = np.broadcast_to(columns.weight, mean.shape) / len(mean)
        kappa2 = np.broadcast_to(columns.kappa, mean.shape) ** 2
        # The first draws of every replicate: a low-discrepancy sequence stays balanced when cut short, not when thinned out.
        keep = max(1, _ENTRIES // len(mean))
        mean, deviation, weight, kappa2 = (a[:, :keep].reshape(-1) for a in (mean, deviation, weight, kappa2))
        weight = weight / weight.sum()
        r = label * at
        slope = np.asarray(loss.slope(r, np.full_like(r, label)))
        curvature = np.asarray(loss.curvature(r, np.full_like(r, label)))
        test, train = np.zeros_like(at), np.zeros_like(at)
        for i in range(len(at)):
            test[i] = weight @ _normal(r[i], mean, deviation)
            if np.isfinite(V):
                step = V * kappa2
                train[i] = weight @ (_normal(r[i] + step * slope[i], mean, deviation) * (1 + step * curvature[i]))
        name = "positive" if label > 0 else "negative"
        out[f"test_{name}"], out[f"train_{name}"] = test, train
        out["test"] += probability * test
        out["train"] += probability * train
    return out


def _normal(at, mean, deviation):
    z = (at - mean) / deviation
    return np.exp(-0.5 * z * z) / (deviation * np.sqrt(2 * np.pi))
