"""Theory that is a closed form or nearly so: the square loss, and the Bayes limit of short bags, against plain NumPy and SciPy.

Everything from nothing but compiled code and imports: laws, draws and tables are made anew in every call, on both sides. Where
the law is drawn, ours reports a standard error with every number, and peers are taken at the same accuracy in two ways: one
run of Sobol points, whose error only many such runs tell, and eight independent scrambles, whose mean has an error bar.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsetoken import Task, theory
from sparsetoken._core.workers import single_blas_thread
from sparsetoken.laws.draws import forget_draws
from sparsetoken.theory.bayes.limit import _mass_table

from . import plain, plain_bayes, plain_square
from .measure import Row, case, raced

ACCURACY = 2.5e-4
SCRAMBLES = 8  # of the peer with an error bar
FEWEST, MOST = 8, 15  # log2 of the peers' points; beyond, times are extrapolated as if errors fell like 1/points

# (L, R, theta, pi), alpha, ridge; the last three were tried only when everything had been written.
SQUARE = [
    ((10, 1, 5.0, 0.5), 2.0, 1e-2),
    ((2, 1, 1.0, 0.5), 2.0, 1e-2),
    ((5, 2, 2.0, 0.1), 0.8, 1e-1),
    ((20, 3, 4.0, 0.1), 4.0, 1e-3),
    ((7, 1, 0.8, 0.3), 1.2, 1.0),
    ((40, 2, 8.0, 0.5), 0.5, 1e-4),
    ((13, 4, 2.5, 0.9), 3.0, 3e-2),
]
BAYES = [
    ((2, 1, 1.0, 0.5), 1.0),
    ((2, 1, 4.0, 0.1), 0.5),
    ((3, 1, 2.0, 0.5), 1.0),
    ((10, 1, 2.0, 0.5), 1.0),
    ((10, 1, 5.0, 0.1), 2.0),
    ((3, 2, 2.0, 0.5), 1.0),
    ((5, 2, 2.0, 0.1), 1.0),
    ((6, 3, 1.0, 0.5), 1.0),
    ((4, 1, 3.0, 0.2), 0.7),
    ((8, 2, 1.5, 0.4), 3.0),
    ((7, 6, 0.6, 0.5), 1.5),
]


class Rival(NamedTuple):
    """A peer at the accuracy of ours: what to time, by what factor that falls short of the work, and what it is."""

    run: Callable[[], Any]
    factor: float
    name: str
    note: str


def rivals(peer: Callable[[int, int], float], standard_error: float, most: int) -> list[Rival]:
    """One run of the peer, and its mean over scrambles, at our standard error.

    `peer(log2, seed)` is its number at one scramble of 2^log2 points.
    """
    scatter, found = math.inf, []
    wanted = {1: standard_error, SCRAMBLES: standard_error * SCRAMBLES**0.5}
    for scrambles in (SCRAMBLES, 1):
        log2 = FEWEST
        while True:
            scatter = float(np.std([peer(log2, seed) for seed in range(1, 9)], ddof=1))
            if scatter <= wanted[scrambles] or log2 == most:
                break
            log2 += 1
        factor = max(scatter / wanted[scrambles], 1.0)
        times = f", time x {factor:.1f}" if factor > 1 else ""
        reached = scatter / scrambles**0.5
        if scrambles == 1:
            run, name = partial(peer, log2, 0), f"NumPy, 2^{log2} Sobol, one run"
        else:
            run, name = partial(_averaged, peer, log2), f"NumPy, {scrambles} scrambles of 2^{log2} Sobol"
        found.append(Rival(run, factor, name, f"peer ± {reached:.1e}{times}"))
    return found


def _averaged(peer: Callable[[int, int], float], log2: int) -> tuple[float, float]:
    values = [peer(log2, seed) for seed in range(SCRAMBLES)]
    return float(np.mean(values)), float(np.std(values, ddof=1) / SCRAMBLES**0.5)


def _rows(what: str, ours: Callable[[], Any], peers: list[Rival], note: str) -> list[Row]:
    """Ours and all peers in turn."""
    timings = raced([ours, *(peer.run for peer in peers)])
    return [
        Row(what, timings[0], peer.name, timing.times(peer.factor), "; ".join(filter(None, (note, peer.note))), ">= 1")
        for peer, timing in zip(peers, timings[1:])
    ]


@case("square_theory", "theory.erm with the square loss against its closed form in plain NumPy, from nothing")
def square_theory(quick: bool) -> list[Row]:
    rows = []
    with single_blas_thread():
        for given, alpha, ridge in SQUARE[:1] if quick else SQUARE:
            task, what = Task(*given), _shown(given, alpha)
            for model in ("pooled", "vectorized"):
                law = {"pooled": theory.pooled_law, "vectorized": theory.vectorized_law}[model]
                ours = partial(_exact, law, task, alpha, ridge)
                run = partial(plain_square.exact_readout, *given, alpha, ridge, model == "vectorized")
                note = f"test error {ours().test_error:.5f}, peer {run().test_error:.5f}"
                rows += _rows(f"{model}, {what}", ours, [Rival(run, 1.0, "NumPy, closed form", "")], note)
            rows += _attention(given, alpha, ridge, what, 9 if quick else MOST)
    return rows


def _exact(law: Callable[[Task], theory.Law], task: Task, alpha: float, ridge: float) -> theory.ErmResult:
    return theory.erm(law(task), alpha, ridge, "square", accuracy=ACCURACY)


def _attention(given: tuple, alpha: float, ridge: float, what: str, most: int) -> list[Row]:
    def ours() -> theory.ErmResult:
        forget_draws()
        return theory.erm(theory.attention_law(Task(*given), 0.9, 1.5), alpha, ridge, "square", accuracy=ACCURACY)

    def peer(log2: int, seed: int) -> float:
        law = plain.attention_points(*given, 0.9, 1.5, log2, seed)
        return plain_square.square_readout(law, alpha, ridge).test_error

    found = ours()
    note = f"test error {found.test_error:.5f} ± {found.standard_error:.1e}"
    return _rows(f"attention, {what}", ours, rivals(peer, found.standard_error, most), note)


@case("bayes_small", "theory.bayes_limit of short bags against plain state evolution, from nothing")
def bayes_small(quick: bool) -> list[Row]:
    rows = []
    with single_blas_thread():
        for given, alpha in BAYES[:3:2] if quick else BAYES:
            task = Task(*given)

            def ours(task: Task = task, alpha: float = alpha) -> theory.BayesLimit:
                forget_draws()
                _mass_table.cache_clear()
                return theory.bayes_limit(task, alpha)

            def peer(log2: int, seed: int, given: tuple = given, alpha: float = alpha) -> float:
                return plain_bayes.bayes_limit(*given, alpha, log2, seed).test_error

            found = ours()
            note = f"test error {found.test_error:.6f} ± {found.errors['test_error']:.1e}"
            if given[:2] == (2, 1):
                peers = [Rival(partial(peer, 0, 0), 1.0, "NumPy, trapezoidal rule", f"peer {peer(0, 0):.6f}")]
            else:
                peers = rivals(peer, found.errors["test_error"], 9 if quick else 13)
            rows += _rows(_shown(given, alpha), ours, peers, note)
    return rows


def _shown(given: tuple, alpha: float) -> str:
    length, sparsity, strength, prevalence = given
    return f"L = {length}, R = {sparsity}, theta = {strength:g}, pi = {prevalence:g}, alpha = {alpha:g}"
