"""Where attention pays

Ratio of attention's test error to that of pooling over strength and samples, in the exact limit, both with the same
number of bags. Blue: attention is better. Weak signals and few samples leave the query unaligned, and the bags it
used are missed by the readout.
"""

import numpy as np
from matplotlib.figure import Figure
from scipy.interpolate import RectBivariateSpline

from sparsetoken import Task, Training, forecast


def main():
    strengths, samples = np.linspace(1, 7, 9), np.geomspace(0.5, 16, 7)
    ratio = np.empty((len(samples), len(strengths)))
    for i, alpha in enumerate(samples):
        training = Training(alpha0=alpha / 2, alpha1=alpha / 2, ridge=0.1, equal_samples=True)
        for j, strength in enumerate(strengths):
            task = Task(strength=float(strength))
            ask = {"accuracy": 5e-4, "with_capacity": False}
            ratio[i, j] = (
                forecast(task, training, **ask).test_error / forecast(task, training, "pooled", **ask).test_error
            )
    finer = np.linspace(1, 7, 61), np.geomspace(0.5, 16, 61)
    ratio = 2 ** RectBivariateSpline(np.log(samples), strengths, np.log2(ratio))(np.log(finer[1]), finer[0])
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    ax = figure.add_subplot()
    picture = ax.pcolormesh(*finer, np.log2(ratio), cmap="RdBu_r", vmin=-4, vmax=4, shading="gouraud")
    ax.set(yscale="log", xlabel="strength θ", ylabel="bags per dimension, n/d")
    lines = ax.contour(*finer, ratio, levels=[0.125, 0.25, 0.5, 1.0], colors="black", linewidths=1)
    ax.clabel(lines, fmt=lambda value: f"{value:g}")
    ax.set_title("Where attention pays: its test error over that of pooling", fontsize=11)
    ax.set_yticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    ax.minorticks_off()
    bar = figure.colorbar(picture, ax=ax, label="test error of attention / pooling", ticks=[-4, -2, 0, 2, 4])
    bar.ax.set_yticklabels(["1/16", "1/4", "1", "4", "16"])
    return figure


if __name__ == "__main__":
    main().savefig("08_where_attention_pays.png", dpi=160)
