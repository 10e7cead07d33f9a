"""What the bags at hand look like to the theory: strength, sparsity, prevalence, effective dimension, each with its error.

Message passing on the (scaled, whitened) bags gives the effective strength mu = theta sqrt(m) that its token fields show,
each bag's own contribution removed. The theory says how much of the direction n bags reveal, m(theta), so theta solves
theta sqrt(m(theta)) = mu. The effective dimension is the number of directions over which the noise spreads,
(tr C)^2/tr(C^2), with the sampling bias of the denominator taken off. Errors are jackknifed over groups of bags.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .._core.rootfind import falling_root, first_valley
from ..estimators.message_passing.witness_prior import COUNTS, ExactCount
from ..laws.measures import shares_beaten
from ..task import Task
from ..theory import bayes_limit

GROUPS = 6
STRONGEST = 15.0  # effective strengths at this value are at the end of message passing's search
HEAVY = 1.0  # excess kurtosis from which tails are drawn in
_LEAST = 12  # bags of each class
MOST_VALUES = 12  # lengths in a law of lengths
_FACTORS = np.geomspace(0.2, 3.2, 25)  # strengths of single bags, as multiples of the common one
_MEANS = (0.85, 0.92, 1.0, 1.08, 1.16)  # of the factors: the common strength is the likeliest for bags all alike
_VARIATIONS = (0.15, 0.25, 0.4, 0.6, 0.9)  # of the factors, deviation over mean
_STRENGTHS = 5  # equally likely strengths that stand for a law of them
_ROUNDS = 200  # of expectation maximisation
_RARE = 0.03  # shares of counts below this are noise


@dataclass(frozen=True)
class Estimate:
    """The task behind a set of bags, as far as they show it.

    Attributes
    ----------
    task : Task
        The nearest task of the theory (mean length, whole number of signal tokens).
    n, d : int
        Bags and features as they are.
    dimension, dimension_error : float
        Effective dimension, and its standard error.
    effective_strength : float
        mu, what message passing sees.
    strength_error, prevalence_error : float
        Standard errors of the task's fields (NaN: the strength is at the search's end).
    lengths : tuple of int
        Shortest and longest bag.
    signal_found : bool
        Whether held-out fields separate the classes beyond chance.
    remarks : tuple of str
        What makes these bags differ from the theory's.
    length_law, sparsity_law, strength_law : tuple of (value, probability)
        How bags differ: tokens per bag, signal tokens per positive bag, and strength in a positive bag. One value with
        probability 1 where the bags do not show that they differ (by the Bayesian information criterion).
    """

    task: Task
    n: int
    d: int
    dimension: float
    dimension_error: float
    effective_strength: float
    strength_error: float
    prevalence_error: float
    lengths: tuple[int, int]
    signal_found: bool
    remarks: tuple[str, ...] = ()
    length_law: tuple[tuple[int, float], ...] = ()
    sparsity_law: tuple[tuple[int, float], ...] = ()
    strength_law: tuple[tuple[float, float], ...] = ()

    def differing_task(self, most_kinds: int | None = None) -> Task:
        """The task with length, sparsity and strength as they spread over the bags (no bag shorter than its signal).

        Parameters
        ----------
        most_kinds : int, optional
            Kinds of bags allowed: neighbouring lengths are put together, though not to fewer than two, until there are no
            more. The theory's time grows with their number.

        Returns
        -------
        Task
        """
        least = max(count for count, _ in self.sparsity_law)
        law = self.length_law
        if most_kinds is not None:
            law = _fewer(law, max(2, most_kinds // (len(self.sparsity_law) * len(self.strength_law))))
        lengths = dict[str, float]()
        for length, share in law:
            key = str(max(length, least))
            lengths[key] = lengths.get(key, 0.0) + share
        return self.task.but(length=lengths, sparsity=dict(self.sparsity_law), strength=dict(self.strength_law))

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain data."""
        plain = asdict(self) | {"task": self.task.to_dict(), "lengths": list(self.lengths)}
        plain |= {"remarks": list(self.remarks)}
        laws = ("length_law", "sparsity_law", "strength_law")
        return plain | {name: [list(pair) for pair in getattr(self, name)] for name in laws}


