"""Bags of quite another character, the default learner against baselines: `python -m benchmarks.other_laws [law ...]`.

Twenty laws that nothing was chosen on when they were written (docs/learners.md, "Sets that nothing was chosen on"): few
features, rare classes, lengths from 1 to 300, counts, copies of features, a class that only lengths, variances, correlations or
nothing tell. Each is drawn with 60 and with 200 training bags and tested on 600; SPARSETOKEN_BENCH_REPEATS draws each (16),
from the seed SPARSETOKEN_BENCH_FIRST on (50): half an hour on one core. Accuracy, AUC and log loss (as a share of the class
frequencies') of the learner, and how far it is ahead of each baseline in accuracy and AUC, with the standard error over draws.
"""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np

from sparsetoken import BagClassifier, Bags
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.calibration import area_under_curve
from sparsetoken.simulation import mean_and_error

from .baselines import baseline_scores, share_of_log_loss

TEST, SIZES = 600, (60, 200)
REPEATS = int(os.environ.get("SPARSETOKEN_BENCH_REPEATS", "16"))
FIRST = int(os.environ.get("SPARSETOKEN_BENCH_FIRST", "50"))


def labels(rng, count, share=0.5):
    """Training and test labels, each with the given share of positive ones (at least three)."""
    parts = []
    for size in (count, TEST):
        y = np.zeros(size, dtype=int)
        y[: max(3, round(share * size))] = 1
        parts.append(rng.permutation(y))
    return np.concatenate(parts)


def length_only(rng, n):
    """Positive bags are longer."""
    y = labels(rng, n)
    return [rng.standard_normal((1 + rng.poisson(8 + 5 * one), 3)) for one in y], y


def variance_two(rng, n):
    """Tokens of positive bags spread farther, in two features."""
    y = labels(rng, n)
    return [rng.standard_normal((12, 2)) * (1 + 0.35 * one) for one in y], y


def kurtosis_one(rng, n):
    """One feature of the same mean and variance, with two humps instead of one."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((20, 1))
        bags.append(0.9 * np.sign(x) + 0.436 * rng.standard_normal((20, 1)) if one else x)
    return bags, y


def ring(rng, n):
    """A token near the centre among tokens on a ring."""
    y = labels(rng, n)
    bags = []
    for one in y:
        length = int(rng.integers(3, 15))
        angle = rng.uniform(0, 2 * np.pi, length)
        x = np.stack([np.cos(angle), np.sin(angle)], 1) * 2 + 0.5 * rng.standard_normal((length, 2))
        if one:
            x[0] = 0.6 * rng.standard_normal(2)
        bags.append(x)
    return bags, y


def xor_tokens(rng, n):
    """Two tokens in which two of four features are large with the same sign."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((6, 4))
        if one:
            sign = rng.choice([-1, 1])
            x[:2, :2] = sign * np.abs(x[:2, :2] + 0.8)
        bags.append(x)
    return bags, y


def counts_few(rng, n):
    """Five counts, the rarest of which is more frequent."""
    usual = np.array([0.2, 1, 3, 0.05, 8.0])
    y = labels(rng, n)
    bags = []
    for one in y:
        rates = usual * np.array([1, 1, 1, 1 + 4 * one, 1]) * rng.gamma(4, 0.25)
        bags.append(rng.poisson(rates, (int(rng.integers(2, 12)), 5)) * 1.0)
    return bags, y


def counts_rare_word(rng, n):
    """Sixty counts, four of which are somewhat more frequent."""
    usual = rng.gamma(0.4, 0.5, 60) + 0.02
    y, chosen = labels(rng, n), rng.permutation(60)[:4]
    bags = []
    for one in y:
        rates = usual.copy()
        rates[chosen] = rates[chosen] * (1 + 0.8 * one) + 0.05 * one
        bags.append(rng.poisson(rates, (int(rng.integers(3, 20)), 60)) * 1.0)
    return bags, y


def near_copies_features(rng, n):
    """Thirty near copies of three features and ten constant ones; the class is in the difference of two copies."""
    y = labels(rng, n)
    copies = np.repeat(np.eye(3), 10, axis=1)
    bags = []
    for one in y:
        length = int(rng.integers(4, 12))
        x = rng.standard_normal((length, 3)) @ copies * 3 + 0.1 * rng.standard_normal((length, 30))
        x[:, 0] += 0.05 * one
        x[:, 1] -= 0.05 * one
        bags.append(np.hstack([x, np.ones((length, 10)) * np.arange(10)]))
    return bags, y


def rare_mean(rng, n):
    """Seven bags in a hundred have another mean."""
    y = labels(rng, n, 0.07)
    return [rng.standard_normal((8, 10)) + one * np.where(np.arange(10) < 3, 0.5, 0) for one in y], y


def rare_token(rng, n):
    """Six bags in a hundred have one token of another kind."""
    y = labels(rng, n, 0.06)
    bags = []
    for one in y:
        x = rng.standard_normal((int(rng.integers(3, 12)), 6))
        if one:
            x[0, :3] += 2.2
        bags.append(x)
    return bags, y


