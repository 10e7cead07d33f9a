"""Two gradient steps turn the query towards the signal

Cosine of the query with the hidden direction after two gradient steps, against the bags per dimension they used. At d
= 20,000 the simulation draws no tokens, only what the steps can see, and takes milliseconds. Rare positives with a
badly chosen rate of the bias turn the query the wrong way.
"""

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import Task, Training, theory
from sparsetoken.plotting.style import OTHER_COLOURS
from sparsetoken.simulation import two_steps

CASES = {
    "half of the bags positive": (Task(prevalence=0.5), 1.0),
    "one in ten, bias rate 1": (Task(prevalence=0.1), 1.0),
    "one in ten, bias rate 8": (Task(prevalence=0.1), 8.0),
}


def main():
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    fine, coarse = np.geomspace(0.25, 64, 40), np.geomspace(0.5, 32, 7)
    for shade, (words, (task, eta_b)) in zip(OTHER_COLOURS, CASES.items()):
        line = [theory.alignment(task, Training(alpha0=a, eta_b=eta_b)).cosine["q"] for a in fine]
        points = [two_steps(task, Training(alpha0=a, eta_b=eta_b), 20_000, seed=0).cosine["q"] for a in coarse]
        ax.plot(fine, line, color=shade, lw=2, label=words)
        ax.plot(coarse, points, "o", color=shade, ms=5)
    ax.set_title(
        "Two gradient steps turn the query towards the signal (lines: theory, points: d = 20,000)", fontsize=11
    )
    ax.axhline(0, color="0.6", lw=1)
    ax.set(
        xscale="log",
        ylim=(-1.05, 1.05),
        xlabel="bags per dimension for the two steps, n₀/d",
        ylabel="cos(query, signal)",
    )
    ax.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    ax.minorticks_off()
    ax.legend(frameon=False, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main().savefig("02_alignment.png", dpi=160)
