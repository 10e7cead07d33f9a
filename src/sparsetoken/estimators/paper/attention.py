"""The paper's attention classifier, sign(<w, f_q(X)> + b) with f_q(X) = X^T softmax(X q), and its elementwise approximation,
with f_q(X) = X^T sigma(X q)/L."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np

from ...activations import DEFAULT_ACTIVATION, get_activation
from ...bag_models import BagModel, get_bag_model
from ...bags.bags import Bags
from ...bags.scaler import scaled_bags
from ...bags.sums_per_bag import bag_sum, lengths_of
from ...losses import Loss
from ...schedules import Stage
from ..base import per_bag
from ..calibration import held_out_diagnostics, training_diagnostics
from ..labels import auto_or_number
from ..several_classes import each_class
from .descent import MODEL, fit_descent
from .joint_heads import Head
from .staged import StagedClassifier

TRAININGS = ("staged", "joint", "tied")
STAGED_ONLY = ("ridge", "split", "eta_w", "eta_b", "query_by")  # parameters that the other trainings do not use


class AttentionClassifier(StagedClassifier):
    """Single-layer attention over the tokens of a bag, then a linear readout: the classifier of `sparsetoken.forecast`.

    The staged training takes two gradient steps from zero on a part of the bags (D0), which give the query q, and fits
    the readout on the others (D1),

        min over w, b of  sum_i p_i l(<w, f_q(X_i)> + b; y_i) + (ridge/2) ||w||^2,    p_i: normalised weights.

    The joint training descends the mean loss in q, w and b together from zero, on all bags at every step; the tied one
    has query and readout in one, z = log(mean exp(s <w, x_l>))/s + b (`descent` has the equations). With `scale=False` and
    numbers for what the training uses, all three are exactly those of the theory: `sparsetoken.forecast` forecasts the
    staged training, `theory.trajectory(task, model.bag_model_, model.stages_)` the others. For real bags `BagClassifier` is the
    stronger learner.

    Parameters
    ----------
    training : {"staged", "joint", "tied"}
        How it learns. Parameters that a training does not use are refused.
    ridge : float or "auto"
        lambda of the staged readout's objective; "auto" chooses it by held-out bags.
    split : float, "auto" or "reuse"
        Staged: share of the bags for the two steps; "reuse" takes all bags for both stages.
    sharpness : float or "auto"
        Staged: spread of the scores <x_l, q> over noise tokens (k = beta ||q|| of the theory). Joint and tied: s of the
        bag model. "auto" chooses it by held-out bags.
    eta_w : float
        Staged: learning rate of the readout in the first step.
    eta_b : float or "auto"
        Staged: learning rate of the bias in the first step. "auto" takes the bias that balances the classes' slopes, with which
        a rare class cannot reverse the query.
    stages : Stage, sequence of Stage or "auto"
        Joint and tied: the schedule, on all bags at every step (its alpha is not used). "auto" starts from the defaults of
        `theory.design`, takes smaller steps where the tokens' largest variance requires it, and stops where the held-out loss
        is least.
    loss, scale, class_weight, random_state, device, positive_label, missing
        As for `BagClassifier`; `scale` leaves heavy tails as they are, `random_state` is the seed of splits and folds.
    query_by : str
        Staged: "steps", the two gradient steps; "products:K", K products with the labelled second moment instead of one, for
        long bags and weak signals; "auto" tries two products as well, on all bags, where held-out bags choose anyway.

    Attributes
    ----------
    query_ : ndarray of shape (features,)
        q, its sharpness included.
    coef_, intercept_ : ndarray
        w and b; of the tied training as it is fitted to the signal's class.
    side_ : float
        +1 where `classes_[1]` holds the signal, -1 where `classes_[0]` does.
    sharpness_, ridge_, split_, query_by_
        What was used; `split_` is "reuse" also where a class was too small to be in both parts.
    stages_, bag_model_
        Joint and tied: the schedule that was run, with alpha = n/d of the bags, and the model of the theory.
    calibration_, diagnostics_
        What turns <w, f> + b (tied: the log mean) into log odds; diagnostics of the training.
    """

    def __init__(
        self,
        training: str = "staged",
        ridge: float | str = "auto",
        split: float | str = "auto",
        sharpness: float | str = "auto",
        eta_w: float = 1.0,
        eta_b: float | str = "auto",
        stages: Stage | Sequence[Stage] | str = "auto",
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        positive_label: Any = None,
        missing: str = "error",
        query_by: str = "auto",
    ):
        super().__init__(loss, ridge, scale, class_weight, random_state, device, missing)
        self.training, self.stages, self.query_by, self.positive_label = training, stages, query_by, positive_label
        self.split, self.sharpness, self.eta_w, self.eta_b = split, sharpness, eta_w, eta_b

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        if self.training not in TRAININGS:
            raise ValueError(f"training must be one of {', '.join(TRAININGS)}, got {self.training!r}")
        for name in ("stages",) if self.training == "staged" else STAGED_ONLY:
            given, untouched = getattr(self, name), signature(AttentionClassifier).parameters[name].default
            if isinstance(given, str) != isinstance(untouched, str) or not np.array_equal(given, untouched):
                raise ValueError(f"{name} must be left at {untouched!r}: training={self.training!r} does not use it")
        fit = super()._fit if self.training == "staged" else self._fit_descent
        return fit(bags, signs, weights, groups)

    def _fit_descent(
        self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
    ) -> np.ndarray | None:
        sharpness = auto_or_number("sharpness", self.sharpness)
        if sharpness == 0.0:
            raise ValueError(f"sharpness must be above 0 where training={self.training!r}, got {self.sharpness!r}")
        if isinstance(self.stages, str) and self.stages != "auto":
            raise ValueError(f"stages must be 'auto', a Stage or a list of stages, got {self.stages!r}")
        data = self._training_set(bags, signs, weights, groups)
        bags, found = data.bags, fit_descent(self.training, data, self.stages, sharpness)
        head, self.side_ = found.head, found.side
        self.query_, self.coef_, self.intercept_ = head.query, head.readout[None, :], np.array([head.bias])
        self.stages_, self.sharpness_ = found.stages, found.sharpness
        self.calibration_, self._n_features_out = found.calibration, bags.n_features
        z = (self.side_ if self.training == "tied" else 1.0) * head.decide(bags.tokens, bags.starts)
        self.diagnostics_ |= training_diagnostics(len(signs), bags.n_features, signs * z <= 0)
        self.diagnostics_["steps"] = sum(stage.steps for stage in found.stages)
        if found.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(found.held_out, signs)
        return found.held_out

    @property
    def bag_model_(self) -> BagModel:
        """The theory's model at the sharpness that was used."""
        if self.training == "staged":
            raise AttributeError("bag_model_ goes with training='joint' or 'tied'")
        return replace(get_bag_model(MODEL[self.training]), sharpness=self.sharpness_)

    @property
    def _head(self) -> Head:
        kind = "tied" if self.training == "tied" else "free"
        return Head(kind, self.query_, self.coef_[0], float(self.intercept_[0]), self.sharpness_)

    def _decide(self, bags: Bags) -> np.ndarray:
        if self.training != "tied":
            return super()._decide(bags)
        scaled = scaled_bags(self.scaler_, bags)
        return self.calibration_(self.side_ * self._head.decide(scaled.tokens, scaled.starts))

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        return per_bag(self._head.attention(bags.tokens, bags.starts), bags)

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence <w, x_l> of each token for `classes_[1]`, comparable across bags, one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        return per_bag((self.side_ if self.training == "tied" else 1.0) * self._head.evidence(bags.tokens), bags)


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
