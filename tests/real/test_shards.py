"""Several `maar run --shards N` on a real API server: they divide it, lend nodes, and take over from each other.

The last test causes faults for a minute; `make soak-shards` for ten minutes, on a larger cluster.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import pytest
from tests.soak.shards import WRONG, Setting, shake
from tests.support.faults.shard_stage import furnish
from tests.support.faults.stage import witnessed_cluster
from tests.support.live import connected
from tests.support.live_shards import LiveShards, numbers_in
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available

SHARDS = 3
LEASE_S = 15
"""The default. With a shorter one, a busy machine makes processes lose shards that no test takes from them."""


@asynccontextmanager
async def shards(cluster: RealCluster, folder: Path, processes: int) -> AsyncIterator[LiveShards]:
    """Some processes that divide the cluster into three shards."""
    async with connected(cluster.kubeconfig) as live:
        made = LiveShards(live, cluster.kubeconfig, folder, SHARDS, lease=LEASE_S)
        try:
            for _ in range(processes):
                made.start()
            yield made
        finally:
            made.end()
        assert [] == [child.log.name for child in made.children if child.says("Traceback")]


def test_a_gang_of_40_starts_on_three_shards_with_20_free_slots_each(real_cluster: RealCluster, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(real_cluster, tmp_path, SHARDS) as play:
            for shard in range(SHARDS):
                for number in islice(numbers_in(shard, SHARDS), 5):
                    await play.live.nodes(1, gpu=8, first=number)
            await play.ready()
            await play.gang(0, 40, gpu=2)

    asyncio.run(story())


def test_a_spare_takes_over_while_the_other_shards_go_on(real_cluster: RealCluster, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(real_cluster, tmp_path, SHARDS + 1) as play:
            await play.live.nodes(30, gpu=8)
            before = await play.ready()
            (spare,) = [child for child in play.children if child not in before]
            await play.waiting_pods(64)
            frozen = await play.freeze(1, 64)
            renewing = asyncio.create_task(play.renew(1))
            orphan = asyncio.create_task(play.gang(1))
            for shard in (0, 2):
                await play.gang(shard)
            assert not orphan.done(), "the others go on, before anybody takes over"
            renewing.cancel()
            frozen.end()
            await orphan
            # Another holder may be faster than the spare. Then it gives the shard to the spare, which has none.
            after = await play.divided()
            assert [before[0], spare, before[2]] == after

    asyncio.run(story())


def test_two_processes_hold_three_shards_until_a_third_comes(real_cluster: RealCluster, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(real_cluster, tmp_path, 2) as play:
            await play.live.nodes(30, gpu=8)
            await play.ready()
            third = play.start()
            assert third in await play.divided()
            for shard in range(SHARDS):
                await play.gang(shard)

    asyncio.run(story())


@pytest.fixture
def furnished(real_parts: None) -> Iterator[RealCluster]:
    """A cluster with kubelets and controllers, and with the training operator if it is built."""
    with witnessed_cluster() as cluster:
        furnish(cluster, bool(available("training-operator")))
        yield cluster


@pytest.mark.slow
def test_a_minute_of_faults(furnished: RealCluster, tmp_path: Path) -> None:
    setting = Setting(
        seed=3,
        seconds=60.0,
        nodes=100,
        faults=10,
        server_restarts=1,
        numbers=(4,),
        elastic=bool(available("training-operator")),
        longest_part=math.inf,  # the soak measures it
    )
    found = asyncio.run(shake(furnished, tmp_path, setting))
    assert {} == {name: found[name] for name in WRONG if found[name]}
    assert (6, 3, 1, 1) == tuple(found[name] for name in ("kills", "freezes", "restarts", "server_restarts"))
    assert found["moves"] > 0