def effective_dimension(tokens: np.ndarray) -> float:
    """(tr C)^2/tr(C^2) of the tokens' covariance C; for few tokens its bias, (tr S)^2/N in tr(S^2), is taken off."""
    x = np.asarray(tokens, dtype=np.float64)
    x = x - x.mean(axis=0)
    N, d = x.shape
    if d <= N:
        S = x.T @ x / (N - 1)
        trace, square = float(np.trace(S)), float((S * S).sum())
    else:
        gram = x @ x.T / (N - 1)
        trace, square = float(np.trace(gram)), float((gram * gram).sum())
    unbiased = max(square - trace**2 / N, trace**2 / d)
    return float(np.clip(trace**2 / unbiased, 1.0, d))


def strength_behind(task: Task, effective: float, alpha: float) -> float:
    """theta with theta sqrt(m(theta)) = mu, m what message passing learns of the direction from alpha = n/d bags."""

    def gap(theta):
        return effective - theta * bayes_limit(task.at_strength(theta), alpha).reachable_overlap ** 0.5

    # The strength exceeds what is seen of it; where next to nothing is learnt it is anyone's guess, hence the upper end.
    return falling_root(gap, 1.05 * effective, 0.999 * effective, 4 * effective + 4, precision=3e-3).x


@dataclass(frozen=True)
class _Seen:
    """What message passing sees with exactly `count` signal tokens per positive bag.

    Attributes
    ----------
    count : int
        Signal tokens per positive bag.
    effective : float
        mu = theta sqrt(m): the scale of the fields themselves, which errors of both factors leave alone.
    evidence : float
        Mean log likelihood ratio of the positive bags, each without its own contribution.
    auc : float
        Of positive against negative bags' likelihood ratios.
    converged : bool
        Whether the messages settled.
    fields, starts : ndarray
        Fields of the positive bags' tokens, each bag's own contribution removed, and where each bag begins.
    """

    count: int
    effective: float
    evidence: float
    auc: float
    converged: bool
    fields: np.ndarray
    starts: np.ndarray


def _white_classes(scaled: Any, positive: np.ndarray) -> Any:
    """The bags of both classes, the negative ones' noise made white, for message passing."""
    from ..estimators.message_passing.fitting import two_classes
    from ..estimators.message_passing.noise import estimate_noise, whitened_bags

    white = whitened_bags(estimate_noise(scaled[~positive].tokens), scaled)
    return two_classes(white, np.where(positive, 1.0, -1.0), np.ones(len(positive)), None, False)


def _look(classes: Any, positive: np.ndarray, count: int) -> _Seen:
    from ..estimators.message_passing.amp import FINAL

    found = classes.fit(ExactCount(count), FINAL)
    ratios = classes.training_ratios(found)
    auc = float(shares_beaten(ratios[positive], ratios[~positive]).mean())
    effective = min(found.strength * found.passed.overlap**0.5, STRONGEST)
    fields, starts = np.asarray(found.passed.fields), classes.positive.starts
    return _Seen(count, float(effective), float(ratios[positive].mean()), auc, found.passed.converged, fields, starts)


def _best_count(scaled: Any, positive: np.ndarray) -> _Seen:
    """The number of signal tokens with the most evidence; the search ends once two more have less."""
    most = float(np.median(scaled.lengths[positive])) / 2
    classes = _white_classes(scaled, positive)
    seen = (_look(classes, positive, count) for count in COUNTS if count == 1 or count <= most)
    return first_valley(seen, lambda found: -found.evidence)[0]


def law_of_lengths(lengths: np.ndarray) -> tuple[tuple[int, float], ...]:
    """Tokens per bag with their shares; neighbouring lengths are put together so that no more than `MOST_VALUES` are left."""
    values, counts = np.unique(lengths, return_counts=True)
    if len(values) > MOST_VALUES:
        parts = np.array_split(np.sort(lengths), MOST_VALUES)  # as many bags in each
        values = np.array([max(1, round(float(part.mean()))) for part in parts])
        values, places = np.unique(values, return_inverse=True)
        counts = np.bincount(places, weights=[len(part) for part in parts])
    return tuple((int(v), float(c / len(lengths))) for v, c in zip(values, counts))


