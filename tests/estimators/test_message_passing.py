"""Message passing: priors against enumeration, and its error on model data against the theory's limit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit

from sparsetoken import AttentionClassifier, Bags, MessagePassingClassifier, Task, Training
from sparsetoken.bags.scaler import varying_features
from sparsetoken.estimators.calibration import area_under_curve
from sparsetoken.estimators.message_passing.amp import ExactCount, IndependentRate
from sparsetoken.estimators.message_passing.likelihood_ratio import (
    WhiteTokens,
    estimated_noise,
    fit_ratio,
    held_out_ratios,
    moments,
)
from sparsetoken.simulation.samplers import sample_bags


def test_posteriors_agree_with_enumeration():
    rng = np.random.default_rng(0)
    lengths = [5, 2, 7, 5, 1, 6]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    evidence = 4 * rng.standard_normal(sum(lengths))
    for count in (1, 2, 3):
        ratio, marginals = ExactCount(count).posterior(evidence, starts)
        for i, (start, length) in enumerate(zip(starts, lengths)):
            a = evidence[start : start + length]
            subsets = list(combinations(range(length), min(count, length)))
            weights = np.array([np.exp(a[list(s)].sum()) for s in subsets])
            np.testing.assert_allclose(ratio[i], np.log(weights.mean()), rtol=1e-10)
            share = [sum(w for w, s in zip(weights, subsets) if t in s) / weights.sum() for t in range(length)]
            np.testing.assert_allclose(marginals[start : start + length], share, rtol=1e-8, atol=1e-12)
    ratio, marginals = IndependentRate(0.2).posterior(evidence, starts)
    for i, (start, length) in enumerate(zip(starts, lengths)):
        a = evidence[start : start + length]
        np.testing.assert_allclose(ratio[i], np.sum(np.log(0.8 + 0.2 * np.exp(a))), rtol=1e-10)
        np.testing.assert_allclose(marginals[start : start + length], expit(np.log(0.25) + a), rtol=1e-10)


def test_large_evidence_does_not_overflow():
    evidence, starts = np.array([800.0, -800.0, 3.0, 750.0]), np.array([0])
    for prior in (ExactCount(1), ExactCount(2), ExactCount(3), IndependentRate(0.1)):
        ratio, marginals = prior.posterior(evidence, starts)
        assert np.isfinite(ratio).all() and np.all((marginals >= 0) & (marginals <= 1 + 1e-12))
    assert ExactCount(2).posterior(evidence, starts)[0][0] == pytest.approx(1550.0 - np.log(6.0), rel=1e-12)


def test_many_signal_tokens_in_long_bags():
    """Posteriors add up to the count, however many tokens there are and whatever their evidence."""
    rng = np.random.default_rng(1)
    for length, count, size in ((1000, 2, 0.1), (1000, 300, 3.0), (50, 49, 800.0)):
        _, marginals = ExactCount(count).posterior(size * rng.standard_normal(length), np.array([0]))
        assert marginals.sum() == pytest.approx(count, rel=1e-10)


def noise_from(tokens):
    center = tokens.mean(axis=0)
    return estimated_noise([moments(tokens[half::2], center) for half in (0, 1)], center, varying_features(tokens))


@pytest.mark.parametrize(("n", "d"), [(2000, 12), (40, 60)])
def test_noise_is_whitened_with_its_shrunk_covariance(n, d):
    from sklearn.covariance import shrunk_covariance

    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 3.0
    noise = noise_from(tokens)
    covariance = shrunk_covariance(np.cov(tokens.T, bias=True), noise.shrinkage)
    np.testing.assert_allclose(noise.whitening.T @ covariance @ noise.whitening, np.eye(d), atol=1e-9)
    np.testing.assert_allclose(noise.mean, tokens.mean(axis=0))
    white, products = noise.whitened(tokens), WhiteTokens(tokens, noise)
    v, w = rng.standard_normal(d), rng.standard_normal(n)
    np.testing.assert_allclose(products @ v, white @ v, atol=1e-9)
    np.testing.assert_allclose(w @ products, w @ white, atol=1e-9)


def test_white_noise_is_shrunk_to_the_identity_and_other_noise_is_not():
    rng = np.random.default_rng(2)
    tokens = rng.standard_normal((2000, 100))
    assert noise_from(tokens).shrinkage >= 0.3
    assert noise_from(tokens * np.geomspace(0.1, 10.0, 100)).shrinkage <= 1e-3


def test_moments_of_parts_give_the_noise_of_the_whole():
    tokens = np.random.default_rng(2).standard_normal((50, 4)) * [1.0, 2.0, 3.0, 4.0]
    center, varies = np.ones(4), np.ones(4, dtype=bool)
    found, whole = (
        estimated_noise([moments(part, center) for part in parts], center, varies, 0.1)
        for parts in ((tokens[:20], tokens[20:25], tokens[25:]), (tokens,))
    )
    np.testing.assert_allclose(found.whitening, whole.whitening, rtol=1e-10)
    np.testing.assert_allclose(found.mean, tokens.mean(axis=0))


@pytest.mark.parametrize(("n", "length", "d"), [(30, 5, 60), (100, 10, 200)])
def test_training_ratios_of_pure_noise_know_nothing(n, length, d):
    """A bag's contribution to the direction and to the noise's mean is removed: mean AUC of 12 draws within 4 errors of 1/2."""
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    areas = []
    for seed in range(12):
        bags = Bags(np.random.default_rng(seed).standard_normal((n, length, d)))
        fit = fit_ratio(bags, signs, np.ones(n), priors=[ExactCount(1)])
        areas.append(area_under_curve(fit.training, signs > 0))
    assert abs(np.mean(areas) - 0.5) < 4 * np.sqrt(1 / (3 * n) / 12)


def test_bags_held_out_are_scored_as_by_a_fit_without_them():
    """Weight zero in the messages, against copies of the bags that are left."""
    tokens, labels, _ = sample_bags(Task(length=6, strength=4.0), 90, 20, 3)
    bags, signs = Bags(tokens), np.where(labels > 0, 1.0, -1.0)
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 90)
    whole = fit_ratio(bags, signs, weights, priors=[ExactCount(2)])
    folds = [np.arange(20), np.arange(20, 90)]
    found = held_out_ratios(bags, signs, weights, folds, whole, False)
    for held in folds:
        rest = np.delete(np.arange(90), held)
        fit = fit_ratio(bags[rest], signs[rest], weights[rest], priors=[ExactCount(2)])
        expected = fit.ratio.decide(bags[held].tokens, bags[held].starts)
        # Both have converged to 1e-4, from different starts.
        np.testing.assert_allclose(found[held], expected, rtol=5e-3, atol=5e-3)


def model_bags(seed: int, task: Task, n: int, d: int):
    """n bags of the model in single precision, their labels and the signal direction."""
    tokens, labels, xi = sample_bags(task, n, d, seed)
    return tokens.astype(np.float32), labels, xi


def error_on_fresh_bags(rng, task: Task, project, xi, classify, n=40000):
    """Test error of a rule that sees tokens only through one direction: that coordinate is drawn exactly.

    A token is N(strength xi, I) or N(0, I), so its coordinate along a vector s is N(strength <s, xi>, |s|^2) or N(0, ...).
    """
    labels = np.where(rng.random(n) < task.prevalence, 1, -1)
    fields = np.linalg.norm(project) * rng.standard_normal((n, task.length))
    fields[labels == 1, : task.sparsity] += task.strength * float(project @ xi)
    return float(np.mean(classify(fields) != labels))


def known(task):
    return MessagePassingClassifier(strength=task.strength, sparsity=task.sparsity, whiten=False, scale=False)


def projected_rule(model):
    """The fitted classifier as a rule on the tokens' coordinates along its signal."""

    def classify(fields):
        evidence = model.strength_ * fields - 0.5 * model.strength_**2 * model.overlap_
        prior = ExactCount(int(model.sparsity_))
        ratios, _ = prior.posterior(evidence.ravel(), np.arange(len(fields)) * fields.shape[1])
        return np.where(model.calibration_(ratios) > 0, 1, -1)

    return classify


