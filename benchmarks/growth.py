"""How cost grows with L, d and the number of points: CPU seconds on log-log axes, with fitted exponents.

`python -m benchmarks.growth` draws the picture of the docs from the stored rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken import Task, Training, theory
from sparsetoken.laws.draws import forget_draws
from sparsetoken.simulation.simulate import simulate
from sparsetoken.simulation.two_steps import two_steps

from .measure import RESULTS, Row, Timing, case, timed

PLOT = Path(__file__).parent.parent / "docs" / "images" / "cost_growth.png"
Curve = list[tuple[float, Timing]]


def theory_over_length(lengths: tuple[int, ...], repeats: int) -> Curve:
    """A theory point from nothing at standard error 4e-4, the draws of L tokens included."""

    def point(length: int) -> theory.ErmResult:
        forget_draws()
        task = Task(length=length, strength=5.0)
        return theory.erm(theory.attention_law(task, 0.9, 2.5), 2.0, 1e-3, accuracy=1e-3)

    curve = []
    for length in lengths:
        point(length)  # compile: the number of draws may differ
        curve.append((length, timed(lambda: point(length), repeats)[0]))  # noqa: B023
    return curve


def theory_over_dimension(sizes: tuple[int, ...], repeats: int) -> Curve:
    """The forecast of a trial in dimension d: d does not enter, n0 and n1 do by their ratios to it."""

    def point(d: int) -> theory.Forecast:
        forget_draws()
        training = Training(alpha0=2 * d / d, alpha1=2 * d / d)
        return theory.forecast(Task(), training, accuracy=1e-3, with_capacity=False)

    point(sizes[0])
    return [(d, timed(lambda: point(d), repeats)[0]) for d in sizes]  # noqa: B023


def sweep_over_points(counts: tuple[int, ...], repeats: int) -> Curve:
    """A sweep of that many points in alpha1, at standard error 4e-4."""

    def sweep(count: int) -> list[dict]:
        over = {"alpha1": np.linspace(1.0, 8.0, count)}
        return theory.forecast_grid(Task(), Training(), over=over, accuracy=1e-3, with_capacity=False)

    sweep(2)
    return [(count, timed(lambda: sweep(count), repeats)[0]) for count in counts]  # noqa: B023


def steps_over_dimension(sizes: tuple[int, ...], repeats: int) -> Curve:
    return [(d, timed(lambda: two_steps(Task(), Training(), d, 0), repeats)[0]) for d in sizes]  # noqa: B023


def trial_over_dimension(sizes: tuple[int, ...], repeats: int) -> Curve:
    """A whole trial: n = 4 d bags, so the readout alone has 2 d^2 numbers to read per pass."""
    return [(d, timed(lambda: simulate(Task(), Training(), d, 0), repeats)[0]) for d in sizes]  # noqa: B023


def exponent(curve: Curve, tail: int = 3) -> float:
    """Slope of log CPU time over log size at the last `tail` sizes, where fixed costs have washed out."""
    sizes, times = zip(*((size, timing.cpu) for size, timing in curve[-tail:]))
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


@case("growth", "cost against L, d and the number of points")
def growth(quick: bool) -> list[Row]:
    repeats = 1 if quick else 3
    lengths = (16, 32, 64) if quick else (16, 64, 256, 1024, 4096, 10_000)
    sizes = (100, 1000, 10_000) if quick else (1000, 10_000, 100_000, 1_000_000)
    curves = {
        "theory point over L": theory_over_length(lengths, repeats),
        "forecast over d": theory_over_dimension(sizes, repeats),
        "theory sweep over points": sweep_over_points((2, 4, 8) if quick else (10, 30, 100, 300), 1),
        "two gradient steps over d": steps_over_dimension(sizes, repeats),
        "whole trial over d": trial_over_dimension((30, 60, 120) if quick else (250, 500, 1000, 2000), repeats),
    }
    rows = []
    for name, curve in curves.items():
        for size, timing in curve:
            note = f"exponent {exponent(curve):.2f} at the last three sizes" if (size, timing) == curve[-1] else ""
            rows.append(Row(f"{name} = {size:g}", timing, note=note))
    return rows


def draw(rows: list[dict[str, Any]], path: Path = PLOT) -> None:
    """The plot of docs/benchmarks.md, from the rows of `growth` as they were stored."""
    from matplotlib.figure import Figure

    curves: dict[str, Curve] = {}
    for row in rows:
        name, _, size = row["what"].rpartition(" = ")
        curves.setdefault(name, []).append((float(size), Timing(**row["ours"])))
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for (name, curve), marker in zip(curves.items(), "osD^v"):
        sizes, times = zip(*((size, timing.cpu) for size, timing in curve))
        axes.loglog(sizes, times, marker=marker, label=f"{name}: exponent {exponent(curve):.2f}")
    axes.set_xlabel("size: tokens per bag $L$, dimension $d$ or points of a sweep")
    axes.set_ylabel("CPU time (s)")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize="small")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(json.loads((RESULTS / "growth.json").read_text())["rows"])
