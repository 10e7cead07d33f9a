import numpy as np
import pytest

from sparsetoken import Task
from sparsetoken.activations import softmax
from sparsetoken.laws.coloured import Query, Spectrum, coloured_law
from sparsetoken.laws.signals import Signals

RNG = np.random.default_rng(0)
ROOT = RNG.standard_normal((6, 6))
MATRIX = ROOT @ ROOT.T / 6


def test_a_matrix_and_its_eigenvalues_give_the_same_spectrum():
    signal, query = RNG.standard_normal((2, 6))
    values, basis = np.linalg.eigh(MATRIX)
    one, other = Spectrum.of(MATRIX, signal), Spectrum.of(values, basis.T @ signal)
    assert np.allclose(one.eigenvalues, other.eigenvalues) and np.allclose(one.signal, other.signal)
    a, b = one.query(query), other.query(basis.T @ query)
    assert np.allclose(a.square, b.square) and np.allclose(a.cross, b.cross)
    assert a.norm == pytest.approx(np.linalg.norm(query))
    assert a.overlap == pytest.approx(query @ signal / np.linalg.norm(signal))
    assert one.eigenvalues @ a.square == pytest.approx(query @ MATRIX @ query)
    assert np.allclose(Spectrum.of(np.ones(4)).signal, 0.25)


@pytest.mark.parametrize("overlap", [0.8, 0.0, -0.5])
def test_the_law_is_its_definition(overlap):
    """Against tokens drawn in six coloured dimensions."""
    task = Task(length=5, sparsity=2, strength=3.0)
    xi = np.eye(6)[0]
    q = overlap * xi + np.array([0.0, 0.5, -0.3, 0.2, 0.4, 0.1])
    spectrum = Spectrum.of(MATRIX, xi)
    positive = coloured_law(task, spectrum, spectrum.query(q), beta=1.3).at(2048)[0].positive
    n = 200_000
    noise = RNG.standard_normal((n, 5, 6)) @ ROOT.T / np.sqrt(6)
    t = noise @ q / np.sqrt(q @ MATRIX @ q)
    p = softmax(1.3 * (noise @ q + 3.0 * overlap * (np.arange(5) < 2)))
    drawn = np.stack([(p * t).sum(1), 3.0 * p[:, :2].sum(1), (p**2).sum(1), (p * t).sum(1) ** 2], axis=1)
    columns = (positive.T, positive.S, positive.kappa**2, positive.T**2)
    found = np.stack([(positive.weight * v).sum(-1) for v in columns], axis=1)
    error = np.sqrt(drawn.var(0) / n + found.var(0, ddof=1) / len(found))
    assert np.all(np.abs(found.mean(0) - drawn.mean(0)) < 4.5 * error)


@pytest.mark.parametrize(
    ("covariance", "signal", "message"),
    [
        ([[1.0, 0.5], [0.0, 1.0]], None, "symmetric"),
        (np.ones((2, 3)), None, "square matrix"),
        ([1.0, -1.0, 2.0], None, "no negative eigenvalue"),
        (np.diag([1.0, 0.0, 0.0]), None, "at least two positive"),
        ([1.0, np.nan], None, "covariance must be an array of finite"),
        (["a", "b"], None, "covariance must be an array of finite numbers"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "signal must have 2 coordinates"),
        ([1.0, 2.0], [0.0, 0.0], "not all zero"),
    ],
)
def test_bad_spectra_are_named(covariance, signal, message):
    with pytest.raises(ValueError, match=message):
        Spectrum.of(covariance, signal)


def test_bad_queries_are_named():
    spectrum = Spectrum.of([1.0, 2.0, 0.0])
    with pytest.raises(ValueError, match="query must have 3 coordinates"):
        spectrum.query([1.0])
    with pytest.raises(ValueError, match=r"query\.square must have one entry per eigenvalue"):
        coloured_law(Task(), spectrum, Query(np.zeros(3), np.ones(2)))
    with pytest.raises(ValueError, match="query must have noise along it"):
        coloured_law(Task(), spectrum, spectrum.query([0.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="beta"):
        coloured_law(Task(), spectrum, spectrum.query([1.0, 0.0, 1.0]), beta=-1.0)


def test_weights_that_no_vector_has_are_refused():
    spectrum = Spectrum.of([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="query must have weights of a vector"):
        coloured_law(Task(), spectrum, Query(np.ones(3), np.ones(3)))


def test_a_spectrum_estimated_from_bags():
    rng = np.random.default_rng(0)
    values = np.linspace(0.2, 3.0, 20)
    bags = 5.0 + rng.standard_normal((400, 10, 20)) * np.sqrt(values)
    plain, shrunk = Spectrum.from_bags(bags, shrinkage=0.0), Spectrum.from_bags(bags)
    np.testing.assert_allclose(plain.eigenvalues, values, rtol=0.12)
    np.testing.assert_allclose(plain.eigenvalues, np.linalg.eigvalsh(np.cov(bags.reshape(-1, 20).T, bias=True)))
    assert shrunk.eigenvalues.sum() == pytest.approx(plain.eigenvalues.sum())
    assert np.ptp(shrunk.eigenvalues) < np.ptp(plain.eigenvalues)
    flat = Spectrum.from_bags(list(bags), shrinkage=1.0)
    np.testing.assert_allclose(flat.eigenvalues, plain.eigenvalues.mean())


def test_shrinkage_is_ledoit_and_wolfs():
    from sklearn.covariance import ledoit_wolf

    x = np.random.default_rng(1).standard_normal((60, 30)) * np.linspace(0.5, 2.0, 30)
    expected, _ = ledoit_wolf(x)
    np.testing.assert_allclose(Spectrum.from_bags(x).eigenvalues, np.linalg.eigvalsh(expected), rtol=1e-9)


def test_white_noise_of_few_tokens_is_estimated_as_nearly_white():
    x = np.random.default_rng(2).standard_normal((300, 100))
    assert np.ptp(Spectrum.from_bags(x, shrinkage=0.0).eigenvalues) > 1.5
    assert np.ptp(Spectrum.from_bags(x).eigenvalues) < 0.3


def test_bags_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="bags must hold at least three tokens"):
        Spectrum.from_bags(np.ones((2, 4)))
    with pytest.raises(ValueError, match="shrinkage must be"):
        Spectrum.from_bags(np.random.default_rng(0).standard_normal((10, 4)), shrinkage=2.0)
    with pytest.raises(ValueError, match="at least two positive"):
        Spectrum.from_bags(np.ones((9, 4)))


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="covariance must hold real numbers"):
        Spectrum.of(np.eye(3) * (1 + 1j))
    with pytest.raises(ValueError, match="signals must hold real numbers"):
        Signals.of(np.eye(2) * 1j)
