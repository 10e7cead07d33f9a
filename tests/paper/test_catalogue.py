"""The paper's studies: they are complete data, and their own criteria reach every verdict on synthetic tables."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import (
    NAMES,
    alignment,
    anti_alignment,
    capacity,
    error_and_loss,
    get_studies,
    hyperparameters,
    limits_and_mechanisms,
    other_noise,
    ridgeless,
    separation,
)
from sparsetoken.paper.catalogue import error_against_samples_and_length as samples_and_length

STUDIES = {study.name: study for study in get_studies()}


def test_all_studies_are_there_and_named_once():
    assert list(STUDIES) == list(NAMES) and len(NAMES) >= 27
    ids = [claim.id for study in STUDIES.values() for claim in study.claims]
    assert len(ids) == len(set(ids)) >= 20
    with pytest.raises(ValueError, match="there is no study 'fig2'"):
        get_studies(["fig2"])
    assert [study.name for study in get_studies(["rates", "fig1"])] == ["fig1", "rates"]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_is_complete(name):
    study = STUDIES[name]
    assert study.draw is not None and study.findings is not None and study.claims
    assert set(study.cost) == {"quick", "full"}
    for size in ("quick", "full"):
        tables = study.trials(size)
        assert all(len(trials) for trials in tables.values())
    for claim in study.claims:
        judged = claim.judge({table: pd.DataFrame() for table in study.trials()})
        assert judged.verdict == "undecided" and "could not be judged" in judged.note


def test_the_quick_form_is_quick():
    # CPU seconds. Two cores have 720 in six minutes, of which starting, bookkeeping and reporting take more than a hundred.
    assert sum(study.cost["quick"] for study in STUDIES.values()) < 600


def draws(rows, noise, repeats=30, column="test_error", seed=0):
    """A table of noisy trials around the given values."""
    rng = np.random.default_rng(seed)
    made = []
    for row in rows:
        value = row[column]
        made += [{**row, column: value + noise * rng.standard_normal()} for _ in range(repeats)]
    return pd.DataFrame(made)


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"), [(1.0, 0.05, "confirmed"), (1.5, 0.05, "refuted"), (1.0, 3.0, "undecided")]
)
def test_capacity_threshold(factor, noise, verdict):
    rows = [{"model": "pooled", "d": d, "alpha_star": factor * 2.3 + 2.0 / d} for d in (25, 50, 100)]
    predicted = pd.DataFrame([{"model": "pooled", "sparsity": 1, "alpha_star": 2.3}])
    tables = {"draws": draws(rows, noise, column="alpha_star"), "predicted": predicted}
    assert capacity.threshold("pooled")(tables).verdict == verdict


@pytest.mark.parametrize(
    ("values", "noise", "verdict"),
    [((2.3, 3.4, 23.0), 0.05, "confirmed"), ((3.4, 2.3, 23.0), 0.05, "refuted"), ((3.0, 3.0, 23.0), 0.05, "undecided")],
)
def test_capacity_order(values, noise, verdict):
    names = ("pooled", "attention", "vectorized")
    rows = [{"model": m, "d": d, "alpha_star": v} for m, v in zip(names, values) for d in (25, 50, 100)]
    predicted = pd.DataFrame({"model": names, "sparsity": 1, "alpha_star": values})
    tables = {"draws": draws(rows, noise, column="alpha_star"), "predicted": predicted}
    assert capacity.capacity_order(tables).verdict == verdict


@pytest.mark.parametrize(
    ("twice", "four", "noise", "verdict"),
    [
        (3.5, 16.6, 0.05, "confirmed"),
        (5.0, 16.6, 0.05, "refuted"),
        (3.5, 3.0, 0.05, "refuted"),
        (3.5, 16.6, 1.5, "undecided"),
    ],
)
def test_capacity_against_signal_tokens(twice, four, noise, verdict):
    """Simulated at R = 2, where theory has 3.5; theory rises up to R = 4."""
    rows = [{"model": m, "d": d, "alpha_star": twice} for m in ("pooled", "attention") for d in (15, 30, 60)]
    theory = [
        {"model": m, "sparsity": R, "alpha_star": a}
        for m in capacity.MODELS
        for R, a in ((1, 2.3), (2, 3.5), (4, four))
    ]
    tables = {"twice_draws": draws(rows, noise, column="alpha_star"), "predicted": pd.DataFrame(theory)}
    assert capacity.denser(tables).verdict == verdict


def test_what_is_said_of_the_anti_aligned_training_is_about_its_own_data():
    """Its prevalence stands in the text as it stands in the grid."""
    study = STUDIES["anti-alignment"]
    prevalences = {t.arguments["prevalence"] for t in study.trials()["trained"]}
    there = pd.DataFrame({"anti_aligned": [True, False]})
    trained = pd.DataFrame({"d": 2, "model": ["attention", "pooled"], "test_error": [0.1, 0.2], "prevalence": 0.2})
    words = study.findings({"predicted_there": there, "trained": trained})
    assert len(prevalences) == 1 and f"At π = {prevalences.pop():g} the trained attention has error 0.100" in words


@pytest.mark.parametrize(
    ("errors", "noise", "verdict"),
    [
        ((0.1, 0.03, 0.06), 0.01, "confirmed"),
        ((0.03, 0.06, 0.1), 0.01, "refuted"),
        ((0.1, 0.03, 0.06), 0.3, "undecided"),
    ],
)
def test_interior_optimum(errors, noise, verdict):
    places = (0.25, 2.0, 20.0)
    common = {"alpha0": 2.0, "alpha1": 2.0}
    rows = [{"d": d, "sharpness": k, "test_error": e, **common} for d in (150, 300) for k, e in zip(places, errors)]
    line = pd.DataFrame([{"sharpness": k, "test_error": e, **common} for k, e in zip(places, errors)])
    tables = {"sharp_spots": draws(rows, noise), "sharp": line}
    assert hyperparameters.finite_sharpness(tables).verdict == verdict


@pytest.mark.parametrize(
    ("tiny", "noise", "verdict"), [(0.95, 0.02, "refuted"), (0.1, 0.02, "confirmed"), (0.47, 0.2, "undecided")]
)
def test_small_learning_rate(tiny, noise, verdict):
    values = {1e-3: tiny, 1.0: 0.95}
    rows = [{"d": d, "eta_w": e, "cosine_q": c} for d in (4000, 8000) for e, c in values.items()]
    assert hyperparameters.small_step({"steps": draws(rows, noise, column="cosine_q")}).verdict == verdict


@pytest.mark.parametrize(
    ("error", "scatter", "verdict"),
    [(0.04, 1, "refuted"), (0.4, 1, "confirmed"), (0.26, 1, "undecided"), (0.04, 9, "confirmed")],
)
def test_large_beta(error, scatter, verdict):
    values = dict(zip((0.25, 2.0, 20.0), (0.08, 0.03, error)))
    rows = [{"d": d, "sharpness": k, "test_error": e, "converged": 1.0} for d in (150, 300) for k, e in values.items()]
    pooled = [{"d": d, "model": "pooled", "test_error": 0.26} for d in (150, 300)]
    spots = draws(rows, 0.005)
    spots.loc[spots["sharpness"] == 20.0, "test_error"] += (scatter - 1) * (spots["test_error"] - error)
    tables = {"sharp_spots": spots, "pooled": draws(pooled, 0.005, seed=1)}
    assert hyperparameters.large_beta(tables).verdict == verdict


@pytest.mark.parametrize(
    ("error", "noise", "verdict"), [(0.05, 0.01, "confirmed"), (0.005, 0.002, "refuted"), (0.021, 0.05, "undecided")]
)
def test_bayes_unbeaten(error, noise, verdict):
    rows = [{"d": d, "model": "attention", "alpha0": 1.0, "alpha1": 1.0, "test_error": error} for d in (150, 300)]
    bayes = pd.DataFrame([{"alpha": 2.0, "test_error": 0.0203, "test_error_se": 1e-5}])
    passing = draws([{"d": d, "alpha": 2.0, "test_error": 0.0203} for d in (100, 200)], 0.001, seed=1)
    tables = {"simulated": draws(rows, noise), "bayes": bayes, "passing": passing}
    assert limits_and_mechanisms.unbeaten(tables).verdict == verdict
    below = limits_and_mechanisms.unbeaten(
        {**tables, "passing": passing.assign(test_error=passing["test_error"] - 0.01)}
    )
    assert below.verdict == "refuted"


@pytest.mark.parametrize(
    ("optimum", "reachable", "se", "verdict"),
    [(0.92, 0.02, 1e-4, "confirmed"), (0.92, 0.92, 1e-4, "refuted"), (0.92, 0.4, 0.1, "undecided")],
)
def test_hard_phase(optimum, reachable, se, verdict):
    row = {
        "alpha": 1.0,
        "overlap": optimum,
        "reachable_overlap": reachable,
        "overlap_se": se,
        "reachable_overlap_se": se,
    }
    assert limits_and_mechanisms.hard({"hard": pd.DataFrame([row])}).verdict == verdict


@pytest.mark.parametrize(
    ("exponent", "noise", "verdict"), [(1.0, 1e-4, "confirmed"), (0.5, 1e-4, "refuted"), (1.0, 4e-3, "undecided")]
)
def test_rate(exponent, noise, verdict):
    """Theory is 0.2 + 0.3/alpha; the simulated excess has the given exponent."""
    alphas = [*samples_and_length.RATE_SPOTS, 100.0, 300.0, 1000.0]
    line = [{"model": "pooled", "alpha": a, "test_error": 0.2 + 0.3 / a} for a in alphas]
    line.append({"model": "pooled", "alpha": samples_and_length.INFINITE, "test_error": 0.2})
    rows = [
        {"model": "pooled", "d": d, "alpha": a, "test_error": 0.2 + 0.3 / a**exponent}
        for d in (60, 120)
        for a in samples_and_length.RATE_SPOTS
    ]
    tables = {"simulated": draws(rows, noise), "predicted": pd.DataFrame(line)}
    assert samples_and_length.slope("pooled")(tables).verdict == verdict


@pytest.mark.parametrize(
    ("rate", "noise", "verdict"), [(1.0, 1e-4, "confirmed"), (0.7, 1e-4, "refuted"), (1.0, 5e-3, "undecided")]
)
def test_alignment_rate(rate, noise, verdict):
    alphas = [16.0, 32.0, 64.0, 128.0]
    rows = [{"d": d, "alpha0": a, "cosine_q": 1 - 0.2 / a**rate} for d in (2000, 4000) for a in alphas]
    predicted = pd.DataFrame([{"alpha0": a, "cosine_q": 1 - 0.2 / a} for a in alphas])
    tables = {"simulated": draws(rows, noise, column="cosine_q"), "predicted_there": predicted}
    assert alignment.rate(tables).verdict == verdict


@pytest.mark.parametrize(
    ("wrong", "noise", "verdict"), [(False, 0.01, "confirmed"), (True, 0.01, "refuted"), (False, 0.5, "undecided")]
)
def test_anti_alignment_boundary(wrong, noise, verdict):
    theory = {(0.0, 0.1): -0.2, (6.0, 0.1): 0.2, (6.0, 0.5): 0.4}
    predicted = [{"eta_b": b, "prevalence": p, "cosine_q": c, "anti_aligned": c < 0} for (b, p), c in theory.items()]
    rows = [
        {"d": d, "eta_b": b, "prevalence": p, "cosine_q": -c if wrong else c}
        for d in (100, 200)
        for (b, p), c in theory.items()
    ]
    tables = {"simulated": draws(rows, noise, column="cosine_q"), "predicted_there": pd.DataFrame(predicted)}
    assert anti_alignment.boundary(tables).verdict == verdict


@pytest.mark.parametrize(("error", "verdict"), [(0.3, "refuted"), (0.7, "confirmed"), (0.5, "undecided")])
def test_error_above_one_half(error, verdict):
    rows = [
        {
            "d": d,
            "model": "attention",
            "prevalence": 0.2,
            "test_error": error,
            "balanced_error": error,
            "cosine_q": -0.9,
        }
        for d in (150, 300)
    ]
    table = draws(rows, 0.01)
    table["balanced_error"] = table["test_error"]
    assert anti_alignment.above_half({"trained": table}).verdict == verdict
    table["test_error"] -= 0.3
    assert anti_alignment.above_constant({"trained": table}).verdict == verdict


def crossing_tables(exponents, noise):
    """Errors whose probit is linear in the strength, with the 10 % crossing at c L^exponent."""
    from scipy.special import ndtr, ndtri

    rows = []
    for model, exponent in exponents.items():
        base = separation.CENTRES[model][8]
        for length, centre in separation.CENTRES[model].items():
            crossing = base * (length / 8) ** exponent
            for factor in (0.85, 1.0, 1.18):
                error = ndtr(ndtri(0.1) - 1.5 * (centre * factor / crossing - 1))
                rows += [
                    {
                        "model": model,
                        "d": d,
                        "length": length,
                        "strength": round(centre * factor, 4),
                        "test_error": error,
                    }
                    for d in (100, 200)
                ]
    trained = [{"model": m, "length": n, "strength_needed": n**x} for m, x in exponents.items() for n in (512, 2048)]
    return {"spots": draws(rows, noise), "trained": pd.DataFrame(trained)}


@pytest.mark.parametrize(
    ("exponent", "noise", "verdict"), [(0.5, 1e-3, "confirmed"), (0.6, 1e-3, "refuted"), (0.5, 0.015, "undecided")]
)
def test_pooled_exponent(exponent, noise, verdict):
    assert separation.square_root("pooled", 0.02)(crossing_tables({"pooled": exponent}, noise)).verdict == verdict


@pytest.mark.parametrize(("exponent", "verdict"), [(0.1, "confirmed"), (0.6, "refuted"), (0.5, "undecided")])
def test_attention_exponent_below_pooling(exponent, verdict):
    tables = crossing_tables({"pooled": 0.5, "attention": 0.1}, 1e-3)
    fits = {
        "pooled": separation.trained_fit(tables, "pooled"),
        "attention": separation.trained_fit(tables, "attention"),
    }
    assert fits["attention"].slope == pytest.approx(0.1, abs=0.02)
    with pytest.MonkeyPatch.context() as patch:
        shifted = {**fits, "attention": fits["attention"].__class__(exponent, 0.01, 0.0, 0.0)}
        patch.setattr(separation, "trained_fit", lambda _, model: shifted[model])
        assert separation.attention_exponent(tables).verdict == verdict


@pytest.mark.parametrize(("exponent", "verdict"), [(0.5, "confirmed"), (0.25, "refuted")])
def test_known_exponent(exponent, verdict):
    rows = [
        {
            "mechanism": "elementwise",
            "sharpness": 1.0,
            "length": n,
            "strength_needed": n**exponent,
        }
        for n in separation.LENGTHS
    ]
    assert separation.power("c", "s", "sigmoid", 0.5, separation.OURS)({"known": pd.DataFrame(rows)}).verdict == verdict


def universality_tables(real=None, sparse=0.05, noise=0.002):
    """White noise: attention 0.03, pooling 0.3; real tokens by (set, classifier) as shares of that."""
    base = {"attention": 0.03, "pooled": 0.3, "vectorized": 0.4}
    factors = {(name, model): 1.0 for name in (*other_noise.APART, *other_noise.TOGETHER) for model in base}
    factors |= {(name, "attention"): 2.0 for name in other_noise.FAILING}
    factors |= {("photographs:whiten", "pooled"): 0.5, ("text:whiten", "pooled"): 1.2} | (real or {})
    sizes = other_noise.REAL_SIZES
    white = [{"d": d, "model": model, "test_error": value} for d in (61, 64) for model, value in base.items()]
    rows = [
        {"noise": name, "d": sizes[name], "model": model, "test_error": factor * base[model]}
        for (name, model), factor in factors.items()
    ]
    entries = [
        {"noise": "sparse:0.1", "d": 64, "model": "attention", "test_error": sparse},
        {"noise": "sparse:0.1", "d": 64, "model": "pooled", "test_error": 0.3},
    ]
    return {"white": draws(white, noise), "real": draws(rows, noise, seed=1), "entries": draws(entries, noise, seed=2)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (other_noise.real_pooling, {}, "confirmed"),
        (other_noise.real_pooling, {"real": {("text:whiten:mixed", "pooled"): 1.5}}, "refuted"),
        (other_noise.real_pooling, {"noise": 0.5}, "undecided"),
        (other_noise.real_attention, {}, "confirmed"),
        (other_noise.real_attention, {"real": {("text:whiten:mixed", "attention"): 0.8}}, "refuted"),
        (other_noise.real_attention, {"real": {("text:whiten:mixed", "attention"): 1.0}}, "undecided"),
        (other_noise.together, {}, "confirmed"),
        (other_noise.together, {"real": {("text:whiten", "pooled"): 0.8}}, "refuted"),
        (other_noise.together, {"noise": 0.5}, "undecided"),
        (other_noise.sparse_slow, {}, "confirmed"),
        (other_noise.sparse_slow, {"sparse": 0.02}, "refuted"),
        (other_noise.sparse_slow, {"sparse": 0.03}, "undecided"),
    ],
)
def test_universality(criterion, arguments, verdict):
    assert criterion(universality_tables(**arguments)).verdict == verdict


@pytest.mark.parametrize(
    ("shift", "noise", "verdict"), [(0.0, 0.01, "confirmed"), (0.1, 0.01, "refuted"), (0.0, 0.3, "undecided")]
)
def test_universality_of_entries(shift, noise, verdict):
    predicted = pd.DataFrame({"model": ["pooled"], "test_error": [0.3], "standard_error": [0.0]})
    rows = [
        {"noise": name, "d": d, "model": "pooled", "test_error": 0.3 + shift + 1 / d}
        for name in other_noise.ENTRIES
        for d in (64, 192)
    ]
    tables = {"entries": draws(rows, noise), "predicted": predicted}
    assert other_noise.entries_exact(tables).verdict == verdict
    found = draws([{"d": 192, "model": "pooled", "test_error": 0.3 + shift}], noise)
    coloured = {"coloured": found, "coloured_predicted": predicted.assign(d=192)}
    assert other_noise.coloured_exact(coloured).verdict == verdict


def length_tables(error=0.22, threshold=0.11, query=0.1, auc=0.95, standard_error=1e-3, noise=0.01):
    last = {"test_error": error, "threshold_error": threshold, "query_error": query, "auc": auc}
    rows = [
        {"test_length": 10, **last, "test_error": 0.03, "standard_error": standard_error},
        {"test_length": 1000, **last, "standard_error": standard_error},
    ]
    simulated = [{"d": d, "test_length": 1000, "test_error": 0.22 + 1 / d} for d in (150, 500)]
    return {"predicted": pd.DataFrame(rows), "simulated": draws(simulated, noise)}


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (samples_and_length.lengths.claims[0].judge, {}, "confirmed"),
        (samples_and_length.lengths.claims[0].judge, {"error": 0.3}, "refuted"),
        (samples_and_length.lengths.claims[0].judge, {"noise": 1.0}, "undecided"),
        (samples_and_length.threshold_first, {}, "confirmed"),
        (samples_and_length.threshold_first, {"threshold": 0.21}, "refuted"),
        (samples_and_length.threshold_first, {"threshold": 0.16}, "undecided"),
        (samples_and_length.ranking_survives, {}, "confirmed"),
        (samples_and_length.ranking_survives, {"auc": 0.8}, "refuted"),
        (samples_and_length.ranking_survives, {"standard_error": 0.1}, "undecided"),
    ],
)
def test_lengths(criterion, arguments, verdict):
    assert criterion(length_tables(**arguments)).verdict == verdict


@pytest.mark.parametrize(
    ("high", "low", "verdict"),
    [((0.14, 0.08, 0.04), (0.40, 0.44, 0.47), "confirmed"), ((0.14, 0.08, 0.07), (0.40, 0.44, 0.47), "refuted")],
)
def test_vanishing_error(high, low, verdict):
    rows = [
        {"length": n, "sharpness": 3.0, "strength": 3.0 * share, "test_error": error}
        for share, errors in ((1.3, high), (0.7, low))
        for n, error in zip((10**2, 10**4, 10**8), errors)
    ]
    assert separation.vanishing({"near": pd.DataFrame(rows)}).verdict == verdict


@pytest.mark.parametrize(("attention", "verdict"), [(4.0, "confirmed"), (2.0, "refuted")])
def test_sparsity(attention, verdict):
    names = [("pooled", 1, 8.0), ("pooled", 4, 2.0), ("attention", 1, 5.0), ("attention", 4, attention)]
    table = pd.DataFrame(names, columns=["mechanism", "sparsity", "strength_needed"])
    assert separation.sparsity({"sparse": table}).verdict == verdict


@pytest.mark.parametrize(("threshold", "verdict"), [(0.03, "refuted"), (0.5, "confirmed")])
def test_any_activation(threshold, verdict):
    """The statement holds if every activation has the exponent 1/2."""
    rows = [
        {"mechanism": m, "sharpness": 1.0, "length": n, "strength_needed": n**x}
        for n in separation.LENGTHS
        for m, x in (("elementwise:relu", 0.5), ("elementwise:threshold:3", threshold))
    ]
    assert separation.any_activation({"known": pd.DataFrame(rows)}).verdict == verdict


@pytest.mark.parametrize(("sharp", "verdict"), [(0.3, "confirmed"), (0.06, "refuted")])
def test_error_at_one_cosine(sharp, verdict):
    tables = {
        "soft": pd.DataFrame({"cosine": [0.9], "sharpness": [0.1], "test_error": [0.31]}),
        "predicted": pd.DataFrame({"cosine": [0.9], "alpha": [2.0], "test_error": [sharp]}),
    }
    assert error_and_loss.cosine_governs_error(tables).verdict == verdict


@pytest.mark.parametrize(("softest", "verdict"), [(0.3001, "confirmed"), (0.31, "refuted")])
def test_soft_attention_is_pooling(softest, verdict):
    rows = [{"cosine": c, "sharpness": k, "test_error": e} for c in (0, 1) for k, e in ((0.01, softest), (1.0, 0.4))]
    base = pd.DataFrame({"alpha": [error_and_loss.FEW], "test_error": [0.3]})
    assert error_and_loss.soft({"soft": pd.DataFrame(rows), "pooled_predicted": base}).verdict == verdict


@pytest.mark.parametrize(
    ("error", "scatter", "verdict"), [(0.1, 0.02, "confirmed"), (0.1, 0.001, "refuted"), (0.03, 0.05, "undecided")]
)
def test_large_beta_of_joint_training(error, scatter, verdict):
    tables = {"joint_1": draws([{"d": 200, "test_error": 0.024}], 0.001, 16)}
    tables["joint_20"] = draws([{"d": 200, "test_error": error}], scatter, 16, seed=1)
    assert hyperparameters.large_beta_joint(tables).verdict == verdict


@pytest.mark.parametrize(("pooled", "verdict"), [((0.3, 0.2, 0.1), "confirmed"), ((0.3, 0.2, 0.21), "refuted")])
def test_more_signal_tokens(pooled, verdict):
    errors = {"attention": (0.04, 0.02, 0.01), "pooled": pooled, "vectorized": (0.4, 0.3, 0.2)}
    rows = [{"model": m, "sparsity": R, "test_error": e} for m, es in errors.items() for R, e in zip((1, 2, 4), es)]
    table = pd.DataFrame(rows).assign(standard_error=1e-4)
    assert error_and_loss.denser({"denser": table}).verdict == verdict
    assert error_and_loss.denser({"denser": table.assign(standard_error=0.1)}).verdict == "undecided"


@pytest.mark.parametrize(
    ("off", "verdict"), [((0.1, 0.05), "confirmed"), ((0.1, 0.3), "refuted"), ((0.1, 0.1), "undecided")]
)
def test_leave_one_out(off, verdict):
    rng = np.random.default_rng(0)
    rows = [
        {"d": d, "seed": seed, "left_out": x, "fitted": x + 1.0, "shortcut": x + o + 0.002 * rng.standard_normal()}
        for d, o in zip((200, 400), off)
        for seed in range(10)
        for x in (-1, 1)
    ]
    assert ridgeless.leave_one_out({"left_out": pd.DataFrame(rows)}).verdict == verdict


def test_a_claim_without_one_of_its_rows_is_undecided():
    soft = pd.DataFrame({"sharpness": [0.1], "cosine": [0.9], "test_error": [0.2]})
    predicted = pd.DataFrame({"alpha": [40.0], "cosine": [0.9], "test_error": [0.1]})
    judged = error_and_loss.cosine_governs_error.judge({"soft": soft, "predicted": predicted})
    assert (
        judged.verdict == "undecided"
        and "table 'predicted' lacks the row with alpha = 2.0, cosine = 0.9" in judged.note
    )
