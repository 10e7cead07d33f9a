"""Learning curves extrapolated: flat, falling and steep ones, and how often the intervals hold."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken import LearningCurveDisplay, PooledClassifier, Task
from sparsetoken.planning import Criterion, Extrapolation, MeasuredCurve
from sparsetoken.simulation.samplers import sample_bags


def test_a_learner_with_fixed_settings_is_not_promised_improvement():
    """The call of docs/learners.md: the curve is flat from 57 bags on, and the forecast for 1,200 was half of it."""
    tokens, labels, _ = sample_bags(Task(10, 1, 4.0), 300 + 1200 + 2000, 60, seed=1)
    display = LearningCurveDisplay.from_estimator(PooledClassifier(ridge=0.1), tokens[:300], labels[:300])
    model = PooledClassifier(ridge=0.1).fit(tokens[:1500], labels[:1500])
    truth = float(np.mean((model.decision_function(tokens[1500:]) > 0) != (labels[1500:] > 0)))
    ahead = display.extrapolation.at(1200)
    assert ahead.low <= truth <= ahead.high and ahead.value > 0.75 * truth
    curve = display.extrapolation.curve
    for n, loss, error in zip(curve.sizes, curve.losses, curve.standard_errors, strict=True):
        assert abs(display.extrapolation.at(n).value - loss) < 2 * error  # the line passes through its points


@pytest.mark.parametrize("level", [0.15, 0.34])
def test_a_flat_curve_stays_flat(level):
    found = Extrapolation(_curve(level, 1.0, 1.0, 300, 300.0))
    assert found.at(1200).value > 0.75 * level and found.at(1200).high > level
    assert found.gain_probability(300, 1200) < 0.6
    sure = Extrapolation(_curve(level, 1.0, 1.0, 300, 2000.0))
    assert sure.gain_probability(300, 1200) <= found.gain_probability(300, 1200)


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
    """With very many tested bags and no departure from the law, the forecast is the law."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparsetoken.planning.extrapolation.MISFIT", 0.02)
        found = Extrapolation(_curve(0.1, 0.3, 0.9, 1000, 2e4))
        for n in (1000, 4000):
            truth = 0.1 * (0.3 + 0.7 * (n / 1000) ** -0.9)
            assert found.at(n).value == pytest.approx(truth, rel=0.1)
            assert found.at(n).low - 0.005 <= truth <= found.at(n).high + 0.005
        assert found.needed(0.05).status == "found"
        assert found.needed(0.01).status == "impossible"


@pytest.mark.parametrize("kind", ["flat", "falling", "steep"])
def test_intervals_hold_as_often_as_they_say(kind):
    """Noisy curves drawn from known laws: 90 % intervals at four times the bags hold in at least three of four of 40 draws."""
    rng = np.random.default_rng(5)
    held = []
    for seed in range(40):
        e, rho, c = rng.uniform(0.05, 0.3), rng.uniform(0.0, 0.9), rng.uniform(0.4, 1.5)
        rho, c = {"flat": (1.0, 1.0), "falling": (rho, c), "steep": (0.1 * rho, c + 0.5)}[kind]
        found = Extrapolation(_curve(e, rho, c, 100, 100.0, seed)).at(400)
        held.append(found.low <= e * (rho + (1 - rho) * 4**-c) <= found.high)
    assert np.mean(held) >= 0.75


def test_a_flat_curve_is_a_hypothesis_by_itself():
    """Without it one flat curve in six was above the 90 % interval."""
    held = []
    for seed in range(120):
        found = Extrapolation(_curve(0.3, 1.0, 1.0, 300, 300.0, seed)).at(1200)
        held.append(found.low <= 0.3 <= found.high)
    assert np.mean(held) >= 0.86


def test_more_bags_tested_narrow_the_interval_and_more_asked_widen_it():
    wide, narrow = (Extrapolation(_curve(0.15, 0.3, 0.8, 100, m)) for m in (50.0, 1000.0))
    assert wide.at(100).high - wide.at(100).low > 1.5 * (narrow.at(100).high - narrow.at(100).low)
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


def test_a_measurement_scatters_more_than_the_value_itself():
    found = Extrapolation(_curve(0.15, 0.3, 0.8, 100, 1000.0))
    itself, tested = found.at(100), found.at(100, tested=50)
    assert tested.value == itself.value and tested.low < itself.low and tested.high > itself.high
    many = found.at(100, tested=10**6)
    assert many.low == pytest.approx(itself.low, abs=2e-3) and many.high == pytest.approx(itself.high, abs=2e-3)
    with pytest.raises(ValueError, match="tested must be a whole number >= 1"):
        found.at(100, tested=0)
