"""The message-passing classifier: Bayes-optimal on the model, with everything it needs estimated on real bags."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..._core.validation import true_or_false, whole_number
from ...bags.bags import Bags
from ...bags.scaler import BagScaler, scaled_bags
from ...bags.sums_per_bag import weighted_bag_sum
from ..base import BaseBagClassifier, per_bag, remarks_on
from ..calibration import Calibration, final_calibration, fit_calibration, held_out_diagnostics, prior_log_odds
from ..labels import auto_or_number, class_folds
from ..several_classes import each_class, side_by_side
from .amp import COUNTS, ExactCount, IndependentRate, Prior
from .likelihood_ratio import QUICK, Noise, RatioFit, fit_ratio, held_out_ratios


class MessagePassingClassifier(BaseBagClassifier):
    """Classify by the likelihood ratio of "some tokens carry theta xi" against "all tokens are noise".

    The direction xi is estimated by approximate message passing on the bags of one class, the noise on those of the other. On
    data drawn from the model, with its parameters given, this reaches the least error that any known fast method reaches.

    Parameters
    ----------
    strength : float or "auto"
        theta, the signal's size against unit noise; "auto": estimated along with the direction.
    sparsity : int, float or "auto"
        How many tokens of a bag with signal carry the signal: a whole number R (exactly that many), a number in (0, 1)
        (each token independently with that probability), or "auto": whichever of several counts and an estimated rate
        explains the labels best.
    whiten : bool
        Whether the tokens are centred and whitened with the mean and (shrunk) covariance of the tokens of the class without
        signal; otherwise the noise is taken to be N(0, I) as it is.
    scale : bool
        Whether the features are standardised over all tokens first, heavy tails compressed.
    calibrate : bool or "auto"
        Whether slope and offset of the log odds are fitted, to the scores of held-out bags or (from a thousand bags on)
        to those of the training bags, each without its own contribution; "auto": unless strength and sparsity are both
        given.
    positive_label : label or None
        The class whose bags hold the signal; None: the one for which the model explains the labels better.
    class_weight, device, missing
        As for `BagClassifier`; class weights enter the prior odds and the calibration.

    Attributes
    ----------
    signal_, overlap_
        The direction (features,) times the square root of the overlap, the squared cosine it is expected to have with xi.
    strength_, sparsity_
        theta; the number of signal tokens per bag, or each token's probability.
    side_ : float
        1.0 where `classes_[1]` holds the signal, -1.0 where `classes_[0]` does.
    prior_ : ExactCount or IndependentRate
        Which tokens carry the signal.
    noise_ : Noise or None
        What whitens the tokens.
    calibration_, diagnostics_
        What turns log likelihood ratios into log odds; diagnostics of the training.
    """

    def __init__(
        self,
        strength: float | str = "auto",
        sparsity: float | int | str = "auto",
        whiten: bool = True,
        scale: bool = True,
        calibrate: bool | str = "auto",
        positive_label: Any = None,
        class_weight: Any = None,
        device: str = "auto",
        missing: str = "error",
    ):
        self.strength = strength
        self.sparsity = sparsity
        self.whiten = whiten
        self.scale = scale
        self.calibrate = calibrate
        self.positive_label = positive_label
        self.class_weight = class_weight
        self.device = device
        self.missing = missing

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        given = auto_or_number("strength", self.strength, what="a number > 0", open_low=True)
        strength = None if isinstance(given, str) else given
        whiten, calibrate = true_or_false("whiten", self.whiten), self._calibrated(strength)
        sides, priors = self._sides, self._priors(bags)

        def tried(side: float, counts: tuple[int, ...]) -> tuple[float, BagScaler | None, RatioFit]:
            scaler = self._scaler(bags, side * signs, whiten)
            fit = fit_ratio(scaled_bags(scaler, bags), side * signs, weights, strength, priors, whiten, counts)
            return side, scaler, fit

        # Where both sides are tried, a few priors choose the side, and all are tried on the better one.
        several = len(sides) > 1
        best = min((tried(side, QUICK if several else COUNTS) for side in sides), key=lambda one: one[2].loss)
        self.side_, self.scaler_, fit = tried(best[0], COUNTS) if several and priors is None else best
        self.ratio_, scores = fit.ratio, self.side_ * fit.training
        odds = prior_log_odds(signs, weights)
        self.calibration_ = Calibration(1.0, odds)
        if calibrate:
            folds = class_folds(signs, 0, groups)
            if folds:
                scaled, own = scaled_bags(self.scaler_, bags), self.side_ * signs
                scores = self.side_ * held_out_ratios(scaled, own, weights, folds, fit, groups is not None)
            fitted = fit_calibration(scores + odds, signs, weights)
            settled = final_calibration(fitted, scores + odds, signs, weights, len(sides), groups)
            self.calibration_ = replace(settled, offset=settled.offset + settled.slope * odds)
        self._n_features_out = bags.n_features
        self.diagnostics_ |= held_out_diagnostics(scores, signs) | {
            "bags": len(bags),
            "dimensions": bags.n_features,
            "strength": self.strength_,
            "sparsity": self.sparsity_,
            "overlap": self.overlap_,
            "iterations": fit.messages.iterations,
            "converged": fit.messages.converged,
        }
        return scores

    def _remarks(self) -> list[str]:
        remarks = remarks_on({k: v for k, v in self.diagnostics_.items() if k != "converged"})
        if not self.diagnostics_["converged"]:
            remarks.append(
                "message passing did not converge: these bags are far from the model; the calibration still holds"
            )
        return remarks

    def _calibrated(self, strength: float | None) -> bool:
        if isinstance(self.calibrate, str):
            if self.calibrate != "auto":
                raise ValueError(f"calibrate must be True, False or 'auto', got {self.calibrate!r}")
            return strength is None or isinstance(self.sparsity, str)
        return true_or_false("calibrate", self.calibrate)

    @property
    def signal_(self) -> np.ndarray:
        return self.ratio_.signal

    @property
    def strength_(self) -> float:
        return self.ratio_.strength

    @property
    def prior_(self) -> Prior:
        return self.ratio_.prior

    @property
    def noise_(self) -> Noise | None:
        return self.ratio_.noise

    @property
    def overlap_(self) -> float:
        return float(self.signal_ @ self.signal_)

    @property
    def sparsity_(self) -> float | int:
        return self.prior_.count if isinstance(self.prior_, ExactCount) else self.prior_.rate

    def _scaler(self, bags: Bags, signs: np.ndarray, whiten: bool) -> BagScaler | None:
        """What scales the tokens; heavy tails that only bags with signal have are left as they are."""
        if true_or_false("scale", self.scale):
            return BagScaler(compress=True).fit(bags, signs)
        # Whitening does not depend on a common unit and origin of the features: numbers of order one lose no digits.
        return BagScaler(clip=False, common=True).fit(bags) if whiten else None

    def _priors(self, bags: Bags) -> list[Prior] | None:
        """The prior from `sparsity`; None for "auto"."""
        if isinstance(self.sparsity, str):
            if self.sparsity != "auto":
                raise ValueError(f"sparsity must be 'auto', a whole number or a rate in (0, 1), got {self.sparsity!r}")
            return None
        if isinstance(self.sparsity, Real) and not isinstance(self.sparsity, Integral) and 0 < self.sparsity < 1:
            return [IndependentRate(float(self.sparsity))]
        count, longest_bag = whole_number("sparsity", self.sparsity, 1), int(bags.lengths.max())
        if count > longest_bag:
            raise ValueError(f"sparsity must be at most the {longest_bag} tokens of the longest bag, got {count}")
        return [ExactCount(count)]

    def _decide(self, bags: Bags) -> np.ndarray:
        scaled = scaled_bags(self.scaler_, bags)
        return self.calibration_(self.side_ * self.ratio_.decide(scaled.tokens, scaled.starts))

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """Each token's log likelihood ratio "signal against noise", one array per bag; in favour of `classes_[1]`."""
        scaled = scaled_bags(self.scaler_, self._checked(X))
        return per_bag(self.side_ * self.ratio_.evidence(scaled.tokens), scaled)

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Each token's probability of carrying the signal if the bag has one, normalised over the bag."""
        scaled = scaled_bags(self.scaler_, self._checked(X))
        return per_bag(self.ratio_.attention(scaled.tokens, scaled.starts), scaled)

    @side_by_side
    def transform(self, X: Any) -> np.ndarray:
        """The (whitened) tokens of each bag averaged with its attention weights, (bags, features)."""
        scaled = scaled_bags(self.scaler_, self._checked(X))
        weights = self.ratio_.attention(scaled.tokens, scaled.starts)
        means = np.asarray(weighted_bag_sum(weights, scaled.tokens, scaled.starts))
        return means if self.noise_ is None else self.noise_.whitened(means)
