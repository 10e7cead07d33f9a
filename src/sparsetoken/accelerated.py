"""The costly half of a trial on an accelerator, through JAX: drawing attended or pooled features, and the convex readout.

The features are exact in law (see `sampling.reduced`) but come from JAX's generator, so a seed gives other numbers than NumPy's
path, with the same distribution. Everything is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .losses import Loss, get_loss
from .theory.batch import pick_device
from .theory.precision import double_precision

CG_STEPS = 400


@dataclass(frozen=True)
class DeviceReadout:
    """Minimiser of the readout's objective and how it was found (fields as in `models.erm.ERMResult`)."""

    coef: np.ndarray
    bias: float
    outputs: np.ndarray
    gradient_norm: float
    iterations: int
    products: int
    stopped: str


def wanted_device(device: str) -> Any | None:
    """The JAX device to use, or None for the NumPy path: "numpy", "auto" (an accelerator if there is one), "cpu", "gpu"."""
    if device == "numpy":
        return None
    if device not in ("auto", "cpu", "gpu"):
        raise ValueError(f"device must be numpy, auto, cpu or gpu, got {device!r}")
    found = pick_device(device)
    return None if device == "auto" and found.platform == "cpu" else found


@partial(jax.jit, static_argnums=(1, 2))
def _scaled_bulk(key, n: int, d: int, scale):
    return jax.random.normal(key, (n, d), dtype=jnp.float64) * scale[:, None]


def place_features(leading: np.ndarray, scale: np.ndarray, d: int, seed: int, device: Any):
    """Features (n, d) on the device: the given leading columns, then kappa_i times standard normals."""
    n, special = leading.shape
    with double_precision(), jax.default_device(device):
        bulk = _scaled_bulk(jax.random.key(seed), n, d, jnp.asarray(scale))
        return bulk.at[:, :special].set(jnp.asarray(leading))


@partial(jax.jit, static_argnums=0)
def _state(loss: Loss, X, y, w, b, ridge):
    """Value, gradient, curvature weights and scale of F(w, b) = (1/n) sum l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2."""
    z = X @ w + b
    n = len(y)
    slope = loss.slope(z, y) / n
    gradient = X.T @ slope + ridge * w
    value = loss.value(z, y).mean() + 0.5 * ridge * (w @ w)
    return value, gradient, slope.sum(), loss.curvature(z, y) / n, z


@jax.jit
def _newton_direction(X, curvature, ridge, gw, gb, tolerance):
    """Conjugate gradients on the Newton system in (w, b), preconditioned by the Hessian's diagonal."""
    diagonal = jnp.append((X * X).T @ curvature + ridge, curvature.sum() + 1e-300)

    def product(v):
        u = curvature * (X @ v[:-1] + v[-1])
        return jnp.append(X.T @ u + ridge * v[:-1], u.sum())

    right = -jnp.append(gw, gb)
    size = jnp.linalg.norm(right)

    def unfinished(state):
        _, r, _, _, k = state
        return (jnp.linalg.norm(r) > tolerance * size) & (k < CG_STEPS)

    def body(state):
        x, r, p, rz, k = state
        Ap = product(p)
        step = rz / (p @ Ap)
        x, r = x + step * p, r - step * Ap
        z = r / diagonal
        new = r @ z
        return x, r, z + (new / rz) * p, new, k + 1

    z = right / diagonal
    x, *_, k = jax.lax.while_loop(unfinished, body, (jnp.zeros_like(right), right, z, right @ z, 0))
    return x, k


def fit_readout(X: Any, labels: np.ndarray, ridge: float, loss: str | Loss, tolerance: float = 1e-6) -> DeviceReadout:
    """Minimise (1/n) sum l(<w, x_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised, by Newton-CG on X's device.

    Stops when ||grad|| <= tolerance * ridge ||w|| ("gradient"), when no step decreases F ("precision"), or after 100
    Newton steps ("iterations").
    """
    function = get_loss(loss)
    device = next(iter(X.devices()))
    with double_precision(), jax.default_device(device):
        y = jnp.asarray(labels, dtype=jnp.float64)
        w, b = jnp.zeros(X.shape[1]), jnp.asarray(0.0)
        value, gw, gb, curvature, z = _state(function, X, y, w, b, ridge)
        products, stopped = 0, "iterations"
        for iteration in range(1, 101):  # noqa: B007 (reported below)
            size = float(jnp.sqrt(gw @ gw + gb**2))
            forcing = min(0.1, size**0.5)
            # Losses with flat parts have no curvature there: a floor that vanishes with the gradient keeps steps sane.
            lifted = jnp.maximum(curvature, min(0.1, size) / len(labels))
            direction, k = _newton_direction(X, lifted, ridge, gw, gb, forcing)
            products += int(k)
            step, slope = 1.0, float(direction[:-1] @ gw + direction[-1] * gb)
            while True:
                trial = _state(function, X, y, w + step * direction[:-1], b + step * direction[-1], ridge)
                if float(trial[0]) <= float(value) + 1e-4 * step * slope or step < 1e-8:
                    break
                step *= 0.5
            if not float(trial[0]) < float(value):
                stopped = "precision"
                break
            w, b = w + step * direction[:-1], b + step * direction[-1]
            value, gw, gb, curvature, z = trial
            if float(jnp.sqrt(gw @ gw + gb**2)) <= tolerance * ridge * float(jnp.linalg.norm(w)):
                stopped = "gradient"
                break
        relative = float(jnp.sqrt(gw @ gw + gb**2) / (ridge * jnp.linalg.norm(w)))
        return DeviceReadout(np.asarray(w), float(b), np.asarray(z), relative, iteration, products, stopped)
