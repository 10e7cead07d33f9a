"""Trained on short bags, tested on long ones

A classifier trained on bags of ten tokens meets longer bags. The order of its scores hardly suffers; its threshold
does. Refitting that one number recovers most of the loss.
"""

from matplotlib.figure import Figure

from sparsetoken import Task, theory
from sparsetoken.plotting.style import OTHER_COLOURS, colour


def main():
    trained = theory.erm(
        theory.attention_law(Task(length=10), cosine=0.9, sharpness=1.5), alpha=2.0, ridge=0.01, accuracy=3e-3
    )
    lengths = [round(10 * 30 ** (i / 20)) for i in range(21)]
    curves = {
        "as trained": [trained.on(Task(length=L)).test_error for L in lengths],
        "threshold refitted": [theory.refit(trained, Task(length=L), "threshold").test_error for L in lengths],
    }
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    for (words, values), shade in zip(curves.items(), (colour("attention"), OTHER_COLOURS[0])):
        ax.plot(lengths, values, color=shade, lw=2, label=words)
    ax.set(xscale="log", xlabel="tokens per bag at test time (trained at 10)", ylabel="test error", ylim=(0, None))
    ax.set_xticks([10, 30, 100, 300], ["10", "30", "100", "300"])
    ax.set_title("Trained on ten tokens, tested on more: the threshold suffers first", fontsize=11)
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main().savefig("06_longer_bags.png", dpi=160)
