"""Learning curves measured on parts of the bags."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.planning import Criterion, measure_curve
from sparsetoken.planning.learning_curve import held_out_loss


class Recorder:
    """A learner that remembers what it was given and is right with a chance that grows with it."""

    fits: list[set[int]]

    def fit(self, bags, y):
        type(self).fits.append(set(bags.tokens[:, 0].astype(int)))
        assert len(np.unique(y)) == 2
        return self

    def decision_function(self, bags):
        seen = type(self).fits[-1]
        assert not seen & set(bags.tokens[:, 0].astype(int))  # every bag is predicted by learners that have not seen it
        return np.where(bags.tokens[:, 1] > 0, 1.0, -1.0)


@pytest.fixture
def recorded():
    Recorder.fits = []
    return Recorder


def _bags(n: int, positive: int) -> tuple[Bags, np.ndarray]:
    y = np.arange(n) < positive
    return Bags(np.stack([np.arange(n), y - 0.5], axis=1)[:, None, :]), y


def test_training_sets_are_nested_and_out_of_sample(recorded):
    bags, y = _bags(100, 40)
    reports: list[tuple[int, int, float]] = []
    curve = measure_curve(bags, y, recorded, report=lambda *given: reports.append(given))
    sizes = list(curve.sizes)
    assert sizes == [19, 32, 54, 90] and curve.fits == 40 and curve.tested == 100 and curve.losses == (0.0,) * 4
    chosen = recorded.fits[1:]  # the first is timed only
    for fold in range(10):
        parts = chosen[4 * fold : 4 * fold + 4]
        assert [len(part) for part in parts] == sizes
        assert parts[0] < parts[1] < parts[2] < parts[3]
        for part in parts:  # the classes in their own shares, to within one or two bags
            assert abs(sum(i < 40 for i in part) - 0.4 * len(part)) <= 2
    assert [done for done, _, _ in reports] == list(range(1, 41)) and reports[-1][2] == 0.0


def test_which_class_is_the_positive_one_does_not_move_the_training_sets(recorded):
    bags, y = _bags(60, 25)
    measure_curve(bags, y, recorded)
    chosen, recorded.fits = recorded.fits, []
    measure_curve(bags, ~y, recorded)
    assert recorded.fits == chosen


def test_a_small_budget_means_fewer_and_smaller_fits(recorded, monkeypatch):
    """Every fit takes one second per bag on a clock of its own."""
    clock = [0.0]
    monkeypatch.setattr("sparsetoken.planning.learning_curve.time.process_time", lambda: clock[0])
    fit = recorded.fit

    def slow(self, bags, y):
        clock[0] += len(y)
        return fit(self, bags, y)

    monkeypatch.setattr(recorded, "fit", slow)
    bags, y = _bags(400, 200)
    curve = measure_curve(bags, y, recorded, budget=1500.0)
    assert curve.fits == 20 and curve.sizes[-1] < 320 and curve.seconds <= 1.1 * 1500
    curve = measure_curve(bags, y, recorded, budget=1.0)  # less than anything takes: the least that will do
    assert curve.fits == 3 * len(curve.sizes) and curve.sizes[-1] == 80


def test_large_sets_are_tested_in_part(recorded):
    bags, y = _bags(5000, 1000)
    assert measure_curve(bags, y, recorded).tested == 2000
    assert measure_curve(bags, y, recorded, "auc").tested == pytest.approx(800, abs=20)  # twice the rarer class


def test_too_few_bags_are_refused(recorded):
    for n, positive in ((10, 5), (40, 3)):
        bags, y = _bags(n, positive)
        with pytest.raises(ValueError, match="learning curve needs"):
            measure_curve(bags, y, recorded)


def test_held_out_losses_are_what_they_say():
    scores = np.array([2.0, 0.3, -1.0, 0.5, -2.0, -3.0])
    y = np.array([True, True, True, False, False, False])
    assert held_out_loss(scores, y, Criterion.of("error")) == pytest.approx(2 / 6)
    assert held_out_loss(scores, y, Criterion.of("balanced_error")) == pytest.approx(1 / 3)
    assert held_out_loss(scores, y, Criterion.of("auc")) == pytest.approx(2 / 9)
    assert held_out_loss(scores, y, Criterion.of("sensitivity@0.9")) == pytest.approx(1 / 3)
    rare = np.concatenate([y, np.zeros(6, bool)])
    many = np.concatenate([scores, np.full(6, -0.5)])
    # At a quarter of positives the balanced threshold is log(1/3) = -1.1: all three positives and 7 of 9 negatives above.
    assert held_out_loss(many, rare, Criterion.of("balanced_error")) == pytest.approx((0 + 7 / 9) / 2)