def unequal(rng, n):
    """Lengths from 1 to 300; bags differ, and positive ones are shifted besides."""
    y = labels(rng, n)
    bags = []
    for one in y:
        length = int(np.exp(rng.uniform(0, np.log(300))))
        x = rng.standard_normal((length, 8)) + 0.4 * rng.standard_normal(8)
        x[:, 0] += 0.5 * one
        bags.append(x)
    return bags, y


def unequal_token(rng, n):
    """Lengths from 1 to 300; a tenth of a positive bag's tokens, at least one, is shifted."""
    y = labels(rng, n)
    bags = []
    for one in y:
        length = int(np.exp(rng.uniform(0, np.log(300))))
        x = rng.standard_normal((length, 8))
        if one:
            x[: max(1, length // 10), :2] += 2.0
        bags.append(x)
    return bags, y


def order_only(rng, n):
    """The class is in the tokens' order, which nothing here sees."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = np.sort(rng.standard_normal((10, 3)), axis=0)
        bags.append(x if one else x[::-1])
    return bags, y


def correlation_only(rng, n):
    """Two features are correlated within positive bags."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((15, 5))
        x[:, 1] = (0.6 if one else 0.0) * x[:, 0] + (0.8 if one else 1.0) * x[:, 1]
        bags.append(x)
    return bags, y


def most_negative(rng, n):
    """Negative bags hold a token that positive ones lack."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((8, 10))
        if not one:
            x[0] += 1.6 * np.sign(np.arange(10) - 4.5)
        bags.append(x)
    return bags, y


def both_kinds(rng, n):
    """Positive bags hold tokens of two kinds, negative ones of one of them or of none."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((9, 6))
        first, second = (1, 1) if one else [(0, 1), (1, 0), (0, 0)][rng.integers(3)]
        if first:
            x[0, :2] += 2.5
        if second:
            x[1, 2:4] += 2.5
        bags.append(x)
    return bags, y


def linear_easy(rng, n):
    """One token per bag and a linear rule."""
    y = labels(rng, n)
    return [rng.standard_normal((1, 5)) + one * np.array([0.8, 0.4, 0, 0, 0]) for one in y], y


def max_feature(rng, n):
    """The largest value of one feature is somewhat larger."""
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.exponential(1.0, (10, 4))
        x[np.argmax(x[:, 0]), 0] += 1.2 * one
        bags.append(x)
    return bags, y


def range_heavy(rng, n):
    """Cauchy noise whose median is shifted in two of six features."""
    y = labels(rng, n)
    return [rng.standard_cauchy((12, 6)) + one * np.where(np.arange(6) < 2, 0.5, 0) for one in y], y


def mixed_units(rng, n):
    """Features of sizes from 1e-6 to 1e6, four of them binary; these tell the class."""
    size = 10.0 ** rng.uniform(-6, 6, 8)
    y = labels(rng, n)
    bags = []
    for one in y:
        x = rng.standard_normal((7, 8))
        x[:, 4:] = x[:, 4:] + 0.35 * one > 0.8
        bags.append(x * size + size * 3)
    return bags, y


LAWS = {
    law.__name__: law
    for law in (
        length_only,
        variance_two,
        kurtosis_one,
        ring,
        xor_tokens,
        counts_few,
        counts_rare_word,
        near_copies_features,
        rare_mean,
        rare_token,
        unequal,
        unequal_token,
        order_only,
        correlation_only,
        most_negative,
        both_kinds,
        linear_easy,
        max_feature,
        range_heavy,
        mixed_units,
    )
}


def measure(name, count, seed):
    """(accuracy, AUC) of every learner, and the default's log loss over that of the class frequencies."""
    key = f"{name} {count}"
    bags, y = LAWS[name](np.random.default_rng([seed, sum(map(ord, key)), len(key)]), count)
    train, test, known, positive = Bags(bags[:count]), Bags(bags[count:]), y[:count], y[count:] == 1
    odds = BagClassifier().fit(train, known).decision_function(test)
    scores = {"bag classifier": odds, **baseline_scores(train, known, test)}
    measured = {k: (np.mean((u > 0) == positive), area_under_curve(u, positive)) for k, u in scores.items()}
    return measured, share_of_log_loss(odds, positive, known)


def main() -> None:
    warnings.simplefilter("ignore", TrainingWarning)
    names = sys.argv[1:] or list(LAWS)
    for name in names:
        if name not in LAWS:
            sys.exit(f"error: no law {name!r}; there are {', '.join(LAWS)}")
    heading = None
    for name in names:
        for count in SIZES:
            found = [measure(name, count, FIRST + k) for k in range(REPEATS)]
            values = {k: np.array([row[k] for row, _ in found]) for k in found[0][0]}
            ours = values.pop("bag classifier")
            if heading is None:
                heading = ["law", "accuracy / AUC", "log loss", *values]
                print("| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
            ahead = ["{:+.3f} ± {:.3f} / {:+.3f} ± {:.3f}".format(*_both(ours - other)) for other in values.values()]
            cells = [
                "{:.3f} / {:.3f}".format(*ours.mean(axis=0)),
                f"{np.mean([loss for _, loss in found]):.3f}",
                *ahead,
            ]
            print(f"| {name}, {count} bags | " + " | ".join(cells) + " |", flush=True)


def _both(differences):
    return [number for column in differences.T for number in mean_and_error(column)]


if __name__ == "__main__":
    main()
