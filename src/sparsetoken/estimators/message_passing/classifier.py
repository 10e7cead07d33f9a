"""The message-passing classifier: Bayes-optimal on the model, with everything it needs estimated on real bags."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..._core.validation import real_number, whole_number
from ...bags.bags import Bags
from ...bags.scaler import BagScaler, scaled_bags
from ...bags.segments import bag_sum, weighted_bag_sum
from ..base import BagClassifier, per_bag
from ..calibration import Calibration, fit_calibration
from ..readout import held_out_diagnostics, warn_of
from .amp import FINAL, SEARCH, Effort, Fit, Passed, Prior, first_strength, fit_strength, log_ratios, training_ratios
from .noise import Noise, estimate_noise
from .witness_prior import ExactCount, IndependentRate

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)


class MessagePassingClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BagClassifier):
    """Classify by the likelihood ratio of "some tokens carry theta xi" against "all tokens are noise".

    The direction xi is estimated by approximate message passing on the positive bags. On data drawn from the model,
    with its parameters given, this reaches the least error that any known fast method reaches.

    strength      theta, the signal's size against unit noise; "auto": estimated along with the direction
    sparsity      how many tokens of a positive bag carry the signal: a whole number R (exactly that many), a number
                  in (0, 1) (each token independently with that probability), or "auto": whichever of several counts
                  and an estimated rate explains the labels best
    whiten        True: centre and whiten the tokens with the mean and (shrunk) covariance of the negative bags' tokens;
                  False: take the noise to be N(0, I) as it is
    scale         standardise the features over all tokens first, heavy tails drawn in
    calibrate     fit slope and offset of the log odds on the training bags' scores, each without its own contribution;
                  "auto": unless strength and sparsity are both given
    class_weight  None, "balanced" or a dict: weights enter the prior odds and the calibration
    device        where to compute: "auto" (many tokens go to an accelerator if JAX has one), "numpy", "gpu" or "cpu" (JAX)

    After fitting: `signal_` (the direction times the square root of the overlap), `strength_`, `sparsity_`, `overlap_`
    (the squared cosine it expects to have with xi), `diagnostics_`.
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

    def _fit(self, bags: Bags, signs: np.ndarray, weights: np.ndarray) -> None:
        strength = None if self.strength == "auto" else real_number("strength", self.strength, 0.0, open_low=True)
        priors = self._priors(bags, signs)
        odds = float(np.log(weights[signs > 0].sum() / weights[signs < 0].sum()))
        found: list[tuple[Fit, BagScaler | None, Noise, tuple[Bags, Bags]]] = []
        for scaler in self._scalers(bags, signs):
            scaled = scaled_bags(scaler, bags)
            plain = Noise(np.zeros(bags.n_features), None, 1.0, 1.0)
            noise = estimate_noise(scaled[signs < 0].tokens) if self.whiten else plain
            white = _whitened(noise if self.whiten else None, scaled)
            parts = white[signs > 0], white[signs < 0]
            problem = _Problem(*parts, signs, weights / weights.sum(), odds, strength, len(priors) > 1)
            found.append((problem.best(priors), scaler, noise, parts))
        best, self.scaler_, noise, (positive, negative) = min(found, key=lambda one: one[0].loss)
        self.noise_mean_, self.noise_whitening_ = noise.mean, noise.whitening
        self.noise_scale_, self.noise_shrinkage_ = noise.scale, noise.shrinkage
        self._keep(best)
        scores = np.empty(len(signs))
        scores[signs > 0], scores[signs < 0] = training_ratios(positive.starts, negative.tokens, negative.starts, best)
        given = strength is not None and not isinstance(self.sparsity, str)
        wanted = not given if self.calibrate == "auto" else bool(self.calibrate)
        calibration = fit_calibration(scores + odds, signs, weights) if wanted else Calibration()
        self.calibration_slope_ = calibration.slope
        self.calibration_offset_ = calibration.offset + calibration.slope * odds
        self.diagnostics_ |= held_out_diagnostics(scores, signs) | {
            "bags": len(signs),
            "dimensions": bags.n_features,
            "strength": best.strength,
            "sparsity": self.sparsity_,
            "overlap": best.passed.overlap,
            "iterations": best.passed.iterations,
            "converged": best.passed.converged,
        }
        self._n_features_out = bags.n_features
        warn_of(self, {k: v for k, v in self.diagnostics_.items() if k != "converged"})
        if not best.passed.converged:
            self._warn("message passing did not settle: these bags are far from the model; the calibration still holds")

    def _scalers(self, bags: Bags, signs: np.ndarray) -> list[BagScaler | None]:
        """Ways to scale the tokens: heavy tails drawn in, judged on all bags; and on the negative ones, where that differs."""
        if not self.scale:
            return [None]
        ways: list[BagScaler | None] = [BagScaler(compress=True).fit(bags), BagScaler(compress=True).fit(bags, signs)]
        return ways if np.any(ways[0].heavy_ != ways[1].heavy_) else ways[:1]  # type: ignore[union-attr]

    def _priors(self, bags: Bags, signs: np.ndarray) -> list[Prior]:
        """The priors to try, the independent rate first (its place does not matter to the choice)."""
        if isinstance(self.sparsity, str):
            if self.sparsity != "auto":
                raise ValueError(f"sparsity must be 'auto', a whole number or a rate in (0, 1), got {self.sparsity!r}")
            longest = float(np.median(bags.lengths[signs > 0]))
            counts: list[Prior] = [ExactCount(c) for c in COUNTS if c == 1 or c <= longest / 2]
            rate: list[Prior] = [IndependentRate(min(0.5, 1.5 / longest))] if longest > 1 else []
            return rate + counts
        if isinstance(self.sparsity, Real) and not isinstance(self.sparsity, Integral) and 0 < self.sparsity < 1:
            return [IndependentRate(float(self.sparsity))]
        return [ExactCount(whole_number("sparsity", self.sparsity, 1))]

    def _keep(self, fit: Fit) -> None:
        self.signal_, self.strength_, self.overlap_ = fit.passed.signal, fit.strength, fit.passed.overlap
        self.sparsity_ = fit.prior.count if isinstance(fit.prior, ExactCount) else fit.prior.rate

    def _model(self) -> Fit:
        whole = isinstance(self.sparsity_, Integral)
        prior: Prior = ExactCount(int(self.sparsity_)) if whole else IndependentRate(float(self.sparsity_))
        nothing = np.empty(0)
        return Fit(self.strength_, prior, Passed(self.signal_, nothing, nothing, 0, True), float("nan"))

    def _whitened(self, bags: Bags) -> Bags:
        noise = Noise(self.noise_mean_, self.noise_whitening_, self.noise_scale_, self.noise_shrinkage_)
        return _whitened(noise if self.whiten else None, bags)

    def _prepared(self, X: Any) -> Bags:
        return self._whitened(scaled_bags(self.scaler_, self._checked(X)))

    def _decide(self, bags: Bags) -> np.ndarray:
        white = self._whitened(scaled_bags(self.scaler_, bags))
        ratios, _ = log_ratios(white.tokens, white.starts, self._model())
        return Calibration(self.calibration_slope_, self.calibration_offset_)(ratios)

    def token_scores(self, X: Any) -> list[np.ndarray]:
        """Each token's log likelihood ratio "signal against noise", a list of arrays, one a bag."""
        white = self._prepared(X)
        fields = (white.tokens @ self.signal_.astype(white.tokens.dtype)).astype(np.float64)
        evidence = self.strength_ * fields - 0.5 * self.strength_**2 * self.overlap_
        return per_bag(evidence.astype(white.tokens.dtype), white)

    def attention_weights(self, X: Any) -> list[np.ndarray]:
        """Each token's posterior probability of carrying the signal if the bag is positive, normalised over the bag."""
        white = self._prepared(X)
        return per_bag(self._weights(white).astype(white.tokens.dtype), white)

    def _weights(self, white: Bags) -> np.ndarray:
        _, share = log_ratios(white.tokens, white.starts, self._model())
        total = np.maximum(bag_sum(share, white.starts), np.finfo(float).tiny)
        return share / np.repeat(total, white.lengths)

    def transform(self, X: Any) -> np.ndarray:
        """The (whitened) tokens of each bag averaged with its attention weights, (bags, features)."""
        white = self._prepared(X)
        return weighted_bag_sum(self._weights(white), white.tokens, white.starts)


