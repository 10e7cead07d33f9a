"""A measured result as a Markdown table, with its date, commit and machine; the site puts it where a page asks for it."""

from __future__ import annotations

import json
import re
from typing import Any

from .measure import RESULTS, seconds, source_digest

MARK = re.compile(r"<!-- benchmark: ([\w-]+) -->")


def expand(markdown: str) -> str:
    """A page with the tables that its marks `<!-- benchmark: NAME -->` ask for."""
    return MARK.sub(lambda mark: table(mark[1]), markdown)


def table(name: str) -> str:
    """The table of results/NAME.json, under a line that says where it comes from and whether the code has changed since."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        raise FileNotFoundError(f"no result {name!r}: `python -m benchmarks {name} --json` measures it")
    measured = json.loads(file.read_text(encoding="utf-8"))
    lines = _timings(measured["rows"]) if "ours" in measured["rows"][0] else _plain(measured["rows"])
    lines.insert(1, ["---"] * len(lines[0]))
    shown = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"*{origin(measured)}*\n\n{shown}\n"


def origin(measured: dict[str, Any]) -> str:
    """When, where and on which commit it was measured, and which of the measured packages have changed since."""
    machine = measured["machine"]
    load = (machine.get("load_average") or [float("nan")])[0]
    commit = f", commit {machine['commit']}" if machine.get("commit") else ""
    text = f"{machine['date'][:10]}{commit}, {machine['cores']} cores of {machine['processor']}, load {load:.0f}"
    sources = measured.get("sources") or {}
    changed = [package for package, digest in sources.items() if source_digest(package) != digest]
    if not sources:
        return f"{text}. **Older than the present code.**"
    return f"{text}. **Older than the present code of {', '.join(changed)}.**" if changed else f"{text}."


def _timings(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of `measure.Row`: ours, and the peer where there is one."""
    peers = any(row["peer"] for row in rows)
    lines = [["work", "CPU s", "wall s", *(["peer", "CPU s", "ratio"] if peers else []), "goal", "note"]]
    for row in rows:
        ours, peer = row["ours"], row["peer_timing"]
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        middle = [row["peer"], seconds(peer["cpu"]) if peer else "", ratio] if peers else []
        lines.append([row["what"], seconds(ours["cpu"]), seconds(ours["wall"]), *middle, row["goal"], row["note"]])
    return lines


def _plain(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of any other result: its keys are the columns."""
    return [list(rows[0]), *([_cell(row.get(key)) for key in rows[0]] for row in rows)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
