"""The task behind labelled bags, estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken.planning import estimate
from sparsetoken.planning.estimate import effective_dimension, law_of_lengths, strength_behind
from sparsetoken.simulation.samplers.tensor import sample_bags
from sparsetoken.theory import bayes_limit
from tests.planning.bags import mixed_bags


def test_drawn_bags_give_back_their_task(drawn):
    """Four standard errors (about one false alarm in 10,000 with exact errors; six groups make them uncertain)."""
    found = estimate(*drawn)
    assert found.task.length == 10 and found.task.sparsity == 1 and found.signal_found and not found.remarks
    assert abs(found.task.strength - 5.0) < 4 * found.strength_error
    assert 0.02 < found.strength_error < 0.5
    assert abs(found.task.prevalence - 0.5) < 4 * found.prevalence_error
    assert found.dimension == pytest.approx(60, rel=0.03)


def test_several_signal_tokens_and_scaled_features_are_recognised():
    """Units of measurement and an offset of every feature change nothing."""
    truth = Task(length=12, sparsity=2, strength=4.0, prevalence=0.4)
    tokens, labels, _ = sample_bags(truth, 240, 40, seed=5)
    scale = np.geomspace(0.01, 100, 40)
    found = estimate(3.0 * scale + scale * tokens, np.where(labels > 0, "yes", "no"))
    assert found.task.sparsity == 2
    assert abs(found.task.strength - 4.0) < 4 * found.strength_error


def test_bags_that_differ_are_seen_to_differ_and_others_not(drawn):
    alike = estimate(*drawn)
    assert alike.length_law == ((10, 1.0),) and alike.sparsity_law == ((1, 1.0),)
    assert alike.strength_law == ((alike.task.strength, 1.0),)
    lengths = estimate(*mixed_bags([(150, 5, 1, 5.0), (150, 20, 1, 5.0)]))
    assert lengths.length_law == ((5, 0.5), (20, 0.5)) and len(lengths.strength_law) == 1
    strengths = dict(estimate(*mixed_bags([(150, 10, 1, 3.0), (150, 10, 1, 6.0)])).strength_law)
    assert sum(strengths.values()) == pytest.approx(1.0)
    mean = sum(v * p for v, p in strengths.items())
    deviation = sum((v - mean) ** 2 * p for v, p in strengths.items()) ** 0.5
    assert mean == pytest.approx(4.5, rel=0.1) and deviation == pytest.approx(1.5, rel=0.3)
    counts = dict(estimate(*mixed_bags([(150, 12, 1, 4.5), (150, 12, 5, 4.5)])).sparsity_law)
    assert counts[1] == pytest.approx(0.5, abs=0.1) and sum(p for c, p in counts.items() if c >= 4) > 0.35


def test_many_lengths_become_few():
    law = law_of_lengths(np.arange(1, 1001))
    assert len(law) == 12 and sum(p for _, p in law) == pytest.approx(1.0)
    assert sum(v * p for v, p in law) == pytest.approx(500.5, rel=0.01)


def test_kinds_are_limited_by_putting_lengths_together(drawn):
    alike = estimate(*drawn)
    assert alike.differing_task() == alike.differing_task(2) == alike.task
    several = replace(
        alike,
        length_law=tuple((10 + k, 1 / 12) for k in range(12)),
        sparsity_law=((1, 0.5), (12, 0.5)),
        strength_law=((4.0, 0.5), (6.0, 0.5)),
    )
    whole, few = several.differing_task(), several.differing_task(20)
    assert len(whole.kinds) == 40 and len(few.kinds) == 20  # lengths below 12 are raised to the signal's 12
    assert few.mean_length == pytest.approx(whole.mean_length, rel=0.03)
    assert few.strength == whole.strength and few.sparsity == whole.sparsity
    assert len(several.differing_task(1).kinds) == 8  # no fewer than two lengths


def test_noise_is_not_taken_for_signal():
    rng = np.random.default_rng(3)
    found = estimate(rng.standard_normal((60, 6, 30)), np.repeat([0, 1], 30))
    assert not found.signal_found
    assert any("no signal" in remark for remark in found.remarks)


def test_effective_dimension_counts_independent_directions():
    rng = np.random.default_rng(1)
    assert effective_dimension(rng.standard_normal((4000, 50))) == pytest.approx(50, rel=0.03)
    few = np.mean(
        [effective_dimension(rng.standard_normal((60, 200)) @ np.diag([1.0] * 20 + [0.0] * 180)) for _ in range(20)]
    )
    assert few == pytest.approx(20, rel=0.1)
    copies = np.repeat(rng.standard_normal((2000, 5)), 8, axis=1)
    assert effective_dimension(copies) == pytest.approx(5, rel=0.03)


def test_strength_behind_inverts_the_theory():
    task = Task(strength=3.3)
    seen = 3.3 * bayes_limit(task, 2.0).reachable_overlap ** 0.5
    assert strength_behind(task.but(strength=1.0), seen, 2.0) == pytest.approx(3.3, rel=0.01)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(40), "two classes"),
        (np.arange(40) < 5, "at least 12 positive"),
        (np.zeros(39), "one label per bag"),
    ],
)
def test_estimates_refuse(labels, words):
    with pytest.raises(ValueError, match=words):
        estimate(np.random.default_rng(0).standard_normal((40, 3, 5)), labels)
