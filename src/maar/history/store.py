"""The database: rows in, rows out, by blocking calls from one thread.

`maar.history.history` calls this beside the event loop; `maar history` calls it directly. Every error that a database
can make comes out as one of `maar.history.errors`.
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
from sqlalchemy import URL, Connection, Engine, RowMapping, Select, Table, create_engine, delete, event, func, select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from maar.history import schema
from maar.history.address import shown
from maar.history.errors import Refused, Unreachable
from maar.history.records import Event, Measurement, Record

T = TypeVar("T", Measurement, Event)

PATIENCE = 5
"""Seconds until a database that does not answer counts as gone; by taste."""
PER_JOB = 10_000
"""Measurements that are kept of one job: the newest. More epochs than trainings have."""
ROWS = 1_000_000
"""Rows that are kept of each table: the newest, some 200 MB. Whoever reaches the port can write, so there is an end."""


class Store:
    """One database."""

    def __init__(self, url: URL, *, write: bool = True, per_job: int = PER_JOB, rows: int = ROWS) -> None:
        self.name = shown(url)
        self._write = write
        self._per_job = per_job
        self._rows = rows
        self._url = url
        self._engine: Engine | None = None

    def open(self) -> bool:
        """Connect, and make the tables if this one writes; whether there are any."""
        if self._engine is not None:
            return True
        if self._url.get_backend_name() == "sqlite" and not self._prepare_file():
            return False
        engine = _engine(self._url, self._write)
        try:
            with self._speaking(), engine.begin() as connection:
                if self._write:
                    schema.make(connection)
                there = schema.exists(connection)
                if there:
                    schema.check(connection)
        except BaseException:
            engine.dispose()
            raise
        if there:
            self._engine = engine
        else:
            engine.dispose()
        return there

    def _prepare_file(self) -> bool:
        file = Path(str(self._url.database))
        if not self._write:
            return file.exists()
        with self._speaking():
            file.parent.mkdir(parents=True, exist_ok=True)
        return True

    def close(self) -> None:
        """Let go of the connections."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # -- writing

    def write(self, records: Sequence[Record]) -> None:
        """Add records, all or none; what is there already stays as it is."""
        measured = [r for r in records if isinstance(r, Measurement)]
        happened = [r for r in records if isinstance(r, Event)]
        with self._transaction() as connection:
            for table, rows in ((schema.measurements, measured), (schema.accounting, happened)):
                if rows:
                    connection.execute(schema.insert_once(connection, table), [_row(r) for r in rows])
                    newest = connection.execute(select(func.max(table.c.id))).scalar() or 0
                    connection.execute(delete(table).where(table.c.id <= newest - self._rows))
            for namespace, name in sorted({(m.namespace, m.name) for m in measured}):
                self._trim(connection, namespace, name)

    def _trim(self, connection: Connection, namespace: str, name: str) -> None:
        table = schema.measurements
        its = (table.c.namespace == namespace) & (table.c.name == name)
        last_kept = select(table.c.id).where(its).order_by(table.c.id.desc()).offset(self._per_job - 1).limit(1)
        connection.execute(delete(table).where(its & (table.c.id < last_kept.scalar_subquery())))

    # -- reading

    def measurements(self, after: int = 0, *, newest: int | None = None) -> list[Measurement]:
        """Measurements whose row is above `after`; if `newest` is given at most so many, the newest ones."""
        return self._read(schema.measurements, Measurement, after, newest)

    def events(self, after: int = 0, *, newest: int | None = None) -> list[Event]:
        """The same for accounting."""
        return self._read(schema.accounting, Event, after, newest)

    def measurements_of(self, namespace: str, name: str) -> list[Measurement]:
        """What is stored of one job, oldest first."""
        table = schema.measurements
        wanted = select(table).where(table.c.namespace == namespace, table.c.name == name).order_by(table.c.id)
        return [_struct(Measurement, row) for row in self._rows_of(wanted)]

    def _read(self, table: Table, kind: type[T], after: int, newest: int | None) -> list[T]:
        wanted = select(table).where(table.c.id > after).order_by(table.c.id.desc()).limit(newest)
        return [_struct(kind, row) for row in reversed(self._rows_of(wanted))]

    def _rows_of(self, wanted: Select[Any]) -> Sequence[RowMapping]:
        with self._transaction() as connection:
            return connection.execute(wanted).mappings().all()

    # -- errors

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
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
        except DBAPIError as error:  # gone, read-only, full, no rights, tables dropped: all may be mended
            raise Unreachable(f"{self.name}: {_first_line(error)}") from error
        except (SQLAlchemyError, ValueError, OverflowError) as error:
            raise Refused(f"{self.name}: {_first_line(error)}") from error
        except OSError as error:
            raise Unreachable(f"{self.name}: {error.strerror or error}") from error


def _engine(url: URL, write: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        if not write:
            file = quote(str(url.database))  # in a URI `#`, `?` and `%` mean something
            url = URL.create("sqlite", database=f"file:{file}", query={"mode": "ro", "uri": "true"})
        engine = create_engine(url, connect_args={"timeout": PATIENCE})
        if write:
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_at_once)
        return engine
    engine = create_engine(
        url,
        pool_size=1,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": PATIENCE,
            "tcp_user_timeout": 2 * PATIENCE * 1000,
            "prepare_threshold": None,  # poolers in front of PostgreSQL may not know prepared statements
            "application_name": "maar",
        },
    )
    event.listen(engine, "connect", _set_up_postgres)
    return engine


def _set_up_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions are begun below: Python's own leave out the making of tables
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")  # `maar history` reads while `maar run` writes
            break
        except sqlite3.OperationalError as error:
            # Somebody else does the same in this moment, and SQLite does not wait for that by itself.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")


def _begin_at_once(connection: Connection) -> None:
    """Who comes second waits for its turn; having read first it would be refused, since what it read is old by then."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _set_up_postgres(connection: Any, _: Any) -> None:
    connection.execute(f"SET statement_timeout = '{2 * PATIENCE}s'")
    connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
    connection.commit()


def _row(record: Record) -> dict[str, Any]:
    row = msgspec.structs.asdict(record)
    del row["id"]
    return row


def _struct(kind: type[T], row: RowMapping) -> T:
    return msgspec.convert({name: row[name] for name in kind.__struct_fields__}, kind)


def _first_line(error: Exception) -> str:
    said = getattr(error, "orig", None) or error
    return str(said).strip().partition("\n")[0]
