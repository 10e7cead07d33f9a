"""The noise of the tokens, estimated from bags without signal, and tokens made white by it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..threads import single_blas_thread

# With this much of the identity in the covariance whitening would change nothing but the scale.
NEARLY_WHITE = 0.99
# Directions whose variance is below this share of the average are noise of the estimate, not of the tokens.
SMALLEST_VARIANCE = 1e-6


@dataclass(frozen=True)
class Noise:
    """x -> (x - mean) @ whitening, or (x - mean) alone where whitening is None.

    shrinkage  the share of the identity in the covariance (1: nothing to whiten)
    """

    mean: np.ndarray
    whitening: np.ndarray | None
    shrinkage: float

    def whitened(self, tokens: np.ndarray) -> np.ndarray:
        dtype = tokens.dtype
        centred = tokens - self.mean.astype(dtype)
        return centred if self.whitening is None else centred @ self.whitening.astype(dtype)


def estimate_noise(tokens: np.ndarray) -> Noise:
    """Mean and Ledoit-Wolf covariance  (1 - s) S + s tr(S)/d I  of tokens taken to be noise, as a symmetric whitening.

    The shrinkage s is the one that loses least in expectation; it tends to 1 where the features are uncorrelated and
    the tokens few, so white noise is left (almost) alone.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    x = tokens.astype(np.float64)
    mean = x.mean(axis=0)
    x -= mean
    d = x.shape[1]
    with single_blas_thread():
        shrinkage = float(ledoit_wolf_shrinkage(x, assume_centered=True)) if d > 1 and len(x) > 1 else 1.0
        sample = x.T @ x / max(len(x), 1)
        average = float(np.trace(sample)) / d
        if not average > 0.0:  # a single noise token, or all of them alike
            return Noise(mean, None, 1.0)
        if shrinkage > NEARLY_WHITE:
            return Noise(mean, np.eye(d) / np.sqrt(average) if abs(average - 1.0) > 0.02 else None, shrinkage)
        covariance = (1.0 - shrinkage) * sample + shrinkage * average * np.eye(d)
        variances, directions = np.linalg.eigh(covariance)
    variances = np.maximum(variances, SMALLEST_VARIANCE * average)
    return Noise(mean, (directions / np.sqrt(variances)) @ directions.T, shrinkage)
