"""sparsetoken: exact theory, simulation and learners for sparse-token classification with single-layer attention.

Public names are resolved on first use, so that `import sparsetoken` is quick and imports neither JAX nor scikit-learn.
"""

from __future__ import annotations

from ._core.imports import lazy_exports

__version__ = "0.2.0"

_HOME = {
    "Task": "task",
    "Training": "training",
    "Tokens": "task",
    "Deployment": "deployment",
    "Positions": "task",
    "Loss": "losses",
    "Logistic": "losses",
    "Square": "losses",
    "SmoothedHinge": "losses",
    "Exponential": "losses",
    "Focal": "losses",
    "Weighted": "losses",
    "register_loss": "losses",
    "register_activation": "activations",
    "register_classifier": "classifiers",
    "BagModel": "bag_models",
    "register_bag_model": "bag_models",
    "get_bag_model": "bag_models",
    "Stage": "schedules",
    "Trajectory": "trajectories",
    "JointEnd": "trajectories",
    "simulate": "simulation",
    "simulate_trajectory": "simulation",
    "simulate_end": "simulation",
    "theory": "theory",
    "forecast": "theory",
    "forecast_grid": "theory",
    "compare": "comparison",
    "plan": "planning",
    "plan_for_bags": "planning",
    "solve": "planning",
    "sample_size_for_error": "planning",
    "LearningCurveDisplay": "planning",
    "Bags": "bags",
    "BagScaler": "bags",
    "BagClassifier": "estimators",
    "BagRegressor": "estimators",
    "AttentionClassifier": "estimators",
    "PooledClassifier": "estimators",
    "VectorizedClassifier": "estimators",
    "ElementwiseAttentionClassifier": "estimators",
    "MessagePassingClassifier": "estimators",
    "AttentionDisplay": "estimators",
}

__all__ = ["__version__", *_HOME]

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
