"""Coloured Gaussian noise: the reduced sampler against the tensor, both against the theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sparsetoken import Deployment, Task, Tokens, Training, forecast, simulate, theory
from sparsetoken.simulation.samplers.drawn_bags import draw_bags
from sparsetoken.simulation.samplers.reduced import DrawnProducts
from sparsetoken.simulation.two_steps import take_steps
from sparsetoken.theory.coloured_alignment import draw_steps

D = 24
VALUES = np.arange(1, D + 1) ** -0.7
VALUES = VALUES / VALUES.mean()
XI = np.random.default_rng(1).standard_normal(D)
SPECTRUM = theory.Spectrum.of(VALUES, XI)
TASK = Task(length=5, sparsity=2, strength=3.0, prevalence=0.4)
TRAINING = Training(alpha0=2.0, alpha1=3.0, eta_q=12.0, ridge=1e-2)


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled"])
def test_both_samplers_have_the_same_law(model):
    """Kolmogorov and Smirnov on 80 draws of each sampler; a true null fails one test in 10,000."""
    fields = ("test_error", "train_loss", "norm_w", "bias", "cosine_w", "auc")
    fields += () if model == "pooled" else ("cosine_q", "steps_norm_q", "steps_cosine_w", "steps_bias", "m_u")
    rows = {
        sampler: [
            simulate(
                TASK, TRAINING, None, seed, model=model, tokens=Tokens(covariance=SPECTRUM), sampler=sampler
            ).to_row()
            for seed in range(first, first + 80)
        ]
        for sampler, first in (("reduced", 0), ("tensor", 500))
    }
    for name in fields:
        found = ks_2samp(*([row[name] for row in one] for one in rows.values()))
        assert found.pvalue > 1e-4, name


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled", "vectorized"])
def test_the_formula_agrees_with_counting(model):
    arguments = {"model": model, "tokens": Tokens(covariance=SPECTRUM), "sampler": "tensor"}
    found = simulate(TASK, TRAINING, None, 3, **arguments, deployment=Deployment(samples=20_000))
    assert found.noise == "coloured"
    assert abs(found.test_error - found.sampled_error) < 4 * np.hypot(
        found.sampled_standard_error, found.standard_error
    )
    there = simulate(
        TASK,
        TRAINING,
        None,
        3,
        **arguments,
        deployment=Deployment({"strength": 2.0, "prevalence": 0.3}, samples=20_000),
    )
    assert abs(there.test_error - there.sampled_error) < 4 * there.sampled_standard_error
    assert there.test_error > found.test_error


def test_white_covariance_is_white_noise():
    """Eigenvalues of one and any signal: the law of plain `simulate`."""
    found = np.mean(
        [simulate(TASK, TRAINING, 40, seed, tokens=Tokens(covariance=np.ones(40))).test_error for seed in range(40)]
    )
    plain = [simulate(TASK, TRAINING, 40, seed).test_error for seed in range(40)]
    assert abs(found - np.mean(plain)) < 4 * np.std(plain) * np.sqrt(2 / 40)


def test_theory_is_the_limit():
    """The alignment and the readout of the theory at d = 300, from 16 draws."""
    values = np.arange(1, 301) ** -0.4
    spectrum = theory.Spectrum.of(values / values.mean())
    steps = theory.coloured_alignment(TASK, TRAINING, spectrum)
    limit = theory.erm(theory.coloured_law(TASK, spectrum, steps.query), TRAINING.alpha1, TRAINING.ridge)
    rows = [simulate(TASK, TRAINING, None, seed, tokens=Tokens(covariance=spectrum)).to_row() for seed in range(16)]
    for name, expected, slack in (
        ("test_error", limit.test_error, 0.004),
        ("train_loss", limit.train_loss, 0.004),
        ("norm_w", limit.norm_w, 0.02),
        ("cosine_q", steps.cosine["q"], 0.01),
        ("steps_norm_q", steps.norm["q"], 0.01),
    ):
        x = np.array([row[name] for row in rows])
        assert abs(x.mean() - expected) < 4 * x.std(ddof=1) / np.sqrt(16) + slack, name


def test_elementwise_theory_is_the_limit_too():
    values = np.arange(1, 301) ** -0.4
    spectrum = theory.Spectrum.of(values / values.mean())
    steps = theory.coloured_alignment(TASK, TRAINING, spectrum)
    law = theory.coloured_law(TASK, spectrum, steps.query, activation="sigmoid")
    limit = theory.erm(law, TRAINING.alpha1, TRAINING.ridge)
    x = [
        simulate(TASK, TRAINING, None, s, model="elementwise", tokens=Tokens(covariance=spectrum)).test_error
        for s in range(16)
    ]
    assert abs(np.mean(x) - limit.test_error) < 4 * np.std(x, ddof=1) / 4 + 0.004


def test_a_matrix_and_its_spectrum_are_the_same_noise():
    rotation, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))
    matrix = rotation @ np.diag(VALUES) @ rotation.T
    turned = simulate(TASK, TRAINING, D, 1, tokens=Tokens(covariance=matrix, signal=rotation @ XI))
    order = np.argsort(VALUES)
    plain = simulate(TASK, TRAINING, D, 1, tokens=Tokens(covariance=VALUES[order], signal=XI[order]))
    # Eigenvectors have arbitrary signs, which change the draw and not its law: compare what does not depend on them.
    assert turned.d == plain.d == D
    assert abs(turned.test_error - plain.test_error) < 0.15
    spectrum = theory.Spectrum.of(matrix, rotation @ XI)
    np.testing.assert_allclose(spectrum.eigenvalues, VALUES[order], rtol=1e-9)
    assert simulate(TASK, TRAINING, None, 1, tokens=Tokens(covariance=spectrum)).test_error == turned.test_error


def test_power_laws_by_name():
    found = simulate(TASK, TRAINING, 50, 0, tokens=Tokens(covariance="power:1"), model="pooled")
    values = np.arange(1, 51) ** -1.0
    assert (
        found.test_error
        == simulate(TASK, TRAINING, 50, 0, tokens=Tokens(covariance=values / values.mean()), model="pooled").test_error
    )
    assert (
        found.test_error
        != simulate(TASK, TRAINING, 50, 1, tokens=Tokens(covariance="power:1"), model="pooled").test_error
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": "power:-1"}, "the exponent of covariance 'power:a' must be"),
        ({"covariance": "linear:1"}, "covariance must be a matrix, a list of eigenvalues, a Spectrum or 'power:a'"),
        ({"covariance": "power:much"}, "the exponent of covariance 'power:a' must be"),
        ({"covariance": SPECTRUM, "signal": XI}, "together with a Spectrum"),
        ({"covariance": VALUES, "d": 10}, r"d must be the covariance's dimension \(24\) or None"),
        ({"covariance": VALUES, "model": "vectorized", "sampler": "reduced"}, "use 'tensor'"),
        ({"covariance": -VALUES}, "no negative eigenvalue"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        tokens = Tokens(**{name: arguments.pop(name) for name in ("covariance", "signal") if name in arguments})
        simulate(TASK, TRAINING, **({"d": None} | arguments), seed=0, tokens=tokens)


def test_a_query_that_vanishes_is_pooling():
    for sampler in ("reduced", "tensor"):
        found = simulate(TASK, TRAINING.but(eta_q=0.0), None, 0, tokens=Tokens(covariance=SPECTRUM), sampler=sampler)
        assert 0.0 < found.test_error < 0.4
        assert found.cosine["q"] == 0.0


FEW = np.arange(1, 201) ** -2.0
FEW = theory.Spectrum.of(FEW / FEW.mean())


def test_drawn_steps_have_the_law_of_the_simulated_ones():
    """Both exact at finite d: overlaps, norms and the query's weight on the first eigenvector, from 400 draws of each."""
    task, training = TASK.but(prevalence=0.3), TRAINING
    n0 = 2 * FEW.dimension
    rng = np.random.default_rng(0)
    rows, simulated = [], []
    for seed in range(400):
        bags = draw_bags(task, n0, seed, "0")
        share = float((bags.labels > 0).mean())
        rows.append(draw_steps(task, training, FEW, n0, share, rng))
        steps = take_steps(DrawnProducts(bags, seed, FEW.direction, FEW.eigenvalues**0.5), training)
        simulated.append((steps.readout, steps.bias, steps.query))
    xi = FEW.direction
    for number in (
        lambda w, b, q: w @ xi,
        lambda w, b, q: np.linalg.norm(w),
        lambda w, b, q: b,
        lambda w, b, q: q @ xi,
        lambda w, b, q: np.linalg.norm(q),
        lambda w, b, q: q[0],
    ):
        drawn, known = ([number(*row) for row in table] for table in (rows, simulated))
        assert ks_2samp(drawn, known).pvalue > 1e-3


