"""A generated folder of features, fitted on a Dask cluster of this machine: memory of every worker, time, agreement.

    python -m benchmarks.cluster_folder FOLDER --gigabytes 4 --workers 2

The folder is written (one .npy file per bag, 2000 tokens of 512 features in single precision) unless it is there, and left for
the caller to remove. Peaks are those of the workers' processes from start to end (VmHWM), the package and Dask included. What
the page cache of the operating system holds of the files is not counted: it is given back whenever anyone needs the room.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

TOKENS, FEATURES = 2000, 512
STRENGTH = 25.0  # of one token in the bags of the second class


def write_folder(folder: Path, gigabytes: float) -> dict[str, int]:
    """Write the files that are not there yet, and give their labels."""
    folder.mkdir(parents=True, exist_ok=True)
    count = max(20, round(gigabytes * 1e9 / (4 * TOKENS * FEATURES)))
    signal = np.random.default_rng(0).standard_normal(FEATURES)
    signal *= STRENGTH / np.linalg.norm(signal)
    for i in range(count):
        path = folder / f"b{i:06d}.npy"
        if path.exists():
            continue
        rng = np.random.Generator(np.random.SFC64(i))
        tokens = rng.standard_normal((TOKENS, FEATURES), dtype=np.float32)
        if i % 2:
            tokens[rng.integers(TOKENS)] += signal.astype(np.float32)
        np.save(path, tokens)
    return {f"b{i:06d}": i % 2 for i in range(count)}


def peak_megabytes() -> float:
    """The most memory that this process has held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM here")


def counted_passes(bags: Any) -> list[int]:
    """A list that grows by one at every pass over the bags from now on."""
    from sparsetoken.bags.cluster import ClusterBags

    passes: list[int] = []
    inner = ClusterBags._run

    def run(self: Any, *arguments: Any) -> Any:
        passes.append(len(self))
        return inner(self, *arguments)

    ClusterBags._run = run  # type: ignore[method-assign]
    return passes


def main() -> None:
    """Measure and print one line of JSON per learner."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--learner", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--check", action="store_true", help="also fit in this process, and compare")
    options = parser.parse_args()
    from distributed import Client, LocalCluster

    from sparsetoken import AttentionClassifier, Bags, PooledClassifier

    labels = write_folder(options.folder, options.gigabytes)
    size = sum(path.stat().st_size for path in options.folder.iterdir()) / 1e9
    learners = {
        "pooled": PooledClassifier(),
        "attention, as it comes": AttentionClassifier(),
        "attention, settings given": AttentionClassifier(ridge=0.01, split=0.5, sharpness=1.5),
    }
    settings = {"n_workers": options.workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, host="127.0.0.1", memory_limit=0) as cluster, Client(cluster) as client:
        begun = time.perf_counter()
        bags, y = Bags.from_files(options.folder, labels, executor=client)
        passes = counted_passes(bags)
        print(
            json.dumps({"bags": repr(bags), "gigabytes": size, "open_seconds": time.perf_counter() - begun}), flush=True
        )
        idle = client.run(peak_megabytes)
        for name in options.learner or learners:
            model = learners[name]
            passes.clear()
            begun, cpu, theirs = time.perf_counter(), time.process_time(), client.run(time.process_time)
            model.fit(bags, y)
            spent = sum(client.run(time.process_time).values()) - sum(theirs.values())
            row = {
                "learner": name,
                "seconds": time.perf_counter() - begun,
                "passes": len(passes),
                "worker_cpu_seconds": spent,
                "client_cpu_seconds": time.process_time() - cpu,
                "worker_peaks_mb": sorted(client.run(peak_megabytes).values()),
                "worker_idle_mb": sorted(idle.values()),
                "client_peak_mb": peak_megabytes(),
                "held_out_auc": model.diagnostics_.get("held_out_auc"),
            }
            if options.check:
                here, _ = Bags.from_files(options.folder, labels)
                far = model.decision_function(bags[:20])
                begun = time.perf_counter()
                row["difference"] = float(np.abs(model.fit(here, y).decision_function(here[:20]) - far).max())
                row["seconds_here"] = time.perf_counter() - begun
                del here
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
