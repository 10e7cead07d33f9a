"""Descent step by step: against descent written out by hand, the two samplers against each other, and the limits.

Statistical tests state their level: a family of m comparisons runs at LEVEL/m each, and seeds are fixed.
"""

from __future__ import annotations

import math
import tracemalloc
import weakref

import numpy as np
import pytest
from scipy import stats

from sparsetoken import Positions, Task, Training, simulate_end
from sparsetoken.bag_models import BagModel, get_bag_model
from sparsetoken.losses import Loss
from sparsetoken.schedules import Stage, expand
from sparsetoken.simulation import trajectory as module
from sparsetoken.simulation.samplers import TensorData
from sparsetoken.simulation.samplers.implicit_bags import ImplicitGaussian
from sparsetoken.simulation.trajectory import (
    DrawnDescent,
    joint_trajectory,
    random_start,
    simulate_trajectory,
)
from sparsetoken.theory import Sampling, trajectory
from sparsetoken.trajectories import mean_trajectory

LEVEL = 1e-3
TASK = Task(length=4, sparsity=2, strength=3.0, prevalence=0.4)
JOINT = (Stage(5, 2.0, {"q": 2.0, "w": 1.5, "bias": 0.7}, {"q": 0.05, "w": 0.1}, momentum=0.4),)
# Two data sets in turn, then the first alone with other rates, then fresh data.
MIXED = (
    Stage(4, (2.0, 3.0), {"q": 1.5, "w": 1.0, "bias": 0.5}, {"w": 0.2}, data=("one", "two")),
    Stage(2, 2.0, {"w": (0.5, 0.25)}, momentum=0.3, data="one"),
    Stage(2, 2.5, {"q": 0.5, "w": 0.5, "bias": 0.1}, data="fresh"),
)


def for_directions(stages: tuple[Stage, ...], model: BagModel) -> tuple[Stage, ...]:
    """The stages with the rates of q and w for directions of other names: the last letter of "q1", "w2" does not count."""
    changed = []
    for stage in stages:
        plain = stage.to_dict()
        for table in ("rates", "decay"):
            given = getattr(stage, table)
            kinds = {name: name[0] if name[0] in given else "w" for name in model.directions}
            plain[table] = {name: given[kind] for name, kind in kinds.items() if kind in given}
            if "bias" in given:
                plain[table]["bias"] = given["bias"]
        changed.append(Stage.from_dict(plain))
    return tuple(changed)


def test_a_random_start_has_the_norms_and_cosines_asked_for():
    model, xi = get_bag_model("self_attention"), np.eye(9)[2]
    theta = random_start({"q": 0.5, "k": 2.0, "cosine[q]": -0.6, "cosine[k]": 1.0, "w": 0.3}, model, xi, 3)
    norms, cosines = np.array([0.5, 2.0, 0.0, 0.3]), np.array([-0.6, 1.0, 0.0, 0.0])
    assert np.linalg.norm(theta, axis=0) == pytest.approx(norms, abs=1e-12)
    assert xi @ theta == pytest.approx(norms * cosines, abs=1e-12)
    off = theta - np.outer(xi, xi @ theta)
    assert off.T @ off == pytest.approx(np.diag(norms**2 * (1 - cosines**2)), abs=1e-12)


def test_attention_with_decay_momentum_and_two_data_sets_by_hand():
    """Softmax attention and the logistic loss differentiated by hand, on the tensor sampler's own tokens."""
    d, seed, start = 15, 4, {"q": 0.6, "w": 0.3, "bias": -0.4}
    found = simulate_trajectory(TASK, "attention:2", MIXED, d, seed, sampler="tensor", start=start)
    schedule = expand(MIXED, ("q", "w"))
    sets = [TensorData(TASK, round(alpha * d), d, seed, f":{k}") for k, alpha in enumerate(schedule.alpha)]
    xi = sets[0].signal
    theta = random_start(start, get_bag_model("attention"), xi, seed)
    before, bias = theta, -0.4
    for t, k in enumerate(schedule.data_set):
        data = sets[k]
        tokens, y = np.concatenate([block for _, block in data.blocks()]), data.labels
        p = np.exp(2.0 * tokens @ theta[:, 0])
        p /= p.sum(axis=1, keepdims=True)
        readout = tokens @ theta[:, 1]
        z = (p * readout).sum(axis=1) + bias
        assert found.train_loss[t] == pytest.approx(np.log1p(np.exp(-y * z)).mean(), rel=1e-12)
        assert found.train_error[t] == np.mean(z * y < 0)
        assert found.bias[t] == pytest.approx(bias, rel=1e-12, abs=1e-15)
        assert found.gram[t] == pytest.approx(theta.T @ theta, rel=1e-11)
        assert found.overlap["q"][t] == pytest.approx(xi @ theta[:, 0], abs=1e-12)
        assert found.cosine["w"][t] == pytest.approx(xi @ theta[:, 1] / np.linalg.norm(theta[:, 1]), abs=1e-12)
        if t == schedule.steps:
            break
        c = -y / (1 + np.exp(y * z))
        pulls = 2.0 * c[:, None] * p * (readout - (z - bias)[:, None]), c[:, None] * p
        gradient = np.stack([np.einsum("il,ild->d", pull, tokens) / len(y) for pull in pulls], axis=1)
        rates, decay, momentum = schedule.rates[t], schedule.decay[t], schedule.momentum[t]
        after = theta - rates[:2] * (gradient + decay * theta) + momentum * (theta - before)
        before, theta, bias = theta, after, bias - rates[2] * c.mean()
    assert len(sets) == 5  # the last is the set that a further step would use


