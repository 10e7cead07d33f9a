"""One hidden nine among other digits: learn which bags hold it, and which of their tokens it is.

A bag is a handful of handwritten digits (scikit-learn's 8 x 8 images, 64 features per token). Half of the bags hold exactly
one nine, the others none; only the bags are labelled. Training and test bags are made of different images.

    python examples/digits_bags.py                    # bags of 10, prints test AUC, writes digits_bags.png
    python examples/digits_bags.py --length 50
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from sparsetoken import BagClassifier, Bags


def digit_bags(length=10, target=9, train=400, test=400, seed=0):
    """Training and test sets, each (bags, labels, witness): witness is True for the tokens that are the hidden digit."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(images))
    half = len(images) // 2
    sets = []
    for chosen, count in ((order[:half], train), (order[half:], test)):
        hidden, others = chosen[digits[chosen] == target], chosen[digits[chosen] != target]
        labels = np.arange(count) % 2
        tokens = rng.choice(others, (count, length))
        witness = np.zeros((count, length), dtype=bool)
        witness[np.arange(count), rng.integers(length, size=count)] = True
        witness[labels == 0] = False
        tokens[witness] = rng.choice(hidden, int(witness.sum()))
        sets.append((Bags(images[tokens]), labels, witness))
    return sets


def draw(bags, probability, weights, path, shown=6):
    """The bags' images with the attention weight under each; the strongest token of a bag is framed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    length = min(10, int(bags.lengths[0]))
    figure = Figure(figsize=(0.9 * length + 1.2, 1.25 * shown + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(shown, length, squeeze=False)
    for i in range(shown):
        best = np.argsort(-weights[i])[:length] if len(weights[i]) > length else np.arange(length)
        for axis, token in zip(axes[i], best):
            axis.imshow(bags[i][token].reshape(8, 8), cmap="gray_r")
            axis.set(xticks=[], yticks=[])
            axis.set_xlabel(f"{weights[i][token]:.2f}", fontsize=9)
            strongest = token == np.argmax(weights[i])
            for side in axis.spines.values():
                side.set(color="#c1272d" if strongest else "#bbbbbb", linewidth=2.5 if strongest else 0.8)
        axes[i][0].set_ylabel(f"P = {probability[i]:.2f}", fontsize=9)
    figure.suptitle("Test bags with a hidden nine: attention weight of each token, P(bag holds a nine)", fontsize=10)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=10, help="digits per bag")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", default="digits_bags.png")
    options = parser.parse_args()
    (bags, labels, _), (test, test_labels, witness) = digit_bags(options.length, seed=options.seed)
    begun = time.perf_counter()
    model = BagClassifier().fit(bags, labels)
    seconds = time.perf_counter() - begun
    scores = np.concatenate(model.token_scores(test))
    weights = model.attention_weights(test)
    positive = test_labels == 1
    found = np.array([np.argmax(w) for w in weights]) == witness.argmax(axis=1)
    print(f"{bags}, fitted in {seconds:.1f} s")
    print(f"test AUC of the bags    {roc_auc_score(test_labels, model.decision_function(test)):.3f}")
    print(f"test accuracy           {model.score(test, test_labels):.3f}")
    print(f"AUC of the tokens       {roc_auc_score(witness.ravel(), scores):.3f}")
    print(f"nine found by attention {found[positive].mean():.3f} of the positive bags")
    draw(
        test[positive],
        model.predict_proba(test)[positive, 1],
        [w for w, y in zip(weights, positive) if y],
        options.picture,
    )
    print(f"picture written to {options.picture}")


if __name__ == "__main__":
    main()
