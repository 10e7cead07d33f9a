"""Finite-size experiments: one trial from a seed, with everything measured in closed form."""

from .._core.averages import mean_and_error
from .heads import head_readout
from .joint_end import simulate_end
from .noise import RealNoise
from .products import LearntDirections, learn_directions
from .seeds import trial_seeds
from .simulate import simulate
from .trajectory import joint_trajectory, mean_trajectory, simulate_trajectory
from .trial import SimulationResult
from .two_steps import two_steps

__all__ = [
    "LearntDirections",
    "RealNoise",
    "SimulationResult",
    "head_readout",
    "joint_trajectory",
    "learn_directions",
    "mean_and_error",
    "mean_trajectory",
    "simulate",
    "simulate_end",
    "simulate_trajectory",
    "trial_seeds",
    "two_steps",
]
