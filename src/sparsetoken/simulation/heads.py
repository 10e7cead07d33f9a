"""Several attention heads at finite size: one trial, and the readout alone for given queries and signals.

The features of H heads stand side by side, and one readout w = (w_1 .. w_H) reads them all. From a zero start heads that see
the same data stay identical, so D0 is split among them: head h takes its two gradient steps on its share of n0/H bags.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ..activations import softmax
from ..deployment import Deployment
from ..laws.heads import HeadsLaw, head_scores, heads_law
from ..laws.signals import Signals
from ..losses import Loss
from ..results import cosine_of
from ..task import Task
from ..training import Training
from .readout import Measures, TrainedReadout, fit_readout, summarised
from .samplers.drawn_bags import check_size, draw_bags, sample_count
from .samplers.reduced import BLOCK_TOKENS
from .samplers.tensor import TensorData, draw_directions
from .seeds import stream, trial_seeds
from .trial import Trial
from .two_steps import SimulatedSteps, steps_on, two_steps


def draw_head_features(law: HeadsLaw, labels: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Features of H heads (n, H, d), exact in law: first the coordinates in the law's basis, along which tokens are drawn;
    outside it they are Gaussian, with the overlaps of the heads' weights as covariance."""
    basis = law.queries.shape[1]
    count, heads, (length, R, strength, _) = len(labels), law.heads, law.kind
    features = np.empty((count, heads, d))
    step = max(1, BLOCK_TOKENS // (length * basis))
    for first in range(0, count, step):
        rows = slice(first, min(first + step, count))
        t = rng.standard_normal((rows.stop - first, length, basis))
        positive = np.flatnonzero(labels[rows] > 0)
        which = law.carriers(rng.random(len(positive)), rng)
        t[positive, :R] += strength * law.signals[which]
        p = softmax(np.einsum("nld,hd->nhl", t, law.queries))
        features[rows, :, :basis] = p @ t
        # Heads that are alike make K singular: its symmetric root exists all the same.
        values, vectors = np.linalg.eigh(p @ p.transpose(0, 2, 1))
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        features[rows, :, basis:] = root @ rng.standard_normal((rows.stop - first, heads, d - basis))
    return features


def head_measures(law: HeadsLaw, coordinates: np.ndarray, gram: np.ndarray, bias: float) -> Measures:
    """Test error and the other measures of a readout of several heads."""
    nodes = law.at(2**10)  # draws per replicate: standard errors of a test error near 3e-4
    m_T, m_S = coordinates @ law.query_space, coordinates @ law.signal_space
    values = (m_T, m_S, np.float64(bias), gram - m_T @ m_T.T)
    positive, negative = head_scores(nodes, *(np.broadcast_to(a, (len(nodes.y), *np.shape(a))) for a in values))
    return summarised(positive, negative, law.prevalence)


def head_readout(
    law: HeadsLaw, alpha: float, ridge: float, d: int, seed: int, loss: str | Loss = "logistic"
) -> tuple[Measures, TrainedReadout]:
    """The readout of several heads alone, the finite twin of `theory.erm` on the same law.

    It minimises (1/n) sum l(sum_h <w_h, f_ih> + b; y_i) + (ridge/2) sum_h ||w_h||^2 over n = alpha d bags.

    Parameters
    ----------
    law : HeadsLaw
        Queries, signals and task, from `theory.heads_law`.
    alpha, ridge : float
        n/d, d the dimension of a token, and lambda.
    d, seed : int
        Dimension of a token, at least that of the law's basis plus one, and where all randomness comes from.
    loss : str or Loss
        l.
    """
    d, seed = check_size(d, seed, "reduced")
    if d <= law.queries.shape[1]:
        raise ValueError(f"d must be larger than the law's basis ({law.queries.shape[1]}), got {d}")
    labels = draw_bags(law.task, sample_count("alpha", alpha, d), seed, "1").labels
    features = draw_head_features(law, labels, d, stream(seed, "features"))
    readout = fit_readout(features.reshape(len(labels), -1), labels, ridge, loss)
    w = readout.w.reshape(law.heads, d)
    return head_measures(law, w[:, : law.queries.shape[1]], w @ w.T, readout.bias), readout


class HeadsTrial(Trial):
    """What both samplers have in common: the law of the heads' features, the measures, and where heads and readout point."""

    head_steps: list[SimulatedSteps]
    directions: np.ndarray  # the signals (J, d)
    space: np.ndarray  # orthonormal basis (d, dimension) that the signals' coordinates refer to

    @property
    def heads(self) -> int:
        return self.classifier.heads or 1

    @property
    def signals(self) -> Signals:
        return self.source.signals or Signals.of(1)

    @property
    def share(self) -> Training:
        """The training of one head's query."""
        return self.training.but(alpha0=self.training.alpha0 / self.heads)

    @property
    def query_norm(self) -> float:
        return float(np.mean([steps.norm["q"] for steps in self.head_steps]))

    def find_law(self) -> None:
        """The law of the features, in an orthonormal basis of signals and queries."""
        self.queries = np.stack([steps.query for steps in self.head_steps])
        self.basis, _ = np.linalg.qr(np.column_stack([self.space, self.queries.T]))
        size = self.space.shape[1]
        self.basis[:, :size] = self.space  # qr is free in its signs
        if self.d <= self.basis.shape[1]:
            more = "one" if size == 1 else f"the signals' coordinates ({size})"
            raise ValueError(f"d must be larger than the number of heads plus {more}, got {self.d}")
        self.in_basis = np.zeros((len(self.signals), self.basis.shape[1]))
        self.in_basis[:, :size] = self.signals.directions
        self.law = self.law_on(self.task, self.training.beta)

    def law_on(self, task: Task, scale: float) -> HeadsLaw:
        return heads_law(
            task,
            queries=scale * self.queries @ self.basis,
            signals=self.in_basis,
            shares=self.signals.shares,
            carried=self.signals.carried,
        )

    def special(self, w: np.ndarray) -> np.ndarray:
        """Coordinates (H, dimension) of every head's readout in the law's basis."""
        return w @ self.basis

    def measures(self, readout: TrainedReadout, test: Deployment) -> Measures:
        w = readout.w.reshape(self.heads, self.d)
        law = self.law_on(test.bags, self.scale_at(test))
        return head_measures(law, self.special(w), w @ w.T, readout.bias + test.bias_shift)

    def geometry(self, readout: TrainedReadout) -> dict[str, Any]:
        """Per signal: the readout against (xi_j, .., xi_j)/sqrt(H), and every query; a single signal has no number."""
        coordinates = self.special(readout.w.reshape(self.heads, self.d))
        overlap, cosine = {}, {}
        for j, direction in enumerate(self.directions):
            place = "" if self.source.signals is None else f":{j + 1}"
            along = float((coordinates @ self.in_basis[j]).sum()) / math.sqrt(self.heads)
            overlap[f"w{place}"], cosine[f"w{place}"] = along, cosine_of(along, readout.norm)
            for h, steps in enumerate(self.head_steps):
                along = float(steps.query @ direction)
                overlap[f"q{h + 1}{place}"], cosine[f"q{h + 1}{place}"] = along, cosine_of(along, steps.norm["q"])
        return {"overlap": overlap, "cosine": cosine, "sharpness": self.training.beta * self.query_norm}


class ReducedHeadsTrial(HeadsTrial):
    """Features are drawn without tokens; the signal is the first axis."""

    sampler = "reduced"

    def prepare(self) -> None:
        self.directions = np.eye(1, self.d)
        self.space = self.directions.T

    def take_steps(self) -> None:
        self.head_steps = [
            two_steps(self.task, self.share, self.d, seed) for seed in trial_seeds(self.seed, self.heads)
        ]

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        self.find_law()
        labels = draw_bags(self.task, self.n1, self.seed, "1").labels
        return draw_head_features(self.law, labels, self.d, stream(self.seed, "features")).reshape(self.n1, -1), labels

    def special(self, w: np.ndarray) -> np.ndarray:
        return w[:, : self.basis.shape[1]]


class TensorHeadsTrial(HeadsTrial):
    """Every token is drawn."""

    sampler = "tensor"

    def prepare(self) -> None:
        if self.source.signals is None:
            self.directions = self.source.directions(self.seed, self.d)[0][None]
            self.space = self.directions.T
        else:
            self.directions, self.space = draw_directions(self.source.signals, self.seed, self.d)

    def data(self, task: Task, count: int, seed: int, dataset: str) -> TensorData:
        return TensorData(task, count, self.d, seed, dataset, signal=self.directions, signals=self.source.signals)

    def take_steps(self) -> None:
        count = self.n0 // self.heads
        data = [self.data(self.task, count, seed, "0") for seed in trial_seeds(self.seed, self.heads)]
        self.head_steps = [steps_on(part, self.share) for part in data]

    def feature(self, tokens: np.ndarray, scale: float) -> np.ndarray:
        """The heads' features side by side (m, H d)."""
        weights = softmax(np.einsum("nld,hd->nhl", tokens, scale * self.queries))
        return (weights @ tokens).reshape(len(tokens), -1)

    def features(self) -> tuple[np.ndarray, np.ndarray]:
        self.find_law()
        data = self.data(self.task, self.n1, self.seed, "1")
        return data.collect(partial(self.feature, scale=self.training.beta)), data.labels

    def fresh_bags(self, test: Deployment) -> TensorData:
        return self.data(test.bags, test.samples, self.seed, "_test")
