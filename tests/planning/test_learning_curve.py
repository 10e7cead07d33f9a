"""Learning curves measured on parts of the bags, and carried on."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import Bags
from sparsetoken.planning import Criterion, Extrapolation, MeasuredCurve, measure_curve
from sparsetoken.planning.learning_curve import held_out_loss, held_out_scores


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
    scores, sizes, _, fits = held_out_scores(bags, y, recorded, report=lambda *given: reports.append(given))
    assert sizes == [19, 32, 54, 90] and fits == 40 and np.isfinite(scores).all()
    chosen = recorded.fits[1:]  # the first is timed only
    for fold in range(10):
        parts = chosen[4 * fold : 4 * fold + 4]
        assert [len(part) for part in parts] == sizes
        assert parts[0] < parts[1] < parts[2] < parts[3]
        for part in parts:  # the classes in their own shares, to within one or two bags
            assert abs(sum(i < 40 for i in part) - 0.4 * len(part)) <= 2
    assert [done for done, _, _ in reports] == list(range(1, 41)) and reports[-1][2] == 0.0


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
    _, sizes, seconds, fits = held_out_scores(bags, y, recorded, budget=1500.0)
    assert fits == 20 and sizes[-1] < 320 and seconds <= 1.1 * 1500
    _, sizes, _, fits = held_out_scores(
        bags, y, recorded, budget=1.0
    )  # less than anything takes: the least that will do
    assert fits == 3 * len(sizes) and sizes[-1] == 80


def test_large_sets_are_tested_in_part(recorded):
    bags, y = _bags(5000, 1000)
    scores, _, _, _ = held_out_scores(bags, y, recorded)
    tested = np.isfinite(scores[0])
    assert tested.sum() == 2000 and y[tested].sum() == pytest.approx(400, abs=10)
    assert measure_curve(bags, y, recorded).tested == 2000


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


def _curve(e: float, rho: float, c: float, n: int, tested: float, seed: int | None = None, **more) -> MeasuredCurve:
    sizes = tuple(round(part * 0.9 * n) for part in (0.21, 0.36, 0.6, 1.0))
    losses = [min(e * (rho + (1 - rho) * (s / n) ** -c), 0.5) for s in sizes]
    if seed is not None:  # the same bags are tested at every size
        u = np.random.default_rng(seed).uniform(size=round(tested))
        losses = [float(np.mean(u < loss)) for loss in losses]
    near = tuple(tuple(0.9 ** abs(i - j) for j in range(4)) for i in range(4))
    given = {"criterion": Criterion(), "chance": 0.5, "n": n, "fits": 40, "seconds": 1.0} | more
    return MeasuredCurve(sizes=sizes, losses=tuple(losses), correlation=near, tested=tested, **given)


def test_precise_points_give_back_their_law():
    """With very many tested bags, no departure from the law and a fine grid of power laws, the forecast is the law."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MISFIT": 1e-3, "BENDS": (0.0,), "_GRID": (60, 50, 60)}.items():
            patch.setattr(f"sparsetoken.planning.extrapolation.{name}", value)
        found = Extrapolation(_curve(0.1, 0.3, 0.9, 1000, 1e5))
        for n in (1000, 4000):
            truth = 0.1 * (0.3 + 0.7 * (n / 1000) ** -0.9)
            assert found.at(n).value == pytest.approx(truth, rel=0.1)
            assert found.at(n).low - 0.003 <= truth <= found.at(n).high + 0.003
        needed = found.needed(0.05)
        exact = 1000 * ((0.5 - 0.3) / 0.7) ** (-1 / 0.9)
        assert needed.status == "found" and needed.value == pytest.approx(exact, rel=0.15)
        assert found.needed(0.02).status == "impossible"


def test_intervals_hold_as_often_as_they_say():
    """Curves drawn from known laws: 90 % intervals at four times the bags hold in at least 80 % of 60 draws."""
    rng = np.random.default_rng(5)
    held = []
    for seed in range(60):
        e, rho, c = rng.uniform(0.05, 0.3), rng.uniform(0.0, 0.9), rng.uniform(0.4, 1.5)
        found = Extrapolation(_curve(e, rho, c, 100, 100.0, seed)).at(400)
        held.append(found.low <= e * (rho + (1 - rho) * 4**-c) <= found.high)
    assert np.mean(held) >= 0.8


def test_more_bags_tested_narrow_the_interval_and_more_asked_widen_it():
    wide, narrow = (Extrapolation(_curve(0.15, 0.3, 0.8, 100, m)) for m in (50.0, 1000.0))
    assert wide.at(100).high - wide.at(100).low > 2 * (narrow.at(100).high - narrow.at(100).low)
    relative = [(i.high - i.low) / i.value for i in (narrow.at(100), narrow.at(800))]
    assert relative[1] > 1.5 * relative[0]


def test_needed_bags_say_when_there_are_none():
    flat = Extrapolation(_curve(0.4, 0.98, 0.5, 400, 2000.0))
    needed = flat.needed(0.02)
    assert needed.status in ("impossible", "doubtful") and needed.value is None and needed.probability < 0.3
    assert flat.needed(1e-4).probability < needed.probability
    met = flat.needed(0.45)
    assert met.status == "met" and met.met_now > 0.9
    falling = Extrapolation(_curve(0.1, 0.0, 1.0, 400, 400.0)).needed(0.05)
    assert falling.status == "found" and falling.low < 800 < (falling.high or np.inf)


def test_values_of_rising_criteria_are_shown_as_such():
    found = Extrapolation(_curve(0.1, 0.3, 0.8, 200, 200.0, criterion=Criterion("auc")))
    assert 0.8 < found.at(200).low < found.at(200).value < found.at(200).high < 1.0
    assert found.at(1600).value > found.at(200).value
    assert found.needed(0.95).value > 200


def test_no_error_at_all_is_not_an_error_of_zero():
    curve = _curve(0.0, 0.0, 1.0, 60, 60.0)
    assert max(curve.losses) == 0.0
    found = Extrapolation(curve).at(60)
    assert 0.0 < found.value < 0.005 < found.high < 0.1


def test_steep_falls_are_among_the_laws():
    """A loss that halves with every 25 bags more, which no power law does: an exact curve, and what comes of it."""
    sizes = (23, 39, 65, 108)
    losses = tuple(0.4 * 0.5 ** ((n - 23) / 25) for n in sizes)
    near = tuple(tuple(0.9 ** abs(i - j) for j in range(4)) for i in range(4))
    curve = MeasuredCurve(Criterion(), sizes, losses, near, 120.0, 0.5, 120, 40, 1.0)
    found, truth = Extrapolation(curve).at(150), 0.4 * 0.5 ** ((150 - 23) / 25)
    assert found.low <= truth <= found.high
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsetoken.planning.extrapolation.BENDS", (0.0,))
        assert Extrapolation(curve).at(150).low > 1.3 * found.low


def test_a_measurement_scatters_more_than_the_value_itself():
    found = Extrapolation(_curve(0.15, 0.3, 0.8, 100, 1000.0))
    itself, tested = found.at(100), found.at(100, tested=50)
    assert tested.value == itself.value and tested.low < itself.low and tested.high > itself.high
    many = found.at(100, tested=10**6)
    assert many.low == pytest.approx(itself.low, abs=2e-3) and many.high == pytest.approx(itself.high, abs=2e-3)
    with pytest.raises(ValueError, match="tested must be a whole number >= 1"):
        found.at(100, tested=0)
