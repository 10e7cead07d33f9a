"""The store: one SQLite file, a row per finished trial.

SQLite's write-ahead log makes `kill -9` harmless and lets several processes write: what was recorded stays. Every row has a
checksum of its content, and SQLite checks the whole file whenever a store is opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from .kind_registry import canonical_json
from .study import TrialSpec

APPLICATION_ID = 0x5370546B  # "SpTk" in the file's header
FORMAT = 4
DEFAULT_STORE = Path("sparsetoken-results") / "store.sqlite"
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS trials (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, code TEXT NOT NULL, arguments TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed')), result TEXT, traceback TEXT,
  seconds REAL, cpu_seconds REAL, finished TEXT NOT NULL, package TEXT NOT NULL, checksum TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS studies (name TEXT PRIMARY KEY, tables TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID;
PRAGMA application_id={APPLICATION_ID};
PRAGMA user_version={FORMAT};
COMMIT;
"""
_REASONS = {
    "SQLITE_BUSY": "another process holds it; wait for it or use another store (--store)",
    "SQLITE_LOCKED": "another process holds it; wait for it or use another store (--store)",
    "SQLITE_NOTADB": "it is not an SQLite file or is damaged; move it away or restore a copy",
    "SQLITE_CORRUPT": "it is damaged; move it away or restore a copy",
    "SQLITE_FULL": "the disk is full; what was recorded is safe, make room and run again",
}


class StoreError(OSError):
    """The store cannot be opened, read or written; nothing in it was changed by the failing call."""


@dataclass(frozen=True)
class Row:
    """A recorded trial."""

    key: str
    kind: str
    version: int
    code: str
    arguments: dict[str, Any]
    status: str
    result: Any
    traceback: str | None
    seconds: float | None
    cpu_seconds: float | None
    finished: str
    package: str


def _checksum(*values: Any) -> str:
    # A damaged file may hold other types, such as bytes: `default` turns them into text, which changes the checksum.
    text = json.dumps(values, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:20]


