"""How strong must a signal be in longer bags?

Strength that is needed with four labelled bags per dimension, against the number of tokens; dotted, the powers of the
length that the lines approach. Left: for 10 % test error. Pooling dilutes the signal and needs a strength like the
square root of the length, attention only the fourth root. Right: for finding the signal's direction, to a cosine of
one half. Every product with the labelled second moment is a step down a ladder of exponents, from the labelled mean
(1/2) over the two gradient steps (1/3) to its top eigenvector (1/4). Information alone would suffice much earlier.
"""

import math
from fractions import Fraction

import numpy as np
from matplotlib.figure import Figure

from sparsetoken import Task, theory
from sparsetoken.plotting.style import REFERENCE, colour, label
from sparsetoken.theory.ladder import long_bag_exponent

ALPHA = 4.0
LENGTHS = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000]
SLOW = ("message_passing", "bayes")  # seconds for a point
EXPONENTS = {"trained:vectorized": 3 / 4, "trained:pooled": 1 / 2, "trained:attention": 1 / 4}


def draw(ax, name, lengths, needed, ink, exponent):
    """A line, its name and the power of the length beside its end, and that power as a dotted guide."""
    ax.plot(lengths, needed, color=ink, lw=2.2)
    guide = np.array([lengths[-1] / 100, 1.6 * lengths[-1]])
    if exponent is None:
        heights, power = np.sqrt(np.log(guide) / math.log(lengths[-1])), r"$\sqrt{2\,\log L}$"
    else:
        fraction = Fraction(exponent).limit_denominator(20)
        heights, power = (guide / lengths[-1]) ** exponent, f"$L^{{{fraction}}}$"
    ax.plot(guide, 1.1 * needed[-1] * heights, color=REFERENCE, ls=":", lw=1.2)
    ax.annotate(f"{name}, {power}", (guide[-1], needed[-1] * heights[-1]), xytext=(4, 0), textcoords="offset points",
                color=ink, va="center", fontsize=9)  # fmt: skip


def main():
    figure = Figure(figsize=(12.0, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    directions = ("pooled", "products:1", "products:2", "eigenvector", *SLOW)
    for ax, goal, methods in ((left, {"test_error": 0.1}, (*EXPONENTS, *SLOW)), (right, {"cosine": 0.5}, directions)):
        for place, method in enumerate(methods):
            lengths = [L for L in LENGTHS if L != 30_000] if method in SLOW else LENGTHS
            found = theory.ladder(Task(), ALPHA, [method], over={"length": lengths}, **goal)
            name = "labelled mean" if method == "pooled" else label(method.removeprefix("trained:"))
            exponent = EXPONENTS[method] if method in EXPONENTS else long_bag_exponent(method)
            draw(ax, name, lengths, found.needed[method], colour(method, place), exponent)
    for ax, words in ((left, "10 % test error"), (right, "a direction at cosine ½")):
        ax.set(xscale="log", yscale="log", xlim=(8, 6e6), title=f"Strength needed for {words}")
        ax.set(xlabel="tokens per bag, L", ylabel="strength θ")
        ax.set_xticks([10, 100, 1000, 10_000, 100_000], ["10", "100", "1,000", "10,000", "100,000"])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    left.set_yticks([3, 10, 100, 1000, 10_000], ["3", "10", "100", "1,000", "10,000"])
    right.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    return figure


if __name__ == "__main__":
    main().savefig("03_strength_against_length.png", dpi=160)
