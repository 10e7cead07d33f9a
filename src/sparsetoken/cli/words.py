"""What `fit` and `evaluate` have found, in words that need no knowledge of the method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..estimators.evaluation import Evaluation
    from ..estimators.regression_evaluation import RegressionEvaluation

CLEARLY = 2.0  # standard errors beyond which a difference between two learners is called clear
EVIDENCE = 3.0  # those of a signal: the best of ten learners is often two standard errors lucky


def fit_in_words(diagnostics: Mapping[str, Any], classes: Sequence[Any] | None = None) -> list[str]:
    """What a fit says about itself.

    Parameters
    ----------
    diagnostics : mapping
        `diagnostics_` of a fitted estimator.
    classes : sequence, optional
        Its classes, which the words then name; none for a regressor.

    Returns
    -------
    list of str
        Lines; none about what the estimator does not tell.
    """
    lines = []
    right = _number(diagnostics, "held_out_accuracy")
    if right is not None:
        lines.append(f"{right:.1%} of held-out bags get the right one of {diagnostics['classes']} classes")
    for label, own in diagnostics.get("per_class", {}).items():
        area = _number(own, "held_out_auc")
        if area is not None:
            lines.append(
                f"held-out bags of {label} score above the others in {area:.1%} of all pairs (50% is guessing)"
            )
    explained = _number(diagnostics, "held_out_r2")
    if explained is not None:
        typical = _number(diagnostics, "held_out_rmse")
        lines.append(
            f"{max(explained, 0.0):.1%} of the labels' variance is predicted on held-out bags (R²), with a typical error of "
            f"{typical:.3g}"
        )
    ranked = _number(diagnostics, "held_out_auc")
    if ranked is not None:
        first, second = classes if classes is not None and len(classes) == 2 else ("the first class", "the second")
        lines.append(
            f"held-out bags of {second} score above those of {first} in {ranked:.1%} of all pairs (50% is guessing)"
        )
    if "signal_found" in diagnostics:
        found = bool(diagnostics["signal_found"])
        lines.append(
            "this is more than chance would give: there is a signal"
            if found
            else "this is no more than chance would give: do not rely on the predictions"
        )
    wrong = _number(diagnostics, "training_error")
    if wrong is not None:
        lines.append(f"of the bags it was trained on, it gets {1 - wrong:.1%} right (on new bags, expect fewer)")
    strength, count = _number(diagnostics, "strength"), _number(diagnostics, "sparsity")
    if strength is not None and count is not None:
        lines.append(f"estimated: {count:.3g} signal tokens per positive bag, of strength {strength:.3g}")
    voters = diagnostics.get("heads")
    if isinstance(voters, list):
        lines.append(
            f"the model is a vote of {len(voters)} simple classifiers" if len(voters) > 1 else "one classifier"
        )
    averaged = diagnostics.get("members")
    if isinstance(averaged, list) and averaged:
        lines.append(
            f"the model is a mean of {len(averaged)} simple regressors" if len(averaged) > 1 else "one regressor"
        )
    if diagnostics.get("converged") is False:
        reason = diagnostics.get("ended")
        lines.append(f"training stopped before it was done{f': {reason}' if reason else ''}")
    return lines


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


def verdict_in_words(found: Sequence[Evaluation], majority: str) -> list[str]:
    """What a comparison of learners comes to.

    Parameters
    ----------
    found : sequence of Evaluation
        The learners' cross-validations.
    majority : str
        The learner among them that always gives the commonest label.

    Returns
    -------
    list of str
        Which learner is best, whether it is better than the commonest label, and which others are as good.
    """
    baseline = next((e for e in found if e.learner == majority), None)
    learners = [e for e in found if e is not baseline]
    if not learners:
        return []
    best = max(learners, key=lambda e: (e.accuracy, e.auc))
    lines = [f"best: {best.learner}, {_share(best.accuracy, best.accuracy_error)} of held-out bags right"]
    if baseline is not None:
        gain, level = (
            best.accuracy - baseline.accuracy,
            f"always giving the commonest label has {baseline.accuracy:.1%}",
        )
        error = math.hypot(best.accuracy_error, baseline.accuracy_error)
        # Where one class is rare, the commonest label is hard to beat in accuracy, and the ranking tells more.
        if gain > EVIDENCE * error:
            lines[0] += f"; {level}"
        elif best.auc - 0.5 > EVIDENCE * best.auc_error:
            lines[0] += (
                f"; {level}, which is not clearly worse, but the ranking of bags is informative (AUC {best.auc:.3g})"
            )
        else:
            lines[0] += f"; {level}: no learner is clearly better than that, so there is no evidence of a signal"
            return lines
    return lines + _as_good(best, learners, "accuracy")


def regression_verdict_in_words(found: Sequence[RegressionEvaluation]) -> list[str]:
    """What a comparison of regressors comes to.

    Parameters
    ----------
    found : sequence of RegressionEvaluation
        The learners' cross-validations.

    Returns
    -------
    list of str
        Which learner is best, whether it is better than the mean label, and which others are as good.
    """
    if not found:
        return []
    best = max(found, key=lambda e: e.r2)
    if best.r2 <= EVIDENCE * best.r2_error:
        return [
            f"best: {best.learner}, R² {best.r2:.3f} (± {best.r2_error:.3f}); always giving the mean label has 0: "
            "no learner is clearly better than that, so there is no evidence of a signal"
        ]
    share = f"{_share(best.r2, best.r2_error)} of the labels' variance predicted on held-out bags"
    return [
        f"best: {best.learner}, {share}, with a typical error of {best.rmse:.3g}",
        *_as_good(best, found, "r2"),
    ]


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