def summaries(paths: list[module.Path]) -> np.ndarray:
    """One row per run: everything that was recorded, at every step, as far as it varies."""
    rows = []
    for path in paths:
        r = path.gram.shape[1]
        upper = path.gram[(slice(None), *np.triu_indices(r))]
        columns = [path.overlap, upper, path.bias[:, None], path.train_loss[:, None]]
        rows.append(np.concatenate([c[1:].ravel() for c in columns]))
    table = np.array(rows)
    return table[:, table.std(axis=0) > 1e-9]


def least_p_value(model: str, stages: tuple[Stage, ...], start: dict | None, seeds: int, task: Task = TASK) -> float:
    """Smallest two-sample Kolmogorov-Smirnov p-value over all recorded numbers, times their number."""
    chosen = get_bag_model(model)
    stages = for_directions(stages, chosen)
    tables = [
        summaries(
            [DrawnDescent(task, chosen, stages, 12, first + seed, sampler, start=start).path() for seed in range(seeds)]
        )
        for sampler, first in (("reduced", 0), ("tensor", 10_000))
    ]
    assert tables[0].shape == tables[1].shape
    return min(stats.ks_2samp(*columns).pvalue for columns in zip(*(t.T for t in tables))) * tables[0].shape[1]


CASES = [
    ("attention", JOINT, None),
    ("attention", MIXED, {"q": 0.5}),
    ("tied", JOINT, None),
    ("heads:2", MIXED, {"q1": 0.5, "w1": 0.3, "q2": 0.5, "w2": 0.3}),
    ("gated", JOINT, {"v": 0.5}),
]


@pytest.mark.parametrize(("model", "stages", "start"), CASES)
def test_both_samplers_have_one_law(model, stages, start):
    assert least_p_value(model, stages, start, 100) > LEVEL


def test_both_samplers_have_one_law_where_the_signal_sits_in_a_block():
    task = TASK.but(positions=Positions("block"), length=5)
    assert least_p_value("thresholded", JOINT, {"q": 0.4}, 80, task) > LEVEL


def test_the_comparison_of_samplers_can_fail(monkeypatch):
    """Noise that forgets what the tokens have already shown is caught at the second step."""

    def forgetful(self, vector, other):
        return self.rng.standard_normal(other.basis.shape[1])

    monkeypatch.setattr(ImplicitGaussian, "_image", forgetful)
    assert least_p_value("attention", JOINT, None, 100) < LEVEL


def test_readout_at_rest_costs_nothing_and_a_resting_direction_stays():
    """Rates of zero: the direction keeps its start exactly, and momentum does not wake it."""
    stage = Stage(3, 2.0, {"w": 1.0}, {"q": 5.0}, momentum=0.5)
    found = simulate_trajectory(TASK, "attention", stage, 20, 1, start={"q": 0.7})
    assert found.norm("q") == pytest.approx([0.7] * 4, rel=1e-12)
    assert np.all(found.bias == 0.0)
    assert found.norm("w")[-1] > 0


def test_starts_are_orthogonal_and_have_their_norms():
    start = {"q1": 0.5, "w2": 2.0}
    found = simulate_trajectory(TASK, "heads:2", Stage(1, 2.0, {"q1": 1.0}), 20, 3, start=start)
    assert found.gram[0] == pytest.approx(np.diag([0.25, 0.0, 0.0, 4.0]), abs=1e-12)
    assert [found.overlap[name][0] for name in found.directions] == pytest.approx([0.0] * 4, abs=1e-12)
    other = random_start(start, get_bag_model("heads:2"), np.eye(20)[0], 4)
    assert np.abs(other - random_start(start, get_bag_model("heads:2"), np.eye(20)[0], 3)).max() > 0.01


