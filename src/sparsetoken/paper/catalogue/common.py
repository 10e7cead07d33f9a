"""What the studies share: symbols on axes, tasks, sources, and builders for claims and panels that many of them have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._core.averages import extrapolate, summarise
from ...plotting.panels import Layer, Line, Points
from ...plotting.style import colour, marker
from ...study.claims import Claim, Judgement, Source
from ...study.criteria import LineFit, ValueWithError, agreement_criterion, fit_line, larger, select
from ...study.kinds.dynamics import REPLICATES
from ...study.verdicts import equal_verdict, format_value, quantile, worst

AXES = {
    "alpha0": "samples of the two steps per dimension, α₀ = n₀/d",
    "alpha1": "samples of the readout per dimension, α₁ = n₁/d",
    "alpha": "samples per dimension, α = n/d",
    "test_error": "test error",
    "train_loss": "training loss",
    "cosine_q": "cos(q₂, ξ)",
    "cosine_w": "cos(w₁, ξ)",
    "length": "tokens per bag, L",
    "strength": "signal strength θ",
    "prevalence": "prevalence π",
    "cosine": "cosine of query and signal, γ",
    "sharpness": "inverse temperature k = β‖q‖",
    "beta": "inverse temperature of the softmax, β",
    "ridge": "ridge λ",
    "eta_w": "learning rate η_w",
    "eta_b": "learning rate η_b",
    "eta_q": "learning rate η_q",
}

# The task of most figures: one signal token in ten, balanced classes.
TEN_TOKENS: dict[str, Any] = {"length": 10, "sparsity": 1, "strength": 5.0, "prevalence": 0.5}
MODELS = ("attention", "pooled", "vectorized")

# Bags per replicate of the trajectory theory: few where errors are many standard errors apart, the default in full forms.
FEW_BAGS, QUICK_BAGS, FULL_BAGS = 256, 512, 1024
THEORY_DEGREES = REPLICATES - 1  # of freedom of the theory's standard errors, unless a study asks for more replicates

OPEN = Source(source="ours", reference="open question of the paper")
OURS = Source(source="ours", reference="docs/theory.md")
STATED = Source(source="commonly stated", reference="")


def exact(
    id: str, statement: str, source: Source, points: str, on: Sequence[str], resolution: float, **compared: Any
) -> Claim:
    """The claim that theory and simulation agree at every combination of `on`.

    `compared` are arguments of `agreement_criterion`, where they are not the usual ones.
    """
    usual = {"table": "simulated", "theory": "predicted", "value": "test_error", "predicted_error": "standard_error"}
    rule = f"{points}, extrapolated to d → ∞, within the margin at level 0.1 %; resolution {resolution:g}"
    criterion = agreement_criterion(on=on, resolution=resolution, **usual | compared)
    return Claim(id, statement, rule, criterion, **source)


def both(parts: Mapping[str, Judgement]) -> Judgement:
    """Several judgements of one claim as one, each under its name."""
    return Judgement(
        worst(part.verdict for part in parts.values()),
        "; ".join(f"{name} {part.predicted}".strip() for name, part in parts.items()),
        "; ".join(f"{name} {part.measured}".strip() for name, part in parts.items()),
        "; ".join(f"{name}: {part.note}" for name, part in parts.items()),
    )


def ordered(pairs: Sequence[tuple[ValueWithError, ValueWithError | float]], *words: str) -> Judgement:
    """Each first value above its second, beyond the margin; `words` are what was predicted, measured and noted."""
    return Judgement(worst(larger(high, low, len(pairs)) for high, low in pairs), *words)


def power_law(x: Any, y: Any, relative_error: Any, predicted: float, resolution: float, note: str = "") -> Judgement:
    """Is the exponent of y in x the predicted one?"""
    fit = fit_line(np.log(x), np.log(y), relative_error)
    verdict = equal_verdict(fit.slope - predicted, float(quantile()) * fit.slope_error, resolution)
    return Judgement(verdict, f"exponent {predicted:g}", format_value(fit.slope, fit.slope_error), note)


def near_slope(fit: LineFit, predicted: float, tolerance: float, note: str) -> Judgement:
    """The slope of exact numbers: its scatter is small, and the tolerance stands for the approach to the limit."""
    margin = float(quantile()) * fit.slope_error
    off = abs(fit.slope - predicted) > tolerance + margin
    verdict = "refuted" if off else "confirmed" if margin < tolerance else "undecided"
    return Judgement(verdict, f"{predicted:g}", format_value(fit.slope, fit.slope_error), note)


def listed(values: Mapping[Any, Any], name: str = "") -> str:
    """Values with what they belong to: "0.03 (α = 2), 0.02 (α = 4)"."""
    shown = {k: f"{k:g}" if isinstance(k, int | float) else str(k) for k in values}
    digits = {k: f"{v:.4f}" if isinstance(v, float) else str(v) for k, v in values.items()}
    return ", ".join(f"{digits[k]} ({f'{name} = ' if name else ''}{shown[k]})" for k in values)


def largest(table: Any) -> Any:
    """The rows of the largest dimension."""
    return table[table["d"] == table["d"].max()]


def spots(table: Any, x: str, y: str, name: str, shade: str, mark: str = "circle", *, limit: bool = False) -> Points:
    """Simulated points: means at the largest dimension or, with `limit`, extrapolated to d → ∞."""
    rows = extrapolate(table, [x], y) if limit else summarise(largest(table), x, y)
    label = f"{f'{name}: ' if name else ''}simulated{', d → ∞' if limit else ''}"
    return Points(rows[x], rows["limit" if limit else "mean"], rows["error"], label, shade, mark)


def overlay(
    pair: Iterable[Any], x: str, y: str, name: str, shade: str | None = None, *, limit: bool = False
) -> list[Layer]:
    """A theory's curve and the simulated points on it (two tables), in the colour of the classifier `name` or as given."""
    theory, simulated = pair
    line, ink, mark = theory.sort_values(x), shade or colour(name), "circle" if shade else marker(name)
    curve = Line(line[x], line[y], f"{name}: theory" if name else "theory", ink)
    return [curve, spots(simulated, x, y, name, ink, mark, limit=limit)]


