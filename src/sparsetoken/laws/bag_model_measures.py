"""Test measures of a bag model: no test set, only what a fresh bag depends on.

A classifier with directions Theta sees a fresh bag through its fields H = X Theta. They are

    H = theta v m^T + U,   rows of U independent N(0, C),   m = Theta^T xi,   C = Theta^T Theta,

v the indicator of the signal tokens (zero if y = -1): exact at every d, given (m, C, b), and in the limit. (Tokens that share
a part rho of their noise have rows of U correlated by rho; bags of several kinds are averaged over.) Where the score is
affine in some columns of H (a readout's), it is Gaussian given the others and its sign is averaged in closed form; where it
is affine in a common shift of one column (the log-mean-exp of the tied model), that shift is averaged so. Both are detected
numerically, so they serve a user's model as well. The rest is an average over scrambled Sobol points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from .._core.arrays import ROUNDING
from .._core.averages import standard_error
from .._core.devices import in_double_precision
from ..bag_models import BagModel, score_with_sharpness
from ..task import Task
from .draws import LEAST_POINTS, MOST_COORDINATES, REPLICATES, scrambled_sobol, standard_normals, with_shared_part
from .error_measures import MEASURES, shares_beaten
from .signals import draw_places

# Points per class and replicate: counted signs need more of them than averaged ones.
SMOOTHED_POINTS, COUNTED_POINTS, FEWEST_POINTS = 2**10, 2**13, 2**8
# Normals per class and replicate (4 MB): long bags and many directions get fewer points, though never fewer than the least.
KEPT_NORMALS = 2**19
# Points whose scores are differentiated at a time: temporaries, which can grow like L^2, stay in the cache.
POINTS_AT_A_TIME = 16
# Scores drawn per point for the AUC where a point leaves the score Gaussian: the AUC ranks whole scores, all positive ones
# against all negative ones.
SCORES_PER_POINT = 2
# A counted sign is differentiated as a rounded step of this width, in standard deviations of the score.
JUMP_WIDTH = 0.1
# Sizes of the fields at which a score is tested for being affine: one that is so only near the origin, or only far from it,
# fails.
TRIED_SIZES = (0.1, 1.0, 10.0, 100.0)


class Split(NamedTuple):
    """Which fields of a score are averaged in closed form."""

    columns: tuple[int, ...]
    shift: int | None

    @property
    def counted(self) -> bool:
        """Whether nothing can be averaged in closed form."""
        return not self.columns and self.shift is None


def check_score(model: BagModel) -> None:
    """Raise ValueError where JAX cannot trace a model's score or it is not one number per bag."""
    what = f"score of bag model {model.name!r}"
    fields = jax.ShapeDtypeStruct((3, model.rank), np.float32)
    try:
        out = jax.eval_shape(model, fields, jax.ShapeDtypeStruct((), np.float32))
    except jax.errors.JAXTypeError:
        raise ValueError(
            f"{what} must be traceable by JAX: use jax.numpy in the place of numpy, and no `if` on values"
        ) from None
    except Exception as error:  # whatever a user's function may raise
        raise ValueError(
            f"{what} raises {type(error).__name__} on fields of shape (3, {model.rank}): {error}"
        ) from error
    if getattr(out, "shape", None) != ():
        raise ValueError(f"{what} must be one number for a bag, got shape {getattr(out, 'shape', type(out).__name__)}")
    if not np.issubdtype(out.dtype, np.floating):
        raise ValueError(f"{what} must be a real number, got {out.dtype}")


@lru_cache(maxsize=64)
@in_double_precision
def split_of(model: BagModel, length: int) -> Split:
    """Test at random fields of several sizes which second differences of the model's score vanish."""
    check_score(model)
    rng, rank = np.random.default_rng(0), model.rank
    sizes = np.repeat(TRIED_SIZES, 8)[:, None, None]
    shape = (len(sizes), length, rank)
    H = sizes * rng.standard_normal(shape)
    value = jax.jit(jax.vmap(lambda H: model(H, 0.3)))

    def affine(move: np.ndarray) -> bool:
        values = [np.asarray(value(jnp.asarray(H + sizes * far * move))) for far in (-1.5, 0.0, 1.5)]
        with np.errstate(invalid="ignore", over="ignore"):
            bend, change = values[0] - 2 * values[1] + values[2], values[2] - values[0]
            return bool((np.abs(bend) <= 1e-9 * (1.0 + np.abs(change))).all())

    columns: list[int] = []
    for column in reversed(range(rank)):
        move = np.zeros(shape)
        move[..., [*columns, column]] = rng.standard_normal((*shape[:2], 1 + len(columns)))
        if affine(move):
            columns.append(column)
    if columns:
        return Split(tuple(sorted(columns)), None)
    for column in reversed(range(rank)):
        move = np.zeros(shape)
        move[..., column] = 1.0
        if affine(move):
            return Split((), column)
    return Split((), None)


