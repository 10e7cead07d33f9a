"""Trained here, tested there: a trained readout on the bags of another law.

Once the fixed point (m_q, m_u, nu, b) is solved on the training law, the score of a bag of any other law seen by the same query
is m_q T + m_u S + b + kappa sqrt(m_u^2 + nu^2) G, with that law's (T, S, kappa). Only the averages over fresh bags change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._core.validation import real_number
from ..laws.law import Law
from ..laws.measures import fresh_measures, mean_and_scatter, score_laws
from ..laws.nodes import Population
from .continuation import WarmStart
from .errors import AccuracyError
from .refinement import SAFETY

_SAME_QUERY = 1e-9  # difference of two cosines that rounding explains


class Tested(NamedTuple):
    """A readout's measures on fresh bags of a law.

    Attributes
    ----------
    values, errors : dict of str to float
        The measures, and their standard errors from both samplings: of the law they are taken on and of the one the readout
        was solved on.
    law_error : float
        What the sampling of the test law alone leaves in the test error.
    """

    values: dict[str, float]
    errors: dict[str, float]
    law_error: float

    @property
    def law_dominates(self) -> bool:
        """Whether the test law's sampling makes the larger part of the test error's standard error."""
        return self.law_error**2 >= 0.5 * self.errors["test_error"] ** 2


def check_same_geometry(trained: Law, tested: Law) -> None:
    """Raise ValueError unless (m_q, m_u, nu) of a readout trained on one law mean the same on the other."""
    if tested.dimension_factor != trained.dimension_factor:
        raise ValueError(
            f"law must have features of the training's dimension ({trained.dimension_factor} d), "
            f"got {tested.dimension_factor} d"
        )
    here, there = trained.parameters.get("cosine"), tested.parameters.get("cosine")
    if here is not None and there is not None and abs(here - there) > _SAME_QUERY:
        raise ValueError(f"law must be seen by the training's query (cosine {here:g}), got cosine {there:g}")


def shifted(x: np.ndarray, bias_shift: float) -> np.ndarray:
    """Fixed points (m_q, m_u, log nu, b, log V) with another bias."""
    moved = np.array(x, dtype=float)
    moved[..., 3] += bias_shift
    return moved


def error_at(x: np.ndarray, population: Population) -> float:
    """Test error alone of the readout x, averaged over the replicates of a population."""
    positive, negative = score_laws(x, population)
    return float(np.mean(fresh_measures(positive, negative, population.prevalence, _no_auc)["test_error"]))


def _no_auc(positive, negative) -> np.ndarray:
    return np.full(1, np.nan)  # pairs are the slow part, and not wanted


def measures_at(x: np.ndarray, own_x: np.ndarray, population: Population) -> Tested:
    """Measures on fresh bags of a population, of a readout with sampling errors of its own.

    Parameters
    ----------
    x : ndarray (5,)
        The readout as (m_q, m_u, log nu, b, log V).
    own_x : ndarray (replicates, 5)
        What each replicate of the training law would have had by itself; one row where the training law is exact.
    population : Population
        The law of the test bags.

    Returns
    -------
    Tested
        Replicates of the two laws are taken in pairs where both have as many, so that what they share is counted once.
    """
    common = {name: mean_and_scatter(v) for name, v in _fresh(x, population).items()}
    law_errors = {name: error for name, (_, error) in common.items()}
    if 1 in (len(own_x), population.replicates) or len(own_x) == population.replicates:
        errors = {name: mean_and_scatter(v)[1] for name, v in _fresh(own_x, population).items()}
    else:  # no pairs: the two samplings are independent, and their variances add
        rows = [{name: float(np.mean(v)) for name, v in _fresh(one, population).items()} for one in own_x]
        own = {name: mean_and_scatter(np.array([row[name] for row in rows]))[1] for name in common}
        errors = {name: float(np.hypot(own[name], law_errors[name])) for name in common}
    return Tested({name: mean for name, (mean, _) in common.items()}, errors, law_errors["test_error"])


def _fresh(x: np.ndarray, population: Population) -> dict[str, np.ndarray]:
    """Measures of each replicate, at its own x (rows) or at a common one."""
    return fresh_measures(*score_laws(x, population), population.prevalence)


def tested_elsewhere(
    result: Any, law: Any, measured: Callable[..., dict], solve: Callable[[WarmStart], Any], accuracy: float
) -> tuple[Any, dict, dict]:
    """Measures on fresh bags of another law, both samplings refined until the accuracy is met.

    Parameters
    ----------
    result : HeadsResult or ColouredResult
        The trained readout.
    law : HeadsLaw or ColouredLaw
        That of the test bags.
    measured : callable
        (points, fixed points) -> the measures of each replicate of the test law at that level.
    solve : callable
        WarmStart -> the same training solved on as many draws as it says.
    accuracy : float
        Absolute error allowed on the test error.

    Returns
    -------
    tuple
        The readout, solved again where its draws were too few, and its measures with standard errors from both samplings.

    Raises
    ------
    AccuracyError
        Where the accuracy is not met at the finest samplings.
    """
    accuracy = real_number("accuracy", accuracy, 0.0, open_low=True)
    points = max(result.points, law.first_points)
    while True:
        common = {name: mean_and_scatter(v) for name, v in measured(points, result.fixed_point).items()}
        own = {name: mean_and_scatter(v) for name, v in measured(points, result.own_fixed_points).items()}
        error, of_the_law = own["test_error"][1], common["test_error"][1]
        shortfall = SAFETY * error / accuracy
        if shortfall <= 1:
            break
        finer, finer_training = law.finer(points, shortfall), result.law.finer(result.points, shortfall)
        if finer is not None and (of_the_law**2 >= 0.5 * error**2 or finer_training is None):
            points = finer
        elif finer_training is not None:
            result = solve(WarmStart(result.fixed_point, finer_training))
        else:
            raise AccuracyError(
                f"accuracy {accuracy:g} on the test error is not reached: standard error {error:.1e} at the finest sampling; "
                f"ask for at least {SAFETY * error:.1e}"
            )
    return result, {name: mean for name, (mean, _) in common.items()}, {name: error for name, (_, error) in own.items()}
