"""Few bags of many features, the default learner against baselines: `python -m benchmarks.few_bags [law ...]`, ten minutes.

Eighteen laws, one half of which was to choose on and the other to confirm (docs/learners.md, "Few bags of many features"). Each
law is drawn nine times, with 40, 60 or 80 training bags and 300 test bags; a third or a half of the bags is positive. Log loss
as a share of the class frequencies', AUC and accuracy of the learner, and AUC and accuracy of the best baseline in each.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_sample_image, load_wine

from sparsetoken import BagClassifier, Bags
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.calibration import area_under_curve

from .baselines import baseline_scores, share_of_log_loss

TEST = 300
SIZES, SEEDS = (40, 60, 80), 3


def mean_few(rng, y):
    """Twelve of 600 features are shifted."""
    shift = np.where(np.arange(600) < 12, 0.35, 0.0)
    return [rng.standard_normal((length, 600)) + one * shift for length, one in zip(rng.integers(5, 16, len(y)), y)]


def mean_all(rng, y):
    """All of 800 features are shifted a little."""
    shift = 0.12 * rng.standard_normal(800)
    return [rng.standard_normal((length, 800)) + one * shift for length, one in zip(rng.integers(8, 31, len(y)), y)]


def factor(rng, y):
    """Twenty factors behind 700 features, three of them shifted; bags have effects of their own."""
    loads = rng.standard_normal((20, 700)) * np.linspace(2, 0.3, 20)[:, None]
    bags = []
    for length, one in zip(rng.integers(10, 41, len(y)), y):
        own = rng.standard_normal(20)
        own[:12:4] += 1.1 * one
        bags.append((own + rng.standard_normal((length, 20))) @ loads + 1.5 * rng.standard_normal((length, 700)))
    return bags


def pathology(rng, y):
    """Four kinds of tokens in proportions that differ between the classes, seen through skewed and cut-off features."""
    kinds, loads = 1.5 * rng.standard_normal((4, 30)), rng.standard_normal((30, 700)) / np.sqrt(30)
    bags = []
    for length, one in zip(rng.integers(20, 41, len(y)), y):
        shares = rng.dirichlet(np.array([4, 3, 2, 1.5]) + np.array([-1.5, 0, 0, 2.5]) * one)
        own = kinds[rng.choice(4, length, p=shares)] + 0.7 * rng.standard_normal(30)
        x = (own + rng.standard_normal((length, 30))) @ loads
        x[:, ::3] = np.exp(0.8 * x[:, ::3])
        x[:, 1::3] = np.maximum(x[:, 1::3], 0)
        bags.append(x + 0.3 * rng.standard_normal(x.shape))
    return bags


def _shares_of_rows(rng, y, rows, others, lengths, shares):
    """Bags of rows of two tables, whose share depends on the class."""
    bags = []
    for one in y:
        length = int(rng.integers(*lengths))
        count = rng.binomial(length, shares[one])
        bags.append(np.vstack([rows[rng.choice(len(rows), count)], others[rng.choice(len(others), length - count)]]))
    return bags


def digits_wide(rng, y):
    """More threes, eights and nines among digits seen through 600 random features."""
    digits = load_digits()
    x = np.maximum(digits.data / 16 @ (rng.standard_normal((64, 600)) / 3) + 0.5 * rng.standard_normal(600), 0)
    wanted = np.isin(digits.target, [3, 8, 9])
    return _shares_of_rows(rng, y, x[wanted], x[~wanted], (10, 21), (0.3, 0.5))


def digits_share(rng, y):
    """More sevens among noisy digits."""
    digits = load_digits()
    x = digits.data / 16 + 0.2 * rng.standard_normal(digits.data.shape)
    return _shares_of_rows(rng, y, x[digits.target == 7], x[digits.target != 7], (12, 25), (0.1, 0.3))


def _with_noise_features(rng, bags, count):
    return [np.hstack([bag, rng.standard_normal((len(bag), count))]) for bag in bags]


def breast(rng, y):
    """More malignant rows of scikit-learn's breast cancer table, beside 300 features of noise."""
    table = load_breast_cancer()
    x = (table.data - table.data.mean(0)) / table.data.std(0) + 0.5 * rng.standard_normal(table.data.shape)
    bags = _shares_of_rows(rng, y, x[table.target == 0], x[table.target == 1], (8, 9), (0.2, 0.5))
    return _with_noise_features(rng, bags, 300)


def wine(rng, y):
    """More wines of the second kind, beside 400 features of noise."""
    table = load_wine()
    two = table.data[table.target < 2]
    x = (two - two.mean(0)) / two.std(0) + 1.5 * rng.standard_normal(two.shape)
    kind = table.target[table.target < 2]
    return _with_noise_features(rng, _shares_of_rows(rng, y, x[kind == 1], x[kind == 0], (6, 7), (0.3, 0.7)), 400)


def diabetes(rng, y):
    """Three patients on one side of the median, their products of features, and 200 features of noise."""
    table = load_diabetes()
    x = table.data / table.data.std(0)
    x = np.hstack([x, np.array([x[:, i] * x[:, j] for i in range(10) for j in range(i + 1)]).T])
    high = table.target > np.median(table.target)
    return _with_noise_features(rng, _shares_of_rows(rng, y, x[high], x[~high], (3, 4), (0.0, 1.0)), 200)


def sentences(rng, y):
    """Unit vectors of 384 features around six topics, one of them more common."""
    sizes = np.arange(1, 385) ** -0.5
    turned, topics = np.linalg.qr(rng.standard_normal((384, 384)))[0], rng.standard_normal((6, 384)) * sizes
    bags = []
    for length, one in zip(rng.integers(6, 31, len(y)), y):
        shares = rng.dirichlet(np.array([2 + 1.5 * one, 2, 2, 1, 1, 1]))
        own = topics[rng.choice(6, length, p=shares)] + 0.5 * rng.standard_normal(384) * sizes
        x = (own + rng.standard_normal((length, 384)) * sizes) @ turned
        bags.append(x / np.linalg.norm(x, axis=1, keepdims=True))
    return bags


