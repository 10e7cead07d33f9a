"""Several heads: one head and equal heads against `erm`, several against simulated readouts."""

import numpy as np
import pytest
from scipy.special import ndtr

from sparsetoken import Task, theory
from sparsetoken._core.devices import double_precision
from sparsetoken.activations import softmax
from sparsetoken.simulation.heads import head_readout
from sparsetoken.solvers.erm import fit_erm
from sparsetoken.theory.fixed_point.heads import HeadsReadout
from sparsetoken.theory.fixed_point.prox_averages import evaluate

NUMBERS = ("test_error", "train_loss", "train_error", "norm_w", "bias", "auc", "sensitivity")


def close(found, known, names=NUMBERS, bound=4.5):
    for name in names:
        errors = [r.standard_error if name == "test_error" else r.errors[name] for r in (found, known)]
        gap = abs(getattr(found, name) - getattr(known, name))
        assert gap <= bound * np.hypot(*errors) + 1e-7, (name, gap, errors)


@pytest.mark.parametrize(("loss", "ridge"), [("logistic", 1e-4), ("square", 1e-2), ("smoothed_hinge", 1.0)])
def test_one_head_is_erm(loss, ridge):
    task = Task(prevalence=0.3)
    found = theory.erm(theory.heads_law(task, 0.8, 1.5), 2.0, ridge, loss, accuracy=1e-3)
    known = theory.erm(theory.attention_law(task, 0.8, 1.5), 2.0, ridge, loss)
    close(found, known)
    assert found.residual < 1e-8 and known.cosine["w"] == pytest.approx(found.cosine["w"], abs=5e-3)
    assert found.Q[0, 0] == pytest.approx(known.nu**2, rel=0.02) and found.V[0, 0] == pytest.approx(known.V, rel=0.02)


def test_equal_heads_are_one_with_half_the_ridge():
    """Two equal heads carry equal readouts: w = (v, v)/2 costs half the ridge of v."""
    task = Task()
    query = np.array([[1.2, 0.6]])
    twice = theory.erm(theory.heads_law(task, queries=np.repeat(query, 2, axis=0)), 2.0, 2e-2, accuracy=1e-3)
    sharpness = float(np.linalg.norm(query))
    once = theory.erm(theory.attention_law(task, 1.2 / sharpness, sharpness), 2.0, 1e-2)
    close(twice, once, ("test_error", "train_loss", "bias"))
    assert np.allclose(twice.m_T[0], twice.m_T[1], atol=1e-6) and np.allclose(twice.Q, twice.Q[0, 0], rtol=1e-6)
    assert twice.norm_w == pytest.approx(once.norm_w / np.sqrt(2), rel=0.01)


def test_a_neighbour_with_fewer_unknowns_is_no_start():
    """Such as one whose heads are alike, their queries spanning less: a sweep goes on without it."""
    law = theory.heads_law(Task(), [0.8, 0.5], [1.0, 2.0])
    known = theory.erm(law, 2.0, 2e-2, "square", accuracy=0.05)
    near = theory.WarmStart(known.fixed_point[:-4])
    found = theory.erm(law, 2.0, 2e-2, "square", accuracy=0.05, warm_start=near)
    np.testing.assert_array_equal(found.fixed_point, known.fixed_point)


def test_the_jacobian_is_that_of_the_residual():
    law = theory.heads_law(Task(), [0.8, 0.5], [1.0, 2.0])
    problem = HeadsReadout(law, 2.0, 0.1, "square")
    x = 0.3 * np.random.default_rng(0).standard_normal(problem.equations.unknowns)
    with double_precision():
        blocks = problem.blocks(32)

        def at(x):
            return evaluate(problem.equations, problem.loss, x, blocks, problem.constants(0.1))

        here = at(x)
        for i in range(len(x)):
            step = 1e-5 * np.eye(len(x))[i]
            up, down = at(x + step), at(x - step)
            assert np.allclose((up.F - down.F) / 2e-5, here.J[:-1, i], atol=1e-5 * (1 + np.abs(here.J[:, i]).max()))
            assert (up.replicate_loss - down.replicate_loss).mean() / 2e-5 == pytest.approx(here.J[-1, i], abs=1e-5)


