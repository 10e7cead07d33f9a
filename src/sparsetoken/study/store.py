"""The store: one SQLite file, a row a finished trial, written by the coordinating process alone.

Write-ahead logging and one transaction a row make `kill -9` harmless: what was recorded stays, what was in flight is
repeated.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from .registry import canonical_json
from .specification import Trial

APPLICATION_ID = 0x5370546B  # "SpTk" in the file's header
SCHEMA_VERSION = 1
DEFAULT_STORE = Path("sparsetoken-results") / "store.sqlite"

_SCHEMA = """
CREATE TABLE trials (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, arguments TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed')), result TEXT, traceback TEXT,
  seconds REAL, cpu_seconds REAL, finished TEXT NOT NULL, package TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE members (
  study TEXT NOT NULL, grid TEXT NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (study, grid, place)
) WITHOUT ROWID;
"""


class StoreError(OSError):
    """The store cannot be opened, read or written; nothing in it was changed by the failing call."""


@dataclass(frozen=True)
class Row:
    """A recorded trial."""

    key: str
    kind: str
    version: int
    arguments: dict[str, Any]
    status: str
    result: Any
    traceback: str | None
    seconds: float
    cpu_seconds: float
    finished: str


class Store:
    """Open (or make) the store at `path`; a context manager.

    create   make a missing file (and its folder)
    timeout  seconds to wait for another process that holds the file
    """

    def __init__(self, path: str | Path = DEFAULT_STORE, *, create: bool = True, timeout: float = 20.0):
        self.path = Path(path)
        if self.path.is_dir():
            raise StoreError(f"store {self.path} is a folder; give a file")
        if not self.path.exists() and not create:
            raise StoreError(f"store {self.path} does not exist")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of store {self.path}: {error.strerror or error}") from error
        with self._translated("open"):
            self._connection = sqlite3.connect(self.path, timeout=timeout, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        run = self._connection.execute
        identity = run("PRAGMA application_id").fetchone()[0]
        version = run("PRAGMA user_version").fetchone()[0]
        if identity == 0 and run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            run("PRAGMA journal_mode=WAL")
            run("BEGIN IMMEDIATE")
            if run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:  # no other process was quicker
                for statement in _SCHEMA.split(";")[:-1]:
                    run(statement)
                run(f"PRAGMA application_id={APPLICATION_ID}")
                run(f"PRAGMA user_version={SCHEMA_VERSION}")
            run("COMMIT")
        elif identity != APPLICATION_ID:
            raise StoreError(f"{self.path} is an SQLite file of another program, not a store")
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"store {self.path} has format {version}; this version of the program reads {SCHEMA_VERSION}"
            )
        run("PRAGMA synchronous=NORMAL")
        if run("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise StoreError(f"store {self.path} is damaged; move it away or restore a copy")

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                reason = "another process holds it; wait for it or use another --store"
            elif "not a database" in text or "malformed" in text:
                reason = "it is not an SQLite file or is damaged; move it away or restore a copy"
            elif "full" in text:
                reason = "the disk is full; what was recorded is safe, make room and run again"
            else:
                reason = text
            raise StoreError(f"cannot {action} store {self.path}: {reason}") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def record(self, trial: Trial, outcome: Mapping[str, Any]) -> None:
        """Write one outcome. A success is never overwritten; a failure is replaced by a later attempt."""
        failed = outcome["traceback"] is not None
        values = (
            trial.key,
            trial.kind,
            trial.version,
            canonical_json(trial.arguments),
            "failed" if failed else "done",
            None if failed else json.dumps(outcome["result"]),
            outcome["traceback"],
            outcome.get("seconds"),
            outcome.get("cpu_seconds"),
            datetime.now(UTC).isoformat(timespec="seconds"),
            __version__,
        )
        with self._translated("write to"):
            self._connection.execute(
                "INSERT INTO trials VALUES (?,?,?,?,?,?,?,?,?,?,?)"
                " ON CONFLICT(key) DO UPDATE SET status=excluded.status, result=excluded.result,"
                " traceback=excluded.traceback, seconds=excluded.seconds,"
                " cpu_seconds=excluded.cpu_seconds, finished=excluded.finished, package=excluded.package"
                " WHERE trials.status='failed'",
                values,
            )

    def enrol(self, study: str, tables: Mapping[str, Iterable[Trial]]) -> None:
        """Remember which trials make up a study's tables (for `results`); replaces what was remembered of it."""
        rows = [(study, grid, i, trial.key) for grid, trials in tables.items() for i, trial in enumerate(trials)]
        with self._translated("write to"):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute("DELETE FROM members WHERE study=?", (study,))
                self._connection.executemany("INSERT INTO members VALUES (?,?,?,?)", rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk rolls back by itself
                    self._connection.execute("ROLLBACK")
                raise

    def finished(self) -> set[str]:
        """Keys of the trials that need not run again."""
        with self._translated("read"):
            return {key for (key,) in self._connection.execute("SELECT key FROM trials WHERE status='done'")}

    def rows(self, *, study: str | None = None, kind: str | None = None, status: str | None = None) -> list[Row]:
        """Recorded trials, a study's in the order of its tables, others by kind and specification."""
        where, values = [], []
        for column, value in (("m.study", study), ("t.kind", kind), ("t.status", status)):
            if value is not None:
                where.append(f"{column}=?")
                values.append(value)
        join = "JOIN members m ON m.key=t.key" if study is not None else ""
        order = "m.grid, m.place" if study is not None else "t.kind, t.version, t.arguments"
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        return self._select(f"FROM trials t {join} {condition} ORDER BY {order}", values)

    def lookup(self, keys: Iterable[str]) -> dict[str, Row]:
        """Recorded rows by key; missing keys are left out."""
        wanted, found = list(dict.fromkeys(keys)), {}
        for start in range(0, len(wanted), 500):
            part = wanted[start : start + 500]
            marks = ",".join("?" * len(part))
            found.update({row.key: row for row in self._select(f"FROM trials t WHERE t.key IN ({marks})", part)})
        return found

    def studies(self) -> dict[str, int]:
        """Study -> number of its trials recorded as done."""
        query = (
            "SELECT m.study, count(DISTINCT t.key) FROM members m LEFT JOIN trials t ON t.key=m.key AND t.status='done'"
            " GROUP BY m.study ORDER BY m.study"
        )
        with self._translated("read"):
            return dict(self._connection.execute(query).fetchall())

    def _select(self, tail: str, values: Iterable[Any]) -> list[Row]:
        names = "key kind version arguments status result traceback seconds cpu_seconds finished"
        columns = ", ".join(f"t.{name}" for name in names.split())
        with self._translated("read"):
            records = self._connection.execute(f"SELECT {columns} {tail}", list(values)).fetchall()
        rows = []
        for key, kind, version, arguments, status, result, failure, seconds, cpu, finished in records:
            value = None if result is None else json.loads(result)
            rows.append(Row(key, kind, version, json.loads(arguments), status, value, failure, seconds, cpu, finished))
        return rows
