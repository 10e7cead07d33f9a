"""A measured result as a Markdown table, with its date, commit and machine; the site puts it where a page asks for it."""

from __future__ import annotations

import json
import re
from typing import Any

from .measure import RESULTS, seconds, source_digest

OLDER = "**Older than the present code.**"
MARK = re.compile(r"<!-- benchmark: ([\w-]+) -->")


def expand(markdown: str) -> str:
    """A page with the tables that its marks `<!-- benchmark: NAME -->` ask for."""
    return MARK.sub(lambda mark: table(mark[1]), markdown)


def table(name: str) -> str:
    """The table of results/NAME, under a line that says where it comes from and whether the code has changed since."""
    if name == "gpu-h200":
        return _gpu(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))
    if name == "cluster-100gb":
        lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        return _cluster([json.loads(line) for line in lines])
    if name == "forecast_backtest":
        return _extrapolated()
    if name == "default_learner":
        from . import default_learner

        return default_learner.tables()
    file = RESULTS / f"{name}.json"
    if not file.exists():
        raise FileNotFoundError(f"no result {name!r}: `python -m benchmarks {name} --json` measures it")
    measured = json.loads(file.read_text(encoding="utf-8"))
    rows = measured["rows"]
    shown = markdown_table(lines_of(rows)) if "output" not in rows[0] else _printed(rows)
    return f"*{origin(measured)}*\n\n{shown}"


def lines_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Rows of a result as cells, the head first."""
    return _timings(rows) if "ours" in rows[0] else _plain(rows)


def _printed(rows: list[dict[str, Any]]) -> str:
    """What commands print."""
    return "```text\n" + "\n\n".join(row["output"] for row in rows) + "\n```\n"


def _extrapolated() -> str:
    """Measured learning curves with the present extrapolation."""
    from . import forecast_backtest as backtest

    lines = (RESULTS / "forecast_backtest.jsonl").read_text(encoding="utf-8").splitlines()
    return backtest.summary([backtest.judged(json.loads(line)) for line in lines]) + "\n"


def markdown_table(lines: list[list[str]]) -> str:
    """A table whose first line is its head."""
    lines = [lines[0], ["---"] * len(lines[0]), *lines[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def origin(measured: dict[str, Any]) -> str:
    """When, where and on which commit it was measured, and which of the measured packages have changed since."""
    machine = measured["machine"]
    load = (machine.get("load_average") or [float("nan")])[0]
    commit = f", commit {machine['commit']}" if machine.get("commit") else ""
    text = f"{machine['date'][:10]}{commit}, {machine['cores']} cores of {machine['processor']}, load {load:.0f}"
    sources = measured.get("sources") or {}
    changed = [package for package, digest in sources.items() if source_digest(package) != digest]
    if not sources:
        return f"{text}. {OLDER}"
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


def _gpu(measured: dict[str, Any]) -> str:
    """What `python -m benchmarks.gpu` measured: large trials and dynamics, then estimators."""
    trial, dynamics = measured["trial"], [measured[f"dynamics_{bags}"] for bags in (1024, 131072)]
    work = [
        ["work", "seconds", "over the least that memory traffic takes", "date"],
        [f"trial at d = {trial['d']:,}, L = {trial['length']}, {trial['feature_gigabytes']:g} GB of features",
         f"{seconds(trial['warm_seconds'])} warm, {seconds(trial['cold_seconds'])} cold", "", trial["date"]],
        ["its readout alone", seconds(trial['readout_seconds']), f"{trial['ratio_to_floor']:.2g}", trial["date"]],
        *([f"training dynamics, {run['steps']} steps, a replicate of {run['bags']:,} bags", seconds(run['seconds']),
           f"{run['times_the_floor']:.2g}", run["date"]] for run in dynamics),
    ]  # fmt: skip
    learners = [["learner", "NumPy fit, s", "GPU fit, first, s", "GPU fit, again, s", "largest difference of log odds"]]
    for name in ("pooled", "attention", "bag classifier", "message passing"):
        run = measured["estimators"][name]
        times = [seconds(run[field]) for field in ("fit_numpy", "fit_first", "fit_again")]
        learners.append([name, *times, f"{run['largest_gap']:.1g}"])
    said = f"*{measured['device']}, JAX {measured['jax']}; learners {measured['estimators']['date']}. {OLDER}*"
    return f"{said}\n\n{markdown_table(work)}\n{markdown_table(learners)}"


def _cluster(rows: list[dict[str, Any]]) -> str:
    """What `python -m benchmarks.cluster_folder` measured on a folder of 100 GB."""
    lines = [["learner", "seconds", "passes", "GB per second in a pass", "largest worker, MB", "process that asks, MB"]]
    for row in rows:
        if "passes" in row:
            rates = row["gigabytes_per_second"]
            speed = f"{min(rates):.2g} to {max(rates):.2g}"
            peaks = [f"{max(row['worker_peaks_mb']):,}", f"{row['client_peak_mb']:,.0f}"]
            lines.append([row["learner"], f"{row['seconds']:.0f}", str(row["passes"]), speed, *peaks])
    return (
        f"*{rows[0]['gigabytes']:g} GB, {rows[0]['workers']} workers of one thread. {OLDER}*\n\n{markdown_table(lines)}"
    )