@pytest.mark.slow
def test_where_few_directions_carry_the_noise_the_forecast_is_the_mean_over_data_sets():
    task, training = Task(10, 1, 4.0, 0.5), Training(alpha0=2.0, alpha1=2.0, eta_q=20.0, ridge=0.1)
    tokens = Tokens(covariance=FEW)
    found = forecast(task, training, tokens=tokens, with_capacity=True)
    trials = [simulate(task, training, None, seed, tokens=tokens).to_row() for seed in range(60)]
    query = theory.coloured_alignment(task, training, FEW).query
    at_mean = theory.erm(theory.coloured_law(task, FEW, query), 2.0, 0.1, accuracy=1e-3)
    for name in ("test_error", "auc", "train_loss", "norm_w", "cosine_q", "sharpness"):
        x = np.array([trial[name] for trial in trials])
        error = np.hypot(x.std(ddof=1) / 60**0.5, found.spread[name] / 8)
        assert abs(x.mean() - found.to_row()[name]) < 3.5 * error, name
        if name in ("test_error", "cosine_q"):  # the others have heavy tails
            assert 0.5 < found.spread[name] / x.std(ddof=1) < 2.0, name
    measured = np.mean([trial["test_error"] for trial in trials])
    assert at_mean.test_error - measured > 0.02  # one query does not stand for all
    assert found.d == 200 and 0.004 < found.standard_error < 0.02 and np.isfinite(found.capacity)
    moved = forecast(task, training, tokens=tokens, deployment=Deployment(bias_shift=3.0))
    assert moved.sensitivity > found.sensitivity and moved.tested["bias_shift"] == 3.0


