"""The candidates of the default learner: what may vote, each with its own settings and its view of the bags.

A candidate has one method, `validated`: it yields, setting after setting, the scores of bags that the fit behind them has not
seen, and a way to finish the fit on all bags. What it yields says nothing about how it was made, so heads on tokens, linear
and kernel classifiers on a bag's statistics, trees and a likelihood ratio compete on equal terms (`vote`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..bags.bags import Bags
from ..losses import Loss
from .calibration import Calibration, fit_calibration
from .folds import held_out_scores, weights_without_folds
from .heads import Head, decisions, fit_heads, fit_pooled, start_head
from .mean_token import MeanTokens, mean_tokens
from .message_passing.ratio import fit_ratio, held_out_ratios
from .trees import PlainTrees, grow_trees
from .views import TOKEN_VIEWS, Views

# The comparison of candidates does not need more: held-out losses are within .003 of their limits (musk1, hockey posts).
SEARCH_TOLERANCE = 3e-5
FINAL_TOLERANCE = 1e-8
# A path of falling ridges ends where the held-out loss (sum over bags) has risen by this much: with shares of exp(-loss),
# what lies beyond would have a share below one in twenty.
RISEN = 3.0
TREES = 100
# Trees of the forest, and the bags that each is grown on, at most: finding the best places to split costs several times as much
# as splitting anywhere, and the forest is there for tables whose values lie in steps, which few trees see.
FOREST_TREES, FOREST_BAGS = 30, 300
# Share of the features that a tree tries at every split, at least; the usual square root leaves thousands of sparse features
# to chance.
LEAST_FEATURES = 0.05
LEAST_GROUPS = 20  # of bags, from which on samples of groups are like samples of bags
LEAST_LOG_ODDS_COUNT = 1.0  # added to the votes of the trees for and against, so that unanimity is not certainty


class Model(Protocol):
    """A fitted candidate: `decide(bags of its view)` gives one score per bag."""

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """One score per bag."""
        ...


@dataclass(frozen=True)
class Problem:
    """What every candidate is given.

    Attributes
    ----------
    views : Views
        The training bags as the candidates see them.
    signs, weights : ndarray
        Labels and weights of the bags.
    rounds : list of list of ndarray
        The bags to hold out in turn; every round holds out each once. Empty where nothing can be held out.
    loss : Loss
        l of the heads' objectives.
    seed : int
        Of whatever a candidate draws.
    groups : ndarray of int or None
        Bags that stay on one side of every split, the folds' included.
    """

    views: Views
    signs: np.ndarray
    weights: np.ndarray
    rounds: list[list[np.ndarray]]
    loss: Loss
    seed: int
    groups: np.ndarray | None = None

    @property
    def folds(self) -> list[np.ndarray]:
        """The folds of all rounds."""
        return [held for folds in self.rounds for held in folds]

    def calibrated(self, scores: np.ndarray | None) -> Calibration | None:
        """What held-out scores need to become log odds; None where there are none."""
        return None if scores is None else fit_calibration(scores, self.signs, self.weights)


@dataclass(frozen=True)
class Validated:
    """One setting of a candidate.

    Attributes
    ----------
    name : str
        The candidate and its setting.
    view : str
        The view of the bags it looks at.
    scores : ndarray of shape (rounds, bags) or (bags,), or None
        Scores of the training bags by fits that have not seen them; None where nothing could be held out.
    calibration : Calibration or None
        Of these scores.
    finish : callable
        Gives the model, fitted to all bags.
    settles : bool
        Whether no other candidate can do better.
    """

    name: str
    view: str
    scores: np.ndarray | None
    calibration: Calibration | None
    finish: Callable[[], Model]
    settles: bool = False

    @property
    def sees_tokens(self) -> bool:
        """Whether it scores tokens one by one."""
        return self.view in TOKEN_VIEWS


class Candidate(Protocol):
    """Something that may vote."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def view(self) -> str:
        """What it looks at."""
        ...

    def validated(self, problem: Problem) -> Iterator[Validated]:
        """Its settings in turn, each with held-out scores."""
        ...


