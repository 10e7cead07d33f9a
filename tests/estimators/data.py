"""Bags and settings that several tests of the estimators share."""

from __future__ import annotations

import numpy as np

# Numbers for everything: exactly the training of the theory.
STAGED = {"split": 0.5, "sharpness": 1.5, "ridge": 1e-2, "scale": False}


def draw(seed: int, n=160, length=6, d=12, strength=5.0, prevalence=0.5, ragged=False):
    """Bags with one shifted token in the positive ones, their labels, and where that token is."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < prevalence).astype(int)
    lengths = rng.integers(2, 2 * length, n) if ragged else np.full(n, length)
    signal = np.ones(d) / np.sqrt(d)
    bags, places = [], []
    for label, count in zip(labels, lengths):
        bag = rng.standard_normal((count, d))
        place = int(rng.integers(count))
        bag[place] += label * strength * signal
        bags.append(bag)
        places.append(place)
    return bags, labels, np.array(places)