@pytest.mark.parametrize(
    ("task", "d"),
    [(Task(length=10, sparsity=1, strength=5.0), 500), (Task(length=10, sparsity=3, strength=3.0), 400)],
    ids=["R=1", "R=3"],
)
def test_known_parameters_reach_the_limit(task, d):
    """Mean error over 5 draws at alpha = 2 within 0.0015 of the reachable limit.

    One draw's error scatters by about 0.001 (signal and fresh bags), the mean of 5 by 0.00045: three standard errors.
    """
    from sparsetoken.theory import bayes_limit

    limit = bayes_limit(task, alpha=2.0)
    rng = np.random.default_rng(2024)
    errors, overlaps = [], []
    for seed in range(5):
        tokens, labels, xi = model_bags(seed, task, 2 * d, d)
        model = known(task).fit(tokens, labels)
        errors.append(error_on_fresh_bags(rng, task, model.signal_, xi, projected_rule(model)))
        overlaps.append(float(model.signal_ @ xi) ** 2 / float(model.signal_ @ model.signal_))
    assert abs(np.mean(errors) - limit.reachable_test_error) < 0.0015
    assert abs(np.mean(overlaps) - limit.reachable_overlap) < 0.004


def test_the_shortcut_of_the_error_is_the_estimator_itself():
    task = Task(length=5, sparsity=2, strength=3.0)
    tokens, labels, _ = model_bags(3, task, 400, d=50)
    model = known(task).fit(tokens, labels)
    fields = tokens @ model.signal_.astype(np.float32)
    np.testing.assert_array_equal(projected_rule(model)(fields), model.predict(tokens))


