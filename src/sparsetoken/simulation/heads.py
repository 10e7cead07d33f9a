"""Several attention heads at finite size: one trial, and the readout alone for given queries and signals.

The features of H heads stand side by side, and one readout w = (w_1 .. w_H) reads them all. From a zero start heads that see
the same data stay identical, so D0 is split among them: head h takes its two gradient steps on n0/H bags of its own.
"""

from __future__ import annotations

import math
from time import perf_counter
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
from .measures import Measures, summarised
from .readout import Readout, fit_readout
from .repeats import trial_seeds
from .samplers.drawn_bags import draw_bags
from .samplers.labels import sample_count
from .samplers.signals import SignalBags, draw_directions
from .samplers.streams import stream
from .samplers.tensor import TensorData, draw_signal
from .steps import SimulatedSteps, check_size, steps_on, two_steps

# Tokens' coordinates held at a time (32 MB).
_HELD = 2**22
# Draws per replicate of the measures: standard errors of a test error near 3e-4.
_POINTS = 2**10


def draw_head_features(law: HeadsLaw, labels: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Features of H heads (n, H, d), exact in law: the law's own coordinates come first.

    Along the law's basis tokens are drawn; outside it the features are Gaussian with covariance K between heads, K_gh the
    overlaps of the heads' weights.
    """
    basis = law.queries.shape[1]
    count, heads, (length, R, strength, _) = len(labels), law.heads, law.kind
    features = np.empty((count, heads, d))
    step = max(1, _HELD // (length * basis))
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
    """Test error and its relatives of a readout of several heads.

    Parameters
    ----------
    law : HeadsLaw
        That of the test bags.
    coordinates : ndarray (H, dimension)
        <w_h, e> for the vectors e of the law's basis.
    gram : ndarray (H, H)
        <w_g, w_h>.
    bias : float
        b.

    Returns
    -------
    Measures
    """
    nodes = law.at(_POINTS)
    m_T, m_S = coordinates @ law.query_space, coordinates @ law.signal_space
    copies = len(nodes.y)

    def repeat(a):
        return np.broadcast_to(a, (copies, *np.shape(a)))

    laws = head_scores(nodes, repeat(m_T), repeat(m_S), repeat(np.float64(bias)), repeat(gram - m_T @ m_T.T))
    return summarised(laws[0], laws[1], law.prevalence)


def head_readout(
    law: HeadsLaw, alpha: float, ridge: float, d: int, seed: int, loss: str | Loss = "logistic"
) -> tuple[Measures, Readout]:
    """The readout of several heads alone, the finite twin of `theory.erm` on the same law.

    It minimises (1/n) sum l(sum_h <w_h, f_ih> + b; y_i) + (ridge/2) sum_h ||w_h||^2 over n = alpha d bags.

    Parameters
    ----------
    law : HeadsLaw
        Queries, signals and task, from `theory.heads_law`.
    alpha, ridge : float
        n/d, d the dimension of a token, and lambda.
    d : int
        Dimension of a token, at least that of the law's basis plus one.
    seed : int
        All randomness comes from it.
    loss : str or Loss
        l.

    Returns
    -------
    tuple of Measures and Readout
    """
    d, seed = check_size(d, seed, "reduced")
    if d <= law.queries.shape[1]:
        raise ValueError(f"d must be larger than the law's basis ({law.queries.shape[1]}), got {d}")
    labels = draw_bags(law.task, sample_count("alpha", alpha, d), seed, "1").labels
    features = draw_head_features(law, labels, d, stream(seed, "features"))
    readout = fit_readout(features.reshape(len(labels), -1), labels, ridge, loss)
    w = readout.w.reshape(law.heads, d)
    return head_measures(law, w[:, : law.queries.shape[1]], w @ w.T, readout.bias), readout


def simulate_heads(
    task: Task,
    training: Training,
    d: int,
    seed: int,
    heads: int,
    sampler: str,
    deployment: Deployment | None,
    signals: Signals | None = None,
) -> dict[str, Any]:
    """The fields of a `SimulationResult` of H attention heads, on one signal or on several; see `simulate`."""
    if training.schedule != "staged":
        raise ValueError(f"several heads are trained by the schedule 'staged', not {training.schedule!r}")
    clock: dict[str, float] = {}
    start = perf_counter()
    part = training.but(alpha0=training.alpha0 / heads)
    if signals is None:
        steps = _queries(task, part, d, seed, heads, sampler)
        directions = steps[0].signal[None]
        space, given = directions.T, Signals.of(1)
    else:
        given = signals
        directions, space = draw_directions(given, seed, d)
        n0 = sample_count("alpha0 per head", part.alpha0, d)
        steps = [steps_on(SignalBags(task, given, directions, n0, one, "0"), part) for one in trial_seeds(seed, heads)]
    clock["steps"], start = perf_counter() - start, perf_counter()
    n1 = sample_count("alpha1", training.alpha1, d)
    labels = draw_bags(task, n1, seed, "1").labels
    queries = training.beta * np.stack([one.query for one in steps])
    basis, _ = np.linalg.qr(np.column_stack([space, queries.T]))
    size = space.shape[1]
    basis[:, :size] = space  # qr is free in its signs
    if d <= basis.shape[1]:
        words = "plus one" if size == 1 else f"plus the signals' coordinates ({size})"
        raise ValueError(f"d must be larger than the number of heads {words} ({basis.shape[1]}), got {d}")
    carrying: dict[str, Any] = {"shares": given.shares, "carried": given.carried}
    in_basis = np.zeros((len(given), basis.shape[1]))
    in_basis[:, :size] = given.directions
    law = heads_law(task, queries=queries @ basis, signals=in_basis, **carrying)
    if sampler == "tensor":
        data: TensorData | SignalBags
        if signals is None:
            data = TensorData(task, n1, d, seed, "1", signal=directions[0])
        else:
            data = SignalBags(task, given, directions, n1, seed, "1")
        features = np.empty((n1, heads, d))
        for which, tokens in data.blocks():
            features[which] = softmax(np.einsum("nld,hd->nhl", tokens, queries)) @ tokens
        labels = data.labels
    else:
        features = draw_head_features(law, labels, d, stream(seed, "features"))
    clock["features"], start = perf_counter() - start, perf_counter()
    readout = fit_readout(features.reshape(n1, -1), labels, training.ridge, training.loss)
    clock["readout"], start = perf_counter() - start, perf_counter()
    w = readout.w.reshape(heads, d)
    coordinates = w @ basis if sampler == "tensor" else w[:, : basis.shape[1]]
    test = deployment or Deployment(task)
    at_test = law
    if deployment is not None:
        scale = 1.0 if test.sharpness is None else test.sharpness / _mean_sharpness(steps)
        at_test = heads_law(test.task, queries=scale * law.queries, signals=law.signals, **carrying)
    measured = head_measures(at_test, coordinates, w @ w.T, readout.bias + test.bias_shift)
    clock["test_error"] = perf_counter() - start
    sharpness = _mean_sharpness(steps)
    # Per signal: the readout against (xi_j, .., xi_j)/sqrt(H), and every query; only one signal needs no number.
    overlap, cosine = {}, {}
    for j, direction in enumerate(directions):
        place = "" if signals is None else f":{j + 1}"
        along = float((coordinates @ in_basis[j]).sum()) / math.sqrt(heads)
        overlap[f"w{place}"], cosine[f"w{place}"] = along, cosine_of(along, readout.norm)
        for h, one in enumerate(steps):
            along = one.overlap["q"] if signals is None else float(one.query @ direction)
            overlap[f"q{h + 1}{place}"], cosine[f"q{h + 1}{place}"] = along, cosine_of(along, one.norm["q"])
    return {
        **vars(measured),
        "train_loss": readout.train_loss,
        "train_error": readout.train_error,
        "norm_w": readout.norm,
        "bias": readout.bias,
        "overlap": overlap,
        "cosine": cosine,
        "sharpness": sharpness,
        "n0": heads * steps[0].n0,
        "n1": n1,
        "stopped": readout.stopped,
        "gradient_norm": readout.gradient_norm,
        "converged": readout.converged,
        "seconds": clock,
        **({} if deployment is None else deployment.record(task, sharpness)),
    }


def _mean_sharpness(steps: list[SimulatedSteps]) -> float:
    return float(np.mean([one.sharpness for one in steps]))


def _queries(task: Task, training: Training, d: int, seed: int, heads: int, sampler: str) -> list[SimulatedSteps]:
    """The two gradient steps of every head, on data of its own; all see the same signal."""
    seeds = trial_seeds(seed, heads)
    if sampler == "reduced":
        return [two_steps(task, training, d, one) for one in seeds]  # the signal is the first axis
    n0 = sample_count("alpha0 per head", training.alpha0, d)
    signal = draw_signal(seed, d)
    return [steps_on(TensorData(task, n0, d, one, "0", signal=signal), training) for one in seeds]
