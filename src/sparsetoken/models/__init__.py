"""scikit-learn estimators for bags of tokens, and the convex solver they share."""

from .bags import Bags
from .message_passing import MessagePassingClassifier
from .pooled import PooledClassifier
from .scaler import BagScaler
from .vectorized import VectorizedClassifier

__all__ = ["BagScaler", "Bags", "MessagePassingClassifier", "PooledClassifier", "VectorizedClassifier"]
