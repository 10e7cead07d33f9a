"""Seeds: everything random in a trial comes from one whole number, and so do the seeds of several trials.

Each purpose has a separate stream (a child of `SeedSequence(seed)`), so that how much one part draws never changes
another: the two gradient steps of a trial are the same whichever classifier follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.validation import whole_number

STREAMS = (
    "signal",  # xi
    "labels0",
    "places0",
    "tokens0",
    "labels1",
    "places1",
    "tokens1",
    "steps",  # what the reduced sampler draws for the two gradient steps
    "features",  # what it draws for the readout's features
    "quadrature",  # the closed-form test error's integration points
    "labels_test",
    "places_test",
    "tokens_test",
    # Trajectories have any number of data sets: "labels:0", "labels:1", ... are the members of these families.
    "labels",
    "places",
    "tokens",
    "start",  # random starts of the directions
    "noise",  # which of the user's bags go to which data set
    # Which kind a bag is, whether its label is flipped, whether a negative one carries a signal.
    "kinds0",
    "kinds1",
    "kinds_test",
    "kinds",
    # Noise that all tokens of a bag share.
    "shared0",
    "shared1",
    "shared_test",
    "shared",
    "probes",  # random signs that estimate a trace
)


def check_seed(seed: Any) -> int:
    """The seed as an int, or a ValueError: any whole number from 0 on."""
    return whole_number("seed", seed, 0)


def stream(seed: int, name: str) -> np.random.Generator:
    """The generator of stream `name` of a trial; "name:k" is the k-th member of a family of streams."""
    family, _, member = name.partition(":")
    key = (STREAMS.index(family), int(member)) if member else (STREAMS.index(family),)
    child = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.SFC64(child))


def trial_seeds(seed: int, trials: int) -> list[int]:
    """Seeds of independent trials, of 64 bits, all from one; those of the first few do not depend on how many there are.

    Parameters
    ----------
    seed, trials : int
        The seed of the whole experiment, at least 0, and the number of trials, at least 1.
    """
    children = np.random.SeedSequence(whole_number("seed", seed, 0)).spawn(whole_number("trials", trials, 1))
    return [int(child.generate_state(1, np.uint64)[0]) for child in children]
