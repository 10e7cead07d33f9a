"""Fitted models on disk, in skops' format: arrays and a description of objects, of which only known types are rebuilt.

Loading runs no code from the file. A file that asks for any type beyond scikit-learn's, NumPy's and this package's own
estimators is refused before anything is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._core.files import write_bytes
from .bag_regressor import BagRegressor
from .base import BaseBagClassifier

FORMAT = 8
_OWN_TYPES = (
    "sparsetoken.bags.scaler.BagScaler",
    "sparsetoken.estimators.attention.AttentionClassifier",
    "sparsetoken.estimators.bag_classifier.BagClassifier",
    "sparsetoken.estimators.bag_regressor.BagRegressor",
    "sparsetoken.estimators.calibration.Calibration",
    "sparsetoken.estimators.calibration.JointCalibration",
    "sparsetoken.estimators.candidates.Forest",
    "sparsetoken.estimators.elementwise.ElementwiseAttentionClassifier",
    "sparsetoken.estimators.heads.Head",
    "sparsetoken.estimators.lift.TokenLift",
    "sparsetoken.estimators.linear.PooledClassifier",
    "sparsetoken.estimators.linear.VectorizedClassifier",
    "sparsetoken.estimators.message_passing.classifier.MessagePassingClassifier",
    "sparsetoken.estimators.message_passing.noise.Noise",
    "sparsetoken.estimators.message_passing.ratio.LikelihoodRatio",
    "sparsetoken.estimators.message_passing.witness_prior.ExactCount",
    "sparsetoken.estimators.message_passing.witness_prior.IndependentRate",
    "sparsetoken.estimators.regression_candidates.RegressionForest",
    "sparsetoken.estimators.regression_shares.RegressionMember",
    "sparsetoken.estimators.statistics.BagStatistics",
    "sparsetoken.estimators.training_range.TrainingRange",
    "sparsetoken.estimators.trees.PlainTrees",
    "sparsetoken.estimators.views.BagViews",
    "sparsetoken.estimators.vote.Member",
    "sparsetoken.losses.Logistic",
    "sparsetoken.losses.SmoothedHinge",
    "sparsetoken.losses.Square",
    "sparsetoken.schedules.Stage",
)


def save_model(path: str | Path, model: Any) -> None:
    """Write a fitted estimator; anything that could not be loaded again safely is refused.

    Parameters
    ----------
    path : str or Path
        Where to write.
    model : estimator
        One of this package's classifiers or regressors, fitted.
    """
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
    """The estimator in a file written by `save_model`.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    estimator
        A fitted classifier or regressor of this package.

    Raises
    ------
    ValueError
        If there is no such file, or it holds anything else.
    """
    import skops.io

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    data = path.read_bytes()
    _check_types(data, str(path))
    try:
        stored = skops.io.loads(data, trusted=list(_OWN_TYPES))
    except Exception as error:
        raise ValueError(f"{path} is not a model file of this program: {error}") from error
    if not isinstance(stored, dict) or "model" not in stored:
        raise ValueError(f"{path} is not a model file of this program")
    if stored.get("format") != FORMAT:
        raise ValueError(f"{path} has format {stored.get('format')!r}; this version reads format {FORMAT}")
    _check_model(stored["model"], f"what {path} holds")
    return stored["model"]


def _check_model(model: Any, what: str) -> None:
    """Refuse anything but a fitted learner of this package."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, BaseBagClassifier | BagRegressor):
        raise ValueError(f"{what} is no learner of this program: {type(model).__name__}")
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise ValueError(f"{what} is a {type(model).__name__} that has not been fitted") from None


def _check_types(data: bytes, what: str) -> None:
    import skops.io

    try:
        unknown = set(skops.io.get_untrusted_types(data=data)) - set(_OWN_TYPES)
    except Exception as error:
        raise ValueError(f"{what} is not a model file of this program: {error}") from error
    if unknown:
        raise ValueError(f"{what} holds types that are not loaded for safety: {', '.join(sorted(unknown))}")
