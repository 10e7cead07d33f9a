"""A plan as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .advice import Plan
from .finite_size import Confirmation
from .learners import NAMES

if TYPE_CHECKING:
    from .from_bags import BagsPlan


def _number(value: float, error: float) -> str:
    digits = 4 if not error > 0 else min(6, max(3, 1 - int(f"{error:e}".split("e")[1])))
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error > 0 else "")


def _confirmed(plan: Plan, found: Confirmation) -> str:
    """Simulations beside the forecast, and at which size where it is not the plan's."""
    words = f"simulated {_number(found.value, found.standard_error)} ({found.trials} data sets"
    if found.d != plan.d:
        words += f" of {found.n:,} bags in dimension {found.d:,}; forecast there {found.forecast:.4f}"
    return words + (")" if found.agrees else "; the forecast differs)")


def as_text(plan: Plan) -> str:
    """Settings, expectations, sensitivities and answers, a section each."""
    t, s, training = plan.task, plan.settings, plan.settings.training
    lines = [
        f"{plan.n:,} bags of {t.length} tokens in dimension {plan.d:,} (α = n/d = {plan.alpha:.3g}): "
        f"R = {t.sparsity}, θ = {t.strength:g}, π = {t.prevalence:g}",
        "",
        "Best settings of staged attention",
        f"  D0 / D1        {plan.n0:,} / {plan.n1:,} bags (share {s.share:.2f})",
        f"  rates          η_w {training.eta_w:.3g}, η_b {training.eta_b:.3g}, η_q {training.eta_q:.4g}, β {training.beta:g}",
        f"  sharpness k    {s.sharpness:.3g}; cosine of the query with the signal {s.cosine:.3f}",
        f"  ridge λ        {training.ridge:.3g}",
        "",
        f"Expected {plan.criterion.label}",
    ]
    confirmed = {found.learner: found for found in plan.confirmations}
    for row in plan.expected:
        ridge = "" if row.ridge is None else f"   (ridge {row.ridge:.2g})"
        lines.append(f"  {NAMES[row.learner]:<16} {_number(row.value, row.standard_error)}{ridge}")
        if row.learner in confirmed:
            lines.append(f"  {'':<16} {_confirmed(plan, confirmed[row.learner])}")
    lines += ["", f"What moves attention's {plan.criterion.label} (change for 10 % more)"]
    sign = -1.0 if plan.criterion.larger_is_better else 1.0
    lines += [f"  {slope.parameter:<16} {sign * slope.change:+.4f}" for slope in plan.slopes]
    if plan.answers:
        lines += ["", f"Questions (target {plan.criterion.label} {plan.target:.3g})"]
        lines += [f"  - {answer.words}" for answer in plan.answers]
    if plan.notes:
        lines += ["", "Notes", *(f"  - {note}" for note in plan.notes)]
    return "\n".join(lines)


def bags_as_text(found: BagsPlan) -> str:
    """The estimate, the plan, and how the forecasts compare with measurement."""
    e, t = found.estimate, found.estimate.task
    shortest, longest = e.lengths
    lines = [
        f"These {e.n:,} bags look to the theory like",
        f"  length L             {t.length} (from {shortest} to {longest})",
        f"  sparsity R           {t.sparsity}",
        f"  strength θ           {_number(t.strength, e.strength_error)}",
        f"  prevalence π         {_number(t.prevalence, e.prevalence_error)}",
        f"  effective dimension  {_number(e.dimension, e.dimension_error)} (of {e.d:,} features)",
        *(f"  - {remark}" for remark in e.remarks),
        "",
        f"Forecast against measurement on parts of the bags ({found.checked_by.label})",
        f"  {'learner':<16} {'bags':>6} {'forecast':>9} {'calibrated':>11} {'measured':>17}",
    ]
    for check in found.checks:
        measured = f"{check.measured:.3f} ± {check.standard_error:.3f}"
        calibrated = "-" if check.calibrated is None else f"{check.calibrated:.3f}"
        mark = "   (calibrated here)" if check.fitted else "" if check.agrees(check.forecast) else "   forecast differs"
        row = f"{check.n:>6,} {check.forecast:>9.3f} {calibrated:>11} {measured:>17}{mark}"
        lines.append(f"  {NAMES[check.learner]:<16} {row}")
    lines += ["", f"Rely on: {found.trust} ({found.words})"]
    if found.more and found.trust != "measurement":
        lines += ["", f"With more bags, calibrated ({found.checked_by.label})"]
        lines += [f"  {NAMES[row['learner']]:<16} {row['n']:>7,} bags  {row['value']:.3f}" for row in found.more]
    lines += ["", "The plan for a task as estimated", "", as_text(found.plan)]
    return "\n".join(lines)
