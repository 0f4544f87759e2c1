"""Forecasts in the history: who may write them, and what is looked up about jobs that are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from tests.history.test_store import RUN, as_version_1, predicted
from tests.support.postgres import Postgres

from maar.history.address import read_address
from maar.history.errors import Unreachable
from maar.history.forecasts import ForecastLog
from maar.history.records import Fate
from maar.history.store import Store


def test_a_job_that_seems_gone_may_have_started_unseen(store: Store, address: str) -> None:
    store.write([RUN])
    made = [predicted("bert-1", 500.0, uid="u-9"), predicted("bert-1", 1500.0, uid="u-9"), predicted("a")]
    fates = [Fate("team", "bert-1", "u-9", gone=1700.0), Fate("team", "a", "u-a", gone=300.0)]

    async def main() -> None:
        log = ForecastLog(address)
        await log.save(made, (), 2000.0)
        unresolved, _ = await log.load()
        assert {("bert-1", 1500.0), ("a", 100.0)} == {(p.name, p.at) for p in unresolved}
        await log.save((), fates, 2000.0)
        known = {(p.name, p.at): (p.started, p.gone) for p in await log.judged()}
        assert {
            ("bert-1", 500.0): (1000.0, None),
            ("bert-1", 1500.0): (None, 1700.0),  # it waited again, after it ran
            ("a", 100.0): (None, 300.0),
        } == known
        assert "" == log.problem
        await log.close()

    asyncio.run(main())


def test_forecasts_are_kept_for_thirty_days(store: Store, address: str) -> None:
    async def main() -> None:
        log = ForecastLog(address)
        day = 86400.0
        await log.save([predicted("old", 0.0), predicted("new", 2 * day)], (), 2 * day)
        await log.save((), (), 31 * day)
        assert ["new"] == [p.name for p in await log.judged()]
        await log.close()

    asyncio.run(main())


def test_it_makes_no_tables_and_says_what_is_missing(address: str, tmp_path: Path) -> None:
    async def main() -> None:
        log = ForecastLog(address)
        with pytest.raises(Unreachable):
            await log.load()
        assert log.problem.endswith("no history yet: `maar run` creates it")
        assert [] == list(tmp_path.iterdir())
        store = Store(read_address(address))
        assert store.open()
        as_version_1(address)
        with pytest.raises(Unreachable, match="tables of version 1"):
            await log.load()
        store.close()
        again = Store(read_address(address))
        assert again.open(), "`maar run` migrates them"
        assert ([], []) == await log.load()
        assert "" == log.problem
        again.close()
        await log.close()
        nothing = ForecastLog()
        with pytest.raises(Unreachable, match="no history configured"):
            await nothing.judged()

    asyncio.run(main())


GRANTS = """
DROP ROLE IF EXISTS web;
CREATE ROLE web LOGIN;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO web;
GRANT INSERT, UPDATE, DELETE ON maar_forecasts TO web;
GRANT USAGE ON SEQUENCE maar_forecasts_id_seq TO web;
"""


@pytest.mark.real
def test_the_documented_rights_are_enough_for_maar_web(postgres: Postgres) -> None:
    address = postgres.new_database()
    store = Store(read_address(address))
    assert store.open()
    store.write([RUN])
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(GRANTS.encode())
    as_web = address.replace("maar@", "web@")

    async def main() -> None:
        log = ForecastLog(as_web)
        await log.save([predicted("a")], (), 2000.0)
        await log.save((), [Fate("team", "a", "u-a", gone=300.0)], 2000.0)
        assert [300.0] == [p.gone for p in await log.judged()]
        await log.close()

    asyncio.run(main())
    mine = Store(read_address(as_web), make=False)
    assert mine.open()
    with pytest.raises(Unreachable, match="permission denied"):
        mine.write([RUN])
    mine.close()
    store.close()
