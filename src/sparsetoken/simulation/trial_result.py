"""What one trial gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..results import ClassifierResult


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulationResult(ClassifierResult):
    """What one trial gives.

    Attributes
    ----------
    model, test_error, standard_error, auc, sensitivity, specificity, balanced_error
        As in `results.ClassifierResult`, like all fields down to `errors`: the finite counterparts of `forecast`'s.
    train_loss, train_error, norm_w, bias, overlap, cosine, m_q, m_u, nu, sharpness, steps, errors, trained, tested
        See there; standard errors are those of the numerical integration.
    sampler : str
        "reduced" or "tensor".
    d, seed : int
        Dimension of a token, and the seed all randomness came from.
    n0, n1 : int
        Samples of the query (0 for models without one) and of the readout: the same ones twice for "reuse" and "joint".
    token_overlaps : tuple of float
        <W_l, xi> for each token l of the vectorized model; empty for the others.
    stopped, gradient_norm : str, float
        How the last optimisation ended (see `solvers.erm`); "steps" and NaN for joint training, which takes its number of
        steps.
    converged : bool
        Whether it ended as it should, at a minimum or (joint) after its steps; if not, `simulate` warns.
    sampled_error, sampled_standard_error : float
        Test error, on true labels, counted on `test_samples` fresh bags, and its standard error (NaN when none were asked for).
    noise : str
        What the noise is called: "gaussian", "coloured", or the name of another.
    seconds : mapping
        Time spent, stage by stage.
    """

    sampler: str
    d: int
    seed: int
    n0: int
    n1: int
    stopped: str
    gradient_norm: float
    converged: bool
    sampled_error: float = math.nan
    sampled_standard_error: float = math.nan
    token_overlaps: tuple[float, ...] = ()
    noise: str = "gaussian"
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)

    def _setting(self) -> str:
        return f"{self.model}, d={self.d}, seed={self.seed}"
