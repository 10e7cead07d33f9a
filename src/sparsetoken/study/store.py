"""The store: one SQLite file, a row per finished trial, written by the coordinating process alone.

Write-ahead logging and one transaction per row make `kill -9` harmless: what was recorded stays, what was in flight is
repeated. A row carries the fingerprint of the code that made it, which is part of its key, and a checksum of its content.
What a study consists of is sealed by a checksum, too, so that neither a lost nor a changed entry can go unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import __version__
from .registry import canonical_json
from .specification import Trial

APPLICATION_ID = 0x5370546B  # "SpTk" in the file's header
SCHEMA_VERSION = 3
_UNSEALED = 2  # an earlier format, without seals: read as it is, given its seals where it may be written to
DEFAULT_STORE = Path("sparsetoken-results") / "store.sqlite"
_HELPERS = ("-wal", "-shm")  # files that SQLite keeps beside the store while it is open

_SCHEMA = """
CREATE TABLE trials (
  key TEXT PRIMARY KEY, kind TEXT NOT NULL, version INTEGER NOT NULL, code TEXT NOT NULL, arguments TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('done', 'failed')), result TEXT, traceback TEXT,
  seconds REAL, cpu_seconds REAL, finished TEXT NOT NULL, package TEXT NOT NULL, checksum TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE members (
  study TEXT NOT NULL, grid TEXT NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, PRIMARY KEY (study, grid, place)
) WITHOUT ROWID;
"""
_SEALS = "CREATE TABLE seals (study TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID"


class StoreError(OSError):
    """The store cannot be opened, read or written; nothing in it was changed by the failing call."""


@dataclass(frozen=True)
class Row:
    """A recorded trial.

    Attributes
    ----------
    key : str
        Kind, version, code and arguments in one hash.
    kind : str
        The kind of trial.
    version : int
        The kind's version number.
    code : str
        The fingerprint of the code that made the row.
    arguments : dict
        The complete flat arguments.
    status : str
        "done" or "failed".
    result : dict, list of dict or None
        What the trial returned.
    traceback : str or None
        Why it failed.
    seconds, cpu_seconds : float
        How long it took.
    finished : str
        When it ended, in UTC.
    """

    key: str
    kind: str
    version: int
    code: str
    arguments: dict[str, Any]
    status: str
    result: Any
    traceback: str | None
    seconds: float
    cpu_seconds: float
    finished: str


_DIGITS = 20  # of a checksum
_DIGITS_OF_CONTENT = 16  # of one that an earlier version wrote, which leaves out when and in what time the row was made


def _checksum(*values: Any, digits: int = _DIGITS) -> str:
    # A damaged file may hold what was never written, such as bytes or an infinity: it gets a text, and so another checksum.
    text = json.dumps(values, separators=(",", ":"), default=repr)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:digits]


def _is_intact(content: Sequence[Any], about: Sequence[Any], checksum: Any) -> bool:
    if isinstance(checksum, str) and len(checksum) == _DIGITS_OF_CONTENT:
        return _checksum(*content, digits=_DIGITS_OF_CONTENT) == checksum
    return _checksum(*content, *about) == checksum


def _seconds(value: float | None) -> float | None:
    """In the form in which SQLite gives it back, which the checksum is of."""
    return None if value is None else float(value)


class Store:
    """An open store; a context manager.

    Parameters
    ----------
    path : str or Path
        The file.
    create : bool
        Whether a missing file (and its folder) is made.
    read_only : bool
        Whether it is only looked into: nothing is written, not even beside it, so that read-only media can be read.
    timeout : float
        Seconds to wait for another process that holds the file.

    Raises
    ------
    StoreError
        If there is no store, or it cannot be opened.
    """

    def __init__(
        self, path: str | Path = DEFAULT_STORE, *, create: bool = True, read_only: bool = False, timeout: float = 20.0
    ):
        self.path = Path(path)
        self._read_only = read_only
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._find(create and not read_only)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"cannot open store {self.path}: {error.strerror or error}") from error
        with self._translated("open"):
            self._connection = self._connect(timeout)
            try:
                self._prepare()
            except BaseException:
                self.close()
                raise
        self._identity = self._file_identity()

    def _find(self, create: bool) -> None:
        """See to it that the file is there, and that it can be a store at all."""
        if self.path.is_dir():
            raise StoreError(f"store {self.path} is a folder; give a file")
        if not self.path.exists():
            if not create:
                raise StoreError(f"store {self.path} does not exist")
            self._create()
        if self.path.stat().st_size == 0:
            raise StoreError(f"store {self.path} is empty (0 bytes), so its rows are lost; restore a copy or remove it")

    def _create(self) -> None:
        """Make a store beside its place and move it there complete: an interruption leaves no half-made file."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of store {self.path}: {error.strerror or error}") from error
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".sparsetoken-")
        os.close(handle)
        try:
            with self._translated("make"):
                connection = sqlite3.connect(name, isolation_level=None)
                try:
                    connection.execute("PRAGMA journal_mode=WAL")
                    connection.executescript(_SCHEMA)
                    connection.execute(_SEALS)
                    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
                finally:
                    connection.close()
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            with suppress(FileExistsError):  # another process was quicker: its store serves both
                self._place(name)
        finally:
            for ending in ("", *_HELPERS):
                Path(name + ending).unlink(missing_ok=True)

    def _place(self, name: str) -> None:
        try:
            os.link(name, self.path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if self.path.exists():
                raise FileExistsError from None
            os.rename(name, self.path)

    def _connect(self, timeout: float) -> sqlite3.Connection:
        if not self._read_only:
            return sqlite3.connect(self.path, timeout=timeout, isolation_level=None)
        try:
            connection = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=timeout)
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except BaseException:
                connection.close()
                raise
            return connection
        except sqlite3.OperationalError:
            # SQLite needs to write beside a store with a log, which read-only media do not let it: read a copy of both.
            self._copy = tempfile.TemporaryDirectory(prefix="sparsetoken-", ignore_cleanup_errors=True)
            copied = Path(self._copy.name) / "store.sqlite"
            shutil.copyfile(self.path, copied)
            log = self.path.with_name(self.path.name + "-wal")
            if log.exists():
                shutil.copyfile(log, copied.with_name(copied.name + "-wal"))
            return sqlite3.connect(copied, timeout=timeout)

    def _prepare(self) -> None:
        run = self._connection.execute
        identity = run("PRAGMA application_id").fetchone()[0]
        version = run("PRAGMA user_version").fetchone()[0]
        if identity != APPLICATION_ID:
            raise StoreError(f"{self.path} is an SQLite file of another program, not a store")
        if version not in (SCHEMA_VERSION, _UNSEALED):
            raise StoreError(
                f"store {self.path} has format {version}, this version of the program has {SCHEMA_VERSION}: "
                "use another store (--store)"
            )
        if not self._read_only:
            run("PRAGMA synchronous=NORMAL")
        # The quick form of this check does not see keys out of their order, as swapped pages leave them: rows that are there
        # would then not be found.
        if run("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            raise StoreError(f"store {self.path} is damaged; move it away or restore a copy")
        if version == _UNSEALED and not self._read_only:
            with self._transaction():
                run(_SEALS)
                for study, members in self._members().items():
                    run("INSERT INTO seals VALUES (?,?)", (study, _checksum(members)))
                run(f"PRAGMA user_version={SCHEMA_VERSION}")
            version = SCHEMA_VERSION
        self._sealed = version == SCHEMA_VERSION

    def _file_identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:  # SQLite's own message quotes the damaged bytes
            raise StoreError(f"store {self.path} is damaged; move it away or restore a copy") from error
        except sqlite3.DatabaseError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                reason = "another process holds it; wait for it or use another store (--store)"
            elif "not a database" in text or "malformed" in text:
                reason = "it is not an SQLite file or is damaged; move it away or restore a copy"
            elif "full" in text:
                reason = "the disk is full; what was recorded is safe, make room and run again"
            else:
                reason = text
            raise StoreError(f"cannot {action} store {self.path}: {reason}") from error

    @contextmanager
    def _still_there(self, action: str) -> Iterator[None]:
        """The system lets a program write to a file that somebody has removed, and drops it all at the end."""
        if self._file_identity() != self._identity:
            raise StoreError(f"cannot {action} store {self.path}: the file was removed or replaced while it was in use")
        with self._translated(action):
            yield

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def record(self, trial: Trial, outcome: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write one outcome.

        Parameters
        ----------
        trial : Trial
            What was run.
        outcome : mapping
            `result` or `traceback`, with `seconds` and `cpu_seconds`.
        replace : bool
            Whether an earlier success gives way; otherwise only a failure does.
        """
        failed = outcome["traceback"] is not None
        content = (
            trial.key,
            trial.kind,
            trial.version,
            trial.code,
            canonical_json(trial.arguments),
            "failed" if failed else "done",
            None if failed else json.dumps(outcome["result"]),
            outcome["traceback"],
        )
        about = (
            _seconds(outcome.get("seconds")),
            _seconds(outcome.get("cpu_seconds")),
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            __version__,
        )
        with self._still_there("write to"):
            self._connection.execute(
                "INSERT INTO trials VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"
                " ON CONFLICT(key) DO UPDATE SET kind=excluded.kind, version=excluded.version, code=excluded.code,"
                " arguments=excluded.arguments, status=excluded.status, result=excluded.result,"
                " traceback=excluded.traceback, seconds=excluded.seconds, cpu_seconds=excluded.cpu_seconds,"
                " finished=excluded.finished, package=excluded.package, checksum=excluded.checksum"
                " WHERE ? OR trials.status='failed'",
                (*content, *about, _checksum(*content, *about), replace),
            )

    def enrol(self, study: str, tables: Mapping[str, Iterable[Trial]]) -> None:
        """Remember which trials make up a study's tables (for `results`); replaces what was remembered of it."""
        rows = [(study, grid, i, trial.key) for grid, trials in tables.items() for i, trial in enumerate(trials)]
        with self._still_there("write to"), self._transaction():
            self._connection.execute("DELETE FROM members WHERE study=?", (study,))
            self._connection.executemany("INSERT INTO members VALUES (?,?,?,?)", rows)
            seal = _checksum(sorted(list(row[1:]) for row in rows))
            self._connection.execute("INSERT OR REPLACE INTO seals VALUES (?,?)", (study, seal))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All that is written inside, or nothing of it."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk rolls back by itself
                self._connection.execute("ROLLBACK")
            raise

    def _members(self) -> dict[str, list[list[Any]]]:
        """Study -> its [table, place, key], in order."""
        found: dict[str, list[list[Any]]] = {}
        query = "SELECT study, grid, place, key FROM members ORDER BY study, grid, place"
        for study, *member in self._connection.execute(query):
            found.setdefault(study, []).append(member)
        return found

    def _check_seals(self, only: str | None = None) -> None:
        """Raise StoreError where what a study (by default any) consists of is not what was written."""
        if not self._sealed:
            return
        with self._still_there("read"):
            members, seals = self._members(), dict(self._connection.execute("SELECT study, digest FROM seals"))
        known = dict.fromkeys((*seals, *members))
        for study in known if only is None else [name for name in known if name == only]:
            if _checksum(members.get(study, [])) != seals.get(study):
                raise StoreError(
                    f"store {self.path}: the list of trials of study {study!r} was changed by something else than this "
                    "program; restore a copy, or run that study again, which writes the list anew and keeps the trials"
                )

    def finished(self) -> set[str]:
        """Keys of the trials that need not run again."""
        with self._still_there("read"):
            return {key for (key,) in self._connection.execute("SELECT key FROM trials WHERE status='done'")}

    def rows(self, *, study: str | None = None, kind: str | None = None, status: str | None = None) -> list[Row]:
        """Recorded trials, a study's in the order of its tables, others by kind and specification.

        Parameters
        ----------
        study, kind, status : str or None
            Only those of this study, of this kind, or "done" or "failed" ones.

        Returns
        -------
        list of Row
            What was found.

        Raises
        ------
        StoreError
            If a row, or what the study consists of, does not match its checksum.
        """
        if study is not None:
            self._check_seals(study)
        where, values = [], []
        for column, value in (("m.study", study), ("t.kind", kind), ("t.status", status)):
            if value is not None:
                where.append(f"{column}=?")
                values.append(value)
        join = "JOIN members m ON m.key=t.key" if study is not None else ""
        order = "m.grid, m.place" if study is not None else "t.kind, t.version, t.arguments, t.finished"
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        return self._select(f"FROM trials t {join} {condition} ORDER BY {order}", values)

    def lookup(self, keys: Iterable[str]) -> dict[str, Row]:
        """Recorded rows by key; missing keys are left out."""
        wanted, found = list(dict.fromkeys(keys)), {}
        for start in range(0, len(wanted), 500):  # SQLite takes some hundred values in one statement
            part = wanted[start : start + 500]
            marks = ",".join("?" * len(part))
            found.update({row.key: row for row in self._select(f"FROM trials t WHERE t.key IN ({marks})", part)})
        return found

    def studies(self) -> dict[str, int]:
        """Study -> number of its trials recorded as done.

        Raises
        ------
        StoreError
            If what a study consists of does not match its checksum.
        """
        self._check_seals()
        query = (
            "SELECT m.study, count(DISTINCT t.key) FROM members m LEFT JOIN trials t ON t.key=m.key AND t.status='done'"
            " GROUP BY m.study ORDER BY m.study"
        )
        with self._still_there("read"):
            return dict(self._connection.execute(query).fetchall())

    def _select(self, tail: str, values: Iterable[Any]) -> list[Row]:
        names = "key kind version code arguments status result traceback seconds cpu_seconds finished package checksum"
        columns = ", ".join(f"t.{name}" for name in names.split())
        with self._still_there("read"):
            records = self._connection.execute(f"SELECT {columns} {tail}", list(values)).fetchall()
        rows = []
        for *values_of_row, checksum in records:
            content, about = values_of_row[:-4], values_of_row[-4:]
            if not _is_intact(content, about, checksum):
                raise StoreError(
                    f"store {self.path}: a row of kind {content[1]!r} was changed by something else than this program "
                    f"(key {content[0]}); restore a copy, or compute everything again with fresh=True (--fresh)"
                )
            key, kind, version, code, arguments, status, result, failure = content
            seconds, cpu_seconds, finished, _ = about
            value = None if result is None else json.loads(result)
            told = json.loads(arguments)
            rows.append(Row(key, kind, version, code, told, status, value, failure, seconds, cpu_seconds, finished))
        return rows
