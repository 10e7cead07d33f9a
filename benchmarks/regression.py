"""`BagRegressor` against Ridge on pooled features and a random forest on bag statistics: R^2 on test bags.

    python -m benchmarks.regression [--seeds 3]

Drawn bags (200 to learn from, 500 to test) with a label that is a function of the tokens plus noise, and bags of scikit-learn's
handwritten digits. Test bags are made of other images. The diabetes set is a plain table: one token per bag.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sparsetoken import BagRegressor

TRAIN, TEST, LENGTH, WIDTH = 200, 500, 8, 20


def mean_token(X: np.ndarray) -> np.ndarray:
    return X.mean(axis=1)


def maximum(X: np.ndarray) -> np.ndarray:
    return X.max(axis=1)


def both(X: np.ndarray) -> np.ndarray:
    return np.hstack([X.mean(axis=1), X.max(axis=1)])


def statistics(X: np.ndarray) -> np.ndarray:
    return np.hstack([X.mean(axis=1), X.max(axis=1), X.min(axis=1), X.std(axis=1)])


class OnFeatures:
    """A regressor of scikit-learn on features of a bag."""

    def __init__(self, features, regressor):
        self.features, self.regressor = features, regressor

    def fit(self, X, y):
        self.regressor.fit(self.features(X), y)
        return self

    def predict(self, X):
        return self.regressor.predict(self.features(X))


def ridge(features):
    return lambda: OnFeatures(features, make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))))


LEARNERS = {
    "BagRegressor": BagRegressor,
    "Ridge on mean": ridge(mean_token),
    "Ridge on max": ridge(maximum),
    "Ridge on mean+max": ridge(both),
    "forest on statistics": lambda: OnFeatures(statistics, RandomForestRegressor(300, random_state=0)),
}


def drawn(kind: str, seed: int):
    """Tokens N(0, I) and a label that depends on them as the name says, with noise of a third of its spread."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((TRAIN + TEST, LENGTH, WIDTH))
    u, v = np.linalg.qr(rng.standard_normal((WIDTH, 2)))[0].T
    along, other = X @ u, X @ v
    if kind == "mean":
        y = along.mean(axis=1)
    elif kind == "largest":
        y = along.max(axis=1)
    elif kind == "least":
        y = along.min(axis=1)
    elif kind == "chosen token":  # the value of the token that another direction picks
        y = np.take_along_axis(other, along.argmax(axis=1)[:, None], axis=1)[:, 0]
    elif kind == "count":
        y = (along > 1.0).sum(axis=1).astype(float)
    else:  # "noise"
        y = rng.standard_normal(TRAIN + TEST)
    y = y / y.std() + rng.standard_normal(TRAIN + TEST) / 3
    return X[:TRAIN], y[:TRAIN], X[TRAIN:], y[TRAIN:]


def digits(kind: str, seed: int):
    """Bags of eight digits; the label is a function of the digits' values."""
    images, values = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    parts = []
    for pool, count in ((order[:900], TRAIN), (order[900:], TEST)):
        chosen = rng.choice(pool, (count, LENGTH))
        shown = values[chosen]
        y = {"mean digit": shown.mean(axis=1), "largest digit": shown.max(axis=1), "nines": (shown == 9).sum(axis=1)}[
            kind
        ]
        parts += [images[chosen], y.astype(float)]
    return parts


def diabetes(_: str, seed: int):
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order][:, None, :], y[order]
    return X[:300], y[:300], X[300:], y[300:]


SETS = {
    **{f"drawn: {kind}": (drawn, kind) for kind in ("mean", "largest", "least", "chosen token", "count", "noise")},
    **{f"digits: {kind}": (digits, kind) for kind in ("mean digit", "largest digit", "nines")},
    "diabetes (table)": (diabetes, ""),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    arguments = parser.parse_args()
    print(f"{'set':22s}" + "".join(f"{name:>22s}" for name in LEARNERS))
    for name, (make, kind) in SETS.items():
        line = f"{name:22s}"
        for learner in LEARNERS.values():
            scores, seconds = [], 0.0
            for seed in range(arguments.first, arguments.first + arguments.seeds):
                X, y, fresh, truth = make(kind, seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    begun = time.process_time()
                    model = learner().fit(X, y)
                    seconds += time.process_time() - begun
                scores.append(r2_score(truth, model.predict(fresh)))
            line += f"{np.mean(scores):12.3f} ({seconds / arguments.seeds:4.1f} s)  "
        print(line, flush=True)


if __name__ == "__main__":
    main()
