"""The mirror follows a scheduler that works beside it, and its connection cannot write."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.live import scheduling
from tests.support.patience import PATIENCE
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing

from maar.kube.client.errors import NotLeading
from maar.kube.read.shards import wire_wants
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import create_map, write_shard
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.shards.map import ShardMap
from maar.shards.wants import Want
from maar.testing.builders import cluster, node
from maar.views.tally import Tally
from maar.web.api.mirror import MANY, POINT_EVERY, POINTS, Changes, Series


def test_it_shows_what_the_scheduler_beside_it_does(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)

        async def until_a_decision(happened: str) -> None:
            """Until pods of a decision are on their node (`sameNode`), or wait (`waiting`)."""
            while not any(d["happened"][happened] for d in (await client.get("/decisions"))["items"]):
                await asyncio.sleep(0.1)

        async with asyncio.timeout(PATIENCE):
            await web.gang(MINE, "job", 2, gpu=4)
            await until_a_decision("waiting")  # the mirror decides once a second: the scheduler could be first
            async with scheduling(web.cluster):
                while True:
                    items = (await client.get("/jobs?state=running"))["items"]
                    if [job["name"] for job in items] == ["job"]:
                        break
                    await asyncio.sleep(0.1)
                assert {"bound": 2} == items[0]["pods"]
                assert ("PodGroup", "job") == (items[0]["owner"]["kind"], items[0]["owner"]["name"])
                await until_a_decision("sameNode")

    async def main() -> None:
        async with webbing(tmp_path) as web:
            await story(web)

    asyncio.run(main())


def test_it_shows_the_shards_of_the_cluster(tmp_path: Path) -> None:
    """It decides as one Maar would, and says what the shards want."""

    async def story(web: Web) -> None:
        admin, user = await web.as_user(ADMIN), await web.as_user(USER)
        assert [] == (await admin.get("/cluster"))["cluster"]["shards"]
        await web.gang(THEIRS, "aq7waits", 1, gpu=4)
        await web.gang(MINE, "waits", 1, gpu=4)
        api = web.cluster.api
        owners = replace(ShardMap.new(2), epochs={0: 1, 1: 4}, holders={0: "maar-aq7", 1: "maar-x"})
        await create_map(api, owners)
        shard = owners.shard_of("default")

        async def job() -> Any:
            found = (await user.get("/jobs"))["items"]
            return next((job for job in found if job["name"] == "waits" and job["shard"] is not None), None)

        async with asyncio.timeout(30):
            while await job() is None:
                await asyncio.sleep(0.1)
            jobs = web.mirror.scheduler.cache.latest.jobs.jobs
            nodes = tuple(sorted(web.mirror.scheduler.cache.latest.nodes.names))
            wants = [Want(shard, j.key, j.uid, 0, j.created, nodes, time.time() + 600) for j in jobs]
            await write_shard(api, shard, ShardSpec(wire_wants(wants)), ShardStatus())
            while "borrowed from other shards" not in (await job())["why"]:
                await asyncio.sleep(0.1)
            assert shard == (await job())["shard"]
            detail = (await user.get(f"/jobs/{MINE}/waits"))["detail"]
            assert "Borrowing" == detail["reasons"][0]["code"]
        seen = (await admin.get("/cluster"))["cluster"]["shards"]
        assert [(0, "maar-aq7", 1), (1, "maar-x", 4)] == [(s["shard"], s["holder"], s["epoch"]) for s in seen]
        assert {len(wants)} == {s["wants"] for s in seen if s["shard"] == shard}
        items = (await user.get("/nodes"))["items"]
        assert {owners.owner_of(node["name"]) for node in items} == {node["shard"] for node in items}
        for path in ("cluster", "jobs", "nodes"):
            assert b"aq7" not in (await user.ask(f"/api/v1/{path}"))[1]

    async def main() -> None:
        async with webbing(tmp_path) as web:
            await story(web)

    asyncio.run(main())


def test_it_cannot_write(tmp_path: Path) -> None:
    async def main() -> None:
        async with webbing(tmp_path) as web:
            with pytest.raises(NotLeading):
                await web.mirror.scheduler.api.bind(MINE, "x", "uid", "n0")
            with pytest.raises(NotLeading):
                await web.mirror.scheduler.api.patch("/api/v1/nodes/n0", {})

    asyncio.run(main())


def test_its_answers_grow_old_while_nothing_is_heard(tmp_path: Path) -> None:
    async def main() -> None:
        async with webbing(tmp_path) as web, asyncio.timeout(30):
            client = await web.as_user(ADMIN)
            assert 200 == (await client.ask("/api/v1/cluster"))[0]
            web.server.faults.stall_watches = True
            first = await client.get("/cluster")
            while True:
                later = await client.get("/cluster")
                if later["age"] > first["age"] + 0.2:
                    break
                await asyncio.sleep(0.05)
            assert later["asOf"] <= first["asOf"] + 0.2

    asyncio.run(main())


def test_a_reader_that_is_slow_fetches_everything_again() -> None:
    changes = Changes()
    changes.add(Changes({"a/b"}, {"n0"}))
    assert ({"a/b"}, {"n0"}, False) == (changes.jobs, changes.nodes, changes.all)
    changes.add(Changes({f"a/{i}" for i in range(MANY)}))
    assert (set(), set(), True) == (changes.jobs, changes.nodes, changes.all)
    changes.add(Changes({"a/b"}))
    assert (set(), True) == (changes.jobs, changes.all)


def test_a_day_of_utilisation_is_kept_a_point_each_minute() -> None:
    series, snapshot = Series(), Snapshot(cluster(node("n0", gpu=8)))

    def look(*moments: float) -> list[float]:
        for now in moments:
            series.look(Tally(snapshot, Plan(), now))
        return [point.at for point in series.points]

    assert [0.0, 60.0, 200.0] == look(0.0, 1.0, 59.9, 60.0, 100.0, 200.0, 259.0)
    assert [100.0, 160.0] == look(100.0, 160.0), "the clock was set back"
    assert POINTS == len(look(*(160.0 + POINT_EVERY * i for i in range(POINTS + 10))))
    assert 160.0 + POINT_EVERY * 10 == series.points[0].at
