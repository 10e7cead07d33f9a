"""CPU time of the default learner's fits, next to other checkouts in turns on the same core; time and memory at odd shapes.

python -m benchmarks.fit_times                                  # the sets that are there, and drawn ones: two minutes
python -m benchmarks.fit_times --against ../older/src musk1     # an older checkout first, fit after fit
python -m benchmarks.fit_times --odd                            # few or many bags, tokens, features: fit, predict, memory
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .learners import SETS, digit_set, read_set
from .message_passing import model_bags

ODD = ((5000, 5, 20), (20_000, 3, 20), (100, 10, 5000), (50, 2000, 50))  # bags, tokens per bag, features
DRAWN = {"500 × 20 × 200, uniform": (500, 20, 200, "uniform"), "500 × 20 × 200, the model's": (500, 20, 200, "model")}
# Runs in a process of its own, whose path decides which sparsetoken it measures; older ones call the learner otherwise.
_FITS = """
import pickle, sys, time, warnings
import sparsetoken
warnings.simplefilter("ignore")
Learner = getattr(sparsetoken, "BagClassifier", None) or sparsetoken.AttentionClassifier
X, y = pickle.load(open(sys.argv[1], "rb"))
Learner().fit(X, y)
for _ in sys.stdin:
    begun = time.process_time()
    Learner().fit(X, y)
    print(time.process_time() - begun, flush=True)
"""
_ODD = """
import json, re, sys, time, warnings
import numpy as np
import sparsetoken
from benchmarks.fit_times import drawn
warnings.simplefilter("ignore")
n, length, d, law = json.loads(sys.argv[1])
bags, y = drawn(n, length, d, law)
sparsetoken.BagClassifier().fit(bags[:60:1], y[:60])
def held(name):
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
open("/proc/self/clear_refs", "w").write("5")
before = held("VmRSS")
times = [time.process_time()]
model = sparsetoken.BagClassifier().fit(bags, y)
times.append(time.process_time())
model.predict(bags)
times.append(time.process_time())
print(json.dumps([times[1] - times[0], times[2] - times[1], held("VmHWM") - before]))
"""


def drawn(n: int, length: int, d: int, law: str):
    """Bags of the model, or the same with uniform noise of unit variance."""
    bags, y = model_bags(n, length, d, False)
    if law == "model":
        return bags, y
    rng = np.random.default_rng(1)
    tokens = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), bags.tokens.shape)
    direction = rng.standard_normal(d)
    tokens[bags.starts[y > 0]] += 4.0 * direction / np.linalg.norm(direction)
    return bags.with_tokens(tokens), y


def chosen_sets(names: list[str]):
    """Name, list of bags and labels of the named sets, or of all."""
    for name in SETS:
        if (not names or name in names) and (read := read_set(name)) is not None:
            yield (
                name,
                [np.asarray(bag) for bag in read.bags],
                np.asarray(read.labels == np.max(read.labels), dtype=int),
            )
            if name == "musk1":
                some = np.random.default_rng(0).permutation(len(read.bags))[:40]
                labels = np.asarray(read.labels == np.max(read.labels), dtype=int)
                yield "40 bags of it", [np.asarray(read.bags[int(i)]) for i in some], labels[some]
    for length in (10, 50):
        if not names or f"digits {length}" in names:
            bags, labels, ((training, _),) = digit_set(length)
            yield f"digits {length}", [np.asarray(bags[int(i)]) for i in training], np.asarray(labels)[training]
    for name, shape in DRAWN.items():
        if not names or name in names:
            bags, y = drawn(*shape)
            yield name, [np.asarray(bag) for bag in bags], y


def raced(bags: list[np.ndarray], labels: np.ndarray, sources: list[str], repeats: int) -> list[list[float]]:
    """CPU seconds of fits, by every source in turns, each in a process of its own that has fitted once before."""
    single = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bags.pickle"
        file.write_bytes(pickle.dumps((bags, labels)))
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", _FITS, str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **single, "PYTHONPATH": source},
            )
            for source in sources
        ]
        times: list[list[float]] = [[] for _ in workers]
        for _ in range(repeats):
            for worker, own in zip(workers, times):
                worker.stdin.write("\n")  # type: ignore[union-attr]
                worker.stdin.flush()  # type: ignore[union-attr]
                own.append(float(worker.stdout.readline()))  # type: ignore[union-attr]
        for worker in workers:
            worker.communicate()
    return times


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit_times", description="CPU time of the default's fits."
    )
    parser.add_argument("names", nargs="*", metavar="SET", help="sets (default: all that are there)")
    parser.add_argument("--against", action="append", default=[], metavar="SRC", help="src folder of another checkout")
    parser.add_argument("--repeats", type=int, default=5, help="fits by each")
    parser.add_argument("--odd", action="store_true", help="odd shapes instead of sets")
    given = parser.parse_args(arguments)
    here = str(Path(__file__).resolve().parents[1] / "src")
    if given.odd:
        path = os.pathsep.join([here, str(Path(here).parent)])
        for n, length, d in ODD:
            for law in ("uniform", "model"):
                command = [sys.executable, "-c", _ODD, json.dumps([n, length, d, law])]
                found = subprocess.run(
                    command,
                    env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    capture_output=True,
                    text=True,
                    check=True,
                )
                fit, predict, memory = json.loads(found.stdout)
                print(
                    f"{n} × {length} × {d}, {law}: fit {fit:.2f}, predict {predict:.2f} CPU s, {memory:.0f} MB",
                    flush=True,
                )
        return 0
    for name, bags, labels in chosen_sets(given.names):
        times = raced(bags, labels, [*given.against, here], given.repeats)
        medians = ", ".join(f"{statistics.median(own):.3f} (least {min(own):.3f})" for own in times)
        print(f"{name}: {medians} CPU s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
