"""Criteria of `long-bags` and `centred`, on synthetic tables that make each verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sparsetoken.paper.catalogue import anti_alignment, get_studies, long_bags

LAWS = {"plain": (0.35, 0.2), "centred": (0.43, 0.1), "rare_plain": (-0.15, 0.06), "rare_centred": (0.62, 0.1)}


def sample(mean, spread, count):
    """Numbers with exactly this mean and standard deviation."""
    x = np.random.default_rng(0).standard_normal(count)
    return mean + spread * (x - x.mean()) / x.std(ddof=1)


def long_tables(off=0.0, wider=1.0, corr=0.9, count=240, far=0.0, falls=3.0, rare=0.0, error=0.0):
    """Tables of `long-bags`: cosines with the law's mean and spread but for what the arguments say."""
    law, tables = {**LAWS, "large_plain": (0.36, 0.1), "large_centred": (0.45, 0.06)}, {}
    law |= {f"trained_{mode}": (0.4, 0.05) for mode in long_bags.MODES}
    for name, (mean, spread) in law.items():
        value = "test_error" if name.startswith("trained") else "cosine_q"
        rows, laws = [], []
        for i, at in enumerate(
            long_bags.at(c, 200 * 27**i if "large" in name else 200) for i, c in enumerate((1.0, 2.0))
        ):
            width = spread / (falls**i if name == "large_centred" else 1.0)
            shift = error if value == "test_error" else rare if name.startswith("rare") else off
            x = sample(mean + shift, wider * width, count)
            near = corr * (x - x.mean()) + (1 - corr**2) ** 0.5 * np.random.default_rng(1).permutation(x - x.mean())
            rows.append(pd.DataFrame({**at, value: x, "given_share": near}))
            laws.append({**at, value: mean, f"{value}_spread": width})
        tables[name], tables[f"{name}_law"] = pd.concat(rows), pd.DataFrame(laws)
    for mode in long_bags.MODES:
        mean, spread = long_bags.limit_of(mode)
        tables[f"far_{mode}_law"] = pd.DataFrame([{"d": 10**12, "cosine_q": mean + far, "cosine_q_spread": spread}])
    return tables


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (long_bags.law_holds, {}, "confirmed"),
        (long_bags.law_holds, {"off": 0.1}, "refuted"),
        (long_bags.law_holds, {"wider": 1.6}, "refuted"),
        (long_bags.law_holds, {"count": 20}, "undecided"),
        (long_bags.share_decides, {}, "confirmed"),
        (long_bags.share_decides, {"corr": 0.4}, "refuted"),
        (long_bags.share_decides, {"corr": 0.75}, "undecided"),
        (long_bags.limit_holds, {}, "confirmed"),
        (long_bags.limit_holds, {"far": 0.02}, "refuted"),
        (long_bags.limit_holds, {"count": 12}, "undecided"),
        (long_bags.centred_settles, {}, "confirmed"),
        (long_bags.centred_settles, {"falls": 0.5}, "refuted"),
        (long_bags.centred_settles, {"falls": 1.0}, "undecided"),
        (long_bags.rare_turn, {}, "confirmed"),
        (long_bags.rare_turn, {"rare": 0.2}, "refuted"),
        (long_bags.rare_turn, {"rare": 0.15}, "undecided"),
        (long_bags.error_holds, {}, "confirmed"),
        (long_bags.error_holds, {"error": 0.05}, "refuted"),
        (long_bags.error_holds, {"count": 20}, "undecided"),
    ],
)
def test_long_bags(criterion, arguments, verdict):
    assert criterion.judge(long_tables(**arguments)).verdict == verdict


def test_the_limit_of_long_bags():
    """s = 4 x .8^3/4 = .512: s/sqrt(1 + s^2) where nothing fluctuates."""
    assert long_bags.limit_of("centred") == (
        pytest.approx(0.512 / (1 + 0.512**2) ** 0.5),
        pytest.approx(0.0, abs=1e-12),
    )
    assert long_bags.limit_of("plain") == (pytest.approx(0.366, abs=1e-3), pytest.approx(0.079, abs=1e-3))


