"""A plan as plain text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from .._core.words import with_error
from ..task import NEUTRAL_FIELDS, Task
from .advice import Plan
from .confirmation import Confirmation
from .extrapolation import FARTHEST, Interval
from .learners import NAMES
from .questions import rounded as _rounded

if TYPE_CHECKING:
    from .from_bags import BagsPlan, Reasons


_SMALL, _EXACT = 1e-3, 5e-7  # values and errors that six decimals would show as next to nothing


def _number(value: float, error: float) -> str:
    if abs(value) < _SMALL or 0 < error < _EXACT:
        return with_error(value, error)
    digits = 4 if not error > 0 else min(6, max(3, 1 - int(f"{error:e}".split("e")[1])))
    return f"{value:.{digits}f}" + (f" ± {error:.{digits}f}" if error > 0 else "")


def _disturbances(task: Task) -> str:
    """Label noise, contamination and correlation in words, where there are any."""
    found = {name.replace("_", " "): getattr(task, name) for name in NEUTRAL_FIELDS}
    return "".join(f", {name} {value:g}" for name, value in found.items() if value)


def _confirmed(plan: Plan, found: Confirmation) -> str:
    """Simulations beside the forecast, and at which size where it is not the plan's."""
    words = f"simulated {_number(found.value, found.standard_error)} ({found.trials} data sets"
    if found.trials > 1:
        words += f", spread {found.spread:.2g}"
    words += ")" if found.agrees else "; the forecast differs)"
    if found.d != plan.d:
        words += f"\n{'':<19}at {found.n:,} bags in dimension {found.d:,}; forecast there {found.forecast:.4f}"
    return words


def as_text(plan: Plan) -> str:
    """Settings, expectations, sensitivities and answers, a section each."""
    t, s, training = plan.task, plan.settings, plan.settings.training
    lines = [
        f"{plan.n:,} bags of {t.length:.4g} token{'' if t.length == 1 else 's'} in dimension {plan.d:,} "
        f"(α = n/d = {plan.alpha:.3g}):",
        f"R = {t.sparsity:g}, θ = {t.strength:.4g}, π = {t.prevalence:.4g}{_disturbances(t)}",
        "",
        "Best settings of staged attention",
        f"  D0 / D1        {plan.n0:,} / {plan.n1:,} bags (share {s.share:.2f})",
        f"  rates          η_w {training.eta_w:.3g}, η_b {training.eta_b:.3g}, η_q {training.eta_q:.4g}, "
        f"β {training.beta:g}",
        f"  sharpness k    {s.sharpness:.3g}; cosine of the query with the signal {s.cosine:.3f}",
        f"  ridge λ        {training.ridge:.3g}",
        "",
        f"Expected {plan.criterion.label}",
    ]
    confirmed = {found.learner: found for found in plan.confirmations}
    for row in plan.expected:
        ridge = "" if row.ridge is None else f"   (ridge {row.ridge:.2g})"
        number = _number(row.value, row.standard_error)
        if row.bound:
            number = f"at {'least' if plan.criterion.larger_is_better else 'most'} {row.value:g}"
        lines.append(f"  {NAMES[row.learner]:<16} {number}{ridge}")
        if row.learner in confirmed:
            lines.append(f"  {'':<16} {_confirmed(plan, confirmed[row.learner])}")
    lines += ["", f"What moves attention's {plan.criterion.label} (change for 10 % more)"]
    sign = -1.0 if plan.criterion.larger_is_better else 1.0
    lines += [f"  {slope.parameter:<16} {sign * slope.change:+.4f}" for slope in plan.slopes]
    if plan.answers:
        lines += ["", f"Questions (target {plan.criterion.label} {plan.target:.3g})"]
        for words in dict.fromkeys(answer.words for answer in plan.answers):  # some are the same for all learners
            lines += _wrapped(words, "    ", "  - ")
    if plan.notes:
        lines += ["", "Notes"]
        for note in plan.notes:
            lines += _wrapped(note, "    ", "  - ")
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "  ", first: str | None = None) -> list[str]:
    """Lines of at most 80 columns."""
    return textwrap.wrap(text, 80, initial_indent=indent if first is None else first, subsequent_indent=indent)


def _between(interval: Interval) -> str:
    return f"{interval.low:.3f} to {interval.high:.3f}"


