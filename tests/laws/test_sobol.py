"""Scrambled Sobol points against SciPy's, and what makes them worth having."""

import numpy as np
import pytest
from scipy.stats import qmc

from sparsetoken.laws.sobol import ScrambledSobol


def generators(seed: int, count: int = 3) -> list[np.random.Generator]:
    return [np.random.Generator(np.random.SFC64(child)) for child in np.random.SeedSequence(seed).spawn(count)]


@pytest.mark.parametrize("dimension", [1, 3, 48])
@pytest.mark.parametrize(("points", "block"), [(1, 1), (2, 2), (256, 256), (2048, 512)])
def test_the_same_numbers_as_scipy(dimension, points, block):
    theirs, ours = generators(dimension), generators(dimension)
    expected = [qmc.Sobol(dimension, scramble=True, rng=rng).random(points) for rng in theirs]
    sobol = ScrambledSobol(dimension, points, ours)
    found = np.concatenate([sobol.points(first, block) for first in range(0, points, block)], axis=2)
    np.testing.assert_array_equal(found.swapaxes(1, 2), expected)
    for mine, other in zip(ours, theirs):  # both leave the generators' own streams alone
        assert mine.random() == other.random()


def test_every_interval_has_its_share():
    """Each of 1024 equal intervals of every coordinate holds one of 1024 points, of the second thousand too."""
    sobol = ScrambledSobol(20, 2048, generators(7))
    for first in (0, 1024):
        points = sobol.points(first, 1024)
        assert points.shape == (3, 20, 1024)
        places = np.sort((points * 1024).astype(int), axis=-1)
        np.testing.assert_array_equal(places, np.broadcast_to(np.arange(1024), points.shape))
