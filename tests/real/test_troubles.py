"""One fault after the other on a real cluster with load: jobs run, and the witness finds nothing wrong.

`tests.support.faults` has the faults and the witness. `make soak` runs all of them at random, for much longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.faults import troubles
from tests.support.faults.stage import Stage, furnish, staged, witnessed_cluster
from tests.support.postgres import Postgres, binaries
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available

KILLS, MOST_KILLS = 20, 100
"""Kills at least, and at most until a pod is evicted."""
MIXED = ("gang", "gang", "gang", "wide", "single", "batch", "elastic", "elastic")
SOME = ("gang", "gang", "gang", "wide", "single")


@pytest.fixture(scope="module")
def furnished(real_parts: None) -> Iterator[RealCluster]:
    """A cluster with kubelets, controllers and the training operator, for all tests of this file."""
    if not (found := available("training-operator")):
        pytest.skip(found.why_not)
    with witnessed_cluster() as cluster:
        furnish(cluster)
        yield cluster


@pytest.fixture
def cluster(furnished: RealCluster) -> Iterator[RealCluster]:
    yield furnished
    furnished.clear()


def play(
    cluster: RealCluster,
    folder: Path,
    trouble: Callable[[Stage], Awaitable[int]],
    *,
    kinds: tuple[str, ...] = SOME,
    history: str = "none",
    replicas: int = 1,
) -> int:
    """Run one trouble under load; returns how often it was felt."""

    options = ("--history", history, *([] if replicas > 1 else ["--no-leader-elect"]))

    async def story() -> int:
        async with staged(cluster, folder, seed=1, kinds=kinds, options=options, replicas=replicas) as stage:
            await stage.progress(6)
            felt = await trouble(stage)
            await stage.settle()
        stage.check()
        return felt

    return asyncio.run(story())


def test_an_api_server_behind_a_delay(cluster: RealCluster, tmp_path: Path) -> None:
    assert 0 < play(cluster, tmp_path, troubles.slow_server)


def test_watches_cut_every_second(cluster: RealCluster, tmp_path: Path) -> None:
    assert 0 < play(cluster, tmp_path, troubles.cut_watches)


def test_half_of_all_writes_answered_500(cluster: RealCluster, tmp_path: Path) -> None:
    assert 0 < play(cluster, tmp_path, troubles.failing_writes)


def test_clock_steps_of_an_hour(cluster: RealCluster, tmp_path: Path) -> None:
    assert 3 <= play(cluster, tmp_path, troubles.clock_steps)


def test_a_full_disk_while_recording(cluster: RealCluster, tmp_path: Path) -> None:
    assert 1 == play(cluster, tmp_path, troubles.full_disk)


def test_a_tree_of_5000_queues(cluster: RealCluster, tmp_path: Path) -> None:
    assert 5000 == play(cluster, tmp_path, troubles.many_queues)


def test_10000_connections(cluster: RealCluster, tmp_path: Path) -> None:
    assert 0 < play(cluster, tmp_path, troubles.connections)


def test_postgresql_gone_and_back(cluster: RealCluster, tmp_path: Path) -> None:
    place = binaries()
    if place is None:
        pytest.skip("no PostgreSQL")
    rows = "SELECT count(*) FROM maar_accounting"
    with Postgres(place) as postgres:
        url = postgres.new_database()

        async def trouble(stage: Stage) -> int:
            await stage.until(lambda: postgres.query(url, "SELECT to_regclass('maar_accounting')"), "the tables")
            await troubles.no_postgres(stage, postgres)
            before = postgres.query(url, rows)
            await stage.until(lambda: postgres.query(url, rows) > before, "jobs are recorded again")
            return 1

        assert 1 == play(cluster, tmp_path, trouble, history=url, kinds=MIXED)


@pytest.mark.slow
def test_a_mixed_load_survives_20_kills(cluster: RealCluster, tmp_path: Path) -> None:
    async def trouble(stage: Stage) -> int:
        while stage.replicas.kills < KILLS or not stage.witness.counts["evicted"]:
            await stage.progress(1)
            await troubles.kill(stage)
            assert stage.replicas.kills < MOST_KILLS, "no pod was evicted"
        assert {"gang", "elastic", "batch"} <= {name.rstrip("0123456789") for name in stage.users.names}
        return stage.witness.counts["evicted"]

    assert 0 < play(cluster, tmp_path, trouble, kinds=MIXED)
