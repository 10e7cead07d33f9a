"""The default learners on sets they were developed on and on sets that confirm: accuracy, AUC, log loss or R^2, time.

    SPARSETOKEN_DATA=... python -m benchmarks.default_learner --out new.json [--part confirmation] [set ...]
    PYTHONPATH=OLDER/src SPARSETOKEN_DATA=... python -m benchmarks.default_learner --out old.json
    python -m benchmarks.default_learner --compare old.json new.json    # paired: benchmarks/results/default_learner.json

The development sets chose candidates, ridges and the vote; the confirmation sets were looked at once, at the end. Sets whose
file is not there are left out, saying so. A split is one training set and one test set; both trees get the same ones.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from .measure import DATA
from .other_laws import LAWS
from .regression import SETS as NUMBER_SETS
from .report import OLDER, markdown_table

RESULTS = Path(__file__).parent / "results" / "default_learner.json"
ABLATIONS = Path(__file__).parent / "results" / "ablations.json"
LEFT_OUT = "Change of the log loss where a candidate is left out; above zero: it helps."
FILES = {
    "musk1": "musk1.csv.gz",
    "hockey": "newsgroups_rec_sport_hockey.csv.gz",
    "winter wren": "birds_winter_wren.csv.gz",
}
Split = tuple[Any, np.ndarray, Any, np.ndarray]


def read_set(name: str) -> tuple[Any, np.ndarray] | None:
    """Bags and labels of a file with the columns bag_id, label and features; None (saying so) where it is not there."""
    from sparsetoken import Bags

    file = DATA / FILES[name]
    if not file.is_file():
        print(f"{name}: no file {file}, left out")
        return None
    frame = pd.read_csv(file)
    features = [column for column in frame if column not in ("label", "instance_label")]
    bags = Bags(frame[features], ids="bag_id")
    return bags, bags.labels(frame.groupby("bag_id", sort=False)["label"].first())


def folds_of(name: str, count: int = 5, seed: int = 0) -> Iterator[Split]:
    """Folds of a set of real bags."""
    read = read_set(name)
    if read is not None:
        splitter = StratifiedKFold(count, shuffle=True, random_state=seed)
        bags, labels = read
        for train, test in splitter.split(labels, labels):
            yield bags[train], labels[train], bags[test], labels[test]


def few_of(name: str, count: int, draws: int) -> Iterator[Split]:
    """A few of the bags to learn from, all others to test on."""
    read = read_set(name)
    if read is not None:
        bags, labels = read
        for draw in range(draws):
            rng = np.random.default_rng(draw)
            classes = [rng.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
            train = np.concatenate([places[: count // 2] for places in classes])
            test = np.setdiff1d(np.arange(len(bags)), train)
            yield bags[train], labels[train], bags[test], labels[test]


def digits(length: int, seeds: tuple[int, ...]) -> Iterator[Split]:
    """A hidden nine among other digits."""
    digit_bags = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "digits_bags.py"))["digit_bags"]
    for seed in seeds:
        (bags, labels, _), (test, test_labels, _) = digit_bags(length, seed=seed)
        yield bags, labels, test, test_labels


def law(name: str, count: int, seeds: tuple[int, ...]) -> Iterator[Split]:
    """Drawn bags of one of the laws of `other_laws`."""
    for seed in seeds:
        bags, y = LAWS[name](np.random.default_rng([seed, count, len(name)]), count)
        yield bags[:count], y[:count], bags[count:], y[count:]


def table(load: Callable[..., Any], signal: int, length: int, seeds: tuple[int, ...]) -> Iterator[Split]:
    """A table made into bags: those that hold one row of the class `signal` among rows of the other classes."""
    rows, classes = load(return_X_y=True)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        order, half, parts = rng.permutation(len(rows)), len(rows) // 2, []
        for chosen in (order[:half], order[half:]):
            hidden, others, y = chosen[classes[chosen] == signal], chosen[classes[chosen] != signal], np.arange(120) % 2
            tokens = rng.choice(others, (120, length))
            tokens[y == 1, 0] = rng.choice(hidden, 60)
            parts += [rows[tokens], y]
        yield parts[0], parts[1], parts[2], parts[3]


def one_token(
    noise: str, n: int, length: int, d: int, strength: float, seeds: tuple[int, ...], test: int = 1000
) -> Iterator[Split]:
    """One token of a positive bag carries the signal; noise is Gaussian, uniform, or Gaussian of unequal variances with a
    shift per bag."""
    for seed in seeds:
        rng = np.random.default_rng([seed, n, d])
        count, direction = n + test, rng.standard_normal(d)
        X = rng.standard_normal((count, length, d))
        if noise == "uniform":
            X = rng.uniform(-np.sqrt(3), np.sqrt(3), X.shape)
        elif noise == "shifted":
            X = X * np.linspace(0.5, 2.0, d) + 0.3 * rng.standard_normal((count, 1, d))
        y = rng.integers(0, 2, count)
        X[np.flatnonzero(y), rng.integers(length, size=y.sum())] += strength * direction / np.linalg.norm(direction)
        yield X[:n], y[:n], X[n:], y[n:]


def numbers(name: str, seeds: tuple[int, ...]) -> Iterator[Split]:
    """Labels that are numbers, as `benchmarks.regression` draws them."""
    make, kind = NUMBER_SETS[name]
    for seed in seeds:
        X, y, fresh, truth = make(kind, seed)
        yield X, y, fresh, truth


_FIRST = ("ring", "xor_tokens", "counts_few", "rare_mean", "unequal_token", "correlation_only", "most_negative")
_OTHERS = tuple(name for name in LAWS if name not in _FIRST)
DEVELOPMENT: dict[str, Callable[[], Iterator[Split]]] = {
    "musk1": lambda: folds_of("musk1"),
    "hockey": lambda: folds_of("hockey"),
    "40 bags of musk1": lambda: few_of("musk1", 40, 3),
    "digits 10": lambda: digits(10, (0, 1)),
    "uniform noise": lambda: one_token("uniform", 300, 10, 50, 4.0, (0, 1)),
    "shifted, 300": lambda: one_token("shifted", 300, 10, 20, 5.0, (0, 1)),
    "shifted, 2400": lambda: one_token("shifted", 2400, 10, 20, 5.0, (0,)),
    "one token, 100": lambda: one_token("gaussian", 100, 15, 15, 3.5, (0, 1, 2)),
} | {f"{name}, 200": (lambda name=name: law(name, 200, (0, 1))) for name in _FIRST}
CONFIRMATION: dict[str, Callable[[], Iterator[Split]]] = {
    "winter wren": lambda: folds_of("winter wren", seed=2),
    "30 bags of winter wren": lambda: few_of("winter wren", 30, 4),
    "digits 50": lambda: digits(50, (60, 61)),
    "digits 10, others": lambda: digits(10, (60, 61, 62)),
    "breast cancer": lambda: table(load_breast_cancer, 0, 6, (3, 4, 5)),
    "wine": lambda: table(load_wine, 1, 6, (3, 4, 5)),
    "model bags": lambda: one_token("gaussian", 500, 10, 100, 4.0, (7, 8)),
    "shifted, 1200": lambda: one_token("shifted", 1200, 6, 30, 4.5, (7,)),
} | {
    f"{name}, {count}": (lambda name=name, count=count: law(name, count, (60, 61)))
    for name in _OTHERS
    for count in (60, 200)
}
REGRESSION_DEVELOPMENT = {name: (lambda name=name: numbers(name, (0, 1))) for name in NUMBER_SETS}
REGRESSION_CONFIRMATION = {name: (lambda name=name: numbers(name, (13, 14, 15))) for name in NUMBER_SETS}
PARTS = {
    "development": DEVELOPMENT,
    "confirmation": CONFIRMATION,
    "regression development": REGRESSION_DEVELOPMENT,
    "regression confirmation": REGRESSION_CONFIRMATION,
}


def classified(split: Split) -> dict[str, float]:
    """Accuracy, AUC, log loss and CPU seconds of a fit on one split."""
    from sparsetoken import BagClassifier

    train, y, test, truth = split
    begun = time.process_time()
    model = BagClassifier().fit(train, y)
    seconds = time.process_time() - begun
    odds, positive = model.decision_function(test), truth == np.unique(y)[1]
    return {
        "accuracy": float(np.mean((odds > 0) == positive)),
        "AUC": float(roc_auc_score(positive, odds)),
        "log loss": float(np.mean(np.logaddexp(0.0, np.where(positive, -odds, odds)))),
        "seconds": seconds,
    }


def predicted(split: Split) -> dict[str, float]:
    """R^2 and CPU seconds of a fit on one split."""
    from sparsetoken import BagRegressor

    train, y, test, truth = split
    begun = time.process_time()
    model = BagRegressor().fit(train, y)
    seconds = time.process_time() - begun
    return {"R2": float(1.0 - np.mean((model.predict(test) - truth) ** 2) / np.var(truth)), "seconds": seconds}


def measured(part: str, names: list[str]) -> dict[str, list[dict[str, float]]]:
    """One entry per split of each set."""
    one = predicted if part.startswith("regression") else classified
    rows = {}
    for name, splits in PARTS[part].items():
        if not names or name in names:
            found = [one(split) for split in splits()]
            if found:
                rows[name] = found
                means = {key: round(float(np.mean([row[key] for row in found])), 4) for key in found[0]}
                print(part, "|", name, means, flush=True)
    return rows


def compared(old: Path, new: Path) -> None:
    """Means over splits, then over sets, of both files and their paired differences; written to benchmarks/results."""
    before, after = (json.loads(path.read_text()) for path in (old, new))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    rows: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="minutes"), "commit": commit, "parts": {}}
    for part in PARTS:
        both = before.get(part, {}), after.get(part, {})
        sets = {}
        for name in both[0]:
            if name in both[1]:
                means = [{k: float(np.mean([row[k] for row in rows[name]])) for k in rows[name][0]} for rows in both]
                sets[name] = {"before": means[0], "now": means[1]}
        if not sets:
            continue
        keys = list(next(iter(sets.values()))["now"])
        change = {k: [one["now"][k] - one["before"][k] for one in sets.values()] for k in keys}
        summary = {
            k: {"change": float(np.mean(v)), "error": float(np.std(v) / np.sqrt(len(v)))} for k, v in change.items()
        }
        summary["seconds"]["ratio"] = float(
            sum(one["now"]["seconds"] for one in sets.values()) / sum(one["before"]["seconds"] for one in sets.values())
        )
        rows["parts"][part] = {"sets": sets, "mean": summary}
        print(part, json.dumps(summary, indent=1))
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


def tables() -> str:
    """The stored comparison in Markdown and, where there is one, the ablation."""
    found = json.loads(RESULTS.read_text())
    lines = [f"*{found['date'][:10]}, commit {found['commit']}. {OLDER}*", ""]
    for part, rows in found["parts"].items():
        keys = [key for key in next(iter(rows["sets"].values()))["now"] if key != "seconds"]
        head = ["set", *(f"{key}, before → now" for key in keys), "CPU s per fit"]
        body = [
            [
                name,
                *(f"{both['before'][key]:.3f} → {both['now'][key]:.3f}" for key in keys),
                f"{both['before']['seconds']:.2f} → {both['now']['seconds']:.2f}",
            ]
            for name, both in rows["sets"].items()
        ]
        mean = rows["mean"]
        changes = [f"{mean[key]['change']:+.4f} ± {mean[key]['error']:.4f}" for key in keys]
        body.append(["**mean change**", *changes, f"× {mean['seconds']['ratio']:.2f} in all"])
        lines += [f"## {part.capitalize()}", "", markdown_table([head, *body])]
    if ABLATIONS.is_file():
        parts = json.loads(ABLATIONS.read_text())["parts"]
        names = list(next(iter(next(iter(parts.values())).values()))["without"])
        body = [["candidate", *(f"{part}: mean, most" for part in parts)]]
        for name in names:
            changes = [[row["without"][name] for row in sets.values()] for sets in parts.values()]
            body.append([f"`{name}`", *(f"{np.mean(c):+.4f}, {np.max(c):+.3f}" for c in changes)])
        lines += ["## Without each candidate", "", LEFT_OUT, "", markdown_table(body)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--part", choices=list(PARTS), action="append")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", nargs=2, type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.compare:
        compared(*given.compare)
        return
    known = json.loads(given.out.read_text()) if given.out and given.out.is_file() else {}
    for part in given.part or list(PARTS):
        known[part] = known.get(part, {}) | measured(part, given.names)
        if given.out:
            given.out.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
