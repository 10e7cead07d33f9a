"""`AttentionDisplay`: the tokens that a fitted estimator attends to in a bag, in the style of scikit-learn's displays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.validation import rejection
from ..plotting.show import Shown, axes_for, legend_above
from ..plotting.style import MEASURED, REFERENCE

MOST_LABELS = 24  # tokens up to which every one has a stem and its number under the axis


class AttentionDisplay(Shown):
    """Attention weights and scores of the tokens of one bag, made by `from_estimator`.

    Parameters
    ----------
    weights : array (L,)
        The tokens' attention weights.
    scores : array (L,) or None
        Each token's evidence for `target`; None where the estimator gives none.
    bag, target : str
        What the bag is called, and what the scores are evidence for; empty for a regressor, where it is a larger label.
    probability : float or None
        Of the target, for the whole bag.
    marked : sequence of bool, optional
        Tokens to mark, such as those known to carry the signal.

    Attributes
    ----------
    ax_, figure_
        Axes and figure of the last `plot`.
    """

    ax_: Any = None
    figure_: Any = None

    def __init__(
        self,
        weights: Any,
        scores: Any = None,
        bag: str = "",
        target: str = "",
        probability: float | None = None,
        marked: Sequence[bool] | None = None,
    ):
        self.weights = np.asarray(weights, dtype=float)
        self.scores = None if scores is None else np.asarray(scores, dtype=float)
        self.bag, self.target, self.probability = bag, target, probability
        self.marked = None if marked is None else np.asarray(marked, dtype=bool)
        if self.marked is not None and self.marked.shape != self.weights.shape:
            raise ValueError(
                f"marked must have one entry per token ({len(self.weights)}), got shape {self.marked.shape}"
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        i: int = 0,
        *,
        target: Any = None,
        marked: Sequence[bool] | None = None,
        ax: Any = None,
    ) -> AttentionDisplay:
        """Draw the attention of a fitted estimator on bag `i` of `X`.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `attention_weights` and perhaps `token_scores`.
        X : Bags or anything that `Bags` takes
            The bags.
        i : int
            Which of them.
        target : class label, optional
            The class whose evidence is shown: by default the second of two classes, of more the one that is predicted.
        marked : sequence of bool, optional
            Tokens to mark, such as those known to carry the signal.
        ax : matplotlib Axes, optional
            Where to draw; new axes by default.
        """
        from ..bags import Bags

        if not hasattr(estimator, "attention_weights"):
            raise ValueError(f"estimator must have attention_weights; {type(estimator).__name__} has none")
        bags = X if isinstance(X, Bags) else Bags(X)
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not -len(bags) <= i < len(bags):
            raise rejection("i", i, f"the number of a bag, from 0 to {len(bags) - 1}")
        single_bag = bags[[int(i)]]
        classes = getattr(estimator, "classes_", None)
        if classes is None and target is not None:
            raise ValueError("target is a class, and this estimator predicts numbers: leave it out")
        column, probability = _explained(estimator, classes, single_bag, target) if classes is not None else (1, None)
        weights = np.asarray(estimator.attention_weights(single_bag)[0])
        scores = np.asarray(estimator.token_scores(single_bag)[0]) if hasattr(estimator, "token_scores") else None
        weights = weights[:, column] if weights.ndim == 2 else weights
        if scores is not None and scores.ndim == 2:
            scores = scores[:, column]
        elif scores is not None and column == 0:  # evidence against the second class is evidence for the first
            scores = -scores
        name = "" if classes is None else str(classes[column])
        display = cls(weights, scores, str(bags.ids[int(i)]), name, probability, marked)
        display.plot(ax)
        return display

    def __repr__(self) -> str:
        top = int(np.argmax(self.weights))
        share = "" if self.probability is None else f", probability of {self.target} {self.probability:.3g}"
        return (
            f"AttentionDisplay(bag {self.bag!r}, {len(self.weights)} tokens{share}; "
            f"most weight {self.weights[top]:.3g} on token {top})"
        )

    def frame(self) -> Any:
        """A pandas table, one row per token: its number, weight, score, and whether it is marked."""
        import pandas as pd

        columns: dict[str, Any] = {"token": np.arange(len(self.weights)), "weight": self.weights}
        if self.scores is not None:
            columns["score"] = self.scores
        if self.marked is not None:
            columns["marked"] = self.marked
        return pd.DataFrame(columns)

    def plot(self, ax: Any = None) -> Any:
        """A stem per token: its height is the score (the weight, where there are no scores), its shade the attention weight.

        Of a long bag the tokens with the largest and the smallest scores and the largest weights are shown, the rest as a
        density at the left."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        ax = axes_for(ax, (7.0, 3.4))
        heights, quantity = self._drawn()
        shown = self._shown_tokens(heights)
        places = np.arange(len(shown))
        shade = ScalarMappable(Normalize(0.0, float(self.weights.max()) or 1.0), cmap="Oranges")
        # From a third on: the lightest shades would be lost on white.
        colours = shade.get_cmap()(0.35 + 0.65 * np.asarray(shade.norm(self.weights[shown])))
        ax.vlines(places, 0.0, heights[shown], colors=colours, linewidth=2.0)
        ax.scatter(places, heights[shown], c=colours, s=22, zorder=3)
        ax.axhline(0.0, color=REFERENCE, linewidth=0.8)
        ax.set_xticks(places, [str(token) for token in shown], rotation=90 if len(shown) > MOST_LABELS // 2 else 0)
        if len(shown) < len(heights):
            self._density(ax, np.delete(heights, shown))
        if self.scores is not None:
            ax.figure.colorbar(shade, ax=ax, label="attention weight")
        if self.marked is not None and self.marked[shown].any():
            at = places[self.marked[shown]]
            ax.plot(at, np.full(len(at), 1.04), "v", color=MEASURED, transform=ax.get_xaxis_transform(), clip_on=False,
                    label="marked tokens")  # fmt: skip
            legend_above(ax)
            ax.get_legend().set_bbox_to_anchor((0, 1.06))
        share = "" if self.probability is None else f" (probability of {self.target}: {self.probability:.3g})"
        ax.set(xlabel=f"token of bag {self.bag}{share}", ylabel=quantity)
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def plot_places(self, places: Any, ax: Any = None) -> Any:
        """The tokens at their places (L, 2), x and y (y grows downwards, as in images), coloured by their scores: the picture
        of a slide whose patches have coordinates."""
        at = np.asarray(places, dtype=float)
        if at.shape != (len(self.weights), 2) or not np.isfinite(at).all():
            raise rejection("places", places, f"x and y of each of the {len(self.weights)} tokens")
        ax = axes_for(ax, (6.0, 5.0))
        heights, quantity = self._drawn()
        far = float(np.abs(heights).max()) or 1.0  # zero has the middle colour
        paint = {"cmap": "Oranges"} if self.scores is None else {"cmap": "RdBu_r", "vmin": -far, "vmax": far}
        order = np.argsort(np.abs(heights))  # the tokens of largest evidence on top
        drawn = ax.scatter(*at[order].T, c=heights[order], s=np.clip(2e4 / len(at), 4, 120), marker="s", **paint)
        if self.marked is not None:
            ax.scatter(*at[self.marked].T, s=160, facecolors="none", edgecolors=MEASURED, label="marked tokens")
            legend_above(ax)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.7, label=quantity)
        ax.set(xlabel="x", ylabel="y", title=f"bag {self.bag}", aspect="equal")
        ax.invert_yaxis()
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _drawn(self) -> tuple[np.ndarray, str]:
        """What is drawn of each token, and its name: the score, or the weight where there are no scores."""
        if self.scores is None:
            return self.weights, "attention weight"
        return self.scores, f"score for {self.target or 'a larger label'}"

    def _shown_tokens(self, heights: np.ndarray) -> np.ndarray:
        """The tokens that get a stem, in the bag's order: all of a short bag, those of largest evidence of a long one."""
        if len(heights) <= MOST_LABELS:
            return np.arange(len(heights))
        by_height, by_weight = np.argsort(-heights, kind="stable"), np.argsort(-self.weights, kind="stable")
        third = MOST_LABELS // 3
        return np.unique(np.concatenate([by_height[:third], by_height[-third:], by_weight[:third]]))

    def _density(self, ax: Any, rest: np.ndarray) -> None:
        """How the tokens without a stem are spread, at the left."""
        counts, edges = np.histogram(rest, bins=min(40, max(5, len(rest) // 10)))
        left = -1.0 - 0.15 * MOST_LABELS * np.repeat(counts, 2) / counts.max()
        ax.fill_betweenx(np.repeat(edges, 2)[1:-1], left, -1.0, color=REFERENCE, alpha=0.4)
        above = {"xytext": (0, 4), "textcoords": "offset points", "ha": "right", "fontsize": 8}
        ax.annotate(f"{len(rest)} other tokens", (-1.0, rest.max()), **above)


def _explained(estimator: Any, classes: np.ndarray, bag: Any, target: Any) -> tuple[int, float]:
    """The class whose evidence is shown, by its place, and its probability."""
    probability = estimator.predict_proba(bag)[0]
    if target is not None:
        found = np.flatnonzero(classes == target)
        if len(found) != 1:
            raise ValueError(f"target must be one of {', '.join(map(str, classes))}, got {target!r}")
        column = int(found[0])
    else:
        column = 1 if len(classes) == 2 else int(np.argmax(probability))
    return column, float(probability[column])
