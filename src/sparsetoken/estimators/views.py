"""What the candidates of the default learner look at: several views of the same bags, each made when it is first asked for.

    lifted      scaled tokens and two kernels of them (`lift`), each feature scaled by itself
    tokens      the scaled tokens alone
    even        as lifted, with one scale for all features
    statistics  one token per bag: mean, maximum, minimum and spread of its tokens' features, and its length (`statistics`)
    likeness    one token per bag: a kernel of these statistics

Views are learnt from the training bags without their labels (but for the rare features of `TokenLift`), so one view serves
all folds of the inner validation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .._core.arrays import is_jax_array
from ..bags.bags import Bags
from .lift import TokenLift
from .statistics import BagStatistics, one_token_each

TOKEN_VIEWS = ("tokens", "lifted", "even")
BAG_VIEWS = ("statistics", "likeness")


class BagViews(BaseEstimator):
    """Learns the views that are asked for.

    Parameters
    ----------
    names : sequence of str
        The views to learn.
    landmarks : int
        Training tokens the kernels are seen from (0: no kernels).
    scale : bool
        Whether tokens are scaled first.
    """

    def __init__(self, names: tuple[str, ...], landmarks: int, scale: bool):
        self.names = names
        self.landmarks = landmarks
        self.scale = scale

    def fit(self, bags: Bags, signs: np.ndarray, seed: int) -> BagViews:
        """Learn the views.

        Parameters
        ----------
        bags : Bags
            The training bags.
        signs : ndarray
            Their labels, for the lift's rare features.
        seed : int
            Of the landmarks.

        Returns
        -------
        BagViews
            Itself.
        """
        draw = np.random.default_rng
        self.lift_ = TokenLift(self.landmarks, self.scale).fit(bags, signs, draw(seed))
        self.even_: Any = None
        self.statistics_: Any = None
        if "even" in self.names:
            self.even_ = TokenLift(self.landmarks, self.scale, common=True).fit(bags, signs, draw(seed))
        if any(name in self.names for name in BAG_VIEWS):
            self.statistics_ = BagStatistics(self.lift_).fit(bags, draw(seed))
        return self

    def of(self, bags: Bags, dtype: Any = None) -> Views:
        """The views of these bags, in their precision or the given one."""
        return Views(self, bags, dtype)


class Views:
    """The views of some bags.

    Parameters
    ----------
    fitted : BagViews
        What was learnt.
    bags : Bags
        The bags as they are.
    dtype : data type, optional
        Precision of the token views; the tokens' own by default.
    """

    def __init__(self, fitted: BagViews, bags: Bags, dtype: Any = None):
        self.fitted, self.bags, self.dtype = fitted, bags, dtype
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """The view of that name: bags of tokens, or bags of one token each."""
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def _make(self, name: str) -> Any:
        fitted, bags = self.fitted, self.bags
        if name == "raw statistics":
            return fitted.statistics_.raw(bags)
        if name == "statistics":
            return one_token_each(fitted.statistics_.linear(self["raw statistics"]))
        if name == "likeness":
            return one_token_each(fitted.statistics_.kernel(self["raw statistics"]))
        if name == "tokens":
            lifted = self["lifted"]
            linear = lifted.tokens[:, : fitted.lift_.linear_width]
            # BLAS takes rows of a wider array as they are, a device would copy them for every product.
            return lifted.with_tokens(linear + 0 if is_jax_array(linear) else linear)
        lift = fitted.even_ if name == "even" else fitted.lift_
        return bags.with_tokens(lift.features(bags.tokens, self.dtype))
