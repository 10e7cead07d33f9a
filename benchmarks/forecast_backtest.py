"""Do forecast learning curves hold? Part of a set's bags, the forecast for all of them, and what is measured with all.

    python -m benchmarks.forecast_backtest FOLDER --made --repeats 2 --out cases.jsonl
    python -m benchmarks.forecast_backtest --judge cases.jsonl

FOLDER holds files of bags (csv, csv.gz, parquet or npz: bag_id, label, features). From each file random 30, 50 and 80 % of the
bags are taken, the default learner's learning curve is measured on them alone, and its forecast for all bags is compared with
tenfold cross-validation of all bags (three times; trained on nine tenths, which is where the forecast is read). With --made,
also bags made of scikit-learn's own tables and bags drawn from the model; there the truth is the mean test error on 2,000
fresh bags of learners trained on all bags of each repetition.

Measuring takes minutes per set, judging seconds: a measured case is kept with its whole curve, so that --judge can hold
another law against the same measurements. The sets of `CHOSEN_ON` were used to choose the law and its constants; all other
sets confirm them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import BagClassifier, Bags, Task
from sparsetoken.bags.files import read_bags
from sparsetoken.planning import Criterion, Extrapolation, MeasuredCurve, measure_curve
from sparsetoken.planning.learning_curve import nested_order
from sparsetoken.simulation.samplers.tensor import sample_bags

FRACTIONS = (0.3, 0.5, 0.8)
TESTED = 2000  # fresh bags
CROSS_VALIDATIONS = 3
CHOSEN_ON = (
    *("newsgroups_rec_sport_hockey", "musk1", "elephant"),
    *("digits: 9 of 10", "digits: 3 of 20", "digits: 0 of 6", "digits: 8 of 15", "digits: mostly odd of 5"),
    *(
        "cell nuclei: 1 of 20",
        "cell nuclei: 1 benign of 6",
        "wines: 1 of 8",
        "irises: 1 of 5",
        "diabetes: 1 severe of 4",
    ),
    *("clusters: 1 of 8", "drawn: L 10", "drawn: L 20, R 2", "drawn: L 5, strong", "drawn: L 8, wrong labels"),
    *("drawn: L 50, R 5", "drawn: L 4 to 25, theta 3 to 6", "drawn: three signals", "drawn: coloured noise"),
)
ENDINGS = (".csv", ".csv.gz", ".parquet", ".npz")
Maker = Callable[[int, int], tuple[Bags, np.ndarray]]  # (how many, seed) -> bags and which are positive


def witness_bags(loader: Callable[..., Any], witness: int | Callable[[Any], Any], length: int) -> Maker:
    """How to make bags of a table's rows: positive ones hold one row of the class `witness`, negative ones none.

    `witness` may also be a function that says which of the table's targets count as witnesses.
    """

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        rows, classes = loader(return_X_y=True)
        found_in = witness(classes) if callable(witness) else classes == witness
        rng = np.random.default_rng(seed)
        positive = rng.permutation(np.arange(count) % 2) == 1
        bags = rows[rng.choice(np.flatnonzero(~found_in), (count, length))].astype(float)
        found = rows[rng.choice(np.flatnonzero(found_in), count)]
        bags[positive, rng.integers(length, size=count)[positive]] = found[positive]
        return Bags(bags), positive

    return make


def majority_bags(loader: Callable[..., Any], counted: Callable[[Any], Any], length: int) -> Maker:
    """How to make bags of a table's rows that are positive where most of their rows count: no row decides by itself."""

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        rows, classes = loader(return_X_y=True)
        chosen = np.random.default_rng(seed).integers(len(rows), size=(count, length))
        return Bags(rows[chosen].astype(float)), counted(classes[chosen]).mean(1) > 0.5

    return make


def drawn_bags(task: Task, d: int) -> Maker:
    """How to draw bags from the model; one seed has one signal direction."""

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        tokens, labels, _ = sample_bags(task, count, d, seed=seed)
        order = np.random.default_rng(seed).permutation(count)  # bags of several lengths come in order of their length
        drawn = tokens[order] if isinstance(tokens, np.ndarray) else [tokens[i] for i in order]
        return Bags(drawn), labels[order] > 0

    return make


def planted_bags(length: int, strength: float, d: int, signals: int = 1, decay: float = 0.0) -> Maker:
    """Bags with one of several signals in each positive one, in noise whose variances fall as k^-decay (mean one)."""

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        rng = np.random.default_rng(seed)
        variances = np.arange(1, d + 1.0) ** -decay
        tokens = rng.standard_normal((count, length, d)) * np.sqrt(variances / variances.mean())
        directions = np.linalg.qr(rng.standard_normal((d, signals)))[0].T
        positive = rng.permutation(np.arange(count) % 2) == 1
        which, place = rng.integers(signals, size=count), rng.integers(length, size=count)
        tokens[positive, place[positive]] += strength * directions[which[positive]]
        return Bags(tokens), positive

    return make


