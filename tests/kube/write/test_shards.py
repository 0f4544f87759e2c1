"""ShardMap and Shards on both servers: compare-and-swap, and objects that somebody has broken."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.live import Live, tell

from maar.kube.client.errors import AlreadyExists, Conflict, Invalid
from maar.kube.read.shards import BrokenMap
from maar.kube.wire.api_resources import SHARD_MAPS, SHARDS
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import create_map, read_map, read_shards, write_map, write_shard
from maar.shards.map import ShardMap


def test_only_the_first_of_two_writers_succeeds(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        assert await read_map(cluster.api) is None
        made = ShardMap.new(3)
        stored = await create_map(cluster.api, made)
        with pytest.raises(AlreadyExists):
            await create_map(cluster.api, ShardMap.new(1))
        node = next(f"n{i}" for i in range(100) if made.owner_of(f"n{i}") == 0)
        first = await write_map(cluster.api, stored, made.raised(0, 1, "maar-0").lent(node, 2))
        with pytest.raises(Conflict):
            await write_map(cluster.api, stored, made.raised(0, 1, "maar-1"))
        again = await read_map(cluster.api)
        assert again is not None
        assert (first.map, first.version) == (again.map, again.version)
        assert ({node: 2}, {0: 1}, {0: "maar-0"}) == (again.map.nodes, again.map.epochs, again.map.holders)
        given_back = await write_map(cluster.api, again, again.map.lent(node, 0))
        assert {} == given_back.map.nodes
        # The server does not accept what no map can have.
        for wrong in ({"shards": 0}, {"slots": [0]}, {"nodes": {"n": -1}}):
            with pytest.raises(Invalid):
                await cluster.api.patch(SHARD_MAPS.path(name="maar"), {"spec": wrong})
        # But it does not know which shards exist.
        await cluster.api.patch(SHARD_MAPS.path(name="maar"), {"spec": {"nodes": {"n": 9}}})
        with pytest.raises(BrokenMap, match=r"spec.nodes\[n\]: shard 9 is not in the ShardMap"):
            await read_map(cluster.api)

    tell(kubeconfig, story, nodes=0)


def test_shards_are_listed_with_their_figures(kubeconfig: Path) -> None:
    async def story(cluster: Live) -> None:
        figures = ShardStatus(holder="maar-0", epoch=7, nodes=100, lent=2, borrowed=0, queues=3, waiting=12)
        made = await write_shard(cluster.api, 0, ShardSpec(), figures)
        newer = await write_shard(cluster.api, 0, ShardSpec(), msgspec.structs.replace(figures, waiting=11), made)
        with pytest.raises(Conflict):
            await write_shard(cluster.api, 0, ShardSpec(), figures, made)
        assert newer["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
        head = {"apiVersion": SHARDS.api_version, "kind": "Shard"}
        await cluster.create(SHARDS.path(), head | {"metadata": {"name": "mine"}})
        found = await read_shards(cluster.api)
        assert {0: msgspec.structs.replace(figures, waiting=11)} == found.statuses
        assert ["Shard `mine`: expected a name such as `shard-0`"] == found.problems

    tell(kubeconfig, story, nodes=0)
