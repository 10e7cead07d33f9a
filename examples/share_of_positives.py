"""Pooling on 1,000 bags in dimension 250: with a large ridge the share of positives that a data set happens to have decides.

Prints a table in Markdown: the limit, the forecast averaged over that share, and simulations. Takes a few seconds.
"""

import numpy as np

from sparsetoken import Task, Training, forecast, planning, simulate

TASK, N, D, RUNS = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5), 1000, 250, 100


def main() -> None:
    """One row per ridge."""
    print(
        "| λ | difference of scores | spread of the bias | limit | averaged over p | simulated |\n|---|---|---|---|---|---|"
    )
    for ridge in (10.0, 1.0, 0.1):
        training = Training(alpha1=N / D, ridge=ridge)
        limit = forecast(TASK, training, "pooled")
        averaged = planning.forecast_at(TASK, training, D, "pooled")
        errors = [simulate(TASK, training, D, seed, "pooled").test_error for seed in range(RUNS)]
        between = limit.m_q * TASK.strength * TASK.sparsity / TASK.length
        print(
            f"| {ridge:g} | {between:.2g} | {2 / N**0.5:.2g} | {limit.test_error:.4f} | {averaged.value:.4f} "
            f"| {np.mean(errors):.4f} ± {np.std(errors, ddof=1) / RUNS**0.5:.4f} |"
        )


if __name__ == "__main__":
    main()
