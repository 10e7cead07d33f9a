"""Where is the flower? Learn it from labels of whole crops, and draw the evidence of every patch.

A bag is a crop of scikit-learn's photograph of a flower, cut into patches of 16 x 16 pixels; a token is a patch, described by
the mean, the spread and the roughness of its colours (put your own embeddings in their place). Only crops are labelled: does
some of the flower show in it? Crops come from the left half of the photograph; the heat map is of the whole, so that its right
half has never been seen.

    python examples/flower_patches.py                 # prints test figures, writes flower_patches.png
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.metrics import roc_auc_score

from sparsetoken import BagClassifier, Bags

PATCH, CROP = 16, 6  # pixels per patch, patches per side of a crop


def patches(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns, 9) descriptions of the patches, and (rows, columns) truth: most of the patch is petal.

    The petals are the only part of the photograph that is more red than green; the learner never sees this.
    """
    rows, columns = (size // PATCH for size in picture.shape[:2])
    whole = picture[: rows * PATCH, : columns * PATCH].astype(float) / 255
    cut = whole.reshape(rows, PATCH, columns, PATCH, 3).swapaxes(1, 2)
    roughness = np.abs(np.diff(cut, axis=3)).mean(axis=(2, 3))
    petal = (cut[..., 0] - cut[..., 1] > 0.15).mean(axis=(2, 3)) > 0.5
    return np.concatenate([cut.mean(axis=(2, 3)), cut.std(axis=(2, 3)), roughness], axis=2), petal


def crops(
    tokens: np.ndarray, petal: np.ndarray, count: int, rng: np.random.Generator
) -> tuple[Bags, np.ndarray, np.ndarray]:
    """Bags of random crops, their labels (some petal shows), and the truth of their patches."""
    bags, truth = [], []
    for _ in range(count):
        top, left = (rng.integers(size - CROP + 1) for size in petal.shape)
        part = slice(top, top + CROP), slice(left, left + CROP)
        bags.append(tokens[part].reshape(-1, tokens.shape[2]))
        truth.append(petal[part].ravel())
    return Bags(np.stack(bags)), np.any(truth, axis=1).astype(int), np.concatenate(truth)


def draw(picture: np.ndarray, scores: np.ndarray, half: int, path: str) -> None:
    """The photograph beside the evidence of its patches; the line divides what was seen from what was not."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    size = [0, scores.shape[1] * PATCH, scores.shape[0] * PATCH, 0]
    left.imshow(picture)
    left.set_title("photograph; crops for training are left of the line", fontsize=10)
    bound = float(np.abs(scores).max())
    shown = right.imshow(scores, cmap="RdBu_r", vmin=-bound, vmax=bound, extent=size)
    right.set_title("evidence of each patch for “shows some flower”", fontsize=10)
    figure.colorbar(shown, ax=right, shrink=0.8)
    for axis in (left, right):
        axis.axvline(half * PATCH, color="black", linestyle="--", linewidth=1)
        axis.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", default="flower_patches.png")
    parser.add_argument("--crops", type=int, default=150, help="labelled crops")
    options = parser.parse_args()
    picture = load_sample_image("flower.jpg")
    tokens, petal = patches(picture)
    half = tokens.shape[1] // 2
    rng = np.random.default_rng(0)
    bags, labels, _ = crops(tokens[:, :half], petal[:, :half], options.crops, rng)
    test, test_labels, truth = crops(tokens[:, half:], petal[:, half:], 200, rng)
    model = BagClassifier().fit(bags, labels)
    print(f"{bags}, {labels.mean():.0%} with some flower")
    print(f"crops of the unseen half: accuracy {model.score(test, test_labels):.3f}")
    print(f"patches of the unseen half: AUC {roc_auc_score(truth, np.concatenate(model.token_scores(test))):.3f}")
    scores = model.token_scores([tokens.reshape(-1, tokens.shape[2])])[0].reshape(petal.shape)
    draw(picture, scores, half, options.picture)


if __name__ == "__main__":
    main()