@pytest.mark.slow
def test_a_dozen_directions_are_few():
    """Queries differ enough to move the test error by a fifth, which no standard error of the limit shows."""
    values = np.arange(1, 301.0) ** -0.6
    task, training = Task(10, 1, 4.0, 0.5), Training(alpha0=2.0, alpha1=2.0, ridge=1e-2)
    tokens = Tokens(covariance=values * 300 / values.sum())
    found = forecast(task, training, tokens=tokens, with_capacity=False)
    measured = np.array([simulate(task, training, None, seed, tokens=tokens).test_error for seed in range(60)])
    error = np.hypot(measured.std(ddof=1) / 60**0.5, found.standard_error)
    assert abs(measured.mean() - found.test_error) < 3.5 * error and found.standard_error > 0.003


@pytest.mark.slow
def test_a_dimension_with_a_covariance():
    """Shares of the classes, too: with a large ridge the bias follows them."""
    task, training = Task(10, 1, 5.0, 0.5), Training(alpha1=4.0, ridge=1.0)
    even = Tokens(covariance=np.ones(250))
    found = forecast(task, training, "pooled", tokens=even, d=250)
    plain = forecast(task, training, "pooled", d=250)
    assert abs(found.test_error - plain.test_error) < 4 * found.standard_error
    assert forecast(task, training, "pooled", with_capacity=False).test_error < 0.26 < 0.31 < found.test_error
    assert np.isnan(found.capacity) and found.steps is None
    named = forecast(task, TRAINING, tokens=Tokens(covariance="power:0.4"), d=60)
    assert named.d == 60 and named.steps.d == 60 and named.spread["cosine_q"] > 0
    with pytest.raises(ValueError, match=r"d must be the covariance's dimension \(250\) or None, got 100"):
        forecast(task, training, "pooled", tokens=even, d=100)


