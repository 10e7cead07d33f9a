"""A study as an editable file: its trials as data, to be changed and run as a study of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

from .registry import get_kind, plain
from .specification import Grid, Study

# Kinds whose trials measure a test error: their tables get a panel.
_WITH_TEST_ERROR = ("simulate", "readout", "forecast", "message_passing", "bayes_limit")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def as_toml(study: Study, size: str = "quick") -> str:
    """A study file in TOML with the trials of a study.

    Drawings and criteria are code, which a data file cannot hold: a panel of the test error stands for the former, and the
    claims are listed in comments.

    Parameters
    ----------
    study : Study
        What to write.
    size : str
        "quick" or "full": whose trials.

    Returns
    -------
    str
        The file's content; `load_studies` reads it.

    Raises
    ------
    ValueError
        If the study has trials of kinds that a user's Python file registers.
    """
    grids = study.grids_of(size)
    if any(grid.source is not None for grid in grids):
        raise ValueError(f"study {study.name!r} has trials of its own Python file; copy that file instead")
    lines = [
        f"# The trials of study {study.name!r} ({size} sizes). Run it with: sparsetoken run mine.toml",
        "# Its figure and its claims are code; the panels below show the test error, and a claim of your own looks like this:",
        "# [[claims]]",
        '# id = "lower-error"',
        '# statement = "Attention has the lower test error"',
        f'# criterion = {{ kind = "below", table = "{grids[0].name}", value = "test_error", column = "model", '
        'low = "attention", high = "pooled" }',
        *(f"# Claim of the study: {' '.join(claim.statement.split())}" for claim in study.claims),
        f"name = {_value(f'my-{study.name}')}",
        f"title = {_value(study.title)}",
        f"question = {_value(study.question)}",
    ]
    for grid in grids:
        lines += ["", *_trials(grid)]
    for grid in {grid.name: grid for grid in reversed(grids)}.values():
        lines += _panel(grid, [one for one in grids if one.name == grid.name])
    return "\n".join(lines) + "\n"


def _trials(grid: Grid) -> list[str]:
    lines = ["[[trials]]", f"table = {_value(grid.name)}", f"kind = {_value(grid.kind)}"]
    if get_kind(grid.kind).random:
        lines += [f"repeats = {int(grid.repeats)}", f"seed = {int(grid.first_seed)}"]
    if any(point for point in grid.points):
        listed = ",\n".join(f"  {_value(point)}" for point in grid.points)
        lines.append(f"points = [\n{listed},\n]")
    for name, part in (("fixed", grid.fixed), ("grid", grid.axes)):
        if part:
            entries = [f"{name}.{_key(key)} = {_value(value)}" for key, value in part.items() if value is not None]
            lines += entries
    return lines


def _panel(grid: Grid, parts: list[Grid]) -> list[str]:
    """A panel of the test error over the argument with the most values, one colour per model."""
    if grid.kind not in _WITH_TEST_ERROR:
        return []
    values: dict[str, set[Any]] = {}
    for part in parts:
        for point in (part.fixed, *part.points):
            for name, value in point.items():
                values.setdefault(name, set()).add(_value(value))
        for name, axis in part.axes.items():
            values.setdefault(name, set()).update(map(_value, axis))
    numeric = [name for name, found in values.items() if name != "d" and all(_is_number(text) for text in found)]
    if not numeric:
        return []
    x = max(numeric, key=lambda name: len(values[name]))
    if len(values[x]) < 2:
        return []
    by = ['by = "model"'] if len(values.get("model", ())) > 1 else []
    return ["", "[[panels]]", f"table = {_value(grid.name)}", f"x = {_value(x)}", 'y = "test_error"', *by]


def _is_number(text: str) -> bool:
    return isinstance(json.loads(text) if text[:1] not in '{["' else None, Real) and text not in ("true", "false")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else json.dumps(name)


def _value(value: Any) -> str:
    """A plain value in TOML; entries of a table that are None are left out, as TOML has no such value."""
    value = plain(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(item)}" for name, item in value.items() if item is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if value is None:
        raise ValueError("a study file cannot hold an empty value in a list")
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
