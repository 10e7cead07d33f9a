"""Fitted models on disk: they come back as they were, and loading runs no code."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from sparsetoken import (
    AttentionClassifier,
    BagClassifier,
    Bags,
    ElementwiseAttentionClassifier,
    MessagePassingClassifier,
    PooledClassifier,
    VectorizedClassifier,
)
from sparsetoken.bags.reading.read_bags import read_bags
from sparsetoken.estimators.persistence import FORMAT, load_model, save_model
from tests.helpers import planted_table


def test_models_come_back_as_they_were(tmp_path):
    planted_table().to_csv(tmp_path / "bags.csv", index=False)
    read = read_bags(tmp_path / "bags.csv")
    equal = Bags([bag[:2] for bag in read.bags])
    for model in (
        BagClassifier(lift=10),
        AttentionClassifier(),
        AttentionClassifier(training="tied"),
        AttentionClassifier(training="joint"),
        ElementwiseAttentionClassifier(),
        MessagePassingClassifier(),
        VectorizedClassifier(ridge=0.1, loss="square"),
    ):
        bags = equal if isinstance(model, VectorizedClassifier) else read.bags
        fitted = model.fit(bags, read.labels)
        save_model(tmp_path / "m.skops", fitted)
        loaded = load_model(tmp_path / "m.skops")
        np.testing.assert_array_equal(loaded.decision_function(bags), fitted.decision_function(bags))
        if hasattr(fitted, "token_scores"):
            np.testing.assert_array_equal(loaded.token_scores(bags)[3], fitted.token_scores(bags)[3])
        assert list(loaded.classes_) == ["no", "yes"]
        assert getattr(loaded, "stages_", None) == getattr(fitted, "stages_", None)


def test_loading_runs_no_code(tmp_path):
    """A model file doctored to name another callable is refused, and that callable is not called."""
    save_model(
        tmp_path / "m.skops", PooledClassifier().fit(planted_table().iloc[:, 3:], np.arange(len(planted_table())) % 2)
    )
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts["schema.json"])
    text = json.dumps(schema).replace("sparsetoken.estimators.paper.linear", "os").replace("PooledClassifier", "system")
    with zipfile.ZipFile(tmp_path / "bad.skops", "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, text if name == "schema.json" else data)
    with pytest.raises(ValueError, match=r"types that are not loaded for safety: os\.system"):
        load_model(tmp_path / "bad.skops")
    with pytest.raises(ValueError, match=r"cannot be written|not loaded for safety"):
        own = ElementwiseAttentionClassifier(activation=lambda x: x, split=0.5)
        save_model(tmp_path / "own.skops", own.fit(planted_table().iloc[:, 3:], np.arange(len(planted_table())) % 2))
    assert not (tmp_path / "own.skops").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: delattr(m, "classes_"), "a damaged PooledClassifier, it has no classes_: fit the model again"),
        (lambda m: setattr(m, "feature_names_in_", np.array(["a"])), "its feature_names_in_ are not 5 names"),
        (lambda m: setattr(m, "feature_names_in_", 7), "its feature_names_in_ are not 5 names"),
        (lambda m: setattr(m, "n_features_in_", "x"), "number of features is missing"),
    ],
)
def test_damaged_models_are_refused_in_a_sentence(tmp_path, change, message):
    import skops.io

    model = PooledClassifier().fit(np.random.default_rng(0).standard_normal((20, 3, 5)), np.arange(20) % 2)
    change(model)
    (tmp_path / "m.skops").write_bytes(skops.io.dumps({"format": FORMAT, "version": "0", "model": model}))
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "m.skops")


def test_files_of_earlier_versions_ask_for_a_refit(tmp_path):
    import skops.io

    (tmp_path / "m.skops").write_bytes(skops.io.dumps({"format": 8, "version": "0", "model": 1}))
    with pytest.raises(ValueError, match=r"another version \(format 8, this one reads 12\): fit the model again"):
        load_model(tmp_path / "m.skops")
