"""The two gradient steps on D0 in white noise: their limits, with several signals too, and their law at a given dimension
(formulas in `two_step_formulas`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from .._core.averages import standard_error
from .._core.validation import whole_number
from ..laws.draws import NUMBERS_AT_A_TIME
from ..laws.heads import HeadsLaw, heads_law
from ..laws.signals import Signals
from ..losses import Loss
from ..results import NOT_PLAIN, TwoSteps, cosine_of, two_steps_from
from ..task import Task
from ..training import Training
from .recovery import method_of
from .two_step_formulas import (
    FEW_FIELD_NODES,
    BagGroups,
    alignment_formulas,
    bag_groups,
    first_slopes,
    first_step,
    residual_moments,
    second_bias,
    second_step,
)

DRAWS = 2048  # of the two steps at a given dimension: standard errors of a fiftieth of the spread


@dataclass(frozen=True, kw_only=True, repr=False)
class Alignment(TwoSteps):
    """Limits of readout, bias and query after the two gradient steps.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`: of w1 under "w", of q2 under "q"; gamma = `cosine["q"]`, k = `sharpness`.
    rate : float
        K of |gamma| = 1 - K/alpha0 + o(1/alpha0); NaN where the query learns nothing (C = 0), and with a spectral start.
    anti_margin : float
        The left side of the anti-alignment condition, pi E[h+] theta^2 R (1 - R/L) + (L - 1) E[h]; for bags of several
        lengths, the mean length times the average of the same over L. Where w1 points along the signal (always
        without contamination) the query points away from it exactly when this is positive.
    anti_aligned : bool
        Whether the query points away from the signal.
    """

    rate: float
    anti_margin: float
    anti_aligned: bool


@dataclass(frozen=True, kw_only=True, repr=False)
class AlignmentLaw(TwoSteps):
    """Readout, bias and query after the two gradient steps at a given dimension, which differ between data sets.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`, means over data sets.
    d, n0 : int
        Dimension of a token, and bags of D0.
    spread : mapping
        Standard deviations between data sets: of cos(w1, xi) under "cosine_w", and "cosine_q", "norm_q", "sharpness".
    share_negative : float
        Share of the data sets whose query points away from the signal.
    quantiles : mapping
        Quantiles of cos(q2, xi), "0.05" to "0.95".
    errors : mapping
        Standard errors of the means, from the finite number of draws.
    cosines, norms : ndarray (draws,)
        cos(q2, xi) and ||q2|| of every drawn data set.
    """

    d: int
    n0: int
    spread: Mapping[str, float]
    share_negative: float
    quantiles: Mapping[str, float]
    errors: Mapping[str, float]
    cosines: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    norms: np.ndarray = field(compare=False, metadata=NOT_PLAIN)


def _rate(loss: Loss, task: Task, eta_w, eta_b) -> float:
    """K = lim alpha0 Q/(2 C^2), with the fields of alpha0 = infinity (no noise in w1, no pull of a bag on its own field)."""
    groups = bag_groups(task, task.prevalence)
    first = first_step(loss, groups, 1.0, eta_b)
    noiseless = first._replace(norm=abs(first.overlap))
    second = second_step(loss, groups, noiseless, np.inf, eta_w, eta_b)
    C = (second.signal + second.mean) * first.overlap
    Q = second.mean**2 * first.noise + second.noise(noiseless, 1.0)
    return float(Q / (2 * C**2)) if eta_w * C != 0 else float("nan")


@overload
def alignment(task: Task, training: Training) -> Alignment:
    """The limits."""


@overload
def alignment(task: Task, training: Training, *, d: int, draws: int = ..., seed: int = ...) -> AlignmentLaw:
    """The law at a dimension."""


def alignment(
    task: Task, training: Training, *, d: int | None = None, draws: int = DRAWS, seed: int = 0
) -> Alignment | AlignmentLaw:
    """Readout, bias and query after the two gradient steps: their limits, or their law at a given dimension.

    Eq. (3) to Eq. (6), Eq. (23) and Eq. (31) to Eq. (33) of docs/theory.md.

    At a dimension d class shares of D0 (both classes being present), w1's overlap, the mean residual and the query's overlap
    fluctuate, which matters where bags are long (L of order d) or few. Means are right up to terms of relative order 1/d,
    standard deviations to about a tenth for ten tokens and more, to a third for two tokens or lengths that differ greatly.

    Parameters
    ----------
    task, training : Task, Training
        What the data is, and how it is learned; alpha0, the three rates, beta and the loss matter.
    d : int, optional
        Dimension of a token, at least 2; None for the limit d -> infinity.
    draws, seed : int
        Number of data sets drawn at a given d, and the seed.
    """
    Task.require(task)
    Training.require(training)
    if training.query_by != "steps":
        if d is not None:
            training.require_steps("the law of the two steps at a dimension")
        return _spectral_start(task, training)
    if d is not None:
        return _drawn(
            task, training, whole_number("d", d, 2), whole_number("draws", draws, 2), whole_number("seed", seed, 0)
        )
    loss = training.loss_function
    t = training
    groups = bag_groups(task, task.prevalence)
    f = alignment_formulas(loss, groups, t.alpha0, t.eta_w, t.eta_b, t.eta_q, t.beta)
    a, condition = float(f["a"]), task.mean_length * float(f["condition"])
    fields = two_steps_from(a, float(f["norm_w"]), float(f["overlap_q"]), float(f["norm_q"]), float(f["bias"]), t.beta)
    if fields["norm"]["q"] > 0:  # the formula's cosine is free of rounding from the scale of the rates
        fields["cosine"]["q"] = float(f["cos_q"])
    return Alignment(
        **fields,
        rate=_rate(loss, task, t.eta_w, t.eta_b),
        anti_margin=condition,
        anti_aligned=fields["cosine"]["q"] < -1e-9,  # below this the query is rounding error that centring leaves
    )


def _spectral_start(task: Task, t: Training) -> Alignment:
    """The direction is that of `recovery`, the length that of the two steps at a vanishing rate: one product with the
    residuals of the intercept alone."""
    tiny = 1e-9
    groups = bag_groups(task, task.prevalence)
    f = alignment_formulas(t.loss_function, groups, t.alpha0, tiny, "auto", t.eta_q, t.beta)
    a, norm_w, norm_q = (t.eta_w / tiny * float(f[name]) for name in ("a", "norm_w", "norm_q"))
    cosine = float(method_of(t.query_by).squared_cosine(task, t.alpha0)) ** 0.5
    return Alignment(
        **two_steps_from(a, norm_w, cosine * norm_q, norm_q, float(f["bias"]), t.beta),
        rate=float("nan"),
        anti_margin=task.mean_length * float(f["condition"]),
        anti_aligned=False,
    )


def _drawn(task: Task, training: Training, d: int, draws: int, seed: int) -> AlignmentLaw:
    n0, t = round(training.alpha0 * d), training
    if n0 < 2:
        raise ValueError(f"alpha0 must give at least 2 bags at d = {d}, got {n0}")
    rng = np.random.default_rng(seed)
    groups = bag_groups(task, task.prevalence)
    counts = _compositions(groups, n0, draws, rng)
    size = max(1, NUMBERS_AT_A_TIME // (counts.shape[1] * len(FEW_FIELD_NODES)))
    parts = [
        _steps_of(groups._replace(probability=counts[i : i + size] / n0), task, t, d, n0, rng)
        for i in range(0, draws, size)
    ]
    return law_of_draws(np.concatenate(parts, axis=1), d, n0, t.beta)


def law_of_draws(drawn: np.ndarray, d: int, n0: int, beta: float) -> AlignmentLaw:
    """The law from <w1, xi>, ||w1||, b1, <q2, xi> and ||q2|| of drawn data sets, (5, draws)."""
    overlap_w, norm_w, bias, overlap_q, norm_q = drawn
    cosine_w, cosine_q = (x / np.where(norm > 0, norm, 1.0) for x, norm in ((overlap_w, norm_w), (overlap_q, norm_q)))
    numbers = {"cosine_w": cosine_w, "cosine_q": cosine_q, "norm_q": norm_q, "sharpness": beta * norm_q}
    return AlignmentLaw(
        overlap={"w": float(overlap_w.mean()), "q": float(overlap_q.mean())},
        cosine={"w": float(cosine_w.mean()), "q": float(cosine_q.mean())},
        norm={"w": float(norm_w.mean()), "q": float(norm_q.mean())},
        bias=float(bias.mean()),
        sharpness=float(beta * norm_q.mean()),
        d=d,
        n0=n0,
        spread={name: float(x.std(ddof=1)) for name, x in numbers.items()},
        share_negative=float(np.mean(cosine_q < 0)),
        quantiles={f"{q:g}": float(np.quantile(cosine_q, q)) for q in (0.05, 0.25, 0.5, 0.75, 0.95)},
        errors={name: float(standard_error(x)) for name, x in numbers.items()},
        cosines=cosine_q,
        norms=norm_q,
    )


def enough(with_both_classes: Callable[[int], Iterable[Any]], count: int) -> Iterator[Any]:
    """`count` results from calls numbered 0, 1, ..; each call draws `count` and drops those with a single class."""
    made = 0
    for attempt in range(40):
        for result in with_both_classes(attempt):
            yield result
            made += 1
            if made == count:
                return
    raise ValueError("n must be larger for this prevalence: nearly every draw of the bags holds one class only")


def _compositions(groups: BagGroups, n0: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """How many of n0 bags each group has (draws, groups), both labels being present."""

    def drawn(_: int) -> np.ndarray:
        counts = rng.multinomial(n0, groups.probability / groups.probability.sum(), size=draws)
        positive = counts @ (groups.label > 0)
        return counts[(positive > 0) & (positive < n0)]

    return np.array(list(enough(drawn, draws)), dtype=float)


def _steps_of(groups: BagGroups, task: Task, t: Training, d: int, n0: int, rng: np.random.Generator) -> np.ndarray:
    """<w1, xi>, ||w1||, b1, <q2, xi> and ||q2|| of data sets with given compositions, (5, draws).

    As the text below Eq. (33) of docs/theory.md says; the mean residual is zero where the bias makes it so.
    """
    alpha0, draws, loss = n0 / d, len(groups.probability), t.loss_function
    along_w, along_q, residual = rng.standard_normal((3, draws))
    rest_w, rest_q = rng.chisquare(d - 1, (2, draws)) / d
    first = first_step(loss, groups, alpha0, t.eta_b)
    a, s2 = first.overlap + np.sqrt(first.noise / d) * along_w, first.noise * rest_w
    first = first._replace(overlap=a, noise=s2, norm=np.sqrt(a**2 + s2))
    second = second_step(loss, groups, first, alpha0, t.eta_w, t.eta_b)
    mean = second.mean if isinstance(t.eta_b, str) else second.mean + np.sqrt(second.variance / n0) * residual
    g2 = a**2 / np.where(first.norm > 0, first.norm, 1.0) ** 2
    wobble = first.norm**2 * ((1 + g2) * second.mean_square + (1 + 3 * g2) * second.signal_square) / n0
    C = (second.signal + mean) * a + np.sqrt(wobble) * along_q
    Q = mean**2 * s2 + second.noise(first, alpha0) * rest_q
    scale = t.eta_w * t.eta_q * t.beta
    return np.array([t.eta_w * a, t.eta_w * first.norm, second.bias, -scale * C, scale * np.sqrt(C**2 + Q)])


@dataclass(frozen=True, kw_only=True, repr=False)
class SignalsAlignment(TwoSteps):
    """What the two gradient steps give with several signals, in the limit.

    Attributes
    ----------
    overlap, cosine, norm, bias, sharpness
        As in `results.TwoSteps`, the overlaps and cosines with signal j under "w:j" and "q:j" (j from 1).
    along : ndarray (dimension,)
        beta q2 in the space of the signals.
    across : float
        The length of beta q2 outside it.
    """

    along: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    across: float = field(compare=False, metadata=NOT_PLAIN)

    def law(self, task: Task, signals: Signals, heads: int = 1) -> HeadsLaw:
        """The law of `heads` heads with such queries on these signals: each query comes from separate data, so that off the
        signals they are orthogonal."""
        queries = np.hstack([np.tile(self.along, (heads, 1)), self.across * np.eye(heads)])
        directions = np.hstack([signals.directions, np.zeros((len(signals), heads))])
        return heads_law(task, queries=queries, signals=directions, shares=signals.shares, carried=signals.carried)


def signals_alignment(
    task: Task, training: Training, signals: Any, shares: Any = None, carried: str = "one"
) -> SignalsAlignment:
    """Readout, bias and query after the two gradient steps on bags with several signals.

    Eq. (18) of docs/theory.md.

    Parameters
    ----------
    task, training : Task, Training
        As in `alignment`; bags that are alike.
    signals, shares, carried
        As in `Signals.of`.
    """
    checked = Signals.of(signals, shares, carried)
    training.require_steps("several signals")
    task.require_plain("several signals")
    L, R, theta, _ = task.only_kind("several signals")
    checked.check(R)
    loss, t, pi = training.loss_function, training, task.prevalence
    Xi = checked.directions
    cases = list(checked.contents(R))
    # Groups of bags: one for each content of the positive ones (rows n), and the negative ones (n = 0).
    n = np.array([*(content for content, _ in cases), np.zeros(len(checked))], dtype=float)
    p = np.array([*(pi * share for _, share in cases), 1 - pi])
    labels = np.append(np.ones(len(cases)), -1.0)
    c = first_slopes(loss, t.eta_b, labels, p)
    A = -t.eta_w * theta / L * ((p * c) @ n @ Xi)
    s2 = t.eta_w**2 * float(p @ c**2) / (t.alpha0 * L)
    g, norm_w = Xi @ A, float(np.sqrt(A @ A + s2))
    means, spreads = theta / L * (n @ g) - t.eta_w / (t.alpha0 * L) * c, np.full(len(p), norm_w / np.sqrt(L))
    b1 = float(second_bias(loss, t.eta_b, c, labels, p, means, spreads))
    h, hh = residual_moments(loss, labels, means + b1, spreads)
    bent = theta**2 * (n * g - n * (n @ g)[:, None] / L)  # theta^2 D(n) g
    mean = (L - 1) * float(p @ h)
    B = (p * h) @ bent @ Xi + mean * A
    N = mean**2 * s2 + ((L - 1) * norm_w**2 * float(p @ hh) + float((p * hh) @ bent @ g)) / t.alpha0
    scale = -t.eta_q * t.beta / L
    query, across = scale * B, abs(scale) * float(np.sqrt(N))
    norm_q = float(np.sqrt(query @ query + across**2))
    overlaps = {"w": g, "q": Xi @ query}
    named = {f"{name}:{j + 1}": float(v) for name, values in overlaps.items() for j, v in enumerate(values)}
    norms = {"w": norm_w, "q": norm_q}
    return SignalsAlignment(
        overlap=named,
        cosine={name: cosine_of(value, norms[name[0]]) for name, value in named.items()},
        norm=norms,
        bias=b1,
        sharpness=float(t.beta * norm_q),
        along=t.beta * query,
        across=t.beta * across,
    )
