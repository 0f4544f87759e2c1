"""Two or three `maar run --shards` on the embedded server: preemption across shards, pins, other numbers of shards."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.support import patience
from tests.support.live import NAMESPACE, OUR_CRDS, bound, connected
from tests.support.live_shards import LiveShards, numbers_in, queue_in
from tests.support.memory import electing, locks
from tests.support.scheduler import Child

from maar.cli.main import main
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.read.shards import wants_of
from maar.kube.wire.annotations import EPOCH, SHARD
from maar.kube.wire.api_resources import LEASES, QUEUES, SHARD_MAPS, SHARDS
from maar.kube.wire.shards import Shard
from maar.kube.write.shards import create_map, read_map, read_shards
from maar.shards.map import ShardMap
from maar.shards.slots import even, slot_of

SOON = 30.0


@asynccontextmanager
async def shards(
    box: EmbeddedServer, folder: Path, processes: int, nodes: int = 3, *options: str
) -> AsyncIterator[LiveShards]:
    """Processes that divide a cluster into as many shards, with some nodes of 8 GPUs in each. All record."""
    kubeconfig = box.kubeconfig(folder / "kubeconfig")
    async with connected(kubeconfig) as live:
        await live.crds(OUR_CRDS)
        play = LiveShards(live, kubeconfig, folder, processes, *options)
        try:
            for number in range(processes):
                play.start("--record", str(folder / f"{number}.record"))
            for shard in range(processes):
                for number in itertools.islice(numbers_in(shard, processes), nodes):
                    await live.nodes(1, gpu=8, first=number)
            if nodes:
                await play.ready()
            yield play
        finally:
            play.end()
        assert [] == [child.log.name for child in play.children if child.says("Traceback")]


async def shard_map(play: LiveShards) -> ShardMap:
    found = await read_map(play.live.api)
    assert found is not None
    return found.map


async def until(play: LiveShards, holds: Callable[[ShardMap], bool], what: str) -> None:
    async def check() -> bool:
        return holds(await shard_map(play))

    await eventually(play, check, what)


async def eventually(play: LiveShards, check: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        await patience.until(check, what, SOON)
    except TimeoutError as late:
        raise AssertionError(
            f"{late}: {await shard_map(play)} {await read_shards(play.live.api)} {play.logs()}"
        ) from None


def test_a_gang_gets_the_nodes_of_another_shard_with_its_victims_on_them(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            live, (mine, theirs) = play.live, (queue_in(shard, 2) for shard in (0, 1))
            await live.priority("low", 1)
            await live.priority("high", 1000)
            # The cluster is full of jobs of the queue of the other shard, which has more than its share.
            for i in range(6):
                await live.gang(f"low{i}", 2, gpu=4, group={"queue": theirs}, priorityClassName="low")
            for i in range(6):
                await live.until(bound(f"low{i}", 2), f"low{i} runs, with borrowed nodes")
            await live.gang("urgent", 2, gpu=8, group={"queue": mine}, priorityClassName="high")
            await live.until(bound("urgent", 2), "victims leave")
            left = await live.pods()
            kept = [pod for pod in left if pod.node and (pod.group or "").startswith("low") and not pod.leaving]
            assert 8 == len(kept), "whole gangs left, and no more than needed"
            said = [child.log.read_text() for child in play.children]
            assert not any("over-committed" in text for text in said)

    asyncio.run(story())
    cycles = [decided_again(tmp_path / f"{number}.record") for number in (0, 1)]
    assert any(want["job"].endswith("/urgent") for cycle in itertools.chain(*cycles) for want in cycle["wants"])


def decided_again(recording: Path) -> list[dict[str, Any]]:
    """What `maar plan` makes of the cycles of a shard; a plan that differs from the recorded one is an error."""
    result = CliRunner().invoke(main, ["plan", str(recording), "-o", "json"], catch_exceptions=False)
    assert 0 == result.exit_code, result.stderr
    cycles: list[dict[str, Any]] = json.loads(result.stdout)["cycles"]
    return cycles


def test_each_owner_locks_its_nodes_for_an_elected_job_of_another_shard_and_lends_them_as_they_empty(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """The owner is frozen for a moment: nobody else writes to its nodes meanwhile."""
    config = electing(tmp_path)
    config.write_text(config.read_text().replace("- name: proportion ", "# "))

    async def story() -> None:
        async with shards(box, tmp_path, 2, 2, "--config", str(config), "--lease-duration", "20") as play:
            live, (mine, theirs) = play.live, (queue_in(shard, 2) for shard in (0, 1))
            nodes = [list(map("n{}".format, itertools.islice(numbers_in(shard, 2), 2))) for shard in (0, 1)]
            for first in [pod.name for pod in await live.pods()]:
                await live.delete(first)
            for queue, name in ((mine, "a"), (mine, "b"), (theirs, "c"), (theirs, "d")):
                await live.gang(name, 1, gpu=8, group={"queue": queue})
            for name in "abcd":
                await live.until(bound(name, 1), f"{name} runs")
            owner = await play.holder(1)
            assert owner is not None
            os.kill(owner.pid, signal.SIGSTOP)
            await live.gang("large", 4, gpu=8, group={"queue": mine})

            async def asked() -> bool:
                there = [item for item in (await live.api.list(SHARDS)).items if isinstance(item, Shard)]
                found = [want.nodes for item in there for want in wants_of(item) if want.elected is not None]
                return found == [(*sorted(itertools.chain(*nodes)),)]

            try:
                await eventually(play, asked, "its want names all nodes")
                assert dict.fromkeys(nodes[0], f"{NAMESPACE}/large") == await locks(live)
            finally:
                os.kill(owner.pid, signal.SIGCONT)

            async def all_locked() -> bool:
                return sorted(await locks(live)) == sorted(itertools.chain(*nodes))

            await eventually(play, all_locked, "the owner locks its nodes too")
            for name in "cd":
                await live.delete(f"{name}-0")
            await until(play, lambda m: {m.owner_of(node) for node in nodes[1]} == {0}, "empty nodes are lent")
            assert not any(pod.node for pod in await live.pods() if pod.group == "large")
            for name in "ab":
                await live.delete(f"{name}-0")
            await live.until(bound("large", 4), "it starts when all are empty")

            async def unlocked() -> bool:
                return not await locks(live)

            await eventually(play, unlocked, "no lock is left")

    asyncio.run(story())


def test_a_pinned_queue_moves_to_its_shard_with_its_jobs(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            queue = queue_in(1, 2)
            await play.live.api.patch(QUEUES.path(name=queue), {"metadata": {"annotations": {SHARD: "0"}}})
            await until(play, lambda found: found.shard_of(queue) == 0, "the queue was let go")
            assert await play.gang(1) < SOON
            await play.live.api.patch(QUEUES.path(name=queue), {"metadata": {"annotations": {SHARD: None}}})
            await until(play, lambda found: found.shard_of(queue) == 1, "the queue went back")
            assert await play.gang(1) < SOON

    asyncio.run(story())


FLIPS = 40


def test_a_tenant_who_moves_her_job_between_the_queues_of_two_shards_harms_only_herself(
    box: EmbeddedServer, tmp_path: Path
) -> None:
    """She may write the queue of her own jobs at any time. She names queues of both shards, and one that is missing."""

    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            live, queues = play.live, [queue_in(shard, 2) for shard in (0, 1)]
            path = volcano_podgroup.KIND.resource.path(NAMESPACE, "hers")
            await live.gang("hers", 4, gpu=8, group={"queue": queues[0]})
            for i in range(FLIPS):
                queue = [*queues, "no-such-queue", "\x1b[2J"][i % 4]
                await live.api.patch(path, {"spec": {"queue": queue}}, "merge")
                pods = await live.pods()
                assert sum(bool(pod.node) for pod in pods if pod.group == "hers") <= 4
            for shard in (0, 1):
                await live.gang(f"others-{shard}", 2, gpu=1, group={"queue": queues[shard]}, priorityClassName="")
            await live.api.patch(path, {"spec": {"queue": queues[1]}}, "merge")
            await live.until(bound("hers", 4), "her gang starts whole when she stops")
            for shard in (0, 1):
                await live.until(bound(f"others-{shard}", 2), "others start")
            pods = await live.pods()
            whole = [pod.node for pod in pods if pod.group == "hers"]
            others = {pod.node for pod in pods if pod.group.startswith("others-")}
            assert (4, set()) == (len(set(whole)), others & set(whole)), "no node has more than it can take"
            assert [0, 1] == sorted({(await shard_map(play)).shard_of(queue) for queue in queues})

    asyncio.run(story())


def test_the_nodes_of_a_rack_come_into_one_shard(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(box, tmp_path, 2, 0, "--rack-label", "rack") as play:
            slots, racks = even(2), {f"rack-{i}": [f"n{n}" for n in range(i, 12, 4)] for i in range(4)}
            homes = {name: slots[slot_of(rack)] for rack, names in racks.items() for name in names}
            assert {0, 1} == set(homes.values())
            assert homes != {name: slots[slot_of(name)] for name in homes}
            for number in range(12):
                await play.live.nodes(1, gpu=8, first=number, labels={"rack": f"rack-{number % 4}"})
            await play.ready()
            await until(play, lambda found: homes == {name: found.owner_of(name) for name in homes}, "racks are whole")

    asyncio.run(story())


def test_the_number_of_shards_changes_up_and_down_to_one(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            said = await play.set_number(3)
            assert "shards: 2 to 3" in said
            play.start()
            await until(play, lambda found: {0, 1, 2} == set(found.slots), "the third has slots")
            owners = await shard_map(play)
            queues = [next(f"q{i}" for i in range(999) if owners.shard_of(f"q{i}") == shard) for shard in range(3)]
            for queue in queues:
                await play.live.queue(queue)
                await play.live.gang(f"in-{queue}", 2, gpu=1, group={"queue": queue})
                await play.live.until(bound(f"in-{queue}", 2), "each decides for its queues")
            await play.set_number(1)
            await until(play, lambda found: found.members() == [0], "all went to the first")
            for queue in queues:
                await play.live.gang(f"one-{queue}", 2, gpu=1, group={"queue": queue})
                await play.live.until(bound(f"one-{queue}", 2), "the first decides for all")

            async def cleared() -> bool:
                figures = (await read_shards(play.live.api)).statuses
                return [figures[shard].holder for shard in (1, 2)] == ["", ""]

            await eventually(play, cleared, "ended shards have no holder")

    asyncio.run(story())


def test_a_map_that_somebody_deletes_comes_back(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            before = await shard_map(play)
            await play.live.api.delete(SHARD_MAPS.path(name="maar"))

            async def restored() -> bool:
                return await read_map(play.live.api) is not None

            await eventually(play, restored, "the map is there again")
            after = await shard_map(play)
            assert (before.slots, before.epochs) == (after.slots, after.epochs)
            assert await play.gang(0) < SOON
            assert await play.gang(1) < SOON

    asyncio.run(story())


def test_a_lease_that_somebody_deletes_goes_on_with_the_epoch_of_the_map(box: EmbeddedServer, tmp_path: Path) -> None:
    """Nobody knows what the dead holder had announced, so its successor fences everything."""

    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            gone, left = [await play.holder(shard) for shard in (1, 0)]
            assert gone is not None
            assert left is not None
            gone.end()
            await play.live.api.delete(LEASES.path(NAMESPACE, "maar-shard-1"))
            assert await play.gang(1) < SOON
            lease = await play.live.get(LEASES.path(NAMESPACE, "maar-shard-1"))
            assert (2, "2") == ((await shard_map(play)).epochs[1], lease["metadata"]["annotations"][EPOCH])
            assert left.says("objects that earlier leaders announced"), "all pods that run"
            assert left.lives

    asyncio.run(story())


def test_a_maar_without_the_option_takes_over_from_a_frozen_shard(box: EmbeddedServer, tmp_path: Path) -> None:
    """Where there are shards, it is one of them. The frozen process ends when it wakes up."""

    async def story() -> None:
        async with shards(box, tmp_path, 2) as play:
            kubeconfig = str(tmp_path / "kubeconfig")
            command = [sys.executable, "-m", "maar.cli.main", "run", "--kubeconfig", kubeconfig, "--http-port", "0"]
            command += ["--lease-namespace", "default", "--lease-duration", "3", "--history", "none"]
            log = tmp_path / "plain.log"
            with log.open("w") as out:
                plain = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
            try:
                frozen = await play.holder(0)
                assert frozen is not None
                os.kill(frozen.pid, signal.SIGSTOP)

                async def holds() -> bool:
                    return "holds shard" in log.read_text()

                await eventually(play, holds, "it takes the shard after the lease time")
                assert await play.gang(0) < SOON
                assert await play.gang(1) < SOON
                os.kill(frozen.pid, signal.SIGCONT)

                async def ended() -> bool:
                    return not frozen.lives

                await eventually(play, ended, "it has lost its shard")
                assert frozen.says("is lost")
            finally:
                plain.terminate()
                plain.wait(20)

    asyncio.run(story())


def test_a_second_maar_for_other_pods_may_leave_the_shards_alone(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        kubeconfig = box.kubeconfig(tmp_path / "kubeconfig")
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            before = await create_map(live.api, ShardMap.new(2))
            names = ("--scheduler-name", "second", "--without", "shards")
            child = Child(kubeconfig, tmp_path / "maar.log", "--history", "none", *names)
            try:
                await live.pod("other", gpu=8, schedulerName="second")
                await live.until(lambda pods: [True] == [bool(pod.node) for pod in pods])
                leases = {item["metadata"]["name"] for item in (await live.get(LEASES.path(NAMESPACE)))["items"]}
                assert {"maar-second"} == leases
                assert before == await read_map(live.api)
            finally:
                child.end()

    asyncio.run(story())


def test_one_maar_makes_no_objects_of_shards(box: EmbeddedServer, tmp_path: Path) -> None:
    async def story() -> None:
        kubeconfig = box.kubeconfig(tmp_path / "kubeconfig")
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(2, gpu=8)
            child = Child(kubeconfig, tmp_path / "maar.log", "--history", "none")
            try:
                await live.gang("runs", 2, gpu=8)
                await live.until(bound("runs", 2))
                leases = {item["metadata"]["name"] for item in (await live.get(LEASES.path(NAMESPACE)))["items"]}
                made = [(await live.get(kind.path()))["items"] for kind in (SHARD_MAPS, SHARDS)]
                assert ({"maar"}, [[], []]) == (leases, made)
            finally:
                child.end()

    asyncio.run(story())
