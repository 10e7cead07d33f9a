"""How often groups of bags repeat themselves: what n bags of a few patients are worth as evidence.

Held-out bags of one patient are right or wrong together, so that a learner's success on them says less than as many bags of as
many patients would. Survey statistics call the ratio a design effect: n over it is the number of bags that counts.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

# The quantile of what the variance between groups may be that is reckoned with: the median. With .2 the log loss of a signal in
# ten patients of thirty bags each was .47 instead of .35 times the frequencies'; without any, chance in nine patients cost 1.3.
UNSURE = 0.5


def repetition(
    gains: np.ndarray, scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> float:
    """How often groups of bags repeat themselves, so that n bags say no more than n over this.

    The larger of two design effects: that of what each bag gains over the class frequencies, and that of the scores within a
    class. Where patients differ more than their bags do, and held-out ones are told apart by chance, all bags gain much the
    same; but the scores still tell the patients of one class from each other.

    Parameters
    ----------
    gains : ndarray
        By how much each held-out bag's label is explained better by its score than by the class frequencies.
    scores : ndarray of shape (bags,) or (rounds, bags)
        The bags' held-out scores, of one round or of several.
    labels, weights : ndarray
        Their labels and weights.
    groups : ndarray of int
        Their groups.

    Returns
    -------
    float
        At least 1.
    """
    means = np.mean(np.atleast_2d(scores), axis=0)
    return max(design_effect(gains, weights, groups), design_effect_within_classes(means, labels, weights, groups))


def design_effect_within_classes(
    scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, groups: np.ndarray
) -> float:
    """The design effect of the scores' deviations from their class's mean, as large as it may well be.

    Few groups leave the variance between them uncertain, and an estimate that is too small by chance costs more than one that
    is too large; so it is raised to a quantile of what it may be, though never beyond that of groups of copies.

    Parameters
    ----------
    scores, labels, weights : ndarray
        One score, label and weight per bag.
    groups : ndarray of int
        The bags' groups.

    Returns
    -------
    float
        At least 1.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    means = np.bincount(codes, weights * scores) / np.bincount(codes, weights)
    count, sizes = len(np.unique(groups)), np.bincount(groups, weights)
    # The variance between groups is known to the chi squared of as many degrees of freedom as the class means leave.
    unsure = count / float(chi2.ppf(UNSURE, max(count - len(classes), 1)))
    copies = float(sizes @ sizes) / float(weights @ weights)
    return min(unsure * design_effect(scores - means[codes], weights, groups), copies)


def design_effect(values: np.ndarray, weights: np.ndarray, groups: np.ndarray) -> float:
    """The variance of the values' sum over the one it would have if bags of one group had nothing to do with each other.

    Parameters
    ----------
    values, weights : ndarray
        One value and weight per bag.
    groups : ndarray of int
        The bags' groups.

    Returns
    -------
    float
        At least 1; m where groups are m copies of a bag each.
    """
    parts = weights * (values - np.average(values, weights=weights))
    alone = float(parts @ parts)
    together = np.bincount(groups, parts)
    return max(1.0, float(together @ together) / alone) if alone > 0 else 1.0
