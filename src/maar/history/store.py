"""The database: blocking reads and writes of rows, from one thread.

`maar.history.history` calls it in its own thread; `maar history` calls it directly. All database errors become errors
of `maar.history.errors`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from maar.history import schema
from maar.history.address import shown
from maar.history.errors import Refused, Unreachable
from maar.history.records import Event, EventKind, Fate, FinishedRun, Measurement, Prediction, Record

T = TypeVar("T", Measurement, Event, FinishedRun, Prediction)

PATIENCE = 5
"""Seconds without an answer after which the database counts as gone. Tuned by hand."""
PER_JOB = 10_000
"""Newest measurements kept per job: more than the epochs of a training."""
CLOCKS = 2.0
"""Seconds by which the start of a pod may seem earlier than it was: the API rounds down, and clocks differ."""
ROWS = 1_000_000
"""Newest rows kept per table, about 200 MB. There is a limit because any client can write."""


class Store:
    """One database."""

    def __init__(
        self, url: sa.URL, *, write: bool = True, make: bool = True, per_job: int = PER_JOB, rows: int = ROWS
    ) -> None:
        """Without `make` it writes, but neither creates nor migrates tables."""
        self.name = shown(url)
        self.version = 0
        """Of the tables; 0 before they are open."""
        self._write = write
        self._make = write and make
        self._per_job = per_job
        self._rows = rows
        self._url = url
        self._engine: sa.Engine | None = None

    def open(self) -> bool:
        """Connect, and create the tables if this store may. Returns whether the tables exist."""
        if self._engine is not None:
            return True
        if self._url.get_backend_name() == "sqlite" and not self._prepare_file():
            return False
        engine = _engine(self._url, self._write)
        try:
            with self._speaking(), engine.begin() as connection:
                if self._make:
                    schema.make(connection)
                schema.check(connection)
                self.version = schema.known_version(connection) or 0
        except BaseException:
            engine.dispose()
            raise
        if self.version:
            self._engine = engine
        else:
            engine.dispose()
        return bool(self.version)

    def _prepare_file(self) -> bool:
        file = Path(str(self._url.database))
        if not self._make:
            return file.exists()
        with self._speaking():
            file.parent.mkdir(parents=True, exist_ok=True)
        return True

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # -- writing

    def write(self, records: Sequence[Record | FinishedRun]) -> None:
        """Add all records or none; existing rows do not change."""
        measured = [r for r in records if isinstance(r, Measurement)]
        tables = (
            (schema.measurements, measured),
            (schema.accounting, [r for r in records if isinstance(r, Event)]),
            (schema.runs, [r for r in records if isinstance(r, FinishedRun)]),
        )
        with self._transaction() as connection:
            for table, rows in tables:
                self._add(connection, table, [_row(r) for r in rows])
            for namespace, name in sorted({(m.namespace, m.name) for m in measured}):
                self._trim(connection, namespace, name)

    def _add(self, connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
        """Add rows, and delete the oldest of a table that has too many."""
        if rows:
            connection.execute(schema.insert_once(connection, table), rows)
            newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar() or 0
            connection.execute(sa.delete(table).where(table.c.id <= newest - self._rows))

    def _trim(self, connection: sa.Connection, namespace: str, name: str) -> None:
        table = schema.measurements
        its = _of(table, namespace, name)
        last_kept = sa.select(table.c.id).where(its).order_by(table.c.id.desc()).offset(self._per_job - 1).limit(1)
        connection.execute(sa.delete(table).where(its & (table.c.id < last_kept.scalar_subquery())))

    def write_predictions(self, made: Sequence[Prediction], fates: Sequence[Fate], oldest: float) -> None:
        """Add forecasts, note what became of jobs, and delete forecasts that were made before `oldest`.

        A start counts for the forecasts before it: a job may wait again after it ran.
        """
        table = schema.forecasts
        with self._transaction() as connection:
            there = {column.name for column in schema.columns(table, self.version)}
            rows = [{name: value for name, value in _row(p).items() if name in there} for p in made]
            self._add(connection, table, rows)
            for fate in fates:
                its = _of(table, fate.namespace, fate.name) & (table.c.uid == fate.uid)
                its &= table.c.started.is_(None) & table.c.gone.is_(None)
                if fate.started is not None:
                    before = its & (table.c.at <= fate.started + CLOCKS)
                    connection.execute(sa.update(table).where(before).values(started=fate.started))
                if fate.gone is not None:
                    connection.execute(sa.update(table).where(its).values(gone=fate.gone))
            connection.execute(sa.delete(table).where(table.c.at < oldest))

    # -- reading

    def measurements(self, after: int = 0, *, newest: int | None = None) -> list[Measurement]:
        """Measurements with a row above `after`, oldest first; at most the `newest` newest, if given."""
        return self._newest(schema.measurements, Measurement, schema.measurements.c.id > after, newest)

    def events(self, after: int = 0, *, newest: int | None = None) -> list[Event]:
        """Accounting events, in the same way."""
        return self._newest(schema.accounting, Event, schema.accounting.c.id > after, newest)

    def measurements_of(self, namespace: str, name: str, *, newest: int | None = None) -> list[Measurement]:
        """The measurements of one job, oldest first; at most the `newest` newest, if given."""
        return self._newest(schema.measurements, Measurement, _of(schema.measurements, namespace, name), newest)

    def events_of(self, namespace: str, name: str, *, newest: int | None = None) -> list[Event]:
        """The accounting events of one job, in the same way."""
        return self._newest(schema.accounting, Event, _of(schema.accounting, namespace, name), newest)

    def runs(self, after: int = 0, *, newest: int | None = None) -> list[FinishedRun]:
        """Runs of finished jobs with a row above `after`, oldest first; none in tables of version 1."""
        return self._newest(schema.runs, FinishedRun, schema.runs.c.id > after, newest) if self.version >= 2 else []

    def predictions(self, *, newest: int | None = None) -> list[Prediction]:
        """The forecasts that are judged, oldest first; at most the `newest` newest, if given."""
        judged = schema.forecasts.c.first.is_(True)
        return self._newest(schema.forecasts, Prediction, judged, newest) if self.version >= 2 else []

    def open_predictions(self) -> list[Prediction]:
        """The newest forecast of each job of which it is not known what became of it."""
        if self.version < 2:
            return []
        table = schema.forecasts
        unknown = table.c.started.is_(None) & table.c.gone.is_(None)
        newest = (
            sa.select(sa.func.max(table.c.id)).where(unknown).group_by(table.c.namespace, table.c.name, table.c.uid)
        )
        wanted = self._all_of(table).where(table.c.id.in_(newest)).order_by(table.c.id)
        return [_struct(Prediction, row) for row in self._rows_of(wanted)]

    def first_start(self, namespace: str, name: str, uid: str) -> float | None:
        """When a job first started, if its accounts or its run say so."""
        kind = EventKind.STARTED
        times = [e.at for e in self.events_of(namespace, name) if e.uid == uid and e.kind is kind]
        if self.version >= 2:
            its = _of(schema.runs, namespace, name) & (schema.runs.c.uid == uid)
            times += [run.started for run in self._newest(schema.runs, FinishedRun, its)]
        return min(times, default=None)

    def _newest(
        self, table: sa.Table, kind: type[T], which: sa.ColumnElement[bool], newest: int | None = None
    ) -> list[T]:
        """The newest records of some rows, oldest first."""
        wanted = self._all_of(table).where(which).order_by(table.c.id.desc()).limit(newest)
        return [_struct(kind, row) for row in reversed(self._rows_of(wanted))]

    def _all_of(self, table: sa.Table) -> sa.Select[Any]:
        """All columns that tables of this version have."""
        return sa.select(*schema.columns(table, self.version))

    def _rows_of(self, wanted: sa.Select[Any]) -> Sequence[sa.RowMapping]:
        with self._transaction() as connection:
            return connection.execute(wanted).mappings().all()

    # -- errors

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        if self._engine is None:
            raise Unreachable(f"{self.name}: not open")
        with self._speaking(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except (DataError, IntegrityError) as error:
            raise Refused(f"{self.name}: {_first_line(error)}") from error
        except DBAPIError as error:  # gone, read-only, full, no permission, tables dropped: an operator can fix these
            raise Unreachable(f"{self.name}: {_first_line(error)}") from error
        except (SQLAlchemyError, ValueError, OverflowError) as error:
            raise Refused(f"{self.name}: {_first_line(error)}") from error
        except OSError as error:
            raise Unreachable(f"{self.name}: {error.strerror or error}") from error


def _engine(url: sa.URL, write: bool) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        if not write:
            file = quote(str(url.database))  # `#`, `?` and `%` are special in a URI
            url = sa.URL.create("sqlite", database=f"file:{file}", query={"mode": "ro", "uri": "true"})
        engine = sa.create_engine(url, connect_args={"timeout": PATIENCE})
        if write:
            sa.event.listen(engine, "connect", _set_up_sqlite)
            sa.event.listen(engine, "begin", _begin_at_once)
        return engine
    engine = sa.create_engine(
        url,
        pool_size=1,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": PATIENCE,
            "tcp_user_timeout": 2 * PATIENCE * 1000,
            "prepare_threshold": None,  # connection poolers may not support prepared statements
            "application_name": "maar",
        },
    )
    sa.event.listen(engine, "connect", _set_up_postgres)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # `_begin_at_once` begins transactions: Python's do not cover CREATE TABLE
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")  # `maar history` reads while `maar run` writes
            break
        except sqlite3.OperationalError as error:
            # Another process does the same now, and SQLite does not wait for it.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_at_once(connection: sa.Connection) -> None:
    """Take the write lock first: a transaction that reads before it writes fails if another one writes in between."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _set_up_postgres(connection: Any, _: Any) -> None:
    connection.execute(f"SET statement_timeout = '{2 * PATIENCE}s'")
    connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
    connection.commit()


def _of(table: sa.Table, namespace: str, name: str) -> sa.ColumnElement[bool]:
    """The rows of one job."""
    return (table.c.namespace == namespace) & (table.c.name == name)


def _row(record: Record | FinishedRun | Prediction) -> dict[str, Any]:
    row = msgspec.structs.asdict(record)
    del row["id"]
    return row


def _struct(kind: type[T], row: sa.RowMapping) -> T:
    """A row as a record; what tables of an older version lack has its default."""
    return msgspec.convert({name: row[name] for name in kind.__struct_fields__ if name in row}, kind)


def _first_line(error: Exception) -> str:
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
