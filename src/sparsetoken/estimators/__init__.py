"""scikit-learn estimators for bags of tokens. Names are resolved on first use."""

from __future__ import annotations

from .._core.imports import lazy_exports

_HOME = {
    "AttentionClassifier": "paper.attention",
    "AttentionDisplay": "displays",
    "BagClassifier": "default.bag_classifier",
    "BagRegressor": "default.bag_regressor",
    "ElementwiseAttentionClassifier": "paper.attention",
    "MessagePassingClassifier": "message_passing.classifier",
    "PooledClassifier": "paper.linear",
    "VectorizedClassifier": "paper.linear",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