def test_estimated_parameters_come_close():
    """All defaults (scaling, whitening, strength, sparsity, calibration): within 0.003 of the limit, 2 draws."""
    task, d = Task(length=10, sparsity=1, strength=5.0), 300
    rng = np.random.default_rng(7)
    errors = []
    for seed in range(2):
        tokens, labels, xi = model_bags(seed, task, 2 * d, d)
        model = MessagePassingClassifier().fit(tokens, labels)
        test = rng.standard_normal((6000, 10, d), dtype=np.float32)
        y = np.where(rng.random(6000) < 0.5, 1, -1)
        test[y == 1, 0] += (task.strength * xi).astype(np.float32)
        errors.append(float(np.mean(model.predict(test) != y)))
        assert model.sparsity_ == 1
        assert abs(model.strength_ - 5.0) < 0.4
    # 12000 fresh bags in all: the standard error of the mean is 0.0013.
    assert np.mean(errors) < 0.0203 + 0.003


def test_a_random_number_of_signal_tokens_is_recognised():
    rng = np.random.default_rng(4)
    d, n, length, rate = 60, 600, 12, 0.25
    xi = np.ones(d) / np.sqrt(d)
    labels = rng.integers(0, 2, n)
    tokens = rng.standard_normal((n, length, d))
    witness = (rng.random((n, length)) < rate) & (labels[:, None] == 1)
    tokens[witness] += 4.0 * xi
    model = MessagePassingClassifier(scale=False).fit(tokens, labels)
    assert isinstance(model.sparsity_, float) and abs(model.sparsity_ - rate) < 0.05
    fixed = MessagePassingClassifier(sparsity=0.25, strength=4.0, scale=False, whiten=False).fit(tokens, labels)
    assert fixed.sparsity_ == 0.25 and fixed.strength_ == 4.0
    assert fixed.score(tokens, labels) > 0.9


def test_correlated_and_shifted_noise_is_no_obstacle():
    rng = np.random.default_rng(5)
    d, n, length = 30, 500, 8
    mixing = np.diag(np.geomspace(0.1, 10, d)) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    labels = rng.integers(0, 2, 2 * n)
    tokens = rng.standard_normal((2 * n, length, d))
    tokens[labels == 1, 2] += 4.5 * np.eye(d)[0]
    bags = Bags(tokens @ mixing + 100.0)
    # The signal lies where there is least noise; drawing in tails feature by feature (scale=True) would blur that.
    model = MessagePassingClassifier(scale=False).fit(bags[:n], labels[:n])
    assert model.score(bags[n:], labels[n:]) > 0.9
    found = [int(np.argmax(w)) for w, y in zip(model.attention_weights(bags[n:]), labels[n:]) if y]
    assert np.mean(np.array(found) == 2) > 0.9


