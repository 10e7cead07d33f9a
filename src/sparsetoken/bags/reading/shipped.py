"""Real tokens that come with the packages that we depend on: handwritten digits, photographs, text.

They serve as noise that is not Gaussian (`simulation.noise`). Nothing is downloaded: digits and photographs are scikit-learn's,
the text is the manual that Python ships for its own `help`. The photographs and the text are dependent within a bag, as
real bags are: neighbouring patches, words of one passage.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from ..bags import Bags

SHIPPED = ("digits", "photographs", "text")

_PATCH = 8  # pixels: a patch of the photographs is 8 x 8 grey values
_PATCHES = (4, 5)  # a bag's rows and columns of patches: 20 neighbours
_WORDS_PER_BAG = 20
_TEXT_DIMENSION = 64  # as many numbers per word as a patch and a digit have pixels


@cache
def shipped_bags(name: str) -> Bags:
    """Real bags that need no file."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return Bags(load_digits().data[:, None, :])
    if name == "photographs":
        return _photographs()
    if name == "text":
        return _text()
    raise ValueError(f"there are no shipped bags {name!r}; there are {', '.join(SHIPPED)}")


def _photographs() -> Bags:
    from sklearn.datasets import load_sample_images

    bags = []
    rows, columns = (size * _PATCH for size in _PATCHES)
    for picture in load_sample_images().images:
        grey = picture.mean(axis=2)
        for top in range(0, grey.shape[0] - rows + 1, rows):
            for left in range(0, grey.shape[1] - columns + 1, columns):
                region = grey[top : top + rows, left : left + columns]
                patches = region.reshape(_PATCHES[0], _PATCH, _PATCHES[1], _PATCH).swapaxes(1, 2)
                bags.append(patches.reshape(-1, _PATCH * _PATCH))
    return Bags(np.stack(bags))


def _text() -> Bags:
    import re

    from scipy.sparse import coo_array
    from scipy.sparse.linalg import svds

    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise ValueError("noise 'text' needs Python's own manual (pydoc_data), which this Python lacks") from None
    words = re.findall(r"[a-z]+", " ".join(topics[name] for name in sorted(topics)).lower())
    ranked = sorted(Counter(words).items(), key=lambda pair: (-pair[1], pair[0]))
    kept = [word for word, _ in ranked[:1500]]  # the next ones occur fewer than five times in the manual
    number = {word: i for i, word in enumerate(kept)}
    text = np.array([number[word] for word in words if word in number])
    pairs = [(text[:-gap], text[gap:]) for gap in (1, 2)]  # words on either side that count as neighbours
    left = np.concatenate([part for a, b in pairs for part in (a, b)])
    right = np.concatenate([part for a, b in pairs for part in (b, a)])
    counts = coo_array((np.ones(len(left)), (left, right)), shape=(len(kept), len(kept))).tocsr().tocoo()
    total, share = counts.sum(), counts.sum(axis=1) / counts.sum()
    information = np.maximum(0.0, np.log(counts.data / (total * share[counts.row] * share[counts.col])))
    matrix = coo_array((information, (counts.row, counts.col)), shape=counts.shape).tocsr()
    vectors, sizes, _ = svds(matrix, k=_TEXT_DIMENSION, v0=np.ones(len(kept)))
    embedded = (vectors * np.sqrt(sizes))[text]
    embedded *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(_TEXT_DIMENSION)])  # signs are arbitrary
    whole = len(text) // _WORDS_PER_BAG * _WORDS_PER_BAG
    return Bags(embedded[:whole].reshape(-1, _WORDS_PER_BAG, _TEXT_DIMENSION))
