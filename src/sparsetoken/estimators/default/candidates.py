"""The candidates of the default learner: each sees one view of the bags and is fitted along a path of ridges.

    pooled       linear in the mean of the lifted tokens
    attention    the paper's attention on the scaled tokens: a query of two gradient steps, then a convex readout
    tied         smooth maximum of the lifted tokens' scores
    statistics   linear in a bag's statistics
    likeness     linear in a kernel of the statistics
    likelihood   likelihood ratio of the paper's model, by message passing (classes only)

Labels are signs with a logistic loss (classes) or standardised numbers with the square loss; nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import kurtosis
from sklearn.linear_model import Ridge

from ...bags.bags import Bags
from ...bags.sums_per_bag import bag_mean
from ...losses import Loss
from ...solvers.erm import fit_erm
from ..calibration import CHANCE_GAIN, Calibration, fit_calibration
from ..labels import own_folds, weights_without_folds
from ..message_passing.likelihood_ratio import QUICK, fit_ratio, held_out_ratios
from ..paper.joint_heads import Head, decisions, fit_heads
from ..paper.linear import ridge_path
from ..paper.staged import attention_features, softmax_attention
from ..paper.two_steps import pooled_tokens, two_gradient_steps
from .views import SAMPLED_TOKENS, TOKEN_VIEWS

FINAL_TOLERANCE = 1e-6


@dataclass(frozen=True)
class LearningProblem:
    """The input of every candidate: y are signs, or numbers of zero mean and unit variance."""

    views: Any
    y: np.ndarray
    weights: np.ndarray
    folds: list[np.ndarray]
    loss: Loss
    seed: int
    classes: bool
    sides: tuple[float, ...] = (1.0, -1.0)
    groups: np.ndarray | None = None

    def calibrated(self, scores: np.ndarray) -> Calibration:
        """The calibration of held-out scores (Platt) and its loss; for numbers, their squared error."""
        if self.classes:
            return fit_calibration(scores, self.y, self.weights)
        return Calibration(loss=float(self.weights @ (scores - self.y) ** 2 / (2.0 * self.weights.sum())))


@dataclass(frozen=True)
class Tried:
    """A candidate at the ridge of least held-out loss: its scores of held-out bags, and what finishes the fit on all bags."""

    name: str
    view: str
    scores: np.ndarray | None
    calibration: Calibration
    finish: Callable[[], Any]
    side: float = 1.0
    one_sided: bool = False
    either_side: bool = False  # held-out bags do not decide between the sides


@dataclass(frozen=True)
class Candidate:
    """A candidate by its name; `kind` is how it is fitted."""

    name: str
    view: str
    kind: str
    ridges: tuple[float, ...] = ()

    def tried(self, problem: LearningProblem) -> Tried:
        """The candidate, validated on the problem's folds."""
        return _KINDS[self.kind](self, problem)


def _linear(candidate: Candidate, problem: LearningProblem) -> Tried:
    """sum_i p_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2 on one feature vector f_i per bag, b free."""
    features, queries = _bag_features(candidate, problem)
    ridges, count = candidate.ridges, len(problem.y)
    best, scores, calibration = len(ridges) // 2, None, Calibration()
    if problem.folds:
        path = np.empty((len(ridges), count))
        for f, held in zip(features, problem.folds):
            rest = np.delete(np.arange(count), held)
            seen, unseen, y, p = f[rest], f[held], problem.y[rest], problem.weights[rest]
            if problem.classes:
                path[:, held] = ridge_path(seen, unseen, y, p, problem.loss, ridges)
            else:
                path[:, held] = [_regression(seen, y, p, ridge).predict(unseen) for ridge in ridges]
        fits = [problem.calibrated(row) for row in path]
        best = int(np.argmin([fit.loss for fit in fits]))
        scores, calibration = path[best], fits[best]

    def finish() -> Head:
        y, p = problem.y, problem.weights
        if not problem.classes:
            solved = _regression(features[-1], y, p, ridges[best])
            return Head("free", queries[-1], solved.coef_, float(solved.intercept_))
        found = fit_erm(features[-1], y, ridges[best], problem.loss, p, tolerance=FINAL_TOLERANCE)
        return Head("free", queries[-1], found.coef, found.bias)

    return Tried(f"{candidate.name} ridge {ridges[best]:g}", candidate.view, scores, calibration, finish)


