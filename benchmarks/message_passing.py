"""What a fit of the message-passing classifier takes beside its core (noise, strength, direction, count), on the model's bags.

A fit adds what makes it safe on a user's bags: copies and near copies, scaling, the training range, and (below a thousand bags)
five more fits to calibrate on bags held out.
"""

from __future__ import annotations

import warnings

import numpy as np

from sparsetoken import Bags, MessagePassingClassifier
from sparsetoken._core.threads import single_blas_thread
from sparsetoken.estimators.base import TrainingWarning
from sparsetoken.estimators.message_passing.fitting import two_classes, usual_priors
from sparsetoken.estimators.message_passing.noise import estimate_noise, whitened_bags

from .measure import Row, case, raced

# Bags, mean tokens per bag, features, whether lengths differ: few and many bags, short and long, more features than tokens.
SHAPES = (
    (400, 10, 100, False),
    (500, 20, 200, False),
    (2000, 10, 100, False),
    (1000, 5, 50, False),
    (200, 50, 40, False),
    (100, 50, 500, False),
    (300, 5, 2000, False),
    (500, 20, 200, True),
)


def model_bags(n: int, length: int, d: int, ragged: bool) -> tuple[Bags, np.ndarray]:
    """Bags of the model with one signal token of strength 4 in every second; lengths from a third to five thirds if ragged."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(length // 3, 2 * length - length // 3, n, endpoint=True) if ragged else np.full(n, length)
    signs, xi = np.where(np.arange(n) % 2, 1.0, -1.0), rng.standard_normal(d)
    bags = [rng.standard_normal((own, d)) for own in lengths]
    for bag in bags[1::2]:
        bag[0] += 4.0 * xi / np.linalg.norm(xi)
    return Bags(bags), signs


def core(bags: Bags, signs: np.ndarray) -> None:
    """Noise, strength, direction and count alone, on tokens as they are."""
    white = whitened_bags(estimate_noise(bags[signs < 0].tokens), bags)
    two_classes(white, signs, np.ones(len(signs)), None, True).best(usual_priors(bags, signs))


@case(
    "message_passing",
    "a fit of MessagePassingClassifier, next to estimating noise, strength, direction and count alone",
)
def message_passing(quick: bool) -> list[Row]:
    rows = []
    for n, length, d, ragged in ((60, 5, 10, False), (60, 5, 10, True)) if quick else SHAPES:
        bags, signs = model_bags(n, length, d, ragged)
        with single_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            work = [lambda: MessagePassingClassifier().fit(bags, signs), lambda: core(bags, signs)]  # noqa: B023
            ours, alone = raced(work, least=2 if quick else 5)  # type: ignore[list-item]
        what = f"{n} × {length}{' (ragged)' if ragged else ''} × {d}"
        rows.append(Row(what, ours, "its core alone", alone))
    return rows
