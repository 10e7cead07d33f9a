"""Where a trained classifier is used, when that is not where it was trained: `Deployment`.

Training sees one task; the bags that come later may be longer, rarer or weaker, and the classifier itself may be given another
sharpness or another threshold. Theory and simulation read such a change from the same three arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._core.validation import real_number, rejection
from .models import check_model
from .task import Task


@dataclass(frozen=True)
class Deployment:
    """The bags a trained classifier meets, and what is changed in it.

    Attributes
    ----------
    task : Task
        What the test bags are.
    sharpness : float or None
        k = beta ||q|| at test time; None keeps the trained one.
    bias_shift : float
        Added to the trained bias b.
    """

    task: Task
    sharpness: float | None = None
    bias_shift: float = 0.0

    def record(self, trained_on: Task, sharpness: float) -> dict[str, Any]:
        """The fields `trained` and `tested` of a result.

        Parameters
        ----------
        trained_on : Task
            What the training bags were.
        sharpness : float
            The trained k; NaN without a query.

        Returns
        -------
        dict
            Both as flat dictionaries with the same keys.
        """
        at_test = sharpness if self.sharpness is None else self.sharpness
        return {
            "trained": {**trained_on.to_dict(), "sharpness": sharpness, "bias_shift": 0.0},
            "tested": {**self.task.to_dict(), "sharpness": at_test, "bias_shift": self.bias_shift},
        }


def deployment_of(
    model: str,
    task: Task,
    test_task: Task | Mapping[str, Any] | None,
    test_sharpness: float | None,
    test_bias_shift: float,
) -> Deployment | None:
    """The deployment that the arguments of `forecast` and `simulate` describe.

    Parameters
    ----------
    model : str
        The classifier.
    task : Task
        What it is trained on.
    test_task : Task, mapping or None
        What it is tested on, or the fields in which that differs from `task`.
    test_sharpness : float or None
        k at test time.
    test_bias_shift : float
        Added to the bias at test time.

    Returns
    -------
    Deployment or None
        None where nothing is changed.

    Raises
    ------
    ValueError
        If the model cannot be tested this way.
    """
    shift = real_number("test_bias_shift", test_bias_shift, -float("inf"), open_low=True)
    if test_task is None and test_sharpness is None and shift == 0.0:
        return None
    known = check_model(model)
    if not known.trainable:
        raise ValueError(
            f"test_task, test_sharpness and test_bias_shift are for trained classifiers, not for {model!r}"
        )
    if isinstance(test_task, Mapping):
        elsewhere = task.but(**test_task)
    elif test_task is None or isinstance(test_task, Task):
        elsewhere = task if test_task is None else test_task
    else:
        raise rejection("test_task", test_task, "a Task or a mapping of the fields that differ")
    if model == "vectorized" and elsewhere.length != task.length:
        raise ValueError(
            f"test_task must have the training's length ({task.length}) for the vectorized model, which has weights for "
            f"every token, got {elsewhere.length}"
        )
    if test_sharpness is not None:
        if not known.has_query:
            raise ValueError(f"test_sharpness is for models with a query, not for {model!r}")
        test_sharpness = real_number("test_sharpness", test_sharpness, 0.0)
    return Deployment(elsewhere, test_sharpness, shift)


def check_query_to_sharpen(deployment: Deployment | None, norm_q: float) -> None:
    """Raise ValueError where another sharpness is wanted of a query that vanishes (L = 1, for example)."""
    if deployment is not None and deployment.sharpness and norm_q == 0:
        raise ValueError("test_sharpness needs a query with a direction, and the trained one vanishes")
