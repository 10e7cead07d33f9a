"""Accuracy and fit time of the learners on real bags, against scikit-learn baselines and, where installed, torchmil.

    python -m benchmarks.learners                   # all sets and learners, 5 x 10-fold: about half an hour on one core
    SPARSETOKEN_BENCH_REPEATS=1 SPARSETOKEN_BENCH_LEARNERS=bag-classifier python -m benchmarks.learners musk1 "digits 10"
    SPARSETOKEN_BENCH_FOLDS=5 SPARSETOKEN_BENCH_LEARNERS="torchmil ABMIL" python -m benchmarks.learners elephant

Digit bags come with scikit-learn. The multiple-instance sets are looked for in the folder named by SPARSETOKEN_DATA, or in
tests/data; sets that are not there are left out, saying so. Those whose file ends in .npz were taken from the package `mil` of
the Python package index (arrays `tokens`, `bag`, `label`; its copy of brown creeper is mislabelled and not used).
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sparsetoken import Bags
from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.estimators.calibration import area_under_curve
from sparsetoken.estimators.evaluation import evaluate, stratified_splits
from sparsetoken.estimators.learners import DEFAULT, LEARNERS, chosen_learners
from sparsetoken.simulation import mean_and_error

from .measure import DATA, Row, case, timed

ROOT = Path(__file__).resolve().parents[1]
FOLDS = int(os.environ.get("SPARSETOKEN_BENCH_FOLDS", "10"))
REPEATS = int(os.environ.get("SPARSETOKEN_BENCH_REPEATS", "5"))
SETS = {
    "musk1": ("musk1.csv.gz", "folds_musk1.csv"),
    "hockey": ("newsgroups_rec_sport_hockey.csv.gz", None),
    "winter wren": ("birds_winter_wren.csv.gz", "folds_birds_winter_wren.csv"),
    "elephant": ("elephant.npz", None),
    "UCSB": ("ucsb.npz", None),
    "corel dogs": ("corel.npz", None),
    "web": ("web.npz", None),
    "musk2": ("musk2.npz", None),
    "protein": ("protein.npz", None),
}
# The elementwise learner is the paper's for comparison with theory, and the vectorized one needs bags of equal length.
ALL = tuple(name for name in LEARNERS if name not in ("elementwise", "vectorized"))
ABMIL = "torchmil ABMIL"
CHOSEN = tuple(os.environ.get("SPARSETOKEN_BENCH_LEARNERS", ",".join((*ALL, ABMIL))).split(","))


def read_set(name: str) -> Any:
    """The bags of a set, None (saying so) where its file is not there."""
    file = DATA / SETS[name][0]
    if not file.is_file():
        print(f"{name}: no file {file}, left out")
        return None
    return read_bags(file)


def digit_set(length: int, seed: int = 0):
    """All bags of a draw of digits, their labels, and its one split into training and test bags."""
    digit_bags = runpy.run_path(str(ROOT / "examples" / "digits_bags.py"))["digit_bags"]
    (bags, labels, _), (test, test_labels, _) = digit_bags(length, seed=seed)
    together = Bags([*bags, *test])
    return (
        together,
        np.concatenate([labels, test_labels]),
        [(np.arange(len(labels)), np.arange(len(labels), len(together)))],
    )


def digit_rows(length: int) -> list[dict]:
    """Every learner on REPEATS draws of digit bags; the error is the standard error over draws."""
    digit_bags = runpy.run_path(str(ROOT / "examples" / "digits_bags.py"))["digit_bags"]
    rows = []
    draws = [digit_bags(length, seed=seed) for seed in range(REPEATS)]
    makers = _makers(CHOSEN, draws[0][0][0])
    for name, make in makers.items():
        areas, right, losses, tokens, seconds = [], [], [], [], []
        for (bags, labels, _), (test, test_labels, witness) in draws:
            begun = time.process_time()
            model = make().fit(bags, labels)
            seconds.append(time.process_time() - begun)
            scores = model.decision_function(test)
            areas.append(area_under_curve(scores, test_labels == 1))
            right.append(float(np.mean((scores > 0) == (test_labels == 1))))
            losses.append(float(np.mean(np.logaddexp(0.0, np.where(test_labels == 1, -scores, scores)))))
            if hasattr(model, "token_scores"):
                tokens.append(area_under_curve(np.concatenate(model.token_scores(test)), witness.ravel()))
        means = tuple(number for values in (right, areas, losses) for number in mean_and_error(values))
        rows.append(row(f"digits {length}", name, means, tokens, seconds))
    return rows


@case("digits", "fits on digit bags (one hidden nine) against mean+max LR and, where installed, torchmil; note: AUC")
def digits(quick: bool) -> list[Row]:
    digit_bags = runpy.run_path(str(ROOT / "examples" / "digits_bags.py"))["digit_bags"]
    (bags, labels, _), (test, test_labels, _) = digit_bags(10, train=60 if quick else 400)
    makers = _makers((*ALL, ABMIL), bags)
    found = {}
    for name in (DEFAULT, "mean+max LR", *(n for n in makers if n not in ALL)):
        timing, model = timed(partial(_fitted, makers[name], bags, labels), 1)
        found[name] = timing, area_under_curve(model.decision_function(test), test_labels == 1)
    ours, area = found.pop(DEFAULT)
    return [
        Row(f"{DEFAULT}, bags of 10", ours, peer, timing, f"AUC {area:.3f}, peer's {other:.3f}")
        for peer, (timing, other) in found.items()
    ]


def _fitted(make, bags, labels):
    return make().fit(bags, labels)


def _makers(names: Sequence[str], bags: Bags) -> dict:
    """The named learners; torchmil's attention model among them only where it is installed."""
    ours = chosen_learners([name for name in names if name != ABMIL], bags) if set(names) != {ABMIL} else {}
    if ABMIL not in names:
        return ours
    if importlib.util.find_spec("torchmil") is None:
        if not ours:
            sys.exit(f"error: {ABMIL!r} needs the packages torch and torchmil")
        return ours
    return ours | {ABMIL: GatedAttention}


