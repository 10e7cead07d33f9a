"""How much attention falls on the signal: the law of the mass that a softmax puts on a bag's signal tokens, or on the same
places of a negative bag."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._core.averages import standard_error, with_error
from .._core.validation import real_number, whole_number
from ..laws.bag_statistics import signal_masses
from ..laws.draws import POINTS
from ..laws.error_measures import mean_and_scatter
from ..laws.populations import draws_of_kinds
from ..plotting.show import axes_for, legend_above
from ..plotting.style import REFERENCE, colour
from ..results import NOT_PLAIN, Result
from ..task import Task


@dataclass(frozen=True, repr=False)
class AttentionMass(Result):
    """The law of the attention mass on signal tokens.

    Attributes
    ----------
    mean, standard_error : float
        Of the mass in positive bags.
    negative_mean, negative_standard_error : float
        Of the mass at the same places of negative bags.
    uniform, amplification : float
        R/L, the mass under uniform attention, and the mean mass in positive bags over it.
    draws : ndarray (replicates, points)
        Masses in positive bags, in independent replicates.
    """

    mean: float
    standard_error: float
    negative_mean: float
    negative_standard_error: float
    uniform: float
    amplification: float
    draws: np.ndarray = field(compare=False, metadata=NOT_PLAIN)

    def _words(self) -> str:
        mean = with_error(self.mean, self.standard_error)
        return f"on signal tokens {mean}, {self.amplification:.3g} times that of uniform attention"

    def plot(self, ax: Any = None) -> Any:
        """The law of the mass in positive bags, with the mass under uniform attention."""
        ax = axes_for(ax)
        edges = np.linspace(0.0, 1.0, 21)
        shares, _ = self.shares(edges)
        ax.bar(edges[:-1], shares, width=edges[1], align="edge", color=colour("attention"), label="positive bags")
        ax.axvline(self.uniform, color=REFERENCE, linestyle="--", label="uniform attention")
        ax.set(xlim=(0, 1), xlabel="attention mass on the signal tokens", ylabel="share of bags")
        legend_above(ax)
        return ax

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
    cosine, sharpness
        As in `attention_law`.
    points : int
        Draws per replicate.
    """
    Task.require(task)
    gamma, k = real_number("cosine", cosine, -1.0, 1.0), real_number("sharpness", sharpness, 0.0)
    length, sparsity, strength, _ = task.only_kind("the law of the attention mass")
    (draws,) = draws_of_kinds(task, whole_number("points", points, 1))
    positive, negative = (np.asarray(m) for m in signal_masses(draws, strength, gamma, k))
    (mean, error), (negative_mean, negative_error) = (mean_and_scatter(m.mean(axis=1)) for m in (positive, negative))
    uniform = sparsity / length
    return AttentionMass(mean, error, negative_mean, negative_error, uniform, mean / uniform, positive)
