"""What an estimator looks at, and how it learns

Displays in scikit-learn's manner. Left: the score of each token of one held-out bag, coloured by its attention
weight; the triangle marks the token that carries the signal. Right: the learning curve of the pooled
classifier, measured on parts of 300 bags and extrapolated to four times as many, with the exact theory beside it.
"""

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import (
    AttentionClassifier,
    AttentionDisplay,
    LearningCurveDisplay,
    PooledClassifier,
    Task,
    Training,
    forecast,
)

BAGS, D, RIDGE = 300, 60, 0.1
TASK = Task(length=5, sparsity=1, strength=5.0)


def main():
    rng = np.random.default_rng(3)
    tokens, labels = rng.standard_normal((BAGS, TASK.length, D)), np.arange(BAGS) % 2
    place = rng.integers(TASK.length, size=BAGS)
    tokens[np.arange(BAGS), place] += TASK.strength * labels[:, None] * np.ones(D) / np.sqrt(D)
    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    model = AttentionClassifier(scale=False).fit(tokens[:-1], labels[:-1])
    AttentionDisplay.from_estimator(model, tokens, BAGS - 1, marked=np.arange(TASK.length) == place[-1], ax=left)
    figure.suptitle("What an estimator looks at, and how it learns", fontsize=11)
    sizes = [60, 100, 200, 300, 600, 1200]
    exact = [
        forecast(TASK, Training(alpha1=n / D, ridge=RIDGE), "pooled", accuracy=5e-3, with_capacity=False) for n in sizes
    ]
    LearningCurveDisplay.from_estimator(
        PooledClassifier(ridge=RIDGE, scale=False),
        tokens,
        labels,
        forecasts={"pooled": (sizes, [one.test_error for one in exact])},
        ax=right,
    )
    return figure


if __name__ == "__main__":
    main().savefig("09_displays.png", dpi=160)
