"""Training everything together, step by step

Test error of gradient descent on all bags at once, with query and readout tied to one vector. The line is the exact
limit, points are the mean of four simulations in dimension 1,000. It passes below staged training and comes close to
the Bayes limit.
"""

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import Stage, Task, Training, forecast, simulate_trajectory, theory
from sparsetoken.plotting.style import OTHER_COLOURS, colour
from sparsetoken.simulation import mean_trajectory

TASK, ALPHA = Task(length=10, sparsity=1, strength=5.0), 2.0


def main():
    schedule = [Stage(20, ALPHA, rates={"w": 0.5, "bias": 1.5}, decay={"w": 0.2})]
    exact = theory.trajectory(TASK, "tied:2", schedule, accuracy=0.01)
    runs = mean_trajectory([simulate_trajectory(TASK, "tied:2", schedule, 1000, seed) for seed in range(4)])
    staged = forecast(
        TASK, Training(alpha0=ALPHA / 2, alpha1=ALPHA / 2, ridge=0.03), accuracy=2e-3, with_capacity=False
    )
    steps, shade = np.arange(exact.steps + 1), OTHER_COLOURS[0]
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    ax.axhline(staged.test_error, color=colour("attention"), lw=2, label="staged attention, same bags")
    ax.plot(steps, exact.test_error, color=shade, lw=2, label="tied model, sharpness 2")
    ax.errorbar(steps[::2], runs.test_error[::2], runs.standard_error[::2], fmt="o", color=shade, ms=4, capsize=2)
    ax.axhline(theory.bayes_limit(TASK, ALPHA).test_error, color=colour("bayes"), ls="--", lw=2, label="Bayes limit")
    ax.set_title("Joint training passes below staged training (line: theory, points: simulations)", fontsize=11)
    ax.set(yscale="log", xlabel="gradient step", ylabel="test error", xticks=range(0, 21, 4))
    ax.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["2 %", "5 %", "10 %", "20 %", "50 %"])
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main().savefig("05_training.png", dpi=160)
