"""What a training run did, step by step: the result that theory and simulation share.

Entry t of every array is the state after t steps (entry 0 the start). The classifier predicts +1 where the score is positive
and -1 where it is negative; a score of exactly zero, as at a zero start, counts as half a mistake in either class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._core.arrays import namespace
from ._core.averages import standard_error, with_error
from ._core.frozen import freeze_fields
from ._core.validation import real_number, whole_number
from .plotting.show import Shown, axes_for, legend_above
from .plotting.style import TEST_ERROR, TRAINING_ERROR
from .results import ClassifierResult

SCALARS = ("test_error", "train_loss", "train_error", "auc", "sensitivity", "specificity", "bias")


def mistakes(score: Any, y: Any) -> Any:
    """1 where sign(score) differs from y, 1/2 where the score is exactly zero, else 0 (NumPy or JAX): the one rule for ties."""
    xp = namespace(score, y)
    return xp.where(score == 0, 0.5, xp.where(score * y < 0, 1.0, 0.0))


def steps_tested(tested: Sequence[int] | None, entries: int) -> np.ndarray:
    """The steps among 0 .. entries - 1 at which test measures are computed, in order and once each; None for all."""
    if tested is None:
        return np.arange(entries)
    which = sorted({whole_number("tested", step, 0) for step in tested})
    if not which or which[-1] >= entries:
        raise ValueError(f"tested must hold at least one step, and none beyond {entries - 1}, got {list(tested)!r}")
    return np.array(which)


def at_steps(values: np.ndarray, which: np.ndarray, entries: int) -> np.ndarray:
    """`values` at the steps `which` of `entries`, and not a number at the others."""
    spread = np.full(entries, np.nan)
    spread[which] = values
    return spread


@dataclass(frozen=True, eq=False)
class Trajectory(Shown):
    """A training run over T steps: arrays with T + 1 entries, entry t after t steps. Nothing in it can be changed.

    Attributes
    ----------
    directions : tuple of str
        Names of the model's r directions.
    test_error : ndarray
        Probability that a new bag is misclassified.
    train_loss, train_error : ndarray
        Mean loss and share of mistakes on the data set of step t, before that step; the last entry on the data set that a
        further step would use.
    auc, sensitivity, specificity : ndarray
        Of the classifier on new bags.
    bias : ndarray
        b.
    overlap : mapping of str to ndarray
        <theta_a, xi> for each direction a.
    cosine : mapping of str to ndarray
        cos(theta_a, xi) for each direction a; 0 where the direction is zero.
    gram : ndarray (T + 1, r, r)
        Theta^T Theta.
    errors : mapping
        Standard errors, with the same keys and shapes as the fields above.
    model : str
        The bag model's name.
    details : mapping
        How the numbers were computed (draws, repeats, seconds and the like).
    """

    directions: tuple[str, ...]
    test_error: np.ndarray
    train_loss: np.ndarray
    train_error: np.ndarray
    auc: np.ndarray
    sensitivity: np.ndarray
    specificity: np.ndarray
    bias: np.ndarray
    overlap: Mapping[str, np.ndarray]
    cosine: Mapping[str, np.ndarray]
    gram: np.ndarray
    errors: Mapping[str, Any] = field(default_factory=dict)
    model: str = "custom"
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def steps(self) -> int:
        """T, the number of steps."""
        return len(self.test_error) - 1

    @property
    def standard_error(self) -> np.ndarray:
        """Standard errors of the test error over the steps (zeros where none were estimated)."""
        return np.asarray(self.errors.get("test_error", np.zeros(self.steps + 1)))

    @property
    def best_step(self) -> int:
        """The step with the least test error, of those that were tested."""
        return int(np.nanargmin(self.test_error))

    def norm(self, name: str) -> np.ndarray:
        """||theta_a|| of the direction of that name over the steps."""
        a = self.directions.index(name)
        return np.sqrt(np.maximum(self.gram[:, a, a], 0.0))

    def __repr__(self) -> str:
        t, best = int(np.flatnonzero(np.isfinite(self.test_error))[-1]), self.best_step

        def value(i):
            return with_error(self.test_error[i], self.standard_error[i])

        end = "at the end" if t == self.steps else f"at step {t}"
        return (
            f"Trajectory({self.model}, {self.steps} steps: test error {value(t)} {end}, {value(best)} at step {best})"
        )

    def columns(self) -> dict[str, np.ndarray]:
        """All values and standard errors under flat names, such as "overlap[q]", "gram[q,w]" and "test_error_se"."""
        plain: dict[str, np.ndarray] = {"step": np.arange(self.steps + 1)}
        values = {key: getattr(self, key) for key in (*SCALARS, "overlap", "cosine", "gram")}
        for suffix, table in (("", values), ("_se", self.errors)):
            for key in SCALARS:
                if key in table:
                    plain[key + suffix] = np.asarray(table[key])
            for key in ("overlap", "cosine"):
                if key in table:
                    plain |= {f"{key}[{name}]{suffix}": np.asarray(table[key][name]) for name in self.directions}
            if "gram" in table:
                for i, a in enumerate(self.directions):
                    for j, b in enumerate(self.directions[i:], i):
                        plain[f"gram[{a},{b}]{suffix}"] = np.asarray(table["gram"])[:, i, j]
        return plain

    def frame(self) -> Any:
        """A pandas table, one row per step, with the columns of `columns`."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the model's name, the best step and the columns as lists."""
        columns = {name: values.tolist() for name, values in self.columns().items()}
        return {"model": self.model, "best_step": self.best_step, "columns": columns}

    def plot(self, ax: Any = None) -> Any:
        """Test and training error over the steps with two standard errors around them, the best step marked."""
        ax = axes_for(ax)
        step = np.arange(self.steps + 1)
        both = ("test_error", "test error", TEST_ERROR), ("train_error", "training error", TRAINING_ERROR)
        for key, label, colour in both:
            value = np.asarray(getattr(self, key))
            ax.plot(step, value, color=colour, label=label)
            error = 2 * np.asarray(self.errors.get(key, np.zeros_like(value)))
            ax.fill_between(step, value - error, value + error, color=colour, alpha=0.25, linewidth=0)
        best = self.best_step
        ax.plot([best], [self.test_error[best]], "o", color=TEST_ERROR, label=f"best: {self.test_error[best]:.4f}")
        ax.set(xlabel="gradient step t", ylabel="error", title=self.model)
        ax.xaxis.get_major_locator().set_params(integer=True)
        legend_above(ax)
        return ax


