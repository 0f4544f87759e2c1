"""The front of the shards of a process, without an API server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace
from tests.controller.shards.test_holding import FOREIGN, MAP, NAMES, stored
from tests.support.objects import decoded
from tests.support.sockets import until

from maar.config.file import default_config
from maar.controller.loop import Loop
from maar.controller.settings.brakes import Brakes
from maar.controller.settings.settings import Settings
from maar.controller.shards.front import Shards
from maar.controller.snapshots.cache import Cache
from maar.kube.picture.picture import Picture
from maar.kube.write.shards import StoredMap
from maar.model.plan import Bind, Plan
from maar.model.tasks import Status
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.shard import Step
from maar.shards.wants import ELECTED, Want

NOTHING = cast(Any, None)


async def list_pods() -> None: ...


def test_a_want_stands_while_binds_are_on_their_way_and_not_while_a_promise_is_taken_back() -> None:
    """Nobody may write for a job whose queue is let go: its pod says for ever that it has a promise."""
    spec = {"containers": [{"name": "c"}], "schedulerName": "maar"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns", "uid": "u"}, "spec": spec}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    cache = Cache(Picture(frozenset({"maar"})))
    for item in (node, {**pod, "status": {"nominatedNodeName": "n1"}}):
        cache.picture.put(*decoded(item))
    sent: Any = SimpleNamespace(nodes_in_use=set, unsettled=frozenset)
    shards = Shards(NOTHING, cache, sent, list_pods, lambda: None)
    shards.holding.stored = StoredMap(ShardMap.new(2), {"metadata": {"resourceVersion": "1"}})
    want = Want(0, "ns/a", "u", 0, 0.0, ("n1",), deadline=30.0)
    for plan, status, stands in (
        (Plan(), Status.PENDING, False),
        (Plan(bind=(Bind("ns/a", "n1"),)), Status.BOUND, True),
    ):
        cache.snapshot(0.0)
        shards.after(Step(Plan(), (want,)), cache.publish(1, Plan(), 0.0))
        cache.assume(plan)
        assert status is cache.picture.assumed["ns/a"].status
        shards.after(Step(plan), cache.publish(2, plan, 0.0))
        assert stands == ("ns/a" in shards.wanting)


def test_the_want_of_an_elected_job_wakes_its_shard_before_it_ends_and_holds_no_queue() -> None:
    cache = Cache(Picture(frozenset({"maar"})))
    sent: Any = SimpleNamespace(nodes_in_use=set, unsettled=frozenset)
    shards = Shards(NOTHING, cache, sent, list_pods, lambda: None)
    shards.holding.stored = StoredMap(ShardMap.new(2), {"metadata": {"resourceVersion": "1"}})
    want = Want(0, "ns/a", "u", 0, 0.0, ("n1",), deadline=ELECTED, elected=0.0)
    cache.snapshot(0.0)
    shards.after(Step(Plan(), (want,)), cache.publish(1, Plan(), 0.0))
    assert (ELECTED / 2, frozenset()) == (shards.wake_at(1.0), shards.wanting)
    shards.after(Step(Plan(), (replace(want, elected=None),)), cache.publish(2, Plan(), 0.0))
    assert (ELECTED, frozenset({"ns/a"})) == (shards.wake_at(1.0), shards.wanting)


def test_a_cycle_ends_also_if_all_shards_of_the_process_are_being_given_back() -> None:
    """Two shards that are given back at once wait for it both, and then there is nothing to decide."""

    async def story() -> None:
        cycles: list[asyncio.Task[float | None]] = []
        loop = Loop(NOTHING, lambda: (default_config(catalog()), None), Settings(), Brakes())

        def trigger() -> None:
            cycles.append(asyncio.create_task(loop.once(shards=shards)))

        shards = Shards(NOTHING, NOTHING, NOTHING, list_pods, trigger)
        async with asyncio.timeout(5):
            await asyncio.gather(shards.a_cycle(), shards.a_cycle())
        assert [None] * 4 == await asyncio.gather(*cycles)

    asyncio.run(story())


def test_what_the_map_gives_during_a_take_over_is_listed_and_used_although_the_map_stays_as_it_is() -> None:
    async def story() -> None:
        lists: list[str] = []

        async def list_pods() -> None:
            lists.append("pods")

        objects = SimpleNamespace(of=lambda kind: {})
        cache = SimpleNamespace(wake_all=lambda: None, picture=SimpleNamespace(objects=objects))
        shards = Shards(NOTHING, cast(Any, cache), NOTHING, list_pods, lambda: None)
        shards.holding.see(stored(MAP.lent(FOREIGN[0], 0), 2))
        listing = asyncio.create_task(shards.list_fresh())
        shards.begin(0, 1, stored(MAP, 1))
        assert FOREIGN[0] not in shards.holding.uses(NAMES)
        await until(lambda: not shards.holding.fresh)
        assert ["pods"] == lists
        assert FOREIGN[0] in shards.holding.uses(NAMES)
        listing.cancel()

    asyncio.run(story())
