"""Peak memory stays far below the size of the tokens: generated ones (tensor sampler) and memory-mapped ones (estimators).

Bounds are on what NumPy allocates (tracemalloc), which leaves out pages of files: those the system takes back as it needs.
"""

import tracemalloc

import numpy as np
import pytest

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    Bags,
    MessagePassingClassifier,
    PooledClassifier,
    Task,
    Training,
)
from sparsetoken.bags import temporary_files
from sparsetoken.bags.temporary_files import BLOCK_BYTES, is_mapped
from sparsetoken.simulation.two_steps import two_steps
from tests.helpers import planted_bags

MEGABYTE = 2**20


@pytest.fixture
def peak():
    """A function giving the most megabytes held at once since it was last called."""
    tracemalloc.start()

    def megabytes() -> float:
        most = tracemalloc.get_traced_memory()[1] / MEGABYTE
        tracemalloc.reset_peak()
        return most

    yield megabytes
    tracemalloc.stop()


def test_tensor_sampler_streams(peak):
    task, training, d = Task(length=100), Training(alpha0=0.35), 2000
    size = 8 * round(training.alpha0 * d) * task.length * d / MEGABYTE
    assert size > 1000
    peak()
    steps = two_steps(task, training, d, 0, sampler="tensor")
    assert peak() < 60
    assert steps.n0 == 700 and np.isfinite(steps.cosine["q"])


def mapped_bags(path, n: int, length: int, d: int) -> tuple[np.memmap, np.ndarray]:
    """Bags in a file in single precision, and labels; drawn and written twenty at a time."""
    X, y = np.memmap(path, dtype=np.float32, mode="w+", shape=(n, length, d)), np.empty(n, dtype=int)
    for first in range(0, n, 20):
        X[first : first + 20], y[first : first + 20], _ = planted_bags(first, 20, length, d, strength=9.0)
    X.flush()
    return np.memmap(path, dtype=np.float32, mode="r", shape=X.shape), y


def test_estimators_fit_and_predict_from_a_file_within_memory(tmp_path, peak):
    X, y = mapped_bags(tmp_path / "tokens", 1200, 128, 512)
    assert X.nbytes / MEGABYTE == 300
    peak()
    staged = AttentionClassifier(split=0.5, sharpness=2.0, ridge=1e-2).fit(X, y)
    assert peak() < 60
    right = np.mean(staged.predict(X) == y)
    assert peak() < 60
    assert right > 0.9


@pytest.mark.parametrize(
    "make",
    [lambda: BagClassifier(lift=10, ridge=0.1), lambda: MessagePassingClassifier(sparsity=1)],
    ids=["refined", "mp"],
)
def test_trainings_with_copies_of_the_tokens_keep_them_in_files(tmp_path, peak, monkeypatch, make):
    """Scaled, lifted and whitened copies and the folds' subsets make several times the tokens; memory sees blocks of them."""
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", MEGABYTE)
    X, y = mapped_bags(tmp_path / "tokens", 400, 128, 256)
    assert X.nbytes / MEGABYTE == 50
    peak()
    fitted = make().fit(X, y)
    assert peak() < 35  # the bags' statistics, four numbers per bag and feature, make 3 MB here, with some copies
    assert np.mean(fitted.predict(X) == y) > 0.9


FIXED = [
    PooledClassifier,
    lambda: AttentionClassifier(random_state=1),
    lambda: BagClassifier(lift=5),
    MessagePassingClassifier,
]


@pytest.mark.parametrize("make", FIXED)
def test_a_file_gives_what_memory_gives(tmp_path, make, monkeypatch):
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 1000)
    X, y = mapped_bags(tmp_path / "tokens", 120, 6, 30)
    inside = np.array(X)
    assert is_mapped(X) and not is_mapped(inside)
    from_file, from_memory = make().fit(X, y), make().fit(inside, y)
    np.testing.assert_array_equal(from_file.decision_function(X), from_memory.decision_function(inside))


def test_indexed_bags_of_a_file_lie_in_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary_files, "BLOCK_BYTES", 1000)
    X, _ = mapped_bags(tmp_path / "tokens", 20, 6, 30)
    some = Bags(X)[np.array([7, 3])]
    assert is_mapped(some.tokens)
    np.testing.assert_array_equal(some[0], X[7])
    np.testing.assert_array_equal(some[1], X[3])


def test_batches_cover_the_bags_in_order():
    d = 256
    a_bag = BLOCK_BYTES // (8 * d)  # tokens that fill a batch
    rng = np.random.default_rng(0)
    bags = Bags([rng.random((n, d)) for n in (a_bag // 2, a_bag // 2, a_bag // 3, 2 * a_bag, 1)])
    parts = list(bags.batches())
    assert [len(part) for part in parts] == [2, 1, 1, 1]
    assert np.concatenate([part.ids for part in parts]).tolist() == bags.ids.tolist()
    for bag, again in zip(bags, (b for part in parts for b in part)):
        np.testing.assert_array_equal(bag, again)
