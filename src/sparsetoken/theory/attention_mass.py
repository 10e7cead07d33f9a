"""How much attention falls on the signal: the law of the mass that a softmax puts on a bag's signal tokens.

With t_l the tokens' coordinates along the query, p = softmax(k t), the mass is M = sum over signal tokens of p_l. Before any
training p_l = 1/L and M = R/L. In a negative bag M is that of the same places, which hold noise: R/L on average.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._core.replicates import standard_error
from .._core.validation import real_number
from ..laws.populations import draws_of_kinds
from ..laws.statistics import signal_masses
from ..task import Task

POINTS = 1024  # draws per replicate: standard errors of about 1e-4 on the mean mass


@dataclass(frozen=True)
class AttentionMass:
    """The law of the attention mass on signal tokens.

    Attributes
    ----------
    mean, standard_error : float
        Of the mass in positive bags.
    negative_mean, negative_standard_error : float
        Of the mass at the same places of negative bags.
    uniform : float
        R/L, what uniform attention has.
    draws : ndarray (replicates, points)
        Masses in positive bags, in independent replicates.
    """

    mean: float
    standard_error: float
    negative_mean: float
    negative_standard_error: float
    uniform: float
    draws: np.ndarray = field(repr=False, compare=False)

    @property
    def amplification(self) -> float:
        """The mean mass in positive bags over that of uniform attention."""
        return self.mean / self.uniform

    def shares(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the bins between the edges (the first and the last take what lies outside), and their errors."""
        inner = np.asarray(edges, float)[1:-1]
        bins = len(inner) + 1
        each = np.stack([np.bincount(np.searchsorted(inner, row), minlength=bins) / len(row) for row in self.draws])
        return each.mean(axis=0), standard_error(each)


def attention_mass(task: Task, cosine: float, sharpness: float, *, points: int = POINTS) -> AttentionMass:
    """The law of the mass that attention with a given query puts on signal tokens.

    Parameters
    ----------
    task : Task
        The bags, all of one kind.
    cosine : float
        gamma, the query's cosine with the signal.
    sharpness : float
        k = beta ||q||, the inverse temperature.
    points : int
        Draws per replicate.

    Returns
    -------
    AttentionMass
    """
    gamma, k = real_number("cosine", cosine, -1.0, 1.0), real_number("sharpness", sharpness, 0.0)
    length, sparsity, strength, _ = task.only_kind("the law of the attention mass")
    (draws,) = draws_of_kinds(task, points)
    positive, negative = (np.asarray(m) for m in signal_masses(draws, strength, gamma, k))
    means = positive.mean(axis=1), negative.mean(axis=1)
    return AttentionMass(
        float(means[0].mean()),
        standard_error(means[0]),
        float(means[1].mean()),
        standard_error(means[1]),
        sparsity / length,
        positive,
    )
