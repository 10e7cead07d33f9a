"""The samplers against each other and against the laws they claim.

Statistical tests state their level: a family of m comparisons runs at LEVEL/m each (Bonferroni), so a correct sampler
fails a family with probability at most LEVEL, and seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Deployment, Positions, Task, Tokens, Training, simulate
from sparsetoken.activations import token_weights
from sparsetoken.laws.signals import draw_places, subset_law
from sparsetoken.simulation.samplers import TensorData, sample_bags
from sparsetoken.simulation.samplers.drawn_bags import draw_bags, sample_count
from sparsetoken.simulation.samplers.reduced import draw_attended, draw_bulk, draw_features, draw_flattened, draw_pooled
from sparsetoken.simulation.two_steps import two_steps

LEVEL = 1e-3
TASK = Task(length=6, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)
D = 30


def least_p_value(one: list[dict], other: list[dict]) -> tuple[float, str]:
    """Smallest two-sample Kolmogorov-Smirnov p-value over the statistics, times their number."""
    names = [name for name in one[0] if not math.isnan(one[0][name])]
    found = [(stats.ks_2samp([r[n] for r in one], [r[n] for r in other]).pvalue * len(names), n) for n in names]
    return min(found)


WEIGHTED = Positions("weighted", weights=(3.0, 1.0, 1.0, 0.0, 2.0, 0.5))


@pytest.mark.parametrize("where", [Positions(), Positions("block"), Positions("fixed", places=(4, 1)), WEIGHTED])
@pytest.mark.parametrize("sparsity", [1, 2])
def test_places_follow_their_law(where, sparsity):
    if where.places is not None:
        where = Positions("fixed", places=where.places[:sparsity])
    task = TASK.but(sparsity=sparsity, positions=where)
    count = 20_000
    drawn = np.sort(draw_places(np.random.default_rng(0), task, count), axis=1)
    law = subset_law(task)
    assert law is not None
    subsets, probability = law
    assert probability.sum() == pytest.approx(1.0)
    seen = {tuple(s): 0 for s in np.sort(subsets, axis=1).tolist()}
    for places in drawn.tolist():
        seen[tuple(places)] += 1  # a KeyError is a subset that should not occur
    if len(seen) > 1:
        assert stats.chisquare(list(seen.values()), probability * count).pvalue > LEVEL


def test_weighted_places_are_successive_draws():
    """Two of three places with weights 1, 2, 3, by hand: P({0, 1}) = 1/6 * 2/5 + 2/6 * 1/4."""
    law = subset_law(Task(3, 2, positions=Positions("weighted", weights=(1.0, 2.0, 3.0))))
    assert law is not None
    probability = dict(zip(map(tuple, law[0].tolist()), law[1]))
    assert probability[(0, 1)] == pytest.approx(1 / 6 * 2 / 5 + 2 / 6 * 1 / 4)


def test_too_many_subsets_are_not_listed():
    assert subset_law(Task(60, 30)) is None
    assert subset_law(Task(60, 10, positions=Positions("weighted", weights=(1.0,) * 60))) is None


def test_tokens_are_what_the_task_says():
    task = TASK.but(positions=Positions("fixed", places=(3, 5)))
    tokens, labels, signal = sample_bags(task, 400, 20, 7)
    assert np.linalg.norm(signal) == pytest.approx(1.0)
    noise = tokens.copy()
    noise[np.ix_(labels > 0, [3, 5])] -= task.strength * signal
    assert stats.kstest(noise.ravel()[:20_000], "norm").pvalue > LEVEL
    share = (labels > 0).mean()
    assert abs(share - task.prevalence) < 4 * math.sqrt(0.4 * 0.6 / 400)


def test_redrawn_tokens_are_the_same_tokens(monkeypatch):
    """A data set too large to keep is drawn anew on every pass, with the same numbers."""
    kept = simulate(TASK, TRAINING, D, 5, sampler="tensor")
    monkeypatch.setattr("sparsetoken.simulation.samplers.tensor.KEPT_NUMBERS", 0)
    data = TensorData(TASK, 150, 40, 3, "1")
    passes = [np.concatenate([tokens for _, tokens in data.blocks()]) for _ in range(2)]
    assert data._kept is None and np.array_equal(*passes)
    assert simulate(TASK, TRAINING, D, 5, sampler="tensor") == kept


def test_one_class_is_an_error():
    rare = TASK.but(prevalence=1e-9)
    with pytest.raises(ValueError, match=r"^D0 holds only negative samples \(60 of them, prevalence 1e-09\)"):
        two_steps(rare, TRAINING, D, 0)
    with pytest.raises(ValueError, match="D1 holds only positive samples"):
        simulate(TASK.but(prevalence=1 - 1e-9), TRAINING, D, 0, model="pooled")
    with pytest.raises(ValueError, match="D0 holds only"):
        simulate(rare, TRAINING, D, 0, sampler="tensor")
    with pytest.raises(ValueError, match=r"alpha1 = 0\.01 gives 0 samples at d = 30"):
        sample_count("alpha1", 0.01, 30)


def steps_of(sampler: str, task: Task, trials: int) -> list[dict]:
    offset = 10_000 if sampler == "tensor" else 0
    names = ("cosine_w", "cosine_q", "norm_w", "norm_q", "bias", "overlap_q")
    rows = []
    for seed in range(trials):
        found = two_steps(task, TRAINING, D, seed + offset, sampler)
        row = {name: found.to_row()[name] for name in names}
        rows.append(row | {"cosine_wq": found.readout @ found.query / (found.norm["w"] * found.norm["q"])})
    return rows


@pytest.mark.parametrize(
    "task", [TASK, Task(2, 1, 2.0), Task(3, 3, 1.0), Task(12, 1, 0.0), TASK.but(positions="block")], ids=repr
)
def test_two_steps_have_the_same_law(task):
    p, name = least_p_value(steps_of("reduced", task, 400), steps_of("tensor", task, 400))
    assert p > LEVEL, name


def test_the_comparison_can_fail():
    """400 trials per side notice a signal that is a tenth too strong."""
    p, _ = least_p_value(steps_of("reduced", TASK.but(strength=3.3), 400), steps_of("tensor", TASK, 400))
    assert p < LEVEL


def feature_statistics(x: np.ndarray, special: np.ndarray, y: np.ndarray) -> list[dict]:
    """What a rotation cannot change, for pairs of samples: special coordinates, norms, inner products."""
    rows = []
    for i in range(0, len(y) - 1, 2):
        row = {f"axis{k}": special[i, k] for k in range(special.shape[1])}
        rows.append(row | {"norm": x[i] @ x[i], "inner": x[i] @ x[i + 1], "label": y[i]})
    return rows


def gather(make: Callable[[int], list[dict]], trials: int, offset: int = 0) -> list[dict]:
    return [row for seed in range(trials) for row in make(seed + offset)]


def by_class(rows: list[dict]) -> list[list[dict]]:
    return [[{n: v for n, v in r.items() if n != "label"} for r in rows if r["label"] == y] for y in (-1.0, 1.0)]


@pytest.mark.parametrize("kind", ["pooled", "vectorized", "attention", "elementwise"])
@pytest.mark.parametrize("count", [9, 60])  # fewer and more samples than dimensions
def test_features_have_the_same_law(kind, count):
    d, cosine, sharpness = 20, 0.7, 1.3
    task = TASK.but(positions=WEIGHTED)
    activation = np.tanh if kind == "elementwise" else None

    def reduced(seed: int) -> list[dict]:
        bags = draw_bags(task, count, seed, "_test")  # a test set may hold one class only
        if kind == "pooled":
            x = draw_features(draw_pooled(bags, seed), d)
        elif kind == "vectorized":
            x = draw_features(draw_flattened(bags, seed), d * task.length)
        else:
            x = draw_features(draw_attended(bags, seed, cosine, sharpness, activation), d)
        special = {"pooled": 1, "vectorized": task.length}.get(kind, 2)
        return feature_statistics(x, x[:, :special], bags.labels)

    def tensor(seed: int) -> list[dict]:
        data = TensorData(task, count, d, seed, "_test")
        xi = data.signal
        if kind == "pooled":
            x = data.collect(lambda tokens: tokens.mean(axis=1))
            return feature_statistics(x, (x @ xi)[:, None], data.labels)
        if kind == "vectorized":
            x = data.collect(lambda tokens: tokens.reshape(len(tokens), -1))
            return feature_statistics(x, x.reshape(count, -1, d) @ xi, data.labels)
        u = np.random.default_rng(seed).standard_normal(d)
        u -= (u @ xi) * xi
        q_hat = cosine * xi + math.sqrt(1 - cosine**2) * u / np.linalg.norm(u)
        u = (xi - cosine * q_hat) / math.sqrt(1 - cosine**2)
        x = data.collect(
            lambda tokens: np.einsum("nl,nld->nd", token_weights(tokens @ (sharpness * q_hat), activation), tokens)
        )
        return feature_statistics(x, x @ np.stack([q_hat, u], axis=1), data.labels)

    trials = 900 // count
    pairs = zip(by_class(gather(reduced, trials)), by_class(gather(tensor, trials, 10_000)))
    for one, other in pairs:
        p, name = least_p_value(one, other)
        assert p > LEVEL, name


def test_bulk_rows_below_and_above_the_dimension():
    rng = np.random.default_rng(0)
    assert draw_bulk(rng, 5, 100).shape == (5, 5) and draw_bulk(rng, 100, 5).shape == (100, 5)
    grams = np.array([(lambda x: x @ x.T)(draw_bulk(rng, 4, 7)) for _ in range(4000)])
    expected = np.array([(lambda x: x @ x.T)(rng.standard_normal((4, 7))) for _ in range(4000)])
    for i, j in ((0, 0), (3, 3), (0, 3), (2, 1)):
        assert stats.ks_2samp(grams[:, i, j], expected[:, i, j]).pvalue > LEVEL / 4


FIELDS = ("test_error", "train_loss", "train_error", "norm_w", "bias", "cosine_w", "auc", "cosine_q")


def results_of(sampler: str, trials: int, training: Training = TRAINING, task: Task = TASK, **options) -> list[dict]:
    offset = 10_000 if sampler == "tensor" else 0
    found = [simulate(task, training, D, seed + offset, sampler=sampler, **options) for seed in range(trials)]
    return [{name: one.to_row()[name] for name in FIELDS} for one in found]


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ("attention", TRAINING),
        ("attention", TRAINING.but(loss="square", alpha1=0.6)),
        ("elementwise", TRAINING),
        ("pooled", TRAINING.but(loss="smoothed_hinge", alpha1=0.6)),
        ("pooled", TRAINING),
        ("vectorized", TRAINING),
        ("vectorized", TRAINING.but(alpha1=8.0, ridge=0.1)),
    ],
)
def test_results_have_the_same_law(model, training):
    task = TASK.but(positions=WEIGHTED)
    trials = 150
    p, name = least_p_value(
        results_of("reduced", trials, training, task, model=model),
        results_of("tensor", trials, training, task, model=model),
    )
    assert p > LEVEL, name


DIFFERING = Task({4: 0.5, 9: 0.5}, {1: 0.6, 2: 0.4}, {3.0: 0.4, 6.0: 0.6}, 0.4, "uniform", 0.1, 0.1, 0.2)


@pytest.fixture(scope="module")
def differing():
    """64 trials on bags that differ in every way: (sampler, model, fields changed) -> rows, those without changes kept."""
    kept: dict[tuple[str, str], list[dict]] = {}

    def rows(sampler: str, model: str, **change) -> list[dict]:
        if change:
            return results_of(sampler, 64, TRAINING, DIFFERING.but(**change), model=model)
        if (sampler, model) not in kept:
            kept[sampler, model] = results_of(sampler, 64, TRAINING, DIFFERING, model=model)
        return kept[sampler, model]

    return rows


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled"])
def test_bags_that_differ_have_the_same_law(model, differing):
    """Every departure from the plain task at once."""
    p, name = least_p_value(differing("reduced", model), differing("tensor", model))
    assert p > LEVEL, name


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("attention", {"label_noise": 0.0}),
        ("attention", {"contamination": 0.4}),
        ("attention", {"strength": 3.0}),
        ("pooled", {"correlation": 0.0}),
        ("pooled", {"length": 4}),
        ("pooled", {"sparsity": 2}),
    ],
    ids=str,
)
def test_each_departure_is_noticed(model, change, differing):
    """The comparison fails where one sampler has it otherwise; each with a model whose results it moves."""
    p, _ = least_p_value(differing("reduced", model, **change), differing("tensor", model))
    assert p < LEVEL


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tokens": Tokens(covariance="power:0.5")}, "coloured noise"),
        ({"tokens": Tokens(covariance="power:0.5"), "sampler": "tensor"}, "coloured noise"),
        ({"tokens": Tokens(noise="rademacher")}, "rademacher noise"),
        ({"tokens": Tokens(noise=np.random.default_rng(0).standard_normal((40, 8, D)))}, "real noise"),
        ({"model": "heads:2"}, "several heads"),
        ({"model": "heads:2", "sampler": "tensor"}, "several heads"),
    ],
)
@pytest.mark.parametrize(
    "change", [{"length": {4: 0.5, 8: 0.5}}, {"strength": {2.0: 0.5, 4.0: 0.5}}, {"label_noise": 0.1}], ids=str
)
@pytest.mark.parametrize("tested", [False, True])
def test_what_needs_plain_bags_says_so(options, words, change, tested):
    plain = Task(8, 1, 4.0)
    tasks = {"deployment": Deployment(plain.but(**change))} if tested else {}
    name = next(iter(change))
    with pytest.raises(ValueError, match=rf"^{name} must be (one number|0) for {words}, got [^\n]*$"):
        simulate(plain if tested else plain.but(**change), TRAINING, D, 0, **options, **tasks)
