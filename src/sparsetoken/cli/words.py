"""What commands say: results of `fit` and `evaluate` in words, titles and columns of `forecast` and `simulate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..laws.signals import Signals

CLEARLY = 2.0  # standard errors beyond which a difference between two learners is called clear
EVIDENCE = 3.0  # those of a signal: the best of ten learners is often two standard errors lucky


def fit_in_words(diagnostics: Mapping[str, Any], counts: Mapping[Any, int] | None = None) -> list[str]:
    """What a fit says about itself: the held-out answer first, training accuracy last. `counts` are the classes' bags."""
    lines = _held_out(diagnostics, counts or {})
    if "signal_found" in diagnostics:
        lines.append(
            "this is more than chance would give: there is a signal"
            if diagnostics["signal_found"]
            else "this is no more than chance would give: do not rely on the predictions"
        )
    if "signal_class" in diagnostics and diagnostics.get("signal_found"):
        lines.append(f"bags of class {diagnostics['signal_class']} carry the signal")
    strength, count = _number(diagnostics, "strength"), _number(diagnostics, "sparsity")
    if strength is not None and count is not None:
        lines.append(f"estimated: {count:.3g} signal tokens per positive bag, of strength {strength:.3g}")
    if diagnostics.get("converged") is False:
        reason = diagnostics.get("ended")
        lines.append(f"training stopped before it was done{f': {reason}' if reason else ''}")
    wrong = _number(diagnostics, "training_error")
    if wrong is not None:
        lines.append(f"training accuracy {1 - wrong:.1%} (on new bags, expect the held-out error)")
    return lines


def _held_out(diagnostics: Mapping[str, Any], counts: Mapping[Any, int]) -> list[str]:
    """How good the model is on bags that it was not trained on; nothing where none could be held out."""
    log_loss = _number(diagnostics, "held_out_log_loss")
    ending = "" if log_loss is None else f", log loss {log_loss:.3g}"
    explained, typical = _number(diagnostics, "held_out_r2"), _number(diagnostics, "held_out_rmse")
    if explained is not None and typical is not None:
        return [f"held-out R² {explained:.3f}, typical error {typical:.3g}"]
    right = _number(diagnostics, "held_out_accuracy")
    if right is not None:
        areas = {label: _number(own, "held_out_auc") for label, own in diagnostics.get("per_class", {}).items()}
        known = [area for area in areas.values() if area is not None]
        macro = f", macro AUC {sum(known) / len(known):.3f}" if len(known) == len(areas) > 0 else ""
        own = ", ".join(f"{label} {area:.3f}" for label, area in areas.items() if area is not None)
        return [
            f"held-out error {1 - right:.1%} with {diagnostics['classes']} classes{macro}{ending}",
            *([f"AUC of each class against the others: {own}"] if own else []),
        ]
    wrong, area = _number(diagnostics, "held_out_error"), _number(diagnostics, "held_out_auc")
    if area is None:
        return []
    interval = ""
    if len(counts) == 2:
        from ..estimators.evaluation import area_error, auc_interval

        low, high = auc_interval(area, area_error(area, *counts.values()), min(counts.values()))
        interval = f" (95% interval {low:.3f} to {high:.3f})"
    error = "" if wrong is None else f"held-out error {wrong:.1%}, "
    return [f"{error}AUC {area:.3f}{interval}{ending}"]


def details(diagnostics: Mapping[str, Any]) -> list[str]:
    """All that a fit records about itself, one line per entry."""
    lines = []
    for name, value in diagnostics.items():
        if name == "per_class":
            lines += [f"class {label}: {'; '.join(details(own))}" for label, own in value.items()]
            continue
        if isinstance(value, Mapping):
            value = [f"{key} {_short(item)}" for key, item in value.items()]
        shown = "; ".join(map(str, value)) if isinstance(value, list) else _short(value)
        lines.append(f"{name.replace('_', ' ')}: {shown}")
    return lines


