"""Is the default accuracy met at random hard points, and in how much memory? Every point in a row of a table.

    python -m benchmarks.hard_points --points 40 --seed 1 --out points.csv

Bags of up to 10,000 tokens with any number of signal tokens, all three losses, ridges from 1e-6 to 3, queries from useless to
perfect. A point is met where `erm` gives a finite answer with a residual of at most 1e-8 and a standard error of at most 0.4 of
the accuracy, 2e-4. The peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import Task, theory
from sparsetoken.theory.accuracy import DEFAULT_ACCURACY, SAFETY

from .measure import peak_megabytes

FIELDS = (
    *("length", "sparsity", "strength", "prevalence", "cosine", "sharpness", "alpha", "ridge", "loss"),
    *("met", "test_error", "standard_error", "residual", "cpu_seconds", "peak_megabytes", "failure"),
)
LOSSES = ("logistic", "square", "smoothed_hinge")


def points(count: int, seed: int) -> list[dict[str, Any]]:
    """Random points; lengths, strengths and so on are even in the logarithm, the share of signal tokens in part too."""
    rng = np.random.default_rng(seed)

    def even(low: float, high: float) -> float:
        return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.4g}")

    found = []
    for i in range(count):
        length = round(even(2, 10_000))
        share = rng.uniform() if rng.uniform() < 0.5 else even(1 / length, 1.0)
        sparsity = min(length, max(1, round(share * length)))
        # Strong enough for some answer other than a guess: pooled, a bag's score moves by theta R/sqrt(L).
        strength = float(f"{even(0.3, 8.0) / max(1.0, (sparsity / length**0.5) ** rng.uniform()):.4g}")
        found.append(
            {
                "length": length,
                "sparsity": sparsity,
                "strength": strength,
                "prevalence": float(f"{rng.uniform(0.1, 0.9):.3g}"),
                "cosine": float(f"{rng.uniform(0.0, 1.0):.3g}"),
                "sharpness": even(0.1, 10.0),
                "alpha": even(0.2, 20.0),
                "ridge": even(1e-6, 3.0),
                "loss": LOSSES[i % 3],
            }
        )
    return found


def solved(point: dict[str, Any]) -> dict[str, Any]:
    """The row of a point."""
    begun = time.process_time()
    row = dict(point)
    try:
        task = Task(*(point[name] for name in ("length", "sparsity", "strength", "prevalence")))
        law = theory.attention_law(task, point["cosine"], point["sharpness"])
        found = theory.erm(law, point["alpha"], point["ridge"], point["loss"])
        met = found.standard_error <= DEFAULT_ACCURACY / SAFETY and found.residual <= 1e-8
        row |= {"met": bool(met and 0 <= found.test_error <= 1), "test_error": found.test_error, "failure": ""}
        row |= {"standard_error": found.standard_error, "residual": found.residual}
    except (ValueError, ArithmeticError, MemoryError) as error:
        row |= {"met": False, "failure": f"{type(error).__name__}: {error}"}
    return row | {"cpu_seconds": time.process_time() - begun, "peak_megabytes": peak_megabytes()}


def main() -> int:
    """Solve every point, write its row as it comes, and say how many were met; 1 where one was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    file = options.out.open("w", newline="") if options.out else sys.stdout
    writer = csv.DictWriter(file, FIELDS)
    writer.writeheader()
    rows = []
    for point in points(options.points, options.seed):
        rows.append(solved(point))
        writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in rows[-1].items()})
        file.flush()
    met = sum(row["met"] for row in rows)
    seconds = sorted(row["cpu_seconds"] for row in rows)
    print(
        f"{met} of {len(rows)} points met; CPU seconds {seconds[len(rows) // 2]:.1f} (median), {seconds[-1]:.1f} (longest); "
        f"peak memory {rows[-1]['peak_megabytes']:.0f} MB"
    )
    return 0 if met == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
