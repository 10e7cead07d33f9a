"""The estimators on data drawn from the model, against the theory: `python -m benchmarks.model_bags` (some minutes).

L = 10, theta = 5 (R = 1) or 3 (R = 3), pi = 1/2, d = 1000, n = 2000 bags. Errors are standard errors over draws; every
draw is tested on 6000 fresh bags.
"""

from __future__ import annotations

import time

import numpy as np

from sparsetoken import AttentionClassifier, BagClassifier, MessagePassingClassifier, PooledClassifier, Task, Training
from sparsetoken.simulation import mean_and_error
from sparsetoken.theory import alignment, attention_law, bayes_limit, erm

DIMENSION = 1000
# Task, bags and features for the default learner; the last three were measured once, when everything had been settled.
DEFAULTS = (
    (Task(), 2000, 1000),
    (Task(sparsity=3, strength=3.0), 2000, 1000),
    (Task(length=30, sparsity=2, strength=4.5), 1500, 500),
    (Task(strength=4.0, prevalence=0.2), 2000, 400),
    (Task(length=6, sparsity=2, strength=2.5), 3000, 600),
)


def draw(rng: np.random.Generator, task: Task, n: int, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """n bags by the definition, in single precision."""
    labels = np.where(rng.random(n) < task.prevalence, 1, -1)
    tokens = rng.standard_normal((n, task.length, len(xi)), dtype=np.float32)
    for i in np.flatnonzero(labels == 1):
        tokens[i, rng.choice(task.length, task.sparsity, replace=False)] += (task.strength * xi).astype(np.float32)
    return tokens, labels


def measure(make, task: Task, draws: int) -> str:
    rng = np.random.default_rng(11)
    errors, seconds = [], []
    for _ in range(draws):
        xi = rng.standard_normal(DIMENSION)
        xi /= np.linalg.norm(xi)
        tokens, labels = draw(rng, task, 2 * DIMENSION, xi)
        begun = time.perf_counter()
        model = make().fit(tokens, labels)
        seconds.append(time.perf_counter() - begun)
        fresh, fresh_labels = draw(rng, task, 6000, xi)
        errors.append(float(np.mean(model.predict(fresh) != fresh_labels)))
    mean, error = mean_and_error(errors)
    return f"{mean:.4f} ± {error:.4f} | {np.mean(seconds):.2g}"


def default_error(task: Task, n: int, d: int) -> str:
    """Test error of the default on five draws, and CPU s per fit."""
    errors, seconds = [], []
    for seed in range(100, 105):
        rng = np.random.default_rng(seed)
        xi = rng.standard_normal(d)
        xi /= np.linalg.norm(xi)
        tokens, labels = draw(rng, task, n, xi)
        begun = time.process_time()
        model = BagClassifier().fit(tokens, labels)
        seconds.append(time.process_time() - begun)
        fresh, fresh_labels = draw(rng, task, 6000, xi)
        errors.append(float(np.mean(model.predict(fresh) != fresh_labels)))
    mean, error = mean_and_error(errors)
    return f"{mean:.4f} ± {error:.4f} | {np.mean(seconds):.2g}"


def main() -> None:
    one, three = Task(), Task(sparsity=3, strength=3.0)
    staged = {"split": 0.5, "sharpness": 1.5, "ridge": 1e-2, "scale": False, "eta_b": 1.0}
    cosine = alignment(one, Training(alpha0=1.0)).cosine["q"]
    forecast = erm(attention_law(one, cosine, 1.5), 1.0, 1e-2).test_error
    print("| learner | task | theory | measured | s per fit |\n|---|---|---|---|---|")
    for task in (one, three):
        given = {"strength": task.strength, "sparsity": task.sparsity, "whiten": False, "scale": False}
        limit = f"R = {task.sparsity} | {bayes_limit(task, 2.0).reachable_test_error:.4f}"
        print(f"| message passing, parameters given | {limit} |", end=" ", flush=True)
        print(measure(lambda g=given: MessagePassingClassifier(**g), task, 20) + " |", flush=True)
        print(f"| message passing, all estimated | {limit} |", end=" ", flush=True)
        print(measure(MessagePassingClassifier, task, 5) + " |", flush=True)
    print(f"| attention | R = 1 | {forecast:.4f} |", end=" ", flush=True)
    print(measure(lambda: AttentionClassifier(**staged), one, 10) + " |", flush=True)
    for task, n, d in DEFAULTS:
        limit = bayes_limit(task, n / d).reachable_test_error
        print(f"| bag classifier | L = {task.length}, R = {task.sparsity}, theta = {task.strength:g}, ", end="")
        print(
            f"pi = {task.prevalence:g}, {n} bags, d = {d} | {limit:.4f} |", default_error(task, n, d), "|", flush=True
        )
    print("| pooled | R = 1 | |", end=" ", flush=True)
    print(measure(PooledClassifier, one, 2) + " |", flush=True)


if __name__ == "__main__":
    main()