def _regression(features: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float) -> Ridge:
    """scikit-learn's objective is sum_i p_i (<w, f_i> + b - y_i)^2 + alpha ||w||^2: twice that of `_linear`."""
    return Ridge(alpha=ridge).fit(features, y, sample_weight=weights / weights.sum())


def _bag_features(candidate: Candidate, problem: LearningProblem) -> tuple[list[np.ndarray], np.ndarray]:
    """Attention features X^T softmax(X q) and the queries q, without each fold in turn and last of all bags.

    The query is zero, a mean over tokens, or that of two gradient steps on the bags that are not held out.
    """
    bags, rows = problem.views[candidate.view], weights_without_folds(problem.weights, problem.folds)
    if candidate.kind == "linear":
        mean = np.asarray(bag_mean(bags.tokens, bags.starts) if bags.n_tokens > len(bags) else bags.tokens)
        return [mean] * len(rows), np.zeros((len(rows), bags.n_features))
    queries = two_gradient_steps(bags, pooled_tokens(bags), problem.y, rows, problem.loss).query
    spread = np.std(np.asarray(bags.tokens @ queries.T.astype(bags.dtype), dtype=np.float64), axis=0)
    queries *= (3.0 / np.where(spread > 0, spread, 1.0))[:, None]  # standard deviations: nearly a maximum
    found = np.asarray(bags.per_bag(attention_features, shared=(queries, softmax_attention)))
    return list(found.swapaxes(0, 1)), queries


def _heads(candidate: Candidate, problem: LearningProblem) -> Tried:
    """Tied heads (`joint_heads`) at falling ridges: each fit starts the next, all folds and the whole at once.

    They look for tokens of one class: both classes are tried at the first ridge, and the better one is kept.
    """
    bags, weights = problem.views[candidate.view], weights_without_folds(problem.weights, problem.folds)
    paths = [_path(candidate, problem, bags, weights, side) for side in problem.sides]
    firsts = [next(path) for path in paths]
    chosen = int(np.argmin([step.loss for step in firsts]))
    best = firsts[chosen]
    for step in paths[chosen]:
        if step.loss < best.loss:
            best = step
        # The held-out loss, a sum over bags, has risen by more than its sampling error: smaller ridges will not do better.
        elif len(problem.y) * (step.loss - best.loss) > CHANCE_GAIN:
            break
    side = problem.sides[chosen]
    losses = [step.loss for step in firsts]
    either_side = len(losses) > 1 and len(problem.y) * (max(losses) - min(losses)) < CHANCE_GAIN

    def finish() -> Head:
        y, all_bags = side * problem.y, problem.weights[None, :]
        return fit_heads(bags, y, all_bags, problem.loss, best.ridge, [best.head], FINAL_TOLERANCE)[0]

    name = f"{candidate.name} ridge {best.ridge:g}"
    return Tried(name, candidate.view, best.scores, best.calibration, finish, side, True, either_side)


@dataclass(frozen=True)
class _Step:
    """Heads of one kind at one ridge: the one fitted to all bags, and what those without the folds score."""

    ridge: float
    head: Head
    scores: np.ndarray | None
    calibration: Calibration
    loss: float


def _path(candidate: Candidate, problem: LearningProblem, bags: Any, weights: np.ndarray, side: float) -> Any:
    """The steps of a path of falling ridges."""
    y = side * problem.y
    zero = np.zeros(bags.n_features)  # uniform attention
    heads = [Head("tied", zero, zero, 0.0)] * len(weights)
    for ridge in candidate.ridges:
        heads = fit_heads(bags, y, weights, problem.loss, ridge, heads, 1e-4)  # a tenth of it changes losses by .001
        z = side * decisions(heads, bags)
        if not problem.folds:  # nothing can be held out: choose the side by the training loss, and the first ridge
            loss = float(problem.weights @ problem.loss.value(side * z[-1], y))
            yield _Step(ridge, heads[-1], None, Calibration(), loss)
            return
        scores = own_folds(z, problem.folds)
        calibration = problem.calibrated(scores)
        yield _Step(ridge, heads[-1], scores, calibration, calibration.loss)


