"""Finite-size experiments: one trial from a seed, with everything measured in closed form."""

from __future__ import annotations

from .._core.lazy import lazy_exports

_HOME = {
    "RealNoise": "noise",
    "SimulationResult": "trial_result",
    "head_readout": "heads",
    "joint_trajectory": "trajectory",
    "mean_and_error": "repeats",
    "mean_trajectory": "trajectory",
    "simulate": "trial",
    "simulate_trajectory": "trajectory",
    "trial_seeds": "repeats",
    "two_steps": "steps",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