class Store:
    """An open store; a context manager.

    Parameters
    ----------
    path : str or Path
        The file.
    read_only : bool
        Whether it is opened for reading only; a missing file (and its folder) is then not made.
    timeout : float
        Seconds to wait for another process that holds the file.
    """

    def __init__(self, path: str | Path = DEFAULT_STORE, *, read_only: bool = False, timeout: float = 20.0):
        self.path = Path(path)
        if self.path.is_dir():
            raise StoreError(f"store {self.path} is a folder; give a file")
        if read_only and not self.path.exists():
            raise StoreError(f"store {self.path} does not exist")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of store {self.path}: {error.strerror or error}") from error
        with self._translated("open"):
            address = f"{self.path.resolve().as_uri()}?{self._mode() if read_only else 'mode=rwc'}"
            self._connection = sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)
            try:
                self._prepare(read_only)
            except BaseException:
                self.close()
                raise

    def _mode(self) -> str:
        """The mode in which SQLite reads the file: on read-only media it cannot write its helper files."""
        if os.access(self.path.parent, os.W_OK):
            return "mode=ro"
        log = self.path.with_name(self.path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise StoreError(f"store {self.path} was not closed: copy it with {log.name} to where it can be written")
        return "mode=ro&immutable=1"

    def _prepare(self, read_only: bool) -> None:
        """Check that the file is an intact store of this format; an empty file becomes one."""
        run = self._connection.execute
        if not read_only and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            run("PRAGMA journal_mode=WAL")
            self._connection.executescript(_SCHEMA)
        if run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreError(f"{self.path} is an empty file or an SQLite file of another program, not a store")
        version = run("PRAGMA user_version").fetchone()[0]
        if version != FORMAT:
            raise StoreError(
                f"store {self.path} has format {version}, this version of the program has {FORMAT}: "
                "start a new store (--store)"
            )
        if not read_only:
            run("PRAGMA synchronous=NORMAL")  # with a write-ahead log, a crash cannot damage the file
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise StoreError(f"store {self.path} is damaged; move it away or restore a copy")

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # SQLite's own message quotes the damaged bytes
            raise StoreError(f"store {self.path} is damaged; move it away or restore a copy") from error
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            reason = next((text for code, text in _REASONS.items() if name.startswith(code)), str(error))
            raise StoreError(f"cannot {action} store {self.path}: {reason}") from error

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def record(self, trial: TrialSpec, outcome: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write an outcome: `result` or `traceback`, and times. `replace` says whether it replaces an earlier success too."""
        failed = outcome["traceback"] is not None
        seconds = (outcome.get(name) for name in ("seconds", "cpu_seconds"))
        content = (
            trial.key,
            trial.kind,
            trial.version,
            trial.code,
            canonical_json(trial.arguments),
            "failed" if failed else "done",
            None if failed else json.dumps(outcome["result"]),
            outcome["traceback"],
            *(None if value is None else float(value) for value in seconds),  # as SQLite gives it back
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            __version__,
        )
        settled = "" if replace else "WHERE NOT EXISTS (SELECT 1 FROM trials WHERE key=? AND status='done')"
        with self._translated("write to"):
            self._connection.execute(
                f"INSERT OR REPLACE INTO trials SELECT {','.join('?' * (len(content) + 1))} {settled}",
                (*content, _checksum(*content), *([] if replace else [trial.key])),
            )

    def enrol(self, study: str, tables: Mapping[str, Iterable[TrialSpec]]) -> None:
        """Record which trials make up a study's tables (for `results`), in place of an earlier record."""
        keys = json.dumps({name: [trial.key for trial in trials] for name, trials in tables.items()})
        with self._translated("write to"):
            self._connection.execute(
                "INSERT OR REPLACE INTO studies VALUES (?,?,?)", (study, keys, _checksum(study, keys))
            )

    def finished(self) -> set[str]:
        """Keys of the trials that need not run again."""
        with self._translated("read"):
            return {key for (key,) in self._connection.execute("SELECT key FROM trials WHERE status='done'")}

    def rows(self, *, study: str | None = None, kind: str | None = None, status: str | None = None) -> list[Row]:
        """Recorded trials, all or those of a study, of a kind, or "done" or "failed" ones.

        A study's are in the order of its tables, others by kind and specification.
        """
        if study is None:
            rows = self._select("ORDER BY kind, version, arguments, finished")
        else:
            keys = [key for table in self._tables().get(study, {}).values() for key in table]
            recorded = self.lookup(keys)
            rows = [recorded[key] for key in keys if key in recorded]
        return [row for row in rows if kind in (None, row.kind) and status in (None, row.status)]

    def lookup(self, keys: Iterable[str]) -> dict[str, Row]:
        """Recorded rows by key; missing keys are left out."""
        wanted = json.dumps(list(dict.fromkeys(keys)))
        return {row.key: row for row in self._select("WHERE key IN (SELECT value FROM json_each(?))", wanted)}

    def studies(self) -> dict[str, int]:
        """Study -> number of its trials recorded as done."""
        finished = self.finished()
        keys = {name: {key for table in tables.values() for key in table} for name, tables in self._tables().items()}
        return {name: len(finished & wanted) for name, wanted in keys.items()}

    def _tables(self) -> dict[str, dict[str, list[str]]]:
        """Study -> table -> keys of its trials."""
        with self._translated("read"):
            records = self._connection.execute("SELECT name, tables, checksum FROM studies ORDER BY name").fetchall()
        for name, keys, checksum in records:
            if _checksum(name, keys) != checksum:
                raise StoreError(
                    f"store {self.path}: the list of trials of study {name!r} was changed by something other than this "
                    "program; restore a copy, or run that study again, which writes the list anew and keeps the trials"
                )
        return {name: json.loads(keys) for name, keys, _ in records}

    def _select(self, condition: str, *values: Any) -> list[Row]:
        with self._translated("read"):
            records = self._connection.execute(f"SELECT * FROM trials {condition}", values).fetchall()
        rows = []
        for *content, checksum in records:
            if _checksum(*content) != checksum:
                raise StoreError(
                    f"store {self.path}: a row of kind {content[1]!r} was changed by something else than this program "
                    f"(key {content[0]}); restore a copy, or compute everything again with fresh=True (--fresh)"
                )
            key, kind, version, code, arguments, status, result, *rest = content
            value = None if result is None else json.loads(result)
            rows.append(Row(key, kind, version, code, json.loads(arguments), status, value, *rest))
        return rows