def row(data, learner, means, tokens, seconds) -> dict:
    """A line of the table; `means` are accuracy, AUC and log loss, each with its standard error."""
    accuracy, accuracy_error, auc, auc_error, loss, loss_error = means
    return {
        "set": data,
        "learner": learner,
        "accuracy": f"{accuracy:.3f} ± {accuracy_error:.3f}",
        "AUC": f"{auc:.3f} ± {auc_error:.3f}",
        "log loss": f"{loss:.3f} ± {loss_error:.3f}",
        "token AUC": f"{np.mean(tokens):.3f}" if len(tokens) and np.all(np.isfinite(tokens)) else "",
        "CPU s per fit": f"{np.mean(seconds):.2g}",
    }


def set_rows(name: str) -> list[dict]:
    """Every learner on REPEATS x FOLDS folds of a set; the error is the standard error over bags."""
    read, folds = read_set(name), SETS[name][1]
    if read is None:
        return []
    if folds is not None and (DATA / folds).is_file():
        table = pd.read_csv(DATA / folds)
        repeated = [table[f"rep{r}"].to_numpy() for r in range(min(REPEATS, 5))]
        splits = [[np.flatnonzero(fold == k) for k in np.unique(fold)] for fold in repeated]
    else:
        splits = stratified_splits(read.labels, FOLDS, REPEATS, seed=0)
    makers = _makers(CHOSEN, read.bags)
    found = [e for e in evaluate(read.bags, read.labels, makers, splits, read.token_labels) if e is not None]
    return [
        row(
            name,
            e.learner,
            (e.accuracy, e.accuracy_error, e.auc, e.auc_error, e.log_loss, e.log_loss_error),
            [e.token_auc],
            [e.fit_seconds],
        )
        for e in found
    ]


class GatedAttention:
    """torchmil's ABMIL (Adam 1e-3, 100 epochs, one bag per step) behind fit and decision_function."""

    def fit(self, bags, labels):
        import torch
        from torchmil.models import ABMIL

        from sparsetoken import BagScaler

        torch.set_num_threads(1)  # steps of one bag each are too small to share out, and CPU time is what is reported
        torch.manual_seed(0)
        self.scaler = BagScaler().fit(bags)
        self.classes_ = np.unique(labels)
        self.model = ABMIL(in_shape=(bags.n_features,))
        optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, weight_decay=1e-4)
        tensors = [torch.tensor(x[None], dtype=torch.float32) for x in self.scaler.transform(bags)]
        targets = torch.tensor((labels == self.classes_[1]).astype(np.float32))
        rng = np.random.default_rng(0)
        for _ in range(100):
            for i in rng.permutation(len(tensors)):
                optimizer.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits(self.model(tensors[i]), targets[i : i + 1])
                loss.backward()
                optimizer.step()
        return self

    def decision_function(self, bags):
        import torch

        self.model.eval()
        with torch.no_grad():
            tensors = (torch.tensor(x[None], dtype=torch.float32) for x in self.scaler.transform(bags))
            return np.array([float(self.model(x)) for x in tensors])


def main() -> None:
    import warnings

    from sparsetoken.estimators.base import TrainingWarning

    warnings.simplefilter("ignore", TrainingWarning)
    every = (*SETS, "digits 10", "digits 50")
    for name in sys.argv[1:] or every:
        if name not in every:
            sys.exit(f"error: no set {name!r}; there are {', '.join(every)}")
        rows = set_rows(name) if name in SETS else digit_rows(int(name.split()[1]))
        if rows:
            print(_markdown(rows) + "\n", flush=True)


def _markdown(rows: list[dict]) -> str:
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(r[c]) for c in columns) + " |" for r in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