def _fewer(law: tuple[tuple[int, float], ...], most: int) -> tuple[tuple[int, float], ...]:
    """The law with neighbouring values put together at their mean, in `most` groups of about the same probability."""
    if len(law) <= most:
        return law
    groups: dict[int, list[tuple[int, float]]] = {}
    before = 0.0
    for value, share in law:
        groups.setdefault(min(most - 1, int(most * (before + 0.5 * share))), []).append((value, share))
        before += share
    merged = [(sum(v * p for v, p in group), sum(p for _, p in group)) for group in groups.values()]
    return tuple((max(1, round(total / share)), share) for total, share in merged)


def _spread(seen: _Seen, strength: float) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[float, float], ...]]:
    """Laws of the number of signal tokens and of the strength over the positive bags.

    A signal token's field is N(s mu, 1) where the bag's strength is s times the common one. The shares of the counts are
    those with the largest likelihood (expectation maximisation at s = 1), then s is log-normal with the likeliest mean and
    variation. A law replaces a single value where its likelihood pays for its parameters (log(n1)/2 each).
    """
    lengths = np.diff(np.append(seen.starts, len(seen.fields)))
    n1, most = len(lengths), float(np.median(lengths)) / 2
    price = 0.5 * math.log(n1)

    def ratios(count: int, factor: float) -> np.ndarray:
        mu = factor * seen.effective
        return np.asarray(ExactCount(count).posterior(mu * seen.fields - 0.5 * mu**2, seen.starts)[0], dtype=float)

    counts = [count for count in COUNTS if count in (1, seen.count) or count <= most]
    shares = _mixture(np.stack([ratios(count, 1.0) for count in counts], axis=1), counts.index(seen.count), price)
    sparsity = tuple((counts[k], float(shares[k])) for k in np.flatnonzero(shares))
    logs = np.stack(
        [[ratios(count, f) + math.log(p) for f in _FACTORS] for count, p in sparsity]
    )  # (counts, factors, bags)
    by_factor = np.logaddexp.reduce(logs, axis=0)
    alike = float(
        np.logaddexp.reduce(np.stack([ratios(count, 1.0) + math.log(p) for count, p in sparsity]), axis=0).sum()
    )
    best, weights = alike + 2 * price, None
    for mean in _MEANS:
        for variation in _VARIATIONS:
            width = math.sqrt(math.log1p(variation**2))
            density = np.exp(-0.5 * ((np.log(_FACTORS / mean) + 0.5 * width**2) / width) ** 2)
            density = density / density.sum()  # the factors are even on a logarithmic scale
            total = float(np.logaddexp.reduce(by_factor + np.log(density + 1e-300)[:, None], axis=0).sum())
            if total > best:
                best, weights = total, density
    if weights is None:
        return sparsity, ((strength, 1.0),)
    ends = np.searchsorted(np.cumsum(weights), (np.arange(_STRENGTHS) + 0.5) / _STRENGTHS)
    values, times = np.unique(ends.clip(max=len(_FACTORS) - 1), return_counts=True)
    return sparsity, tuple((float(strength * _FACTORS[v]), float(t / _STRENGTHS)) for v, t in zip(values, times))


def _mixture(log_ratios: np.ndarray, single: int, price: float) -> np.ndarray:
    """Shares of the columns, (bags, columns) of log likelihood ratios; all in column `single` where more do not pay."""
    shares = np.full(log_ratios.shape[1], 1.0 / log_ratios.shape[1])
    for _ in range(_ROUNDS):
        joint = log_ratios + np.log(shares + 1e-300)
        shares = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None]).mean(0)
    shares = np.where(shares < _RARE, 0.0, shares)
    shares = shares / shares.sum()
    mixed = float(np.logaddexp.reduce(log_ratios + np.log(shares + 1e-300), axis=1).sum())
    alone = np.zeros_like(shares)
    alone[single] = 1.0
    gain = mixed - float(log_ratios[:, single].sum())
    return shares if gain > price * (np.count_nonzero(shares) - 1) and gain > 0 else alone