def _likelihood(candidate: Candidate, problem: LearningProblem) -> Tried:
    """The likelihood ratio of "some tokens carry theta xi" against Gaussian noise: the best where its model is true."""
    bags, signs, weights = problem.views[candidate.view], problem.y, problem.weights
    fits = [fit_ratio(bags, side * signs, weights, counts=QUICK) for side in problem.sides]
    chosen = int(np.argmin([fit.loss for fit in fits]))
    side, fit = problem.sides[chosen], fits[chosen]
    scores, calibration = None, Calibration()
    if problem.folds:
        grouped = problem.groups is not None
        scores = side * held_out_ratios(bags, side * signs, weights, problem.folds, fit, grouped)
        calibration = problem.calibrated(scores)
    return Tried(candidate.name, candidate.view, scores, calibration, lambda: fit.ratio, side, True)


_KINDS: dict[str, Callable[[Candidate, LearningProblem], Tried]] = {
    "linear": _linear,
    "staged": _linear,
    "tied": _heads,
    "likelihood": _likelihood,
}
# The objective's terms are of order one and the features of unit size: ridges reach from heavy smoothing to nearly none.
CANDIDATES = (
    Candidate("pooled", "lifted", "linear", (0.1, 0.01, 1e-4)),
    Candidate("attention", "tokens", "staged", (0.1, 0.01)),
    Candidate("tied", "lifted", "tied", (0.1, 0.01, 1e-3)),
    Candidate("statistics", "statistics", "linear", (0.1, 0.01)),
    Candidate("likeness", "likeness", "linear", (0.1, 1e-3)),
    Candidate("likelihood", "tokens", "likelihood"),
)


def chosen_candidates(wanted: Any, known: Sequence[Candidate]) -> list[Candidate]:
    """The candidates from a learner's parameter."""
    names = [candidate.name for candidate in known]
    if isinstance(wanted, str) and wanted == "auto":
        return list(known)
    if isinstance(wanted, str) or not all(isinstance(name, str) for name in wanted):
        raise ValueError(f"candidates must be 'auto' or a list of names, got {wanted!r}")
    for name in wanted:
        if name not in names:
            raise ValueError(f"candidates must be among {', '.join(names)}, got {name!r}")
    chosen = [candidate for candidate in known if candidate.name in wanted]
    if not any(candidate.view in TOKEN_VIEWS for candidate in chosen):
        seeing = ", ".join(candidate.name for candidate in known if candidate.view in TOKEN_VIEWS)
        raise ValueError(f"candidates must hold at least one that sees tokens: {seeing}")
    return chosen


def try_candidates(candidates: Sequence[Candidate], problem: LearningProblem) -> list[Tried]:
    """All candidates, validated; the likelihood ratio where tokens look like Gaussian noise, or as the only candidate."""
    bags, others = problem.views.bags, [c for c in candidates if c.kind != "likelihood"]
    if others and not any(looks_gaussian(bags, side * problem.y) for side in problem.sides):
        candidates = others
    tried: list[Tried] = []
    for candidate in candidates:
        tried.append(candidate.tried(problem))
        if candidate.kind == "tied":  # the side of the signal is a property of the bags, found once
            problem = replace(problem, sides=(tried[-1].side,))
    return tried


def looks_gaussian(bags: Bags, signs: np.ndarray) -> bool:
    """Whether there are enough bags and features, and the negative bags' tokens look like Gaussian noise.

    The root mean square of the features' excess kurtosis, beyond sampling error, is 0 for Gaussian noise, 1.8 for uniform
    features, and above 1 on all real sets of docs/learners.md.
    """
    if len(bags) < 200 or bags.n_features < 20 or bags.n_tokens < 2 * bags.n_features:
        return False
    rows = np.flatnonzero(np.repeat(signs < 0, bags.lengths))
    sample = np.asarray(bags.tokens[rows[:: -(-len(rows) // SAMPLED_TOKENS)]], dtype=np.float64)
    if not np.all(np.ptp(sample, axis=0) > 0.0):
        return False
    return float(np.mean(kurtosis(sample) ** 2)) - 24.0 / len(sample) <= 0.2**2
