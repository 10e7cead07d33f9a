"""Do extrapolated learning curves hold? A learner measured on some bags, its forecast for more, and what more bags bring.

    python -m benchmarks.forecast_backtest --out benchmarks/results/forecast_backtest.jsonl
    python -m benchmarks.forecast_backtest --judge benchmarks/results/forecast_backtest.jsonl

Bags are made of scikit-learn's own tables or drawn from the model, so that there are as many as wanted. A learner's curve is
measured on the bags at hand alone and extrapolated to two and four times as many; the truth is the error on 2,000 fresh bags
of the same learner trained on that many. Learners with fixed settings are among them: their curves are often flat.

Measuring takes minutes, judging seconds: a case is kept with its whole measured curve. The sets of `CHOSEN_ON` were used to
choose the constants of `planning.extrapolation`; all other sets confirm them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import BagClassifier, Bags, MessagePassingClassifier, PooledClassifier, Task
from sparsetoken.planning import Criterion, Extrapolation, MeasuredCurve, measure_curve
from sparsetoken.simulation.samplers import sample_bags

AHEAD = (2, 4)  # times the bags at hand
TESTED = 2000  # fresh bags
LEARNERS: dict[str, Callable[[], Any]] = {
    "PooledClassifier(ridge=0.1)": lambda: PooledClassifier(ridge=0.1),
    "PooledClassifier": PooledClassifier,
    "MessagePassingClassifier": MessagePassingClassifier,
    "BagClassifier": BagClassifier,
}
CHOSEN_ON = (
    *("digits: 9 of 10", "digits: mostly odd of 5", "cell nuclei: 1 of 20", "wines: 1 of 8", "diabetes: 1 severe of 4"),
    *("drawn: L 5", "drawn: L 10", "drawn: L 8, wrong labels"),
)
Maker = Callable[[int, int], tuple[Bags, np.ndarray]]  # (how many, seed) -> bags and which are positive


def witness_bags(loader: Callable[..., Any], witness: int | Callable[[Any], Any], length: int) -> Maker:
    """How to make bags of a table's rows: positive ones hold one row of the class `witness`, negative ones none.

    `witness` may also be a function that says which of the table's targets count as witnesses.
    """

    def make(count: int, seed: int) -> tuple[Bags, np.ndarray]:
        rows, classes = loader(return_X_y=True)
        is_witness = witness(classes) if callable(witness) else classes == witness
        rng = np.random.default_rng(seed)
        positive = rng.permutation(np.arange(count) % 2) == 1
        bags = rows[rng.choice(np.flatnonzero(~is_witness), (count, length))].astype(float)
        witnesses = rows[rng.choice(np.flatnonzero(is_witness), count)]
        bags[positive, rng.integers(length, size=count)[positive]] = witnesses[positive]
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
        return Bags(tokens), labels > 0

    return make


def clusters_table(return_X_y: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """A table of 5,000 rows of two classes, each of several overlapping clusters, with rows of the wrong class."""
    from sklearn.datasets import make_classification

    return make_classification(5000, 20, n_informative=6, n_clusters_per_class=3, flip_y=0.03, random_state=0)


def sets() -> dict[str, tuple[Maker, int]]:
    """How to make each set, and the number of bags at hand."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

    return {
        "digits: 9 of 10": (witness_bags(load_digits, 9, 10), 150),
        "digits: mostly odd of 5": (majority_bags(load_digits, lambda digit: digit % 2 == 1, 5), 150),
        "cell nuclei: 1 of 20": (witness_bags(load_breast_cancer, 0, 20), 100),
        "wines: 1 of 8": (witness_bags(load_wine, 1, 8), 60),
        "diabetes: 1 severe of 4": (witness_bags(load_diabetes, lambda progress: progress > 220, 4), 120),
        "drawn: L 5": (drawn_bags(Task(5, 1, 5.0), 60), 300),
        "drawn: L 10": (drawn_bags(Task(10, 1, 4.0), 100), 200),
        "drawn: L 8, wrong labels": (drawn_bags(Task(8, 1, 5.0, label_noise=0.1), 50), 120),
        "digits: 3 of 20": (witness_bags(load_digits, 3, 20), 200),
        "digits: mostly large of 9": (majority_bags(load_digits, lambda digit: digit > 4, 9), 150),
        "cell nuclei: 1 benign of 6": (witness_bags(load_breast_cancer, 1, 6), 80),
        "irises: 1 of 5": (witness_bags(load_iris, 2, 5), 60),
        "clusters: 1 of 8": (witness_bags(clusters_table, 1, 8), 150),
        "drawn: L 20, R 2": (drawn_bags(Task(20, 2, 3.0, 0.3), 60), 200),
        "drawn: L 50, R 5": (drawn_bags(Task(50, 5, 2.5), 40), 150),
        "drawn: L 15, R 3, contaminated": (drawn_bags(Task(15, 3, 3.0, contamination=0.1), 40), 100),
    }


