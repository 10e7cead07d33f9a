"""The report: one HTML file that needs no network.

It opens with what is new against the paper and with the claims that were refuted; then come the studies with their figures,
and the full ledger in a fold that can be filtered.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from .._core.files import write_bytes
from ..plotting.matplotlib_panels import save_figure
from ..plotting.panels import Panel
from ..plotting.plotly_panels import CONFIG, plotly_panel
from ..plotting.style import with_indices
from ..study.claims import SOURCES, LedgerRow, attempt, ledger_table, verdict_counts
from ..study.executor import TrialExecutor
from ..study.runner import RunSummary
from ..study.study import Study
from ..study.tables import StudyTables, write_table

_MARKS = {"confirmed": "✓", "refuted": "✗", "undecided": "?"}
LONGEST_HEADLINE = 420  # characters of a finding that the summary shows
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-ZΑ-Ω])")
_NUMBERED = re.compile(r"(?:^|[:;] )[0-9]+\.$")


@dataclass
class StudyOutcome:
    """A study that has been run."""

    study: Study
    tables: StudyTables
    panels: Sequence[Panel]
    found: str | None
    ledger: Sequence[LedgerRow]
    summary: RunSummary
    problems: list[str]
    headline: str | None = None


def environment() -> dict[str, str]:
    """What the numbers were computed with."""
    facts = {"sparsetoken": __version__, "Python": platform.python_version(), "machine": platform.platform()}
    for package in ("numpy", "scipy", "jax", "scikit-learn", "pandas"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def write_report(
    outcomes: Sequence[StudyOutcome], folder: Path, size: str, title: str, executor: TrialExecutor | None = None
) -> Path:
    """Write report.html, figures (PNG, PDF), tables and ledger (CSV).

    A figure that cannot be drawn becomes a problem of its study, and the report goes without it.
    """
    drawn: dict[str, list[dict[str, Any]]] = {}
    pictures: dict[str, Future] = {}
    if executor is not None and not executor.remote:
        with suppress(BrokenExecutor):  # this process draws them then
            for outcome in outcomes:
                stem = folder / "figures" / outcome.study.name
                if outcome.panels:
                    pictures[outcome.study.name] = executor.submit(save_figure, outcome.panels, stem)
    for outcome in outcomes:
        if outcome.panels:
            stem, words = folder / "figures" / outcome.study.name, f"figure of study {outcome.study.name!r}"
            picture = pictures.get(outcome.study.name)
            drawn[outcome.study.name], problem = attempt(words, _draw_twice, outcome.panels, stem, picture)
            if problem:
                outcome.problems.append(problem)
        for name, table in outcome.tables.items():
            write_table(table, folder / "tables" / f"{outcome.study.name}-{name}.csv")
    rows = [row for outcome in outcomes for row in outcome.ledger]
    if rows:
        write_table(ledger_table(rows), folder / "ledger.csv")
    page = folder / "report.html"
    write_bytes(page, _page(outcomes, drawn, rows, size, title).encode(), make_folder=True)
    return page


def _draw_twice(panels: Sequence[Panel], stem: Path, picture: Future | None) -> list[dict[str, Any]]:
    """Write the pictures, unless another process does; returns the figures for the page."""
    figures = [plotly_panel(panel) for panel in panels]
    if picture is None or picture.exception() is not None:  # what went wrong there is found out here
        save_figure(panels, stem)
    return figures


def _page(
    outcomes: Sequence[StudyOutcome], drawn: Mapping[str, Any], rows: Sequence[LedgerRow], size: str, title: str
) -> str:
    from plotly.offline import get_plotlyjs

    style, script = (
        resources.files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    links = [("summary", "summary"), *((o.study.name, o.study.name) for o in outcomes)]
    links += [("ledger", "all claims")] if rows else []
    listed = "".join(f'<a href="#{escape(target)}">{escape(words)}</a>' for target, words in links)
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in environment().items())
    total = sum(o.summary.total for o in outcomes)
    seconds = sum(o.summary.cpu_seconds for o in outcomes)
    failed = sum(len(o.summary.failed) for o in outcomes)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="small">{made} · {size} form · {total} trials, {seconds:.0f} CPU seconds spent in this run'
        f"{f', <b>{failed} failed</b>' if failed else ''}<br>{facts}</p>",
        _summary_html(outcomes, rows, size),
        *(_study_html(outcome, drawn.get(outcome.study.name), size) for outcome in outcomes),
        _ledger_html(rows),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{style}</style><script>{get_plotlyjs()}</script></head>"
        f"<body><nav aria-label='Contents'><div>{listed}</div></nav><main>{''.join(body)}</main>"
        f"<script type='application/json' id='plot-config'>{_json(CONFIG)}</script><script>{script}</script></body></html>"
    )


def _json(value: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")


def _summary_html(outcomes: Sequence[StudyOutcome], rows: Sequence[LedgerRow], size: str) -> str:
    """What is new against the paper, what was refuted, what is undecided, and what is not as recorded."""
    parts = ["<section id='summary'>"]
    if rows:
        parts.append(_counts_html(rows))
    if size in _SIZE_NOTES:
        parts.append(f'<p class="lead small">{_SIZE_NOTES[size]}</p>')
    new = [o for o in outcomes if {claim.source for claim in o.study.claims} == {"ours"}]
    if new:
        parts.append("<h2>What is new here, against the paper</h2><ul class='claims'>")
        parts += [_news_html(outcome) for outcome in new]
        parts.append("</ul>")
    for heading, chosen in (
        ("Not as recorded", [row for row in rows if not row.as_recorded]),
        ("Refuted", [row for row in rows if row.judgement.verdict == "refuted" and row.as_recorded]),
        ("Undecided", [row for row in rows if row.judgement.verdict == "undecided" and row.as_recorded]),
    ):
        if chosen:
            parts.append(f"<h2>{heading}</h2><ul class='claims'>{''.join(map(_told_html, chosen))}</ul>")
    return "".join([*parts, "</section>"])


def _counts_html(rows: Sequence[LedgerRow]) -> str:
    """Verdicts counted apart for the claims of the paper, commonly stated ones, ours and the user's."""
    items = []
    for source, words in SOURCES.items():
        mine = [row for row in rows if row.claim.source == source]
        if mine:
            counts = " ".join(f"<span class='verdict {v}'>{n} {v}</span>" for v, n in verdict_counts(mine).items())
            items.append(f"<li><b>{len(mine)}</b>{words}<br>{counts}</li>")
    odd = sum(not row.as_recorded for row in rows)
    told = f"<b>{odd} differ from the recorded verdict.</b>" if odd else "Every verdict is the recorded one."
    return f"<ul class='counts'>{''.join(items)}</ul><p>{told} <a href='#ledger'>All claims with their criteria</a></p>"


