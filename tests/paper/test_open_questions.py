"""Criteria of the studies of depth, heads and long bags, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import heads_and_depth, self_attention
from sparsetoken.paper.catalogue import limits_and_mechanisms as mechanisms
from sparsetoken.paper.catalogue.separation import LENGTHS


def draws(rows, noise, repeats=16, column="test_error", seed=0):
    """A table of noisy trials around the given values."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {**row, column: row[column] + noise * rng.standard_normal()} for row in rows for _ in range(repeats)
    )


def heads_tables(
    shift=0.0,
    noise=0.005,
    needed=(3.6, 4.2, 3.7, 4.6),
    error=1e-5,
    deep=0.1,
    deep_noise=0.003,
    known=1.03,
):
    """Errors whose probit is linear in the strength and meets 10 % at the strengths `needed`."""
    from scipy.special import ndtr, ndtri

    places = [
        (1, heads_and_depth.SHORT),
        (1, heads_and_depth.LONG),
        (4, heads_and_depth.SHORT),
        (4, heads_and_depth.LONG),
    ]
    staged = [
        {
            **{"heads": h, "length": n, "strength": s, "standard_error": error},
            "test_error": ndtr(ndtri(heads_and_depth.TARGET) - (s - centre)),
        }
        for (h, n), centre in zip(places, needed)
        for s in heads_and_depth.PAIRS[h, n]
    ]
    runs = [
        {**row, "d": d, "test_error": row["test_error"] + shift}
        for row in staged
        if row["strength"] == heads_and_depth.PAIRS[row["heads"], row["length"]][1]
        for d in (80, 160)
    ]
    ends = [
        {"model": m, "length": n, "decay": {"w": f}, "d": 60, "best_bias_error": value * f}
        for n in (5, 16)
        for m, value in zip(heads_and_depth.LAYERS, (0.1, deep))
        for f in (1.0, 1.5)
    ]
    predicted = [
        {"model": m, "length": 5, "refitted_error": 0.1, "best_bias_error": 0.1, "refitted_error_se": 1e-4}
        for m in heads_and_depth.LAYERS
    ]
    shortest = [{**row, "d": d, "refitted_error": 0.1 + shift} for row in predicted for d in (60, 120)]
    strengths = [
        {"mechanism": m, "sharpness": 2.0, "length": n, "strength_needed": f * n**0.1}
        for n in LENGTHS
        for m, f in (("bayes", 1.0), ("attention", known))
    ]
    return {
        "staged": pd.DataFrame(staged),
        "simulated": draws(runs, noise).drop(columns="standard_error"),
        "ends": draws(ends, deep_noise, column="best_bias_error"),
        "shortest": draws(shortest, noise, column="refitted_error"),
        "shortest_predicted": pd.DataFrame(predicted),
        "known": pd.DataFrame(strengths),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (heads_and_depth.heads.claims[0].judge, {}, "confirmed"),
        (heads_and_depth.heads.claims[0].judge, {"shift": 0.05}, "refuted"),
        (heads_and_depth.heads.claims[0].judge, {"noise": 0.3}, "undecided"),
        (heads_and_depth.price, {}, "confirmed"),
        (heads_and_depth.price, {"needed": (3.7, 4.6, 3.6, 4.2)}, "refuted"),
        (heads_and_depth.price, {"error": 0.05}, "undecided"),
        (heads_and_depth.no_compounding, {}, "confirmed"),
        (heads_and_depth.no_compounding, {"deep": 0.08}, "refuted"),
        (heads_and_depth.no_compounding, {"deep_noise": 0.05}, "undecided"),
        (heads_and_depth.depth.claims[0].judge, {}, "confirmed"),
        (heads_and_depth.depth.claims[0].judge, {"shift": 0.05}, "refuted"),
        (heads_and_depth.no_room, {}, "confirmed"),
        (heads_and_depth.no_room, {"known": 1.3}, "refuted"),
    ],
)
def test_heads(criterion, arguments, verdict):
    assert criterion(heads_tables(**arguments)).verdict == verdict


