"""The channel of `channel` for bags that differ: kinds, hidden presence of the signal, and tokens that share noise.

With LR_h of Eq. (24) of docs/theory.md, and given a label under which a share s of the bags carry signal, a hypothesis
h = (R, theta) has posterior probability proportional to s p_h LR_h against 1 - s. What can be learnt of the direction is
decided by the overlap of the whitened signal with its posterior mean,

    X(m) = sum over labels, P(label) s E[ theta v.K <theta' v'> ],        x = alpha X,   m = x/(1 + x),

and a new bag is best classified by A = sum_h p_h LR_h, whatever the contamination.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from ..._core.averages import standard_error
from ...laws.draws import LEAST_POINTS, POINTS, REPLICATES, TokenDraws, kept_with_draws, token_draws
from ...task import BagKind, Task
from .channel import ROUGH, Channel
from .subset_sums import SUBSET_STEPS, few_signal_tokens

# Length times sparsity beyond few signal tokens: the recursion over tokens takes this many steps per bag.
MOST_STEPS = 1 << 16
LONGEST_CORRELATED = 4096  # tokens of correlated bags, which are all drawn one by one


class _KindBags(NamedTuple):
    """Drawn bags of one kind, and their noise."""

    kind: BagKind
    draws: TokenDraws
    common: np.ndarray


def check_known(task: Task) -> None:
    """Raise ValueError where the sums over subsets are not known for bags that differ."""
    steps = _steps(task)
    if steps > MOST_STEPS:
        raise ValueError(
            f"sparsity must be at most {SUBSET_STEPS}, or times the length at most {MOST_STEPS:,}, for the Bayes limit of bags "
            f"that differ, got {max(kind.sparsity for kind in task.kinds):,} with {task.longest:,} tokens"
        )
    if task.correlation and task.longest > LONGEST_CORRELATED:
        raise ValueError(
            f"length must be at most {LONGEST_CORRELATED:,} for the Bayes limit of correlated tokens, got {task.longest:,}"
        )


def _steps(task: Task) -> int:
    """Length times sparsity where some bags have many signal tokens, which the sums over subsets take one by one; else 0."""
    most = max(kind.sparsity for kind in task.kinds)
    return task.longest * most if most > SUBSET_STEPS else 0


def _drawn(task: Task, total: int) -> Iterator[_KindBags]:
    """Bags of every kind, about `total` per replicate in all."""
    steps = _steps(task)
    total = max(1, total // max(1, steps // (1 << 12)))  # sums over many signal tokens fluctuate little: fewer bags
    for kind in task.kinds:
        count = 1 << int(np.ceil(np.log2(max(LEAST_POINTS, kind.probability * total))))
        draws = token_draws(kind.length, kind.sparsity, count, every_token=task.correlation > 0 or steps > 0)
        rng = np.random.default_rng([20251117, kind.length, kind.sparsity, count])
        common = rng.standard_normal((REPLICATES, count)) if task.correlation else np.zeros((1, 1))
        yield _KindBags(kind, draws, common)


def _hypotheses(task: Task, length: int) -> list[BagKind]:
    """The kinds that a bag of that length may be of, with probabilities that sum to 1."""
    mine = [kind for kind in task.kinds if kind.length == length]
    whole = sum(kind.probability for kind in mine)
    return [kind._replace(probability=kind.probability / whole) for kind in mine]


class _Posterior:
    """log LR_h of drawn bags with signal `shift` in their first tokens, and the posterior weight of their first token."""

    def __init__(self, task: Task, bags: _KindBags, root_m: float, shift: float):
        rho, L = task.correlation, bags.kind.length
        self.own, self.c = (1.0 - rho) ** 0.5, rho / (1.0 - rho + rho * L)
        self.bags, self.root_m, self.rest = bags, root_m, 1.0 - rho
        self.signal = bags.draws.signals.tokens + shift / self.own
        shared = rho**0.5 * bags.common
        total = 0.0
        if rho:  # all tokens are drawn one by one then
            total = self.own * (self.signal.sum(-1) + bags.draws.others.tokens.sum(-1)) + L * shared
        self.offset = shared - self.c * total

    def of(self, h: BagKind) -> tuple[np.ndarray, np.ndarray]:
        """log LR_h, and P_h(the first signal token is among the R_h)."""
        u = h.strength * self.root_m
        R, root = h.sparsity, u / self.rest * self.own
        log_mean, first = few_signal_tokens(self.bags.draws, self.signal, root, R)
        quadratic = u**2 * (R - self.c * R**2) / (2 * self.rest)
        return log_mean + u / self.rest * R * self.offset - quadratic, first


def _label_shares(task: Task) -> list[tuple[float, float]]:
    """(P(label), share of the bags with signal among those with the label) of both labels as seen."""
    pi, eps, contaminated = task.prevalence, task.label_noise, task.contamination
    seen = task.observed_prevalence
    up = pi * (1 - eps) + (1 - pi) * contaminated * eps
    down = pi * eps + (1 - pi) * contaminated * (1 - eps)
    return [(seen, up / seen), (1 - seen, down / (1 - seen))]


class DifferingBags(Channel):
    """X(m) in units of pi theta^2, theta the mean strength, as a function of u = theta sqrt(m)."""

    def __init__(self, task: Task):
        check_known(task)
        self.task, self.theta = task, task.mean_strength
        self.unit = task.prevalence * self.theta**2
        rho = task.correlation
        carrying = sum(p * share for p, share in _label_shares(task))
        whitened = [p * theta**2 * R * (1 - rho / (1 - rho + rho * L) * R) / (1 - rho) for L, R, theta, p in task.kinds]
        self.most = carrying * sum(whitened) / self.unit
        self.least = float(self._overlap(0.0, LEAST_POINTS).mean()) / self.unit
        self._integral: PchipInterpolator | None = None

    def mass(self, root: float) -> np.ndarray:
        return self._overlap(root / self.theta, POINTS) / self.unit

    def rough_mass(self, root: float) -> float:
        return float(self._overlap(root / self.theta, POINTS // ROUGH).mean()) / self.unit

    def information(self, root: float) -> float:
        if self._integral is None:  # of (most - M)/2 over s = root^2
            nodes = self.theta * np.linspace(0.0, 1.0, 33)
            missing = [max(self.most - self.rough_mass(u), 0.0) for u in nodes]
            self._integral = PchipInterpolator(nodes, np.array(missing) * nodes).antiderivative()
        return float(self._integral(root))

    def _overlap(self, root_m: float, total: int) -> np.ndarray:
        """X at m = root_m^2, one value per replicate."""
        overlap = np.zeros(REPLICATES)
        labels = _label_shares(self.task)
        for bags in _drawn(self.task, total):
            length, R, theta, chance = bags.kind
            posterior = _Posterior(self.task, bags, root_m, theta * root_m)
            options = _hypotheses(self.task, length)
            ratios, firsts = zip(*(posterior.of(h) for h in options))
            log_prior = np.log([h.probability for h in options])
            joint = np.stack([lp + ratio for lp, ratio in zip(log_prior, ratios)])
            scale = theta * R / posterior.rest
            gain = np.stack([h.strength * (first - posterior.c * h.sparsity) for h, first in zip(options, firsts)])
            for probability, share in labels:
                if share <= 0:
                    continue
                absent = np.log1p(-share) if share < 1 else -np.inf
                top = np.maximum(joint.max(0) + np.log(share), absent)
                weight = np.exp(joint + np.log(share) - top)
                rest = np.exp(absent - top)
                mean = (weight * gain).sum(0) / (weight.sum(0) + rest)
                overlap += probability * share * chance * scale * mean.mean(-1)
        return overlap


differing_channel = kept_with_draws(8)(DifferingBags)


def _log_evidence(task: Task, bags: _KindBags, root_m: float, shift: float) -> np.ndarray:
    """log A of drawn bags with signal `shift` (0: none), (replicates, bags)."""
    posterior = _Posterior(task, bags, root_m, shift)
    parts = [np.log(h.probability) + posterior.of(h)[0] for h in _hypotheses(task, bags.kind.length)]
    return np.logaddexp.reduce(np.stack(parts), axis=0)


def differing_bayes_error(task: Task, root_m: float, bags: int = POINTS) -> tuple[float, float]:
    """Test error, about the true label, of the best rule where the direction is known to a squared cosine m = root_m^2:
    E[min(pi A, (1 - pi)(1 - contamination + contamination A))] over bags without signal, from bags drawn in equal parts with
    and without signal, weighed by 2/(1 + A)."""
    check_known(task)
    pi, contaminated = task.prevalence, task.contamination
    trivial = min(pi, 1 - pi)
    each = np.zeros(REPLICATES)
    for some in _drawn(task, bags):
        for shift in (0.0, some.kind.strength * root_m):
            log_a = _log_evidence(task, some, root_m, shift)
            clear = np.log1p(-contaminated)
            negative = np.log1p(-pi) + (np.logaddexp(clear, np.log(contaminated) + log_a) if contaminated else clear)
            error = np.exp(np.minimum(np.log(pi) + log_a, negative) - np.logaddexp(0.0, log_a))
            each += some.kind.probability * error.mean(-1)
    return float(min(each.mean(), trivial)), standard_error(each)


def differing_log_ratios(task: Task, root_m: float, bags: int) -> tuple[np.ndarray, np.ndarray]:
    """log A of drawn positive and negative bags, (replicates, bags); each kind has its share of them."""
    check_known(task)
    positive, negative = [], []
    for some in _drawn(task, 2 * bags):
        count = max(1, round(some.kind.probability * bags))
        contaminated = round(task.contamination * count)
        signal = _log_evidence(task, some, root_m, some.kind.strength * root_m)
        noise = _log_evidence(task, some, root_m, 0.0)
        positive.append(signal[:, :count])
        negative += [noise[:, : count - contaminated], signal[:, count : count + contaminated]]
    return np.concatenate(positive, axis=1), np.concatenate(negative, axis=1)
