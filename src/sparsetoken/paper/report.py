"""The report: one HTML file that needs no network, with the ledger of claims first and every study after it."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from .._core.files import write_bytes
from ..plotting.draw import plotly_figure, save_figure
from ..plotting.panels import Panel
from ..study.claims import LedgerRow, attempt, ledger_table
from ..study.runner import RunSummary
from ..study.specification import Study
from ..study.tables import StudyTables, write_table

_MARKS = {"confirmed": "✓", "refuted": "✗", "undecided": "?"}


@dataclass
class StudyOutcome:
    """A study that has been run.

    Attributes
    ----------
    study : Study
        What was asked.
    tables : dict
        Its tables by name.
    panels : sequence of Panel
        Its figure; empty where there is none.
    found : str or None
        What was found, in words.
    ledger : sequence of LedgerRow
        Its judged claims.
    summary : RunSummary
        How the run went.
    problems : list of str
        What is wrong with the study itself (its drawing, its findings), a line each.
    """

    study: Study
    tables: StudyTables
    panels: Sequence[Panel]
    found: str | None
    ledger: Sequence[LedgerRow]
    summary: RunSummary
    problems: list[str]


def environment() -> dict[str, str]:
    """What the numbers were computed with."""
    facts = {"sparsetoken": __version__, "Python": platform.python_version(), "machine": platform.platform()}
    for package in ("numpy", "scipy", "jax", "scikit-learn", "pandas"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def write_report(outcomes: Sequence[StudyOutcome], folder: Path, size: str, title: str) -> Path:
    """Write report.html, figures (PNG, PDF), tables and ledger (CSV).

    A figure that cannot be drawn becomes a problem of its study, and the report goes without it.

    Parameters
    ----------
    outcomes : sequence of StudyOutcome
        The studies, in order.
    folder : Path
        Where the files go; made if missing.
    size : str
        "quick" or "full".
    title : str
        The page's title.

    Returns
    -------
    Path
        The page.
    """
    drawn: dict[str, Any] = {}
    for outcome in outcomes:
        if outcome.panels:
            stem, words = folder / "figures" / outcome.study.name, f"figure of study {outcome.study.name!r}"
            drawn[outcome.study.name], problem = attempt(words, _draw_twice, outcome.panels, stem)
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


def _draw_twice(panels: Sequence[Panel], stem: Path) -> Any:
    """Write the pictures; returns the figure for the page."""
    figure = plotly_figure(panels)
    save_figure(panels, stem)
    return figure


def _page(
    outcomes: Sequence[StudyOutcome], drawn: Mapping[str, Any], rows: Sequence[LedgerRow], size: str, title: str
) -> str:
    from plotly.offline import get_plotlyjs

    style = resources.files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{escape(o.study.name)}">{escape(o.study.name)}</a>' for o in outcomes)
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in environment().items())
    total = sum(o.summary.total for o in outcomes)
    seconds = sum(o.summary.cpu_seconds for o in outcomes)
    failed = sum(len(o.summary.failed) for o in outcomes)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="small">{made} · {size} form · {total} trials, {seconds:.0f} CPU seconds spent in this run'
        f"{f', <b>{failed} failed</b>' if failed else ''}<br>{facts}</p>",
        f"<nav>{links}</nav>",
        f'<p class="lead">{_SIZE_NOTES[size]}</p>' if size in _SIZE_NOTES else "",
        _ledger_html(rows),
        *(_study_html(outcome, drawn.get(outcome.study.name), size) for outcome in outcomes),
    ]
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{style}</style><script>{get_plotlyjs()}</script></head>"
        f"<body><main>{''.join(body)}</main></body></html>"
    )


_SIZE_NOTES = {
    "quick": "This is the quick form: dimensions of a few hundred. Simulated points therefore sit off the theory lines "
    "by an amount of order 1/d; claims of exact agreement are judged on values extrapolated to d → ∞ from two sizes, "
    "with the extrapolation's own error. <code>sparsetoken reproduce --full</code> runs the published sizes.",
    "full": "This is the full form, with the published sizes (d = 1000 and more). Claims of exact agreement are judged "
    "on values extrapolated to d → ∞ from two sizes, with the extrapolation's own error.",
}


def _ledger_html(rows: Sequence[LedgerRow]) -> str:
    if not rows:
        return ""
    lines = []
    for row in rows:
        claim, judged = row.claim, row.judgement
        differs = "" if row.as_recorded else " differs"
        recorded = "" if row.as_recorded else f"<br><b>recorded: {claim.expected}</b>"
        lines.append(
            f"<tr><td>{escape(claim.statement)}<br><span class='small'>{escape(claim.source)} · "
            f"<a href='#{escape(row.study)}'>{escape(row.study)}</a></span></td>"
            f"<td>{escape(judged.predicted)}</td><td>{escape(judged.measured)}"
            f"<br><span class='small'>{escape(judged.note)}</span></td><td class='small'>{escape(claim.rule)}</td>"
            f"<td><span class='verdict {judged.verdict}{differs}'>{_MARKS[judged.verdict]} {judged.verdict}</span>"
            f"{recorded}</td></tr>"
        )
    counts = {verdict: sum(row.judgement.verdict == verdict for row in rows) for verdict in _MARKS}
    odd = sum(not row.as_recorded for row in rows)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return (
        f"<h2 id='claims'>Claims</h2><p>{len(rows)} claims: {summary}. "
        f"{'All verdicts are the recorded ones.' if not odd else f'<b>{odd} differ from the recorded verdict.</b>'}</p>"
        "<div class='wide'><table><thead><tr><th>claim</th><th>predicted</th><th>measured</th><th>criterion</th>"
        f"<th>verdict</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _study_html(outcome: StudyOutcome, figure: Any | None, size: str) -> str:
    study = outcome.study
    parts = [f"<section id='{escape(study.name)}'><h2>{escape(study.title)}</h2><p>{escape(study.question)}</p>"]
    if figure is not None:
        drawn = figure.to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        parts.append(f"<div style='max-width:{780 if len(outcome.panels) == 1 else 1280}px'>{drawn}</div>")
    if outcome.found is not None:
        parts.append(f"<p class='found'>{escape(outcome.found)}</p>")
    elif study.findings is not None:
        parts.append("<p class='found'>Too few trials succeeded to say what was found.</p>")
    if study.notes:
        parts.append(f"<p class='small'>{escape(study.notes)}</p>")
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
