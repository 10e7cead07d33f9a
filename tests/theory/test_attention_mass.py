"""The law of the attention mass on signal tokens: limits known by hand, and a direct drawing of all tokens."""

import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken.activations import softmax
from sparsetoken.theory import attention_mass


def test_uniform_attention_has_the_uniform_share():
    found = attention_mass(Task(12, 3, 4.0, 0.5), 0.7, 0.0)
    assert found.mean == pytest.approx(0.25) and found.negative_mean == pytest.approx(0.25)
    assert found.amplification == pytest.approx(1.0)


def test_a_blind_query_gives_nothing_and_a_sharp_one_everything():
    blind = attention_mass(Task(10, 1, 4.0, 0.5), 0.0, 2.0)
    assert abs(blind.mean - 0.1) < 4 * blind.standard_error + 1e-6
    assert attention_mass(Task(10, 1, 12.0, 0.5), 1.0, 5.0).mean > 0.999
    against = attention_mass(Task(10, 1, 4.0, 0.5), -0.9, 2.0)
    assert against.mean < 0.01 and abs(against.negative_mean - 0.1) < 4 * against.negative_standard_error + 1e-6


@pytest.mark.parametrize(("length", "sparsity"), [(10, 1), (8, 3), (600, 2)])
def test_law_of_the_mass_is_that_of_drawn_bags(length, sparsity):
    strength, cosine, k = 3.0, 0.8, 1.5
    found = attention_mass(Task(length, sparsity, strength, 0.5), cosine, k)
    rng = np.random.default_rng(0)
    t = rng.standard_normal((4_000 if length > 100 else 20_000, length))
    t[:, :sparsity] += cosine * strength
    masses = softmax(k * t)[:, :sparsity].sum(axis=1)
    error = masses.std() / np.sqrt(len(masses))
    assert abs(found.mean - masses.mean()) < 4 * np.hypot(error, found.standard_error)
    shares, errors = found.shares(np.linspace(0, 1, 6))
    seen = np.histogram(masses, np.linspace(0, 1, 6))[0] / len(masses)
    assert shares.sum() == pytest.approx(1.0)
    spread = np.sqrt(seen * (1 - seen) / len(masses)) + errors + 1e-4
    assert (np.abs(shares - seen) < 5 * spread).all()


def test_bags_that_differ_are_refused():
    with pytest.raises(ValueError, match="attention mass"):
        attention_mass(Task(10, 1, 3.0, 0.5, correlation=0.2), 0.5, 1.0)