def verdict_in_words(found: Sequence[Any]) -> list[str]:
    """What a comparison of learners, the best first, comes to; for classes by accuracy, for numbers by R²."""
    from ..estimators.learners import MAJORITY

    learners = [e for e in found if e.learner != MAJORITY]
    if not learners:
        return []
    best = learners[0]
    none = ": no learner is clearly better than that, so there is no evidence of a signal"
    if hasattr(best, "r2"):
        said = f"best: {best.learner}, held-out R² {best.r2:.3f} (± {best.r2_error:.3f})"
        if best.r2 <= EVIDENCE * best.r2_error:
            return [f"{said}; always giving the mean label has 0{none}"]
        return [f"{said}, typical error {best.rmse:.3g}", *_as_good(best, learners, "r2")]
    said = f"best: {best.learner}, held-out error {_share(1 - best.accuracy, best.accuracy_error)}, AUC {best.auc:.3f}"
    for baseline in (e for e in found if e.learner == MAJORITY):
        said += f"; always giving the commonest label has {1 - baseline.accuracy:.1%}"
        gain, error = best.accuracy - baseline.accuracy, math.hypot(best.accuracy_error, baseline.accuracy_error)
        if gain <= EVIDENCE * error:
            # Where one class is rare, the commonest label is hard to beat in accuracy, and the ranking tells more.
            if best.auc - 0.5 <= EVIDENCE * best.auc_error:
                return [f"{said}{none}"]
            said += f", which is not clearly worse, but the ranking of bags is informative (AUC {best.auc:.3g})"
    return [said, *_as_good(best, learners, "accuracy")]


def _as_good(best: Any, learners: Sequence[Any], measure: str) -> list[str]:
    """Which learners are not clearly worse than the best one."""
    if len(learners) < 2:
        return []
    top, error = getattr(best, measure), getattr(best, f"{measure}_error")
    equals = [
        e.learner
        for e in learners
        if e is not best and top - getattr(e, measure) <= CLEARLY * math.hypot(error, getattr(e, f"{measure}_error"))
    ]
    if not equals:
        return [f"all others are clearly worse (by more than {CLEARLY:g} standard errors)"]
    return [f"not clearly worse (within {CLEARLY:g} standard errors): {', '.join(equals)}"]


def _share(value: float, error: float) -> str:
    return f"{value:.1%} (± {error:.1%})" if error > 0 else f"{value:.1%}"


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Fields that are said only where they are not zero, and one that is usual.
DISTURBANCES = ("label_noise", "contamination", "correlation", "equal_samples")
USUAL = ("query_by", "steps")


def numbers_in_words(values: Mapping[str, Any]) -> str:
    """The values that all rows share, `length 10, strength 5`; not those of the test."""
    said = {
        name: value
        for name, value in values.items()
        if not name.startswith("test_") and (value or name not in DISTURBANCES) and (name, value) != USUAL
    }
    return ", ".join(f"{n} {v:g}" if isinstance(v, int | float) else f"{n} {v}" for n, v in said.items())


def tested_in_words(values: Mapping[str, Any]) -> str:
    """Those of the test."""
    said = ", ".join(
        f"{name.removeprefix('test_')} {value:g}" for name, value in values.items() if name.startswith("test_")
    )
    return f"; tested at {said}" if said else ""


def at_test(name: str) -> str:
    """The column of an option: `test_length` is in the column `tested_length`, others in their own."""
    return f"tested_{name.removeprefix('test_')}" if name.startswith("test_") else name


def of_signals(signals: Signals | None) -> dict[str, Any]:
    """What files say of the signals; nothing where there is one."""
    if signals is None:
        return {}
    said: dict[str, Any] = {"signals": len(signals), "carried": signals.carried}
    return said | ({} if signals.carried == "all" else {"shares": [float(f"{p:.6g}") for p in signals.shares]})


def signals_in_words(signals: Signals | None) -> str:
    """The same as a part of a title."""
    said = of_signals(signals)
    if not said:
        return ""
    equal = len(set(said.get("shares", ()))) < 2
    shares = "" if equal else " with shares " + ", ".join(f"{p:g}" for p in said["shares"])
    return f"; {said['signals']} signals{shares}, carried {said['carried']}"


def cosine_columns(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Fields and headings of the cosines that rows have per head or per signal, in the order of the rows.

    cosine_q1:2 is that of the first head's query and the second signal.
    """
    names = dict.fromkeys(
        name for row in rows for name in row if name.startswith("cosine_") and not name.endswith("_se")
    )
    columns = []
    for name in names:
        if name not in ("cosine_w", "cosine_q"):
            vector, _, place = name.removeprefix("cosine_").partition(":")
            columns.append((name, f"cos({vector}, ξ{place})"))
    return columns
