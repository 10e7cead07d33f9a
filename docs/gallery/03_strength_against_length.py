"""How strong must a signal be in longer bags?

Strength at which the test error is 10 % when the direction is known, against the number of tokens. Pooling dilutes
the signal, so it needs a strength that grows like the square root of the length. Looking at the largest token alone,
as sharp attention does, needs the square root of the logarithm, close to the best that is possible.
"""

from matplotlib.figure import Figure

from sparsetoken import Task, theory
from sparsetoken.plotting.style import colour, label
from sparsetoken.theory.bayes.oracle import bayes_error, hardmax_error, pooled_error

MECHANISMS = {
    "pooled": ([2, 4, 8, 16, 32, 64, 128, 256], pooled_error),
    "hardmax": ([2, 4, 8, 16, 32, 64, 128, 256], hardmax_error),
    "bayes": ([2, 8, 32, 128], lambda task: bayes_error(task, points=512)[0]),
}


def main():
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for name, (lengths, error) in MECHANISMS.items():
        needed = [theory.strength_needed(Task(length=L), 0.1, error) for L in lengths]
        ax.plot(lengths, needed, marker="o", color=colour(name), lw=2, ms=4, label=label(name))
    ax.set(xscale="log", yscale="log", xlabel="tokens per bag, L", ylabel="strength θ needed for 10 % error")
    ax.set_xticks([2, 8, 32, 128], ["2", "8", "32", "128"])
    ax.set_yticks([2, 5, 10, 20, 40], ["2", "5", "10", "20", "40"])
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main().savefig("03_strength_against_length.png", dpi=160)
