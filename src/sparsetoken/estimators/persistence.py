"""Fitted models on disk, in skops' format: arrays and a description of objects, of which only known types are rebuilt.

Loading runs no code from the file. A file with types other than those of scikit-learn, NumPy and this package's estimators is
refused before anything is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .._core.files import write_bytes
from .base import BagLearner, BaseBagClassifier

FORMAT = 12
_OWN_TYPES = [
    f"sparsetoken.{module}.{name}"
    for module, names in {
        "_core.frozen": "FrozenMapping",
        "bags.scaler": "BagScaler",
        "estimators.calibration": "Calibration",
        "estimators.out_of_distribution": "TrainingRange",
        "estimators.default.bag_classifier": "BagClassifier",
        "estimators.default.bag_regressor": "BagRegressor",
        "estimators.default.views": "BagStatistics BagViews NystromKernel TokenLift",
        "estimators.default.vote": "Member Vote",
        "estimators.message_passing.amp": "ExactCount IndependentRate",
        "estimators.message_passing.classifier": "MessagePassingClassifier",
        "estimators.message_passing.likelihood_ratio": "LikelihoodRatio Noise",
        "estimators.paper.attention": "AttentionClassifier ElementwiseAttentionClassifier",
        "estimators.paper.joint_heads": "Head",
        "estimators.paper.linear": "PooledClassifier VectorizedClassifier",
        "estimators.several_classes": "JointCalibration SeveralClasses",
        "losses": "Logistic SmoothedHinge Square",
        "schedules": "Stage",
    }.items()
    for name in names.split()
]


def save_model(path: str | Path, model: Any) -> None:
    """Write a fitted estimator; anything that could not be loaded again safely is refused."""
    import skops.io

    from .. import __version__

    _check_model(model, "this model")
    try:
        data = skops.io.dumps({"format": FORMAT, "version": __version__, "model": model})
    except Exception as error:  # skops raises its own types for what it cannot describe
        raise ValueError(f"this model cannot be written: {error}") from error
    _check_types(data, "this model")
    write_bytes(path, data)


def load_model(path: str | Path) -> Any:
    """The estimator in a file written by `save_model`."""
    import skops.io

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    data = path.read_bytes()
    _check_types(data, str(path))
    try:
        stored = skops.io.loads(data, trusted=_OWN_TYPES)
    except Exception as error:
        raise ValueError(f"{path} is not a model file of this program: {error}") from error
    if not isinstance(stored, dict) or "model" not in stored:
        raise ValueError(f"{path} is not a model file of this program")
    if stored.get("format") != FORMAT:
        raise ValueError(
            f"{path} was written by another version (format {stored.get('format')!r}, this one reads {FORMAT}): "
            "fit the model again"
        )
    _check_model(stored["model"], f"what {path} holds")
    return stored["model"]


def _check_model(model: Any, what: str) -> None:
    """Refuse anything but a fitted learner of this package, with the attributes that predictions need."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, BagLearner):
        raise ValueError(f"{what} is no learner of this program: {type(model).__name__}")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"{what} is a {type(model).__name__} that has not been fitted") from None
    count, names = getattr(model, "n_features_in_", None), getattr(model, "feature_names_in_", None)
    damage = None
    if isinstance(model, BaseBagClassifier) and not isinstance(getattr(model, "classes_", None), np.ndarray):
        damage = "it has no classes_"
    elif not isinstance(count, int | np.integer):
        damage = "its number of features is missing"
    elif names is not None and (not isinstance(names, np.ndarray) or names.shape != (count,)):
        damage = f"its feature_names_in_ are not {count} names"
    if damage is not None:
        raise ValueError(f"{what} is a damaged {type(model).__name__}, {damage}: fit the model again")


def _check_types(data: bytes, what: str) -> None:
    import skops.io

    try:
        unknown = set(skops.io.get_untrusted_types(data=data)) - set(_OWN_TYPES)
    except Exception as error:
        raise ValueError(f"{what} is not a model file of this program: {error}") from error
    if unknown:
        raise ValueError(
            f"{what} holds types that are not loaded for safety: {', '.join(sorted(unknown))}; if another version of this "
            "program wrote it, fit the model again"
        )