def saddle_tables(
    exponent=-0.5,
    noise=0.01,
    law=0.6,
    leaving_noise=0.01,
    predicted_law=0.6,
    se=1e-3,
    spectral=0.28,
    spectral_noise=0.005,
):
    """Cosines at two dimensions, overlaps that grow by exp(2 (strength - 3.7 (L/10)^law)) between the two steps, and errors
    after steps from a random (.36) and a spectral start."""
    rng = np.random.default_rng(0)
    runs = [
        {"d": d, "length": 20, "strength": 7.0, "cosine[q]": side * d**exponent * (1 + noise * rng.standard_normal())}
        for d in (100, 1600)
        for side in (-1, 1)
        for _ in range(6)
    ]
    steps = (self_attention.EARLY, self_attention.LATE)

    def overlaps(exponent, scatter, seeds, extra):
        return pd.DataFrame(
            {
                **{"length": n, "strength": s, "step": step, "d": 200, "seed": seed, **extra},
                "overlap[q]": 0.05 * np.exp(2 * (s - 3.7 * (n / 10) ** exponent) * (step == steps[1]))
                + scatter * rng.standard_normal(),
            }
            for n in (10, 20)
            for s in self_attention.LEAVING[n]
            for seed in range(seeds)
            for step in steps
        )

    return {
        "saddle": pd.DataFrame(runs),
        "leaving": overlaps(law, leaving_noise, 16, {}),
        "leaving_predicted": overlaps(predicted_law, 0.0, 1, {"overlap[q]_se": se}),
        "spectral": pd.DataFrame(
            {"length": 10, "start": start, "test_error": error + spectral_noise * rng.standard_normal()}
            for start, error in (({"q": 1.0}, 0.36), ({"q": 1.0, "cosine[q]": "eigenvector"}, spectral))
            for _ in range(6)
        ),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (self_attention.stays, {}, "confirmed"),
        (self_attention.stays, {"exponent": -0.2}, "refuted"),
        (self_attention.stays, {"noise": 1.0}, "undecided"),
        (self_attention.own_law, {}, "confirmed"),
        (self_attention.own_law, {"law": 0.1, "leaving_noise": 1e-4}, "refuted"),
        (self_attention.own_law, {"predicted_law": 0.1}, "refuted"),
        (self_attention.own_law, {"leaving_noise": 0.04}, "undecided"),
        (self_attention.own_law, {"se": 0.02}, "undecided"),
        (self_attention.spectral, {}, "confirmed"),
        (self_attention.spectral, {"spectral": 0.35}, "refuted"),
        (self_attention.spectral, {"spectral_noise": 0.1}, "undecided"),
    ],
)
def test_self_attention(criterion, arguments, verdict):
    assert criterion(saddle_tables(**arguments)).verdict == verdict


def test_strength_at_which_the_saddle_is_left_is_where_the_overlap_keeps_its_size():
    tables = saddle_tables(leaving_noise=1e-4)
    for found in self_attention.leaving(tables).values():
        strengths = {n: strength.value for n, strength in found.items()}
        assert strengths == pytest.approx({10: 3.7, 20: 3.7 * 2**0.6}, rel=1e-3)
    del tables["leaving_predicted"]
    assert list(self_attention.leaving(tables)) == ["simulated"] and len(self_attention.panels(tables)) == 2
    assert "at d = 1600 after 12 steps (L = 20, θ = 7)" in self_attention.finding(tables)


def test_strength_needed_by_heads_is_read_off_the_probits():
    rows = heads_and_depth.needed(heads_tables())
    assert rows[4, heads_and_depth.LONG].value == pytest.approx(4.6) and rows[
        1, heads_and_depth.SHORT
    ].value == pytest.approx(3.6)


