"""The classifiers that theory and simulation know by name: the one registry of `model=`.

(A `bag_models.BagModel` is something else: a score of one's own, for the dynamics of gradient descent.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._core.user_code import add_own
from .activations import Weighting, get_activation, own_weighting


@dataclass(frozen=True)
class Model:
    """A classifier that `forecast` and `simulate` know.

    Attributes
    ----------
    name : str
        What `model=` is given.
    label : str
        How figures and tables call it.
    has_query : bool
        Whether it learns a query q by the two gradient steps on D0; the others learn from D1 alone.
    trainable : bool
        Whether it is trained, so that `simulate` can do it. The Bayes limit is not: it belongs to no particular learner.
    weighting : Weighting or None
        How a mechanism of the user's own weighs the tokens of a bag.
    """

    name: str
    label: str
    has_query: bool = False
    trainable: bool = True
    weighting: Weighting | None = None


MODELS = {
    model.name: model
    for model in (
        Model("attention", "attention", has_query=True),
        Model("pooled", "pooled"),
        Model("vectorized", "vectorized"),
        Model("elementwise", "elementwise attention", has_query=True),
        Model("bayes", "Bayes limit", trainable=False),
    )
}
_BUILT_IN = tuple(MODELS)


class _Names(Iterable[str]):
    """The names of the models, or of those that are trained, including what is registered later."""

    def __init__(self, only_trainable: bool):
        self.only_trainable = only_trainable

    def __iter__(self) -> Iterator[str]:
        own = [name for name in MODELS if name not in _BUILT_IN]
        # The Bayes limit stays the last.
        listed = [*_BUILT_IN[:-1], *own, *_BUILT_IN[-1:]]
        return iter([name for name in listed if MODELS[name].trainable or not self.only_trainable])


SIMULATED, FORECAST = _Names(only_trainable=True), _Names(only_trainable=False)
MOST_HEADS = 1000  # theory and simulation hold matrices of a few times H x H numbers


def register_mechanism(name: str, weights: Callable[[Any], Any], label: str = "") -> Callable[[Any], Any]:
    """Make a mechanism of one's own known as `model=name`, in `simulate`, `forecast`, studies and the command line.

    A bag's feature is sum_l p_l x_l with p = weights(beta X q), as in attention, which has the softmax there. The query q comes
    from the same two gradient steps, the readout from the same convex problem.

    Parameters
    ----------
    name : str
        A letter followed by letters, digits, _ and -. A mechanism of that name that was registered before is replaced; the
        built-in models stay.
    weights : callable
        Scores (..., L) of all tokens of bags, the last axis the tokens of a bag, -> weights (..., L), in NumPy.
    label : str
        What figures and tables call it; its name by default.

    Returns
    -------
    callable
        The same function.

    Raises
    ------
    ValueError
        If the name is taken, or the weights depend on the order of the tokens or on other bags.
    """
    found = own_weighting(name, weights)
    add_own("mechanism", name, found, (*_BUILT_IN, "all"))
    MODELS[name] = Model(name, label or name, has_query=True, weighting=found)
    return weights


def weighting_of(model: str, activation: Any) -> Callable[[Any], Any] | None:
    """What takes the softmax's place in a model: the activation of the elementwise one, the weighting of a user's own."""
    if model == "elementwise":
        return get_activation(activation)
    return MODELS[model].weighting if model in MODELS else None


def heads_of(name: object) -> int | None:
    """H of the model "heads:H", several attention heads; None for every other model.

    A ValueError where H is no whole number from 1 to `MOST_HEADS`.
    """
    if not isinstance(name, str) or not name.startswith("heads:"):
        return None
    count = name.removeprefix("heads:")
    if not count.isascii() or not count.isdigit() or len(count) > 9 or not 1 <= int(count) <= MOST_HEADS:
        raise ValueError(f"model 'heads:H' needs a whole number of heads from 1 to {MOST_HEADS}, got {name!r}")
    return int(count)


def check_model(name: str, allowed: Iterable[str] = FORECAST) -> Model:
    """The model of that name.

    Parameters
    ----------
    name : str
        The model asked for.
    allowed : iterable of str
        The names that the caller can serve (`SIMULATED`, `FORECAST` or a choice of its own).

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If `name` is not among those allowed.
    """
    names = tuple(allowed)
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"model must be one of {', '.join(names)}, got {name!r}")
    return MODELS[name]


def has_query(name: str) -> bool:
    """Whether the model of that name learns a query."""
    return check_model(name).has_query
