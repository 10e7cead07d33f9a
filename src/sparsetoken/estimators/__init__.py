"""scikit-learn estimators for bags of tokens. Names are resolved on first use."""

from __future__ import annotations

from .._core.lazy import lazy_exports

_HOME = {
    "AttentionClassifier": "attention",
    "AttentionDisplay": "displays",
    "BagClassifier": "bag_classifier",
    "BagRegressor": "bag_regressor",
    "ElementwiseAttentionClassifier": "elementwise",
    "MessagePassingClassifier": "message_passing.classifier",
    "PooledClassifier": "linear",
    "VectorizedClassifier": "linear",
}

__all__ = list(_HOME)

__getattr__, __dir__ = lazy_exports(__name__, _HOME)
