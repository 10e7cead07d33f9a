"""The paper's attention classifier: sign(<w, f_q(X)> + b), f_q(X) = X^T softmax(X q)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...bag_models import BagModel, get_bag_model
from ...bags.bags import Bags
from ...bags.scaler import scaled_bags
from ...bags.segments import bag_softmax
from ...losses import Loss
from ...schedules import Stage
from ..base import per_bag
from ..calibration import held_out_diagnostics
from ..labels import auto_or_number
from ..several_classes import each_class
from .descent import MODEL, fit_descent
from .joint_heads import Head
from .staged import StagedClassifier, attention_features, softmax_attention

TRAININGS = ("staged", "joint", "tied")
# Parameters that only some trainings use, with their default values.
STAGED_ONLY: dict[str, Any] = {"ridge": "auto", "split": "auto", "eta_w": 1.0, "eta_b": "auto", "query_by": "auto"}
DESCENT_ONLY: dict[str, Any] = {"stages": "auto"}


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
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    scale : bool
        Whether the tokens' features are standardised first (`BagScaler`).
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of splits and folds.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    positive_label : label or None
        The class whose bags hold the signal tokens; None: determined from the data (`diagnostics_["signal_class"]`).
    missing : {"error", "drop-token", "impute"}
        How tokens with missing values (NaN) are treated: refused, left out, or filled with the feature's training mean.
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
    split_ : float or "reuse"
        The share of the bags that the two steps had; "reuse" also where a class was too small to be in both parts.
    sharpness_, ridge_ : float
        The values that were used.
    query_by_ : str
        Staged: what the query's direction came from.
    stages_ : tuple of Stage
        Joint and tied: the schedule that was run, with alpha = n/d of the bags.
    bag_model_ : BagModel
        Joint and tied: the model of the theory.
    calibration_ : Calibration
        What turns <w, f> + b (tied: the log mean) into log odds.
    diagnostics_ : dict
        Diagnostics of the training.
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
        self.training = training
        self.ridge = ridge
        self.split = split
        self.sharpness = sharpness
        self.eta_w = eta_w
        self.eta_b = eta_b
        self.stages = stages
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.positive_label = positive_label
        self.missing = missing
        self.query_by = query_by

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        if self.training not in TRAININGS:
            raise ValueError(f"training must be one of {', '.join(TRAININGS)}, got {self.training!r}")
        for name, untouched in (DESCENT_ONLY if self.training == "staged" else STAGED_ONLY).items():
            given = getattr(self, name)
            if isinstance(given, str) != isinstance(untouched, str) or not np.array_equal(given, untouched):
                raise ValueError(f"{name} must be left at {untouched!r}: training={self.training!r} does not use it")
        fit = self._fit_staged if self.training == "staged" else self._fit_descent
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
        z = self._head().decide(bags.tokens, bags.starts)
        wrong = float(np.mean((self.side_ if self.training == "tied" else 1.0) * signs * z <= 0))
        self.diagnostics_ |= {
            "bags": len(signs),
            "dimensions": bags.n_features,
            "steps": sum(stage.steps for stage in found.stages),
            "training_error": wrong,
            "separable": wrong == 0.0,
        }
        if found.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(found.held_out, signs)
        return found.held_out

    @property
    def _sums_only(self) -> bool:
        return self.training == "staged"

    @property
    def bag_model_(self) -> BagModel:
        """The theory's model at the sharpness that was used."""
        if self.training == "staged":
            raise AttributeError("bag_model_ goes with training='joint' or 'tied'")
        return replace(get_bag_model(MODEL[self.training]), sharpness=self.sharpness_)

    def _head(self) -> Head:
        """The trained model as a head."""
        tied = self.training == "tied"
        return Head(
            "tied" if tied else "free",
            self.query_,
            self.coef_[0],
            float(self.intercept_[0]),
            self.sharpness_ if tied else 1.0,
        )

    def _decide(self, bags: Bags) -> np.ndarray:
        if self.training != "tied":
            return super()._decide(bags)
        scaled = scaled_bags(self.scaler_, bags)
        return self.calibration_(self.side_ * self._head().decide(scaled.tokens, scaled.starts))

    def _features(self, bags: Bags) -> Any:
        return attention_features(bags, self.query_[None, :], softmax_attention)[:, 0]

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        scores = (bags.tokens @ self.query_.astype(bags.tokens.dtype)).astype(np.float64)
        return per_bag(bag_softmax(scores, bags.starts)[0].astype(bags.tokens.dtype), bags)

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence <w, x_l> of each token for `classes_[1]`, comparable across bags, one array per bag."""
        bags = scaled_bags(self.scaler_, self._checked(X))
        readout = self.side_ * self.coef_[0] if self.training == "tied" else self.coef_[0]
        return per_bag(bags.tokens @ readout.astype(bags.tokens.dtype), bags)