def simulated(law, alpha, ridge, loss, d, seed):
    """Readouts trained on features drawn in the space of the heads: test error, ||w||, bias, loss, Q and signal overlaps."""
    rng = np.random.default_rng(seed)
    task, H, D = law.task, law.heads, law.queries.shape[1]
    n = round(alpha * d)

    def bags(count):
        y = np.where(np.arange(count) < round(task.prevalence * count), 1.0, -1.0)
        x = rng.standard_normal((count, task.length, D))
        which = rng.choice(len(law.shares), count, p=law.shares)
        x[:, : task.sparsity] += (task.strength * law.signals[which] * (y > 0)[:, None])[:, None]
        p = softmax(np.einsum("nld,hd->nhl", x, law.queries))
        return y, p @ x, p @ p.transpose(0, 2, 1)

    y, low, K = bags(n)
    rest = np.linalg.cholesky(K + 1e-12 * np.eye(H)) @ rng.standard_normal((n, H, d - D))
    fit = fit_erm(np.concatenate([low, rest], axis=-1).reshape(n, -1), y, ridge, loss)
    w = fit.coef.reshape(H, d)
    m, Q = w[:, :D], w[:, D:] @ w[:, D:].T
    y, low, K = bags(30_000)
    z = ((low * m).sum((1, 2)) + fit.bias) / np.sqrt((K * Q).sum((1, 2)))
    overlap = m @ law.signals.T
    return np.array([ndtr(-y * z).mean(), np.linalg.norm(w), fit.bias, *overlap.ravel(), *np.diagonal(Q)])


def two_signals(heads):
    queries = np.zeros((heads, 2 + heads))
    for h in range(heads):
        queries[h, h % 2], queries[h, 2 + h] = 1.2, 0.3 + 0.2 * h
    return queries, np.eye(2, 2 + heads)


@pytest.mark.parametrize(
    ("heads", "loss", "task", "several"),
    [
        (2, "logistic", Task(), True),
        (2, "square", Task(length=8, sparsity=2, strength=3.0, prevalence=0.4), False),
        (4, "logistic", Task(length=6, strength=4.0), True),
    ],
)
def test_several_heads_against_simulation(heads, loss, task, several):
    alpha, ridge, d, draws = 2.0, 0.05, 240, 8
    if several:
        queries, signals = two_signals(heads)
        law = theory.heads_law(task, queries=queries, signals=signals)
    else:
        law = theory.heads_law(task, np.linspace(0.6, 0.95, heads), np.linspace(0.5, 2.0, heads))
    found = theory.erm(law, alpha, ridge, loss, accuracy=1e-3)
    # Q of the simulation holds what the signals' own space has besides m_S: nothing, in the limit.
    limits = np.array(
        [found.test_error, found.norm_w, found.bias, *found.signal_overlap.ravel(), *np.diagonal(found.Q)]
    )
    trials = np.array([simulated(law, alpha, ridge, loss, d, seed) for seed in range(draws)])
    error = trials.std(0, ddof=1) / np.sqrt(draws)
    z = (trials.mean(0) - limits) / np.hypot(error, 2.0 * np.abs(limits) / d)  # corrections of order 1/d
    assert np.abs(z).max() < 4.0, z
    assert np.sqrt((z**2).mean()) < 2.0, z


def test_error_bars_cover_and_accuracy_is_met():
    law = theory.heads_law(Task(), [0.8, 0.8], [1.0, 2.0])
    rough = theory.erm(law, 2.0, 1e-2, accuracy=5e-3)
    fine = theory.erm(law, 2.0, 1e-2, accuracy=2e-4)
    assert rough.points < fine.points and fine.standard_error <= 0.4 * 2e-4
    close(rough, fine)


