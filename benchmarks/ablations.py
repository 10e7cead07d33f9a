"""What each candidate of the default learner buys: `python -m benchmarks.ablations`, some minutes.

Every candidate is validated and fitted once per split of the sets of `benchmarks.default_learner`; then the vote is taken again
without each of them. Log loss on test bags, and its change without the candidate (above zero: the candidate helps); written to
benchmarks/results/ablations.json.
"""

from __future__ import annotations

import json
import subprocess
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sparsetoken import Bags
from sparsetoken.estimators.calibration import final_calibration, fit_calibration
from sparsetoken.estimators.default.candidates import CANDIDATES, LearningProblem
from sparsetoken.estimators.default.views import BagViews, landmark_count
from sparsetoken.estimators.default.vote import vote_shares
from sparsetoken.estimators.labels import checked_seed, class_folds
from sparsetoken.losses import Logistic

from .default_learner import CONFIRMATION, DEVELOPMENT

RESULTS = Path(__file__).parent / "results" / "ablations.json"
# The likelihood ratio is left out: few of these sets look like its model.
NAMES = tuple(candidate.name for candidate in CANDIDATES if candidate.kind != "likelihood")


def calibrated(split) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Signs and calibrated held-out scores of the training bags by every candidate, and the same of the test bags."""
    train, y, test, truth = split
    train, test, seed, one = Bags(train), Bags(test), checked_seed(0), np.unique(y)[1]
    signs, weights = np.where(y == one, 1.0, -1.0), np.ones(len(y))
    chosen = [candidate for candidate in CANDIDATES if candidate.name in NAMES]
    views = BagViews(tuple(candidate.view for candidate in chosen), landmark_count("auto", train.n_tokens), True).fit(
        train, seed
    )
    inner, outer = views.of(train, np.float32), views.of(test)
    problem = LearningProblem(inner, signs, weights, class_folds(signs, seed), Logistic(), seed, True)
    held_out, tested = [], []
    for candidate in chosen:
        tried = candidate.tried(problem)
        bags = outer[tried.view]
        held_out.append(tried.calibration(tried.scores))
        tested.append(tried.calibration(tried.side * tried.finish().decide(bags.tokens, bags.starts)))
    return signs, np.array(held_out), np.where(truth == one, 1.0, -1.0), np.array(tested)


def voted(signs, held_out, truth, tested) -> float:
    """Log loss of the vote of these candidates."""
    weights, count = np.ones(len(signs)), float(len(signs))
    shares = vote_shares(held_out, signs, weights, Logistic(), count)
    scores = shares @ held_out
    final = final_calibration(fit_calibration(scores, signs, weights), scores, signs, weights, len(held_out))
    return float(np.mean(np.logaddexp(0.0, -truth * final(shares @ tested))))


def main() -> None:
    warnings.simplefilter("ignore")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    rows = {"date": datetime.now(UTC).isoformat(timespec="minutes"), "commit": commit, "parts": {}}
    for part, sets in (("development", DEVELOPMENT), ("confirmation", CONFIRMATION)):
        found = {}
        for name, splits in sets.items():
            losses = []
            for split in splits():
                signs, held_out, truth, tested = calibrated(split)
                kept = [np.arange(len(NAMES)), *(np.delete(np.arange(len(NAMES)), k) for k in range(len(NAMES)))]
                losses.append([voted(signs, held_out[k], truth, tested[k]) for k in kept])
            if losses:
                mean = np.mean(losses, axis=0)
                found[name] = {"log loss": mean[0], "without": dict(zip(NAMES, mean[1:] - mean[0]))}
                print(
                    part, "|", name, {key: round(value, 3) for key, value in found[name]["without"].items()}, flush=True
                )
        rows["parts"][part] = found
        for candidate in NAMES:
            changes = [row["without"][candidate] for row in found.values()]
            print(part, candidate, f"mean {np.mean(changes):+.4f}, largest {np.max(changes):+.3f}")
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
