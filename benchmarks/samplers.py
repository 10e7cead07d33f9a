"""The reduced sampler against the full tensor, stage by stage, and the two gradient steps at a million dimensions."""

from __future__ import annotations

import resource
import time

from sparsetoken.cli.console import print_table
from sparsetoken.simulate import MODELS, simulate
from sparsetoken.steps import two_steps
from sparsetoken.task import Task, Training


def main() -> None:
    rows = []
    for length in (10, 100):
        for model in MODELS:
            if length == 100 and model == "vectorized":
                continue  # 100,000 weights: 1.6 GB of features
            drawing, whole = {}, {}
            for sampler in ("tensor", "reduced"):
                runs = [
                    simulate(Task(length=length), Training(), 1000, seed, model=model, sampler=sampler).seconds
                    for seed in range(3)
                ]
                stages = ("sampling", "steps", "features")
                drawing[sampler] = min(sum(run.get(stage, 0.0) for stage in stages) for run in runs)
                whole[sampler] = min(sum(run.values()) for run in runs)
            rows.append(
                [
                    model,
                    str(length),
                    *(f"{drawing[s]:.3f}" for s in ("tensor", "reduced")),
                    f"{drawing['tensor'] / drawing['reduced']:.0f}",
                    *(f"{whole[s]:.3f}" for s in ("tensor", "reduced")),
                    f"{whole['tensor'] / whole['reduced']:.1f}",
                ]
            )
    columns = ["model", "L", "tensor", "reduced", "ratio", "whole trial, tensor", "reduced", "ratio"]
    print_table("sampling + steps + features at d = 1000, seconds (least of three)", columns, rows)
    start = time.perf_counter()
    two_steps(Task(length=10), Training(alpha0=4.0), 1_000_000, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"two steps at d = 1,000,000, L = 10, alpha0 = 4: {time.perf_counter() - start:.1f} s; peak so far {peak:.1f} GB"
    )


if __name__ == "__main__":
    main()
