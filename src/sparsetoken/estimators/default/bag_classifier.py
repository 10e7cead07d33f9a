"""The default classifier for real bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._core.validation import true_or_false
from ...bags.bags import Bags
from ...bags.temporary_files import DEVICE_BLOCK_BYTES
from ...losses import Loss, get_loss
from ..base import BaseBagClassifier, per_bag
from ..calibration import (
    final_calibration,
    fit_calibration,
    held_out_diagnostics,
    training_diagnostics,
    unvalidated_calibration,
)
from ..labels import auto_or_number, checked_seed, class_folds
from ..several_classes import each_class, side_by_side
from .candidates import CANDIDATES, Candidate, LearningProblem, chosen_candidates
from .views import landmark_count
from .vote import Vote, take_vote


class BagClassifier(BaseBagClassifier):
    """The default for real bags: a vote of several candidates, weighted on held-out bags, with calibrated log odds.

    Linear classifiers on the mean token and on a bag's statistics, the paper's attention, a smooth maximum of token scores and
    the likelihood ratio of the paper's model learn from the same bags (`candidates`, `vote`); every one but the last minimises

        sum_i p_i l(z_i; y_i) + (ridge/2) ||w||^2,    p_i: normalised weights, the bias is free.

    Parameters
    ----------
    ridge : float or "auto"
        The ridge of all candidates that have one; "auto" tries several.
    lift : int or "auto"
        Number of training tokens used as the kernels' landmarks; 0: linear in the (scaled) tokens. "auto": three times the
        root of the number of tokens, from 100 to 300.
    candidates : "auto" or sequence of str
        What may vote, by name: "pooled" (linear in the mean of the lifted tokens), "attention" (the paper's, on the scaled
        tokens), "tied" (smooth maximum of the lifted tokens' scores), "statistics", "likeness" (linear and kernel classifier
        on a bag's statistics), "likelihood" (the paper's model by message passing, where the tokens look like Gaussian
        noise). At least one that sees tokens: not "statistics" and "likeness" alone. "auto": all.
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
    scale : bool
        Whether the tokens' features are standardised first, heavy tails compressed.
    class_weight : None, "balanced" or dict
        Weights of the classes.
    random_state : int or None
        Seed of folds and landmarks.
    device : str
        Where to compute: "auto" (more than 2^29 numbers go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).
    positive_label : label or None
        The class whose bags hold the signal tokens; None: determined from the data (`diagnostics_["signal_class"]`;
        `diagnostics_["either_class"]` is True where held-out bags do not decide).
    missing : {"error", "drop-token", "impute"}
        How tokens with missing values (NaN) are treated: refused, left out, or filled with the feature's training mean.

    Attributes
    ----------
    vote_ : Vote
        The vote: its `members` with their names, shares and models, and the views of bags that they see.
    calibration_ : Calibration
        What turns the vote into log odds.
    range_ : TrainingRange
        The range of the training bags: log odds of bags far outside it are shrunk towards the class frequencies'.
    diagnostics_ : dict
        Diagnostics of the training, the held-out loss of every candidate included.
    """

    vote_: Vote

    def __init__(
        self,
        ridge: float | str = "auto",
        lift: int | str = "auto",
        candidates: str | Sequence[str] = "auto",
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
        positive_label: Any = None,
        missing: str = "error",
    ):
        self.ridge = ridge
        self.lift = lift
        self.candidates = candidates
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device
        self.positive_label = positive_label
        self.missing = missing

    def _room_beside(self, bags: Bags) -> int:
        # Two kernels in single precision for all tokens, some double-precision copies of them for a block of tokens, and
        # the heads' scores of all folds.
        a_block = DEVICE_BLOCK_BYTES // (bags.n_features * bags.tokens.itemsize)
        kernels = landmark_count(self.lift, bags.n_tokens) * (8 * bags.n_tokens + 64 * min(bags.n_tokens, a_block))
        return kernels + 500 * bags.n_tokens

    def _chosen(self) -> list[Candidate]:
        """The candidates, at the given ridge if there is one."""
        ridge, chosen = auto_or_number("ridge", self.ridge), chosen_candidates(self.candidates, CANDIDATES)
        if isinstance(ridge, str):
            return chosen
        return [replace(candidate, ridges=(ridge,)) if candidate.ridges else candidate for candidate in chosen]

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        loss, candidates, seed = get_loss(self.loss), self._chosen(), checked_seed(self.random_state)
        landmarks, scale = landmark_count(self.lift, bags.n_tokens), true_or_false("scale", self.scale)
        folds = class_folds(signs, seed, groups)
        problem = LearningProblem(None, signs, weights, folds, loss, seed, True, self._sides, groups)
        self.vote_ = vote = take_vote(candidates, bags, problem, landmarks, scale)
        if vote.held_out is None:
            self.calibration_ = unvalidated_calibration(signs, weights)
        else:
            fitted = fit_calibration(vote.held_out, signs, weights)
            self.calibration_ = final_calibration(fitted, vote.held_out, signs, weights, len(candidates), groups)
            self.diagnostics_ |= held_out_diagnostics(vote.held_out, signs)
        if vote.side is not None:
            self.side_ = vote.side
            self.diagnostics_["either_class"] = vote.either_side
        wrong = (self._decide(bags) > 0) != (signs > 0)  # as `predict` decides
        self.diagnostics_ |= training_diagnostics(len(signs), bags.n_features, wrong)
        self.diagnostics_ |= {"members": vote.shares(), "held_out_losses": vote.losses}
        self._n_features_out = vote.width
        return vote.held_out

    def _decide(self, bags: Bags) -> np.ndarray:
        return self.calibration_(self.vote_.scores(self.vote_.views.of(bags)))

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), averaged over the heads by their shares, one array per bag."""
        bags = self._checked(X)
        return per_bag(self.vote_.attention(bags), bags)

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence of each token for `classes_[1]`, comparable across bags, one array per bag.

        The sum over the heads of <w, x_l>, each times its share among the heads and the slope of its calibration.
        """
        bags = self._checked(X)
        return per_bag(self.vote_.evidence(bags), bags)

    @side_by_side
    def transform(self, X: Any) -> np.ndarray:
        """The attention features f_q of each bag, (bags, features), those of the heads side by side."""
        return self.vote_.features(self._checked(X))