def planted(seed, n=120, length=8, d=12):
    """Bags with one signal token of strength 4 along all features in every second."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    tokens = rng.standard_normal((n, length, d))
    tokens[labels == 1, 0] += 4.0 / np.sqrt(d)
    return tokens, labels


@pytest.mark.filterwarnings("ignore::sparsetoken.estimators.base.TrainingWarning")
def test_names_of_the_classes_decide_nothing():
    X, y = planted(0)
    T, truth = planted(1, n=400)
    for names in (["normal", "tumour"], ["normal", "cancer"]):
        model = MessagePassingClassifier().fit(X, np.array(names)[y])
        assert model.diagnostics_["signal_class"] == names[1]
        assert np.mean(model.predict(T) == np.array(names)[truth]) > 0.85
        p = model.predict_proba(T)[:, list(model.classes_).index(names[1])]
        if names[1] == "tumour":
            first = p
    np.testing.assert_allclose(p, first, atol=1e-9)
    wrong = MessagePassingClassifier(positive_label="normal").fit(X, np.array(names)[y])
    assert wrong.diagnostics_["signal_class"] == "normal" and wrong.side_ == 1.0
    with pytest.raises(ValueError, match="positive_label must be"):
        MessagePassingClassifier(positive_label="healthy").fit(X, np.array(names)[y])


def with_constant(X):
    return np.concatenate([X, np.full((*X.shape[:2], 1), 7.0)], axis=2)


def permuted_features(X):
    return X[:, :, np.random.default_rng(3).permutation(X.shape[2])]


def negated_feature(X):
    return X * np.where(np.arange(X.shape[2]) == 4, -1.0, 1.0)


def permuted_tokens(X):
    return X[:, np.random.default_rng(4).permutation(X.shape[1])]


@pytest.mark.parametrize("changed", [with_constant, permuted_features, negated_feature, permuted_tokens])
def test_what_carries_no_information_moves_no_probability(changed):
    X, y = planted(2)
    T, _ = planted(3)
    plain = MessagePassingClassifier().fit(X, y).predict_proba(T)
    np.testing.assert_allclose(
        MessagePassingClassifier().fit(changed(X), y).predict_proba(changed(T)), plain, atol=1e-7
    )


def test_every_bag_a_group_of_its_own_is_no_groups():
    X, y = planted(4)
    plain = MessagePassingClassifier().fit(X, y)
    grouped = MessagePassingClassifier().fit(X, y, groups=np.arange(len(y)))
    np.testing.assert_allclose(grouped.predict_proba(X), plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"sparsity": "x"}, "sparsity must be"), ({"sparsity": 0}, "sparsity must be"), ({"strength": -1}, "strength")],
)
def test_bad_parameters_are_named(parameters, words):
    tokens, labels, _ = model_bags(0, Task(), 20, d=5)
    with pytest.raises(ValueError, match=words):
        MessagePassingClassifier(**parameters).fit(tokens, labels)


def test_staged_attention_is_at_least_as_good_as_its_forecast():
    """n0 = n1 = d at L = 10, R = 1, theta = 5: mean error of 2 draws against the theory of the same training.

    The forecast is for d to infinity; at d = 300 one draw scatters by about 0.004. Three standard errors are allowed.
    """
    from sparsetoken.theory import alignment, attention_law, erm

    task, d, training = Task(), 300, Training(alpha0=1.0, alpha1=1.0, ridge=1e-2)
    cosine = alignment(task, training).cosine["q"]
    forecast = erm(attention_law(task, cosine, 1.5), alpha=1.0, ridge=1e-2).test_error
    rng = np.random.default_rng(6)
    errors = []
    for seed in range(2):
        tokens, labels, xi = model_bags(seed, task, 2 * d, d)
        model = AttentionClassifier(split=0.5, sharpness=1.5, ridge=1e-2, scale=False)
        model.fit(tokens, labels)
        test = rng.standard_normal((4000, 10, d), dtype=np.float32)
        y = np.where(rng.random(4000) < 0.5, 1, -1)
        test[y == 1, 0] += (5.0 * xi).astype(np.float32)
        errors.append(float(np.mean(model.predict(test) != y)))
    spread = np.sqrt(0.004**2 / 2 + forecast * (1 - forecast) / 8000)
    assert np.mean(errors) < forecast + 3 * spread
    assert np.mean(errors) > forecast - 6 * spread
