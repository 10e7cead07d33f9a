"""Sums over the R-subsets of a bag's tokens: of products of x_l = exp(root t_l), for drawn bags.

For few signal tokens, and for any number of them in short bags, by recursion over the tokens, the bulk of a long bag through
its power sums; for many in long bags, over tokens counted in narrow bins, by a sum over angles.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, gammaln, ndtr

from ...laws.bag_statistics import bulk_sums
from ...laws.draws import FAR, NUMBERS_AT_A_TIME, REPLICATES, TokenDraws, seed_of, truncated_normal_rule

SUBSET_STEPS = 32  # up to this many signal tokens the recursion over tokens serves bags of any length


def chosen_one_by_one(length: int, sparsity: int) -> bool:
    """Whether the recursion over tokens serves bags like these."""
    # Every token is a step for each of the R or L - R tokens chosen. Up to this many (all bags of 256 tokens) the recursion is
    # two to a hundred times quicker than the sum over angles, at the same standard error of M.
    return sparsity <= SUBSET_STEPS or length * min(sparsity, length - sparsity) <= 1 << 15


def drawn_bags(length: int, sparsity: int) -> int:
    """Bags per replicate where the sums over subsets are taken token by token."""
    most = 2048 if length <= 64 else 512
    if sparsity <= SUBSET_STEPS:
        return most
    steps = length * min(sparsity, length - sparsity)
    return min(most, 1 << int(np.log2((1 << 22) / max(steps, 1))))  # 0.2 s for one root


def few_signal_tokens(
    draws: TokenDraws, signal: np.ndarray, root: float, size: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """log mean over the R-subsets of drawn bags, R small, with signal tokens `signal`, and P(v_1 = 1 | t) =
    x_1 e_{R-1}/(x_1 e_{R-1} + e_R), e_r the elementary symmetric polynomials of the other tokens.

    They are built token by token in log-odds relative to a log z at which R tokens are members on average: e_r z^r is divided
    by prod (1 + z x_l). The bulk of a long bag enters first, through three power sums p_j = sum x^j:
    r e_r = sum_j (-1)^(j-1) p_j e_{r-j}. Where most tokens are members, the others are chosen instead, with weights 1/x.
    """
    R = size or signal.shape[-1]
    explicit = root * np.concatenate([signal, draws.others.tokens], axis=-1)
    if not draws.others.has_bulk and explicit.shape[-1] == R:  # nothing to choose
        return explicit.sum(-1), np.ones(explicit.shape[:-1])
    if not draws.others.has_bulk and explicit.shape[-1] < 2 * R and np.isfinite(explicit).all():
        log_mean, outside = _subsets(-explicit, explicit.shape[-1] - R, draws, -root)
        return log_mean + explicit.sum(-1), 1.0 - outside
    return _subsets(explicit, R, draws, root)


def _subsets(explicit: np.ndarray, R: int, draws: TokenDraws, root: float) -> tuple[np.ndarray, np.ndarray]:
    """`few_signal_tokens` with the drawn tokens' log x given, (replicates, bags, tokens)."""
    shape = explicit.shape[:-1]
    log_x = explicit.reshape(-1, explicit.shape[-1])
    present = np.isfinite(log_x)
    values, counts = log_x, present.astype(float)
    powers, log_ceiling = np.zeros((0, len(log_x))), 0.0
    if draws.others.has_bulk:
        log_ceiling, bulk = root * draws.others.ceiling, draws.others.bulk.ravel()
        t, weights = truncated_normal_rule(draws.others.ceiling)
        x = np.exp(root * (t - draws.others.ceiling))
        sums = bulk_sums(np.stack([x, x**2, x**3]), weights, draws.others, np)
        powers = np.maximum(np.moveaxis(sums, -1, 0).reshape(3, -1), 0.0)
        # To find the balance, the bulk counts as that many tokens of equal size.
        mean = log_ceiling + np.log(np.maximum(powers[0], 1e-300) / np.maximum(bulk, 1.0))
        values, counts = np.column_stack([log_x, mean]), np.column_stack([counts, bulk])
    length = counts.sum(1)
    # With z one over the R-th largest x at least R/2 tokens are members; usually that is balance enough.
    largest = -np.partition(-log_x, R - 1, axis=1)[:, R - 1]
    log_z = _balance(np.where(counts > 0, values, 0.0), counts, R, 0.5 * R, -largest)
    log_odds = log_x + log_z[:, None]
    small = np.exp(-np.abs(log_odds))
    q = np.where(log_odds > 0, small, 1.0) / (1.0 + small)
    p = np.where(log_odds > 0, 1.0, small) / (1.0 + small)
    norm = (np.maximum(log_odds, 0.0) + np.log1p(small)).sum(1)
    e = np.zeros((R + 1, len(log_x)))
    e[0] = 1.0
    if len(powers):
        scaled = [np.exp((j + 1) * (log_ceiling + log_z)) * powers[j] for j in range(3)]
        for r in range(1, R + 1):
            e[r] = sum((-1) ** j * scaled[j] * e[r - j - 1] for j in range(min(3, r))) / r
    by_token = np.ascontiguousarray(p.T), np.ascontiguousarray(q.T)
    for l, (member, other) in enumerate(zip(*by_token)):
        if l == 0:
            continue
        e[1:] = other * e[1:] + member * e[:-1]
        e[0] *= other
    gain, against = p[:, 0] * e[R - 1], q[:, 0] * e[R]
    log_choices = gammaln(length + 1) - gammaln(R + 1) - gammaln(length - R + 1)
    log_mean = np.log(gain + against) + norm - R * log_z - log_choices
    return log_mean.reshape(shape), (gain / (gain + against)).reshape(shape)


