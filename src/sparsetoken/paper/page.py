"""The report's page: a picture, the task and the paper's results first; then open questions, news, studies and all claims."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..plotting.matplotlib_panels import matplotlib_figure, thumbnail
from ..plotting.plotly_panels import CONFIG
from ..plotting.show import picture_bytes
from ..plotting.style import with_indices
from ..study.claims import SOURCES, LedgerRow, in_words, verdict_counts
from ..study.study import Study
from .catalogue import GROUPS, NAMES
from .stated_results import RESULTS, PaperResult, counted_apart
from .typeset import with_mathml

if TYPE_CHECKING:
    from .reproduce import StudyOutcome

_MARKS = {"confirmed": "✓", "refuted": "✗", "undecided": "?"}
_SENTENCE = re.compile(r"(?<=[.!?]) +(?=[A-ZΑ-Ω])")
# Plain text -> HTML: a minus before a number, a root, a power, a name.
_SIGNS = {
    r"(?<![\w.)⁻-])-(?=\d)": "−",
    r"\bsqrt\(": "√(",
    r"\^\(((?:[^()]|\([^()]*\))+)\)|\^(\d+)": r"<sup>\1\2</sup>",
    "`([^`]+)`": r"<code>\1</code>",
}
_NUMBERED = re.compile(r"(?:^|[:;] )[0-9]+\.$")
_EXTRAPOLATED = (
    "Claims of exact agreement are judged on values extrapolated to d → ∞, with the extrapolation's own error."
)
_SIZE_NOTES = {
    "quick": "Quick form: dimensions of a few hundred, so that simulated points sit off the theory lines by an amount of order "
    "1/d; <code>sparsetoken reproduce --full</code> runs the published sizes.",
    "full": "Full form, with the published sizes (d = 1000 and more).",
}


def report_page(
    outcomes: Sequence[StudyOutcome], drawn: Mapping[str, Any], rows: Sequence[LedgerRow], size: str, title: str
) -> str:
    """The whole page. Plotly's script is packed, and unpacked when the first figure comes near."""
    from plotly.offline import get_plotlyjs

    formulas, style, script = map(_file, ("formulas.css", "report.css", "report.js"))
    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()
    sections = [
        _first_screen(outcomes, rows, size, title),
        _open_questions(outcomes, rows),
        _news(outcomes, rows),
        *_studies(outcomes, drawn, size),
        _equations(rows),
        _all_claims(rows),
    ]
    body = "".join(html for _, _, html in sections)
    links = "".join(f'<a href="#{escape(at)}">{escape(words)}</a>' for at, words, html in sections if html)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{formulas}{style}</style></head>"
        f"<body><nav aria-label='Contents'><div>{links}</div></nav><main>{body}</main>"
        f"<script type='application/json' id='plot-config'>{_json(CONFIG)}</script>"
        f"<script type='text/plain' id='plotly'>{packed}</script><script>{script}</script></body></html>"
    )


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element that holds it; six digits are more than a picture shows."""
    value = json.loads(json.dumps(value, allow_nan=False), parse_float=lambda text: float(f"{float(text):.6g}"))
    return json.dumps(value, separators=(",", ":")).replace("</", "<\\/")


Section = tuple[str, str, str]  # anchor, words of the link, HTML


def _first_screen(outcomes: Sequence[StudyOutcome], rows: Sequence[LedgerRow], size: str, title: str) -> Section:
    from .reproduce import environment

    panels = _panels(outcomes)
    # The separation, and exact curves over simulations.
    pictures = [panels[place] for place in (("scaling", 0), ("fig1", 0)) if place in panels]
    results = [result for result in RESULTS if not result.group]
    shown = any(result.claims(rows) for result in results)
    parts = [f"<section id='paper'><h1>{escape(title)}</h1>"]
    if pictures:
        drawn = [_image(picture_bytes(matplotlib_figure([p], 4.2), ".svg"), "svg+xml", p.title) for p in pictures]
        parts.append(
            f"<div class='first'><div class='panels'>{''.join(drawn)}</div>{with_mathml(_file('task.html'))}</div>"
        )
    if shown:
        parts.append(f"<h2>The paper, result by result</h2>{_results_table(results, rows, panels)}")
    parts.append(_counts(rows) if rows else "")
    total, seconds = sum(o.summary.total for o in outcomes), sum(o.summary.cpu_seconds for o in outcomes)
    failed = sum(len(o.summary.failed) for o in outcomes)
    note = f"{_SIZE_NOTES[size]} {_EXTRAPOLATED}" if shown else ""
    facts = " · ".join(f"{escape(name)} {escape(value)}" for name, value in environment().items())
    parts.append(
        f"<p class='small'>{note} {datetime.now(UTC):%Y-%m-%d %H:%M UTC} · {total} trials, "
        f"{seconds:.0f} CPU seconds spent in this run{f', <b>{failed} failed</b>' if failed else ''} · {facts}</p></section>"
    )
    return "paper", "The paper" if shown else "Summary", "".join(parts)


def _panels(outcomes: Sequence[StudyOutcome]) -> dict[tuple[str, int], Any]:
    return {(o.study.name, place): panel for o in outcomes for place, panel in enumerate(o.panels)}


def _image(data: bytes, kind: str, alt: str = "") -> str:
    return f"<img alt='{escape(alt, quote=True)}' src='data:image/{kind};base64,{base64.b64encode(data).decode()}'>"


def _results_table(results: Iterable[PaperResult], rows: Sequence[LedgerRow], panels: Mapping[Any, Any]) -> str:
    """A row per result that was judged: its statement, a small picture, its number, its claims; the reason if not confirmed."""
    lines = []
    for result in results:
        mine = result.claims(rows)
        if not mine:
            continue
        panel = panels.get(result.picture)
        picture = f"<a href='#{result.picture[0]}'>{_image(thumbnail(panel), 'png', panel.title)}</a>" if panel else ""
        marks = " ".join(_verdict(row, words=False) for row in mine)
        reasons = "".join(
            f"<li>{_verdict(row)} {_prose(row.claim.statement)} ({row.claim.source}). "
            f"<span class='small'>Why: {_prose(row.judgement.note or row.judgement.measured)}</span></li>"
            for row in mine
            if row.judgement.verdict != "confirmed"
        )
        measured, predicted = (_prose(_clipped(text)) for text in result.measured(mine))
        lines.append(
            f"<tr><td><b>{escape(result.name)}</b><br>{_prose(result.statement)}</td><td>{picture}</td>"
            f"<td>{measured}<br><span class='small'>{predicted and 'predicted'} {predicted}</span></td>"
            f"<td>{marks}<br><span class='small'>{counted_apart(mine)}</span>"
            f"<ul class='claims'>{reasons}</ul></td></tr>"
        )
    head = "<thead><tr><th>result</th><th></th><th>measured</th><th>claims</th></tr></thead>"
    return f"<table class='results'>{head}<tbody>{''.join(lines)}</tbody></table>"


def _clipped(text: str, most: int = 110) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def _counts(rows: Sequence[LedgerRow]) -> str:
    """Verdicts counted apart for the claims of the paper, commonly stated ones, ours and the user's."""
    items = []
    for source, words in SOURCES.items():
        mine = [row for row in rows if row.claim.source == source]
        if mine:
            counts = " ".join(f"<span class='verdict {v}'>{n} {v}</span>" for v, n in verdict_counts(mine).items())
            items.append(f"<li><b>{len(mine)}</b>{words}<br>{counts}</li>")
    odd = sum(not row.as_recorded for row in rows)
    record = f"<b>{odd} differ from the recorded verdict.</b>" if odd else "All verdicts are as recorded."
    return (
        f"<ul class='counts'>{''.join(items)}</ul><p>{record} <a href='#ledger'>All claims with their criteria</a></p>"
    )


