"""The default classifier for real bags: attention heads on lifted tokens, trained jointly, that vote."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._core.validation import true_or_false, whole_number
from ..bags.bags import Bags
from ..bags.scratch import DEVICE_BLOCK_BYTES
from ..bags.segments import bag_softmax, weighted_bag_sum
from ..losses import Loss, get_loss
from .base import BaseBagClassifier, per_bag
from .lift import LANDMARKS, TokenLift
from .readout import checked_ridge, held_out_diagnostics
from .refined import fit_refined


class BagClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseBagClassifier):
    """The strong default for real bags.

    Tokens are scaled and lifted by kernels (`lift`); free attention heads, started at the two-step query and refined
    jointly with their readouts, heads whose query is tied to the readout, and pooled heads compete at several ridges, and
    held-out bags decide their shares in the vote and calibrate the result. Every head minimises

        sum_i p_i l(z_i; y_i) + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2),    p_i: normalised weights, the bias is free

    (`heads` says what z is).

    Parameters
    ----------
    ridge : float or "auto"
        The ridge of all heads; "auto" tries several.
    lift : int
        Number of training tokens the kernels are seen from; 0: linear in the (scaled) tokens.
    loss : str or Loss
        "logistic", "square", "smoothed_hinge" or a `Loss`.
    scale : bool
        Whether the tokens' features are standardised first, heavy tails compressed.
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of folds and landmarks.
    device : str
        Where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).

    Attributes
    ----------
    heads_ : tuple of Member
        The heads that vote: `head` (kind, query, readout, bias), `ridge`, `share` and `calibration` of each.
    calibration_ : Calibration
        What turns the vote into log odds.
    lift_ : TokenLift
        What makes features of tokens.
    diagnostics_ : dict
        What the training found out about itself.
    """

    def __init__(
        self,
        ridge: float | str = "auto",
        lift: int = LANDMARKS,
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.ridge = ridge
        self.lift = lift
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def _room_beside(self, bags: Bags) -> int:
        # Two kernels in single precision for all tokens, and some double-precision copies of them for a block of tokens.
        a_block = DEVICE_BLOCK_BYTES // (bags.n_features * bags.tokens.itemsize)
        return whole_number("lift", self.lift, 0) * (8 * bags.n_tokens + 64 * min(bags.n_tokens, a_block))

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        rng = np.random.default_rng(self.random_state)
        loss, ridge = get_loss(self.loss), checked_ridge(self.ridge)
        landmarks = whole_number("lift", self.lift, 0)
        self.lift_ = TokenLift(landmarks, true_or_false("scale", self.scale)).fit(bags, signs, rng)
        # Single precision is ample for choosing and fitting heads, and twice as quick; predictions keep the input's own.
        lifted = bags.with_tokens(self.lift_.features(bags.tokens, np.float32))
        refined = fit_refined(lifted, signs, weights, loss, ridge, rng)
        self.heads_, self.calibration_ = refined.members, refined.calibration
        wrong = float(np.mean(signs * self._vote(lifted) <= 0))
        self.diagnostics_ |= {
            "bags": len(signs),
            "dimensions": lifted.n_features,
            "heads": [f"{m.head.kind} ridge {m.ridge:g} share {m.share:.2f}" for m in self.heads_],
            "training_error": wrong,
            "separable": wrong == 0.0,
        }
        if refined.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(refined.held_out, signs)
        self._n_features_out = len(self.heads_) * lifted.n_features

    def _lifted(self, bags: Bags) -> Bags:
        return bags.with_tokens(self.lift_.features(bags.tokens))

    def _vote(self, lifted: Bags) -> np.ndarray:
        votes = [m.share * m.calibration(m.head.decide(lifted.tokens, lifted.starts)) for m in self.heads_]
        return self.calibration_(np.sum(votes, axis=0))

    def _decide(self, bags: Bags) -> np.ndarray:
        return self._vote(self._lifted(bags))

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), averaged over the heads by their shares, one array per bag."""
        lifted = self._lifted(self._checked(X))
        weights = sum(m.share * bag_softmax(m.head.scores(lifted.tokens), lifted.starts)[0] for m in self.heads_)
        return per_bag(np.asarray(weights, dtype=lifted.tokens.dtype), lifted)

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence of each token for `classes_[1]`, comparable across bags, one array per bag.

        The sum over the heads of <w, x_l>, each times its share and the slope of its calibration.
        """
        lifted = self._lifted(self._checked(X))
        scores = sum(m.share * m.calibration.slope * m.head.evidence(lifted.tokens) for m in self.heads_)
        return per_bag(np.asarray(scores, dtype=lifted.tokens.dtype), lifted)

    def transform(self, X: Any) -> np.ndarray:
        """The attention features f_q of each bag, (bags, features), those of the heads side by side."""
        lifted = self._lifted(self._checked(X))
        parts = []
        for member in self.heads_:
            attention, _ = bag_softmax(member.head.scores(lifted.tokens), lifted.starts)
            parts.append(weighted_bag_sum(attention, lifted.tokens, lifted.starts))
        return np.hstack(parts)
