"""Coloured noise: white noise against `erm` and `alignment`, a power law against simulated training."""

import numpy as np
import pytest
from scipy.optimize import linprog, root
from scipy.special import ndtr

from sparsetoken import Task, Training, theory
from sparsetoken.activations import softmax
from sparsetoken.laws.coloured import Query, whitened_law
from sparsetoken.losses import get_loss
from sparsetoken.solvers.erm import fit_erm

D = 300
POWER_LAW = np.arange(1, D + 1.0) ** -0.7
POWER_LAW *= D / POWER_LAW.sum()
XI = np.random.default_rng(0).standard_normal(D)
XI /= np.linalg.norm(XI)
SPECTRUM = theory.Spectrum.of(POWER_LAW, XI)


def white(cosine, sharpness, d=20_000):
    spectrum = theory.Spectrum.of(np.ones(d), np.eye(1, d)[0])
    query = np.zeros(d)
    query[:2] = sharpness * cosine, sharpness * np.sqrt(1 - cosine**2)
    return spectrum, spectrum.query(query)


@pytest.mark.parametrize(
    ("cosine", "loss", "ridge"),
    [(0.9, "logistic", 1e-6), (1.0, "logistic", 1e-2), (-0.5, "square", 0.1), (0.6, "smoothed_hinge", 1e2)],
)
def test_white_noise_is_erm(cosine, loss, ridge):
    task = Task(prevalence=0.4)
    spectrum, query = white(cosine, 1.5)
    found = theory.erm(theory.coloured_law(task, spectrum, query), 2.0, ridge, loss, accuracy=1e-3)
    known = theory.erm(theory.attention_law(task, cosine, 1.5), 2.0, ridge, loss, accuracy=1e-3)
    assert found.residual < 1e-8
    assert found.test_error == pytest.approx(
        known.test_error, abs=3 * (found.standard_error + known.standard_error) + 1e-6
    )
    for name in ("train_loss", "train_error", "norm_w", "bias", "auc", "sensitivity", "V"):
        bound = 4 * (found.errors[name] + known.errors[name]) + 1e-4 * abs(getattr(known, name)) + 1e-7
        assert abs(getattr(found, name) - getattr(known, name)) <= bound, name
    assert found.cosine["w"] == pytest.approx(known.cosine["w"], abs=5e-3) and found.cosine["q"] == pytest.approx(
        cosine
    )


def test_white_noise_is_alignment():
    task, training = Task(prevalence=0.3, sparsity=2), Training(eta_b=0.5)
    found = theory.coloured_alignment(task, training, theory.Spectrum.of(np.ones(50)))
    known = theory.alignment(task, training)
    for name in ("cos_w", "norm_w", "overlap_w", "cos_q", "norm_q", "overlap_q", "bias", "sharpness"):
        assert getattr(found, name) == pytest.approx(getattr(known, name), rel=1e-9), name


def test_the_scale_of_the_tokens_goes_into_readout_and_ridge():
    """Tokens s times as large: the readout over s, the ridge times s^2."""
    size = 1.7
    spectrum, query = white(0.8, 1.5)
    wide = theory.Spectrum.of(size**2 * spectrum.eigenvalues, spectrum.direction)
    scaled = theory.erm(theory.coloured_law(Task(strength=5.0 * size), wide, query, 1 / size), 2.0, size**2 * 1e-2)
    plain = theory.erm(theory.coloured_law(Task(strength=5.0), spectrum, query), 2.0, 1e-2)
    assert scaled.test_error == pytest.approx(plain.test_error, abs=1e-6)
    assert size * scaled.norm_w == pytest.approx(plain.norm_w, rel=1e-5) and scaled.bias == pytest.approx(
        plain.bias, rel=1e-5
    )


def tokens(rng, task, n):
    y = np.where(np.arange(n) < round(task.prevalence * n), 1.0, -1.0)
    X = rng.standard_normal((n, task.length, D)) * np.sqrt(POWER_LAW)
    X[y > 0, : task.sparsity] += task.strength * XI
    return X, y


