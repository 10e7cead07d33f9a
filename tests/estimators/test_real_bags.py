"""The default configuration on real bags: quick versions, with lower bounds, of `python -m benchmarks.learners`."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from sparsetoken import BagClassifier
from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.estimators.evaluation import evaluate, stratified_splits
from sparsetoken.estimators.learners import chosen_learners
from tests.helpers import DATA, ROOT


def read(name: str):
    return read_bags(DATA / name)


def cross_validated(found, learner: str, folds: int):
    splits = stratified_splits(found.labels, folds, 1, seed=1)
    makers = chosen_learners([learner], found.bags)
    return next(e for e in evaluate(found.bags, found.labels, makers, splits, found.token_labels) if e is not None)


@pytest.mark.parametrize(("length", "least"), [(10, 0.96), (25, 0.94)])
def test_one_hidden_nine_is_found(length, least):
    """400 training bags, disjoint digits for testing. AUCs scatter by about 0.008 from draw to draw (means .98 and .97)."""
    digit_bags = runpy.run_path(str(ROOT / "examples" / "digits_bags.py"))["digit_bags"]
    (bags, labels, _), (test, test_labels, witness) = digit_bags(length, seed=1)
    model = BagClassifier().fit(bags, labels)
    assert roc_auc_score(test_labels, model.decision_function(test)) > least
    assert roc_auc_score(witness.ravel(), np.concatenate(model.token_scores(test))) > 0.97
    probability = model.predict_proba(test)[:, 1]
    # Calibrated: of the bags given more than 0.9 at least eight in ten are positive, and the mean is the share.
    assert test_labels[probability > 0.9].mean() > 0.8
    assert abs(probability.mean() - 0.5) < 0.08


def test_hockey_posts_are_found():
    """Accuracy .95 and token AUC .99 over 5 x 10 folds; the standard error over the 100 bags is 0.022."""
    result = cross_validated(read("newsgroups_rec_sport_hockey.csv.gz"), "bag-classifier", 5)
    assert result.accuracy > 0.88
    assert result.token_auc > 0.97


def test_musk_molecules_are_told_apart():
    """Accuracy .86 over 5 x 10 folds, standard error over the 92 bags 0.03: a bound two of them below."""
    result = cross_validated(read("musk1.csv.gz"), "bag-classifier", 5)
    assert result.accuracy > 0.80
    assert result.auc > 0.86


def test_message_passing_on_real_bags():
    """Its model is not these bags'; whitened, it still finds the posts (accuracy .85 +- .036)."""
    result = cross_validated(read("newsgroups_rec_sport_hockey.csv.gz"), "message-passing", 3)
    assert result.accuracy > 0.74
    assert result.token_auc > 0.95
