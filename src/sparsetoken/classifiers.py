"""The classifiers that theory and simulation know by name: the one registry of `model=`.

(A `bag_models.BagModel` is something else: a score of a bag's projections, for the dynamics of gradient descent.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._core.user_code import add_own
from .activations import DEFAULT_ACTIVATION, get_activation, own_weighting


@dataclass(frozen=True)
class Classifier:
    """A classifier that `forecast` and `simulate` know.

    `weighting` takes the softmax's place in the weights of the tokens (None: the softmax itself, or no query at all);
    `heads` is the number of attention heads of "heads:H".
    """

    name: str
    label: str
    has_query: bool = False
    trainable: bool = True
    weighting: Callable[[Any], Any] | None = None
    heads: int | None = None
    built_in: bool = True


CLASSIFIERS = {
    entry.name: entry
    for entry in (
        Classifier("attention", "attention", has_query=True),
        Classifier("pooled", "pooled"),
        Classifier("vectorized", "vectorized"),
        Classifier(
            "elementwise", "elementwise attention", has_query=True, weighting=get_activation(DEFAULT_ACTIVATION)
        ),
        Classifier("bayes", "Bayes limit", trainable=False),
    )
}
_BUILT_IN = tuple(CLASSIFIERS)
MOST_HEADS = 1000  # theory and simulation hold matrices of a few times H x H numbers


class _Names(Iterable[str]):
    """The names of the classifiers, or of those that are trained, including what is registered later."""

    def __init__(self, only_trainable: bool):
        self.only_trainable = only_trainable

    def __iter__(self) -> Iterator[str]:
        registered = [name for name in CLASSIFIERS if name not in _BUILT_IN]
        # The Bayes limit stays the last.
        listed = [*_BUILT_IN[:-1], *registered, *_BUILT_IN[-1:]]
        return iter([name for name in listed if CLASSIFIERS[name].trainable or not self.only_trainable])


SIMULATED, FORECAST = _Names(only_trainable=True), _Names(only_trainable=False)


def register_classifier(name: str, weights: Callable[[Any], Any], label: str = "") -> Callable[[Any], Any]:
    """Register another kind of attention as `model=name`, and return its weights.

    A bag's feature is sum_l p_l x_l with p = weights(beta X q), and all else as in attention, whose weights are the softmax.

    Parameters
    ----------
    name : str
        A letter followed by letters, digits, _ and -; it may replace a registered classifier, not a built-in one.
    weights : callable
        Scores (..., L) of all tokens of bags, the last axis the tokens of a bag, -> weights (..., L), in NumPy.
    label : str
        Its label in figures and tables; its name by default.

    Raises
    ------
    ValueError
        If the name is taken, or the weights depend on the order of the tokens or on other bags.
    """
    weighting = own_weighting(name, weights)
    add_own("classifier", name, weighting, (*_BUILT_IN, "heads", "all"))
    CLASSIFIERS[name] = Classifier(name, label or name, has_query=True, weighting=weighting, built_in=False)
    return weights


def classifier(name: object) -> Classifier:
    """The classifier of that name: a registered one, "elementwise:SIGMA" with an activation, or "heads:H"."""
    if isinstance(name, str) and name in CLASSIFIERS:
        return CLASSIFIERS[name]
    family, _, detail = name.partition(":") if isinstance(name, str) else ("", "", "")
    if family == "elementwise":
        label, weighting = f"elementwise attention, {detail}", get_activation(detail)
        return Classifier(str(name), label, has_query=True, weighting=weighting)
    if family == "heads" and detail.isascii() and detail.isdigit() and 1 <= int(detail[:9]) <= MOST_HEADS:
        count = int(detail)
        return Classifier(str(name), "1 head" if count == 1 else f"{count} heads", has_query=True, heads=count)
    if family == "heads":
        raise ValueError(f"model 'heads:H' needs a whole number of heads from 1 to {MOST_HEADS}, got {name!r}")
    raise ValueError(f"model must be one of {', '.join(FORECAST)}, elementwise:SIGMA or heads:H, got {name!r}")


def check_model(name: str, allowed: Iterable[str] = SIMULATED) -> Classifier:
    """The classifier of that name, which must be one of `allowed`; "elementwise:relu" counts as "elementwise"."""
    names = tuple(allowed)
    if not isinstance(name, str) or name.partition(":")[0] not in names:
        raise ValueError(f"model must be one of {', '.join(names)}, got {name!r}")
    return classifier(name)


def heads_of(name: object) -> int | None:
    """H of the model "heads:H"; None for every other name."""
    return classifier(name).heads if isinstance(name, str) and name.startswith("heads:") else None


def has_query(name: str) -> bool:
    """Whether the model of that name learns a query."""
    return classifier(name).has_query
