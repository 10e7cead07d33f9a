"""Coloured Gaussian noise: the reduced sampler against the tensor, both against the theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sparsetoken import Task, Training, simulate, theory

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
            simulate(TASK, TRAINING, None, seed, model=model, covariance=SPECTRUM, sampler=sampler).to_row()
            for seed in range(first, first + 80)
        ]
        for sampler, first in (("reduced", 0), ("tensor", 500))
    }
    for name in fields:
        found = ks_2samp(*([row[name] for row in one] for one in rows.values()))
        assert found.pvalue > 1e-4, name


@pytest.mark.parametrize("model", ["attention", "elementwise", "pooled", "vectorized"])
def test_the_formula_agrees_with_counting(model):
    arguments = {"model": model, "covariance": SPECTRUM, "sampler": "tensor", "test_samples": 20_000}
    found = simulate(TASK, TRAINING, None, 3, **arguments)
    assert found.noise == "coloured"
    assert abs(found.test_error - found.sampled_error) < 4 * np.hypot(
        found.sampled_standard_error, found.standard_error
    )
    there = simulate(TASK, TRAINING, None, 3, **arguments, test_task={"strength": 2.0, "prevalence": 0.3})
    assert abs(there.test_error - there.sampled_error) < 4 * there.sampled_standard_error
    assert there.test_error > found.test_error


def test_white_covariance_is_white_noise():
    """Eigenvalues of one and any signal: the law of plain `simulate`."""
    found = np.mean([simulate(TASK, TRAINING, 40, seed, covariance=np.ones(40)).test_error for seed in range(40)])
    plain = [simulate(TASK, TRAINING, 40, seed).test_error for seed in range(40)]
    assert abs(found - np.mean(plain)) < 4 * np.std(plain) * np.sqrt(2 / 40)


def test_theory_is_the_limit():
    """The alignment and the readout of the theory at d = 300, from 16 draws."""
    values = np.arange(1, 301) ** -0.4
    spectrum = theory.Spectrum.of(values / values.mean())
    steps = theory.coloured_alignment(TASK, TRAINING, spectrum)
    limit = theory.erm(theory.coloured_law(TASK, spectrum, steps.query), TRAINING.alpha1, TRAINING.ridge)
    rows = [simulate(TASK, TRAINING, None, seed, covariance=spectrum).to_row() for seed in range(16)]
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
    x = [simulate(TASK, TRAINING, None, s, model="elementwise", covariance=spectrum).test_error for s in range(16)]
    assert abs(np.mean(x) - limit.test_error) < 4 * np.std(x, ddof=1) / 4 + 0.004


def test_a_matrix_and_its_spectrum_are_the_same_noise():
    rotation, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((D, D)))
    matrix = rotation @ np.diag(VALUES) @ rotation.T
    turned = simulate(TASK, TRAINING, D, 1, covariance=matrix, signal=rotation @ XI)
    order = np.argsort(VALUES)
    plain = simulate(TASK, TRAINING, D, 1, covariance=VALUES[order], signal=XI[order])
    # Eigenvectors have arbitrary signs, which change the draw and not its law: compare what does not depend on them.
    assert turned.d == plain.d == D
    assert abs(turned.test_error - plain.test_error) < 0.15
    spectrum = theory.Spectrum.of(matrix, rotation @ XI)
    np.testing.assert_allclose(spectrum.eigenvalues, VALUES[order], rtol=1e-9)
    assert simulate(TASK, TRAINING, None, 1, covariance=spectrum).test_error == turned.test_error


def test_power_laws_by_name():
    found = simulate(TASK, TRAINING, 50, 0, covariance="power:1", model="pooled")
    values = np.arange(1, 51) ** -1.0
    assert (
        found.test_error
        == simulate(TASK, TRAINING, 50, 0, covariance=values / values.mean(), model="pooled").test_error
    )
    assert found.test_error != simulate(TASK, TRAINING, 50, 1, covariance="power:1", model="pooled").test_error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": "power:-1"}, "the exponent of covariance 'power:a' must be"),
        ({"covariance": "linear:1"}, "covariance must be a matrix, a list of eigenvalues, a Spectrum or 'power:a'"),
        ({"covariance": "power:much"}, "covariance must be a matrix"),
        ({"covariance": SPECTRUM, "signal": XI}, "beside a Spectrum"),
        ({"covariance": VALUES, "d": 10}, r"d must be the covariance's dimension \(24\) or None"),
        ({"covariance": VALUES, "model": "vectorized", "sampler": "reduced"}, "use 'tensor'"),
        ({"covariance": -VALUES}, "no negative eigenvalue"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulate(TASK, TRAINING, **{"d": None if "d" not in arguments else 10, **arguments}, seed=0)


def test_a_query_that_vanishes_is_pooling():
    for sampler in ("reduced", "tensor"):
        found = simulate(TASK, TRAINING.but(eta_q=0.0), None, 0, covariance=SPECTRUM, sampler=sampler)
        assert 0.0 < found.test_error < 0.4
        assert np.isnan(found.cosine["q"])
