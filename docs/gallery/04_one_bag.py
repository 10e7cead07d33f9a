"""What attention looks at in a bag

Attention weights of six positive bags before and after training. A framed token carries the signal; the classifier
was trained on other bags, and has only seen which of them are positive.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from sparsetoken import AttentionClassifier

BAGS, LENGTH, D, STRENGTH = 500, 10, 60, 5.0


def main():
    rng = np.random.default_rng(0)
    tokens, labels = rng.standard_normal((BAGS, LENGTH, D)), np.arange(BAGS) % 2
    place = rng.integers(LENGTH, size=BAGS)
    tokens[np.arange(BAGS), place] += STRENGTH * labels[:, None] * np.ones(D) / np.sqrt(D)
    model = AttentionClassifier().fit(tokens[:-12], labels[:-12])
    shown = [i for i in range(BAGS - 12, BAGS) if labels[i] == 1]
    after = np.array(model.attention_weights(tokens[shown]))
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, words, weights in zip(
        axes, ("before: all alike", "after training"), (np.full_like(after, 1 / LENGTH), after)
    ):
        picture = ax.imshow(weights, vmin=0, vmax=1, cmap="Oranges", aspect="auto")
        for row, bag in enumerate(shown):
            ax.add_patch(Rectangle((place[bag] - 0.5, row - 0.5), 1, 1, fill=False, lw=2, ec="black"))
        ax.set(title=words, xlabel="token", xticks=range(LENGTH), yticks=range(len(shown)))
    axes[0].set(ylabel="positive bag", yticklabels=[str(row + 1) for row in range(len(shown))])
    figure.suptitle("What attention looks at: framed tokens carry the signal", fontsize=11)
    figure.colorbar(picture, ax=axes, label="weight")
    return figure


if __name__ == "__main__":
    main().savefig("04_one_bag.png", dpi=160)