def test_the_forecast_in_one_call():
    """Alignment, law, readout and capacity one after another; the same readout tested elsewhere."""
    values = np.linspace(0.5, 1.5, 40)  # many directions: the query is the mean one
    spectrum = theory.Spectrum.of(values)
    tokens, options = Tokens(covariance=values), {"accuracy": 4e-3}
    for model, activation in (("attention", None), ("elementwise:tanh", "tanh")):
        steps = theory.coloured_alignment(TASK, TRAINING, spectrum)
        law = theory.coloured_law(TASK, spectrum, steps.query, TRAINING.beta, activation)
        result = theory.erm(law, TRAINING.alpha1, TRAINING.ridge, TRAINING.loss, **options)
        found = forecast(TASK, TRAINING, model, tokens=tokens, **options)
        assert found.test_error == pytest.approx(result.test_error, abs=1e-9)
        assert found.cosine == pytest.approx({"w": result.cosine["w"], "q": steps.cosine["q"]}, abs=1e-9)
        assert found.capacity == pytest.approx(theory.capacity(law).alpha, rel=1e-6)
    there = Deployment({"strength": 2.0}, sharpness=1.5, bias_shift=0.2)
    tested = forecast(TASK, TRAINING, tokens=tokens, deployment=there, with_capacity=False, **options)
    seen = [
        simulate(TASK, TRAINING, None, seed, tokens=Tokens(covariance=spectrum), deployment=there).test_error
        for seed in range(4)
    ]
    assert tested.tested["sharpness"] == 1.5 and tested.norm_w == pytest.approx(
        forecast(TASK, TRAINING, tokens=tokens, with_capacity=False, **options).norm_w
    )
    assert tested.test_error == pytest.approx(np.mean(seen), abs=0.06)


def test_a_white_covariance_has_the_plain_forecast():
    for model in ("attention", "pooled"):
        options = {"with_capacity": False, "accuracy": 2e-3}
        white = forecast(TASK, TRAINING, model, tokens=Tokens(covariance=np.ones(400)), **options)
        plain = forecast(TASK, TRAINING, model, **options)
        assert white.test_error == pytest.approx(plain.test_error, abs=2e-3)
        assert white.cosine == pytest.approx(plain.cosine, abs=5e-3)


@pytest.mark.parametrize(
    ("model", "tokens", "message"),
    [
        ("attention", {"noise": "sparse"}, "noise must be Gaussian in theory"),
        ("vectorized", {"covariance": VALUES}, "covariance is served for one attention head and pooling"),
        ("heads:2", {"covariance": VALUES}, "covariance is served for one attention head and pooling"),
        ("bayes", {"covariance": VALUES}, "covariance is served for one attention head and pooling"),
        ("pooled", {"signals": 2}, "signals are served by the model 'heads:H'"),
    ],
)
def test_what_theory_cannot_do_is_refused_in_a_sentence(model, tokens, message):
    with pytest.raises(ValueError, match=message):
        forecast(TASK, TRAINING, model, tokens=Tokens(**tokens))
    with pytest.raises(ValueError, match="tokens must be a Tokens, got 'sparse'"):
        forecast(TASK, TRAINING, model, tokens="sparse")
