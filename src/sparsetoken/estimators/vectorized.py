"""The vectorized linear classifier: sign(<W, X> + b), W in R^{L x d}."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bags.bags import Bags, shown
from .readout import ReadoutClassifier


class VectorizedClassifier(ReadoutClassifier):
    """Linear classifier on all tokens of a bag side by side; all bags must have the same length L.

    Parameters as for `PooledClassifier`. After fitting: `coef_` (1, L d), `token_coef_` (L, d), `length_`.
    """

    def _prepare(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> Bags:
        self.length_ = bags.equal_length()
        return super()._prepare(bags, signs, weights)

    @property
    def token_coef_(self) -> np.ndarray:
        """W, (L, d)."""
        return self.coef_[0].reshape(self.length_, -1)

    def _features(self, bags: Bags) -> Any:
        length = bags.equal_length()
        if length != self.length_:
            raise ValueError(f"bag {shown(bags.ids[0])} has {length} tokens, the training bags had {self.length_}")
        return bags.tokens.reshape(len(bags), -1)
