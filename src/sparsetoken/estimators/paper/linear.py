"""Linear classifiers on fixed features of a bag: its mean token, or all its tokens side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...bags.bags import Bags
from ...bags.forms import shown
from ...losses import Loss
from ..base import per_bag
from ..several_classes import each_class
from .readout import ReadoutClassifier


class PooledClassifier(ReadoutClassifier):
    """Linear classifier on the mean token of a bag, sign(<w, xbar> + b) with xbar = (1/L) sum_l x_l.

    Minimises  sum_i p_i l(<w, xbar_i> + b; y_i) + (ridge/2) ||w||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    ridge : float or "auto"
        lambda of the objective. "auto" chooses it by inner 5-fold cross-validation, which also calibrates
        `predict_proba`; a number means exactly that fit and nothing else.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of the inner folds.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    missing : {"error", "drop-token", "impute"}
        What becomes of tokens with missing values (NaN): refused, left out, or filled with the feature's training mean.

    Attributes
    ----------
    coef_ : ndarray of shape (1, features)
        w.
    intercept_ : ndarray of shape (1,)
        b.
    ridge_ : float
        The ridge that was used.
    calibration_ : Calibration
        What turns <w, xbar> + b into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    _same_features = True

    def __init__(
        self,
        loss: str | Loss = "logistic",
        ridge: float | str = "auto",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        missing: str = "error",
    ):
        self.loss = loss
        self.ridge = ridge
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.missing = missing

    @property
    def _sums_only(self) -> bool:
        return True

    def _features(self, bags: Bags) -> Any:
        return bags.mean_tokens()

    def _all_features(self, bags: Any) -> Any:
        return bags.mean_tokens()  # which bags on a cluster may have kept

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """1/L for every token: pooling attends to all alike."""
        bags = self._checked(X)
        lengths = bags.lengths
        return per_bag(np.repeat(1.0 / lengths, lengths).astype(bags.tokens.dtype), bags)


class VectorizedClassifier(ReadoutClassifier):
    """Linear classifier on all tokens of a bag side by side, sign(<W, X> + b); all bags must have the same length L.

    Minimises  sum_i p_i l(<W, X_i> + b; y_i) + (ridge/2) ||W||^2  with normalised weights p_i and a free bias.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    ridge : float or "auto"
        lambda of the objective. "auto" chooses it by inner 5-fold cross-validation, which also calibrates
        `predict_proba`; a number means exactly that fit and nothing else.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of the inner folds.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    missing : {"error", "drop-token", "impute"}
        What becomes of tokens with missing values (NaN): refused, left out, or filled with the feature's training mean.

    Attributes
    ----------
    coef_ : ndarray of shape (1, L * features)
        W, one token after the other.
    intercept_ : ndarray of shape (1,)
        b.
    length_ : int
        L.
    ridge_ : float
        The ridge that was used.
    calibration_ : Calibration
        What turns <W, X> + b into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    _same_features = True

    def __init__(
        self,
        loss: str | Loss = "logistic",
        ridge: float | str = "auto",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        missing: str = "error",
    ):
        self.loss = loss
        self.ridge = ridge
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.missing = missing

    def _prepare(self, bags: Bags) -> Bags:
        self.length_ = bags.equal_length()
        return super()._prepare(bags)

    @property
    def token_coef_(self) -> np.ndarray:
        """W, (L, d)."""
        return self.coef_[0].reshape(self.length_, -1)

    def _features(self, bags: Bags) -> Any:
        length = bags.equal_length()
        if length != self.length_:
            raise ValueError(f"bag {shown(bags.ids[0])} has {length} tokens, the training bags had {self.length_}")
        return bags.tokens.reshape(len(bags), -1)
