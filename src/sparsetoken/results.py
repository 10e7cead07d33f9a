"""Results of theory and simulation: the same fields, with the same names, units and meaning in both.

A result cannot be changed. In the flat row for a table `cosine["q"]` is the column `cosine_q`, `steps.norm["q"]` is
`steps_norm_q` and a matrix's entry `V[0, 1]` is `V_0_1`. "w" is the readout, "q" the query; xi is the signal's direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ._core.frozen import FrozenMapping, freeze_fields
from .plotting.show import Shown, axes_for, draw_shares
from .plotting.style import colour, label

# Directions that a row has columns for, whether or not the classifier has a query.
DIRECTIONS = ("w", "q")
_EMPTY: Mapping[str, float] = FrozenMapping({})
# Metadata of a dataclass field that is left out of `to_dict` and `to_row`.
NOT_PLAIN = {"plain": False}


class NotConvergedWarning(UserWarning):
    """A readout's solver stopped before it reached a minimum."""


def cosine_of(overlap: float, norm: float) -> float:
    """overlap/norm: the cosine with the unit vector xi, 0 where the vector vanishes."""
    return float(overlap / norm) if norm > 0 else 0.0


class Result(Shown):
    """Base of frozen dataclasses that hold results: read-only content, plain forms and a repr of one line."""

    def __post_init__(self) -> None:
        freeze_fields(self)

    def _plain_fields(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("plain", True)}  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Nested plain data: numbers, text, lists and dictionaries."""
        return {name: _plain(value) for name, value in self._plain_fields().items()}

    def to_row(self) -> dict[str, Any]:
        """One flat row: a mapping's entries become columns `name_key`, standard errors columns `name_se`.

        The columns of the two directions and of the two steps are always there, with NaN for a classifier without a query.
        """
        row: dict[str, Any] = {}
        for name, value in self._plain_fields().items():
            if name == "errors":
                row |= {f"{key}_se": error for key, error in value.items()}
            elif name == "steps":
                row |= {f"steps_{key}": v for key, v in (value or _NO_STEPS).to_row().items()}
            elif name in ("overlap", "cosine", "norm") and isinstance(value, Mapping):
                row |= {f"{name}_{key}": value.get(key, math.nan) for key in dict.fromkeys((*DIRECTIONS, *value))}
            elif isinstance(value, Mapping):
                row |= {f"{name}_{key}": v for key, v in value.items()}
            elif isinstance(value, tuple):
                row |= {f"{name}_{i}": v for i, v in enumerate(value)}
            elif isinstance(value, np.ndarray):
                row |= entries(name, value)
            else:
                row[name] = value
        return row

    def frame(self) -> Any:
        """A pandas table of one row, with the columns of `to_row`."""
        import pandas as pd

        return pd.DataFrame([self.to_row()])

    def _shown_frame(self) -> Any:
        """The row as two columns, name and value, without missing values."""
        row = self.frame().iloc[0].dropna()
        return row[[value != "" for value in row]].rename("value").to_frame()

    def plot(self, ax: Any = None) -> Any:
        """The numbers of the result, one per line."""
        row = {k: v for k, v in self.to_row().items() if isinstance(v, float) and math.isfinite(v)}
        ax = axes_for(ax)
        places = range(len(row))[::-1]
        ax.plot(list(row.values()), places, "o", color=colour("pooled"))
        ax.set_yticks(list(places), list(row))
        ax.grid(axis="x", alpha=0.3)
        return ax

    def _words(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._words()})"


def entries(name: str, values: np.ndarray) -> dict[str, float]:
    """An array's entries by name: `name_i` of a row, `name_i_j` of a matrix."""
    return {"_".join([name, *map(str, place)]): float(v) for place, v in np.ndenumerate(values)}


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True, repr=False)
class TwoSteps(Result):
    """What the two gradient steps on D0 give: readout w1 and bias b1 after the first, query q2 after the second.

    With the joint schedule, where there are no such steps: the readout, bias and query that descent ended with.

    Attributes
    ----------
    overlap : mapping
        <w1, xi> under "w", <q2, xi> under "q".
    cosine : mapping
        cos(w1, xi) under "w", gamma = cos(q2, xi) under "q"; 0 where the vector vanishes.
    norm : mapping
        ||w1|| under "w", ||q2|| under "q".
    bias : float
        b1.
    sharpness : float
        k = beta ||q2||, the inverse temperature of the trained attention.
    """

    overlap: Mapping[str, float]
    cosine: Mapping[str, float]
    norm: Mapping[str, float]
    bias: float
    sharpness: float

    # The same numbers as scalars, by the names that formulas and tables of reference values give them.
    cos_w = property(lambda self: self.cosine["w"], doc="cos(w1, xi).")
    cos_q = property(lambda self: self.cosine["q"], doc="gamma = cos(q2, xi).")
    norm_w = property(lambda self: self.norm["w"], doc="||w1||.")
    norm_q = property(lambda self: self.norm["q"], doc="||q2||.")
    overlap_w = property(lambda self: self.overlap["w"], doc="<w1, xi>.")
    overlap_q = property(lambda self: self.overlap["q"], doc="<q2, xi>.")

    @property
    def query_cosine(self) -> float:
        """gamma for formulas: 1 where the query is zero, since a bag is then pooled and xi may stand for qhat."""
        return self.cosine["q"] if self.norm["q"] > 0 else 1.0

    def summary(self) -> TwoSteps:
        """The numbers alone, without what a subclass adds."""
        return TwoSteps(**{f.name: getattr(self, f.name) for f in fields(TwoSteps)})

    def _words(self) -> str:
        w, q = (f"{self.cosine[name]:.4f}" for name in DIRECTIONS)
        return f"cosine of w1 {w}, of q2 {q}, sharpness {self.sharpness:.4g}"


