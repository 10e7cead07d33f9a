"""Attention finds what pooling averages away

Test error against the number of labelled bags per dimension: bags of ten tokens, one of which carries the signal in
positive bags. Lines are exact limits, points are simulations in dimension 250 (mean and standard error of five data
sets). No learner can pass below the black line, the Bayes limit.
"""

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import Task, Training, forecast, simulate, theory
from sparsetoken.plotting.style import colour, label
from sparsetoken.simulation import mean_and_error

TASK = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)


def training(alpha):
    """Half of the bags turn the query in two gradient steps, half fit the readout."""
    return Training(alpha0=alpha / 2, alpha1=alpha / 2, ridge=0.03, equal_samples=True)


def main():
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    ax = figure.add_subplot()
    fine, coarse = np.geomspace(0.6, 12, 33), np.geomspace(0.8, 8, 5)
    for model in ("vectorized", "pooled", "attention"):
        line = [forecast(TASK, training(a), model, accuracy=2e-4, with_capacity=False).test_error for a in fine]
        ax.plot(fine, line, color=colour(model), lw=2)
        ax.annotate(
            label(model),
            (fine[-1], line[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour(model),
        )
        for a in coarse:
            trials = [simulate(TASK, training(a), 250, seed, model).test_error for seed in range(5)]
            mean, error = mean_and_error(trials)
            ax.errorbar(a, mean, error, fmt="o", color=colour(model), ms=5, capsize=2)
    limit = [theory.bayes_limit(TASK, a).test_error for a in fine]
    ax.plot(fine, limit, color=colour("bayes"), lw=2, ls="--")
    ax.annotate("Bayes limit", (fine[-1], limit[-1]), xytext=(6, -4), textcoords="offset points", va="center")
    ax.set(
        xscale="log",
        yscale="log",
        xlim=(0.55, 22),
        xlabel="labelled bags per dimension, n/d",
        ylabel="test error (logarithmic)",
    )
    ax.set_xticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["2 %", "5 %", "10 %", "20 %", "50 %"])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title("Attention finds the one token in ten that matters; pooling averages it away", fontsize=12)
    ax.text(
        0.01,
        0.02,
        "lines: exact theory   points: simulations, d = 250",
        transform=ax.transAxes,
        fontsize=9,
        color="0.35",
    )
    return figure


if __name__ == "__main__":
    main().savefig("01_story.png", dpi=160)