def clusters_table(return_X_y: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """A table of 5,000 rows of two classes, each of several overlapping clusters, with rows of the wrong class."""
    from sklearn.datasets import make_classification

    return make_classification(5000, 20, n_informative=6, n_clusters_per_class=3, flip_y=0.03, random_state=0)


def made_sets() -> dict[str, tuple[Maker, int]]:
    """Sets that can be made anew: how, and with how many bags."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

    return {
        "digits: 9 of 10": (witness_bags(load_digits, 9, 10), 300),
        "digits: 3 of 20": (witness_bags(load_digits, 3, 20), 300),
        "digits: 0 of 6": (witness_bags(load_digits, 0, 6), 150),
        "cell nuclei: 1 of 20": (witness_bags(load_breast_cancer, 0, 20), 200),
        "wines: 1 of 8": (witness_bags(load_wine, 1, 8), 150),
        "irises: 1 of 5": (witness_bags(load_iris, 2, 5), 120),
        "drawn: L 10": (drawn_bags(Task(10, 1, 4.0), 100), 400),
        "drawn: L 20, R 2": (drawn_bags(Task(20, 2, 3.0, 0.3), 60), 300),
        "drawn: L 5, strong": (drawn_bags(Task(5, 1, 6.0), 40), 150),
        "drawn: L 8, wrong labels": (drawn_bags(Task(8, 1, 5.0, label_noise=0.1), 50), 200),
        "digits: 8 of 15": (witness_bags(load_digits, 8, 15), 250),
        "digits: mostly odd of 5": (majority_bags(load_digits, lambda digit: digit % 2 == 1, 5), 250),
        "cell nuclei: 1 benign of 6": (witness_bags(load_breast_cancer, 1, 6), 150),
        "diabetes: 1 severe of 4": (witness_bags(load_diabetes, lambda progress: progress > 220, 4), 200),
        "clusters: 1 of 8": (witness_bags(clusters_table, 1, 8), 400),
        "drawn: L 50, R 5": (drawn_bags(Task(50, 5, 2.5), 40), 250),
        "drawn: L 4 to 25, theta 3 to 6": (
            drawn_bags(Task({4: 0.4, 10: 0.4, 25: 0.2}, 1, {3.0: 0.5, 6.0: 0.5}, 0.4), 50), 300,
        ),
        "drawn: three signals": (planted_bags(8, 5.0, 30, signals=3), 300),
        "drawn: coloured noise": (planted_bags(10, 4.0, 60, decay=1.0), 250),
        "wines: 2 of 5": (witness_bags(load_wine, 2, 5), 120),
        "irises: versicolor 1 of 4": (witness_bags(load_iris, 1, 4), 150),
        "digits: 6 of 12": (witness_bags(load_digits, 6, 12), 200),
        "digits: mostly large of 9": (majority_bags(load_digits, lambda digit: digit > 4, 9), 200),
        "cell nuclei: mostly malignant of 5": (majority_bags(load_breast_cancer, lambda kind: kind == 0, 5), 100),
        "diabetes: mostly severe of 7": (majority_bags(load_diabetes, lambda progress: progress > 140, 7), 150),
        "drawn: L 6, d 150": (drawn_bags(Task(6, 1, 6.0), 150), 300),
        "drawn: L 15, R 3, contaminated": (drawn_bags(Task(15, 3, 3.0, contamination=0.1), 40), 250),
    }  # fmt: skip


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


def cross_validated(bags: Any, positive: np.ndarray, repeats: int = CROSS_VALIDATIONS) -> float:
    """Error of tenfold cross-validation."""
    from sklearn.model_selection import StratifiedKFold

    wrong = []
    for seed in range(repeats):
        for train, test in StratifiedKFold(10, shuffle=True, random_state=100 + seed).split(positive, positive):
            wrong.append(error_of((bags[train], positive[train]), (bags[test], positive[test])) * len(test))
    return sum(wrong) / (repeats * len(positive))


def measured(
    name: str,
    bags: Any,
    positive: np.ndarray,
    truth: float,
    tested: int,
    trained_on: int,
    repeat: int,
    shares: Sequence[float] = FRACTIONS,
) -> Iterator[dict[str, Any]]:
    """One case for each share of the bags: the curve measured on it, and the truth, which rests on `tested` bags."""
    for share in shares:
        held, labels = part(bags, positive, share, repeat)
        curve = asdict(measure_curve(held, labels, BagClassifier, seed=repeat, budget=1e9))
        del curve["criterion"]  # the error
        yield {
            "set": name,
            "share": share,
            "repeat": repeat,
            "truth": truth,
            "tested": tested,
            "trained_on": trained_on,
            "curve": curve,
        }


def cases(
    folder: Path | None,
    made: bool,
    repeats: int,
    only: Sequence[str] = (),
    shares: Sequence[float] = FRACTIONS,
    times: int = 1,
) -> Iterator[dict[str, Any]]:
    """Cases of every set whose name contains one of `only` (all sets where nothing is asked for), as they come."""

    def wanted(name: str) -> bool:
        return not only or any(text in name for text in only)

    files = [] if folder is None else sorted(p for p in folder.iterdir() if p.name.endswith(ENDINGS))
    for path in files:
        name = path.name.split(".")[0]
        if path.name.startswith("folds_") or not wanted(name):  # published splits beside the tables
            continue
        read = read_bags(path)
        classes = np.unique(read.labels)
        positive = read.labels == classes[-1]
        n = len(positive)
        truth = cross_validated(read.bags, positive)
        for repeat in range(repeats):
            yield from measured(name, read.bags, positive, truth, n, round(0.9 * n), repeat, shares)
    for name, (make, count) in made_sets().items() if made else ():
        if not wanted(name):
            continue
        count *= times
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
            yield from measured(name, bags, positive, float(np.mean(truths)), TESTED * repeats, count, repeat, shares)


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """A case with its forecast: the interval for the error itself, and the one for its measurement on as many bags."""
    fields = {key: tuple(map(tuple, v)) if key == "correlation" else v for key, v in case["curve"].items()}
    curve = MeasuredCurve(criterion=Criterion(), **fields)
    law = Extrapolation(curve)
    found = law.at(case["trained_on"])
    seen = law.at(case["trained_on"], tested=case["tested"])
    return case | {
        "chosen": case["set"] in CHOSEN_ON,
        "forecast": found.value,
        "low": found.low,
        "high": found.high,
        "holds": found.low <= case["truth"] <= found.high,
        "seen": seen.low <= case["truth"] <= seen.high,
        "last": curve.losses[-1],
    }


def _summarised(rows: Sequence[dict[str, Any]]) -> str:
    """Columns of a table: how often intervals held, their width and place, and how far off the forecasts were."""

    def middle(f):
        return float(np.median([f(row) for row in rows]))

    half = 0.5 / np.array([row["tested"] for row in rows])  # a truth of no errors at all has no logarithm
    ratio = math.exp(np.median([math.log(r["forecast"] / max(r["truth"], h)) for r, h in zip(rows, half, strict=True)]))
    columns = [
        str(len(rows)),
        str(sum(row["holds"] for row in rows)),
        str(sum(row["seen"] for row in rows)),
        f"{middle(lambda r: r['high'] - r['low']):.3f}",
        f"{middle(lambda r: r['truth']):.3f}",
        f"{ratio:.2f}",
        f"{np.mean([abs(r['forecast'] - r['truth']) for r in rows]):.3f}",
        f"{np.mean([abs(r['last'] - r['truth']) for r in rows]):.3f}",
    ]
    return " | ".join(columns)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A table in Markdown: a line for each set and one for each use."""
    lines = [
        "| set | used for | cases | interval holds | with the truth's own noise "
        "| median width | truth | forecast / truth, median | forecast off by "
        "| last measured point off by |"
    ]
    lines.append("|---" * 10 + "|")
    for chosen, use in ((True, "choice"), (False, "confirmation")):
        own = [row for row in rows if row["chosen"] == chosen]
        for name in dict.fromkeys(row["set"] for row in own):
            lines.append(f"| {name} | {use} | {_summarised([row for row in own if row['set'] == name])} |")
        if own:
            lines.append(f"| all | {use} | {_summarised(own)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure cases and write each as it comes, or judge measured ones; say how often the intervals held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="folder with files of bags")
    parser.add_argument("--made", action="store_true", help="also sets made of scikit-learn's tables and drawn ones")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--share", type=float, action="append", help="part of the bags to learn from; repeatable")
    parser.add_argument("--times", type=int, default=1, help="how many times as many bags the made sets have")
    parser.add_argument("--only", action="append", default=[], help="text in the names of the sets to take; repeatable")
    parser.add_argument("--out", type=Path, default=None, help="file for the measured cases, one JSON object per line")
    parser.add_argument(
        "--judge", type=Path, nargs="+", help="files of measured cases: judge them instead of measuring"
    )
    options = parser.parse_args()
    if options.judge:
        taken = [json.loads(line) for path in options.judge for line in path.read_text().splitlines()]
        taken = [case for case in taken if not options.only or any(text in case["set"] for text in options.only)]
    else:
        file = options.out.open("w") if options.out else sys.stdout
        taken = []
        for case in cases(
            options.folder, options.made, options.repeats, options.only, options.share or FRACTIONS, options.times
        ):
            print(json.dumps(case), file=file, flush=True)
            taken.append(case)
    print(summary([judged(case) for case in taken]))


if __name__ == "__main__":
    main()