def _news_html(outcome: StudyOutcome) -> str:
    name, found = escape(outcome.study.name), outcome.headline or first_sentences(outcome.found or "")
    marks = " ".join(_verdict_html(row, words=False) for row in outcome.ledger)
    return f"<li><a href='#{name}'><b>{_prose(outcome.study.title)}</b></a> {marks}<br>{_prose(found)}</li>"


def first_sentences(text: str, most: int = LONGEST_HEADLINE) -> str:
    """As many whole sentences as fit into `most` characters, at least the first one."""
    shown = ""
    for piece in _SENTENCE.split(" ".join(text.split())):
        begun = not shown or _NUMBERED.search(shown) is not None  # what looked like an end was a number in a list
        if not begun and len(shown) + len(piece) >= most:
            break
        shown = f"{shown} {piece}".strip()
    return shown


def _prose(text: str) -> str:
    """Text for the page, with the indices of symbols (η_b) lowered."""
    return with_indices(escape(text), "<sub>", "</sub>")


def _verdict_html(row: LedgerRow, words: bool = True) -> str:
    """The verdict as a mark, with its words or with the statement under the pointer."""
    verdict, differs = row.judgement.verdict, "" if row.as_recorded else " differs"
    title = f" title='{escape(row.claim.statement, quote=True)}: {verdict}'" if not words else ""
    return f"<span class='verdict {verdict}{differs}'{title}>{_MARKS[verdict]}{f' {verdict}' if words else ''}</span>"


def _told_html(row: LedgerRow, link: bool = True) -> str:
    """A claim with its verdict and numbers, for the summary (with a link to its study) and for its study."""
    judged = row.judgement
    recorded = "" if row.as_recorded else f" <b>(recorded: {row.claim.expected})</b>"
    numbers = f"predicted {judged.predicted}; measured {judged.measured}"
    if judged.verdict == "undecided":
        numbers = row.problem or judged.note or numbers
    place = f" · {escape(row.claim.cited)}" + (
        f" · <a href='#{escape(row.study)}'>{escape(row.study)}</a>" if link else ""
    )
    return (
        f"<li>{_verdict_html(row)}{recorded} {_prose(row.claim.statement)}<br><span class='small'>"
        f"{_prose(numbers)}{place}</span></li>"
    )


_SIZE_NOTES = {
    "quick": "This is the quick form: dimensions of a few hundred. Simulated points therefore sit off the theory lines "
    "by an amount of order 1/d; claims of exact agreement are judged on values extrapolated to d → ∞ from two sizes, "
    "with the extrapolation's own error. <code>sparsetoken reproduce --full</code> runs the published sizes.",
    "full": "This is the full form, with the published sizes (d = 1000 and more). Claims of exact agreement are judged "
    "on values extrapolated to d → ∞ from two sizes, with the extrapolation's own error.",
}


