"""Exact asymptotics: the infinite twin of `simulate` (d, n -> infinity with n/d fixed)."""

from ..laws.coloured import ColouredLaw, Query, Spectrum, coloured_law
from ..laws.draws import redrawn
from ..laws.heads import HeadsLaw, heads_law
from ..laws.law import Law, attention_law, elementwise_law, law_from_nodes, law_from_samples, pooled_law, vectorized_law
from ..laws.signals import Signals
from .accuracy import (
    Accuracy,
    AccuracyError,
    AccuracyWarning,
    ConvergenceError,
    ReplicaSymmetryWarning,
    UnstableTrainingWarning,
    WarmStart,
)
from .alignment import Alignment, AlignmentLaw, SignalsAlignment, alignment, signals_alignment
from .attention_mass import AttentionMass, attention_mass
from .bayes.limit import BayesLimit, bayes_limit
from .bayes.oracle import Oracle, oracle, strength_needed
from .capacity import Capacity, capacity
from .coloured_alignment import ColouredAlignment, coloured_alignment
from .design import Design, design
from .dynamics.design_end import EndDesign, design_end
from .dynamics.problem import Sampling
from .dynamics.statics import statics
from .dynamics.trajectory import trajectory
from .dynamics.trajectory_gradient import TrajectoryGradient, trajectory_gradient
from .fixed_point.coloured import ColouredResult
from .fixed_point.erm import BestRidge, best_ridge, erm
from .fixed_point.heads import HeadsResult
from .fixed_point.plain import ErmResult
from .forecast import Forecast, forecast
from .gradient import Gradient, gradient
from .ladder import Ladder, ladder, strengths_by_length
from .recovery import Recovery, recovery
from .refit import refit
from .sweep import ForecastGrid, erm_sweep, forecast_grid, sweep

__all__ = [
    "Accuracy",
    "AccuracyError",
    "AccuracyWarning",
    "Alignment",
    "AlignmentLaw",
    "AttentionMass",
    "BayesLimit",
    "BestRidge",
    "Capacity",
    "ColouredAlignment",
    "ColouredLaw",
    "ColouredResult",
    "ConvergenceError",
    "Design",
    "EndDesign",
    "ErmResult",
    "Forecast",
    "ForecastGrid",
    "Gradient",
    "HeadsLaw",
    "HeadsResult",
    "Ladder",
    "Law",
    "Oracle",
    "Query",
    "Recovery",
    "ReplicaSymmetryWarning",
    "Sampling",
    "Signals",
    "SignalsAlignment",
    "Spectrum",
    "TrajectoryGradient",
    "UnstableTrainingWarning",
    "WarmStart",
    "alignment",
    "attention_law",
    "attention_mass",
    "bayes_limit",
    "best_ridge",
    "capacity",
    "coloured_alignment",
    "coloured_law",
    "design",
    "design_end",
    "elementwise_law",
    "erm",
    "erm_sweep",
    "forecast",
    "forecast_grid",
    "gradient",
    "heads_law",
    "ladder",
    "law_from_nodes",
    "law_from_samples",
    "oracle",
    "pooled_law",
    "recovery",
    "redrawn",
    "refit",
    "signals_alignment",
    "statics",
    "strength_needed",
    "strengths_by_length",
    "sweep",
    "trajectory",
    "trajectory_gradient",
    "vectorized_law",
]