def mean_trajectory(runs: Sequence[Trajectory]) -> Trajectory:
    """The mean of independent runs of one training, with standard errors of the mean.

    Parameters
    ----------
    runs : sequence of Trajectory
        At least two, of the same model and length; their scatter includes that of the numerical integration.
    """
    if len(runs) < 2 or len({(run.directions, run.steps) for run in runs}) > 1:
        raise ValueError("runs must be two or more trajectories of the same model and number of steps")

    def averaged(values: list[Any]) -> tuple[Any, Any]:
        if isinstance(values[0], Mapping):
            pairs = {name: averaged([value[name] for value in values]) for name in values[0]}
            means, errors = ({name: pair[k] for name, pair in pairs.items()} for k in (0, 1))
            return means, errors
        return np.mean(values, axis=0), standard_error(values)

    names = (*SCALARS, "gram", "overlap", "cosine")
    fields, errors = averaged([{name: getattr(run, name) for name in names} for run in runs])
    details = {k: v for k, v in runs[0].details.items() if k not in ("seed", "seconds")} | {"runs": len(runs)}
    return Trajectory(directions=runs[0].directions, **fields, errors=errors, model=runs[0].model, details=details)


@dataclass(frozen=True, kw_only=True, repr=False)
class JointEnd(ClassifierResult):
    """Where joint training of a bag model ends.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; `overlap` and `cosine` by the directions' names. Fields of a single readout are NaN.
    directions : tuple of str
        Names of the model's r directions.
    gram : ndarray (r, r)
        Q = Theta^T Theta.
    V : ndarray (r, r)
        The response of a bag's fields to its own training: (1/n) Tr_d of the inverse Hessian, H_i = omega_i - (dl/dH_i) V.
    best_bias, best_bias_error : float
        The bias with the least test error for the same directions, and that error.
    refitted_bias, refitted_error : float
        The bias of a logistic regression on the training bags' leave-one-out scores, and its test error.
    leave_one_out_error : float
        Share of mistakes of these scores at the trained bias: an estimate of the test error without test bags.
    replicon : float
        Below 1 the solution is stable; above, training has many ends, and this one describes them only roughly.
    residual : float
        Theory: largest undamped relative change of the order parameters. Simulation: largest entry of the gradient.
    coexist : bool or None
        Whether the informed and the uninformed start end at different points; None where the other start's iteration did
        not converge.
    """

    directions: tuple[str, ...]
    gram: np.ndarray
    V: np.ndarray
    best_bias: float
    best_bias_error: float
    refitted_bias: float
    refitted_error: float
    leave_one_out_error: float
    replicon: float = math.nan
    residual: float = math.nan
    coexist: bool | None = None


def decay_by_direction(names: tuple[str, ...], decay: Any) -> dict[str, float]:
    """A weight decay above 0 for every direction, from one number or one for each name."""
    decays = decay if isinstance(decay, Mapping) else dict.fromkeys(names, decay)
    if set(decays) != set(names):
        raise ValueError(f"decay must be a number or name {', '.join(names)}, got {decay!r}")
    return {name: real_number(f"decay[{name!r}]", decays[name], 0.0, open_low=True) for name in names}
