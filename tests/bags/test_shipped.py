"""Real tokens that come with packages."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.bags.reading.shipped import SHIPPED, shipped_bags


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_bags_are_there_and_are_kept(name):
    bags = shipped_bags(name)
    assert bags is shipped_bags(name)
    assert bags.n_features == 64
    assert bags.equal_length() == (1 if name == "digits" else 20)
    assert bags.n_tokens > 1500


def test_neighbouring_patches_and_words_have_something_in_common():
    """Tokens of one bag are more alike than tokens of different bags; digits assigned to bags at random are not."""
    for name in ("photographs", "text"):
        bags = shipped_bags(name)
        x = (bags.tokens - bags.tokens.mean(0)) / bags.tokens.std(0)
        means = x.reshape(len(bags), 20, -1).mean(1)
        assert (means**2).mean() > 1.3 / 20, name  # 1/20 if tokens were independent


def test_words_that_are_used_alike_have_vectors_that_are_alike():
    bags = shipped_bags("text")
    assert np.linalg.matrix_rank(bags.tokens[:2000]) == 64
    assert len(np.unique(bags.tokens.round(9), axis=0)) > 1000  # one vector per word of the vocabulary


def test_other_names_are_refused():
    with pytest.raises(ValueError, match="there are no shipped bags 'mnist'; there are digits, photographs, text"):
        shipped_bags("mnist")
