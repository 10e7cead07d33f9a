"""How many bags can be separated without error

The largest number of bags per dimension that a readout separates without a single mistake, against the signal's
strength. Attention with a well-aligned query separates far more than pooling; with a query at right angles to the
signal it has no advantage.
"""

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import Task, theory
from sparsetoken.plotting.style import colour


def main():
    strengths = np.linspace(0, 7, 29)
    laws = {
        "attention, cosine 0.9": lambda task: theory.attention_law(task, 0.9, 1.5),
        "attention, cosine 0.5": lambda task: theory.attention_law(task, 0.5, 1.5),
        "attention, cosine 0": lambda task: theory.attention_law(task, 0.0, 1.5),
        "pooled": theory.pooled_law,
    }
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for (words, law), style in zip(laws.items(), ("-", "--", ":", "-")):
        values = [theory.capacity(law(Task(strength=float(s))), accuracy=0.02).alpha for s in strengths]
        ax.plot(strengths, values, style, color=colour(words.split(",")[0]), lw=2, label=words)
    ax.set_title("Bags per dimension that a readout separates without a mistake", fontsize=11)
    ax.set(yscale="log", xlabel="strength θ", ylabel="capacity α*, bags per dimension")
    ax.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main().savefig("07_capacity.png", dpi=160)