def test_a_zero_start_is_at_chance_with_ties_counted_half():
    found = simulate_trajectory(TASK, "attention", JOINT, 30, 0)
    assert found.test_error[0] == found.train_error[0] == found.auc[0] == 0.5
    assert found.train_loss[0] == pytest.approx(math.log(2))
    assert found.cosine["q"][0] == found.cosine["q"][1] == 0.0  # the query's gradient vanishes at the first step


@pytest.mark.parametrize("sampler", ["reduced", "tensor"])
def test_the_seed_decides_everything(sampler):
    runs = [simulate_trajectory(TASK, "attention", JOINT, 25, seed, sampler=sampler).columns() for seed in (5, 5, 6)]
    for name, values in runs[0].items():
        assert np.array_equal(values, runs[1][name], equal_nan=True)
    assert not np.array_equal(runs[0]["train_loss"], runs[2]["train_loss"])


def test_the_number_of_bags_differentiated_at_a_time_changes_nothing(monkeypatch):
    model = get_bag_model("attention")
    once = DrawnDescent(TASK, model, JOINT, 30, 2).path()
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 4 * 2 * 16)  # 16 bags, and 60 is not a multiple
    again = DrawnDescent(TASK, model, JOINT, 30, 2).path()
    assert again.gram == pytest.approx(once.gram, rel=1e-12)


def test_only_the_steps_asked_for_are_tested():
    stage = Stage(3, 2.0, {"w": 1.0, "bias": 1.0})
    every, some = (simulate_trajectory(TASK, "pooled", stage, 20, 3, tested=t) for t in (None, [2, 0, 2]))
    for name, values in every.columns().items():
        if name.removesuffix("_se") in ("test_error", "auc", "sensitivity", "specificity"):
            values = np.where(np.isin(every.columns()["step"], [0, 2]), values, np.nan)
        assert np.array_equal(some.columns()[name], values, equal_nan=True), name
    for wrong in ([], [4], [-1], [0.5]):
        with pytest.raises(ValueError, match="tested"):
            simulate_trajectory(TASK, "pooled", stage, 20, 3, tested=wrong)


def test_the_derivatives_of_a_model_are_compiled_once():
    model = BagModel(lambda H, bias: (H[:, 0] * H[:, 1]).mean() + bias, ("t", "w"))
    DrawnDescent(TASK, model, Stage(3, 2.0, {"t": 1.0, "w": 1.0, "bias": 1.0}), 16, 0, start={"t": 1.0}).path()
    assert module._compiled_derivatives(model)._cache_size() == 1


def test_samples_are_rounded_and_reported():
    found = simulate_trajectory(TASK, "pooled", Stage(1, 1.26, {"w": 1.0}), 10, 1)
    assert found.details["bags"] == (13,)
    assert found.details["d"] == 10 and found.details["sampler"] == "reduced"
    with pytest.raises(ValueError, match="gives 1 samples"):
        simulate_trajectory(TASK, "pooled", Stage(1, 0.05, {"w": 1.0}), 20, 1)


def test_both_classes_are_required():
    rare = TASK.but(prevalence=1e-6)
    for sampler in ("reduced", "tensor"):
        with pytest.raises(ValueError, match="data set 0 holds only negative samples"):
            simulate_trajectory(rare, "pooled", Stage(1, 2.0, {"w": 1.0}), 10, 1, sampler=sampler)


def test_arguments_are_checked():
    stage = Stage(1, 2.0, {"w": 1.0})
    with pytest.raises(ValueError, match="sampler must be one of"):
        simulate_trajectory(TASK, "pooled", stage, 10, 0, sampler="fast")
    with pytest.raises(ValueError, match="start must name w"):
        simulate_trajectory(TASK, "pooled", stage, 10, 0, start={"q": 1.0})
    with pytest.raises(ValueError, match="start"):
        simulate_trajectory(TASK, "pooled", stage, 10, 0, start={"w": -1.0})
    with pytest.raises(ValueError, match="start\\['bias'\\]"):
        simulate_trajectory(TASK, "pooled", stage, 10, 0, start={"bias": math.nan})
    with pytest.raises(ValueError, match="d must"):
        simulate_trajectory(TASK, "pooled", stage, 1, 0)
    with pytest.raises(ValueError, match="rates must name"):
        simulate_trajectory(TASK, "tied", Stage(1, 2.0, {"q": 1.0}), 10, 0)
    with pytest.raises(ValueError, match="beta"):
        joint_trajectory(TASK, Training(beta=0.0), 10, 0)