def _open_questions(outcomes: Sequence[StudyOutcome], rows: Sequence[LedgerRow]) -> Section:
    results = [result for result in RESULTS if result.group and result.claims(rows)]
    table = _results_table(results, rows, _panels(outcomes))
    answers = _headlines(o for o in outcomes if any(o.study.name in GROUPS[r.group] for r in results))
    html = f"<section id='open'><h2>The paper's open questions</h2>{table}{answers}</section>" if results else ""
    return "open", "Open questions", html


def _news(outcomes: Sequence[StudyOutcome], rows: Sequence[LedgerRow]) -> Section:
    """Results beyond the paper; then claims that are refuted, undecided or not as recorded, and why."""
    asked = {name for result in RESULTS if result.group for name in GROUPS[result.group]}
    new = [o for o in outcomes if {c.source for c in o.study.claims} == {"ours"} and o.study.name not in asked]
    parts = [f"<h2>What is new, beyond the paper</h2>{_headlines(new)}"] if new else []
    for heading, chosen in (
        ("Not as recorded", [row for row in rows if not row.as_recorded]),
        ("Refuted, and why", [row for row in rows if row.judgement.verdict == "refuted" and row.as_recorded]),
        ("Not resolved", [row for row in rows if row.judgement.verdict == "undecided" and row.as_recorded]),
    ):
        if chosen:
            parts.append(f"<h2>{heading}</h2><ul class='claims'>{''.join(map(_claim_item, chosen))}</ul>")
    return "new", "What is new", f"<section id='new'>{''.join(parts)}</section>" if parts else ""


