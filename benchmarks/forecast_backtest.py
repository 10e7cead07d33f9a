"""Do forecast learning curves hold? Part of a set's bags, the forecast for all of them, and what is measured with all.

    python -m benchmarks.forecast_backtest FOLDER --made --repeats 3 --out backtest.csv

FOLDER holds files of bags (csv, csv.gz, parquet or npz: bag_id, label, features). From each file random 30, 50 and 80 % of the
bags are taken, the default learner's learning curve is measured on them alone, and its forecast for all bags is compared with
tenfold cross-validation of all bags (three times; trained on nine tenths, which is where the forecast is read). With --made,
also bags made of scikit-learn's own tables and bags drawn from the model; there the truth is the mean test error on 2,000
fresh bags of learners trained on all bags of each repetition.

The forecast's constants were chosen on bags of hockey posts, of digits (a nine among ten) and of cell nuclei and on drawn
bags of ten tokens (`CHOSEN_ON`); all other sets confirm them.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import BagClassifier, Bags, Task
from sparsetoken.bags.files import read_bags
from sparsetoken.planning import Extrapolation, measure_curve
from sparsetoken.planning.learning_curve import nested_order
from sparsetoken.simulation.samplers.tensor import sample_bags

FRACTIONS = (0.3, 0.5, 0.8)
TESTED = 2000  # fresh bags
CHOSEN_ON = ("newsgroups_rec_sport_hockey", "digits: 9 of 10", "cell nuclei: 1 of 20", "drawn: L 10")
FIELDS = (
    "set",
    "share",
    "repeat",
    "bags",
    "truth",
    "trained_on",
    "forecast",
    "low",
    "high",
    "holds",
    "last",
    "cpu_seconds",
)
ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")


def witness_bags(
    loader: Callable[..., Any], witness: int, length: int
) -> Callable[[int, int], tuple[Bags, np.ndarray]]:
    """How to make bags of a table's rows: positive ones hold one row of the class `witness`, negative ones none."""

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        rows, classes = loader(return_X_y=True)
        rng = np.random.default_rng(seed)
        positive = rng.permutation(np.arange(count) % 2) == 1
        bags = rows[rng.choice(np.flatnonzero(classes != witness), (count, length))].astype(float)
        found = rows[rng.choice(np.flatnonzero(classes == witness), count)]
        bags[positive, rng.integers(length, size=count)[positive]] = found[positive]
        return Bags(bags), positive

    return make


def drawn_bags(task: Task, d: int) -> Callable[[int, int], tuple[Bags, np.ndarray]]:
    """How to draw bags from the model; one seed has one signal direction."""

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        tokens, labels, _ = sample_bags(task, count, d, seed=seed)
        return Bags(tokens), labels > 0

    return make


def made_sets() -> dict[str, tuple[Callable[[int, int], tuple[Bags, np.ndarray]], int]]:
    """Sets that can be made anew: how, and with how many bags."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    return {
        "digits: 9 of 10": (witness_bags(load_digits, 9, 10), 300),
        "cell nuclei: 1 of 20": (witness_bags(load_breast_cancer, 0, 20), 200),
        "drawn: L 10": (drawn_bags(Task(10, 1, 4.0), 100), 400),
        "digits: 3 of 20": (witness_bags(load_digits, 3, 20), 300),
        "drawn: L 20, R 2": (drawn_bags(Task(20, 2, 3.0, 0.3), 60), 300),
        "wines: 1 of 8": (witness_bags(load_wine, 1, 8), 150),
    }


def part(bags: Any, positive: np.ndarray, share: float, seed: int) -> tuple[Any, np.ndarray]:
    """A random share of the bags, the classes in their own shares."""
    rng = np.random.default_rng([seed, round(100 * share)])
    rows = np.sort(nested_order(positive, np.arange(len(positive)), rng)[: round(share * len(positive))])
    return bags[rows], positive[rows]


def error_of(train: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray]) -> float:
    """Test error of the default learner."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BagClassifier().fit(*train)
    return float(np.mean((model.decision_function(test[0]) > 0) != test[1]))


