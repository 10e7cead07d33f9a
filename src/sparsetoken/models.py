"""The classifiers that theory and simulation know by name: the one registry of `model=`.

(A `bag_models.BagModel` is something else: a score of one's own, for the dynamics of gradient descent.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


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
    """

    name: str
    label: str
    has_query: bool = False
    trainable: bool = True


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
SIMULATED = tuple(name for name, model in MODELS.items() if model.trainable)
FORECAST = tuple(MODELS)


def heads_of(name: object) -> int | None:
    """H of the model "heads:H", several attention heads; None for every other model.

    A ValueError where H is no whole number from 1 on.
    """
    if not isinstance(name, str) or not name.startswith("heads:"):
        return None
    count = name.removeprefix("heads:")
    if not count.isascii() or not count.isdigit() or int(count) < 1:
        raise ValueError(f"model 'heads:H' needs a whole number of heads >= 1, got {name!r}")
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
