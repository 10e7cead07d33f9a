"""How a classifier learns from a task: `Training`, frozen and validated like `Task`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from ._core.frozen import Description
from ._core.validation import LARGEST_RATIO, real_number, rejection, whole_number
from .losses import Loss, convex_loss, get_loss, loss_name, name_in_plain_data

LEAST_RIDGE = 1e-100  # the least positive ridge; 0 is allowed too
SCHEDULES = ("staged", "reuse", "joint")
MOST_PRODUCTS = 50  # where power iteration has ended


def number_of_products(method: object, least: int = 0, word: str = "products") -> int | None:
    """K of the name "products:K" (or with another word); None for other names, or K outside `least` to 50."""
    name, _, count = str(method).partition(":")
    return int(count) if name == word and count.isdecimal() and least <= int(count) <= MOST_PRODUCTS else None


@dataclass(frozen=True, repr=False)
class Training(Description):
    """The four-stage training of the attention classifier (and, by its last stage, of the others).

    One gradient step for (w, b) from zero and one for q, both on D0; then, on D1 and with the query fixed, the readout that
    minimises (1/n1) sum_i l(<w, f_i> + b; y_i) + (ridge/2) ||w||^2, bias unpenalised.

    Parameters
    ----------
    loss : str or Loss
        l(z; y): "logistic", "square", "smoothed_hinge", "exponential", or a registered one. "logistic:positives=9" (and so on)
        weighs positive bags nine times. "focal:2", which is not convex, is for the schedule "joint" only.
    alpha0 : float
        n0/d, samples of the two gradient steps per dimension.
    alpha1 : float
        n1/d, samples of the convex readout per dimension.
    eta_w : float
        Learning rate of the readout's one step.
    eta_b : float or "auto"
        Learning rate of the bias's one step. "auto" instead fits the bias before each use of the residuals, so that these sum
        to zero over D0: the intercept alone before the step for w, then with w before the step for q.
    eta_q : float
        Learning rate of the query's one step. With the default, 25, k = beta ||q2|| = 1.75 at the default task; a unit rate
        gives 0.07, hardly more than pooling.
    beta : float
        Inverse temperature of the softmax.
    ridge : float
        lambda of the readout's objective.
    schedule : {"staged", "reuse", "joint"}
        "staged": D0 and D1 are disjoint. "reuse": D0 serves again as D1 (n1 = n0, `alpha1` unused). "joint": plain gradient
        descent from zero on (q, w, b) together, on all (alpha0 + alpha1) d bags in every step, with constant rates eta_q, eta_w
        and eta_b (smaller ones than a single step takes: about 1 for the query).
    steps : int
        How many steps the schedule "joint" takes; ignored by the others.
    equal_samples : bool
        Give models without a query, pooled and vectorized, n0 + n1 samples (the others have used D0 already).
    query_by : str
        What gives the query its direction on D0. "steps": the second gradient step. A spectral start, for long bags and weak
        signals: "products:K", the first step's readout multiplied K >= 2 times with the labelled second moment
        sum_i c_i X_i^T P X_i, or "eigenvector", its top eigenvector ("positive_eigenvector": that of the positive bags alone).
        The residuals c_i are those of the intercept alone, so eta_b must be "auto", and the query is as long as one product
        would make it. Schedule "staged" only.
    """

    loss: str | Loss = "logistic"
    alpha0: float = 2.0
    alpha1: float = 2.0
    eta_w: float = 1.0
    eta_b: float | str = 1.0
    eta_q: float = 25.0
    beta: float = 1.0
    ridge: float = 1e-3
    schedule: str = "staged"
    steps: int = 50
    equal_samples: bool = False
    query_by: str = "steps"

    def __post_init__(self):
        put = partial(object.__setattr__, self)
        loss = get_loss(self.loss)
        name = name_in_plain_data(loss)  # one spelling per loss, so that equal trainings compare equal
        put("loss", self.loss if name is None else name)
        for name in ("alpha0", "alpha1"):
            put(name, real_number(name, getattr(self, name), 1 / LARGEST_RATIO, LARGEST_RATIO))
        for name in ("eta_w", "eta_q", "beta"):
            put(name, real_number(name, getattr(self, name), 0.0))
        if not isinstance(self.eta_b, str):
            put("eta_b", real_number("eta_b", self.eta_b, 0.0))
        elif self.eta_b != "auto" or self.schedule == "joint":
            raise rejection("eta_b", self.eta_b, "a number, or 'auto' with the schedules 'staged' and 'reuse'")
        put("ridge", real_number("ridge", self.ridge, 0.0, LARGEST_RATIO))
        if 0.0 < self.ridge < LEAST_RIDGE:
            raise rejection("ridge", self.ridge, f"0 or a number in [{LEAST_RIDGE:g}, {LARGEST_RATIO:g}]")
        if self.schedule not in SCHEDULES:
            raise rejection("schedule", self.schedule, f"one of {', '.join(SCHEDULES)}")
        if self.schedule != "joint":
            convex_loss(loss)
        put("steps", whole_number("steps", self.steps, 1))
        if not isinstance(self.equal_samples, bool):
            raise rejection("equal_samples", self.equal_samples, "true or false")
        self._check_query_by()

    def _check_query_by(self) -> None:
        named = self.query_by in ("steps", "eigenvector", "positive_eigenvector")
        if not named and number_of_products(self.query_by, 2) is None:
            ways = f"steps, products:K (K from 2 to {MOST_PRODUCTS}), eigenvector or positive_eigenvector"
            raise rejection("query_by", self.query_by, ways)
        if self.query_by != "steps" and (self.eta_b != "auto" or self.schedule != "staged"):
            raise ValueError(f"query_by={self.query_by!r} needs eta_b='auto' and the schedule 'staged'")

    def require_steps(self, what: str) -> None:
        """Raise ValueError unless the query's direction comes from the second gradient step; `what` needs it."""
        if self.query_by != "steps":
            raise ValueError(f"query_by must be 'steps' for {what}, got {self.query_by!r}")

    def __repr__(self) -> str:
        """The samples and the ridge, and what differs from the defaults."""
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.name in ("alpha0", "alpha1", "ridge") or getattr(self, f.name) != f.default
        ]
        return f"Training({', '.join(shown)})"

    @property
    def loss_function(self) -> Loss:
        """The `Loss` object behind `loss`."""
        return get_loss(self.loss)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; a loss that is not registered is refused."""
        return {**super().to_dict(), "loss": loss_name(self.loss)}