class BinnedBags:
    """Bags of many tokens as counts of tokens in narrow bins of their noise, signal and noise tokens apart."""

    def __init__(self, length: int, sparsity: int):
        self.length, self.sparsity = length, sparsity
        # Sums over many tokens fluctuate little: a few bags per replicate are enough, the more the shorter they are.
        self.bags = int(np.clip(2 ** np.round(np.log2(16384 / length)), 16, 64))
        width = 0.08  # halving it changes M by less than 1e-4 of R
        self.edges = np.concatenate([[-np.inf], np.arange(-6.0, 6.0 + width / 2, width), [np.inf]])
        seeds = seed_of(20250925, length, sparsity).spawn(REPLICATES)
        shares = np.diff(ndtr(self.edges))
        signal, noise = [], []
        for seed in seeds:
            rng = np.random.Generator(np.random.SFC64(seed))
            signal.append(rng.multinomial(sparsity, shares, self.bags))
            noise.append(rng.multinomial(length - sparsity, shares, self.bags))
        self.signal, self.noise = np.concatenate(signal), np.concatenate(noise)
        used = (self.signal.any(0), self.noise.any(0))
        self.signal, self.noise = self.signal[:, used[0]].astype(float), self.noise[:, used[1]].astype(float)
        self.bins = [(self.edges[:-1][u], self.edges[1:][u]) for u in used]

    def _log_weights(self, root: float, bins: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """log E[exp(root g) | g in the bin]: sums of x over a bin's tokens are right on average."""
        low, high = bins
        # Differences of the distribution function on the side of zero where it is small, so that nothing cancels.
        flip = low + high > 0
        a, b = np.where(flip, -high, low), np.where(flip, -low, high)
        shift = np.where(flip, root, -root)
        width = ndtr(b) - ndtr(a)
        tilted = ndtr(b + shift) - ndtr(a + shift)
        other = ndtr(-(a + shift)) - ndtr(-(b + shift))
        tilted = np.where(a + shift > 0, other, tilted)
        return 0.5 * root**2 + np.log(np.maximum(tilted, 1e-300)) - np.log(width)

    def mean_token(self, shift: float) -> np.ndarray:
        """Mean of each bag's tokens where the signal tokens are moved by `shift`, every token at the mean of its bin."""
        signal, noise = (
            counts
            @ ((np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)) / (np.sqrt(2 * np.pi) * (ndtr(high) - ndtr(low))))
            for counts, (low, high) in zip((self.signal, self.noise), self.bins)
        )
        return ((signal + noise + self.sparsity * shift) / self.length).reshape(REPLICATES, self.bags)

    def subsets(self, root: float, shift: float, part: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log mean over the R-subsets of prod exp(root t), sum_l P(v_l = 1 | t)^2, and root times the sum of the signal tokens'
        coordinates, moved by `shift`; of one bag in `part`, (replicates, bags)."""
        few = max(1, self.bags // part)
        chosen = (np.arange(REPLICATES)[:, None] * self.bags + np.arange(few)).ravel()
        middle = [self._log_weights(root, bins) for bins in self.bins]
        a = np.concatenate([middle[0] + root * shift, middle[1]])
        counts = np.concatenate([self.signal[chosen], self.noise[chosen]], axis=1)
        size = max(1, NUMBERS_AT_A_TIME // (len(a) * 32))
        parts = [
            subset_sums(np.broadcast_to(a, (len(part), len(a))), part, self.sparsity)
            for part in np.array_split(counts, max(1, -(-len(counts) // size)))
        ]
        log_sum, squares = (np.concatenate(column) for column in zip(*parts))
        L, R = self.length, self.sparsity
        log_mean = log_sum - (gammaln(L + 1) - gammaln(R + 1) - gammaln(L - R + 1))
        along = self.signal[chosen] @ (middle[0] + root * shift)
        return tuple(v.reshape(REPLICATES, few) for v in (log_mean, squares, along))  # type: ignore[return-value]


def subset_sums(log_x: np.ndarray, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """log of the sum over subsets of `size` tokens of prod x_l, and the sum of the tokens' squared posterior weights.

    With the log z at which `size` of independent tokens are members on average, S in all, the sum over subsets is
    prod (1 + z x_l) P(S = size)/z^size, and a token's posterior weight p_l P(S without l = size - 1)/P(S = size). P(S = .) is
    the sum of the characteristic function over equally spaced angles: exact.
    """
    log_z = _balance(log_x, counts, size)
    log_odds = log_x + log_z[:, None]
    p = expit(log_odds)
    q = expit(-log_odds)
    deviation = np.sqrt(np.maximum((counts * p * q).sum(1), 1e-4))
    # N angles around the circle alias sizes N apart; half-way between the usual ones, so that none is pi.
    N = 2 * np.ceil(7 * deviation + 12)
    used = int(min(np.ceil(FAR * N / (2 * np.pi * deviation)).max(), (N / 2).max()))
    k = np.arange(used)
    angle = 2 * np.pi * (k + 0.5) / N[:, None]
    weight = np.where(k < N[:, None] / 2, 2.0 / N[:, None], 0.0)
    factor = q[:, :, None] + p[:, :, None] * np.exp(1j * angle)[:, None, :]
    log_factor = np.log(factor)
    characteristic = np.einsum("bv,bvk->bk", counts, log_factor)
    turned = weight * np.exp(characteristic - 1j * size * angle)
    probability = turned.real.sum(1)
    rest = np.einsum("bk,bvk->bv", turned * np.exp(1j * angle), 1.0 / factor).real
    posterior = np.clip(p * rest / probability[:, None], 0.0, 1.0)
    log_sum = (counts * np.logaddexp(0.0, log_odds)).sum(1) - size * log_z + np.log(probability)
    return log_sum, (counts * posterior**2).sum(1)


def _balance(
    log_x: np.ndarray, counts: np.ndarray, size: int, tolerance: float = 0.1, first: np.ndarray | None = None
) -> np.ndarray:
    """log z with sum_l expit(log z + log x_l) = size to a tolerance: near balance sums over subsets lose no digits."""
    present = counts > 0
    total = counts.sum(1)
    edge = np.log(size / (total - size))
    low = edge - np.where(present, log_x, -np.inf).max(1) - 1e-9
    high = edge - np.where(present, log_x, np.inf).min(1) + 1e-9
    u = 0.5 * (low + high) if first is None else np.clip(first, low, high)
    todo = np.arange(len(log_x))
    for _ in range(200):
        p = expit(u[todo, None] + log_x[todo])
        members = counts[todo] * p
        gap = members.sum(1) - size
        low[todo], high[todo] = np.where(gap < 0, u[todo], low[todo]), np.where(gap < 0, high[todo], u[todo])
        open_ = np.abs(gap) > tolerance
        if not open_.any():
            break
        todo, gap = todo[open_], gap[open_]
        step = gap / np.maximum((members[open_] * (1 - p[open_])).sum(1), 1e-300)
        following = u[todo] - step
        inside = (following > low[todo]) & (following < high[todo])
        u[todo] = np.where(inside, following, 0.5 * (low[todo] + high[todo]))
    return u