@pytest.mark.parametrize(
    ("loss", "ridge", "beta"), [("logistic", 1e-2, 1.0), ("square", 0.1, 1.0), ("logistic", 0.03, 0.0)]
)
def test_a_power_law_against_simulated_readouts(loss, ridge, beta):
    """At a given query; the simulated readout's test error is exact given its few numbers."""
    task, alpha, draws = Task(length=6, strength=3.0, prevalence=0.5), 2.0, 8
    rng = np.random.default_rng(1)
    q = 0.8 * XI + 0.6 * rng.standard_normal(D) / np.sqrt(D)
    law = theory.coloured_law(task, SPECTRUM, SPECTRUM.query(q), beta)
    found = theory.erm(law, alpha, ridge, loss)
    a = POWER_LAW * q / np.sqrt(q**2 @ POWER_LAW)
    population = law.at(found.points)[0]
    trials = []
    for _ in range(draws):
        X, y = tokens(rng, task, round(alpha * D))
        features = np.einsum("nl,nld->nd", softmax(beta * (X @ q)), X)
        fit = fit_erm(features, y, ridge, loss)
        w = fit.coef
        deviation = np.sqrt(w**2 @ POWER_LAW - (w @ a) ** 2)
        wrong = 0.0
        for label, share, c in population.classes():
            z = (w @ a * c.T + w @ XI * c.S + fit.bias) / (deviation * c.kappa)
            wrong += share * (c.weight * ndtr(-label * z)).sum(-1).mean()
        train = get_loss(loss).value(features @ w + fit.bias, y).mean()
        trials.append([wrong, w @ a, w @ XI, deviation, np.linalg.norm(w), fit.bias, train])
    names = ("test_error", "m_a", "m_x", "deviation", "norm_w", "bias", "train_loss")
    limits = np.array([getattr(found, name) for name in names])
    error = np.std(trials, axis=0, ddof=1) / np.sqrt(draws)
    z = (np.mean(trials, axis=0) - limits) / np.hypot(error, 2.0 * np.abs(limits) / D)  # corrections of order 1/d
    assert np.abs(z).max() < 4.0, dict(zip(names, z))
    assert np.sqrt((z**2).mean()) < 2.0, dict(zip(names, z))
    # the colour matters here: white noise of the same size says something else
    plain = theory.erm(
        theory.coloured_law(task, theory.Spectrum.of(np.ones(D), XI), SPECTRUM.query(q), beta), alpha, ridge, loss
    )
    assert abs(plain.test_error - found.test_error) > 5 * error[0]


def test_a_power_law_against_simulated_steps():
    task, training = Task(length=6, strength=3.0), Training(alpha0=2.0, eta_q=5.0)
    found = theory.coloured_alignment(task, training, SPECTRUM)
    loss, rng, draws, n = training.loss_function, np.random.default_rng(2), 16, 600
    rows = []
    for _ in range(draws):
        X, y = tokens(rng, task, n)
        means = X.mean(1)
        c = loss.slope(np.zeros(n), y)
        w, b = -training.eta_w * (c @ means) / n, -training.eta_b * c.mean()
        scores = X @ w
        h = loss.slope(means @ w + b, y)
        deviations = h[:, None] * (scores - scores.mean(1, keepdims=True))
        q = -training.eta_q * training.beta / (n * task.length) * np.einsum("nl,nld->d", deviations, X)
        rows.append(
            [w @ XI, np.linalg.norm(w), q @ XI, np.linalg.norm(q), np.sqrt(q**2 @ POWER_LAW), q**2 @ POWER_LAW**2]
        )
    s, square = SPECTRUM.eigenvalues, found.query.square
    limits = np.array(
        [found.overlap_w, found.norm_w, found.overlap_q, found.norm_q, np.sqrt(s @ square), s**2 @ square]
    )
    error = np.std(rows, axis=0, ddof=1) / np.sqrt(draws)
    z = (np.mean(rows, axis=0) - limits) / np.hypot(error, 2.0 * np.abs(limits) / D)
    assert np.abs(z).max() < 4.0, z


