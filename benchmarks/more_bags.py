"""More bags must help: test error of the default learner and of the paper's attention at 300 to 20,000 bags.

    python -m benchmarks.more_bags [--sizes 300 2400 20000]

Laws of `benchmarks.default_learner.one_token` (Gaussian noise, uniform noise, unequal variances with a shift per bag); written
to benchmarks/results/more_bags.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from sparsetoken import AttentionClassifier, BagClassifier

from .default_learner import one_token

RESULTS = Path(__file__).parent / "results" / "more_bags.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300, 2400, 20_000])
    sizes = parser.parse_args().sizes
    warnings.simplefilter("ignore")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    rows = []
    for noise in ("shifted", "gaussian", "uniform"):
        X, y, fresh, truth = next(one_token(noise, max(sizes), 10, 20, 5.0, (3,), test=10_000))
        for n in sizes:
            for make in (BagClassifier, AttentionClassifier):
                begun = time.process_time()
                model = make().fit(X[:n], y[:n])
                seconds = time.process_time() - begun
                odds = model.decision_function(fresh)
                rows.append(
                    {
                        "noise": noise,
                        "bags": n,
                        "learner": make.__name__,
                        "error": float(np.mean((odds > 0) != (truth == 1))),
                        "log loss": float(np.mean(np.logaddexp(0.0, np.where(truth == 1, -odds, odds)))),
                        "seconds": seconds,
                    }
                )
                print(rows[-1], flush=True)
    facts = {"date": datetime.now(UTC).isoformat(timespec="minutes"), "commit": commit, "rows": rows}
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
