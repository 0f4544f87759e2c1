"""The tables, equal in SQLite and PostgreSQL, and their version.

A change of the tables increases `VERSION` and adds a migration of older tables to `make`. Only `maar run` migrates, so
that no other program changes the tables of a scheduler that does not know the newer ones.

| version | change |
|---|---|
| 1 | measurements and accounting |
| 2 | runs of finished jobs, and forecasts with what became of the jobs |
| 3 | what each finished job asked for, and which forecasts include later submissions |
| 4 | nodes, noise scale and goodput of measured epochs |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from maar.history.errors import NewerSchema

VERSION = 4
LOCK = 0x6D616172
"""Advisory lock of PostgreSQL while the tables are created, so that two replicas may start at once: `maar` in ASCII."""

metadata = MetaData()
_ROW = BigInteger().with_variant(Integer, "sqlite")  # SQLite increments only columns of type INTEGER


def _job_columns() -> Iterator[Column[Any]]:
    yield Column("id", _ROW, primary_key=True, autoincrement=True)
    yield Column("namespace", String(253), nullable=False)
    yield Column("name", String(253), nullable=False)
    yield Column("uid", String(64), nullable=False)
    yield Column("category", String(512), nullable=False)
    yield Column("accelerator", String(253), nullable=False)


version = Table("maar_history", metadata, Column("id", Integer, primary_key=True), Column("version", Integer))

measurements = Table(
    "maar_measurements",
    metadata,
    *_job_columns(),
    Column("epoch", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("workers", Integer, nullable=False),
    Column("resized", Boolean, nullable=False),
    Column("local_batch_size", BigInteger),
    Column("global_batch_size", BigInteger),
    Column("total_epochs", BigInteger),
    Column("step_seconds", Double),
    Column("nodes", Integer),
    Column("noise_scale", Double),
    Column("goodput", Text, nullable=False, server_default=""),
    Column("started", Double, nullable=False),
    Column("arrived", Double, nullable=False),
    # A job may send a measurement twice, if the first response was lost.
    UniqueConstraint(
        *("namespace", "name", "uid", "epoch", "workers", "started", "seconds"), name="maar_measurements_once"
    ),
    Index("maar_measurements_job", "namespace", "name", "id"),
)

accounting = Table(
    "maar_accounting",
    metadata,
    *_job_columns(),
    Column("kind", String(16), nullable=False),
    Column("at", Double, nullable=False),
    Column("before", Integer, nullable=False),
    Column("after", Integer, nullable=False),
    Column("gpus_per_worker", Integer, nullable=False),
    Column("attained", Double),
    Column("how", String(64), nullable=False),
    UniqueConstraint(*("namespace", "name", "uid", "kind", "at", "before", "after"), name="maar_accounting_once"),
    Index("maar_accounting_job", "namespace", "name", "id"),
)

runs = Table(
    "maar_runs",
    metadata,
    *_job_columns(),
    Column("owner", String(253), nullable=False),
    Column("stem", String(253), nullable=False),
    Column("queue", String(253), nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("declared", Double),
    Column("submitted", Double, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("how", String(64), nullable=False),
    Column("asked", Text, nullable=False, server_default=""),
    UniqueConstraint(*("namespace", "name", "uid", "started"), name="maar_runs_once"),
)

forecasts = Table(
    "maar_forecasts",
    metadata,
    Column("id", _ROW, primary_key=True, autoincrement=True),
    Column("namespace", String(253), nullable=False),
    Column("name", String(253), nullable=False),
    Column("uid", String(64), nullable=False),
    Column("queue", String(253), nullable=False),
    Column("at", Double, nullable=False),
    Column("age", Double, nullable=False),
    Column("first", Boolean, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("start_p50", Double),
    Column("start_p90", Double),
    Column("shown_p90", Double),
    Column("finish_p50", Double),
    Column("finish_p90", Double),
    Column("rollouts", Integer, nullable=False),
    Column("started", Double),
    Column("gone", Double),
    Column("arrivals", Boolean, nullable=False, server_default=false()),
    UniqueConstraint(*("namespace", "name", "uid", "at"), name="maar_forecasts_once"),
    Index("maar_forecasts_at", "at"),
)


NEW = {
    runs.c.asked: 3,
    forecasts.c.arrivals: 3,
    measurements.c.nodes: 4,
    measurements.c.noise_scale: 4,
    measurements.c.goodput: 4,
}
"""The versions that added columns to older tables."""


def columns(table: Table, version: int) -> list[Column[Any]]:
    """The columns that a table has in a version."""
    return [column for column in table.columns if NEW.get(column, 0) <= version]


def make(connection: Connection) -> None:
    """Create the tables that do not exist; tables of an older version are migrated."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    found = known_version(connection)
    if found is not None and found >= VERSION:
        return
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(CreateIndex(index, if_not_exists=True))
        _add_columns(connection, table)
    connection.execute(insert_once(connection, version), {"id": 1, "version": VERSION})
    connection.execute(update(version).values(version=VERSION))


def _add_columns(connection: Connection, table: Table) -> None:
    """Add the columns that a table of an older version lacks."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in there:
            spelled = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {spelled}"))


def exists(connection: Connection) -> bool:
    return bool(inspect(connection).has_table(version.name))


def known_version(connection: Connection) -> int | None:
    """The version of the tables; `None` if there are none."""
    return connection.execute(select(version.c.version)).scalar() if exists(connection) else None


def check(connection: Connection) -> None:
    found = known_version(connection)
    if found is not None and found > VERSION:
        raise NewerSchema(
            f"the history was written by a newer Maar: table version {found}, newest known version {VERSION}"
        )


def insert_once(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that skips existing rows."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
