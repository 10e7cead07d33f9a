"""A user's pooling mechanism and loss, through the same solver as attention's.

Top-two pooling: the query ranks the tokens, and the two best are averaged. Its law of (T, S, kappa) is drawn in a few lines; a
squared hinge serves as the loss. The last lines check the forecast against a simulation of the same mechanism.
"""

import numpy as np

from sparsetoken import Loss, Task, theory
from sparsetoken.solvers.erm import fit_erm


class SquaredHinge(Loss):
    """l = max(0, 1 - y z)^2 / 2."""

    name = "squared_hinge"

    def value(self, z, y):
        return 0.5 * np.maximum(0.0, 1 - y * z) ** 2

    def slope(self, z, y):
        return -y * np.maximum(0.0, 1 - y * z)

    def curvature(self, z, y):
        return (y * z < 1).astype(float)


def top_two(task: Task, cosine: float, positive: bool, count: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (T, S, kappa) of `count` bags: weights 1/2 on the two tokens with the largest coordinate along the query."""
    t = rng.standard_normal((count, task.length))
    if positive:
        t[:, : task.sparsity] += cosine * task.strength
    best = np.argsort(t, axis=1)[:, -2:]
    T = np.take_along_axis(t, best, axis=1).mean(1)
    hits = (best < task.sparsity).mean(1) if positive else np.zeros(count)
    return np.stack([T, task.strength * np.sqrt(1 - cosine**2) * hits, np.full(count, 0.5**0.5)], axis=1)


def main() -> None:
    task, cosine, alpha, ridge, loss = Task(), 0.8, 3.0, 1e-2, SquaredHinge()
    rng = np.random.default_rng(0)
    law = theory.law_from_samples(
        top_two(task, cosine, True, 40_000, rng), top_two(task, cosine, False, 40_000, rng), task.prevalence
    )
    found = theory.erm(law, alpha, ridge, loss)
    print(f"theory     test error {found.test_error:.4f} ± {found.standard_error:.4f}   ||w|| {found.norm_w:.3f}")

    d, errors, norms = 600, [], []
    for _ in range(10):
        y = np.where(rng.random(int(alpha * d)) < task.prevalence, 1.0, -1.0)
        T, S, kappa = np.where((y > 0)[:, None], *(top_two(task, cosine, p, len(y), rng) for p in (True, False))).T
        features = kappa[:, None] * rng.standard_normal((len(y), d))
        features[:, 0] = T
        features[:, 1] += S
        fit = fit_erm(features, y, ridge, loss)
        fresh = [top_two(task, cosine, p, 20_000, rng) for p in (True, False)]
        score = [rows[:, 0] * fit.coef[0] + rows[:, 1] * fit.coef[1] + fit.bias for rows in fresh]
        spread = np.linalg.norm(fit.coef[1:]) * 0.5**0.5
        noise = spread * rng.standard_normal((2, 20_000))
        errors.append(0.5 * np.mean(score[0] + noise[0] < 0) + 0.5 * np.mean(score[1] + noise[1] > 0))
        norms.append(np.linalg.norm(fit.coef))
    bar = np.std(errors, ddof=1) / np.sqrt(len(errors))
    print(f"simulation test error {np.mean(errors):.4f} ± {bar:.4f}   ||w|| {np.mean(norms):.3f}   (d = {d})")


if __name__ == "__main__":
    main()
