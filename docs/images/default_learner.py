"""The picture of the default learner in docs/learners.md: python docs/images/default_learner.py (some seconds)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsetoken import BagClassifier
from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.plotting.show import new_figure
from sparsetoken.plotting.style import COLOURS, MEASURED, REFERENCE

HERE = Path(__file__).parent
SEES = {
    "attention": "scaled tokens",
    "pooled": "lifted tokens",
    "tied": "lifted tokens",
    "statistics": "statistics",
    "likeness": "statistics",
}


def box(axis, x, y, width, words, colour=REFERENCE):
    """A box with words in its middle."""
    style = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour, "linewidth": 1.4}
    axis.text(x + width / 2, y, words, ha="center", va="center", fontsize=9, bbox=style)


def main() -> None:
    read = read_bags(HERE.parents[1] / "tests" / "data" / "musk1.csv.gz")
    model = BagClassifier().fit(read.bags, read.labels)
    losses = {name.split()[0]: loss for name, loss in model.diagnostics_["held_out_losses"].items()}
    shares = {member.name.split()[0]: member.share for member in model.vote_.members if member.share > 0}
    figure = new_figure((11.0, 4.4))
    axis = figure.add_subplot()
    axis.set(xlim=(0, 11), ylim=(0.2, 8.0))
    axis.axis("off")
    names = list(SEES)
    heights = dict(zip(names, np.linspace(6.9, 0.8, len(names))))
    views = {"scaled tokens": 6.9, "lifted tokens": 4.9, "statistics": 1.8}
    for x, words in ((0.6, "bags"), (2.1, "views,\nwithout labels"), (4.3, "candidates"), (6.4, "loss on bags\nheld out"),
                     (8.0, "share of\nthe vote"), (9.9, "probability")):  # fmt: skip
        axis.text(x, 7.75, words, ha="center", va="center", fontsize=9, color=MEASURED, weight="bold")
    box(axis, 0.1, 4.0, 1.0, "tokens\nof 92 bags\n(musk1)")
    for view, y in views.items():
        box(axis, 1.6, y, 1.0, view)
        axis.annotate("", (1.5, y), (1.12, 4.0), arrowprops={"arrowstyle": "->", "color": REFERENCE})
    for name, y in heights.items():
        box(axis, 3.8, y, 1.0, name, COLOURS["attention"] if name in shares else REFERENCE)
        axis.annotate("", (3.75, y), (2.75, views[SEES[name]]), arrowprops={"arrowstyle": "->", "color": REFERENCE})
        axis.barh(y, 1.4 * losses[name] / max(losses.values()), 0.34, left=5.7, color=REFERENCE, alpha=0.5)
        axis.text(5.75, y, f"{losses[name]:.3f}", va="center", fontsize=8)
        share = shares.get(name, 0.0)
        axis.barh(y, 1.3 * share, 0.34, left=7.4, color=COLOURS["attention"])
        axis.text(7.45 + 1.3 * share, y, f"{share:.2f}", va="center", fontsize=8)
        if share:
            axis.annotate("", (9.2, 4.0), (8.85, y), arrowprops={"arrowstyle": "-", "color": REFERENCE, "alpha": 0.5})
    box(axis, 9.4, 4.0, 1.0, "weighted sum,\ncalibrated on\nbags held out,\nshrunk where\nlittle is known")
    figure.savefig(HERE / "default_learner.png", dpi=130)


if __name__ == "__main__":
    main()
