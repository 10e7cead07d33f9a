"""Criteria of the study of what learning needs, on synthetic tables that make each verdict."""

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import ladder_of_exponents as study
from sparsetoken.study.kind_registry import get_kind

FAR = [10**4, 10**5, 10**6]


def powers(methods, x, values, scale=1.0):
    """A table in which every method needs scale times x to its power."""
    return pd.DataFrame(
        {"method": m, x: v, "needed": scale * float(v) ** p} for m, p in methods.items() for v in values
    )


def tables(off=0.0, jump=1 / np.e, bayes=1.0, drawn=0.7, noise=0.01, first=0.32, last=0.25, scaled=0.0):
    lengths = {**study.PRODUCTS, "eigenvector": 0.25, "positive_eigenvector": 0.25}
    needed = powers({m: p + off for m, p in lengths.items()}, "length", FAR)
    passing = [(jump * n / 2.0) ** 0.25 for n in FAR]
    limit = [bayes * np.sqrt(2 * np.log(n)) - 0.5 for n in FAR]
    rows = [
        {"method": m, "length": n, "needed": v}
        for m, line in (("message_passing", passing), ("bayes", limit))
        for n, v in zip(FAR, line)
    ]
    errors = powers(dict.fromkeys(study.FOR_ERROR[:-1], 0.25 + off), "length", FAR)
    samples = dict(zip(study.FOR_SAMPLES, (-2, -3, -10 / 3, -4, -4, -4)))
    rng = np.random.default_rng(0)
    cosines = [
        {"method": m, "length": 64, "sparsity": 1, "d": d, "cosine": drawn + noise * rng.standard_normal()}
        for m in study.DRAWN for d in (150, 450) for _ in range(30)
    ]  # fmt: skip
    descent = [
        {"length": n, "strength": s, "step": t, "cosine[q]": 0.5 + 0.4 * np.log(s / n ** (first + (last - first) * share))}
        for n in (32, 256) for s in np.geomspace(2, 8, 30)
        for t, share in zip(study.STEPS, np.linspace(0, 1, len(study.STEPS)))
    ]  # fmt: skip
    p = np.array([0.5, 0.2, 0.05])
    prevalence = [
        {"method": m, "prevalence": v, "needed": (v if m == "message_passing" else v * (1 - v)) ** (scaled - power)}
        for m, power in study.SCALED.items() for v in p
    ]  # fmt: skip
    return {
        "needed": pd.concat([needed, pd.DataFrame(rows)]),
        "errors": pd.concat([errors, pd.DataFrame(rows)[3:]]),
        "trained": powers({"trained:attention": 0.25 + off}, "length", [10**3, 10**4]),
        "samples": powers({m: p + off for m, p in samples.items()}, "strength", study.STRENGTHS),
        "prevalence": pd.DataFrame(prevalence),
        "sparsity": powers({m: -2 * p for m, p in study.SCALED.items()}, "sparsity", [1, 2, 4, 8]),
        "drawn": pd.DataFrame(cosines),
        "descent": pd.DataFrame(descent),
        "short": powers({"products:1": 0.32, "eigenvector": 0.25}, "length", [32, 256]),
    }  # fmt: skip


@pytest.mark.parametrize(
    "claim, arguments, verdict",
    [
        ("ladder-exponents", {}, "confirmed"),
        ("ladder-exponents", {"off": 0.02}, "refuted"),
        ("ladder-quarter", {}, "confirmed"),
        ("ladder-quarter", {"off": 0.01}, "refuted"),
        ("ladder-information", {}, "confirmed"),
        ("ladder-information", {"bayes": 1.3}, "refuted"),
        ("ladder-error", {}, "confirmed"),
        ("ladder-error", {"off": 0.05}, "refuted"),
        ("ladder-constants", {}, "confirmed"),
        ("ladder-constants", {"drawn": 0.65}, "refuted"),
        ("ladder-constants", {"noise": 0.5}, "undecided"),
        ("ladder-jump", {}, "confirmed"),
        ("ladder-jump", {"jump": 0.5}, "refuted"),
        ("ladder-samples", {}, "confirmed"),
        ("ladder-samples", {"off": 0.2}, "refuted"),
        ("ladder-dependence", {}, "confirmed"),
        ("ladder-dependence", {"scaled": 0.1}, "refuted"),
        ("ladder-joint", {}, "confirmed"),
        ("ladder-joint", {"last": 0.32}, "refuted"),
    ],
)
def test_verdicts(claim, arguments, verdict):
    criterion = next(c.judge for c in study.ladder.claims if c.id == claim)
    assert criterion(tables(**arguments)).verdict == verdict


def test_words_and_panels_are_made_of_the_tables():
    made = tables()
    assert "0.250 after 12" in study.ladder_findings(made)
    assert [panel.title[:8] for panel in study.draw_ladder(made)] == ["Strength", "Strength", "Samples ", "Exponent"]


def test_kinds_of_trial():
    needed = get_kind("ladder")
    rows = needed.call(needed.complete({"method": "products:0", "over": "length", "values": [100, 400]}))
    assert rows[1]["needed"] == pytest.approx(2 * rows[0]["needed"], rel=2e-3)
    learnt = get_kind("learnt_direction")
    arguments = learnt.complete({"method": "eigenvector", "length": 64, "d": 300, "target": 0.8})
    assert learnt.call(arguments)["cosine"] == pytest.approx(0.8, abs=0.1)
