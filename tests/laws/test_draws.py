"""Draws of tokens: bounded, read-only, in falling order, and in pieces the same as in one."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from sparsetoken.laws import draws as module
from sparsetoken.laws.draws import (
    EXPLICIT_TOKENS,
    bytes_of_draws,
    draw_blocks,
    forget_draws,
    scrambled_sobol,
    token_draws,
)


def leaves(draws):
    for group in (draws.signals, draws.others):
        yield from (group.tokens, group.bulk, group.normals)
    yield draws.offset


@pytest.mark.slow
def test_cached_draws_are_bounded_in_bytes_whatever_their_number():
    """Lengths of 70 MB each, 16 of them would be a gigabyte."""
    forget_draws()
    for length in range(1000, 1004):
        token_draws(length, 2, 2048)
        assert 0 < module._cache.bytes <= module.CACHE_BYTES
    assert sum(array.nbytes for array in leaves(token_draws(1000, 2, 2048))) > module.CACHE_BYTES / 4
    forget_draws()
    assert module._cache.bytes == 0


def test_cached_draws_cannot_be_written_to():
    for array in leaves(token_draws(6, 2, 32)):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0


@pytest.mark.parametrize(("length", "sparsity"), [(5, 1), (9, 4), (1000, 3), (900, 450)])
def test_pieces_are_the_whole(length, sparsity, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_POINTS", 32)
    whole = token_draws(length, sparsity, 64, ordered=True)
    assert bytes_of_draws(length, sparsity, 64) == sum(array.nbytes for array in leaves(whole))
    for b, replicate in enumerate(draw_blocks(length, sparsity, 64)):
        pieces = [list(leaves(piece)) for piece in replicate]
        assert [len(piece[-1][0]) for piece in pieces] == [32, 32]
        for parts, expected in zip(zip(*pieces), leaves(whole)):
            np.testing.assert_array_equal(np.concatenate(parts, axis=1)[0], expected[b])


def test_many_signal_tokens_have_a_tail_and_a_bulk_of_their_own():
    size = 2 * EXPLICIT_TOKENS
    signals = token_draws(size + 10, size, 256, ordered=True).signals
    present = np.isfinite(signals.tokens)
    assert signals.has_bulk and signals.tokens.shape[-1] < size / 3
    assert (present.sum(-1) + signals.bulk == size).all()
    tail = signals.tokens[present]
    assert kstest(tail, lambda x: 1 - norm.sf(x) / norm.sf(signals.ceiling)).pvalue > 1e-4


def test_signal_tokens_are_in_falling_order_or_in_none():
    ordered = token_draws(12, 4, 512, ordered=True).signals.tokens
    assert (np.diff(ordered, axis=-1) <= 0).all()
    free = token_draws(12, 4, 512).signals.tokens
    # Any one of them is any of them: the first one's mean is that of a normal, 4.5 standard errors of independent draws.
    assert abs(free[..., 0].mean()) < 4.5 / np.sqrt(free[..., 0].size)
    assert (np.diff(free, axis=-1) > 0).any()


def test_one_signal_token_is_drawn_the_same_either_way():
    assert token_draws(12, 1, 64) is token_draws(12, 1, 64, ordered=True)


@pytest.mark.parametrize("points", [1, 100, 256])
def test_any_number_of_draws_is_the_beginning_of_more(points):
    """Also where it is no power of two, of which SciPy warns."""
    few, many = (scrambled_sobol(5, count, np.random.default_rng(3)) for count in (points, 256))
    np.testing.assert_array_equal(few, many[:, :points])
