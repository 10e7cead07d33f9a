import numpy as np
import pytest

from sparsetoken import Task, theory


@pytest.mark.slow
def test_no_ridge_nearby_is_better():
    law = theory.attention_law(Task(), 0.9, 1.5)
    best = theory.best_ridge(law, 2.0)
    assert not best.at_end and best.result.ridge == best.ridge and best.test_error == best.result.test_error
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = theory.erm(law, 2.0, factor * best.ridge, warm_start=best.result.warm_start)
        assert other.points == best.result.points and other.test_error > best.test_error - 1e-7
    grid = [
        theory.erm(law, 2.0, ridge, warm_start=best.result.warm_start).test_error
        for ridge in np.geomspace(1e-5, 1e2, 15)
    ]
    assert best.test_error <= min(grid) + 1e-7


def test_a_best_ridge_at_the_end_of_the_range_is_said_to_be():
    """Pooled, balanced, many samples: more ridge never hurts the direction, so the best one lies at the end of the range."""
    best = theory.best_ridge(theory.pooled_law(Task()), 2.0, "square", low=1e-3, high=10.0)
    assert best.at_end and best.ridge == pytest.approx(10.0) and "end of the range" in repr(best)


@pytest.mark.slow
def test_in_coloured_noise_and_for_heads():
    spectrum = theory.Spectrum.of(np.arange(1, 101.0) ** -0.7)
    law = theory.coloured_law(Task(strength=2.0), spectrum, spectrum.query(np.ones(100) / 10))
    best = theory.best_ridge(law, 1.0, accuracy=5e-3)
    for ridge in (best.ridge / 3, best.ridge * 3):
        other = theory.erm(law, 1.0, ridge, accuracy=5e-3, warm_start=best.result.warm_start)
        assert other.points == best.result.points and other.test_error > best.test_error
    heads = theory.best_ridge(theory.heads_law(Task(), [0.8, 0.6], 1.0), 2.0, accuracy=2e-2, low=1e-2, high=1.0)
    assert isinstance(heads.result, theory.HeadsResult)


def test_a_bad_range_is_named():
    with pytest.raises(ValueError, match="high"):
        theory.best_ridge(theory.pooled_law(Task()), 2.0, low=1.0, high=0.5)
