"""scikit-learn estimators for bags of tokens, and the convex solver they share.

Names are resolved on first use, so that the solver (`models.erm`, used by `simulate`) does not import scikit-learn: a
test checks that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "AttentionClassifier": "attention",
    "Bags": "bags",
    "BagScaler": "scaler",
    "ElementwiseAttentionClassifier": "elementwise",
    "MessagePassingClassifier": "message_passing",
    "PooledClassifier": "pooled",
    "VectorizedClassifier": "vectorized",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
