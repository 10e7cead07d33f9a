"""Laws of the margins: y r on the training set, y h on fresh data (h the score, r its prox)."""

from __future__ import annotations

import numpy as np

from ..laws.measures import score_law
from ..laws.nodes import ClassColumns, Population
from ..losses import Loss

_ENTRIES = 1 << 14  # entries of a drawn law used for a density: its noise is then below what a plot can show


def margin_densities(x: np.ndarray, loss: Loss, population: Population, margins) -> dict[str, np.ndarray]:
    """Densities of the training margins y r and of the test margins y h.

    h is Gaussian at every entry of the law. Since h = r + V kappa^2 l'(r; y), the density of r there is that of h at this
    point times 1 + V kappa^2 l''(r; y).
    """
    at = np.atleast_1d(np.asarray(margins, dtype=float))
    if not np.isfinite(at).all() or at.ndim != 1:
        raise ValueError("margins must be a list of finite numbers")
    V = np.exp(x[4])
    parts = {"test": population.classes(), "train": population.training()}
    out: dict[str, np.ndarray] = {}
    for name, classes in parts.items():
        shares = dict.fromkeys((1.0, -1.0), 0.0)
        density = {label: np.zeros_like(at) for label in shares}
        for label, probability, columns in classes:
            scores = _entries(x, columns)
            shares[label] += probability
            density[label] += probability * (
                _test_density(label * at, *scores)
                if name == "test"
                else _train_density(label * at, label, V, loss, *scores)
            )
        out[name] = density[1.0] + density[-1.0]
        out[f"{name}_positive"], out[f"{name}_negative"] = (density[label] / shares[label] for label in shares)
    return out


def _entries(x: np.ndarray, columns: ClassColumns) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and deviation of the score, kappa^2 and weight of a class's entries, of all replicates in a row."""
    mean, deviation = score_law(x, columns)
    weight = np.broadcast_to(columns.weight, mean.shape) / len(mean)
    kappa2 = np.broadcast_to(columns.kappa, mean.shape) ** 2
    # The first draws of every replicate: a low-discrepancy sequence stays balanced when cut short, not when thinned out. Where
    # weights are unequal there are several sequences, and all are kept.
    keep = max(1, _ENTRIES // len(mean)) if columns.weight.shape[-1] == 1 else mean.shape[1]
    mean, deviation, kappa2, weight = (a[:, :keep].reshape(-1) for a in (mean, deviation, kappa2, weight))
    return mean, deviation, kappa2, weight / weight.sum()


def _test_density(h: np.ndarray, mean: np.ndarray, deviation: np.ndarray, kappa2: np.ndarray, weight: np.ndarray):
    return np.array([weight @ _normal(one, mean, deviation) for one in h])


def _train_density(
    r: np.ndarray,
    label: float,
    V: float,
    loss: Loss,
    mean: np.ndarray,
    deviation: np.ndarray,
    kappa2: np.ndarray,
    weight: np.ndarray,
):
    if not np.isfinite(V):
        return np.zeros_like(r)
    step, y = V * kappa2, np.full_like(r, label)
    slope, curvature = np.asarray(loss.slope(r, y)), np.asarray(loss.curvature(r, y))
    return np.array(
        [weight @ (_normal(at + step * s, mean, deviation) * (1 + step * c)) for at, s, c in zip(r, slope, curvature)]
    )


def _normal(at, mean, deviation):
    z = (at - mean) / deviation
    return np.exp(-0.5 * z * z) / (deviation * np.sqrt(2 * np.pi))