def _equations(rows: Sequence[LedgerRow]) -> Section:
    """Those of docs/theory.md that the paper's results rest on."""
    shown = any(result.claims(rows) for result in RESULTS)
    return "equations", "Equations", with_mathml(_file("equations.html")) if shown else ""


def _headlines(outcomes: Iterable[StudyOutcome]) -> str:
    items = []
    for outcome in outcomes:
        name, found = escape(outcome.study.name), first_sentences(outcome.found or "")
        marks = " ".join(_verdict(row, words=False) for row in outcome.ledger)
        items.append(f"<li><a href='#{name}'><b>{_prose(outcome.study.title)}</b></a> {marks}<br>{_prose(found)}</li>")
    return f"<ul class='claims'>{''.join(items)}</ul>"


def first_sentences(text: str, most: int = 420) -> str:
    """As many whole sentences as fit into `most` characters, at least the first one."""
    shown = ""
    for piece in _SENTENCE.split(" ".join(text.split())):
        begun = not shown or _NUMBERED.search(shown) is not None  # the full stop belongs to a number in a list
        if not begun and len(shown) + len(piece) >= most:
            break
        shown = f"{shown} {piece}".strip()
    return shown


def _prose(text: str) -> str:
    """Text for the page: indices (η_b) lowered, powers raised, a real minus, names in backticks as code."""
    text = with_indices(escape(text), "<sub>", "</sub>")
    for pattern, shown in _SIGNS.items():
        text = re.sub(pattern, shown, text)
    return text


def _verdict(row: LedgerRow, words: bool = True) -> str:
    """The verdict with its word, or as a mark that leads to its study and has the statement under the pointer."""
    verdict, differs = row.judgement.verdict, "" if row.as_recorded else " differs"
    if words:
        return f"<span class='verdict {verdict}{differs}'>{_MARKS[verdict]} {verdict}</span>"
    title = escape(f"{row.claim.statement} ({row.claim.source}): {verdict}", quote=True)
    return f"<a class='verdict {verdict}{differs}' href='#{escape(row.study)}' title='{title}'>{_MARKS[verdict]}</a>"


def _claim_item(row: LedgerRow, link: bool = True) -> str:
    """A claim with its verdict, numbers and reason, outside its study with a link to it."""
    judged = row.judgement
    recorded = "" if row.as_recorded else f" <b>(recorded: {row.claim.expected})</b>"
    numbers = f"predicted {judged.predicted}; measured {judged.measured}"
    if judged.verdict == "undecided":
        numbers = row.problem or judged.note or numbers
    elif judged.verdict == "refuted" and judged.note:
        numbers += f". Why: {judged.note}"
    place = f" · <a href='#{escape(row.study)}'>{escape(row.study)}</a>" if link else ""
    return (
        f"<li>{_verdict(row)}{recorded} {_prose(row.claim.statement)}<br><span class='small'>{_prose(numbers)} · "
        f"{escape(row.claim.cited)}{place}</span></li>"
    )


def _studies(outcomes: Sequence[StudyOutcome], drawn: Mapping[str, Any], size: str) -> list[Section]:
    """A section per group of studies, and one for users' studies."""
    groups = {group: [o for o in outcomes if o.study.name in names] for group, names in GROUPS.items()}
    groups["Your studies"] = [o for o in outcomes if o.study.name not in NAMES]
    sections = []
    for group, mine in groups.items():
        at = group.lower().replace(" ", "-") + "-studies"
        html = "".join(_study(outcome, drawn.get(outcome.study.name), size) for outcome in mine)
        sections.append((at, group, f"<section id='{at}'><h2>{group}</h2>{html}</section>" if mine else ""))
    return sections


