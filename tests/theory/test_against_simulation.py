"""Theory against simulation, for every model and loss.

Finite dimension biases a mean by O(1/d): trials at d and 2d are extrapolated, 2 m(2d) - m(d), and compared with the limit at
four standard errors of that combination, where the test error's own standard error at 2d is at most one per cent. Seeds are
fixed; with 24 comparisons the chance of a false alarm would be about 1e-3 for a fresh seed.
"""

import numpy as np
import pytest

from sparsetoken import Task, Training, theory
from sparsetoken.simulation.simulate import simulate

TASK = Task(prevalence=0.4)
CASES = [
    ("attention", "logistic", 500, 48),
    pytest.param("attention", "square", 500, 36, marks=pytest.mark.slow),
    pytest.param("attention", "smoothed_hinge", 500, 36, marks=pytest.mark.slow),
    ("pooled", "logistic", 500, 10),
    ("vectorized", "square", 500, 6),
    ("elementwise", "logistic", 500, 18),
    ("pooled", "exponential", 250, 20),
    ("pooled", "logistic:positives=4", 250, 20),
]


@pytest.mark.parametrize(("model", "loss", "d", "trials"), CASES)
def test_simulation_tends_to_the_theory(model, loss, d, trials):
    # the square loss takes longer query steps; a smaller rate gives the same sharpness
    training = Training(loss=loss, ridge=1e-2, eta_q=25.0 if loss == "logistic" else 8.0)
    expected = theory.forecast(TASK, training, model, with_capacity=False)
    found = {n: [simulate(TASK, training, n, seed, model) for seed in range(trials)] for n in (d, 2 * d)}
    for name in ("test_error", "train_loss", "norm_w"):
        mean = {n: np.mean([getattr(r, name) for r in rows]) for n, rows in found.items()}
        error = {n: np.std([getattr(r, name) for r in rows], ddof=1) / trials**0.5 for n, rows in found.items()}
        limit = 2 * mean[2 * d] - mean[d]
        bar = np.hypot(2 * error[2 * d], error[d])
        if name == "test_error":
            assert error[2 * d] <= 0.01 * mean[2 * d], f"too few trials to say anything: {mean}, {error}"
        value = getattr(expected, name)
        own = expected.standard_error if name == "test_error" else expected.errors[name]
        assert abs(limit - value) <= 4 * np.hypot(bar, own), (name, mean, error, value)