def test_divergence_is_an_error():
    wild = Stage(40, 2.0, {"q": 1e90, "w": 1e90})
    with pytest.raises(FloatingPointError, match="smaller rates"):
        simulate_trajectory(TASK, "attention", wild, 10, 0, loss="square")


class Absolute(Loss):
    """A user's loss that only NumPy can evaluate: sqrt(1 + (z - y)^2)."""

    name = "absolute"

    def value(self, z, y):
        return np.sqrt(1.0 + np.asarray(z - y) ** 2)

    def slope(self, z, y):
        return np.asarray(z - y) / self.value(z, y)

    def curvature(self, z, y):
        return self.value(z, y) ** -3


def test_a_users_model_and_loss():
    def score(H, bias):
        return (H[:, 0] * H[:, 1]).mean() + bias

    model = BagModel(score, ("t", "w"), "product")
    stage = Stage(3, 2.0, {"t": 0.3, "w": 0.3, "bias": 0.2})
    start = {"t": 0.5, "w": 0.5}
    found = [
        simulate_trajectory(TASK, model, stage, 15, 3, sampler=s, loss=Absolute(), start=start)
        for s in ("reduced", "tensor")
    ]
    for run in found:
        assert run.train_loss[-1] < run.train_loss[0]
        assert run.directions == ("t", "w") and run.model == "product"
    assert found[0].train_loss[0] != found[1].train_loss[0]  # other tokens


def test_pooled_square_loss_is_linear_descent():
    """The pooled model with the square loss: Theta follows a linear recursion of the bags' means."""
    d, seed, rate, decay = 20, 3, 0.8, 0.1
    stage = Stage(6, 3.0, {"w": rate, "bias": 0.3}, {"w": decay})
    found = simulate_trajectory(TASK, "pooled", stage, d, seed, sampler="tensor", loss="square")
    data = TensorData(TASK, 60, d, seed, ":0")
    X, y = data.collect(lambda tokens: tokens.mean(axis=1)), data.labels
    w, b = np.zeros(d), 0.0
    for t in range(7):
        assert found.gram[t, 0, 0] == pytest.approx(w @ w, rel=1e-11, abs=1e-20)
        assert found.train_loss[t] == pytest.approx(0.5 * np.mean((X @ w + b - y) ** 2), rel=1e-12)
        residual = (X @ w + b - y) / len(y)
        w, b = w * (1 - decay * rate) - rate * X.T @ residual, b - 0.3 * residual.sum()


def test_data_sets_are_let_go_after_their_last_step():
    alive: weakref.WeakSet = weakref.WeakSet()
    most = 0
    model = get_bag_model("pooled")
    signal = np.eye(10)[0]

    def draw(k):
        nonlocal most
        bags = module.ImplicitBags(TASK, 12, signal, 5, f":{k}")
        alive.add(bags)
        most = max(most, len(alive))
        return bags

    schedule = expand((Stage(6, 1.2, {"w": 1.0}, data="fresh"),), model.directions)
    module.descend(draw, schedule, model, module.get_loss("logistic"), np.zeros((10, 1)), signal)
    assert most <= 2  # the local name holds the last one until the next is drawn


def test_memory_is_that_of_the_products_and_not_of_the_tokens():
    task, d, steps = Task(length=10), 3000, 4
    model = get_bag_model("attention")
    stage = Stage(steps, 2.0, {"q": 1.0, "w": 1.0})
    DrawnDescent(task, model, stage, 20, 0).path()  # compile first
    tracemalloc.start()
    DrawnDescent(task, model, stage, d, 0).path()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows = 2 * d * task.length
    kept = (rows + d) * 2 * 2 * steps * 8
    assert peak < 2.5 * kept + 16 * rows * 8  # the bases, their spare rows, and a few arrays the size of the fields
    assert peak < rows * d * 8 / 10


def test_joint_training_is_descent_on_all_bags():
    training = Training(alpha0=1.0, alpha1=2.0, eta_q=3.0, eta_w=2.0, eta_b=0.5, beta=1.5, ridge=0.05, loss="square")
    found = joint_trajectory(TASK, training.but(steps=4), 20, 7, "tensor")
    stage = Stage(4, 3.0, {"q": 3.0, "w": 2.0, "bias": 0.5}, {"w": 0.05})
    expected = simulate_trajectory(TASK, "attention:1.5", stage, 20, 7, sampler="tensor", loss="square")
    assert np.array_equal(found.gram, expected.gram)
    assert found.details["bags"] == (60,)


