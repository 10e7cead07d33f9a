"""A generated folder of features, fitted on a Dask cluster of this machine: passes, time, memory of every worker, agreement.

    python -m benchmarks.cluster_folder FOLDER --gigabytes 4 --workers 2 --check 40
    python -m benchmarks.cluster_folder /dev/shm/features=60 DISK/features --gigabytes 100 --workers 16 --out result.jsonl

The files are written by the workers (one .npy file per bag, in single precision) unless they are there, spread over the given
folders as far as these have room, and left for the caller to remove. Every file has a content of its own. Peaks are those of
the workers' processes from start to end (VmHWM), the package and Dask included. What the page cache of the operating system
holds of the files is not counted: it is given back whenever anyone needs the room. Lines of JSON are printed and go to --out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from .measure import peak_megabytes

FEATURES = 512
# Length of what is added to one token in a thousand of the bags of the second class: it shows in single tokens and, with
# thousands of bags, in their means.
STRENGTH = 10.0
SPARE = 4e9  # bytes of a folder's disk that are left alone


def place_files(folders: list[str], gigabytes: float, tokens: int, features: int) -> list[Path]:
    """The paths of as many files as make up the wanted size, or as there is room for, in the folders' order.

    A folder is given as PATH, or as PATH=GIGABYTES that it takes at most.
    """
    size = 4 * tokens * features + 128
    wanted = max(20, round(gigabytes * 1e9 / size))
    paths: list[Path] = []
    for given in folders:
        name, _, most = given.partition("=")
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        there = sum(path.stat().st_size for path in folder.glob("*.npy"))
        room = min(shutil.disk_usage(folder).free + there - SPARE, float(most or "inf") * 1e9)
        count = min(wanted - len(paths), int(room // size))
        paths += [folder / f"b{len(paths) + i:06d}.npy" for i in range(max(0, count))]
    return paths


def written(client: Any, paths: list[Path], tokens: int, features: int, seconds: float) -> dict[Path, int]:
    """Let the workers write the files; those that are there after `seconds`, and their sizes."""
    from distributed import as_completed

    begun, sizes, waiting = time.perf_counter(), {}, iter(paths)
    some = [client.submit(write_file, path, tokens, features, pure=False) for _, path in zip(range(64), waiting)]
    running = as_completed(some, with_results=True)
    for _, (path, size) in running:
        if size:
            sizes[path] = size
        follows = next(waiting, None) if time.perf_counter() - begun < seconds else None
        if follows is not None:
            running.add(client.submit(write_file, follows, tokens, features, pure=False))
    return dict(sorted(sizes.items(), key=lambda item: item[0].name))


def label_of(path: Path) -> int:
    return int(path.stem[1:]) % 2


def write_file(path: Path, tokens: int, features: int) -> tuple[Path, int]:
    """Write a bag of its own unless it is there; its path and size in bytes, 0 where the disk is full."""
    if not path.exists():
        signal = np.random.default_rng(0).standard_normal(features)
        signal *= STRENGTH / np.linalg.norm(signal)
        rng = np.random.Generator(np.random.SFC64(int(path.stem[1:])))
        X = rng.standard_normal((tokens, features), dtype=np.float32)
        if label_of(path):
            X[rng.choice(tokens, max(1, tokens // 1000), replace=False)] += signal.astype(np.float32)
        try:
            np.save(path, X)
        except OSError:
            path.unlink(missing_ok=True)
            return path, 0
    return path, path.stat().st_size


def timed_passes() -> list[float]:
    """A list that grows by one at every pass over bags on a cluster: its seconds, from the first task to the last result."""
    from sparsetoken.bags.dask_cluster import ClusterBags

    seconds: list[float] = []
    inner = ClusterBags._run

    def run(self: Any, *arguments: Any) -> Any:
        begun = time.perf_counter()
        yield from inner(self, *arguments)
        seconds.append(time.perf_counter() - begun)

    ClusterBags._run = run  # type: ignore[method-assign]
    return seconds


class Report:
    """Prints lines of JSON, and writes them to a file at once."""

    def __init__(self, path: Path | None):
        self.path = path

    def __call__(self, **row: Any) -> None:
        line = json.dumps({key: float(f"{v:.4g}") if isinstance(v, float) else v for key, v in row.items()})
        print(line, flush=True)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(line + "\n")


def fit_there(name: str, model: Any, bags: Any, y: np.ndarray, client: Any, size: float, passes: list[float]) -> dict:
    """Fit on the cluster, and what that took."""
    passes.clear()
    begun, cpu, theirs = time.perf_counter(), time.process_time(), client.run(time.process_time)
    model.fit(bags, y)
    spent = sum(client.run(time.process_time).values()) - sum(theirs.values())
    return {
        "learner": name,
        "seconds": time.perf_counter() - begun,
        "passes": len(passes),
        "pass_seconds": [round(s, 2) for s in passes],
        "gigabytes_per_second": [round(size / s, 2) for s in passes],
        "worker_cpu_seconds": spent,
        "client_cpu_seconds": time.process_time() - cpu,
        "worker_peaks_mb": [round(mb) for mb in sorted(client.run(peak_megabytes).values())],
        "client_peak_mb": peak_megabytes(),
        "held_out_auc": model.diagnostics_.get("held_out_auc"),
    }


def main() -> None:
    """Measure, line by line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", help="PATH, or PATH=GIGABYTES that it takes at most")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--tokens", type=int, default=10_000, help="per bag")
    parser.add_argument("--features", type=int, default=FEATURES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--learner", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--write-seconds", type=float, default=3600.0, help="after these, no further file is begun")
    parser.add_argument("--check", type=int, default=0, help="also fit this many bags in this process, and compare")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from distributed import Client, LocalCluster

    from sparsetoken import AttentionClassifier, Bags, PooledClassifier

    learners = {
        "attention": AttentionClassifier(),
        "attention, settings given": AttentionClassifier(ridge=0.01, split=0.5, sharpness=1.5),
        "pooled": PooledClassifier(),
    }
    report, passes = Report(options.out), timed_passes()
    settings = {"n_workers": options.workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, host="127.0.0.1", memory_limit=0) as cluster, Client(cluster) as client:
        idle = client.run(peak_megabytes)
        begun = time.perf_counter()
        planned = place_files(options.folders, options.gigabytes, options.tokens, options.features)
        sizes = written(client, planned, options.tokens, options.features, options.write_seconds)
        paths, size = list(sizes), sum(sizes.values()) / 1e9
        report(
            gigabytes=size,
            files_per_folder={str(f): sum(p.parent == f for p in paths) for f in sorted({p.parent for p in paths})},
            write_seconds=time.perf_counter() - begun,
            cores=os.cpu_count(),
            workers=options.workers,
            worker_idle_mb=[round(mb) for mb in sorted(idle.values())],
        )
        labels = {path.stem: label_of(path) for path in paths}
        for name in options.learner or learners:
            begun = time.perf_counter()
            bags, y = Bags.from_files(paths, labels, executor=client)  # opened anew: nothing is known of them
            opened = time.perf_counter() - begun
            report(
                bags=repr(bags), open_seconds=opened, **fit_there(name, learners[name], bags, y, client, size, passes)
            )
        if options.check:
            some = paths[: options.check]
            there, y = Bags.from_files(some, {path.stem: label_of(path) for path in some}, executor=client)
            here, _ = Bags.from_files(some, {path.stem: label_of(path) for path in some})
            for name in options.learner or learners:
                far = learners[name].fit(there, y).decision_function(there)
                begun = time.perf_counter()
                near = learners[name].fit(here, y).decision_function(here)
                report(
                    learner=name,
                    checked_bags=len(some),
                    difference=float(np.abs(near - far).max()),
                    largest_log_odds=float(np.abs(near).max()),
                    seconds_here=time.perf_counter() - begun,
                )


if __name__ == "__main__":
    main()
