"""Break the core on purpose, one line at a time, and see whether the tests notice.

    python -m tests.mutation                               all mutants, two at a time
    python -m tests.mutation --workers 16 --out found.txt  sixteen at a time, with the verdicts in a file as well
    python -m tests.mutation equations                     those of one module
    python -m tests.mutation --list                        what would be changed

A mutant is a copy of the package in a temporary folder with one piece of text exchanged (a sign flipped, a term dropped); the
tests named beside it must fail there. A mutant that survives shows a test without teeth; one whose text is no longer found has
to be rewritten with the code it was about. Tests that fail without any change would notice everything, so they are run on the
package as it is first; mutants of those that fail there are not tried.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600  # a mutant that makes a solver wander counts as noticed


class Mutant(NamedTuple):
    """One change of one file, and the tests that must notice it."""

    file: str
    text: str
    changed: str
    tests: str

    @property
    def title(self) -> str:
        return f"{self.file}: {' '.join(self.text.split())} -> {' '.join(self.changed.split())}"


MUTANTS = [
    Mutant(
        "theory/equations.py",
        "(ridge * m_q + averages[0]) / D",
        "(ridge * m_q - averages[0]) / D",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "(m_u / (alpha * V) + averages[1]) / D",
        "(m_u / alpha + averages[1]) / D",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "alpha * V * (ridge + averages[3]) - 1.0",
        "alpha * V * averages[3] - 1.0",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "2.0 * log_nu - xp.log(alpha * averages[4]) - 2.0 * log_V",
        "2.0 * log_nu - xp.log(averages[4]) - 2.0 * log_V",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "        nodes.kappa**2 * third,\n        value,\n    )\n\n\ndef moments_with",
        "        nodes.kappa * third,\n        value,\n    )\n\n\ndef moments_with",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "nodes.T * first + m_q * nodes.tau**2 * stein",
        "nodes.T * first",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/equations.py",
        "chain(1, -averages[1] / deviation**2)",
        "chain(1)",
        "tests/theory/test_newton.py",
    ),
    Mutant(
        "theory/equations.py",
        "[0.0, 1.0 / (alpha * V * D), 0.0, 0.0, -pull / D]",
        "[0.0, 1.0 / (alpha * V * D), 0.0, 0.0, pull / D]",
        "tests/theory/test_newton.py",
    ),
    Mutant(
        "theory/square_loss.py",
        "nu2 = alpha * V**2 * (e2 + B * m[:, 1] ** 2) / bracket",
        "nu2 = alpha * V**2 * e2 / bracket",
        "tests/theory/test_square_loss.py tests/theory/test_erm.py",
    ),
    Mutant(
        "theory/square_loss.py",
        "nu2 = alpha * (e2 + m[:, 1] ** 2) / (1.0 - alpha)",
        "nu2 = alpha * e2 / (1.0 - alpha)",
        "tests/theory/test_square_loss.py tests/theory/test_erm.py",
    ),
    Mutant(
        "theory/shortfall.py",
        "Shortfall((v + a * a) * tail - a * s * density, tail",
        "Shortfall((v + a * a) * tail, tail",
        "tests/theory/test_golden.py tests/theory/test_capacity.py",
    ),
    Mutant(
        "theory/alignment.py",
        "- eta_w * c * v / alpha0 + b1",
        "+ eta_w * c * v / alpha0 + b1",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/alignment.py",
        "theta**2 * (R * (1 - R / L))",
        "theta**2 * R",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/alignment.py",
        "Q = average.noise**2 * s2 + (",
        "Q = (",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/alignment.py",
        "b1 = -eta_b * sum(",
        "b1 = eta_b * sum(",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "theory/alignment.py",
        "Q = (average.noise * eta_w) ** 2 * first.noise + a**2",
        "Q = a**2",
        "tests/theory/test_alignment.py",
    ),
    Mutant(
        "laws/measures.py",
        "prevalence * (1.0 - sensitivity) + (1.0 - prevalence) * (1.0 - specificity)",
        "prevalence * (1.0 - specificity) + (1.0 - prevalence) * (1.0 - sensitivity)",
        "tests/laws/test_measures.py tests/theory/test_golden.py",
    ),
    Mutant(
        "laws/measures.py",
        "np.hypot(positive[1], negative[1])",
        "positive[1]",
        "tests/laws/test_measures.py tests/simulation/test_measures.py",
    ),
    Mutant(
        "laws/measures.py",
        "1.0 - 0.5 * (sensitivity + specificity)",
        "1.0 - (sensitivity + specificity)",
        "tests/laws/test_measures.py tests/simulation/test_measures.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "w1 -= training.eta_w / n0",
        "w1 += training.eta_w / n0",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "noise -= c_hat * (c_hat @ noise)",
        "noise -= 0.0 * (c_hat @ noise)",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "field = bags.mean_scale * (c_hat * float(g @ w1) + norm_w * noise)",
        "field = bags.mean_scale * (norm_w * noise)",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "np.maximum(length - 2, 0) / 2.0",
        "np.maximum(length, 0) / 2.0",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "along_w += float(hb @ (push * e1 + size * e_square))",
        "along_w += float(hb @ (push * e1))",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "squares += float(hb**2 @ (push**2 + 2.0 * size * push * e1 + size**2 * e_square))",
        "squares += float(hb**2 @ (push**2 + 2.0 * size * push * e1))",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "rng.chisquare(dimension - np.arange(count))",
        "rng.chisquare(dimension, count)",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "features[:, 0] += bags.mean_shift\n    return features",
        "features[:, 0] -= bags.mean_shift\n    return features",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/steps.py",
        "[:, None] * (scores - field)).ravel()",
        "[:, None] * scores).ravel()",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "simulation/steps.py",
        "b1 = -training.eta_b * float(c.mean())",
        "b1 = training.eta_b * float(c.mean())",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "laws/positions.py",
        "(first[:, None] + np.arange(sparsity)) % length",
        "np.minimum(first[:, None] + np.arange(sparsity), length - 1)",
        "tests/simulation/test_samplers.py tests/simulation/test_steps.py",
    ),
    Mutant(
        "losses.py",
        "return self.loss.prox(h, step * self.weight(y), y)",
        "return self.loss.prox(h, step, y)",
        "tests/test_losses.py",
    ),
    Mutant(
        "losses.py",
        "return s**gamma * p * ((1.0 + 2.0 * gamma) * s + gamma",
        "return s**gamma * p * ((1.0 + gamma) * s + gamma",
        "tests/test_losses.py",
    ),
    Mutant(
        "solvers/erm.py",
        "p, ridge, loss = p / scale, ridge / scale, loss.loss",
        "p, loss = p / scale, loss.loss",
        "tests/solvers/test_erm.py",
    ),
    Mutant(
        "losses.py",
        "return h + y * gap\n        import jax",
        "return h - y * gap\n        import jax",
        "tests/test_losses.py",
    ),
    Mutant(
        "losses.py",
        "(a + step) / (1.0 + step)",
        "(a + step) / (2.0 + step)",
        "tests/test_losses.py",
    ),
    Mutant(
        "theory/known_signal.py",
        "threshold = gap / 2 + np.log((1 - pi) / pi) / gap",
        "threshold = gap / 2 - np.log((1 - pi) / pi) / gap",
        "tests/theory/test_golden.py tests/theory/test_known_signal.py",
    ),
    Mutant(
        "theory/bayes.py",
        "self.gain = alpha * task.prevalence * self.theta**2",
        "self.gain = alpha * self.theta**2",
        "tests/theory/test_golden.py",
    ),
    Mutant(
        "simulation/samplers/implicit_gaussian.py",
        "other.images.products(vector) - other.basis.products(image)",
        "other.images.products(vector)",
        "tests/simulation/test_implicit_gaussian.py",
    ),
    Mutant(
        "simulation/samplers/implicit_gaussian.py",
        "block + (along_E[which] - block @ E.T) @ E",
        "block + along_E[which] @ E",
        "tests/simulation/test_implicit_gaussian.py tests/simulation/test_reuse.py",
    ),
    Mutant(
        "theory/dynamics.py",
        "noise = mix(row_blocks, group.normals) + mix(B, G_before)",
        "noise = mix(row_blocks, group.normals)",
        "tests/theory/test_trajectory.py",
    ),
    Mutant(
        "theory/dynamics.py",
        "plan.momentum[t] * (now - last) - state.P @ K",
        "plan.momentum[t] * (now - last)",
        "tests/theory/test_trajectory.py",
    ),
    Mutant(
        "theory/dynamics.py",
        "of_group = jnp.where(is_now, own_product, of_group) * in_window / alpha",
        "of_group = jnp.where(is_now, own_product, of_group) * in_window",
        "tests/theory/test_trajectory.py",
    ),
    Mutant(
        "theory/dynamics.py",
        "now * (1 - plan.decay[t] * rates)",
        "now * (1 + plan.decay[t] * rates)",
        "tests/theory/test_trajectory.py",
    ),
    Mutant(
        "theory/alignment.py",
        "((1 - pi) * (1.0 - stained)) * chance, -label",
        "(1 - pi) * chance, -label",
        "tests/theory/test_differing_bags.py",
    ),
    Mutant(
        "theory/alignment.py",
        "((1.0, 1.0 - eps), (-1.0, eps))",
        "((1.0, 1.0 - eps), (1.0, eps))",
        "tests/theory/test_differing_bags.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "own = math.sqrt(1.0 - task.correlation)",
        "own = 1.0",
        "tests/theory/test_differing_bags.py tests/simulation/test_samplers.py",
    ),
    Mutant(
        "simulation/samplers/reduced.py",
        "np.sqrt((1.0 - correlation) * kappa**2 + correlation * total**2)",
        "np.sqrt((1.0 - correlation) * kappa**2)",
        "tests/theory/test_differing_bags.py tests/simulation/test_samplers.py",
    ),
]


def copy_of_the_source(folder: Path) -> Path:
    """The package's source, elsewhere."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return source