def test_the_mean_of_runs_has_standard_errors():
    runs = [simulate_trajectory(TASK, "attention", JOINT, 20, seed) for seed in range(4)]
    mean = mean_trajectory(runs)
    values = np.array([run.overlap["w"] for run in runs])
    assert mean.overlap["w"] == pytest.approx(values.mean(axis=0))
    assert mean.errors["overlap"]["w"] == pytest.approx(values.std(axis=0, ddof=1) / 2)
    assert mean.errors["gram"].shape == mean.gram.shape
    assert mean.standard_error[-1] > 0 and mean.details["runs"] == 4
    with pytest.raises(ValueError, match="two or more"):
        mean_trajectory(runs[:1])


def test_the_limit_is_approached():
    """The tied model after five steps against its infinite limit, known to about 1e-3; the gap at d is of order 1/d."""
    d, limit = 500, {"overlap": 0.7375, "square": 0.9356, "train_loss": 0.4737, "bias": -0.1168}
    stage = Stage(5, 1.0, {"w": 1.0, "bias": 0.5}, {"w": 0.01})
    task = Task(length=10, sparsity=1, strength=4.0, prevalence=0.5)
    paths = [DrawnDescent(task, get_bag_model("tied"), stage, d, seed).path() for seed in range(24)]
    found = {
        "overlap": [path.overlap[5, 0] for path in paths],
        "square": [path.gram[5, 0, 0] for path in paths],
        "train_loss": [path.train_loss[5] for path in paths],
        "bias": [path.bias[5] for path in paths],
    }
    for name, values in found.items():
        error = math.hypot(np.std(values, ddof=1) / math.sqrt(len(values)), 1e-3)
        assert abs(np.mean(values) - limit[name]) < 4 * error + 1 / d, name


def test_mini_batches_from_a_random_start_approach_their_limit():
    """Two batches in turn, query, readout and bias off zero: every overlap, norm and bias against the exact dynamics."""
    d, steps, start = 200, 6, {"q": 0.5, "w": 0.5, "bias": 0.8}
    stage = Stage(steps, (1.0, 1.5), {"q": 1.0, "w": 1.0, "bias": 0.5}, {"q": 0.2, "w": 0.2}, data=("one", "two"))
    task = Task(length=4, sparsity=1, strength=4.0, prevalence=0.5)
    limit = trajectory(task, "attention", stage, start=start, accuracy=0.01, sampling=Sampling(replicates=8))
    paths = [DrawnDescent(task, get_bag_model("attention"), stage, d, seed, start=start).path() for seed in range(24)]
    assert limit.bias[0] == pytest.approx(0.8) and paths[0].bias[0] == 0.8
    assert {round(float(path.overlap[0] @ path.overlap[0]), 12) for path in paths} == {0.0}
    pairs = {
        "bias": ([path.bias for path in paths], limit.bias, limit.errors["bias"]),
        "gram": ([path.gram for path in paths], limit.gram, limit.errors["gram"]),
        "train_loss": ([path.train_loss for path in paths], limit.train_loss, limit.errors["train_loss"]),
    }
    for i, name in enumerate(("q", "w")):
        pairs[name] = ([path.overlap[:, i] for path in paths], limit.overlap[name], limit.errors["overlap"][name])
    for name, (values, expected, error) in pairs.items():
        scatter = np.std(values, axis=0, ddof=1) / math.sqrt(len(paths))
        # Five standard errors and the finite size's own share, which is of order 1/d.
        assert (np.abs(np.mean(values, axis=0) - expected) < 5 * np.hypot(scatter, error) + 3 / d).all(), name


def test_whole_numbers_of_any_type_are_the_same_run():
    stage, plain = Stage(2, 2.0), {"d": 30, "seed": 3}
    for d, seed in ((30.0, 3.0), (np.int64(30), np.int64(3))):
        run = simulate_trajectory(Task(), "tied:2", stage, d, seed)
        assert np.array_equal(run.test_error, simulate_trajectory(Task(), "tied:2", stage, **plain).test_error)
        assert type(run.details["d"]) is int and type(run.details["seed"]) is int
        ends = [simulate_end(Task(), "tied:2", 2.0, 0.5, *size) for size in ((d, seed), plain.values())]
        assert ends[0].test_error == ends[1].test_error
