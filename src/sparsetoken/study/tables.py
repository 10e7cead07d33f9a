"""Tidy tables: a row per trial (several for a trial that returns several), a column per argument and per result."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .._core.files import write_bytes
from .._core.imports import require
from .store import Row, Store
from .study import TrialSpec

StudyTables = dict[str, pd.DataFrame]


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def tidy(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows of the store as one table.

    A result with an argument's name gets the suffix `_result`. A trial that returns several rows (for a list of alpha, say)
    may name an argument in them: its rows then carry their own value.
    """
    records = []
    for row in rows:
        if row.status != "done":
            continue
        arguments = {name: _cell(value) for name, value in row.arguments.items()}
        several = isinstance(row.result, list)
        for result in row.result if several else [row.result]:
            renamed = {(f"{k}_result" if k in arguments and not several else k): _cell(v) for k, v in result.items()}
            records.append({**arguments, **renamed})
    return pd.DataFrame.from_records(records)


def build_tables(trials: Mapping[str, Sequence[TrialSpec]], store: Store) -> StudyTables:
    """Table name -> tidy table of its finished trials, in the order of the specification."""
    rows = store.lookup(trial.key for part in trials.values() for trial in part)
    return {name: tidy(rows[t.key] for t in part if t.key in rows) for name, part in trials.items()}


ENDINGS = (".csv", ".parquet", ".json")


def write_table(table: pd.DataFrame, path: Path, default: str | None = None) -> None:
    """Write a table as CSV, Parquet or JSON by the file's ending (or a default), complete or not at all."""
    writers = {
        ".csv": lambda: as_csv(table),
        ".json": lambda: table.to_json(orient="records", indent=1).encode(),
        ".parquet": lambda: _parquet(table),
    }
    write = writers.get(path.suffix.lower()) or writers.get(default or "")
    if write is None:
        raise ValueError(f"{path.name} must end in {', '.join(ENDINGS)}")
    write_bytes(path, write(), make_folder=True)


def as_csv(table: pd.DataFrame) -> bytes:
    """A table as the content of a CSV file."""
    return table.to_csv(index=False, lineterminator="\n").encode()


def _parquet(table: pd.DataFrame) -> bytes:
    require("parquet")
    buffer = io.BytesIO()
    table.assign(**{name: _of_one_type(table[name]) for name in table.columns}).to_parquet(buffer, index=False)
    return buffer.getvalue()


def _of_one_type(column: pd.Series) -> pd.Series:
    """The column as Parquet can hold it: one of numbers and text, such as rates for all directions and for each, as text."""
    types = {type(value) for value in column[column.notna()]} if column.dtype == object else set()
    if len(types) < 2 or types <= {int, float}:
        return column
    return column.map(lambda value: value if value is None or isinstance(value, str) else json.dumps(value))
