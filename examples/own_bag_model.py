"""A user's bag model, trained step by step: the exact limit, and simulations of the same model beside it.

Every token casts a vote between -1 and 1, a smooth function of its product with the one trained direction.
"""

import jax.numpy as jnp

from sparsetoken import BagModel, Stage, Task, simulate_trajectory, theory
from sparsetoken.simulation import mean_trajectory


def votes(H, bias):
    """The mean vote and the bias; H (L, 1) holds the tokens' products with the direction."""
    return jnp.tanh(2.0 * H[:, 0]).mean() + bias


MODEL = BagModel(votes, ("w",), "votes")


def main(d: int = 1000, trials: int = 8):
    """Theory and the mean of `trials` simulations in dimension d, over eight steps from zero."""
    task = Task(length=5, sparsity=2, strength=3.0)
    schedule = Stage(8, alpha=3.0, rates={"w": 0.5, "bias": 0.5}, decay={"w": 0.02})
    exact = theory.trajectory(task, MODEL, schedule, accuracy=0.01)
    measured = mean_trajectory([simulate_trajectory(task, MODEL, schedule, d, seed) for seed in range(trials)])
    for t in range(0, exact.steps + 1, 2):
        limit = f"{exact.test_error[t]:.4f} ± {exact.standard_error[t]:.4f}"
        print(
            f"step {t}: test error {limit}, simulated {measured.test_error[t]:.4f} ± {measured.standard_error[t]:.4f}"
        )
    return exact, measured


if __name__ == "__main__":
    main()
