"""Products with an implicit Gaussian matrix: consistent to rounding, and exact in law under adaptive questions.

The law is tested by asking, after an adaptive script, for everything that is left: the matrix that comes out must be one of
independent standard normals, and the script's answers must be its products. Wrong variants must fail the same test.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sparsetoken.simulation.samplers.implicit_bags import GROWTH, ImplicitGaussian

LEVEL = 1e-3
ROWS, COLUMNS = 7, 5


def implicit(seed: int, rows: int = ROWS, columns: int = COLUMNS) -> ImplicitGaussian:
    return ImplicitGaussian(rows, columns, np.random.Generator(np.random.SFC64(seed)))


def script(matrix) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """An adaptive conversation, with zero, parallel and repeated questions; `matrix` answers `right` and `left`."""
    said: list[tuple[str, np.ndarray, np.ndarray]] = []

    def ask(side: str, question: np.ndarray) -> np.ndarray:
        said.append((side, question, getattr(matrix, side)(question)))
        return said[-1][2]

    rows, columns = matrix.shape
    first = np.linspace(0.5, 1.5, columns)[:, None]
    a = ask("right", first)
    b = ask("left", np.hstack([np.tanh(a), np.zeros((rows, 1))]))[:, :1]
    w = np.cbrt(b)
    c = ask("right", np.hstack([np.zeros((columns, 1)), w, first + 2 * w]))
    ask("left", np.hstack([np.maximum(c[:, 1:2], a), a * c[:, 2:]]))
    return said


class Explicit:
    """The same questions to a matrix that was drawn."""

    def __init__(self, matrix: np.ndarray):
        self.matrix, self.shape = matrix, matrix.shape

    def right(self, directions):
        return self.matrix @ directions

    def left(self, vectors):
        return self.matrix.T @ vectors


class Unprojected(ImplicitGaussian):
    """Wrong: the fresh normals keep their part along what is known from the other side."""

    def _image(self, vector, other):
        image = self.rng.standard_normal(other.basis.shape[1])
        return image + (other.images @ vector) @ other.basis


class Forgetful(ImplicitGaussian):
    """Wrong: what is known from the other side is not used."""

    def _image(self, vector, other):
        return self.rng.standard_normal(other.basis.shape[1])


def test_answers_are_those_of_one_matrix():
    asked = implicit(3)
    said = script(asked)
    matrix = asked.right(np.eye(COLUMNS))
    again = Explicit(matrix)
    for side, question, answer in said:
        assert answer == pytest.approx(getattr(again, side)(question), abs=1e-12)
        assert getattr(asked, side)(question) == pytest.approx(answer, abs=1e-12)
    assert asked.left(np.eye(ROWS)) == pytest.approx(matrix.T, abs=1e-12)


def test_the_same_question_adds_nothing_to_what_is_kept():
    asked = implicit(4, 500, 300)
    rng = np.random.default_rng(0)
    questions = rng.standard_normal((300, 5)), rng.standard_normal((500, 6))
    answers = asked.right(questions[0]), asked.left(questions[1])
    kept = asked._right.count, asked._left.count
    assert kept == (5, 6)
    for scale in (1.0, -3.0, 1e-200, 1e200):
        assert asked.right(scale * questions[0]) == pytest.approx(scale * answers[0], rel=1e-11)
        assert asked.left(scale * questions[1]) == pytest.approx(scale * answers[1], rel=1e-11)
    assert (asked._right.count, asked._left.count) == kept


def test_linear_and_symmetric_to_rounding_after_many_nearly_parallel_questions():
    """Descent asks for a direction that hardly moved; the bases must stay orthonormal all the same."""
    asked = implicit(5, 400, 250)
    rng = np.random.default_rng(1)
    v, u = rng.standard_normal((250, 1)), rng.standard_normal((400, 1))
    questions = []
    for step in range(40):
        v = v + 10.0 ** -(step % 12) * asked.left(u / np.linalg.norm(u))
        u = u + 10.0 ** -(step % 10) * np.tanh(asked.right(v / np.linalg.norm(v)))
        questions.append((v, u))
    for side in (asked._right, asked._left):
        vectors = side.basis
        assert np.abs(vectors @ vectors.T - np.eye(len(vectors))).max() < 1e-13
    for v, _ in questions:
        for w, x in questions[::7]:
            products = x.T @ asked.right(v), asked.left(x).T @ v
            size = np.linalg.norm(x) * np.linalg.norm(v)
            assert abs(float((products[0] - products[1])[0, 0])) < 1e-12 * size * np.sqrt(650)
            mixed = asked.right(2 * v - 3 * w)
            assert mixed == pytest.approx(2 * asked.right(v) - 3 * asked.right(w), abs=1e-10 * np.abs(mixed).max())


def test_rank_deficient_blocks_keep_every_direction():
    """A plain QR of [0, w] gives an arbitrary first column and may lose w: the product must be with w itself."""
    rng = np.random.default_rng(2)
    w = rng.standard_normal((COLUMNS, 1))
    zero = np.zeros_like(w)
    asked = implicit(6)
    answer = asked.right(np.hstack([zero, w, 2 * w, zero, w]))
    assert np.all(answer[:, [0, 3]] == 0)
    assert answer[:, 2] == pytest.approx(2 * answer[:, 1], rel=1e-12)
    assert answer[:, 4] == pytest.approx(answer[:, 1], rel=1e-12)
    assert asked.right(w) == pytest.approx(answer[:, 1:2], rel=1e-12)
    assert asked._right.count == 1
    lengths = [np.linalg.norm(implicit(seed, 50, COLUMNS).right(np.hstack([zero, w]))[:, 1]) for seed in range(200)]
    squares = np.array(lengths) ** 2 / float((w**2).sum())
    assert stats.kstest(squares, stats.chi2(50).cdf).pvalue > LEVEL


def least_p_value(kind: type[ImplicitGaussian], draws: int, first_seed: int) -> float:
    """Smallest p-value, times the number of tests, that the matrix behind the answers is standard Gaussian."""
    matrices, spectra, answers, drawn = [], [], [], []
    for k in range(draws):
        asked = kind(ROWS, COLUMNS, np.random.Generator(np.random.SFC64(first_seed + k)))
        said = script(asked)
        matrices.append(asked.right(np.eye(COLUMNS)))
        explicit = np.random.Generator(np.random.SFC64(first_seed + draws + k)).standard_normal((ROWS, COLUMNS))
        spectra.append([np.linalg.svd(m, compute_uv=False)[[0, -1]] for m in (matrices[-1], explicit)])
        answers.append([answer[0, -1] for _, _, answer in said])
        drawn.append([answer[0, -1] for _, _, answer in script(Explicit(explicit))])
    flat = np.array(matrices).reshape(draws, -1)
    extreme = np.array(spectra)
    moments = np.sqrt(draws) * (flat.T @ flat / draws - np.eye(flat.shape[1]))
    moments[np.diag_indices_from(moments)] /= np.sqrt(2.0)
    largest = float(np.abs(moments).max())
    count = flat.shape[1] * (flat.shape[1] + 1) // 2
    found = [
        *(stats.kstest(column, "norm").pvalue for column in flat.T[:: COLUMNS + 1]),
        stats.kstest((flat**2).sum(axis=1), stats.chi2(flat.shape[1]).cdf).pvalue,
        min(1.0, count * 2 * stats.norm.sf(largest)),
        *(stats.ks_2samp(extreme[:, 0, i], extreme[:, 1, i]).pvalue for i in range(2)),
        *(stats.ks_2samp(one, other).pvalue for one, other in zip(np.transpose(answers), np.transpose(drawn))),
    ]
    return min(found) * len(found)


def test_exact_in_law_under_adaptive_questions():
    assert least_p_value(ImplicitGaussian, 2500, 100) > LEVEL


@pytest.mark.parametrize("wrong", [Unprojected, Forgetful])
def test_wrong_variants_are_caught(wrong):
    assert least_p_value(wrong, 2500, 100) < LEVEL


def test_all_directions_may_be_asked_and_more():
    asked = implicit(7, 3, 4)
    rng = np.random.default_rng(3)
    matrix = asked.right(np.eye(4))
    for _ in range(5):
        v, u = rng.standard_normal((4, 3)), rng.standard_normal((3, 2))
        assert asked.right(v) == pytest.approx(matrix @ v, abs=1e-12)
        assert asked.left(u) == pytest.approx(matrix.T @ u, abs=1e-12)
    assert asked._right.count == 4 and asked._left.count <= 3


def test_memory_is_two_numbers_per_side_and_direction():
    asked = implicit(8, 2000, 300)
    rng = np.random.default_rng(4)
    for _ in range(10):
        asked.right(rng.standard_normal((300, 2)))
        asked.left(rng.standard_normal((2000, 2)))
    assert 2300 * 40 <= asked.stored_numbers <= 2300 * (40 + 2 * GROWTH)


def test_the_seed_decides():
    v = np.ones((COLUMNS, 1))
    assert np.array_equal(implicit(9).right(v), implicit(9).right(v))
    assert not np.array_equal(implicit(9).right(v), implicit(10).right(v))


SIZES = (2, 1, 3, 2)  # rows of the groups


def test_grouped_sums_are_those_of_the_matrix_where_it_is_known():
    """After all rows of Z^T have been asked for nothing is left to chance; after half of them, half."""
    weights = np.random.default_rng(7).random(8)
    expand = np.zeros((4, 8))
    expand[np.repeat(np.arange(4), SIZES), np.arange(8)] = weights.ravel()
    known = implicit(11, 8, COLUMNS)
    matrix = known.left(np.eye(8)).T
    assert known.grouped(weights.ravel(), SIZES) == pytest.approx(
        expand @ matrix, abs=1e-7
    )  # sqrt(1 - s^2) of s = 1 to rounding
    partly = implicit(12, 8, COLUMNS)
    directions = np.random.default_rng(8).standard_normal((COLUMNS, 2))
    answer = partly.right(directions)
    vectors = expand[:2].T
    below = partly.left(vectors)
    found = partly.grouped(weights.ravel(), SIZES)
    assert found @ directions == pytest.approx(expand @ answer, abs=1e-12)
    assert found[:2] == pytest.approx(below.T, abs=1e-7)


def least_p_value_of_groups(kind: type[ImplicitGaussian], draws: int) -> float:
    """Second moments of grouped sums together with the products before them, against a matrix that was drawn."""
    weights = np.linspace(0.2, 1.0, 8)
    expand = np.zeros((4, 8))
    expand[np.repeat(np.arange(4), SIZES), np.arange(8)] = weights.ravel()
    found, expected = [], []
    for k in range(draws):
        asked = kind(8, COLUMNS, np.random.Generator(np.random.SFC64(k)))
        explicit = Explicit(np.random.Generator(np.random.SFC64(draws + k)).standard_normal((8, COLUMNS)))
        for matrix, into in ((asked, found), (explicit, expected)):
            said = script(matrix)
            grouped = matrix.grouped(weights.ravel(), SIZES) if matrix is asked else expand @ explicit.matrix
            seen = np.concatenate([answer[:3].ravel() for _, _, answer in said])
            # every grouped number alone, and times what was seen before it
            into.append(np.concatenate([grouped.ravel(), np.outer(grouped[:, :2].ravel(), seen).ravel()]))
    columns = [(a, b) for a, b in zip(np.transpose(found), np.transpose(expected)) if a.std() > 0]
    return min(stats.ks_2samp(a, b).pvalue for a, b in columns) * len(columns)


class Careless(ImplicitGaussian):
    """Wrong: the grouped sums forget what was asked before."""

    def grouped(self, weights, sizes):
        noise = weights[:, None] * self.rng.standard_normal((len(weights), self.shape[1]))
        return np.add.reduceat(noise, np.cumsum(sizes) - sizes, axis=0)


def test_grouped_sums_are_exact_in_law():
    assert least_p_value_of_groups(ImplicitGaussian, 2000) > LEVEL


def test_careless_grouped_sums_are_caught():
    assert least_p_value_of_groups(Careless, 2000) < LEVEL


def test_grouped_is_the_last_question():
    asked = implicit(13)
    asked.grouped(np.ones(ROWS), [ROWS])
    for ask in (lambda: asked.right(np.ones((COLUMNS, 1))), lambda: asked.grouped(np.ones(ROWS), [ROWS])):
        with pytest.raises(RuntimeError, match="nothing may be asked"):
            ask()
