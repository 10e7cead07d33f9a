"""Elementwise (approximate) attention: the softmax replaced by an elementwise activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...activations import DEFAULT_ACTIVATION, get_activation
from ...bags.bags import Bags
from ...bags.scaler import scaled_bags
from ...bags.segments import bag_sum, lengths_of
from ...losses import Loss
from ..base import per_bag
from ..several_classes import each_class
from .staged import StagedClassifier


class ElementwiseAttentionClassifier(StagedClassifier):
    """Linear classifier on f = (1/L) sum_l sigma(<x_l, q>) x_l, trained in four stages.

    The query is the one that two gradient steps of softmax attention give; only the feature of the last stage differs.
    The readout minimises  sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2  with normalised weights and a free bias.

    Parameters
    ----------
    activation : str or callable
        sigma: "sigmoid", "relu", "tanh", "identity", "softplus", "threshold:1.5" or a function of an array.
    sharpness, split, ridge, loss, eta_w, eta_b, scale, class_weight, random_state, device, positive_label, missing
        As for the staged training of `AttentionClassifier`.

    Attributes
    ----------
    query_, coef_, intercept_, split_, sharpness_, ridge_, calibration_, diagnostics_
        As for `AttentionClassifier`.
    """

    def __init__(
        self,
        activation: str | Callable[[Any], Any] = DEFAULT_ACTIVATION,
        sharpness: float | str = "auto",
        split: float | str = "auto",
        ridge: float | str = "auto",
        loss: str | Loss = "logistic",
        eta_w: float = 1.0,
        eta_b: float | str = "auto",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        positive_label: Any = None,
        missing: str = "error",
    ):
        super().__init__(loss, ridge, scale, class_weight, random_state, device, missing)
        self.activation, self.sharpness, self.split = activation, sharpness, split
        self.eta_w, self.eta_b, self.positive_label = eta_w, eta_b, positive_label

    def _attend(self, scores: Any, starts: Any) -> np.ndarray:
        """sigma of every token's score over its bag's length."""
        lengths = lengths_of(starts, len(scores))
        return np.asarray(get_activation(self.activation)(np.asarray(scores))) / np.repeat(lengths, lengths)

    def _weights(self, bags: Bags) -> np.ndarray:
        scores = np.asarray(bags.tokens @ self.query_.astype(bags.tokens.dtype), dtype=np.float64)
        return self._attend(scores, bags.starts)

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """|sigma| of each token, normalised over its bag (1/L where a bag has none)."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        size = np.abs(self._weights(bags))
        lengths = bags.lengths
        total = np.repeat(bag_sum(size, bags.starts), lengths)
        shares = np.where(total > 0, size / np.where(total > 0, total, 1.0), 1.0 / np.repeat(lengths, lengths))
        return per_bag(shares, bags)

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """sigma(<x_l, q>) <w, x_l> of each token: L times what it adds to its bag's score, one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        values = np.asarray(bags.tokens @ self.coef_[0].astype(bags.tokens.dtype), dtype=np.float64)
        return per_bag(self._weights(bags) * np.repeat(bags.lengths, bags.lengths) * values, bags)