def error_of(learner: Any, train: tuple[Any, np.ndarray], test: tuple[Any, np.ndarray]) -> float:
    """Test error of a learner."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = learner.fit(*train)
    return float(np.mean((model.decision_function(test[0]) > 0) != test[1]))


def cases(learners: Sequence[str], repeats: int, first: int = 0, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Measured curves and truths of every set whose name contains one of `only` (all where nothing is asked for)."""
    for name, (make, n) in sets().items():
        if only and not any(text in name for text in only):
            continue
        for repeat in range(first, first + repeats):
            # The signal's direction belongs to the seed, so all bags of a repetition are made together.
            most = max(AHEAD) * n
            bags, positive = make(most + TESTED, repeat)
            order = np.random.default_rng([repeat, 1]).permutation(len(positive))
            at_hand, fresh = order[:n], order[most:]
            for learner in learners:
                curve = measure_curve(bags[at_hand], positive[at_hand], LEARNERS[learner], seed=repeat, budget=1e9)
                plain = asdict(curve)
                del plain["criterion"]  # the error
                for times in AHEAD:
                    rows = order[: times * n]
                    truth = error_of(LEARNERS[learner](), (bags[rows], positive[rows]), (bags[fresh], positive[fresh]))
                    yield {"set": name, "learner": learner, "repeat": repeat, "n": times * n, "truth": truth} | {
                        "curve": plain
                    }


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """A case with its forecast, and whether its interval for a test on `TESTED` bags holds."""
    fields = {key: tuple(map(tuple, v)) if key == "correlation" else v for key, v in case["curve"].items()}
    curve = MeasuredCurve(criterion=Criterion(), **fields)
    forecast = Extrapolation(curve).at(case["n"], tested=TESTED)
    return case | {
        "chosen": case["set"] in CHOSEN_ON,
        "forecast": forecast.value,
        "low": forecast.low,
        "high": forecast.high,
        "holds": forecast.low <= case["truth"] <= forecast.high,
        "last": curve.losses[-1],
    }


def _summarised(rows: Sequence[dict[str, Any]]) -> str:
    """Columns of a table: how often intervals held, their width, and how far off the forecasts were."""
    ratios = [math.log(row["forecast"] / max(row["truth"], 0.5 / TESTED)) for row in rows]
    columns = [
        str(len(rows)),
        f"{np.mean([row['holds'] for row in rows]):.0%}",
        f"{np.median([row['high'] - row['low'] for row in rows]):.3f}",
        f"{np.median([row['truth'] for row in rows]):.3f}",
        f"{math.exp(np.median(ratios)):.2f}",
        f"{np.mean([abs(row['forecast'] - row['truth']) for row in rows]):.3f}",
        f"{np.mean([abs(row['last'] - row['truth']) for row in rows]):.3f}",
    ]
    return " | ".join(columns)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A table in Markdown: a line for each learner and use."""
    lines = [
        "| learner | sets used for | cases | intervals that hold | median width | median truth "
        "| forecast / truth, median | forecast off by | last measured point off by |",
        "|---" * 9 + "|",
    ]
    for chosen, use in ((True, "choice"), (False, "confirmation")):
        here = [row for row in rows if row["chosen"] == chosen]
        for learner in dict.fromkeys(row["learner"] for row in here):
            lines.append(f"| {learner} | {use} | {_summarised([r for r in here if r['learner'] == learner])} |")
        if here:
            lines.append(f"| **all** | {use} | {_summarised(here)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure cases and write each as it comes, or judge measured ones; say how often the intervals held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    parser.add_argument("--learner", action="append", choices=list(LEARNERS), help="learner to measure; repeatable")
    parser.add_argument("--only", action="append", default=[], help="text in the names of the sets to take; repeatable")
    parser.add_argument("--out", type=Path, help="file for the measured cases, one JSON object per line")
    parser.add_argument("--judge", type=Path, nargs="+", help="judge these measured cases instead of measuring")
    options = parser.parse_args()
    if options.judge:
        taken = [json.loads(line) for path in options.judge for line in path.read_text().splitlines()]
    else:
        file = options.out.open("w") if options.out else sys.stdout
        taken = []
        for case in cases(options.learner or list(LEARNERS), options.repeats, options.first, options.only):
            print(json.dumps(case), file=file, flush=True)
            taken.append(case)
    print(summary([judged(case) for case in taken]))


if __name__ == "__main__":
    main()
