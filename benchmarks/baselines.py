"""What learners of bags are compared with: five baselines of scikit-learn on a bag's statistics, and the class frequencies."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from sparsetoken import BagScaler


def statistics(bags, scaler):
    """Mean, maximum, minimum and spread of the scaled tokens, each (bags, features)."""
    z = scaler.scaled(bags.tokens)
    mean = np.add.reduceat(z, bags.starts, axis=0) / bags.lengths[:, None]
    square = np.add.reduceat(z * z, bags.starts, axis=0) / bags.lengths[:, None]
    most, least = np.maximum.reduceat(z, bags.starts, axis=0), np.minimum.reduceat(z, bags.starts, axis=0)
    return mean, most, least, np.sqrt(np.maximum(square - mean**2, 0.0))


def baseline_scores(train, labels, test):
    """Scores of the test bags by five baselines, larger for positive ones and positive where the label is."""
    scaler = BagScaler().fit(train)
    a, b = statistics(train, scaler), statistics(test, scaler)
    found = {}
    for name, parts in (("mean LR", [0]), ("max LR", [1]), ("mean+max LR", [0, 1])):
        model = LogisticRegression(C=1.0, max_iter=3000).fit(np.hstack([a[i] for i in parts]), labels)
        found[name] = model.decision_function(np.hstack([b[i] for i in parts]))
    rows, fresh = np.hstack(a), np.hstack(b)
    found["forest"] = RandomForestClassifier(300, random_state=0).fit(rows, labels).predict_proba(fresh)[:, 1] - 0.5
    mean, size = rows.mean(axis=0), np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    found["SVM"] = SVC(C=3.0).fit((rows - mean) / size, labels).decision_function((fresh - mean) / size)
    return found


def share_of_log_loss(odds, positive, labels) -> float:
    """Mean log loss of the log odds of test bags, over that of the class frequencies of the training labels."""
    known = np.full(len(positive), np.log(labels.mean() / (1 - labels.mean())))
    losses = [np.mean(np.logaddexp(0.0, np.where(positive, -u, u))) for u in (odds, known)]
    return float(losses[0] / losses[1])