def test_results_are_plain_and_warm_starts_help():
    law = theory.coloured_law(Task(), SPECTRUM, SPECTRUM.query(XI))
    found = theory.erm(law, 2.0, 1e-2)
    assert found.to_row()["cosine_w"] == found.cosine["w"] == pytest.approx(found.m_x / found.norm_w, rel=1e-4)
    assert found.standard_error <= 0.4 * 2e-4 and found.model == "coloured"
    again = theory.erm(law, 2.0, 1e-2, warm_start=found.warm_start)
    assert again.iterations < found.iterations and again.test_error == pytest.approx(found.test_error, abs=1e-7)
    with pytest.raises(ValueError, match="ridge must be positive below capacity"):
        theory.erm(law, 2.0, 0.0)
    with pytest.raises(ValueError, match="ridge must be positive in coloured noise where alpha is at most 1"):
        theory.erm(law, 0.9, 0.0, "square")
    with pytest.raises(TypeError, match="law must be a Law, HeadsLaw or ColouredLaw, not str"):
        theory.capacity("law")


# Fewer dimensions than above, so that thresholds lie at sizes that can be drawn.
SMALL = 50
SMALL_VALUES = np.linspace(0.15, 3.0, SMALL)
SMALL_SPECTRUM = theory.Spectrum.of(SMALL_VALUES, np.r_[np.ones(10), np.zeros(SMALL - 10)])
SMALL_QUERY = 1.2 * SMALL_SPECTRUM.direction + np.eye(SMALL)[-1]


