"""The attention classifier: sign(<w, f_q(X)> + b), f_q(X) = X^T softmax(X q)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._core.validation import real_number, whole_number
from ..bags.bags import Bags
from ..bags.scaler import BagScaler, scaled_bags
from ..bags.scratch import DEVICE_BLOCK_BYTES
from ..bags.segments import bag_softmax, weighted_bag_sum
from ..losses import Loss, get_loss
from .base import BagClassifier, per_bag
from .calibration import Calibration
from .heads import Head
from .lift import LANDMARKS, TokenLift
from .readout import checked_ridge, held_out_diagnostics, readout_diagnostics, warn_of
from .refined import Member, fit_refined
from .staged import checked_sharpness, checked_split, fit_staged

TRAININGS = ("refined", "staged")


class AttentionClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagClassifier):
    """Single-layer attention over the tokens of a bag, then a linear readout.

    training="refined" (default), for real bags: tokens are scaled and lifted by kernels (`lift`), the two-step query is
    refined jointly with its readout, pooled heads and heads whose query is tied to the readout compete at several ridges,
    and held-out bags decide their shares in the vote and calibrate the result.

    training="staged" is the four-stage training of the theory and nothing else: two gradient steps on a part of the
    bags give the query, a convex readout on the others does the rest. With `scale=False` and numbers for `split`,
    `sharpness` and `ridge` it is exactly what `sparsetoken.forecast` forecasts.

    ridge         lambda of  mean loss + (lambda/2) ||w||^2; "auto": by held-out bags
    lift          training tokens the kernels of the refined training are seen from; 0: linear in the (scaled) tokens
    split         staged: share of the bags for the two steps, "reuse": all bags for both stages, or "auto"
    sharpness     staged: spread of the scores <x_l, q> over noise tokens (k = beta ||q|| of the theory), or "auto"
    eta_w, eta_b  staged: learning rates of the first step
    loss          "logistic", "square", "smoothed_hinge" or a `Loss`
    scale         standardise the tokens' features first
    class_weight  None, "balanced" or a dict
    random_state  seed of splits, folds and landmarks
    device        where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX)

    After fitting: `query_` (staged) or `heads_` (refined: a list of dicts with kind, ridge, share, query, readout, bias),
    `diagnostics_`.
    """

    def __init__(
        self,
        training: str = "refined",
        ridge: float | str = "auto",
        lift: int = LANDMARKS,
        split: float | str = "auto",
        sharpness: float | str = "auto",
        eta_w: float = 1.0,
        eta_b: float = 1.0,
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.training = training
        self.ridge = ridge
        self.lift = lift
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
        rng = np.random.default_rng(self.random_state)
        if self.training == "staged":
            self._fit_staged(bags, signs, weights, rng)
        else:
            self._fit_refined(bags, signs, weights, rng)
        warn_of(self, self.diagnostics_)

    def _fit_staged(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> None:
        self.scaler_ = BagScaler().fit(bags) if self.scale else None
        staged, features, labels = fit_staged(
            scaled_bags(self.scaler_, bags),
            signs,
            weights,
            get_loss(self.loss),
            checked_ridge(self.ridge),
            checked_split(self.split),
            checked_sharpness(self.sharpness),
            real_number("eta_w", self.eta_w, 0.0),
            real_number("eta_b", self.eta_b, 0.0),
            rng,
        )
        readout = staged.readout
        self.query_, self.split_, self.sharpness_, self.ridge_ = (
            staged.query,
            staged.split,
            staged.sharpness,
            readout.ridge,
        )
        head = Head("free", staged.query, readout.coef, readout.bias)
        self._keep([Member(head, readout.ridge, 1.0, Calibration())], readout.calibration)
        self.coef_, self.intercept_ = readout.coef[None, :], np.array([readout.bias])
        self.diagnostics_ |= {"query_statistic": staged.query_statistic}
        self.diagnostics_ |= readout_diagnostics(readout, features, labels)
        self._n_features_out = features.shape[1]

    def _room_beside(self, bags: Bags) -> int:
        if self.training == "staged":
            return 0
        # Two kernels in single precision for all tokens, and some double-precision copies of them for a block of tokens.
        a_block = DEVICE_BLOCK_BYTES // (bags.n_features * bags.tokens.itemsize)
        return whole_number("lift", self.lift, 0) * (8 * bags.n_tokens + 64 * min(bags.n_tokens, a_block))

    def _fit_refined(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, rng: np.random.Generator) -> None:
        landmarks = whole_number("lift", self.lift, 0)
        self.lift_ = TokenLift(landmarks, self.scale).fit(bags, signs, rng)
        # Single precision is ample for choosing and fitting heads, and twice as quick; predictions keep the input's own.
        lifted = bags.with_tokens(self.lift_.features(bags.tokens, np.float32))
        refined = fit_refined(lifted, signs, weights, get_loss(self.loss), checked_ridge(self.ridge), rng)
        self._keep(refined.members, refined.calibration)
        wrong = float(np.mean(signs * self._vote(lifted) <= 0))
        self.diagnostics_ |= {
            "bags": len(signs),
            "dimensions": lifted.n_features,
            "heads": [f"{h['kind']} ridge {h['ridge']:g} share {h['share']:.2f}" for h in self.heads_],
            "training_error": wrong,
            "separable": wrong == 0.0,
        }
        if refined.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(refined.held_out, signs)
        self._n_features_out = len(self.heads_) * lifted.n_features

    def _keep(self, members: Any, calibration: Calibration) -> None:
        self.heads_ = [
            {
                "kind": m.head.kind,
                "ridge": m.ridge,
                "share": m.share,
                "slope": m.calibration.slope,
                "offset": m.calibration.offset,
                "query": m.head.query,
                "readout": m.head.readout,
                "bias": m.head.bias,
            }
            for m in members
        ]
        self.calibration_slope_, self.calibration_offset_ = calibration.slope, calibration.offset

    def _members(self) -> list[Member]:
        return [
            Member(
                Head(h["kind"], h["query"], h["readout"], h["bias"]),
                h["ridge"],
                h["share"],
                Calibration(h["slope"], h["offset"]),
            )
            for h in self.heads_
        ]

    def _lifted(self, bags: Bags) -> Bags:
        if self.training == "staged":
            return scaled_bags(self.scaler_, bags)
        return bags.with_tokens(self.lift_.features(bags.tokens))

    def _vote(self, lifted: Bags) -> np.ndarray:
        votes = [m.share * m.calibration(m.head.decide(lifted.tokens, lifted.starts)) for m in self._members()]
        return Calibration(self.calibration_slope_, self.calibration_offset_)(np.sum(votes, axis=0))

    def _decide(self, bags: Bags) -> np.ndarray:
        return self._vote(self._lifted(bags))

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), averaged over the heads by their shares."""
        lifted = self._lifted(self._checked(X))
        weights = sum(m.share * bag_softmax(m.head.scores(lifted.tokens), lifted.starts)[0] for m in self._members())
        return per_bag(np.asarray(weights, dtype=lifted.tokens.dtype), lifted)

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """How strongly each token speaks for `classes_[1]`, comparable across bags.

        The query's score <q, x_l> (a pooled head's value <w, x_l>); for several heads the sum of their scores, each times
        share and calibration slope.
        """
        lifted = self._lifted(self._checked(X))
        scores = sum(m.share * m.calibration.slope * m.head.evidence(lifted.tokens) for m in self._members())
        return per_bag(np.asarray(scores, dtype=lifted.tokens.dtype), lifted)

    def transform(self, X: Any) -> np.ndarray:
        """f_q of each bag, (bags, features): for several heads their features side by side."""
        lifted = self._lifted(self._checked(X))
        parts = []
        for member in self._members():
            attention, _ = bag_softmax(member.head.scores(lifted.tokens), lifted.starts)
            parts.append(weighted_bag_sum(attention, lifted.tokens, lifted.starts))
        return np.hstack(parts)
