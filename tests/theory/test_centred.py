"""Centred residuals, eta_b="auto": theory, its agreement with every sampler, and what they guarantee."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparsetoken import Task, Tokens, Training, simulate, theory
from sparsetoken.cli.values import parse_values
from sparsetoken.laws.coloured import spectrum_of
from sparsetoken.losses import balancing_bias, get_loss
from sparsetoken.simulation.samplers.implicit_bags import ImplicitBags
from sparsetoken.simulation.samplers.tensor import draw_signal
from sparsetoken.simulation.two_steps import steps_on, two_steps
from sparsetoken.theory import signals_alignment
from sparsetoken.theory.two_step_formulas import alignment_formulas, bag_groups

PAIR = Task(7, 2, 3.3, 0.35)
CENTRED = Training(alpha0=1.7, eta_b="auto", eta_q=1.0)
LOSSES = ("logistic", "square", "smoothed_hinge")
DIFFERING = {
    "lengths": {"length": "5:0.5,15:0.5", "strength": 4.0},
    "labels": {"label_noise": 0.15},
    "contamination": {"contamination": 0.2},
    "correlation": {"correlation": 0.3},
}


@pytest.mark.parametrize(
    ("task", "alpha0", "plain", "centred"),
    [(PAIR, 1.7, 0.686, 0.913), (Task(30, 1, 4.0, 0.1), 3.0, None, 0.457)],
    ids=("short", "rare"),
)
def test_reference_values(task, alpha0, plain, centred):
    training = Training(alpha0=alpha0, eta_w=2.0)
    found = [theory.alignment(task, training.but(eta_b=b)).query_cosine for b in (0.7, "auto")]
    assert found[1] == pytest.approx(centred, abs=5e-4)
    assert plain is None or found[0] == pytest.approx(plain, abs=5e-4)


@pytest.mark.parametrize("loss", [*LOSSES, "exponential", "logistic:positives=9"])
def test_a_bias_that_balances(loss):
    z, y = np.random.default_rng(0).normal(size=(3, 40)) * [[0.1], [1.0], [30.0]], np.repeat([-1.0, 1.0], [29, 11])
    loss = get_loss(loss)
    b = balancing_bias(loss, z, y, np.full(40, 1 / 40))
    slopes = loss.slope(z + b[:, None], y)
    assert np.all(np.abs(slopes.sum(1)) <= 1e-10 * np.abs(slopes).sum(1))


@given(
    length=st.integers(2, 200),
    share=st.floats(0.0, 1.0),
    strength=st.floats(0.05, 12.0),
    prevalence=st.floats(0.01, 0.99),
    alpha0=st.floats(0.05, 50.0),
    eta_w=st.floats(0.01, 100.0),
    loss=st.sampled_from(("logistic", "smoothed_hinge", "exponential", "logistic:positives=5")),
)
@settings(max_examples=60, deadline=None)
def test_the_query_never_points_away(length, share, strength, prevalence, alpha0, eta_w, loss):
    task = Task(length, max(1, round(share * (length - 1))), strength, prevalence)
    found = theory.alignment(task, Training(loss, alpha0, eta_w=eta_w, eta_b="auto"))
    # a smoothed hinge may have no residual left, and then the query stays where it is
    assert found.query_cosine > 0 or found.norm["q"] < 1e-9
    assert not found.anti_aligned


def test_the_square_loss_turns_round_only_where_the_first_step_overshoots():
    task = Task(4, 2, 4.0, 0.4)
    safe, over = (theory.alignment(task, Training("square", 50.0, eta_w=e, eta_b="auto")) for e in (0.5, 5.0))
    assert safe.query_cosine > 0 > over.query_cosine and over.anti_aligned


def close(simulated, limits, most=3.5):
    """Means of draws against limits, in standard errors."""
    simulated = np.asarray(simulated)
    z = (simulated.mean(0) - limits) / (simulated.std(0, ddof=1) / np.sqrt(len(simulated)))
    assert np.abs(z).max() < most, z


def numbers(steps):
    return [steps.overlap["w"], steps.norm["w"], steps.bias, steps.overlap["q"], steps.norm["q"]]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("sampler", ["reduced", "tensor", "implicit"])
def test_alignment_is_the_limit_of_the_steps(loss, sampler):
    training, d, draws = CENTRED.but(loss=loss, eta_w=3.0), 300, 24

    def run(seed):
        if sampler == "implicit":
            return steps_on(ImplicitBags(PAIR, round(1.7 * d), draw_signal(seed, d), seed, "0"), training)
        return two_steps(PAIR, training, d, seed, sampler)

    close([numbers(run(seed)) for seed in range(draws)], numbers(theory.alignment(PAIR, training)))


@pytest.mark.parametrize("difference", list(DIFFERING))
def test_alignment_on_differing_bags(difference):
    task = PAIR.but(**DIFFERING[difference])
    found = [numbers(two_steps(task, CENTRED, 1500, seed)) for seed in range(30)]
    close(found, numbers(theory.alignment(task, CENTRED)))


def test_alignment_in_coloured_noise():
    variances = np.linspace(0.4, 1.6, 400)
    tokens = Tokens(covariance=variances)
    spectrum = spectrum_of(variances, None)
    limits = theory.forecast(PAIR, CENTRED, tokens=tokens, with_capacity=False).steps
    assert spectrum.dimension == 400 and limits.query_cosine > 0.85
    for sampler in ("reduced", "tensor"):
        steps = [simulate(PAIR, CENTRED, 400, seed, tokens=tokens, sampler=sampler).steps for seed in range(12)]
        close([[s.cosine["w"], s.cosine["q"], s.norm["q"]] for s in steps],
              [limits.cosine["w"], limits.cosine["q"], limits.norm["q"]])  # fmt: skip


def test_one_of_several_signals_is_the_alignment_and_heads_take_theirs():
    one, alone = signals_alignment(PAIR, CENTRED, 1), theory.alignment(PAIR, CENTRED)
    assert one.cosine["q:1"] == pytest.approx(alone.query_cosine, rel=1e-12)
    limits = theory.forecast(PAIR, CENTRED, "heads:2", with_capacity=False).cosine["q1"]
    assert limits == pytest.approx(theory.alignment(PAIR, CENTRED.but(alpha0=0.85)).query_cosine)
    found = [simulate(PAIR, CENTRED, 300, s, "heads:2", tokens=Tokens(signals=2)).cosine for s in range(12)]
    several = signals_alignment(PAIR, CENTRED.but(alpha0=0.85), 2)
    close([[f["q1:1"], f["q2:2"]] for f in found], [several.cosine["q:1"], several.cosine["q:2"]])


def test_a_trial_whose_bags_serve_twice():
    found = simulate(PAIR, CENTRED.but(schedule="reuse"), 400, 0)
    assert found.steps.query_cosine == pytest.approx(theory.alignment(PAIR, CENTRED).query_cosine, abs=0.05)


@pytest.mark.slow
def test_gradient_through_the_fitted_bias():
    import jax

    training, task = Training(eta_b="auto", eta_w=4.0, ridge=0.1), Task(6, 1, 3.0, 0.3)

    def cosine(**change):
        at = {k: change.pop(k) for k in ("strength", "prevalence") if k in change}
        return theory.alignment(task.but(**at), training.but(**change)).query_cosine

    with jax.enable_x64(True):

        def formula(pi, alpha0, eta_w):
            return alignment_formulas(training.loss_function, bag_groups(task, pi), alpha0, eta_w, "auto", 1.0, 1.0)[
                "cos_q"
            ]

        exact = jax.grad(formula, (0, 1, 2))(0.3, 2.0, 4.0)
    for value, (name, at) in zip(exact, {"prevalence": 0.3, "alpha0": 2.0, "eta_w": 4.0}.items()):
        difference = (cosine(**{name: at + 1e-4}) - cosine(**{name: at - 1e-4})) / 2e-4
        assert float(value) == pytest.approx(difference, rel=1e-5)


@pytest.mark.slow
def test_gradient_leaves_the_fitted_bias_out():
    training, task = Training(eta_b="auto", eta_w=4.0, ridge=0.1), Task(6, 1, 3.0, 0.3)
    slope = theory.gradient(task, training, points=64)
    assert "eta_b" not in slope
    up, down = (theory.forecast(task, training.but(eta_w=4.0 + h), with_capacity=False) for h in (0.1, -0.1))
    assert slope["eta_w"] == pytest.approx(
        (up.test_error - down.test_error) / 0.2, abs=5 * slope.errors["eta_w"] + 1e-4
    )


def test_refusals_and_the_command_line():
    with pytest.raises(ValueError, match="eta_b must be a number, or 'auto'"):
        Training(eta_b="none")
    with pytest.raises(ValueError, match="eta_b must be a number, or 'auto' with the schedules"):
        Training(eta_b="auto", schedule="joint")
    with pytest.raises(ValueError, match="D0 holds only negative samples"):
        two_steps(Task(prevalence=0.01), Training(alpha0=0.2, eta_b="auto"), 20, 0)
    assert parse_values("eta_b", "auto") == ["auto"]
    assert Training.from_dict(CENTRED.to_dict()) == CENTRED


def test_one_token_has_the_bias_of_its_fields():
    task, training = Task(1, 1, 1.0, 0.2), Training(alpha0=2.0, eta_w=30.0, eta_b="auto")
    runs = [two_steps(task, training, 60, seed).bias for seed in range(40)]
    spread = np.std(runs, ddof=1) / 40**0.5
    assert np.mean(runs) == pytest.approx(theory.alignment(task, training).bias, abs=4 * spread + 0.3)


def test_contamination_may_turn_readout_and_query():
    found = theory.alignment(Task(10, 1, 5.0, 0.3, contamination=0.5), Training(alpha0=20.0, eta_b=4.0))
    assert found.cosine["q"] < -0.5 and found.anti_aligned
