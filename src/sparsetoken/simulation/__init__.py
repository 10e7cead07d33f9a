"""Finite-size experiments: one trial from a seed, with everything measured in closed form."""

from .._core.averages import mean_and_error
from ..trajectories import mean_trajectory
from .heads import head_readout
from .learn_directions import LearntDirections, learn_directions
from .noise import RealNoise
from .seeds import trial_seeds
from .simulate import simulate
from .simulate_end import simulate_end
from .trajectory import joint_trajectory, simulate_trajectory
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
