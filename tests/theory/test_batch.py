"""The batched solver, on whatever device JAX has: the same test runs on a CPU and on a GPU."""

import numpy as np
import pytest

from sparsetoken import Task, theory
from sparsetoken.theory.batch import erm_batch


def test_batch_is_the_scalar_solver_whatever_the_chunks():
    """Same draws, same fixed points: agreement to the solver's tolerance, not to sampling error."""
    task = Task()
    strength, ridge = np.meshgrid([2.0, 5.0], [1e-5, 1e-2, 10.0], indexing="ij")
    found = erm_batch(task, strength=strength, cosine=0.8, sharpness=1.2, alpha=2.0, ridge=ridge, chunk=4)
    assert found["test_error"].shape == (2, 3) and (found["residual"] <= 1e-8).all()
    for index in np.ndindex(2, 3):
        law = theory.attention_law(task.but(strength=strength[index]), 0.8, 1.2)
        one = theory.erm(law, 2.0, ridge[index], accuracy=1.0)  # the first level: the batch's 256 draws
        for name in ("test_error", "train_loss", "norm_w", "V", "standard_error"):
            assert found[name][index] == pytest.approx(getattr(one, name), rel=2e-6, abs=1e-9), (name, index)
    # The second chunk was padded. Four of the points fill one, in other company than before, and are what they were.
    some = erm_batch(
        task, strength=strength[:, ::2], cosine=0.8, sharpness=1.2, alpha=2.0, ridge=ridge[:, ::2], chunk=4
    )
    np.testing.assert_allclose(some["test_error"], found["test_error"][:, ::2], rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ridge": 0.0}, "ridge"),
        ({"cosine": 2.0}, "cosine"),
        ({"alpha": np.nan}, "alpha"),
        ({"device": "tpu9"}, "device"),
    ],
)
def test_bad_batches(change, words):
    given = {"cosine": 0.5, "sharpness": 1.0, "alpha": 1.0, "ridge": 0.1} | change
    with pytest.raises(ValueError, match=words):
        erm_batch(Task(), **given)