def broken_copy(mutant: Mutant, folder: Path) -> Path:
    """The package's source with the change made; ValueError unless its text occurs exactly once."""
    source = copy_of_the_source(folder)
    path = source / "sparsetoken" / mutant.file
    text = path.read_text()
    if text.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file} has {text.count(mutant.text)} times: {mutant.text}")
    path.write_text(text.replace(mutant.text, mutant.changed))
    return source


def tests_fail(tests: str, source: Path) -> bool:
    """Whether one of these tests fails on that source, or takes longer than `SECONDS`."""
    environment = dict(os.environ, PYTHONPATH=str(source), PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    try:
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True
    if ended.returncode not in (0, 1):
        raise RuntimeError(f"{tests}: pytest ended with {ended.returncode}\n{ended.stdout.decode()[-2000:]}")
    return ended.returncode == 1


def noticed(mutant: Mutant) -> bool:
    """Whether the mutant's tests fail."""
    with tempfile.TemporaryDirectory() as folder:
        return tests_fail(mutant.tests, broken_copy(mutant, Path(folder)))


def fails_as_it_is(tests: str) -> bool:
    """Whether the tests fail on the package without any change."""
    with tempfile.TemporaryDirectory() as folder:
        return tests_fail(tests, copy_of_the_source(Path(folder)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", help="parts of file names")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--workers", type=int, default=2, help="mutants tried at the same time")
    parser.add_argument("--out", type=Path, help="file that the verdicts are written to as well, one by one")
    given = parser.parse_args()
    chosen = [m for m in MUTANTS if not given.only or any(part in m.file for part in given.only)]
    if given.list:
        print("\n".join(m.title for m in chosen))
        return 0
    if given.out is not None:
        given.out.write_text("")

    def say(line: str) -> None:
        print(line, flush=True)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(line + "\n")

    caught = 0
    with tempfile.TemporaryDirectory() as compiled, ThreadPoolExecutor(given.workers) as pool:
        # Most of what JAX compiles is the same for all mutants: they share it (see tests/conftest.py).
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", compiled)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
        sets = sorted({mutant.tests for mutant in chosen})
        unfit = {tests for tests, fails in zip(sets, pool.map(fails_as_it_is, sets)) if fails}
        for tests in sorted(unfit):
            say(f"UNFIT     {tests} fails without any change")
        tried = {pool.submit(noticed, mutant): mutant for mutant in chosen if mutant.tests not in unfit}
        for done in as_completed(tried):
            caught += done.result()
            say(f"{'noticed ' if done.result() else 'SURVIVED'}  {tried[done].title}")
    say(f"{caught} of {len(chosen)} mutants noticed")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
