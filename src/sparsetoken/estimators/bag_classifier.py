"""The default classifier for real bags: heads on tokens, classifiers on bag statistics, trees and a likelihood ratio vote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from .._core.validation import true_or_false, whole_number
from ..bags.bags import Bags
from ..bags.scratch import DEVICE_BLOCK_BYTES
from ..bags.segments import weighted_bag_sum
from ..losses import Loss, get_loss
from .base import BaseBagClassifier, each_class, per_bag, side_by_side
from .candidates import DEFAULT, KNOWN, Candidate, Heads, Likelihood, Problem, Validated, chosen_candidates
from .folds import fold_rounds
from .lift import LANDMARKS
from .message_passing.ratio import could_hold
from .readout import checked_ridge, held_out_diagnostics
from .views import BagViews, Views
from .vote import Member, take_vote


class BagClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseBagClassifier):
    """The strong default for real bags.

    Several candidates learn from the same bags: attention heads on scaled and lifted tokens (`heads`: free, tied and pooled
    ones), linear and kernel classifiers on a bag's statistics, and trees on them. Held-out bags decide their shares in the vote
    and calibrate the result (`vote`). Every head, and the classifiers on statistics, minimise

        sum_i p_i l(z_i; y_i) + (ridge/2) (||w||^2 + QUERY_RIDGE ||q||^2),    p_i: normalised weights, the bias is free

    (`heads` says what z is).

    Parameters
    ----------
    ridge : float or "auto"
        The ridge of all heads; "auto" tries several.
    lift : int
        Number of training tokens the kernels are seen from; 0: linear in the (scaled) tokens.
    candidates : "auto" or sequence of str
        What may vote, by name: "linear" (tied head on the scaled tokens), "mean" (linear in their mean), "pooled", "tied" and
        "free" (heads on the lifted tokens), "even" (tied head on tokens lifted with one scale for all features), "statistics",
        "likeness" (linear and kernel classifier on a bag's statistics), "trees" and "forest" (extremely randomised trees and a
        random forest on them), and "likelihood" (likelihood ratio of the paper's model by message passing, where the tokens
        look like Gaussian noise; where all of the model is found to hold, it alone). At least one that sees tokens: the first
        six or the last. "auto": all but "free".
    loss : str or Loss
        "logistic", "square", "smoothed_hinge", "exponential", one of these with ":positives=9" after it, or a `Loss`.
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
    members_ : tuple of Member
        What votes: `name`, `view`, `model`, `share` in the vote, `token_share` and `calibration` of each.
    calibration_ : Calibration
        What turns the vote into log odds.
    views_ : BagViews
        What makes the members' views of bags.
    range_ : TrainingRange
        What the training bags were like: log odds of bags that are unlike all of them are drawn towards the class frequencies'.
    diagnostics_ : dict
        What the training found out about itself, the held-out loss of every setting included.
    """

    def __init__(
        self,
        ridge: float | str = "auto",
        lift: int = LANDMARKS,
        candidates: str | Sequence[str] = "auto",
        loss: str | Loss = "logistic",
        scale: bool = True,
        class_weight: Any = None,
        random_state: int | None = 0,
        device: str = "auto",
    ):
        self.ridge = ridge
        self.lift = lift
        self.candidates = candidates
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.random_state = random_state
        self.device = device

    def _room_beside(self, bags: Bags) -> int:
        # Four kernels in single precision for all tokens, some double-precision copies of them for a block of tokens, and
        # the heads' scores of all folds.
        a_block = DEVICE_BLOCK_BYTES // (bags.n_features * bags.tokens.itemsize)
        kernels = whole_number("lift", self.lift, 0) * (16 * bags.n_tokens + 64 * min(bags.n_tokens, a_block))
        return kernels + 500 * bags.n_tokens

    def _chosen(self) -> list[Candidate]:
        """The candidates, at the given ridge if there is one."""
        ridge = checked_ridge(self.ridge)
        chosen = chosen_candidates(self.candidates, KNOWN, DEFAULT)
        if isinstance(ridge, str):
            return chosen
        return [replace(c, ridges=(ridge,)) if isinstance(c, Heads) else c for c in chosen]

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        rng = np.random.default_rng(self.random_state)
        loss, candidates = get_loss(self.loss), self._chosen()
        seed = int(rng.integers(2**31))
        landmarks, scale = whole_number("lift", self.lift, 0), true_or_false("scale", self.scale)
        rounds = fold_rounds(signs, rng, groups, bags.n_tokens)

        def seen(names: tuple[str, ...], landmarks: int) -> Problem:
            self.views_ = BagViews(names, landmarks, scale).fit(bags, signs, seed)
            # Single precision is ample for choosing and fitting heads, and twice as quick; predictions keep the input's own.
            return Problem(self.views_.of(bags, np.float32), signs, weights, rounds, loss, seed, groups)

        first = [c for c in candidates if isinstance(c, Likelihood)]
        others = [c for c in candidates if not isinstance(c, Likelihood)]
        tried: list[Validated] = []
        if first and (not others or could_hold(bags, signs)):
            problem = seen((first[0].view,), 0)  # the scaled tokens alone, which are the same in all the views
            tried += first[0].validated(problem)
        if others and not any(setting.settles for setting in tried):
            problem = seen(tuple(candidate.view for candidate in candidates), landmarks)
            tried += [setting for candidate in others for setting in candidate.validated(problem)]
        vote = take_vote(tried, problem)
        views = problem.views
        self.members_, self.calibration_ = vote.members, vote.calibration
        wrong = float(np.mean(signs * self._vote(views) <= 0))
        self.diagnostics_ |= {
            "bags": len(signs),
            "dimensions": views[self._explainers()[0].view].n_features,
            "heads": [f"{m.name} share {m.share:.2f}" for m in self.members_ if m.share > 0],
            "held_out_losses": vote.losses,
            "model_holds": any(setting.settles for setting in tried),
            "training_error": wrong,
            "separable": wrong == 0.0,
        }
        if vote.held_out is not None:
            self.diagnostics_ |= held_out_diagnostics(vote.held_out, signs)
        self._n_features_out = sum(views[m.view].n_features for m in self._explainers())
        return vote.held_out

    def _explainers(self) -> list[Member]:
        """The members that see tokens."""
        return [m for m in self.members_ if m.token_share > 0]

    def _vote(self, views: Views) -> np.ndarray:
        votes = []
        for m in self.members_:
            if m.share > 0:
                bags = views[m.view]
                votes.append(m.share * m.calibration(m.model.decide(bags.tokens, bags.starts)))
        return self.calibration_(np.sum(votes, axis=0))

    def _decide(self, bags: Bags) -> np.ndarray:
        return self._vote(self.views_.of(bags))

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Softmax weights of each bag's tokens (sum 1), averaged over the heads by their shares, one array per bag."""
        bags = self._checked(X)
        views = self.views_.of(bags)
        weights = sum(m.token_share * _head(m).attention(views[m.view].tokens, bags.starts) for m in self._explainers())
        return per_bag(np.asarray(weights, dtype=bags.tokens.dtype), bags)

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """The evidence of each token for `classes_[1]`, comparable across bags, one array per bag.

        The sum over the heads of <w, x_l>, each times its share among the heads and the slope of its calibration.
        """
        bags = self._checked(X)
        views = self.views_.of(bags)
        scores = sum(
            m.token_share * m.calibration.slope * _head(m).evidence(views[m.view].tokens) for m in self._explainers()
        )
        return per_bag(np.asarray(scores, dtype=bags.tokens.dtype), bags)

    @side_by_side
    def transform(self, X: Any) -> np.ndarray:
        """The attention features f_q of each bag, (bags, features), those of the heads side by side."""
        bags = self._checked(X)
        views = self.views_.of(bags)
        parts = []
        for member in self._explainers():
            tokens = views[member.view].tokens
            parts.append(weighted_bag_sum(_head(member).attention(tokens, bags.starts), tokens, bags.starts))
        return np.hstack(parts)


def _head(member: Member) -> Any:
    """The model of a member that sees tokens: a head."""
    return member.model