def cross_validated(bags: Any, positive: np.ndarray, repeats: int = 3) -> float:
    """Error of tenfold cross-validation."""
    from sklearn.model_selection import StratifiedKFold

    wrong = []
    for seed in range(repeats):
        for train, test in StratifiedKFold(10, shuffle=True, random_state=100 + seed).split(positive, positive):
            wrong.append(error_of((bags[train], positive[train]), (bags[test], positive[test])) * len(test))
    return sum(wrong) / (repeats * len(positive))


def judged(
    name: str, bags: Any, positive: np.ndarray, truth: float, trained_on: int, repeat: int
) -> list[dict[str, Any]]:
    """One row for each share of the bags."""
    rows = []
    for share in FRACTIONS:
        held, labels = part(bags, positive, share, repeat)
        curve = measure_curve(held, labels, BagClassifier, seed=repeat, budget=1e9)
        found = Extrapolation(curve).at(trained_on)
        values = (truth, trained_on, found.value, found.low, found.high, found.low <= truth <= found.high)
        rows.append(
            dict(zip(FIELDS, (name, share, repeat, len(labels), *values, curve.losses[-1], curve.seconds), strict=True))
        )
    return rows


def cases(folder: Path | None, made: bool, repeats: int, only: Sequence[str] = ()) -> Any:
    """Rows of every set whose name contains one of `only` (all sets where nothing is asked for), as they come."""

    def wanted(name: str) -> bool:
        return not only or any(text in name for text in only)

    files = [] if folder is None else sorted(p for p in folder.iterdir() if p.name.endswith(ENDINGS))
    for path in files:
        if path.name.startswith("folds_") or not wanted(path.name.split(".")[0]):  # published splits beside the tables
            continue
        read = read_bags(path)
        classes = np.unique(read.labels)
        positive = read.labels == classes[-1]
        truth = cross_validated(read.bags, positive)
        for repeat in range(repeats):
            yield from judged(path.name.split(".")[0], read.bags, positive, truth, round(0.9 * len(positive)), repeat)
    for name, (make, count) in made_sets().items() if made else ():
        if not wanted(name):
            continue
        sets, truths = [], []
        for repeat in range(repeats):
            if name.startswith("drawn"):  # the signal's direction belongs to the seed, so the test bags do too
                bags, positive = make(count + TESTED, repeat)
                train, test = np.arange(count), np.arange(count, count + TESTED)
                fresh = bags[test], positive[test]
                bags, positive = bags[train], positive[train]
            else:
                (bags, positive), fresh = make(count, repeat), make(TESTED, 1000 + repeat)
            sets.append((bags, positive))
            truths.append(error_of((bags, positive), fresh))
        for repeat, (bags, positive) in enumerate(sets):
            yield from judged(name, bags, positive, float(np.mean(truths)), count, repeat)


def summary(rows: list[dict[str, Any]]) -> str:
    """A table in Markdown: for each set how often the interval held, how wide it was and how far off the forecast."""
    lines = ["| set | used for | cases | interval holds | mean width | forecast off by | last measured point off by |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]

        def mean(f, own=own):
            return float(np.mean([f(r) for r in own]))

        lines.append(
            f"| {name} | {'choice' if name in CHOSEN_ON else 'confirmation'} | {len(own)} | {sum(r['holds'] for r in own)} "
            f"| {mean(lambda r: r['high'] - r['low']):.3f} | {mean(lambda r: abs(r['forecast'] - r['truth'])):.3f} "
            f"| {mean(lambda r: abs(r['last'] - r['truth'])):.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run all cases, write every row as it comes, and say how often the intervals held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder with files of bags")
    parser.add_argument("--made", action="store_true", help="also sets made of scikit-learn's tables and drawn ones")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", action="append", default=[], help="text in the names of the sets to take; repeatable")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    file = options.out.open("w", newline="") if options.out else sys.stdout
    writer = csv.DictWriter(file, FIELDS)
    writer.writeheader()
    rows = []
    for row in cases(options.folder, options.made, options.repeats, options.only):
        writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
        file.flush()
        rows.append(row)
    print(summary(rows))
    for use, chosen in (("choice", True), ("confirmation", False)):
        own = [row["holds"] for row in rows if (row["set"] in CHOSEN_ON) == chosen]
        if own:
            print(f"{use}: {sum(own)} of {len(own)} intervals hold")


if __name__ == "__main__":
    main()