def test_results_are_plain_and_read_only():
    found = theory.erm(theory.heads_law(Task(), [0.8, 0.8], [1.0, 2.0]), 2.0, 1e-1, accuracy=5e-3)
    row = found.to_row()
    assert row["V_0_1"] == found.V[0, 1] == found.V[1, 0] and row["Q_1_0_se"] > 0 and row["model"] == "heads"
    assert np.shape(found.to_dict()["m_T"]) == (2, 2)
    assert found.overlap["w"] == pytest.approx(found.signal_overlap.sum() / np.sqrt(2))
    with pytest.raises(ValueError, match="read-only"):
        found.Q[0, 0] = 1.0
    again = theory.erm(found.law, 2.0, 1e-1, accuracy=5e-3, warm_start=found.warm_start)
    assert again.iterations < found.iterations and again.test_error == pytest.approx(found.test_error, abs=1e-7)


@pytest.mark.parametrize(("loss", "alpha"), [("logistic", 8.0), ("square", 4.0)])
def test_without_a_ridge_the_limit_is_solved(loss, alpha):
    """Where the minimiser is unique: the limit of small ridges, and what readouts at d = 100 do (4.5 s.e.)."""
    law = theory.heads_law(Task(10, 1, 3.0), [0.6, 0.3], [1.5, 3.0])
    found = theory.erm(law, alpha, 0.0, loss, accuracy=5e-3)
    small = theory.erm(law, alpha, 1e-7, loss, accuracy=5e-3)
    assert found.test_error == pytest.approx(small.test_error, abs=1e-5) and found.residual <= 1e-8
    assert found.norm_w == pytest.approx(small.norm_w, rel=1e-3) and found.norm_w > small.norm_w
    drawn = [head_readout(law, alpha, 0.0, 100, seed, loss)[0].test_error for seed in range(12)]
    error = np.hypot(np.std(drawn, ddof=1) / 12**0.5, found.standard_error)
    assert abs(np.mean(drawn) - found.test_error) < 4.5 * error


def test_bad_input_is_named():
    law = theory.heads_law(Task(), [0.8, 0.8], [1.0, 2.0])
    with pytest.raises(ValueError, match="ridge must be positive below capacity"):
        theory.erm(law, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"at most the number of heads \(2\), got alpha 2"):
        theory.erm(law, 2.0, 0.0, "square")
    alike = theory.heads_law(Task(), queries=[[1.0, 0.5], [1.0, 0.5]])
    with pytest.raises(ValueError, match="two heads have the same query"):
        theory.erm(alike, 9.0, 0.0)
    with pytest.raises(ValueError, match="alpha"):
        theory.erm(law, -1.0, 0.1)


def test_a_readout_on_its_own_law_is_itself():
    law = theory.heads_law(Task(strength=4.0), [0.8, 0.3], [1.5, 2.5])
    found = theory.erm(law, 2.0, 0.02, accuracy=2e-3)
    same = found.on(law.task, accuracy=2e-3)
    for name in ("test_error", "auc", "sensitivity", "specificity"):
        assert getattr(same, name) == pytest.approx(getattr(found, name), abs=2e-3), name
    assert found.on(law.task, 1e3, accuracy=2e-3).sensitivity == 1.0
    turned = theory.heads_law(law.task, queries=law.queries[:, [0, 2, 1]], signals=law.signals)
    assert found.on(turned, accuracy=2e-3).tested["length"] == 10  # the same space, seen the other way round
    with pytest.raises(ValueError, match="law must be that of 2 heads"):
        found.on(theory.heads_law(law.task, [0.8], [1.5]))
    with pytest.raises(ValueError, match="in the space of the training's"):
        found.on(theory.heads_law(law.task, queries=np.eye(2, 4), signals=np.eye(1, 4)))