def two_steps_from(
    overlap_w: float, norm_w: float, overlap_q: float, norm_q: float, bias: float, beta: float
) -> dict[str, Any]:
    """The fields of `TwoSteps` from the vectors' overlaps with xi and their norms."""
    return {
        "overlap": {"w": float(overlap_w), "q": float(overlap_q)},
        "cosine": {"w": cosine_of(overlap_w, norm_w), "q": cosine_of(overlap_q, norm_q)},
        "norm": {"w": float(norm_w), "q": float(norm_q)},
        "bias": float(bias),
        "sharpness": float(beta * norm_q),
    }


_NO_STEPS = TwoSteps(overlap=_EMPTY, cosine=_EMPTY, norm=_EMPTY, bias=math.nan, sharpness=math.nan)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassifierResult(Result):
    """A trained classifier: how well it does on fresh bags, and the few numbers that describe it.

    Attributes
    ----------
    model : str
        Which classifier (see `classifiers`).
    test_error : float
        P(wrong sign) on a fresh bag.
    standard_error : float
        Standard error of `test_error`, 0 where the formula is exact; in simulations that of the numerical integration for this
        one classifier, not the spread between trials.
    auc, sensitivity, specificity, balanced_error : float
        P(score of a positive bag > score of a negative one), P(+1 | y = +1), P(-1 | y = -1), and the mean error of the two
        classes.
    train_loss, train_error : float
        Mean loss (without the ridge term) and share of misclassified bags on the readout's own samples.
    norm_w, bias : float
        ||w|| and b of the final readout.
    overlap, cosine : mapping
        Overlap and cosine with xi, under "w" of the final readout, under "q" of the query (models with one). The vectorized
        readout is compared with xi at every token, (xi, .., xi)/sqrt(L). 0 where the vector vanishes.
    m_q, m_u, nu : float
        Coordinates of the final readout along qhat = q/||q|| and along u, xi's unit direction orthogonal to qhat, and the
        norm of the rest. Without a query (or with a query that vanishes) qhat is the direction of the signal and m_u is 0.
    sharpness : float
        k = beta ||q||; NaN without a query.
    steps : TwoSteps or None
        The two gradient steps that gave the query; None without a query.
    errors : mapping
        Field -> standard error of further fields, as far as they have one.
    trained, tested : mapping
        What the classifier was trained on and what it was tested on, where the two differ: the numbers of the task, the
        sharpness and the shift of the bias. All fields but the measures on fresh bags are those of the training.
    """

    model: str
    test_error: float
    standard_error: float = 0.0
    auc: float = math.nan
    sensitivity: float = math.nan
    specificity: float = math.nan
    balanced_error: float = math.nan
    train_loss: float = math.nan
    train_error: float = math.nan
    norm_w: float = math.nan
    bias: float = math.nan
    overlap: Mapping[str, float] = _EMPTY
    cosine: Mapping[str, float] = _EMPTY
    m_q: float = math.nan
    m_u: float = math.nan
    nu: float = math.nan
    sharpness: float = math.nan
    steps: TwoSteps | None = None
    errors: Mapping[str, float] = _EMPTY
    trained: Mapping[str, Any] = _EMPTY
    tested: Mapping[str, Any] = _EMPTY

    def plot(self, ax: Any = None) -> Any:
        """The error rates of the classifier with two standard errors, as far as they are known."""
        rates = {
            "test error": (self.test_error, self.standard_error),
            "positive bags missed": (1 - self.sensitivity, self.errors.get("sensitivity", 0.0)),
            "false alarms": (1 - self.specificity, self.errors.get("specificity", 0.0)),
            "1 − AUC": (1 - self.auc, self.errors.get("auc", 0.0)),
            "training error": (self.train_error, self.errors.get("train_error", 0.0)),
        }
        finite = {name: pair for name, pair in rates.items() if math.isfinite(pair[0])}
        values, errors = ([pair[k] for pair in finite.values()] for k in (0, 1))
        ax = draw_shares(axes_for(ax, (6.0, 2.8)), list(finite), values, errors, colour(self.model))
        ax.set(title=label(self.model), xlabel="share of bags (of pairs for the AUC)")
        return ax

    def _setting(self) -> str:
        return self.model

    def _words(self) -> str:
        error = f" ± {self.standard_error:.1g}" if self.standard_error > 0 else ""
        parts = [f"test error {self.test_error:.4g}{error}"]
        if not math.isnan(self.auc):
            parts.append(f"AUC {self.auc:.4f}")
        parts += [f"cosine of {name} {value:.4f}" for name, value in self.cosine.items()]
        return f"{self._setting()}{self._elsewhere()}: {', '.join(parts)}"

    def _elsewhere(self) -> str:
        """What differs between test and training, in words."""
        if not self.tested:
            return ""
        changed = {name: value for name, value in self.tested.items() if not _same(value, self.trained.get(name))}
        listed = ", ".join(f"{n} {v:.4g}" if isinstance(v, int | float) else f"{n} {v}" for n, v in changed.items())
        return f", tested at {listed}" if listed else ""


def _same(a: Any, b: Any) -> bool:
    """Whether two plain values are equal, NaN being equal to itself."""
    return bool(a == b or (a != a and b != b))


def directions_of_readout(m_q: float, m_u: float, norm_w: float, steps: TwoSteps | None) -> dict[str, Any]:
    """`overlap` and `cosine` of a classifier from its readout's coordinates and the steps behind its query."""
    gamma = 1.0 if steps is None else steps.query_cosine
    along = gamma * m_q + math.sqrt(max(0.0, 1.0 - gamma**2)) * m_u
    overlap, cosine = {"w": float(along)}, {"w": cosine_of(along, norm_w)}
    if steps is not None:
        overlap["q"], cosine["q"] = steps.overlap["q"], steps.cosine["q"]
    return {"overlap": overlap, "cosine": cosine}