def small_features(task, n, seed):
    """Features of attention with that query, token by token."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    X = rng.standard_normal((n, task.length, SMALL)) * np.sqrt(SMALL_VALUES)
    X[y > 0, : task.sparsity] += task.strength * SMALL_SPECTRUM.direction
    return np.einsum("nl,nld->nd", softmax(X @ SMALL_QUERY), X), y


def plain_fixed_point(task, covariance, xi, q, alpha, ridge, slope, curvature, draws=4000):
    """The published equations for convex losses on Gaussian features with a covariance, as they stand: matrices are inverted,
    bags drawn token by token, the noise of the score is averaged by Gauss and Hermite, the prox found by bisection."""
    rng = np.random.default_rng(5)
    d, n = len(covariance), alpha * len(covariance)
    sigma_q = np.sqrt(q @ covariance @ q)
    a = covariance @ q / sigma_q
    rest = covariance - np.outer(a, a)
    y = np.repeat([1.0, -1.0], draws)
    t = rng.standard_normal((2 * draws, task.length))
    carried = np.zeros_like(t)
    carried[:draws, : task.sparsity] = 1.0
    p = softmax(sigma_q * t + task.strength * carried * (xi @ q))
    T, S, kappa2 = (p * t).sum(1), task.strength * (p * carried).sum(1), (p**2).sum(1)
    probability = np.where(y > 0, task.prevalence, 1 - task.prevalence) / draws
    G, weight = np.polynomial.hermite_e.hermegauss(12)
    weight = weight / weight.sum()

    def prox(h, step):
        low, high = h - 40.0, h + 40.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            above = middle + step * slope(middle, y[:, None]) > h
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return 0.5 * (low + high)

    def mean(values):
        return float(probability @ (values @ weight))

    def gap(x):
        m_a, m_x, log_nu, b, log_V = x
        nu, V = np.exp(log_nu), np.exp(log_V)
        h = (m_a * T + m_x * S + b)[:, None] + nu * np.sqrt(kappa2)[:, None] * G
        r = prox(h, (V * kappa2)[:, None])
        first, second = slope(r, y[:, None]), curvature(r, y[:, None])
        k = kappa2[:, None]
        c = mean(k * second / (1 + V * k * second))
        M = np.linalg.inv(ridge * np.eye(d) + c * rest)
        u = -M @ (mean(T[:, None] * first) * a + mean(S[:, None] * first) * xi)
        both = M @ rest
        nu2 = u @ rest @ u + mean(k * first**2) * np.trace(both @ both) / n
        return [m_a - a @ u, m_x - xi @ u, 2 * log_nu - np.log(nu2), mean(first), log_V - np.log(np.trace(both) / n)]

    found = root(gap, [0.3, 0.3, 0.0, 0.0, 0.0])
    assert found.success, found.message
    m_a, m_x, log_nu, b, log_V = found.x
    score = (m_a * T + m_x * S + b) / (np.exp(log_nu) * np.sqrt(kappa2))
    return {
        "m_a": m_a, "m_x": m_x, "deviation": np.exp(log_nu), "bias": b, "V": np.exp(log_V),
        "test_error": float(probability @ ndtr(-y * score)),
    }  # fmt: skip


@pytest.mark.parametrize(("alpha", "ridge"), [(2.0, 0.3), (0.7, 0.1)])
def test_the_published_equations_written_out(alpha, ridge):
    """A covariance that is not diagonal, and 8,000 bags drawn here: agreement to what those leave open."""
    rng = np.random.default_rng(2)
    d, task = 30, Task(length=5, sparsity=2, strength=2.0, prevalence=0.4)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    covariance = turn @ np.diag(np.geomspace(0.1, 4.0, d)) @ turn.T
    xi = turn @ (np.ones(d) / np.sqrt(d))
    q = 0.8 * xi + 0.2 * rng.standard_normal(d) / np.sqrt(d)

    def slope(z, y):
        return -y / (1 + np.exp(y * z))

    def curvature(z, y):
        return 1 / (2 + np.exp(z) + np.exp(-z))

    known = plain_fixed_point(task, covariance, xi, q, alpha, ridge, slope, curvature)
    spectrum = theory.Spectrum.of(covariance, xi)
    found = theory.erm(theory.coloured_law(task, spectrum, spectrum.query(q)), alpha, ridge, accuracy=1e-3)
    for name, value in known.items():
        # 4,000 bags per class leave about one part in a hundred.
        assert getattr(found, name) == pytest.approx(value, rel=0.03, abs=0.003), name


def test_capacity_in_coloured_noise():
    """A linear program finds bags well below the threshold separable and bags well above it not."""
    task = Task(length=6, strength=2.5)
    law = theory.coloured_law(task, SMALL_SPECTRUM, SMALL_SPECTRUM.query(SMALL_QUERY))
    threshold = theory.capacity(law)
    white = theory.capacity(theory.attention_law(task, 1.2 / np.hypot(1.2, 1), np.hypot(1.2, 1)))
    assert threshold.alpha > 1.15 * white.alpha  # the signal lies where there is little noise
    for factor, expected in ((0.75, 6), (1.3, 0)):
        n = round(factor * threshold.alpha * SMALL)
        found = 0
        for seed in range(6):
            x, y = small_features(task, n, seed)
            rows = -y[:, None] * np.column_stack([x, np.ones(n)])
            found += linprog(np.zeros(SMALL + 1), rows, -np.ones(n), bounds=(None, None), method="highs").status == 0
        assert abs(found - expected) <= 1, (factor, found)
    flat = theory.coloured_law(task, theory.Spectrum.of([1.0, 1.0, 0.0]), Query(np.array([0.5, 0.0, 0.0]), np.ones(3)))
    with pytest.raises(ValueError, match="covariance must have positive eigenvalues"):
        theory.capacity(flat)


@pytest.mark.parametrize(("loss", "alpha"), [("logistic", 8.0), ("square", 2.5)])
def test_without_a_ridge(loss, alpha):
    """Above capacity: the limit of a small ridge, the white problem of the whitened bags, and simulated readouts."""
    task = Task(length=6, strength=1.0)
    law = theory.coloured_law(task, SMALL_SPECTRUM, SMALL_SPECTRUM.query(SMALL_QUERY))
    found = theory.erm(law, alpha, 0.0, loss, accuracy=1e-3)
    small = theory.erm(law, alpha, 1e-7, loss, accuracy=1e-3)
    for name in ("test_error", "train_loss", "norm_w", "bias", "deviation", "m_x", "auc"):
        assert getattr(found, name) == pytest.approx(getattr(small, name), rel=1e-4), name
    known = theory.erm(whitened_law(law), alpha, 0.0, loss, accuracy=1e-3)
    for name in ("test_error", "train_loss", "bias"):
        bound = 4 * np.hypot(found.errors.get(name, 4e-4), known.errors.get(name, 4e-4)) + 0.03 * abs(
            getattr(known, name)
        )
        assert abs(getattr(found, name) - getattr(known, name)) <= bound, name  # d - 1 against d directions
    same = found.on(task, accuracy=1e-3)
    assert same.test_error == pytest.approx(found.test_error, abs=1e-3)
    n = round(alpha * SMALL)
    fits = [fit_erm(*small_features(task, n, seed), 1e-9, loss) for seed in range(30)]
    for name, values in {
        "norm_w": [np.linalg.norm(fit.coef) for fit in fits],
        "m_x": [fit.coef @ SMALL_SPECTRUM.direction for fit in fits],
        "bias": [fit.bias for fit in fits],
    }.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        limit = getattr(found, name)
        assert abs(np.mean(values) - limit) < 4 * np.hypot(error, 2.0 * abs(limit) / SMALL), (
            name,
            np.mean(values),
            limit,
        )


def test_a_readout_on_its_own_law_is_itself():
    spectrum = theory.Spectrum.of(np.arange(1, 101) ** -0.5)
    query = spectrum.query(np.ones(100) * 0.3)
    law = theory.coloured_law(Task(strength=3.0), spectrum, query)
    found = theory.erm(law, 2.0, 0.02, accuracy=1e-3)
    same = found.on(Task(strength=3.0), accuracy=1e-3)
    for name in ("test_error", "auc", "sensitivity", "specificity"):
        assert getattr(same, name) == pytest.approx(getattr(found, name), abs=1e-3), name
    longer = found.on(Task(length=50, strength=3.0), accuracy=1e-3)
    assert longer.test_error > found.test_error and longer.tested["length"] == 50
    sharper = found.on(theory.coloured_law(Task(length=50, strength=3.0), spectrum, query, beta=2.0), accuracy=1e-3)
    assert sharper.test_error != longer.test_error
    with pytest.raises(ValueError, match="the training's spectrum and query"):
        found.on(theory.coloured_law(Task(), theory.Spectrum.of(np.ones(100)), query))


def test_ridge_regression_of_scikit_learn_in_coloured_noise():
    """An independent public implementation: Ridge on pooled bags of full tokens, at d = 300, 12 draws."""
    from sklearn.linear_model import Ridge

    d, n, length, ridge = 300, 900, 4, 0.05
    values = np.arange(1, d + 1) ** -0.6
    values /= values.mean()
    xi = np.full(d, d**-0.5)
    spectrum = theory.Spectrum.of(values, xi)
    task = Task(length=length, sparsity=2, strength=2.0, prevalence=0.4)
    limit = theory.erm(
        theory.coloured_law(task, spectrum, spectrum.query(xi), 0.0), n / d, ridge, "square", accuracy=1e-3
    )
    errors, overlaps = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
        x = (np.sqrt(values) * rng.standard_normal((n, length, d))).mean(1) + np.outer(y > 0, xi) * 2.0 * 2 / length
        fit = Ridge(alpha=n * ridge).fit(x, y)  # ||y - xw - b||^2 + n ridge ||w||^2
        deviation = np.sqrt(values @ fit.coef_**2 / length)
        shift = 2.0 * 2 / length * fit.coef_ @ xi
        errors.append(0.4 * ndtr(-(shift + fit.intercept_) / deviation) + 0.6 * ndtr(fit.intercept_ / deviation))
        overlaps.append(fit.coef_ @ xi)
    for found, expected in ((errors, limit.test_error), (overlaps, limit.overlap["w"])):
        assert abs(np.mean(found) - expected) < 4 * np.std(found, ddof=1) / np.sqrt(12) + 0.002
