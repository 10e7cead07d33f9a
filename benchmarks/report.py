"""Tables and picture of docs/benchmarks.md from the JSON files in results/: `python -m benchmarks.report`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from .__main__ import RESULTS, load_cases
from .measure import seconds

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- tables: python -m benchmarks.report -->", "<!-- end of tables -->"


def tables(results: Path) -> str:
    """One Markdown table per case that has been measured."""
    parts = []
    for name, case in load_cases().items():
        file = results / f"{name}.json"
        if not file.exists():
            continue
        measured = json.loads(file.read_text())
        machine = measured["machine"]
        load = machine.get("load_average") or [float("nan")]
        parts.append(
            f"### {name}: {case.title}\n\n"
            f"{machine['date'][:10]}, {machine['cores']} cores of {machine['processor']}, load {load[0]:.0f}, "
            f"jax {machine['jax']}, numpy {machine['numpy']}, scikit-learn {machine['scikit-learn']}\n"
        )
        peers = any(row["peer"] for row in measured["rows"])
        headings = ["work", "CPU s", "wall s", *(["peer", "CPU s", "ratio"] if peers else []), "goal", "note"]
        lines = [headings, ["---"] * len(headings), *(_cells(row, peers) for row in measured["rows"])]
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")
    return "\n".join(parts)


def _cells(row: dict[str, Any], peers: bool) -> list[str]:
    ours, peer = row["ours"], row["peer_timing"]
    middle = []
    if peers:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        middle = [row["peer"], seconds(peer["cpu"]) if peer else "", ratio]
    return [row["what"], seconds(ours["cpu"]), seconds(ours["wall"]), *middle, row["goal"], row["note"]]


def main() -> int:
    text = PAGE.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        print(f"error: {PAGE} must hold the two marks of the tables once", file=sys.stderr)
        return 2
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    whole = f"{before}{BEGIN}\n\n{tables(RESULTS)}\n{END}{after}"
    beside = PAGE.with_suffix(".md.part")
    beside.write_text(whole)
    os.replace(beside, PAGE)
    from .growth import draw  # cases register on import: the tables' order is that of `load_cases`

    draw(json.loads((RESULTS / "growth.json").read_text())["rows"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