@dataclass(frozen=True)
class Heads:
    """Heads of one kind on one view, at falling ridges: each fit starts the next, all folds and the whole at once.

    Attributes
    ----------
    name : str
        Of the candidate.
    view, kind : str
        What the heads see, and what they are (`heads`).
    ridges : tuple of float
        Largest first.
    sharpness : float
        s of tied heads.
    drawn_in : bool
        Whether the means that pooled heads see are drawn towards the mean of all tokens where bags are short (`mean_token`).
    """

    name: str
    view: str
    kind: str
    ridges: tuple[float, ...]
    sharpness: float = 1.0
    drawn_in: bool = False

    def validated(self, problem: Problem) -> Iterator[Validated]:
        """One setting per ridge; the path ends where the held-out loss has clearly risen."""
        bags, weights = problem.views[self.view], weights_without_folds(problem.weights, problem.folds)
        signs, loss = problem.signs, problem.loss
        means = mean_tokens(bags, self.drawn_in) if self.kind == "pooled" else None
        if means is not None:
            bags = means.bags
        heads = [start_head(self.kind, bags, signs, row, loss, self.sharpness) for row in weights]
        least = np.inf
        for ridge in self.ridges:
            heads = fit_heads(bags, signs, weights, loss, ridge, heads, SEARCH_TOLERANCE)
            scores = _held_out(heads, bags, problem.rounds)
            calibration = problem.calibrated(scores)
            finish = _finisher(bags, problem, ridge, heads[-1], means)
            yield Validated(f"{self.name} ridge {ridge:g}", self.view, scores, calibration, finish)
            if calibration is not None:
                if len(signs) * calibration.loss > least + RISEN:
                    return
                least = min(least, len(signs) * calibration.loss)


def chosen_candidates(wanted: Any, known: Sequence[Any], default: Sequence[str]) -> list[Any]:
    """What the parameter `candidates` of a learner stands for.

    Parameters
    ----------
    wanted : "auto" or sequence of str
        The parameter.
    known : sequence of Candidate
        All that there are.
    default : sequence of str
        The names that "auto" stands for.

    Returns
    -------
    list of Candidate
        In the order of `known`.

    Raises
    ------
    ValueError
        If a name is unknown, or none of the candidates sees tokens.
    """
    names = default if isinstance(wanted, str) and wanted == "auto" else wanted
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"candidates must be 'auto' or a list of names, got {wanted!r}")
    there = [candidate.name for candidate in known]
    for name in names:
        if name not in there:
            raise ValueError(f"candidates must be among {', '.join(there)}, got {name!r}")
    chosen = [candidate for candidate in known if candidate.name in names]
    if not any(candidate.view in TOKEN_VIEWS for candidate in chosen):
        seeing = ", ".join(candidate.name for candidate in known if candidate.view in TOKEN_VIEWS)
        raise ValueError(f"candidates must hold at least one that sees tokens: {seeing}")
    return chosen


def _held_out(heads: list[Head], bags: Bags, rounds: list[list[np.ndarray]]) -> np.ndarray | None:
    """(rounds, bags): scores by the heads, one per fold, that have not seen the bag."""
    if not rounds:
        return None
    scores, by_head = np.empty((len(rounds), len(bags))), iter(decisions(heads, bags))
    for own, folds in zip(scores, rounds):
        for held, z in zip(folds, by_head):
            own[held] = z[held]
    return scores


def _finisher(bags: Bags, problem: Problem, ridge: float, head: Head, means: MeanTokens | None) -> Callable[[], Head]:
    """The head as fitted to all bags by the search, taken to the final tolerance, and from mean tokens to tokens."""

    def finish() -> Head:
        if means is not None:
            return means.on_tokens(fit_pooled(bags.tokens, problem.signs, problem.weights, problem.loss, ridge, head))
        weights = problem.weights[None, :]
        return fit_heads(bags, problem.signs, weights, problem.loss, ridge, [head], FINAL_TOLERANCE)[0]

    return finish


@dataclass(frozen=True)
class Likelihood:
    """The likelihood ratio of "some tokens carry theta xi" against Gaussian noise, by message passing (`ratio`).

    Where its model is true nothing does better, and little is as quick. It is therefore tried first, but only where the tokens
    look as they do in the model, unless it is the only candidate.
    """

    name: str = "likelihood"
    view: str = "tokens"

    def validated(self, problem: Problem) -> Iterator[Validated]:
        """One setting: strength, direction and number of signal tokens are all fitted."""
        bags, signs, weights = problem.views[self.view], problem.signs, problem.weights
        fitted = fit_ratio(bags, signs, weights)
        scores = None
        if problem.rounds:
            scores = held_out_ratios(bags, signs, weights, problem.rounds[0], fitted, problem.groups is not None)
        calibration = problem.calibrated(scores)
        settles = calibration is not None and fitted.holds(calibration, bags, signs, weights)
        yield Validated(self.name, self.view, scores, calibration, lambda: fitted.ratio, settles)


