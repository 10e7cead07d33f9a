"""A large trial, training dynamics and estimators on an accelerator: `python -m benchmarks.gpu` (sizes shrink on a CPU).

Prints, and with --json FILE writes: time, points per second, the floor set by memory bandwidth, and agreement with the CPU.
Every part is a process of its own, ended when five minutes are over in all: what was not reached is named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from sparsetoken import Stage, Task, Training
from sparsetoken._core.devices import double_precision
from sparsetoken.estimators import AttentionClassifier, BagClassifier, MessagePassingClassifier, PooledClassifier
from sparsetoken.simulation.samplers.reduced import Leading, place_features
from sparsetoken.simulation.simulate import simulate
from sparsetoken.solvers.erm import fit_erm
from sparsetoken.theory import attention_law, erm, forecast
from sparsetoken.theory.dynamics.problem import PROBES, problem_of, replicate_draws
from sparsetoken.theory.dynamics.recursion import advance_compiled, first_compiled

SECONDS = 290  # of all parts together: with the start of a last process this stays within five minutes


def copy_bandwidth() -> float:
    """Bytes per second read and written by a large copy: the ceiling of everything memory-bound."""
    size = 2**28 if jax.devices()[0].platform != "cpu" else 2**24
    x = jnp.zeros(size, dtype=jnp.float32)
    step = jax.jit(lambda x: x + 1)
    step(x).block_until_ready()
    start = time.perf_counter()
    for _ in range(10):
        x = step(x)
    x.block_until_ready()
    return 10 * 2 * x.nbytes / (time.perf_counter() - start)


def large_trial(task: Task, training: Training, d: int, bandwidth: float) -> dict:
    start = time.perf_counter()
    device = "gpu" if jax.devices()[0].platform != "cpu" else "cpu"
    found = simulate(task, training, d, 0, sampler=f"reduced:{device}")
    cold = time.perf_counter() - start
    start = time.perf_counter()
    found = simulate(task, training, d, 0, sampler=f"reduced:{device}")  # the same: other data may take other steps
    warm = time.perf_counter() - start
    n = found.n1
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    X = place_features(Leading(rng.standard_normal((n, 2)), np.ones(n), rng), d, 3, jax.devices()[0])
    X.block_until_ready()
    start = time.perf_counter()
    fit = fit_erm(X, y, training.ridge, training.loss)
    seconds = time.perf_counter() - start
    passes = 2 * fit.iterations  # outputs and gradient of each step; factorisations are not counted
    floor = passes * X.nbytes / bandwidth
    expected = forecast(task, training, with_capacity=False)
    # One trial's query deviates from its limit by O(1/sqrt d), more for long bags: compare at its own cosine and sharpness.
    own = attention_law(task, found.cosine["q"], found.sharpness)
    return {
        "d": d,
        "length": task.length,
        "n1": n,
        "feature_gigabytes": X.nbytes / 1e9,
        "cold_seconds": cold,
        "warm_seconds": warm,
        "stages": dict(found.seconds),
        "stopped": found.stopped,
        "gradient_norm": found.gradient_norm,
        "test_error": found.test_error,
        "theory": expected.test_error,
        "theory_at_its_own_query": erm(own, training.alpha1, training.ridge).test_error,
        "cosine_q": found.cosine["q"],
        "theory_cosine_q": expected.cosine["q"],
        "readout_seconds": seconds,
        "readout_passes": passes,
        "readout_floor_seconds": floor,
        "ratio_to_floor": seconds / floor,
    }


def model_bags(bags: int, length: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bags of the model in single precision, one signal token of strength 12 in each positive one, and their labels."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((bags, length, d), dtype=np.float32)
    y = rng.random(bags) < 0.5
    x[y, rng.integers(length, size=bags)[y], 0] += 12.0
    return x, y.astype(int)


def estimators(bags: int, length: int, d: int, device: str, with_numpy: bool) -> dict:
    """Seconds to fit and to predict, with and without the device, on the same bags."""
    x, y = model_bags(bags, length, d, 1)
    fresh, fresh_y = model_bags(400, length, d, 2)
    out: dict = {"bags": bags, "length": length, "d": d, "gigabytes": x.nbytes / 1e9}
    kinds = {
        "pooled": PooledClassifier(),
        "attention": AttentionClassifier(),
        "bag classifier": BagClassifier(),
        "message passing": MessagePassingClassifier(sparsity=1),
    }
    for name, estimator in kinds.items():
        row = {}
        scores = {}
        for label, where in [("first", device), ("again", device)] + [("numpy", "numpy")] * with_numpy:
            model = clone(estimator).set_params(device=where)
            start = time.perf_counter()
            model.fit(x, y)
            row[f"fit_{label}"] = time.perf_counter() - start
            start = time.perf_counter()
            scores[label] = model.decision_function(x)
            row[f"predict_{label}"] = time.perf_counter() - start
            if label != "first":
                row[f"fresh_auc_{label}"] = float(roc_auc_score(fresh_y, model.decision_function(fresh)))
        if with_numpy:
            row["speedup_fit"] = row["fit_numpy"] / row["fit_again"]
            row["largest_gap"] = float(
                np.max(np.abs(scores["again"] - scores["numpy"])) / np.max(np.abs(scores["numpy"]))
            )
        out[name] = row
        print(name, json.dumps(row), flush=True)
    return out


def training_dynamics(bags: int, steps: int, bandwidth: float) -> dict:
    """Joint attention over `steps` steps: one replicate, with draws made beforehand, against the memory's floor.

    The recursion at step t reads innovations, gradients (twice) and tangents (single precision) of all slots of its blocks.
    """
    stage = Stage(steps, 2.0, {"q": 1.0, "w": 1.0, "bias": 0.5}, {"q": 0.1, "w": 0.1})
    problem = problem_of(Task(), "attention", stage, "logistic", None)
    with double_precision():
        draws, _ = replicate_draws(problem, 0, bags, PROBES)
        plan, draws = (jax.tree_util.tree_map(jnp.asarray, part) for part in (problem.plan, draws))

        def run():
            state = first_compiled(plan, draws)
            state = advance_compiled(problem.score, problem.loss, problem.shape, plan, draws, state)
            return state.m.block_until_ready()

        m = run()  # compile
        start = time.perf_counter()
        repeats = 5
        for _ in range(repeats):
            run()
        seconds = (time.perf_counter() - start) / repeats
    one_slot = problem.model.rank * problem.task.length * bags
    # A step reads the blocks that do not lie in its future.
    sizes = [block.shape[0] for block in draws[0].normals]
    ends = np.cumsum(sizes)
    slots = sum(int(ends[np.searchsorted(ends, t, side="right")]) for t in range(problem.slots))
    floor = slots * one_slot * (8 * (1 + 2) + 4 * PROBES) / bandwidth
    return {
        "bags": bags,
        "steps": steps,
        "seconds": seconds,
        "trajectories_per_minute": 60 / seconds,
        "traffic_floor_seconds": floor,
        "times_the_floor": seconds / floor,
        "overlap_w": float(m[-1, 1]),
    }


def parts(gpu: bool, bandwidth: float) -> dict:
    """What is measured, by name, the cheapest first."""
    device = "gpu" if gpu else "cpu"
    task = Task(length=100 if gpu else 20, strength=6.0)
    training = Training(alpha0=2, alpha1=4, ridge=1e-3, eta_q=1000.0 if gpu else 100.0)
    found = {
        "dynamics_1024": lambda: training_dynamics(2**10, 30, bandwidth),
        "trial": lambda: large_trial(task, training, 20_000 if gpu else 400, bandwidth),
        "estimators": lambda: estimators(*((400, 500, 256) if gpu else (60, 20, 16)), device, with_numpy=True),
    }
    if gpu:
        found["dynamics_131072"] = lambda: training_dynamics(2**17, 30, bandwidth)
        found["large_estimators"] = lambda: estimators(1500, 1000, 512, device, with_numpy=False)
    return found


NAMES = ("dynamics_1024", "dynamics_131072", "trial", "estimators", "large_estimators")


def measure(name: str, file: Path) -> None:
    """One part, written to a file; nothing where this machine has no accelerator for it."""
    bandwidth = copy_bandwidth()
    device = jax.devices()[0]
    report = {"device": str(device.device_kind), "jax": jax.__version__, "copy_bytes_per_second": bandwidth}
    part = parts(device.platform != "cpu", bandwidth).get(name)
    file.write_text(json.dumps(report | ({name: {"date": date.today().isoformat()} | part()} if part else {})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="", help="parts whose names begin so")
    parser.add_argument("--part", choices=NAMES, help="this part alone, in this process, written to the file of --json")
    options = parser.parse_args()
    if options.part:
        measure(options.part, options.json)
        return
    end, report = time.monotonic() + SECONDS, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name in NAMES if name.startswith(options.only)):
            file = Path(folder) / f"{name}.json"
            command = [sys.executable, "-m", "benchmarks.gpu", "--part", name, "--json", str(file)]
            try:
                subprocess.run(command, check=True, timeout=max(0.0, end - time.monotonic()))
                report |= json.loads(file.read_text())
            except subprocess.TimeoutExpired:
                report[name] = f"not within {SECONDS} seconds of all parts"
            print(name, json.dumps(report.get(name, "needs an accelerator"), indent=1), flush=True)
            if options.json:
                options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
