"""Displays made from estimators: the bag asked for, its numbers, and what is refused."""

import numpy as np
import pytest

from sparsetoken import AttentionClassifier, AttentionDisplay, Bags, LearningCurveDisplay, PooledClassifier

LENGTHS = [3, 5, 4] * 20


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    labels = np.arange(len(LENGTHS)) % 2
    listed = [rng.standard_normal((n, 6)) for n in LENGTHS]
    for tokens, label in zip(listed, labels):
        tokens[1, 0] += 6.0 * label
    return Bags(listed), np.where(labels == 1, "ill", "well")


@pytest.fixture(scope="module")
def fitted(bags):
    return AttentionClassifier(scale=False).fit(*bags)


def test_the_bag_that_was_asked_for(bags, fitted):
    tokens, labels = bags
    shown = AttentionDisplay.from_estimator(fitted, tokens, 4, marked=[False, True, False, False, False])
    assert shown.figure_ is shown.ax_.figure and len(shown.ax_.collections[0].get_segments()) == LENGTHS[4]
    np.testing.assert_allclose(shown.frame()["weight"], fitted.attention_weights(tokens)[4], rtol=1e-6)
    np.testing.assert_allclose(shown.frame()["score"], fitted.token_scores(tokens)[4], rtol=1e-6)
    assert shown.target == str(fitted.classes_[1]) == "well"
    np.testing.assert_allclose(shown.probability, fitted.predict_proba(tokens)[4, 1], rtol=1e-6)
    other = AttentionDisplay.from_estimator(fitted, tokens, -1, target="ill")
    np.testing.assert_allclose(other.scores, -fitted.token_scores(tokens)[-1], rtol=1e-6)
    assert "probability of ill" in repr(other) and "score for ill" in other.ax_.get_ylabel()
    plain = AttentionDisplay.from_estimator(PooledClassifier().fit(tokens, labels), tokens)
    assert plain.scores is None and list(plain.frame()) == ["token", "weight"]


def test_a_second_token_is_seen_although_one_has_all_the_weight():
    """A long bag: the tokens with the largest scores have stems whatever their weight, the rest is a density."""
    scores = np.random.default_rng(0).standard_normal(500)
    scores[[17, 400]] = 9.0, 8.0
    weights = np.where(np.arange(500) == 17, 1.0, 0.0)
    ax = AttentionDisplay(weights, scores, "long", "ill", 0.9).plot()
    numbers = [int(label.get_text()) for label in ax.get_xticklabels()]
    assert {17, 400} <= set(numbers) and len(numbers) <= 24
    heights = {n: segment[1, 1] for n, segment in zip(numbers, ax.collections[0].get_segments())}
    assert heights[400] == 8.0 and f"{500 - len(numbers)} other tokens" in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"i": 60}, "i must be the number of a bag, from 0 to 59"),
        ({"i": 0.0}, "i must be the number of a bag"),
        ({"target": "dead"}, "target must be one of ill, well"),
        ({"marked": [True]}, "one entry per token"),
    ],
)
def test_what_is_refused(bags, fitted, options, words):
    with pytest.raises(ValueError, match=words):
        AttentionDisplay.from_estimator(fitted, bags[0], **options)


def test_estimators_without_attention(bags):
    with pytest.raises(ValueError, match="object has none"):
        AttentionDisplay.from_estimator(object(), bags[0])


def test_a_learning_curve_is_measured_on_copies(bags):
    tokens, labels = bags
    learner = PooledClassifier(ridge=0.1)
    shown = LearningCurveDisplay.from_estimator(learner, tokens, labels, criterion="auc")
    assert not hasattr(learner, "coef_") and shown.name == "PooledClassifier"
    assert shown.frame()["n"].iloc[-1] == 240  # four times the bags at hand
    table = LearningCurveDisplay(shown.name, shown.extrapolation, ahead=2.0).frame()
    assert table["n"].is_monotonic_increasing and table["n"].iloc[-1] == 120 and table["measured"].sum() >= 3
    assert 0.4 < table["value"].iloc[0] <= 1.0 and "AUC" in repr(shown)
    for arguments, words in (
        ((tokens, labels[:-1]), "one label per bag"),
        ((tokens, np.zeros(60)), "two classes"),
    ):
        with pytest.raises(ValueError, match=words):
            LearningCurveDisplay.from_estimator(learner, *arguments)
    with pytest.raises(ValueError, match="ahead"):
        LearningCurveDisplay(shown.name, shown.extrapolation, ahead=0.5)


def test_a_slide_has_its_tokens_at_their_places():
    rng = np.random.default_rng(0)
    scores, places = rng.standard_normal(50), rng.random((50, 2))
    shown = AttentionDisplay(np.full(50, 0.02), scores, "slide", "ill", 0.9, marked=np.arange(50) == 7)
    ax = shown.plot_places(places)
    tokens, marked = ax.collections[:2]
    order = np.argsort(np.abs(scores))
    np.testing.assert_allclose(tokens.get_offsets(), places[order])
    np.testing.assert_allclose(tokens.get_array(), scores[order])
    np.testing.assert_allclose(marked.get_offsets(), places[7:8])
    assert ax.yaxis_inverted() and tokens.get_clim() == (-np.abs(scores).max(), np.abs(scores).max())
    with pytest.raises(ValueError, match="places must be x and y of each of the 50 tokens"):
        shown.plot_places(places[:10])
