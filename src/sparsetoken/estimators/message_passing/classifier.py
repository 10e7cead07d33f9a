"""The message-passing classifier: Bayes-optimal on the model, with everything it needs estimated on real bags."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..._core.validation import real_number, true_or_false, whole_number
from ...bags.bags import Bags
from ...bags.scaler import BagScaler, heavy_features, scaled_bags
from ...bags.scratch import row_blocks
from ...bags.segments import bag_sum, rows_of, weighted_bag_sum
from ..base import BaseBagClassifier, each_class, per_bag, remarks_on, side_by_side
from ..calibration import Calibration, final_calibration, fit_calibration
from ..folds import held_out_scores, stratified_folds
from ..readout import held_out_diagnostics
from .amp import ONE_DIRECTION, SEARCH, Fit, Prior, excess_variance, token_evidence
from .fitting import ENOUGH, TwoClasses, refitted_ratios, two_classes, usual_priors
from .noise import AnyNoise, Noise, NoiseTokens, centred_bags, estimate_noise, single_bags, whitened_bags
from .witness_prior import ExactCount, IndependentRate

# Features beyond this have squares (and strengths times squares) that double precision cannot hold.
LARGEST_UNSCALED = 1e140
# Held-out AUC from which one direction evidently does well enough.
WELL_FOUND = 0.8


class _Found(NamedTuple):
    """A fit under one way to scale the tokens: what it was made of, the scaled bags of both classes included."""

    fit: Fit
    problem: TwoClasses
    scaler: BagScaler | None
    noise: Noise | None
    positive: Bags
    negative: Bags
    tokens: NoiseTokens | None


class MessagePassingClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseBagClassifier):
    """Classify by the likelihood ratio of "some tokens carry theta xi" against "all tokens are noise".

    The direction xi is estimated by approximate message passing on the positive bags. On data drawn from the model,
    with its parameters given, this reaches the least error that any known fast method reaches.

    Parameters
    ----------
    strength : float or "auto"
        theta, the signal's size against unit noise; "auto": estimated along with the direction.
    sparsity : int, float or "auto"
        How many tokens of a positive bag carry the signal: a whole number R (exactly that many), a number in (0, 1)
        (each token independently with that probability), or "auto": whichever of several counts and an estimated rate
        explains the labels best.
    whiten : bool
        Whether the tokens are centred and whitened with the mean and (shrunk) covariance of the negative bags' tokens;
        otherwise the noise is taken to be N(0, I) as it is.
    scale : bool
        Whether the features are standardised over all tokens first, heavy tails compressed.
    calibrate : bool or "auto"
        Whether slope and offset of the log odds are fitted, to the scores of held-out bags or (from a thousand bags on)
        to those of the training bags, each without its own contribution; "auto": unless strength and sparsity are both
        given.
    class_weight : None, "balanced" or dict
        Weights of the classes; they enter the prior odds and the calibration.
    device : str
        Where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX).

    Attributes
    ----------
    signal_ : ndarray of shape (features,)
        The direction times the square root of the overlap.
    strength_ : float
        theta.
    sparsity_ : int or float
        The number of signal tokens per bag, or each token's probability.
    overlap_ : float
        The squared cosine that the direction is expected to have with xi.
    spared_ : bool
        Whether heavy tails that only positive bags have were left as they are.
    prior_ : ExactCount or IndependentRate
        Which tokens carry the signal.
    noise_ : Noise or None
        What whitens the tokens.
    calibration_ : Calibration
        What turns log likelihood ratios into log odds.
    diagnostics_ : dict
        What the training found out about itself.
    """

    def __init__(
        self,
        strength: float | str = "auto",
        sparsity: float | int | str = "auto",
        whiten: bool = True,
        scale: bool = True,
        calibrate: bool | str = "auto",
        class_weight: Any = None,
        device: str = "auto",
    ):
        self.strength = strength
        self.sparsity = sparsity
        self.whiten = whiten
        self.scale = scale
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.device = device

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None) -> np.ndarray | None:
        strength = self._given_strength()
        whiten = true_or_false("whiten", self.whiten)
        calibrate = self._calibrated(strength)
        priors = self._priors(bags, signs)
        found: list[_Found] = []
        for scaler in self._scalers(bags, signs):
            scaled = scaled_bags(scaler, bags)
            positive, negative = scaled[signs > 0], scaled[signs < 0]
            del scaled
            tokens = NoiseTokens(negative.tokens) if whiten else None
            noise = None if tokens is None else tokens.noise()
            problem = TwoClasses.of(
                whitened_bags(noise, positive),
                whitened_bags(noise, negative),
                signs,
                weights,
                strength,
                len(priors) > 1,
            )
            found.append(_Found(problem.best(priors), problem, scaler, noise, positive, negative, tokens))
        chosen = min(range(len(found)), key=lambda k: found[k].fit.loss)
        best, problem, self.scaler_, self.noise_ = found[chosen][:4]
        self.spared_ = chosen > 0
        self.signal_, self.strength_, self.prior_ = best.passed.signal, best.strength, best.prior
        scores = None
        if calibrate and (len(signs) < ENOUGH or groups is not None):
            scores = self._held_out_ratios(bags, signs, weights, groups, found[chosen])
        if scores is None:
            scores = problem.training_ratios(best)
        odds = problem.odds
        self.calibration_ = Calibration(1.0, odds)
        if calibrate:
            fitted = fit_calibration(scores + odds, signs, weights)
            settled = final_calibration(
                fitted, signs, weights, len(priors) * len(found), scores=scores + odds, groups=groups
            )
            self.calibration_ = replace(settled, offset=settled.offset + settled.slope * odds)
        self.diagnostics_ |= held_out_diagnostics(scores, signs) | {
            "bags": len(signs),
            "dimensions": bags.n_features,
            "strength": best.strength,
            "sparsity": self.sparsity_,
            "overlap": best.passed.overlap,
            "iterations": best.passed.iterations,
            "converged": best.passed.converged,
            "excess_variance": excess_variance(problem.positive.tokens, best.passed.share),
        }
        self._n_features_out = bags.n_features
        return scores

    def _held_out_ratios(
        self, bags: Bags, signs: np.ndarray, weights: np.ndarray, groups: np.ndarray | None, found: _Found
    ) -> np.ndarray | None:
        """Log likelihood ratios of each bag under fits that never saw it, the prior as found; None for a lone bag."""
        folds = stratified_folds(signs, np.random.default_rng(0), groups=groups)
        if not folds:
            return None
        strength, fit, tokens = self._given_strength(), found.fit, found.tokens

        def refitted(rest: np.ndarray, held: np.ndarray) -> np.ndarray:
            """Scaling that has looked at the labels must not look at those of the bags held out."""
            scaler = BagScaler(compress=True).fit(bags[rest], signs[rest])
            seen, y = scaled_bags(scaler, bags[rest]), signs[rest]
            noise = estimate_noise(seen[y < 0].tokens) if found.noise is not None else None
            problem = two_classes(whitened_bags(noise, seen), y, weights[rest], strength, False)
            fresh = whitened_bags(noise, scaled_bags(scaler, bags[held]))
            refit = Fit(*problem.messages(fit.prior, SEARCH, fit.strength), float("nan"))
            return refit.ratios(fresh.tokens, fresh.starts)

        if self.spared_:
            return held_out_scores(folds, len(signs), refitted)
        positive, negative = found.positive, found.negative
        center = None
        if found.scaler is not None:  # scaled tokens are of a size at which single precision is ample, and quicker
            positive, negative = single_bags(positive), single_bags(negative)
        elif found.noise is not None:  # tokens that nobody has scaled may be far from zero
            center = found.noise.mean
            positive, negative = centred_bags(positive, center), centred_bags(negative, center)

        def noise_without(held: np.ndarray) -> AnyNoise | None:
            if tokens is None or found.noise is None:
                return None
            noise = tokens.without(rows_of(negative.starts[held], negative.lengths[held]), found.noise.shrinkage)
            return noise if center is None else replace(noise, mean=noise.mean - center)

        return refitted_ratios(positive, negative, signs, weights, folds, fit, strength, noise_without)

    def _given_strength(self) -> float | None:
        return None if self.strength == "auto" else real_number("strength", self.strength, 0.0, open_low=True)

    def _remarks(self) -> list[str]:
        remarks = remarks_on({k: v for k, v in self.diagnostics_.items() if k != "converged"})
        if self.diagnostics_["excess_variance"] > ONE_DIRECTION and self.diagnostics_["held_out_auc"] < WELL_FOUND:
            remarks.append(
                f"the signal tokens vary along more than one direction ({self.diagnostics_['excess_variance']:.1f} times the "
                "variance of noise): BagClassifier can follow several"
            )
        if not self.diagnostics_["converged"]:
            remarks.append(
                "message passing did not settle: these bags are far from the model; the calibration still holds"
            )
        return remarks

    def _calibrated(self, strength: float | None) -> bool:
        if isinstance(self.calibrate, str):
            if self.calibrate != "auto":
                raise ValueError(f"calibrate must be True, False or 'auto', got {self.calibrate!r}")
            return strength is None or isinstance(self.sparsity, str)
        return true_or_false("calibrate", self.calibrate)

    @property
    def overlap_(self) -> float:
        """The squared cosine that the direction is expected to have with xi."""
        return float(self.signal_ @ self.signal_)

    @property
    def sparsity_(self) -> float | int:
        """The number of signal tokens per bag, or each token's probability."""
        return self.prior_.count if isinstance(self.prior_, ExactCount) else self.prior_.rate

    def _scalers(self, bags: Bags, signs: np.ndarray) -> list[BagScaler | None]:
        """Ways to scale the tokens: heavy tails compressed, those of the positive bags' own as well or not."""
        if not true_or_false("scale", self.scale):
            largest = max(float(np.abs(bags.tokens[block]).max()) for block in row_blocks(bags.tokens))
            if largest > LARGEST_UNSCALED:
                raise ValueError(f"scale must be True for features as large as {largest:.3g}: their squares overflow")
            return [None]
        plain = BagScaler(compress=True).fit(bags)
        if np.array_equal(heavy_features(bags, signs), plain.heavy_):  # no tail is the positive bags' own
            return [plain]
        return [plain, BagScaler(compress=True).fit(bags, signs)]

    def _priors(self, bags: Bags, signs: np.ndarray) -> list[Prior]:
        """The priors to try."""
        if isinstance(self.sparsity, str):
            if self.sparsity != "auto":
                raise ValueError(f"sparsity must be 'auto', a whole number or a rate in (0, 1), got {self.sparsity!r}")
            return usual_priors(bags, signs)
        if isinstance(self.sparsity, Real) and not isinstance(self.sparsity, Integral) and 0 < self.sparsity < 1:
            return [IndependentRate(float(self.sparsity))]
        count, longest_bag = whole_number("sparsity", self.sparsity, 1), int(bags.lengths[signs > 0].max())
        if count > longest_bag:
            raise ValueError(
                f"sparsity must be at most the {longest_bag} tokens of the longest positive bag, got {count}"
            )
        return [ExactCount(count)]

    def _prepared(self, bags: Bags) -> Bags:
        return whitened_bags(self.noise_, scaled_bags(self.scaler_, bags))

    def _posterior(self, white: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Log likelihood ratios of the bags, and the tokens' signal probabilities if their bag is positive."""
        evidence = token_evidence(white.tokens, self.signal_, self.strength_)
        ratios, share = self.prior_.posterior(evidence, white.starts)
        return np.asarray(ratios), np.asarray(share)

    def _decide(self, bags: Bags) -> np.ndarray:
        return self.calibration_(self._posterior(self._prepared(bags))[0])

    @each_class
    def token_scores(self, X: Any) -> list[np.ndarray]:
        """Each token's log likelihood ratio "signal against noise", one array per bag."""
        white = self._prepared(self._checked(X))
        evidence = token_evidence(white.tokens, self.signal_, self.strength_)
        return per_bag(evidence.astype(white.tokens.dtype), white)

    @each_class
    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Each token's probability of carrying the signal if the bag is positive, normalised over the bag."""
        white = self._prepared(self._checked(X))
        return per_bag(self._weights(white).astype(white.tokens.dtype), white)

    def _weights(self, white: Bags) -> np.ndarray:
        _, share = self._posterior(white)
        total = np.maximum(bag_sum(share, white.starts), np.finfo(float).tiny)
        return share / np.repeat(total, white.lengths)

    @side_by_side
    def transform(self, X: Any) -> np.ndarray:
        """The (whitened) tokens of each bag averaged with its attention weights, (bags, features)."""
        white = self._prepared(self._checked(X))
        return weighted_bag_sum(self._weights(white), white.tokens, white.starts)