def _ledger_html(rows: Sequence[LedgerRow]) -> str:
    """Every claim with its source, criterion and numbers, in a fold with filters."""
    if not rows:
        return ""
    lines = []
    for row in rows:
        claim, judged = row.claim, row.judgement
        recorded = "" if row.as_recorded else f"<br><b>recorded: {claim.expected}</b>"
        lines.append(
            f"<tr data-verdict='{judged.verdict}' data-source='{claim.source}'>"
            f"<td>{_prose(claim.statement)}<br><span class='small'>{escape(claim.cited)} · "
            f"<a href='#{escape(row.study)}'>{escape(row.study)}</a><br>tested at {_prose(row.tested) or '-'}</span></td>"
            f"<td data-name='predicted'>{_prose(judged.predicted)}</td>"
            f"<td data-name='measured'>{_prose(judged.measured)}<br><span class='small'>{_prose(judged.note)}</span></td>"
            f"<td class='small' data-name='criterion'>{_prose(claim.rule)}</td>"
            f"<td>{_verdict_html(row)}{recorded}</td></tr>"
        )
    present = dict.fromkeys(row.claim.source for row in rows)
    verdicts = "".join(f"<option value='{name}'>{name}</option>" for name in _MARKS)
    sources = "".join(f"<option value='{name}'>{SOURCES[name]}</option>" for name in present)
    return (
        "<details id='ledger'><summary><h2>All claims</h2></summary><div class='filters'>"
        "<input type='search' aria-label='Words to look for' placeholder='words to look for'>"
        f"<select aria-label='Verdict'><option value=''>every verdict</option>{verdicts}</select>"
        f"<select aria-label='Whose claims'><option value=''>all claims</option>{sources}</select>"
        "<output aria-live='polite'></output></div>"
        "<div class='wide'><table class='ledger'><thead><tr><th>claim</th><th>predicted</th><th>measured</th>"
        f"<th>criterion</th><th>verdict</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>"
    )


def _study_html(outcome: StudyOutcome, figures: Sequence[dict[str, Any]] | None, size: str) -> str:
    study = outcome.study
    parts = [f"<section id='{escape(study.name)}'><h2>{_prose(study.title)}</h2><p>{_prose(study.question)}</p>"]
    if figures:
        panels = "".join(
            f"<div class='panel'><div role='img' aria-label='{escape(panel.title, quote=True)}'></div>"
            f"<script type='application/json'>{_json(figure)}</script></div>"
            for panel, figure in zip(outcome.panels, figures)
        )
        picture = f"figures/{escape(study.name, quote=True)}"
        parts.append(f"<div class='panels{' one' if len(figures) == 1 else ''}'>{panels}</div>")
        parts.append(
            f"<p class='small'>As a picture: <a href='{picture}.png'>PNG</a>, <a href='{picture}.pdf'>PDF</a></p>"
        )
    if outcome.found is not None:
        parts.append(f"<p class='found'>{_prose(outcome.found)}</p>")
    elif study.findings is not None:
        parts.append("<p class='found'>Too few trials succeeded to say what was found.</p>")
    if outcome.ledger:
        parts.append(f"<ul class='claims'>{''.join(_told_html(row, link=False) for row in outcome.ledger)}</ul>")
    if study.notes:
        parts.append(f"<p class='small'>{_prose(study.notes)}</p>")
    parts.append(_parameters_html(study, size))
    if outcome.summary.failed:
        parts.append(
            f"<p><b>{len(outcome.summary.failed)} trials failed</b>; see <code>sparsetoken results --failed</code>.</p>"
        )
    parts += [f"<p><b>{escape(problem)}</b></p>" for problem in outcome.problems]
    parts.append("</section>")
    return "".join(parts)


def _parameters_html(study: Study, size: str) -> str:
    rows = []
    for grid in study.grids_of(size):
        axes = "; ".join(f"{name} = {_values(values)}" for name, values in grid.axes.items())
        fixed = ", ".join(f"{name} = {value}" for name, value in grid.fixed.items())
        extra = f"{len(grid.points)} points" if len(grid.points) > 1 else ""
        rows.append(
            f"<tr><td>{escape(grid.name)}</td><td>{escape(grid.kind)}</td><td>{escape(fixed)}</td>"
            f"<td>{escape('; '.join(filter(None, (axes, extra))))}</td><td>{grid.repeats}</td></tr>"
        )
    return (
        "<details><summary>Parameters and sizes</summary><div class='wide'><table><thead><tr><th>table</th>"
        "<th>kind</th><th>fixed</th><th>axes</th><th>trials per point</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _values(values: Sequence[object]) -> str:
    words = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:3])} … {words[-1]} ({len(words)} values)"
