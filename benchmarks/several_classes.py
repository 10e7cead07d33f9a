"""Four classes of digit bags: no hidden digit, a seven, an eight or a nine among ten. `python -m benchmarks.several_classes`.

400 bags to learn from, 400 bags of other images to test on; means over three seeds.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_digits

from sparsetoken import Bags
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.learners import LEARNERS

NAMES = np.array(["none", "seven", "eight", "nine"])
COMPARED = ("bag-classifier", "attention", "pooled", "mean-pool LR", "max-pool LR", "mean+max LR")


def digit_bags(pool: np.ndarray, count: int, rng: np.random.Generator) -> tuple[Bags, np.ndarray]:
    """Bags of ten digits below seven, one of them replaced as the label says."""
    images, digits = load_digits(return_X_y=True)
    labels = np.arange(count) % 4
    tokens = rng.choice(pool[digits[pool] < 7], (count, 10))
    for i in np.flatnonzero(labels):
        tokens[i, rng.integers(10)] = rng.choice(pool[digits[pool] == 6 + labels[i]])
    return Bags(images[tokens]), NAMES[labels]


def main() -> None:
    warnings.simplefilter("ignore", TrainingWarning)
    for name in COMPARED:
        right, losses, seconds = [], [], []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            order = rng.permutation(1797)
            bags, labels = digit_bags(order[:900], 400, rng)
            test, truth = digit_bags(order[900:], 400, rng)
            begun = time.process_time()
            model = LEARNERS[name].make().fit(bags, labels)
            seconds.append(time.process_time() - begun)
            logs = model.predict_log_proba(test)
            right.append(np.mean(model.classes_[logs.argmax(axis=1)] == truth))
            losses.append(-np.mean(logs[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]))
        print(
            f"{name:15s} accuracy {np.mean(right):.3f}  log loss {np.mean(losses):.3f}  {np.mean(seconds):.1f} CPU s per fit",
            flush=True,
        )


if __name__ == "__main__":
    main()