def estimate(X: Any, y: Any) -> Estimate:
    """Estimate the task behind labelled bags.

    Parameters
    ----------
    X : Bags or anything that `Bags` takes
        The bags.
    y : array-like
        One label per bag, of two.

    Returns
    -------
    Estimate
        The task, with standard errors.

    Raises
    ------
    ValueError
        If there are not two classes with at least 12 bags each.
    """
    from ..bags import Bags, BagScaler

    bags = X if isinstance(X, Bags) else Bags(X)
    labels = np.asarray(y)
    classes = np.unique(labels)
    if labels.shape != (len(bags),):
        raise ValueError(f"y must have one label per bag ({len(bags)}), got shape {labels.shape}")
    if len(classes) != 2:
        raise ValueError(f"y must hold two classes, got {len(classes)}")
    positive = labels == classes[1]
    n1, n0 = int(positive.sum()), int((~positive).sum())
    for name, count in (("positive", n1), ("negative", n0)):
        if count < _LEAST:
            raise ValueError(f"an estimate needs at least {_LEAST} {name} bags, got {count}")
    # Scaled by the negative bags' tokens: strength is measured against the noise, which the signal must not inflate.
    scaler = BagScaler(clip=False).fit(bags[~positive])
    heavy = _excess_kurtosis(scaler.scaled(bags[~positive].tokens)) > HEAVY
    if heavy:  # a few extreme tokens would pass for strong signals
        scaler = BagScaler(compress=True, clip=False).fit(bags[~positive])
    scaled = bags.with_tokens(scaler.scaled(bags.tokens))
    seen = _best_count(scaled, positive)
    groups = _groups(positive)
    dimensions, effective = [], []
    for g in range(GROUPS):
        rows = np.flatnonzero(groups != g)
        dimensions.append(effective_dimension(scaled[rows[~positive[rows]]].tokens))
        classes = _white_classes(scaled[rows], positive[rows])
        effective.append(_look(classes, positive[rows], seen.count).effective)
    dimension = effective_dimension(scaled[~positive].tokens)
    lengths = bags.lengths
    length = max(1, round(float(lengths[positive].mean())))
    pi = float(positive.mean())
    task = Task(length, min(seen.count, length), seen.effective, pi)
    theta = strength_behind(task, seen.effective, len(bags) / dimension)
    # Chance alone spreads an AUC by this much; the best of several counts was taken, hence three times.
    found = seen.auc > 0.5 + 3 * ((n1 + n0 + 1) / (12 * n1 * n0)) ** 0.5
    remarks = _remarks(lengths, seen, found, heavy, dimension, bags.n_features)
    spread = _jackknife(effective) * theta / seen.effective if seen.effective < STRONGEST else math.nan
    sparsities, strengths = _spread(seen, theta) if found else (((min(seen.count, length), 1.0),), ((theta, 1.0),))
    return Estimate(
        task.but(strength=theta), len(bags), bags.n_features, dimension, _jackknife(dimensions), seen.effective,
        spread, (pi * (1 - pi) / len(bags)) ** 0.5,
        (int(lengths.min()), int(lengths.max())), found, tuple(remarks),
        law_of_lengths(lengths), sparsities, strengths,
    )  # fmt: skip


def _groups(positive: np.ndarray) -> np.ndarray:
    """A group for every bag, both classes dealt out evenly (in an order that a fixed seed shuffles)."""
    groups = np.empty(len(positive), dtype=int)
    rng = np.random.default_rng(0)
    for side in (positive, ~positive):
        where = rng.permutation(np.flatnonzero(side))
        groups[where] = np.arange(len(where)) % GROUPS
    return groups


def _jackknife(values: list[float]) -> float:
    """Standard error from leave-one-group-out values."""
    x = np.asarray(values)
    return float(np.sqrt((GROUPS - 1) / GROUPS * ((x - x.mean()) ** 2).sum()))


def _excess_kurtosis(tokens: np.ndarray) -> float:
    """Mean over the features; 0 for Gaussian ones. `tokens` are standardised."""
    return float(np.mean(np.mean(tokens.astype(np.float64) ** 4, axis=0))) - 3.0


def _remarks(lengths: np.ndarray, seen: _Seen, found: bool, heavy: bool, dimension: float, d: int) -> list[str]:
    remarks = []
    if heavy:
        remarks.append("the features have heavy tails, which were drawn in")
    if lengths.max() > 1.5 * lengths.min():
        remarks.append(f"bags have {lengths.min()} to {lengths.max()} tokens; the theory takes lengths as they spread")
    if seen.effective >= 0.99 * STRONGEST or not seen.converged:
        remarks.append("message passing does not settle: these bags are far from the theory's")
    if not found:
        remarks.append("no signal beyond chance was found: the strength is an upper guess")
    if dimension < 0.5 * d:
        remarks.append(f"the features are correlated: {d} of them spread like {dimension:.0f} independent ones")
    return remarks
