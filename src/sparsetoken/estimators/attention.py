"""The paper's attention classifier: sign(<w, f_q(X)> + b), f_q(X) = X^T softmax(X q)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.validation import real_number
from ..bags.bags import Bags
from ..bags.scaler import scaled_bags
from ..bags.segments import bag_softmax
from ..losses import Loss, get_loss
from .base import per_bag
from .readout import ReadoutClassifier, checked_ridge
from .staged import checked_rate, checked_sharpness, checked_split, fit_staged, softmax_feature

TRAININGS = ("staged",)


class AttentionClassifier(ReadoutClassifier):
    """Single-layer attention over the tokens of a bag, then a linear readout: what `sparsetoken.forecast` forecasts.

    The staged training takes two gradient steps from zero on a part of the bags (D0), which give the query q, and fits
    the readout on the others (D1),

        min over w, b of  sum_i p_i l(<w, f_q(X_i)> + b; y_i) + (ridge/2) ||w||^2,    p_i: normalised weights.

    With `scale=False` and numbers for `split`, `sharpness`, `ridge` and `eta_b` it is exactly the training of the theory.
    For real bags `BagClassifier` is the stronger learner.

    Parameters
    ----------
    training : str
        "staged".
    ridge : float or "auto"
        lambda of the objective; "auto" chooses it by held-out bags.
    split : float, "auto" or "reuse"
        Share of the bags for the two steps; "reuse" takes all bags for both stages.
    sharpness : float or "auto"
        Spread of the scores <x_l, q> over noise tokens (k = beta ||q|| of the theory).
    eta_w : float
        Learning rate of the readout in the first step.
    eta_b : float or "auto"
        Learning rate of the bias in the first step. "auto" takes the bias that balances the classes' slopes, with which
        a rare class cannot turn the query round.
    loss : str or Loss
        "logistic", "square", "smoothed_hinge" or a `Loss`.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of splits and folds.
    device : str
        Where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).

    Attributes
    ----------
    query_ : ndarray of shape (features,)
        q, its sharpness included.
    coef_, intercept_ : ndarray
        w and b.
    split_ : float or "reuse"
        The share of the bags that the two steps had; "reuse" also where a class was too small to be in both parts.
    sharpness_, ridge_ : float
        The values that were used.
    calibration_ : Calibration
        What turns <w, f> + b into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    def __init__(
        self,
        training: str = "staged",
        ridge: float | str = "auto",
        split: float | str = "auto",
        sharpness: float | str = "auto",
        eta_w: float = 1.0,
        eta_b: float | str = "auto",
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.training = training
        self.ridge = ridge
        self.split = split
        self.sharpness = sharpness
        self.eta_w = eta_w
        self.eta_b = eta_b
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        if self.training not in TRAININGS:
            raise ValueError(f"training must be one of {', '.join(TRAININGS)}, got {self.training!r}")
        staged, features, labels = fit_staged(
            self._prepare(bags),
            signs,
            weights,
            get_loss(self.loss),
            checked_ridge(self.ridge),
            checked_split(self.split),
            checked_sharpness(self.sharpness),
            real_number("eta_w", self.eta_w, 0.0),
            checked_rate("eta_b", self.eta_b),
            np.random.default_rng(self.random_state),
        )
        self.query_, self.split_, self.sharpness_ = staged.query, staged.split, staged.sharpness
        self.diagnostics_["query_statistic"] = staged.query_statistic
        self._finish(staged.readout, features, labels)

    def _features(self, bags: Bags) -> Any:
        return softmax_feature(bags, self.query_)

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        scores = (bags.tokens @ self.query_.astype(bags.tokens.dtype)).astype(np.float64)
        return per_bag(bag_softmax(scores, bags.starts)[0].astype(bags.tokens.dtype), bags)

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence <w, x_l> of each token for `classes_[1]`, comparable across bags, one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        return per_bag(bags.tokens @ self.coef_[0].astype(bags.tokens.dtype), bags)
