"""The pooled linear classifier: sign(<w, xbar> + b)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags.bags import Bags
from ..bags.segments import bag_mean
from .base import per_bag
from .readout import ReadoutClassifier


class PooledClassifier(ReadoutClassifier):
    """Linear classifier on the mean token of a bag, xbar = (1/L) sum_l x_l.

    loss          "logistic", "square", "smoothed_hinge" or a `Loss`
    ridge         lambda of  mean loss + (lambda/2) ||w||^2; "auto": by inner 5-fold cross-validation, which also
                  calibrates `predict_proba`; a number: exactly that fit, nothing else
    scale         standardise the tokens' features first
    class_weight  None, "balanced" or a dict
    random_state  seed of the inner folds
    device        where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX)

    After fitting: `coef_` (1, d), `intercept_`, `ridge_`, `diagnostics_`.
    """

    def _features(self, bags: Bags) -> Any:
        return bag_mean(bags.tokens, bags.starts)

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """1/L for every token: pooling attends to all alike."""
        bags = self._checked(X)
        lengths = bags.lengths
        return per_bag(np.repeat(1.0 / lengths, lengths).astype(bags.tokens.dtype), bags)
