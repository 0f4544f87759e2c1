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

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from maar.history.errors import NewerSchema

VERSION = 4
LOCK = 0x6D616172
"""Advisory lock of PostgreSQL while the tables are created, so that two replicas may start at once: `maar` in ASCII."""

metadata = sa.MetaData()
_ROW = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite increments only columns of type INTEGER


def _names() -> Iterator[sa.Column[Any]]:
    yield sa.Column("id", _ROW, primary_key=True, autoincrement=True)
    yield sa.Column("namespace", sa.String(253), nullable=False)
    yield sa.Column("name", sa.String(253), nullable=False)
    yield sa.Column("uid", sa.String(64), nullable=False)


def _job_columns() -> Iterator[sa.Column[Any]]:
    yield from _names()
    yield sa.Column("category", sa.String(512), nullable=False)
    yield sa.Column("accelerator", sa.String(253), nullable=False)


version = sa.Table(
    "maar_history", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("version", sa.Integer)
)

measurements = sa.Table(
    "maar_measurements",
    metadata,
    *_job_columns(),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("workers", sa.Integer, nullable=False),
    sa.Column("resized", sa.Boolean, nullable=False),
    sa.Column("local_batch_size", sa.BigInteger),
    sa.Column("global_batch_size", sa.BigInteger),
    sa.Column("total_epochs", sa.BigInteger),
    sa.Column("step_seconds", sa.Double),
    sa.Column("nodes", sa.Integer),
    sa.Column("noise_scale", sa.Double),
    sa.Column("goodput", sa.Text, nullable=False, server_default=""),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("arrived", sa.Double, nullable=False),
    # A job may send a measurement twice, if the first response was lost.
    sa.UniqueConstraint(
        *("namespace", "name", "uid", "epoch", "workers", "started", "seconds"), name="maar_measurements_once"
    ),
    sa.Index("maar_measurements_job", "namespace", "name", "id"),
)

accounting = sa.Table(
    "maar_accounting",
    metadata,
    *_job_columns(),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("before", sa.Integer, nullable=False),
    sa.Column("after", sa.Integer, nullable=False),
    sa.Column("gpus_per_worker", sa.Integer, nullable=False),
    sa.Column("attained", sa.Double),
    sa.Column("how", sa.String(64), nullable=False),
    sa.UniqueConstraint(*("namespace", "name", "uid", "kind", "at", "before", "after"), name="maar_accounting_once"),
    sa.Index("maar_accounting_job", "namespace", "name", "id"),
)

runs = sa.Table(
    "maar_runs",
    metadata,
    *_job_columns(),
    sa.Column("owner", sa.String(253), nullable=False),
    sa.Column("stem", sa.String(253), nullable=False),
    sa.Column("queue", sa.String(253), nullable=False),
    sa.Column("gpus", sa.BigInteger, nullable=False),
    sa.Column("declared", sa.Double),
    sa.Column("submitted", sa.Double, nullable=False),
    sa.Column("started", sa.Double, nullable=False),
    sa.Column("ended", sa.Double, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("how", sa.String(64), nullable=False),
    sa.Column("asked", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint(*("namespace", "name", "uid", "started"), name="maar_runs_once"),
)

forecasts = sa.Table(
    "maar_forecasts",
    metadata,
    *_names(),
    sa.Column("queue", sa.String(253), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("age", sa.Double, nullable=False),
    sa.Column("first", sa.Boolean, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("start_p50", sa.Double),
    sa.Column("start_p90", sa.Double),
    sa.Column("shown_p90", sa.Double),
    sa.Column("finish_p50", sa.Double),
    sa.Column("finish_p90", sa.Double),
    sa.Column("rollouts", sa.Integer, nullable=False),
    sa.Column("started", sa.Double),
    sa.Column("gone", sa.Double),
    sa.Column("arrivals", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.UniqueConstraint(*("namespace", "name", "uid", "at"), name="maar_forecasts_once"),
    sa.Index("maar_forecasts_at", "at"),
)


NEW = {
    runs.c.asked: 3,
    forecasts.c.arrivals: 3,
    measurements.c.nodes: 4,
    measurements.c.noise_scale: 4,
    measurements.c.goodput: 4,
}
"""The versions that added columns to older tables."""


def columns(table: sa.Table, version: int) -> list[sa.Column[Any]]:
    """The columns that a table has in a version."""
    return [column for column in table.columns if NEW.get(column, 0) <= version]


def make(connection: sa.Connection) -> None:
    """Create the tables that do not exist; tables of an older version are migrated."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    found = known_version(connection)
    if found is not None and found >= VERSION:
        return
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            connection.execute(CreateIndex(index, if_not_exists=True))
        _add_columns(connection, table)
    connection.execute(insert_once(connection, version), {"id": 1, "version": VERSION})
    connection.execute(sa.update(version).values(version=VERSION))


def _add_columns(connection: sa.Connection, table: sa.Table) -> None:
    """Add the columns that a table of an older version lacks."""
    there = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in there:
            spelled = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {spelled}"))


def exists(connection: sa.Connection) -> bool:
    return bool(sa.inspect(connection).has_table(version.name))


def known_version(connection: sa.Connection) -> int | None:
    """The version of the tables; `None` if there are none."""
    return connection.execute(sa.select(version.c.version)).scalar() if exists(connection) else None


def check(connection: sa.Connection) -> None:
    found = known_version(connection)
    if found is not None and found > VERSION:
        raise NewerSchema(
            f"the history was written by a newer Maar: table version {found}, newest known version {VERSION}"
        )


def insert_once(connection: sa.Connection, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that skips existing rows."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