def sensors(rng, y):
    """Windows of an autoregressive series and their spectra; one class remembers a little longer."""
    bags = []
    for length, one in zip(rng.integers(6, 13, len(y)), y):
        x = rng.standard_normal((length, 256))
        memory = 0.75 + 0.06 * one + 0.05 * rng.standard_normal()
        for i in range(1, 256):
            x[:, i] += memory * x[:, i - 1]
        x *= np.exp(0.3 * rng.standard_normal())
        bags.append(np.hstack([x, np.log(np.abs(np.fft.rfft(x, axis=1)[:, 1:]) ** 2 + 1e-3)]))
    return bags


def patches(rng, y):
    """Patches of noisy crops from the left or the right half of a photograph."""
    image = load_sample_image("china.jpg") / 255.0
    bags = []
    for one in y:
        row, column = rng.integers(150, 427 - 32), rng.integers(0, 320 - 32) + 288 * one
        crop = image[row : row + 32, column : column + 32] + 0.3 * rng.standard_normal((32, 32, 3))
        bags.append(crop.reshape(4, 8, 4, 8, 3).transpose(0, 2, 1, 3, 4).reshape(16, 192))
    return bags


def witness(rng, y):
    """One token carries a signal of size nine."""
    direction = rng.standard_normal(300)
    bags = [rng.standard_normal((length, 300)) for length in rng.integers(8, 16, len(y))]
    for bag, one in zip(bags, y):
        bag[0] += one * 9.0 * direction / np.linalg.norm(direction)
    return bags


def spread(rng, y):
    """Sixty of 500 features spread farther."""
    wider = np.where(np.arange(500) < 60, 0.3, 0.0)
    return [
        rng.standard_normal((length, 500)) * (1 + one * wider) for length, one in zip(rng.integers(10, 21, len(y)), y)
    ]


def heavy(rng, y):
    """A tenth of 500 heavy-tailed features are shifted; bags have effects of their own."""
    shift = 0.5 * rng.standard_normal(500) * (rng.random(500) < 0.1)
    return [
        rng.standard_t(2.5, (length, 500)) + one * shift + 0.3 * rng.standard_normal(500)
        for length, one in zip(rng.integers(5, 21, len(y)), y)
    ]


def lognormal(rng, y):
    """Skewed features of forty factors, two of which are shifted."""
    loads, shift = rng.standard_normal((40, 900)) / np.sqrt(40), np.where(np.arange(40) < 2, 0.9, 0.0)
    return [
        np.exp((0.8 * rng.standard_normal(40) + rng.standard_normal((length, 40)) + one * shift) @ loads)
        for length, one in zip(rng.integers(3, 11, len(y)), y)
    ]


def batch(rng, y):
    """Strong effects in five directions without a signal, which lies in a direction of its own."""
    strong, signal = rng.standard_normal((5, 600)), rng.standard_normal(600)
    signal *= 5.0 / np.linalg.norm(signal)
    return [
        rng.standard_normal((length, 600))
        + 0.6 * rng.standard_normal(600)
        + rng.standard_normal(5) @ strong
        + one * signal
        for length, one in zip(rng.integers(10, 31, len(y)), y)
    ]


def counts(rng, y):
    """Word counts, a tenth of which are more frequent."""
    usual = rng.gamma(0.3, 0.3, 700)
    more = usual * np.where(rng.random(700) < 0.1, 2.2, 1.0)
    return [
        rng.poisson(more if one else usual, (length, 700)) * 1.0 for length, one in zip(rng.integers(2, 7, len(y)), y)
    ]


CHOICE = (mean_few, factor, digits_wide, breast, sensors, witness, spread, lognormal, counts)
CONFIRMATION = (mean_all, pathology, digits_share, wine, sentences, patches, diabetes, heavy, batch)
LAWS = {law.__name__: law for law in (*CHOICE, *CONFIRMATION)}


def measure(name, seed, size):
    """(log loss over that of the class frequencies, AUC, accuracy) of the learner and, without the first, of the baselines."""
    rng = np.random.default_rng([seed, size, sum(map(ord, name))])
    y = (np.arange(size + TEST) % (2 if seed % 3 else 3) == 0).astype(int)
    bags = Bags(LAWS[name](rng, y))
    train, test, labels, positive = bags[np.arange(size)], bags[np.arange(size, size + TEST)], y[:size], y[size:] == 1

    def measured(scores):
        return area_under_curve(scores, positive), float(np.mean((scores > 0) == positive))

    odds = BagClassifier().fit(train, labels).decision_function(test)
    peers = np.array([measured(scores) for scores in baseline_scores(train, labels, test).values()])
    return (share_of_log_loss(odds, positive, labels), *measured(odds)), peers


def main() -> None:
    warnings.simplefilter("ignore", TrainingWarning)
    names = sys.argv[1:] or list(LAWS)
    for name in names:
        if name not in LAWS:
            sys.exit(f"error: no law {name!r}; there are {', '.join(LAWS)}")
    print(
        "| law | log loss | AUC | accuracy | best baseline's AUC | best baseline's accuracy |\n|---|---|---|---|---|---|"
    )
    for name in names:
        found = [measure(name, seed, size) for seed in range(SEEDS) for size in SIZES]
        ours, peers = np.mean([own for own, _ in found], axis=0), np.mean([other for _, other in found], axis=0)
        cells = [f"{value:.3f}" for value in (*ours, *peers.max(axis=0))]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