def _whitened(noise: Noise | None, bags: Bags) -> Bags:
    return bags if noise is None else bags.with_tokens(noise.whitened(bags.tokens))


@dataclass(frozen=True)
class _Problem:
    """Training bags of both classes, and what is known beforehand (strength None: unknown)."""

    positive: Bags
    negative: Bags
    signs: np.ndarray
    p: np.ndarray
    odds: float
    strength: float | None
    learn_rate: bool

    def best(self, priors: list[Prior]) -> Fit:
        """The fit under whichever prior explains the labels best."""
        best: Fit | None = None
        worse = 0
        for prior in priors:
            fit = self.fit(prior, SEARCH if len(priors) > 1 else FINAL)
            if best is None or fit.loss < best.loss:
                best, worse = fit, 0
            else:
                worse += isinstance(prior, ExactCount)
            if worse == 2 and isinstance(prior, ExactCount):  # the loss has one valley in the count
                break
        if best is None:
            raise ValueError("sparsity leaves no number of signal tokens that fits these bags")
        return self.fit(best.prior, FINAL, best.strength) if len(priors) > 1 else best

    def fit(self, prior: Prior, effort: Effort, first: float | None = None) -> Fit:
        """Messages, strength (and rate) under one prior, with the labels' loss on the training bags' fields."""
        positive, signs = self.positive, self.signs
        share = float(np.average(prior.expected_share(positive.lengths), weights=positive.lengths))
        theta, prior, passed = fit_strength(
            positive.tokens,
            positive.starts,
            self.p[signs > 0] / self.p[signs > 0].mean(),
            prior,
            self.strength or first or first_strength(positive.tokens, self.negative.tokens, share),
            self.strength is not None,
            self.learn_rate and isinstance(prior, IndependentRate),
            effort,
        )
        fit = Fit(theta, prior, passed, float("nan"))
        ratios = np.empty(len(signs))
        ratios[signs > 0], ratios[signs < 0] = training_ratios(
            positive.starts, self.negative.tokens, self.negative.starts, fit
        )
        loss = float(self.p @ np.logaddexp(0.0, -signs * (ratios + self.odds)))
        return Fit(theta, prior, passed, loss)