@dataclass(frozen=True)
class Trees:
    """Randomised trees on a bag's statistics: they see interactions of features, and leave most features alone.

    Every tree is grown on a bootstrap sample, so that the bags it has not seen score it: no fold is needed. Bags of one group
    are drawn together. Where there are few groups, half of them would be too little for a tree to see: then trees are grown on
    a sample of the bags, and each fold is scored by trees grown without it.

    Attributes
    ----------
    name, view : str
        Of the candidate, and what it looks at.
    count : int
        How many trees.
    best : bool
        Whether they split a feature where that tells most, or anywhere.
    most : int or None
        The most bags that a tree is grown on.
    """

    name: str = "trees"
    view: str = "statistics"
    count: int = TREES
    best: bool = False
    most: int | None = None

    def validated(self, problem: Problem) -> Iterator[Validated]:
        """One setting; held-out scores are the votes of the trees that have not seen the bag."""
        bags = problem.views[self.view]
        count, d = len(problem.weights), bags.n_features
        weights, positive = problem.weights / problem.weights.mean(), (problem.signs > 0).astype(float)
        tried = max(LEAST_FEATURES, 1.0 / np.sqrt(d))

        few = problem.groups is not None and len(np.unique(problem.groups)) < LEAST_GROUPS
        together = None if few else problem.groups

        def grown(rows: np.ndarray) -> tuple[PlainTrees, np.ndarray]:
            own = None if together is None else together[rows]
            given = bags.tokens[rows], positive[rows], weights[rows], self.count, tried, problem.seed
            return grow_trees(*given, groups=own, best=self.best, most=self.most)

        trees, share = grown(np.arange(count))
        if few and problem.rounds:
            share = held_out_scores(problem.rounds[0], count, lambda rest, held: grown(rest)[0].mean(bags.tokens[held]))
        prior = float(np.average(positive, weights=problem.weights))  # of a bag that every tree has seen
        scores = _log_odds(np.where(np.isfinite(share), share, prior), self.count) if problem.rounds else None
        yield Validated(self.name, self.view, scores, problem.calibrated(scores), lambda: Forest(trees))


def _log_odds(share: np.ndarray, count: int) -> np.ndarray:
    added = LEAST_LOG_ODDS_COUNT
    return np.log((count * share + added) / (count * (1.0 - share) + added))


@dataclass(frozen=True)
class Forest:
    """Fitted trees, behind the interface of a head.

    Attributes
    ----------
    trees : PlainTrees
        As grown.
    """

    trees: PlainTrees

    def decide(self, tokens: Any, starts: np.ndarray) -> np.ndarray:
        """Log odds of the trees' votes, one per bag."""
        return _log_odds(self.trees.mean(tokens), len(self.trees.roots))


# From nearly the direction between the class means to less than logistic regression with C = 1 has on some hundred bags. With
# few bags of many features the mean token may be all that can be learnt from: kernels only blur it.
MEAN_RIDGES = (5.0, 0.5, 0.05, 0.005, 5e-4)
# Each fit starts the next. The objective's terms are of order one and the features of unit size. How low the
# ridges go and which candidates there are was settled on the sets that docs/learners.md names; the linear head's ridge and
# sharpness are those at which the trajectory theory has it next to the Bayes limit.
KNOWN: tuple[Candidate, ...] = (
    Heads("linear", "tokens", "tied", (0.5, 0.15, 0.05), sharpness=2.0),
    Heads("mean", "tokens", "pooled", MEAN_RIDGES, drawn_in=True),
    Heads("pooled", "lifted", "pooled", (0.1, 0.01, 1e-3, 1e-4)),
    Heads("tied", "lifted", "tied", (0.1, 0.01, 1e-3)),
    Heads("free", "lifted", "free", (0.1, 0.03, 3e-3)),
    Heads("even", "even", "tied", (0.1, 0.01, 1e-3)),
    Heads("statistics", "statistics", "pooled", (0.1, 0.01, 1e-3)),
    Heads("likeness", "likeness", "pooled", (0.1, 0.01, 1e-4)),
    Trees(),
    Trees("forest", count=FOREST_TREES, best=True, most=FOREST_BAGS),
    Likelihood(),
)
# All but the free heads: they double the time of a fit, and on none of the sets did the vote gain by them.
DEFAULT = tuple(candidate.name for candidate in KNOWN if candidate.name != "free")
