"""Estimators on bags: five-fold fits and predictions, next to scikit-learn on pooled features.

The bags are one witness nine among ten digits (scikit-learn's own images) and, where the folder exists, public
multiple-instance tables in the folder that SPARSETOKEN_DATA names, by default in tests/data.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sparsetoken import AttentionClassifier, BagClassifier, Bags, MessagePassingClassifier, PooledClassifier
from sparsetoken._core.workers import single_blas_thread
from sparsetoken.estimators.base import TrainingWarning

from .measure import DATA, Row, Timing, case, timed

TABLES = {"musk1": "musk1", "newsgroups hockey": "newsgroups_rec_sport_hockey", "winter wren": "birds_winter_wren"}


def digits(count: int) -> tuple[Bags, np.ndarray]:
    """Bags of ten digits; positive ones hold a nine."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    images, labels = load_digits(return_X_y=True)
    y = rng.permutation(np.arange(count) % 2)
    bags = images[rng.choice(np.flatnonzero(labels != 9), (count, 10))]
    bags[np.arange(count), rng.integers(10, size=count)] = np.where(
        (y == 1)[:, None], images[rng.choice(np.flatnonzero(labels == 9), count)], bags[:, 0]
    )
    return Bags(bags), y


def table(name: str) -> tuple[Bags, np.ndarray]:
    import pandas as pd

    frame = pd.read_csv(DATA / f"{name}.csv.gz")
    y = frame.groupby("bag_id", sort=False)["label"].first().to_numpy()
    return Bags(frame.drop(columns=["label", "instance_label"], errors="ignore"), ids="bag_id"), y


def five_folds(make: Any, X: Any, y: np.ndarray) -> tuple[Timing, float]:
    """Time of five fits and predictions, and the held-out accuracy."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    timing, guess = timed(lambda: cross_val_predict(make(), X, y, cv=folds), 1)
    return timing, float(np.mean(guess == y))


@case("bags", "five fits and predictions of each estimator on bags, next to scikit-learn on their mean tokens")
def bags(quick: bool) -> list[Row]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    count = 60 if quick else 400
    sets = {f"digits, {count} bags": digits(count)}
    if not quick:
        sets |= {title: table(name) for title, name in TABLES.items() if (DATA / f"{name}.csv.gz").exists()}
    rows = []
    for title, (X, y) in sets.items():
        means = np.stack([bag.mean(axis=0) for bag in X])

        def pooled() -> Any:
            # four penalties by inner folds, which is what PooledClassifier(ridge="auto") does
            fit = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
            return GridSearchCV(fit, {"logisticregression__C": np.logspace(-2, 1, 4)}, scoring="neg_log_loss")

        with single_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            peer, accuracy = five_folds(pooled, means, y)
            for name, make in {
                "pooled": PooledClassifier,
                "bag classifier": BagClassifier,
                "attention": AttentionClassifier,
                "message passing": MessagePassingClassifier,
            }.items():
                if quick and name != "pooled":
                    continue
                ours, own = five_folds(make, X, y)
                rows.append(
                    Row(
                        f"{name}: {title}",
                        ours,
                        "mean token, LogisticRegression, GridSearchCV",
                        peer,
                        f"accuracy {own:.3f}, peer {accuracy:.3f}",
                    )
                )
    return rows