def centred_tables(centred=0.3, plain=-0.1, turned=-0.9, auc=0.85, gain=0.02, best=-0.02, noise=0.01):
    """Tables of `centred`; `gain` and `best` are what it saves against plain steps, default and tuned, on one task in two."""
    tables = {}
    for mode, value in (("centred", centred), ("plain", plain)):
        rows = [{"d": 4000, "prevalence": p, "cosine_q": x} for p in (0.05, 0.1, 0.2, 0.35, 0.5)
                for x in sample(value, noise, 24)]  # fmt: skip
        tables[mode] = pd.DataFrame(rows)
    keys = [(loss, rate) for loss in anti_alignment.LOSSES for rate in (0.5, 5.0)]
    tables["long_step_simulated"] = pd.DataFrame(
        {"loss": loss, "eta_w": rate, "cosine_q": x}
        for loss, rate in keys
        for x in sample(turned if (loss, rate) == ("square", 5.0) else 0.9, noise, 12)
    )
    tables["long_step"] = pd.DataFrame(
        {"loss": loss, "eta_w": rate, "cosine_q": -0.9 if loss == "square" and rate > 1 else 0.9}
        for loss in anti_alignment.LOSSES
        for rate in (0.5, 1.5, 5.0)
    )
    for mode, value in (("centred", auc), ("plain", 0.6)):
        tables[f"{mode}_rare"] = pd.DataFrame({"d": 200, "auc": sample(value, noise, 40)})
    tasks = anti_alignment.random_tasks(10)
    for mode, saved in (("centred", 0.0), ("plain", gain), ("tuned", best)):
        tables[f"{mode}_tasks"] = pd.DataFrame(
            {**task, "test_error": 0.1 + saved * (i % 2), "standard_error": 1e-4} for i, task in enumerate(tasks)
        )
    return tables


@pytest.mark.parametrize(
    ("criterion", "arguments", "verdict"),
    [
        (anti_alignment.no_turning, {}, "confirmed"),
        (anti_alignment.no_turning, {"plain": 0.1}, "refuted"),
        (anti_alignment.no_turning, {"centred": 0.0}, "undecided"),
        (anti_alignment.what_is_left, {}, "confirmed"),
        (anti_alignment.what_is_left, {"turned": 0.9}, "refuted"),
        (anti_alignment.what_is_left, {"turned": 0.0}, "undecided"),
        (anti_alignment.rare_gains, {}, "confirmed"),
        (anti_alignment.rare_gains, {"auc": 0.5}, "refuted"),
        (anti_alignment.rare_gains, {"auc": 0.6}, "undecided"),
        (anti_alignment.never_worse, {}, "confirmed"),
        (anti_alignment.never_worse, {"gain": -0.01}, "refuted"),
        (anti_alignment.never_worse, {"gain": 0.0}, "refuted"),
        (anti_alignment.best_of_all, {}, "refuted"),
        (anti_alignment.best_of_all, {"best": 0.01}, "confirmed"),
    ],
)
def test_centred(criterion, arguments, verdict):
    assert criterion.judge(centred_tables(**arguments)).verdict == verdict


def test_kinds_of_trial_of_the_two_studies():
    """One quick trial of each kind gives the columns that it says."""
    from sparsetoken.study.kind_registry import get_kind

    seen = set()
    for study in get_studies(["long-bags", "centred"]):
        for trials in study.trials("quick").values():
            kind = get_kind(trials[0].kind)
            if kind.name in ("steps_given_share", "alignment_law", "staged_attention") and kind.name not in seen:
                seen.add(kind.name)
                row = kind.call(trials[0].arguments)
                assert np.isfinite([float(v) for v in row.values()]).all(), row
    assert len(seen) == 3
