"""Bags that differ: what each departure from the plain model costs, and how well theory and simulation agree.

Every row is the plain task (10 tokens, one signal token of strength 5, half of the bags positive) with one thing changed; the
last has all of them. Theory, mean and standard error of sixteen simulated data sets at d = 400, and the Bayes limit at the same
samples. Prints a table in Markdown; takes one to two minutes.
"""

from scipy import stats

from sparsetoken import Task, Training, simulate, theory
from sparsetoken.simulation import mean_and_error

TASKS = {
    "plain": Task(),
    "lengths 5 or 15": Task(length={5: 0.5, 15: 0.5}),
    "1 or 3 signal tokens": Task(sparsity={1: 0.5, 3: 0.5}),
    "strength Gamma(25, 0.2)": Task(strength=stats.gamma(25, scale=0.2)),
    "one label in ten flipped": Task(label_noise=0.1),
    "signal in a tenth of the negatives": Task(contamination=0.1),
    "tokens correlated by 0.3": Task(correlation=0.3),
    "all of them": Task({5: 0.5, 15: 0.5}, {1: 0.5, 3: 0.5}, stats.gamma(25, scale=0.2), 0.5, "uniform", 0.1, 0.1, 0.3),
}
TRAINING = Training(alpha0=2.0, alpha1=3.0, ridge=0.05, eta_q=60.0)


def main(d: int = 400, trials: int = 16) -> None:
    """One row per task."""
    print("| bags | cosine of the query | attention | simulated | pooled | Bayes limit |")
    print("|---|---|---|---|---|---|")
    for name, task in TASKS.items():
        found = theory.forecast(task, TRAINING, with_capacity=False)
        pooled = theory.forecast(task, TRAINING.but(equal_samples=True), "pooled", with_capacity=False)
        limit = theory.bayes_limit(task, TRAINING.alpha0 + TRAINING.alpha1)
        mean, error = mean_and_error(simulate(task, TRAINING, d, seed).test_error for seed in range(trials))
        print(
            f"| {name} | {found.cosine['q']:.3f} | {found.test_error:.4f} | {mean:.4f} ± {error:.4f} "
            f"| {pooled.test_error:.4f} | {limit.test_error:.4f} |"
        )


if __name__ == "__main__":
    main()
