"""The mirror follows a scheduler that works beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.support.live import scheduling
from tests.support.patience import PATIENCE
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing

from maar.kube.read.shards import wire_wants
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import create_map, write_shard
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.shards.map import ShardMap
from maar.shards.wants import Want
from maar.testing.builders import cluster, gang, node
from maar.views.tally import Tally
from maar.web.api.mirror import COARSEST, FINEST, MANY, POINTS, QUIET, Changes, Series


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

        async with asyncio.timeout(PATIENCE):
            while await job() is None:
                await asyncio.sleep(0.1)
            jobs = web.mirror.observer.cache.latest.jobs.jobs
            nodes = tuple(sorted(web.mirror.observer.cache.latest.nodes.names))
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


def test_its_answers_grow_old_while_nothing_is_heard(tmp_path: Path) -> None:
    async def main() -> None:
        async with webbing(tmp_path) as web, asyncio.timeout(PATIENCE):
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


class Look:
    """A series of a cluster in which a number of GPUs is in use."""

    def __init__(self) -> None:
        self.series = Series()
        self.snapshots = {
            used: Snapshot(cluster(node("n0", gpu=8), *([gang("j", gpu=used, on=["n0"])] if used else [])))
            for used in (0, 4, 8)
        }

    def __call__(self, now: float, used: int = 0) -> list[tuple[float, int]]:
        self.series.look(Tally(self.snapshots[used], Plan(), now))
        return [(point.at, point.used) for point in self.series.points()]


def at(points: list[tuple[float, int]], now: float) -> int:
    """What a line through the points shows."""
    return [used for begin, used in points if begin <= now][-1]


def test_utilisation_is_right_soon_after_the_start() -> None:
    look = Look()
    look(100.0, 0)
    look(100.4, 4)
    points = look(100.6, 8)
    assert [(100.0, 0), (100.6, 8)] == points
    assert 8 == at(look(159.0, 8), 103.0), "not zero for the first minute"
    assert [(100.0, 0), (100.6, 8), (159.0, 8), (159.5, 4)] == look(159.5, 4)
    assert [(50.0, 4)] == look(50.0, 4), "the clock was set back"


def test_a_day_of_utilisation_is_kept() -> None:
    look = Look()
    for second in range(0, 26 * 3600, 10):
        used = 8 if second % 3600 < 1800 else 0
        look.series.look(Tally(look.snapshots[used], Plan(), float(second)))
    points = [(point.at, point.used) for point in look.series.points()]
    assert FINEST < look.series.every <= COARSEST
    assert len(points) <= POINTS
    assert points[-1][0] - points[0][0] >= 24 * 3600
    for hour in range(3, 26):
        for minute, used in ((10, 8), (25, 8), (40, 0), (55, 0)):
            assert used == at(points, hour * 3600 + minute * 60)


def test_a_time_without_news_is_a_gap() -> None:
    look = Look()
    look(0.0, 8)
    look.series.heard(40.0)
    look(40.0 + QUIET, 4)
    assert [None, None] == [point.until for point in look.series.points()], "a quiet cluster is still known"
    look.series.heard(40.0 + QUIET + 7.0)
    look(500.0, 4)
    points = look.series.points()
    assert [(0.0, None), (190.0, 197.0), (500.0, None)] == [(point.at, point.until) for point in points]
