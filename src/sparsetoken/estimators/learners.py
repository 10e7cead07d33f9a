"""The one list of learners: names, how to make a fresh one in its default configuration, what it is, and for which labels.

The list itself is light, so that the command line can show it: learners are imported when they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..bags.bags import Bags

# The one reason without an alternative: values with decimals are never taken as classes.
DECIMALS = "the labels have decimals"


@dataclass(frozen=True)
class Learner:
    """A learner by its name in commands and comparisons."""

    name: str
    make: Callable[[], Any]
    description: str
    baseline: bool = False


def _ours(name: str, estimator: str, description: str) -> Learner:
    def make() -> Any:
        from .. import estimators

        return getattr(estimators, estimator)()

    return Learner(name, make, description)


def _pool(bags: Bags, statistics: Sequence[str]) -> np.ndarray:
    """Statistics of the features over the tokens of each bag, side by side."""
    import numpy as np

    from ..bags.sums_per_bag import bag_extremes, bag_mean_and_spread

    mean, spread = bag_mean_and_spread(bags.tokens, bags.starts)
    least, largest = bag_extremes(bags.tokens, bags.starts)
    found = {"mean": mean, "spread": spread, "least": least, "largest": largest}
    return np.hstack([found[name] for name in statistics])


def _pooled(statistics: Sequence[str]) -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(_pool, kw_args={"statistics": statistics})


def _logistic(name: str, what: str, *statistics: str) -> Learner:
    def make() -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        from ..bags.scaler import BagScaler

        return make_pipeline(BagScaler(), _pooled(statistics), LogisticRegression(C=1.0, max_iter=2000))

    return Learner(name, make, f"scikit-learn's logistic regression on the {what}", baseline=True)


def _ridge(name: str, what: str, *statistics: str) -> Learner:
    def make() -> Any:
        import numpy as np
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        # scikit-learn's own search, on a grid that is wide for standardised features.
        return make_pipeline(_pooled(statistics), StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))

    return Learner(name, make, f"scikit-learn's ridge regression on the {what}", baseline=True)


def _statistics_forest() -> Any:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.pipeline import make_pipeline

    statistics = ("mean", "largest", "least", "spread")
    return make_pipeline(_pooled(statistics), RandomForestRegressor(300, random_state=0, n_jobs=1))


def _majority() -> Any:
    from sklearn.dummy import DummyClassifier

    return DummyClassifier(strategy="prior")


def _gated_attention() -> Any:
    if not _has_torch():
        raise ValueError(f"the learner {ABMIL!r} needs PyTorch: pip install torch")
    from .abmil import GatedAttention

    return GatedAttention()


def _has_torch() -> bool:
    return find_spec("torch") is not None


MAJORITY, ABMIL = "majority", "ABMIL"
DEFAULT, DEFAULT_REGRESSOR = "bag-classifier", "bag-regressor"
_CLASSIFIERS = (
    _ours(DEFAULT, "BagClassifier", "attention and classifiers on bag statistics that vote: the default"),
    _ours("attention", "AttentionClassifier", "the paper's single-layer attention, two gradient steps and a readout"),
    _ours("message-passing", "MessagePassingClassifier", "likelihood ratio, the signal found by message passing"),
    _ours("elementwise", "ElementwiseAttentionClassifier", "attention with an elementwise activation for the softmax"),
    _ours("pooled", "PooledClassifier", "linear on the mean token"),
    _ours("vectorized", "VectorizedClassifier", "linear on all tokens side by side, bags of equal length"),
    _logistic("mean-pool LR", "mean token", "mean"),
    _logistic("max-pool LR", "features' maxima", "largest"),
    _logistic("mean+max LR", "mean token and the features' maxima", "mean", "largest"),
    Learner(ABMIL, _gated_attention, "gated attention trained by Adam, where PyTorch is installed", baseline=True),
    Learner(MAJORITY, _majority, "the commonest label for every bag", baseline=True),
)
_REGRESSORS = (
    _ours(DEFAULT_REGRESSOR, "BagRegressor", "attention and ridge regressions, weighed on held-out bags"),
    _ridge("mean-pool ridge", "mean token", "mean"),
    _ridge("max-pool ridge", "features' maxima", "largest"),
    _ridge("mean+max ridge", "mean token and the features' maxima", "mean", "largest"),
    Learner("statistics forest", _statistics_forest, "scikit-learn's random forest on bag statistics", baseline=True),
)
LEARNERS, REGRESSORS = ({learner.name: learner for learner in some} for some in (_CLASSIFIERS, _REGRESSORS))


def inferred_task(labels: np.ndarray) -> tuple[str, str]:
    """Whether labels are classes or numbers to predict, and why."""
    import numpy as np

    if labels.dtype.kind not in "iuf":
        return "classification", "the labels are not numbers"
    if labels.dtype.kind == "f" and np.any(labels != np.round(labels)):
        return "regression", DECIMALS
    count = len(np.unique(labels))
    if count > max(20, len(labels) / 4):
        return "regression", f"the labels have {count} different values"
    return "classification", f"the labels have {count} different values"


def check_kind(name: str, regression: bool) -> None:
    """Raise ValueError where a learner is not for labels of this kind."""
    if regression and name in LEARNERS:
        raise ValueError(
            f"{name!r} tells classes apart and these labels are numbers: take a regressor such as {DEFAULT_REGRESSOR!r}, "
            "or take whole numbers as classes (on the command line: --task classification)"
        )
    if not regression and name in REGRESSORS:
        raise ValueError(
            f"{name!r} predicts numbers and these labels are classes: take a classifier such as {DEFAULT!r}, "
            "or take classes that are numbers as such (on the command line: --task regression)"
        )


def chosen_learners(names: Sequence[str], bags: Bags, regression: bool = False) -> dict[str, Callable[[], Any]]:
    """The named learners, or all that suit the bags (the vectorized one needs bags of equal length) and are installed."""
    known, what = (REGRESSORS, "regressor") if regression else (LEARNERS, "learner")
    for name in names:
        check_kind(name, regression)
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    left_out = {"vectorized"} if bags.lengths.min() < bags.lengths.max() else set()
    if not _has_torch():
        left_out.add(ABMIL)
    return {name: known[name].make for name in names or known if names or name not in left_out}
