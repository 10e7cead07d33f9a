"""sparsetoken: exact theory, simulation and learners for sparse-token classification with single-layer attention.

Public names are resolved on first use, so that `import sparsetoken` is quick and imports neither JAX nor scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Task": "task",
    "Training": "task",
    "Positions": "task",
    "Loss": "losses",
    "Logistic": "losses",
    "Square": "losses",
    "SmoothedHinge": "losses",
    "simulate": "simulation",
    "forecast": "theory",
    "forecast_grid": "theory",
    "plan": "planning",
    "Bags": "bags",
    "BagScaler": "bags",
    "AttentionClassifier": "estimators",
    "PooledClassifier": "estimators",
    "VectorizedClassifier": "estimators",
    "ElementwiseAttentionClassifier": "estimators",
    "MessagePassingClassifier": "estimators",
}

__all__ = ["__version__", "theory", *_HOME]


def __getattr__(name: str) -> Any:
    if name == "theory":
        return import_module(".theory", __name__)
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