def bags_in_words(found: BagsPlan) -> list[str]:
    """Error now and bags needed, as sentences."""
    criterion, needed, here = found.curve.curve.criterion, found.needed, found.curve.curve.n
    level = f"{found.now.level:.0%}".replace("%", " %")
    article = "an" if criterion.label[0] in "Aa" else "a"
    now = (
        f"With {found.n:,} bags, {found.learner} (what `fit` uses) has {article} {criterion.label} of about "
        f"{found.now.value:.3f} ({level} interval {_between(found.now)})."
    )
    far, goal = f"{round(FARTHEST):,} times as many bags", f"{needed.target:.3g}"
    given = "" if found.target_given else " (half of the loss now; `target` sets another)"

    def rounded(n):
        return f"more than {far}" if n is None else f"{_rounded(n):,}"

    if needed.status == "met":
        need = f"The target of {goal}{given} is met with the {here:,} bags at hand (probability {needed.met_now:.0%})."
        if needed.high is not None and needed.high > here:
            need += f" To be sure of it, {_rounded(needed.high):,} bags may be needed."
    elif needed.status == "found":
        high = f"{_rounded(needed.high):,}" if needed.high is not None else f"more than {far}"
        need = (
            f"A target of {goal}{given} needs about {rounded(needed.value)} bags "
            f"({level} interval: {rounded(needed.low)} to {high})."
        )
        if needed.probability < 0.95:
            need += f" With a probability of {1 - needed.probability:.0%} no number of bags is enough."
    else:
        floor = found.curve.floor()
        sure = "cannot be reached" if needed.status == "impossible" else "is more likely than not out of reach"
        need = (
            f"A target of {goal}{given} {sure} by this learner with more bags like these: its curve levels off at about "
            f"{floor.value:.3f} ({level} interval {_between(floor)}); the chance that {far} are enough is "
            f"{needed.probability:.0%}."
        )
    return [now, need.replace("%", " %").replace("  %", " %")]


def _law(law: tuple[tuple[float, float], ...], form: str) -> str:
    """How bags differ, or nothing where they do not."""
    if len(law) < 2:
        return ""
    return " (" + ", ".join(f"{value:{form}} in {share:.0%}" for value, share in law) + ")"


def _own_curve(found: BagsPlan) -> list[str]:
    """The measured points and the forecasts, a line each."""
    curve = found.curve.curve
    lines = [f"  {'training bags':>15}   {curve.criterion.label}"]
    for n, loss, error in zip(curve.sizes, curve.losses, curve.standard_errors):
        lines.append(f"  {n:>15,}   {curve.criterion.shown(loss):.3f} ± {error:.3f}, measured")
    for n in sorted({found.n, *(k * curve.n for k in (1, 2, 4, 8))}):
        ahead = found.curve.at(n)
        lines.append(f"  {n:>15,}   {ahead.value:.3f}, from {_between(ahead)}")
    floor = found.curve.floor()
    lines.append(f"  {'any number':>15}   {floor.value:.3f}, from {_between(floor)}")
    return lines


def bags_as_text(found: BagsPlan) -> str:
    """Error now and bags needed in words, the measured curve, and the theory's reasons."""
    lines = []
    for sentence in bags_in_words(found):
        lines += _wrapped(sentence, "")
    curve = found.curve.curve
    lines += ["", f"{found.learner} on parts of these {curve.n:,} bags ({curve.fits} fits), and carried on"]
    lines += _own_curve(found)
    if found.remark:
        lines += ["", *_wrapped(f"No reasons: {found.remark}", "")]
    if found.reasons is not None:
        lines += ["", "REASONS: the theory's own learners (linear, one direction) on bags like these", ""]
        if found.beyond_theory:
            best = found.reasons.plan.value("optimal")
            lines += _wrapped(
                f"{found.learner} is better already than the theory's limit for such bags ({best:.3f}): their signal is not "
                "one direction. What is called impossible below is so for learners that look for one.",
                "",
            )
            lines.append("")
        lines += _reasons(found.reasons)
    return "\n".join(lines)


def _reasons(found: Reasons) -> list[str]:
    e, t = found.estimate, found.estimate.task
    shortest, longest = e.lengths
    lines = [
        f"These {e.n:,} bags look to the theory like",
        f"  length L             {t.length:.3g} (from {shortest} to {longest})",
        f"  sparsity R           {t.sparsity}{_law(e.sparsity_law, 'd')}",
        f"  strength θ           {_number(t.mean_strength, e.strength_error)}{_law(e.strength_law, '.2g')}",
        f"  prevalence π         {_number(t.prevalence, e.prevalence_error)}",
        f"  effective dimension  {_number(e.dimension, e.dimension_error)} (of {e.d:,} features)",
    ]
    for remark in e.remarks:
        lines += _wrapped(remark, "    ", "  - ")
    lines += [
        "",
        f"Forecast against measurement on parts of the bags ({found.checked_by.label})",
        f"  {'learner':<16} {'bags':>6} {'forecast':>9} {'calibrated':>11} {'measured':>15}",
    ]
    for check in found.checks:
        measured = f"{check.measured:.3f} ± {check.standard_error:.3f}"
        calibrated = "-" if check.calibrated is None else f"{check.calibrated:.3f}" + ("*" if check.fitted else " ")
        mark = "" if check.agrees(check.forecast) else "  forecast off"
        row = f"{check.n:>6,} {check.forecast:>9.3f} {calibrated:>11} {measured:>15}{mark}"
        lines.append(f"  {NAMES[check.learner]:<16} {row}")
    lines += ["  * the calibration is made from this measurement", ""]
    lines += _wrapped(f"Of these forecasts, rely on: {found.trust} ({found.words})", "")
    if found.more and found.trust != "measurement":
        lines += ["", f"With more bags, calibrated ({found.checked_by.label})"]
        lines += [f"  {NAMES[row['learner']]:<16} {row['n']:>7,} bags  {row['value']:.3f}" for row in found.more]
    lines += ["", "The plan for a task as estimated", "", as_text(found.plan)]
    return lines
