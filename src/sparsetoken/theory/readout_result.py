"""What the limits of all trained readouts have in common, whatever law their features follow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ..losses import Loss
from ..results import NOT_PLAIN, ClassifierResult
from .continuation import WarmStart

AnyLaw = TypeVar("AnyLaw")


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadoutResult(ClassifierResult, Generic[AnyLaw]):
    """Limits of a trained readout, and how they were solved for.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `tested`; `model` is the law's name.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; standard errors come from the law's sampling.
    residual : float
        Largest entry of the undamped scaled residual.
    iterations : int
        Evaluations that it took.
    alpha, ridge : float
        The problem: n/d and lambda.
    points : int
        Draws per replicate and class that the accuracy needed; 0 without draws: for exact laws, and on the nodes of a
        quadrature rule.
    law, loss
        The rest of the problem.
    fixed_point : ndarray (unknowns,)
        The unknowns as the solver holds them.
    own_fixed_points : ndarray (replicates, unknowns)
        What each replicate of the law's sampling would have had by itself.
    test_law : optional
        The law of the fresh bags, where it is another one than the training's (see `on` of the results).
    """

    residual: float
    iterations: int
    alpha: float
    ridge: float
    points: int
    law: AnyLaw = field(compare=False, metadata=NOT_PLAIN)
    loss: Loss | str = field(metadata=NOT_PLAIN)
    fixed_point: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    own_fixed_points: np.ndarray = field(compare=False, metadata=NOT_PLAIN)
    test_law: AnyLaw | None = field(default=None, compare=False, metadata=NOT_PLAIN)

    def _setting(self) -> str:
        return f"{self._classifier()}, alpha={self.alpha:g}, ridge={self.ridge:g}"

    def _classifier(self) -> str:
        """The readout's features in words."""
        return self.model

    @property
    def warm_start(self) -> WarmStart:
        """What a neighbouring problem may start from."""
        return WarmStart(self.fixed_point, self.points or None)

    @staticmethod
    def _record(law: AnyLaw, bias_shift: float) -> dict[str, Any]:
        """What a result says of the law it was trained or tested on."""
        raise NotImplementedError

    def _tested_on(
        self, law: AnyLaw, bias_shift: float, values: dict[str, Any], errors: dict[str, float], **more: Any
    ) -> Self:
        """This readout with its measures on fresh bags of another law, and their standard errors."""
        return replace(
            self,
            **values,
            standard_error=errors["test_error"],
            errors={**self.errors, **{name: error for name, error in errors.items() if name != "test_error"}},
            test_law=law,
            trained=self._record(self.law, 0.0),
            tested=self._record(law, bias_shift),
            **more,
        )