def test_each_model_has_the_best_of_its_decays():
    found = heads_and_depth.best_ends(heads_tables(deep=0.12, deep_noise=1e-4))
    assert {key: round(value.value, 3) for key, value in found.items()} == {
        (model, n): error for n in (5, 16) for model, error in zip(heads_and_depth.LAYERS, (0.1, 0.12))
    }
    tables = heads_tables() | saddle_tables()
    assert len(heads_and_depth.draw_depth(tables)) == 3 and "two layers" in heads_and_depth.depth_findings(tables)


def mechanism_tables(errors=None, losses=(0.03, 0.032, 0.035, 0.03), tied=0.025, error=1e-5, noise=0.002, shift=0.0):
    values = dict(zip(mechanisms.MECHANISMS, (0.03, 0.033, 0.034, 0.04, 0.045, 0.2))) | (errors or {})
    settings = [
        {
            **mechanisms.named(m, k, r),
            "standard_error": error,
            "test_error": values[m] + 0.01 * (k != ks[0] or r != rs[0]),
        }
        for m, (_, ks, rs) in mechanisms.MECHANISMS.items()
        for k in ks
        for r in rs
    ]
    by_loss = [
        {**mechanisms.named("softmax", 2.5, r), "loss": loss, "test_error": e, "standard_error": error}
        for loss, e in zip(mechanisms.LOSSES, losses)
        for r in (0.1, 0.3, 1.0, 3.0, 10.0)
    ]
    spots = [mechanisms.named(m, ks[0], rs[0]) for m, (_, ks, rs) in mechanisms.MECHANISMS.items()]
    runs = [{**p, "d": d, "test_error": v + shift} for p, v in zip(spots, values.values()) for d in (120, 240)]
    last = {"model": "tied", "step": mechanisms.STEPS, "test_error": tied}
    return {
        "tried": pd.DataFrame(settings),
        "losses": pd.DataFrame(by_loss),
        "simulated": draws(runs, noise),
        "joint": draws([{**last, "d": d} for d in (80, 160)], noise),
        "joint_predicted": pd.DataFrame([{**last, "test_error_se": error}]),
        "bayes": pd.DataFrame({"test_error": [0.02]}),
    }


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (mechanisms.mechanisms_exact, {}, "confirmed"),
        (mechanisms.mechanisms_exact, {"shift": 0.02}, "refuted"),
        (mechanisms.mechanisms_exact, {"noise": 0.5}, "undecided"),
        (mechanisms.softmax_below("c", "s", ["sparsemax", "top 2", "hard max"]), {}, "confirmed"),
        (
            mechanisms.softmax_below("c", "s", ["sparsemax", "top 2", "hard max"]),
            {"errors": {"sparsemax": 0.02}},
            "refuted",
        ),
        (mechanisms.softmax_below("c", "s", ["sparsemax", "top 2", "hard max"]), {"error": 0.01}, "undecided"),
        (mechanisms.softmax_below("c", "s", ["thresholded", "sigmoid"]), {}, "confirmed"),
        (mechanisms.softmax_below("c", "s", ["thresholded", "sigmoid"]), {"errors": {"thresholded": 0.02}}, "refuted"),
        (mechanisms.losses_alike, {"losses": (0.03, 0.031, 0.0305, 0.0295)}, "confirmed"),
        (mechanisms.losses_alike, {}, "refuted"),
        (mechanisms.losses_alike, {"losses": (0.03, 0.031, 0.0305, 0.0295), "error": 0.002}, "undecided"),
        (mechanisms.tied_wins, {}, "confirmed"),
        (mechanisms.tied_wins, {"tied": 0.04}, "refuted"),
        (mechanisms.tied_wins, {"error": 0.01}, "undecided"),
    ],
)
def test_mechanisms(criterion, arguments, verdict):
    assert criterion(mechanism_tables(**arguments)).verdict == verdict