class KindDraws(NamedTuple):
    """One replicate's points for one kind of bags, with and without signal."""

    normals: Any
    residuals: Any
    places: Any
    probability: Any


FreshDraws = tuple[KindDraws, ...]


def fresh_draws(rng: np.random.Generator, task: Task, rank: int, split: Split) -> FreshDraws:
    """One replicate's points for a model of `rank` directions, kind by kind."""
    mean = task.mean_strength or 1.0
    return tuple(
        _draws_of_kind(rng, task.single(kind), kind.probability, kind.strength / mean, rank, split)
        for kind in task.kinds
    )


def _draws_of_kind(
    rng: np.random.Generator, task: Task, probability: float, strength: float, rank: int, split: Split
) -> KindDraws:
    """Points for bags of one kind; each class has separate normals, as the AUC needs."""
    length, drawn = task.longest, rank - len(split.columns)
    coordinates = drawn * length
    if drawn == 0:  # the score is Gaussian without conditioning: one point is exact
        points = 1
    else:
        most = COUNTED_POINTS if split.counted else SMOOTHED_POINTS
        points = 2 ** int(math.log2(min(max(KEPT_NORMALS // coordinates, FEWEST_POINTS), most)))
        points = max(LEAST_POINTS, 2 ** math.ceil(math.log2(points * probability)))
    places = signal_indicators(rng, task, points)
    normals, residuals = np.empty((2, coordinates, points)), np.empty((2, SCORES_PER_POINT, points))
    leading = min(coordinates, MOST_COORDINATES)
    shifts = np.arange(SCORES_PER_POINT)[:, None] / SCORES_PER_POINT
    for block, residual in zip(normals, residuals, strict=True):
        u = scrambled_sobol(1 + leading, points, rng)
        residual[:] = standard_normals((u[0] + shifts) % 1.0)
        block[:leading] = standard_normals(u[1:])
        block[leading:] = rng.standard_normal((coordinates - leading, points))
    shaped: np.ndarray = normals.reshape(2, length, drawn, points).swapaxes(1, 2)
    shaped[0] = signal_first(shaped[0], places)
    return KindDraws(shaped, residuals, strength * places, probability)


def signal_indicators(rng: np.random.Generator, task: Task, count: int) -> np.ndarray:
    """Indicators (L, count) of the signal tokens of positive bags, all of one kind."""
    v = np.zeros((task.longest, count))
    np.put_along_axis(v, draw_places(rng, task, count).T, 1.0, axis=0)
    return v


def signal_first(draws: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Draws (..., L, n) with the leading tokens' moved to the signal's places (L, n).

    The averages depend on the signal tokens most, and the leading coordinates of Sobol points are the most even ones.
    """
    order = np.argsort(np.argsort(-places, axis=0, kind="stable"), axis=0)
    return np.take_along_axis(draws, order.reshape(*[1] * (draws.ndim - 2), *order.shape), axis=-2)


def innovation_root(D: Any, scale: Any, smallest: float = ROUNDING) -> tuple[Any, Any]:
    """Lower factor F of D = F F^T (r x r) with innovations below `smallest` of the scale dropped, and which were kept."""
    r = D.shape[0]
    F = jnp.zeros_like(D)
    kept: list[Any] = []
    for i in range(r):
        for j in range(i):
            rest = D[i, j] - F[i, :j] @ F[j, :j]
            F = F.at[i, j].set(jnp.where(kept[j], rest / jnp.where(kept[j], F[j, j], 1.0), 0.0))
        left = D[i, i] - F[i, :i] @ F[i, :i]
        keep = left > smallest * scale[i]
        F = F.at[i, i].set(jnp.where(keep, jnp.sqrt(jnp.where(keep, left, 1.0)), 0.0))
        kept.append(keep)
    return F, jnp.stack(kept)


class TrainedDirections(NamedTuple):
    """All that a fresh bag's score depends on."""

    overlap: Any
    gram: Any
    bias: Any
    theta: Any
    pi: Any
    rho: Any = 0.0
    contamination: Any = 0.0

    @classmethod
    def of(cls, task: Task, overlap: Any, gram: Any, bias: Any) -> TrainedDirections:
        """Directions with these overlaps, and the task's numbers."""
        return cls(overlap, gram, bias, task.mean_strength, task.prevalence, task.correlation, task.contamination)


def gaussian_scores(score: Any, split: Split, at: TrainedDirections, draws: KindDraws) -> list[tuple[Any, Any]]:
    """Mean and variance of the score at each point given the fields drawn, for bags of one kind with and without signal."""
    r, length = at.gram.shape[0], draws.places.shape[0]
    smooth = split.columns if split.shift is None else (split.shift,)
    order = np.array([c for c in range(r) if c not in smooth] + list(smooth), dtype=int)
    back = np.argsort(order)
    sorted_gram = at.gram[order][:, order]
    root, _ = innovation_root(sorted_gram, jnp.diag(sorted_gram))
    first = r - len(smooth)
    F = root[first:, first:]
    of_point = jax.value_and_grad(lambda fields: score(fields, at.bias))

    def of_class(strength: Any, normals: Any) -> tuple[Any, Any]:
        if split.shift is not None:
            normals = normals.at[-1].add(-normals[-1].mean(0))
        else:
            normals = jnp.concatenate([normals, jnp.zeros((len(split.columns), *normals.shape[1:]))])
        normals = with_shared_part(normals, at.rho)
        H = jnp.einsum("ca,aln->nlc", root[back], normals) + strength * at.overlap * draws.places.T[:, :, None]
        z, slope = jax.lax.map(of_point, H, batch_size=POINTS_AT_A_TIME)
        slope = slope.transpose(2, 1, 0)[order[first:]]
        if split.shift is not None:
            return z, (F[0, 0] * slope[0].sum(0)) ** 2 * (at.rho + (1.0 - at.rho) / length)
        turned = jnp.einsum("ca,cln->aln", F, slope)
        return z, (1.0 - at.rho) * (turned**2).sum((0, 1)) + at.rho * (turned.sum(1) ** 2).sum(0)

    return [of_class(at.theta, jnp.asarray(draws.normals[0])), of_class(0.0, jnp.asarray(draws.normals[1]))]


def _above(mean: Any, variance: Any, rounding: Any = 0.0) -> Any:
    """P(score > 0), ties counted half, for Gaussian scores; `rounding` is the width used where the variance is zero."""
    spread = variance > 0
    deviation = jnp.sqrt(jnp.where(spread, variance, 1.0))
    step = jnp.where(mean == 0, 0.5, jnp.where(mean > 0, 1.0, 0.0))
    # The value of the step with the slope of a rounded one: derivatives of a counted sign.
    rounded = ndtr(mean / jax.lax.stop_gradient(jnp.maximum(rounding, 1e-300)))
    step = step + rounded - jax.lax.stop_gradient(rounded)
    return jnp.where(spread, ndtr(jnp.where(spread, mean, 0.0) / deviation), step)


def _shares(split: Split, at: TrainedDirections, draws: FreshDraws, scores: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Test error, sensitivity and specificity from the scores of every kind of bags, with and without signal."""

    def width(z):
        return JUMP_WIDTH * jnp.std(z) if split.counted else 0.0

    def above(mean, variance):
        return _above(mean, variance, width(mean)).mean()

    sensitivity = specificity = 0.0
    for kind, (signal, noise) in zip(draws, scores, strict=True):
        caught = above(*signal)
        sensitivity = sensitivity + kind.probability * caught
        cleared = _above(-noise[0], noise[1], width(noise[0])).mean()
        specificity = specificity + kind.probability * (
            (1.0 - at.contamination) * cleared + at.contamination * (1.0 - caught)
        )
    return at.pi * (1 - sensitivity) + (1 - at.pi) * (1 - specificity), sensitivity, specificity


def limiting_test_error(score: Any, split: Split, at: TrainedDirections, draws: FreshDraws) -> Any:
    """The test error alone, differentiable in everything that `at` and the score hold."""
    return _shares(split, at, draws, [gaussian_scores(score, split, at, kind) for kind in draws])[0]


def _pairwise_auc(draws: FreshDraws, scores: Sequence[Any]) -> Any:
    """The AUC where every kind's score is Gaussian without conditioning: all pairs of kinds."""
    share = jnp.stack([jnp.asarray(kind.probability, dtype=float) for kind in draws])
    means, variances = ([jnp.concatenate([pair[i][j] for pair in scores]) for i in (0, 1)] for j in (0, 1))

    wins = _above(means[0][:, None] - means[1][None], variances[0][:, None] + variances[1][None])
    return share @ wins @ share


def _drawn_scores(split: Split, draws: FreshDraws, scores: Sequence[Any], side: int) -> Any:
    """Whole scores of bags with (0) or without (1) signal, kind after kind."""
    drawn = []
    for kind, pair in zip(draws, scores, strict=True):
        mean, variance = pair[side]
        drawn.append(mean if split.counted else (mean + jnp.sqrt(variance) * kind.residuals[side]).ravel())
    return jnp.concatenate(drawn)


@partial(jax.jit, static_argnames=("score", "split"))
def _scores(score, split, at: TrainedDirections, sharpness, draws: FreshDraws):
    """Means and variances of the scores of every kind of bags, with and without signal."""
    return [gaussian_scores(lambda H, bias: score(H, bias, sharpness), split, at, kind) for kind in draws]


@partial(jax.jit, static_argnames=("score", "split"))
def _measured(score, split, at: TrainedDirections, sharpness, draws: FreshDraws):
    """Test error, sensitivity and specificity, and the AUC or the two sides' scores that it ranks."""
    scores = _scores(score, split, at, sharpness, draws)
    shares = jnp.stack(_shares(split, at, draws, scores))
    if _ranks_points(draws):
        return shares, tuple(_drawn_scores(split, draws, scores, side) for side in (0, 1))
    return shares, _pairwise_auc(draws, scores)


def _ranks_points(draws: FreshDraws) -> bool:
    """Whether some kind has more than the one point that a Gaussian score needs."""
    return any(kind.places.shape[1] > 1 for kind in draws)


@in_double_precision
def measures_on(
    draws: FreshDraws, task: Task, model: BagModel, overlap: Any, gram: Any, bias: Any, split: Split | None = None
) -> np.ndarray:
    """The `MEASURES` of classifiers on one replicate's points."""
    split = split_of(model, task.longest) if split is None else split
    score, sharpness = score_with_sharpness(model), model.sharpness or 1.0
    draws = jax.tree_util.tree_map(jnp.asarray, draws)
    weights = _weights_of_scores(draws, split)
    rows = []
    for m, C, b in zip(np.asarray(overlap), np.asarray(gram), np.asarray(bias), strict=True):
        shares, ranked = _measured(score, split, TrainedDirections.of(task, m, C, b), sharpness, draws)
        if _ranks_points(draws):
            # Outside the compiled program: NumPy sorts a few thousand numbers in a fraction of the time.
            signal, noise = (np.asarray(side) for side in ranked)
            ranked = weights @ shares_beaten(signal, noise, weights)
        # A contaminated negative bag is like a positive one, and wins as often as it loses.
        auc = (1.0 - task.contamination) * float(ranked) + 0.5 * task.contamination
        error, sensitivity, specificity = np.asarray(shares).tolist()
        rows.append((error, auc, sensitivity, specificity))
    return np.array(rows)


@partial(jax.jit, static_argnames="split")
def _error_shifted(split, at: TrainedDirections, draws: FreshDraws, scores, shift):
    return _shares(split, at, draws, [[(mean + shift, variance) for mean, variance in pair] for pair in scores])[0]


@in_double_precision
def error_by_bias(
    draws: FreshDraws, task: Task, model: BagModel, overlap: Any, gram: Any, bias: float, split: Split | None = None
) -> Callable[[float], float]:
    """The test error on one replicate's points as a function of the bias, which adds to scores computed once."""
    split = split_of(model, task.longest) if split is None else split
    draws = jax.tree_util.tree_map(jnp.asarray, draws)
    at = TrainedDirections.of(task, overlap, gram, bias)
    scores = _scores(score_with_sharpness(model), split, at, model.sharpness or 1.0, draws)
    return in_double_precision(lambda b: float(_error_shifted(split, at, draws, scores, b - bias)))


def _weights_of_scores(draws: FreshDraws, split: Split) -> np.ndarray:
    """Probabilities of the scores that `_drawn_scores` gives, the same with and without signal."""
    counts = [kind.places.shape[1] * (1 if split.counted else SCORES_PER_POINT) for kind in draws]
    return np.concatenate([np.full(n, float(kind.probability) / n) for n, kind in zip(counts, draws, strict=True)])


class FreshBags:
    """Points of the fields of fresh bags of a task; `measures` evaluates classifiers on them.

    The same points serve all classifiers, so that differences between the steps of a training are far more precise than the
    values.
    """

    def __init__(self, task: Task, model: BagModel, rng: np.random.Generator, replicates: int = REPLICATES):
        self.task, self.model = task, model
        split = split_of(model, task.longest)
        exact = len(split.columns) == model.rank
        self.replicates = [fresh_draws(rng, task, model.rank, split) for _ in range(1 if exact else replicates)]

    def measures(self, overlap: Any, gram: Any, bias: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The `MEASURES` of n classifiers and their standard errors (0 where the value is a closed form)."""
        rows = np.array([measures_on(draws, self.task, self.model, overlap, gram, bias) for draws in self.replicates])
        means, errors = rows.mean(0), standard_error(rows, alone=0.0)
        return {name: (means[:, k], errors[:, k]) for k, name in enumerate(MEASURES)}

    def error_by_bias(self, overlap: Any, gram: Any, bias: float) -> Callable[[float], float]:
        """The test error of one classifier as a function of its bias."""
        errors = [error_by_bias(draws, self.task, self.model, overlap, gram, bias) for draws in self.replicates]
        return lambda b: float(np.mean([error(b) for error in errors]))
