"""Several signals in the two gradient steps: one signal against `alignment`, several against steps written out."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Deployment, Task, Tokens, Training, forecast, simulate, theory
from sparsetoken.laws.signals import Signals

TASK = Task(8, 2, 3.0, 0.4)
TRAINING = Training(alpha0=3.0, alpha1=3.0, eta_b=0.5, eta_q=12.0, ridge=0.02)
OBLIQUE = np.array([[1.0, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("loss", ["logistic", "square"])
def test_one_signal_is_alignment(loss):
    training = TRAINING.but(loss=loss)
    found, known = theory.signals_alignment(TASK, training, 1), theory.alignment(TASK, training)
    for name in "wq":
        assert found.overlap[f"{name}:1"] == pytest.approx(known.overlap[name], rel=1e-9)
        assert found.norm[name] == pytest.approx(known.norm[name], rel=1e-9)
        assert found.cosine[f"{name}:1"] == pytest.approx(known.cosine[name], rel=1e-9)
    assert (found.bias, found.sharpness) == pytest.approx((known.bias, known.sharpness), rel=1e-9)


def test_equal_signals_are_one():
    """Twice the same direction, however it is carried."""
    known = theory.alignment(TASK, TRAINING)
    for carried in ("one", "independent", "all"):
        found = theory.signals_alignment(TASK, TRAINING, [[1.0], [1.0]], [0.3, 0.7], carried)
        assert found.overlap["q:1"] == found.overlap["q:2"] == pytest.approx(known.overlap["q"], rel=1e-9)
        assert found.norm["q"] == pytest.approx(known.norm["q"], rel=1e-9)


def steps_by_hand(signals, d, seed):
    """Overlaps with both signals and norms of w1 and q2 of bags drawn here."""
    rng = np.random.default_rng(seed)
    L, R, loss, n = TASK.length, TASK.sparsity, TRAINING.loss_function, round(TRAINING.alpha0 * d)
    directions = np.zeros((2, d))
    directions[:, :2] = signals.directions
    y = np.where(np.arange(n) < round(TASK.prevalence * n), 1.0, -1.0)
    x = rng.standard_normal((n, L, d))
    for i in np.flatnonzero(y > 0):
        if signals.carried == "one":
            which = [rng.choice(2, p=signals.shares)] * R
        elif signals.carried == "independent":
            which = rng.choice(2, R, p=signals.shares)
        else:
            which = np.arange(R) % 2
        x[i, rng.choice(L, R, replace=False)] += TASK.strength * directions[which]
    c = loss.slope(np.zeros(n), y)
    w1, b1 = -TRAINING.eta_w * (c @ x.mean(axis=1)) / n, -TRAINING.eta_b * c.mean()
    scores = x @ w1
    mean = scores.mean(axis=1)
    h = loss.slope(mean + b1, y)
    q2 = -TRAINING.eta_q * TRAINING.beta / n * np.einsum("i,il,ild->d", h / L, scores - mean[:, None], x)
    return [*(directions @ w1), np.linalg.norm(w1), *(directions @ q2), np.linalg.norm(q2)]


@pytest.mark.parametrize(
    ("carried", "directions"), [("one", np.eye(2)), ("independent", OBLIQUE), ("all", np.eye(2))], ids=str
)
def test_the_steps_against_simulation(carried, directions):
    signals = Signals.of(directions, [0.7, 0.3], carried)
    found = theory.signals_alignment(TASK, TRAINING, signals)
    d, draws = 160, 16
    rows = np.array([steps_by_hand(signals, d, seed) for seed in range(draws)])
    limits = np.array(
        [
            *(found.overlap[f"w:{j}"] for j in (1, 2)),
            found.norm["w"],
            *(found.overlap[f"q:{j}"] for j in (1, 2)),
            found.norm["q"],
        ]
    )
    error = np.hypot(rows.std(0, ddof=1) / np.sqrt(draws), 4.0 / d * np.abs(limits))
    z = (rows.mean(0) - limits) / error
    assert np.abs(z).max() < 3.5, z
    if carried == "one":  # the rarer signal is hardly learned: its bags pull the query the other way
        assert found.cosine["q:2"] < 0.2 * found.cosine["q:1"]


def test_forecast_and_simulation_agree():
    signals = Signals.of(OBLIQUE, [0.6, 0.4], "independent")
    limit = forecast(
        TASK, TRAINING, "heads:2", tokens=Tokens(signals=signals), accuracy=4e-3, with_capacity=False
    ).to_row()
    rows = [
        simulate(TASK, TRAINING, 100, seed, "heads:2", tokens=Tokens(signals=signals)).to_row() for seed in range(10)
    ]
    assert rows[0]["sampler"] == "tensor"
    for name in (
        "test_error",
        "norm_w",
        "bias",
        "sharpness",
        "overlap_w:1",
        "overlap_w:2",
        "cosine_q1:1",
        "cosine_q2:2",
    ):
        values = np.array([row[name] for row in rows])
        error = np.hypot(values.std(ddof=1) / np.sqrt(len(values)), 5.0 / 100 * abs(limit[name]))
        assert abs(values.mean() - limit[name]) < 4 * error, (name, values.mean(), limit[name])
    there = {"deployment": Deployment({"strength": 2.0}, sharpness=0.5)}
    far = forecast(
        TASK, TRAINING, "heads:2", tokens=Tokens(signals=signals), accuracy=1e-2, with_capacity=False, **there
    )
    seen = [
        simulate(TASK, TRAINING, 100, seed, "heads:2", tokens=Tokens(signals=signals), **there).test_error
        for seed in range(4)
    ]
    assert far.test_error > limit["test_error"] and np.mean(seen) == pytest.approx(far.test_error, abs=0.05)


def test_contents_are_the_law_of_what_is_carried():
    rng = np.random.default_rng(0)
    for carried in ("one", "independent", "all"):
        signals = Signals.of(3, [0.5, 0.3, 0.2], carried)
        cases = list(signals.contents(4))
        assert sum(p for _, p in cases) == pytest.approx(1.0) and all(n.sum() == 4 for n, _ in cases)
        drawn = signals.carriers(rng.random(20_000), 4, rng)
        counts = np.stack([(drawn == j).sum(1) for j in range(3)], axis=1)
        for n, p in cases:
            share = (counts == n).all(1).mean()
            assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / 20_000) + 1e-12, (carried, n)


def test_refusals():
    with pytest.raises(ValueError, match="signals are served by the model 'heads:H'"):
        forecast(TASK, TRAINING, tokens=Tokens(signals=2))
    with pytest.raises(ValueError, match="signals are served by the model 'heads:H'"):
        simulate(TASK, TRAINING, 20, 0, tokens=Tokens(signals=2))
    with pytest.raises(ValueError, match="use sampler 'tensor', not 'reduced'"):
        simulate(TASK, TRAINING, 20, 0, "heads:2", sampler="reduced", tokens=Tokens(signals=2))
    with pytest.raises(ValueError, match="carried 'all' needs a sparsity"):
        theory.signals_alignment(TASK, TRAINING, 3, carried="all")
    with pytest.raises(ValueError, match="ways to share"):
        theory.signals_alignment(Task(200, 100, 1.0), TRAINING, 8, carried="independent")
    with pytest.raises(ValueError, match="signals must be unit vectors"):
        Signals.of([[1.0, 1.0]])
    with pytest.raises(ValueError, match="signals must be"):
        Signals.of(0)
    with pytest.raises(ValueError, match="d must be larger than the number of the signals' coordinates"):
        simulate(TASK, TRAINING.but(alpha0=40.0, alpha1=40.0), 2, 0, "heads:1", tokens=Tokens(signals=2))
    with pytest.raises(ValueError, match="label_noise must be 0 for several signals"):
        theory.signals_alignment(TASK.but(label_noise=0.1), TRAINING, 2)