def _study(outcome: StudyOutcome, figures: Sequence[dict[str, Any]] | None, size: str) -> str:
    study, name = outcome.study, escape(outcome.study.name)
    parts = [f"<article id='{name}'><h3>{_prose(study.title)}</h3><p>{_prose(study.question)}</p>"]
    if figures:
        panels = "".join(
            f"<div class='panel'><h4>{_prose(panel.title)}</h4><div role='img' aria-label='{escape(panel.title, quote=True)}'>"
            f"</div><script type='application/json'>{_json(figure)}</script></div>"
            for panel, figure in zip(outcome.panels, figures)
        )
        links = ", ".join(f"<a href='figures/{name}.{kind}'>{kind.upper()}</a>" for kind in ("png", "pdf"))
        parts.append(f"<div class='panels{' one' if len(figures) == 1 else ''}'>{panels}</div>")
        parts.append(f"<p class='small'>As a picture: {links}</p>")
    if outcome.found is not None:
        parts.append(f"<p class='found'>{_prose(outcome.found)}</p>")
    elif study.findings is not None:
        parts.append("<p class='found'>Too few trials succeeded for a finding.</p>")
    if outcome.ledger:
        parts.append(f"<ul class='claims'>{''.join(_claim_item(row, link=False) for row in outcome.ledger)}</ul>")
    if study.notes:
        parts.append(f"<p class='small'>{_prose(study.notes)}</p>")
    parts.append(_parameters(study, size))
    if outcome.summary.failed:
        failed = f"{len(outcome.summary.failed)} trials failed"
        parts.append(f"<p><b>{failed}</b>; see <code>sparsetoken results --failed</code>.</p>")
    parts += [f"<p><b>{escape(problem)}</b></p>" for problem in outcome.problems]
    return "".join([*parts, "</article>"])


def _parameters(study: Study, size: str) -> str:
    rows = []
    for grid in study.grids_of(size):
        axes = "; ".join(_listed(name, values) for name, values in grid.axes.items())
        fixed = ", ".join(in_words(name, value) for name, value in grid.fixed.items())
        extra = f"{len(grid.points)} points" if len(grid.points) > 1 else ""
        rows.append(
            f"<tr><td>{escape(grid.name)}</td><td>{escape(grid.kind)}</td><td>{_prose(fixed)}</td>"
            f"<td>{_prose('; '.join(filter(None, (axes, extra))))}</td><td>{grid.repeats}</td></tr>"
        )
    return (
        "<details><summary>Parameters and sizes</summary><div class='wide'><table><thead><tr><th>table</th>"
        "<th>kind</th><th>fixed</th><th>axes</th><th>trials per point</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _listed(name: str, values: Sequence[object]) -> str:
    first, *rest = [in_words(name, value) for value in values]
    words = [first, *(word.rpartition(" = ")[2] for word in rest)]
    return ", ".join(words) if len(words) <= 12 else f"{', '.join(words[:3])} … {words[-1]} ({len(words)} values)"


def _all_claims(rows: Sequence[LedgerRow]) -> Section:
    """Every claim with its source, criterion and numbers, in a fold with filters."""
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
            f"<td>{_verdict(row)}{recorded}</td></tr>"
        )
    present = dict.fromkeys(row.claim.source for row in rows)
    verdicts = "".join(f"<option value='{name}'>{name}</option>" for name in _MARKS)
    sources = "".join(f"<option value='{name}'>{SOURCES[name]}</option>" for name in present)
    html = (
        "<details id='ledger'><summary><h2>All claims</h2></summary><div class='filters'>"
        "<input type='search' aria-label='Words to look for' placeholder='words to look for'>"
        f"<select aria-label='Verdict'><option value=''>every verdict</option>{verdicts}</select>"
        f"<select aria-label='Whose claims'><option value=''>all claims</option>{sources}</select>"
        "<output aria-live='polite'></output></div>"
        "<div class='wide'><table class='ledger'><thead><tr><th>claim</th><th>predicted</th><th>measured</th>"
        f"<th>criterion</th><th>verdict</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div></details>"
    )
    return "ledger", "All claims", html if rows else ""