def by_model(
    theory: Any, simulated: Any, x: str, y: str, models: Iterable[str] = MODELS, limit: bool = False
) -> list[Layer]:
    """Theory and simulation of several classifiers."""
    parts = {m: [select(table, {"model": m}) for table in (theory, simulated)] for m in models}
    return [layer for model, pair in parts.items() for layer in overlay(pair, x, y, model, limit=limit)]


def estimates(
    found: Mapping[Any, ValueWithError], name: str, shade: str, mark: str = "circle", shift: float = 0.0
) -> Points:
    """Values with their errors, by place, as points."""
    values, errors = [v.value for v in found.values()], [v.error for v in found.values()]
    return Points(np.array(list(found), float) + shift, values, errors, name, shade, mark)


def level(value: float, ends: Sequence[float], name: str, shade: str, dash: str = "dash") -> Line:
    """A horizontal line between two ends."""
    return Line([float(min(ends)), float(max(ends))], [float(value)] * 2, name, shade, dash)


def first_crossing(x: Any, gap: Any) -> float:
    """Where a gap that is given at points x first falls to zero, by linear interpolation; nan where it does not."""
    x, gap = np.asarray(x, float), np.asarray(gap, float)
    at = np.flatnonzero((gap[:-1] > 0) & (gap[1:] <= 0))
    if not len(at):
        return float("nan")
    i = at[0]
    return float(x[i] + (x[i + 1] - x[i]) * gap[i] / (gap[i] - gap[i + 1]))


def sharp(length: Any) -> Any:
    """sqrt(2 log L): the size of the largest noise score, and the sharpness that grows with it."""
    return np.sqrt(2 * np.log(length))
