"""Giving away: nothing before it is settled, by one write, with the epochs of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.live import Live, tell
from tests.support.patience import until

from maar.controller.shards.holding import Holding
from maar.controller.shards.moving import LostShard, Moves
from maar.kube.write.shards import create_map, read_map, write_map
from maar.model.queues import Queue, QueueTree
from maar.shards.map import ShardMap
from maar.shards.proposals import NOTHING, proposals
from maar.shards.shard import Lend

MAP = ShardMap.new(2).raised(0, 1, "a").raised(1, 1, "b")
OWN = [f"n{i}" for i in range(50) if MAP.owner_of(f"n{i}") == 0]
QUEUE = next(f"q{i}" for i in range(50) if MAP.shard_of(f"q{i}") == 0)


class Sent:
    """What a process has sent."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.open: frozenset[str] = frozenset()

    def nodes_in_use(self) -> set[str]:
        return self.nodes

    def unsettled(self) -> frozenset[str]:
        return self.open


class Scene:
    """A process that holds shard 0."""

    def __init__(self, cluster: Live) -> None:
        self.api = cluster.api
        self.sent, self.holding = Sent(), Holding()
        self.moves = Moves(self.api, self.holding, self.sent, lambda: None)

    async def owner(self, node: str) -> int:
        found = await read_map(self.api)
        assert found is not None
        return found.map.owner_of(node)

    async def owns(self, node: str, shard: int) -> None:
        async def moved() -> bool:
            return await self.owner(node) == shard

        await until(moved, f"shard {shard} owns {node}")


def play(kubeconfig: Path, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def run(cluster: Live) -> None:
        scene = Scene(cluster)
        scene.holding.see(await create_map(cluster.api, MAP))
        scene.holding.begin(0, 1, MAP)
        writing = asyncio.create_task(scene.moves.run())
        try:
            await story(scene)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    tell(kubeconfig, run, nodes=0)


def test_a_node_is_lent_when_no_bind_to_it_is_on_its_way(kubeconfig: Path) -> None:
    async def story(scene: Scene) -> None:
        busy, free = OWN[:2]
        scene.sent.nodes = {busy}
        scene.moves.after([Lend(busy, 1), Lend(free, 1)], NOTHING, frozenset())
        assert not {busy, free} & scene.holding.uses(OWN), "it stops using both at once"
        await scene.owns(free, 1)
        assert 0 == await scene.owner(busy)
        scene.sent.nodes = set()
        await scene.owns(busy, 1)
        await until(lambda: not scene.holding.leaving)

    play(kubeconfig, story)


def test_a_lend_that_another_write_was_before_is_repeated_on_the_new_version(kubeconfig: Path) -> None:
    async def story(scene: Scene) -> None:
        before = await read_map(scene.api)
        assert before is not None
        other = next(f"n{i}" for i in range(50) if MAP.owner_of(f"n{i}") == 1)
        await write_map(scene.api, before, before.map.lent(other, 0))
        scene.moves.after([Lend(OWN[0], 1)], NOTHING, frozenset())
        await scene.owns(OWN[0], 1)
        assert 0 == await scene.owner(other), "the other write stands"
        assert {other} == scene.holding.fresh.nodes

    play(kubeconfig, story)


def test_a_process_whose_epoch_was_raised_by_another_writes_nothing(kubeconfig: Path) -> None:
    async def story(scene: Scene) -> None:
        before = await read_map(scene.api)
        assert before is not None
        await write_map(scene.api, before, before.map.raised(0, 2, "c"))
        scene.moves.after([Lend(OWN[0], 1)], NOTHING, frozenset())
        with pytest.raises(LostShard):
            await asyncio.wait_for(scene.moves.run(), 10)
        assert 0 == await scene.owner(OWN[0])

    play(kubeconfig, story)


def test_a_queue_is_let_go_when_its_wants_have_ended_and_everything_sent_is_settled(kubeconfig: Path) -> None:
    async def story(scene: Scene) -> None:
        proposed = proposals(MAP, {}, QueueTree([Queue(QUEUE, pin="1")]))
        scene.sent.open = frozenset({"/pods/a"})
        scene.moves.after([], proposed, frozenset({QUEUE}))
        scene.sent.open = frozenset({"/pods/a", "/pods/b"})

        async def shard() -> int:
            found = await read_map(scene.api)
            assert found is not None
            return found.map.shard_of(QUEUE)

        async def moved() -> bool:
            return await shard() == 1

        await asyncio.sleep(0.2)  # nothing happens, here and below
        assert 0 == await shard(), "a job of it has a want"
        scene.moves.after([], proposed, frozenset())
        await asyncio.sleep(0.2)
        assert 0 == await shard(), "a bind is on its way"
        scene.sent.open = frozenset({"/pods/b"})  # which began later, for another queue
        await until(moved, "the queue moves")

    play(kubeconfig, story)


def test_slots_of_another_number_of_shards_move_in_one_write(kubeconfig: Path) -> None:
    async def story(scene: Scene) -> None:
        before = await read_map(scene.api)
        assert before is not None
        wanted = before.map.resized(3).raised(2, 1, "c")
        scene.holding.see(await write_map(scene.api, before, wanted))
        racks = dict.fromkeys(OWN, "")
        scene.moves.after([], proposals(wanted, racks, QueueTree([])), frozenset())

        async def proposed() -> list[int]:
            found = await read_map(scene.api)
            return list(found.map.slots) if found and 2 in found.map.slots else []

        slots = await until(proposed, "shard 2 has slots")
        assert 1 == scene.moves.written
        assert 86 == slots.count(0)
        assert 128 == slots.count(1), "only its owner moves a slot"

    play(kubeconfig, story)
