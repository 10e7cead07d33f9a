import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken.activations import softmax
from sparsetoken.laws.heads import MAXIMUM_POINTS, heads_law
from sparsetoken.laws.law import attention_law

QUERIES = np.array([[1.2, 0.1, 0.7, 0.0, 0.0], [0.1, 1.3, 0.0, 0.6, 0.0]])
SIGNALS = np.eye(2, 5)


def averages(nodes, label):
    """Means over the nodes of a class of T, T^2, S, S^2 and K, for each replicate."""
    weight = np.where(nodes.y == label, nodes.weight, 0.0)
    weight = weight / weight.sum(1, keepdims=True)
    parts = [np.einsum("bn,bnij->bij", weight, v) for v in (nodes.T, nodes.T**2, nodes.S, nodes.S**2, nodes.K)]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_the_law_is_its_definition(label):
    """Against tokens drawn one by one in the whole space, without order and quasi-random numbers."""
    task = Task(length=7, sparsity=2, strength=3.0, prevalence=0.3)
    law = heads_law(task, queries=QUERIES, signals=SIGNALS, shares=[0.3, 0.7])
    found = averages(law.at(1024), label)
    rng = np.random.default_rng(0)
    n = 100_000
    x = rng.standard_normal((n, 7, 5))
    which = (rng.random(n) < 0.7).astype(int)
    shift = 3.0 * SIGNALS[which] * (label > 0)
    x[:, :2] += shift[:, None]
    p = softmax(np.einsum("nld,hd->nhl", x, QUERIES))
    T = p @ x @ law.query_space
    S = p[:, :, :2].sum(-1)[:, :, None] * (shift @ law.signal_space)[:, None]
    K = p @ p.transpose(0, 2, 1)
    drawn = np.concatenate([v.reshape(n, -1) for v in (T, T**2, S, S**2, K)], axis=1)
    error = np.sqrt(drawn.var(0) / n + found.var(0, ddof=1) / len(found))
    z = (found.mean(0) - drawn.mean(0)) / np.where(error > 0, error, 1.0)
    assert np.abs(z).max() < 4.5


def test_one_head_is_the_law_of_attention():
    task = Task(length=12, prevalence=0.4)
    nodes = heads_law(task, 0.8, 1.5).at(2048)
    _, other = attention_law(task, 0.8, 1.5).at(2048)
    for label in (1.0, -1.0):
        found = averages(nodes, label)
        weight = np.where(other.y == label, other.weight, 0.0)
        weight = weight / weight.sum(1, keepdims=True)
        known = np.stack([(weight * v).sum(1) for v in (other.T, other.T**2, other.S**2, other.kappa**2)], axis=1)
        found = found[:, [0, 1, 3, 4]]
        error = np.sqrt((found.var(0, ddof=1) + known.var(0, ddof=1)) / len(found))
        assert np.all(np.abs(found.mean(0) - known.mean(0)) <= 4.5 * error + 1e-12)


def test_bases_are_orthonormal_and_hold_queries_and_signals():
    law = heads_law(Task(), queries=QUERIES, signals=SIGNALS)
    both = np.hstack([law.query_space, law.signal_space])
    assert np.allclose(both.T @ both, np.eye(4), atol=1e-12)
    for vectors in (QUERIES, SIGNALS):
        assert np.allclose(vectors @ both @ both.T, vectors, atol=1e-12)


def test_queries_that_vanish_or_cancel():
    for queries in (np.zeros((2, 3)), [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]):
        law = heads_law(Task(), queries=queries)
        nodes = law.at(64)
        assert law.query_space.shape == (3, 1) and np.isfinite(nodes.T).all()


def test_weights_are_those_of_the_classes():
    nodes = heads_law(Task(prevalence=0.2), [0.5, 0.9], 1.0).at(64)
    assert np.allclose(nodes.weight.sum(1), 1.0) and np.allclose(nodes.weight[:, :64].sum(1), 0.2)
    assert (nodes.y[:, :64] == 1).all() and (nodes.y[:, 64:] == -1).all()


def test_levels_of_refinement_end():
    law = heads_law(Task(), 0.9, 1.0)
    assert law.finer(256, 1.5) == 2048 and law.finer(MAXIMUM_POINTS, 3.0) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either cosine and sharpness, or queries"),
        ({"cosine": 0.5, "sharpness": 1.0, "queries": QUERIES}, "either cosine and sharpness, or queries"),
        ({"cosine": 0.5}, "together"),
        ({"cosine": 1.5, "sharpness": 1.0}, "cosine"),
        ({"cosine": [0.5, 0.6], "sharpness": [1.0, 2.0, 3.0]}, "one entry per head"),
        ({"cosine": 0.5, "sharpness": 1.0, "signals": SIGNALS}, "signals must be given together with queries"),
        ({"queries": [1.0, 2.0]}, "queries must be a matrix"),
        ({"queries": [[np.nan, 2.0]]}, "queries must be a matrix of finite numbers"),
        ({"queries": QUERIES, "signals": np.eye(2, 3)}, "as many coordinates"),
        ({"queries": QUERIES, "signals": 2.0 * SIGNALS}, "unit vectors"),
        ({"queries": QUERIES, "signals": SIGNALS, "shares": [0.3, 0.3]}, "shares"),
    ],
)
def test_bad_input_is_named(given, message):
    with pytest.raises(ValueError, match=message):
        heads_law(Task(), **given)
