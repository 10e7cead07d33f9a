"""The bags and settings of the test, where they are not those of the training: `Deployment`.

Later bags may be longer, positive ones rarer or their signal weaker; the classifier may get another sharpness or threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from ._core.frozen import Description
from ._core.validation import real_number, rejection, whole_number
from .classifiers import classifier
from .task import Task

_PREFIX = "test_"
_TASK_FIELDS = tuple(f.name for f in fields(Task))
_OWN_FIELDS = ("sharpness", "bias_shift", "samples")


@dataclass(frozen=True)
class Deployment(Description):
    """What a trained classifier is tested on, and what is changed in it; by default it is tested as it was trained.

    Parameters
    ----------
    task : Task or mapping, optional
        The test bags, or the fields in which they differ from those of the training; for the vectorized model they have the
        training's length.
    sharpness : float, optional
        k = beta ||q|| at test time, for models with a query; the trained one by default.
    bias_shift : float
        Added to the trained bias at test time.
    samples : int
        Simulations also count errors on that many fresh bags (tensor sampler only). In noise that is not Gaussian, where the
        test is counted anyway, the number of its bags. Theory needs none.
    """

    task: Task | Mapping[str, Any] | None = None
    sharpness: float | None = None
    bias_shift: float = 0.0
    samples: int = 0

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)
        if not (self.task is None or isinstance(self.task, Task | Mapping)):
            raise rejection("task of the deployment", self.task, "a Task or a mapping of the fields that differ")
        if self.sharpness is not None:
            put("sharpness", real_number("sharpness", self.sharpness, 0.0))
        put("bias_shift", real_number("bias_shift", self.bias_shift, -math.inf, open_low=True))
        put("samples", whole_number("samples", self.samples, 0))

    def filled_in(self, task: Task) -> Deployment:
        """A copy whose task fields are checked against a training task, and brought to its types."""
        if not isinstance(self.task, Mapping):
            return self
        complete = task.but(**self.task).to_dict()
        return replace(self, task={name: complete[name] for name in self.task})

    def of(self, model: str, task: Task) -> Deployment | None:
        """The test of a classifier trained on `task`, with its task complete; None where it is tested as it was trained."""
        if self.task is None and self.sharpness is None and self.bias_shift == 0.0:
            return None
        bags = task.but(**self.task) if isinstance(self.task, Mapping) else self.task or task
        chosen = classifier(model)
        if not chosen.trainable:
            raise ValueError(f"a deployment is for trained classifiers, not for {model!r}")
        if model == "vectorized" and bags.length != task.length:
            raise ValueError(
                f"the deployment must have the training's length ({task.length}) for the vectorized model, which has "
                f"weights for every token, got {bags.length}"
            )
        if self.sharpness is not None and not chosen.has_query:
            raise ValueError(f"the deployment's sharpness is for models with a query, not for {model!r}")
        return replace(self, task=bags)

    @property
    def bags(self) -> Task:
        """The task of the test, once it is complete (see `of`)."""
        assert isinstance(self.task, Task)
        return self.task

    def check_query(self, norm_q: float) -> None:
        """Raise ValueError where a sharpness is given for a query that vanishes (L = 1, for example)."""
        if self.sharpness and norm_q == 0:
            raise ValueError("the deployment's sharpness needs a query with a direction, and the trained one vanishes")

    def record(self, trained_on: Task, sharpness: float) -> dict[str, Any]:
        """The fields `trained` and `tested` of a result."""
        at_test = sharpness if self.sharpness is None else self.sharpness
        return {
            "trained": {**trained_on.to_dict(), "sharpness": sharpness, "bias_shift": 0.0},
            "tested": {**self.bags.to_dict(), "sharpness": at_test, "bias_shift": self.bias_shift},
        }

    @classmethod
    def field_names(cls) -> list[str]:
        """The names in plain data: `test_length` and so on for the fields of the task, then `test_sharpness`, ..."""
        return [_PREFIX + name for name in (*_TASK_FIELDS, *_OWN_FIELDS)]

    def to_dict(self) -> dict[str, Any]:
        """All values flat; None for what is as in training."""
        task = self.task.to_dict() if isinstance(self.task, Task) else self.task or {}
        values = {name: task.get(name) for name in _TASK_FIELDS} | {n: getattr(self, n) for n in _OWN_FIELDS}
        return {_PREFIX + name: value for name, value in values.items()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Deployment:
        """The deployment with these flat values (see `field_names`)."""
        cls._check_names(plain)
        values = {name.removeprefix(_PREFIX): value for name, value in plain.items() if value is not None}
        changed = {name: values.pop(name) for name in _TASK_FIELDS if name in values}
        return cls(changed or None, **values)


def deployment_of(deployment: Deployment | None, model: str, task: Task) -> Deployment | None:
    """The test that the argument `deployment` of `simulate` and `forecast` describes; None where it is as the training."""
    if deployment is None:
        return None
    Deployment.require(deployment)
    return deployment.of(model, task)
