"""What tests of several packages share: where data lies, and bags with a planted token.

The fixture `command` of conftest.py runs the command line in this process. Bags of the paper's model come from
`sparsetoken.simulation.samplers.sample_bags`.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"


def planted_bags(
    seed: int,
    n: int = 160,
    length: int = 6,
    d: int = 12,
    strength: float = 5.0,
    prevalence: float = 0.5,
    ragged: bool = False,
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Bags of noise with one token of every positive bag shifted along the diagonal.

    Parameters
    ----------
    seed : int
        All randomness comes from it.
    n : int
        Number of bags.
    length : int
        Tokens per bag; with `ragged` a bag has 2 to 2 length - 1.
    d : int
        Features per token.
    strength : float
        Size of the shift.
    prevalence : float
        Probability of a positive bag.
    ragged : bool
        Whether lengths differ.

    Returns
    -------
    tuple
        A list of n arrays (length, d), labels 0 or 1, and the place of the shifted token (or where it would be) per bag.
    """
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


@contextmanager
def nothing_stays_registered():
    """What is registered within (losses, mechanisms, kinds of trial, ...) is gone afterwards."""
    import sparsetoken.study.kinds  # noqa: F401  (theirs stay)
    from sparsetoken import activations, bag_models, classifiers, losses
    from sparsetoken._core import user_code
    from sparsetoken.study import kind_registry as registry

    known = (
        losses.LOSSES,
        activations.ACTIVATIONS,
        classifiers.CLASSIFIERS,
        bag_models.BAG_MODELS,
        registry._KINDS,
        user_code._OWN,
        user_code._SOURCES,
    )
    before, shared = [dict(one) for one in known], list(user_code._SHARED)
    try:
        yield
    finally:
        user_code._SHARED[:] = shared
        for one, old in zip(known, before):
            one.clear()
            one.update(old)


def planted_table(seed: int = 0) -> pd.DataFrame:
    """60 planted bags of 2 to 9 tokens with five features, one row per token; `instance_label` marks the planted tokens."""
    rows = []
    for k, (bag, label, place) in enumerate(zip(*planted_bags(seed, n=60, length=5, d=5, ragged=True))):
        for i, token in enumerate(bag):
            rows.append([f"bag{k}", ("no", "yes")[label], int(label and i == place), *token])
    return pd.DataFrame(rows, columns=["bag_id", "label", "instance_label", *(f"f{j}" for j in range(5))])
