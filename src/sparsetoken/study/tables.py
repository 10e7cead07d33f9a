"""Tidy tables: a row a trial (or a row of a trial that returns several), a column an argument or a result."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._core.files import write_bytes
from .specification import Trial
from .store import Row, Store

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


def build_tables(trials: Mapping[str, Sequence[Trial]], store: Store) -> StudyTables:
    """Table name -> tidy table of its finished trials, in the order of the specification."""
    found = store.lookup(trial.key for part in trials.values() for trial in part)
    return {name: tidy(found[t.key] for t in part if t.key in found) for name, part in trials.items()}


def summarise(table: Any, by: str | Sequence[str], value: str) -> Any:
    """Mean, standard error and count of a column, by groups in order of appearance; missing values left out."""
    by = [by] if isinstance(by, str) else list(by)
    groups = table.dropna(subset=[value]).groupby(by, sort=False, dropna=False)[value]
    out = groups.agg(["mean", "std", "count"]).reset_index()
    out["error"] = out["std"] / np.sqrt(out["count"])  # NaN for a single trial: an error that is not known
    return out.drop(columns="std")


def extrapolate(table: Any, by: Sequence[str], value: str) -> Any:
    """The value at d -> infinity from the two largest sizes, under mean(d) = limit + c/d.

    Columns: by, limit, error (of the limit), degrees (of freedom of that error), bias (c/d at the larger size),
    d (the larger size), mean, mean_error (there).
    """
    rows = []
    for group, part in summarise(table, [*by, "d"], value).groupby(list(by), sort=False, dropna=False):
        part = part.sort_values("d")
        if len(part) < 2:
            continue
        small, large = part.iloc[-2], part.iloc[-1]
        weight = large["d"] / (large["d"] - small["d"])
        limit = weight * large["mean"] + (1 - weight) * small["mean"]
        pieces = np.array([(weight * large["error"]) ** 2, ((1 - weight) * small["error"]) ** 2])
        counts = np.array([large["count"], small["count"]]) - 1
        variance = pieces.sum()
        degrees = variance**2 / np.sum(pieces**2 / counts) if variance > 0 else float(counts.sum())
        key = group if isinstance(group, tuple) else (group,)
        rows.append(
            {
                **dict(zip(by, key)),
                "limit": limit,
                "error": np.sqrt(variance),
                "degrees": degrees,
                "bias": large["mean"] - limit,
                "d": large["d"],
                "mean": large["mean"],
                "mean_error": large["error"],
            }
        )
    columns = [*by, "limit", "error", "degrees", "bias", "d", "mean", "mean_error"]
    return pd.DataFrame(rows, columns=columns)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """CSV, Parquet or JSON by the file's ending, complete or not at all."""
    writers = {
        ".csv": lambda: table.to_csv(index=False).encode(),
        ".json": lambda: table.to_json(orient="records", indent=1).encode(),
        ".parquet": lambda: _parquet(table),
    }
    if path.suffix not in writers:
        raise ValueError(f"{path.name} must end in {', '.join(writers)}")
    write_bytes(path, writers[path.suffix](), make_folder=True)


def _parquet(table: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()
