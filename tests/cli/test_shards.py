"""`maar shards` and `maar shards set`: what they list, what they refuse, and that they overwrite nothing newer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.live import OUR_CRDS, Live, connected

from maar.cli.main import main
from maar.cli.shards import TRIES
from maar.embedded.server import EmbeddedServer
from maar.kube.client.errors import Conflict
from maar.kube.wire.api_resources import QUEUES, SHARD_MAPS, SHARDS
from maar.kube.wire.shards import ShardSpec, ShardStatus
from maar.kube.write.shards import create_map, read_map, write_map, write_shard
from maar.shards.map import ShardMap

NODES = 20


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """A cluster with our CRDs, nodes and two queues, and no ShardMap."""
    server = EmbeddedServer()
    server.start()
    path = server.kubeconfig(tmp_path / "kubeconfig")

    async def fill(cluster: Live) -> None:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(NODES)
        await cluster.queue("red")
        await cluster.queue("below", parent="red")

    on(path, fill)
    yield path
    server.stop()


def on(kubeconfig: Path, story: Callable[[Live], Awaitable[None]]) -> None:
    async def run() -> None:
        async with connected(kubeconfig) as cluster:
            await story(cluster)

    asyncio.run(run())


def maar(kubeconfig: Path, *arguments: str) -> Result:
    args = ["shards", "--kubeconfig", str(kubeconfig), *arguments]
    return CliRunner().invoke(main, args, catch_exceptions=False)


def ok(result: Result) -> str:
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def with_map(kubeconfig: Path, made: ShardMap) -> None:
    async def story(cluster: Live) -> None:
        await create_map(cluster.api, made)

    on(kubeconfig, story)


def map_of(kubeconfig: Path) -> ShardMap:
    found: list[ShardMap] = []

    async def story(cluster: Live) -> None:
        stored = await read_map(cluster.api)
        assert stored is not None
        found.append(stored.map)

    on(kubeconfig, story)
    return found[0]


def test_a_live_cluster_is_planned_as_one_of_its_shards(kubeconfig: Path) -> None:
    made = ShardMap.new(2).raised(0, 1, "maar-0").raised(1, 1, "maar-1")
    with_map(kubeconfig, made)

    async def story(cluster: Live) -> None:
        await cluster.pod("one")

    on(kubeconfig, story)
    mine = made.shard_of("default")
    plans = {}
    for shard in (0, 1):
        args = ["plan", "--live", "--shard", str(shard), "-o", "json", "--kubeconfig", str(kubeconfig)]
        result = CliRunner().invoke(main, args, catch_exceptions=False)
        assert 0 == result.exit_code, result.stderr
        plans[shard] = json.loads(result.stdout)["cycles"][0]
    assert [mine] == [made.owner_of(node) for node in plans[mine]["bind"].values()]
    assert ({}, [], {}) == tuple(plans[1 - mine][part] for part in ("bind", "wants", "lends"))


def test_shards_are_listed(kubeconfig: Path) -> None:
    made = ShardMap.new(2).raised(0, 3, "maar-0")
    with_map(kubeconfig, made)

    async def story(cluster: Live) -> None:
        await write_shard(
            cluster.api, 0, ShardSpec(), ShardStatus(holder="maar-0", epoch=3, lent=2, borrowed=1, waiting=5)
        )
        head = {"apiVersion": SHARDS.api_version, "kind": "Shard", "metadata": {"name": "strange"}}
        await cluster.create(SHARDS.path(), head)

    on(kubeconfig, story)
    nodes = [sum(made.owner_of(f"n{i}") == shard for i in range(NODES)) for shard in range(2)]
    queues = [sum(made.shard_of(q) == shard for q in ("root", "default", "red", "below")) for shard in range(2)]
    listed = maar(kubeconfig)
    assert "warning: Shard `strange`: expected a name such as `shard-0`\n" == listed.stderr
    expected = [
        ["SHARD", "HOLDER", "EPOCH", "NODES", "QUEUES"],
        ["0", "maar-0", "3", str(nodes[0]), str(queues[0])],
        ["1", "-", "0", str(nodes[1]), str(queues[1])],
        [],
        ["wanted:", "2", "shards"],
    ]
    assert expected == [line.split() for line in listed.stdout.splitlines()]
    wide = [line.split() for line in maar(kubeconfig, "-o", "wide").stdout.splitlines()]
    assert ["SLOTS", "LENT", "BORROWED", "WAITING"] == wide[0][5:]
    assert [["128", "2", "1", "5"], ["128", "-", "-", "-"]] == [row[5:] for row in wide[1:3]]
    found = json.loads(maar(kubeconfig, "-o", "json").stdout)
    assert (2, 0) == (found["shards"], found["slots_to_move"])
    assert {"shard": 1, "wanted": True, "holder": "", "epoch": 0, "nodes": nodes[1], "queues": queues[1],
            "slots": 128, "lent": None, "borrowed": None, "waiting": None} == found["items"][1]  # fmt: skip


def test_a_pin_that_cannot_be_followed_is_named(kubeconfig: Path) -> None:
    with_map(kubeconfig, ShardMap.new(2))

    async def story(cluster: Live) -> None:
        await cluster.api.patch(QUEUES.path(name="red"), {"metadata": {"annotations": {"maar.dev/shard": "7"}}})

    on(kubeconfig, story)
    listed = maar(kubeconfig)
    assert "warning: Queue `red`: `maar.dev/shard`: shard 7 does not exist: shards are 0 to 1\n" == listed.stderr
    assert 0 == listed.exit_code


def test_set_changes_the_number_and_says_what_moves(kubeconfig: Path) -> None:
    with_map(kubeconfig, ShardMap.new(3).raised(2, 1, "maar-2"))
    text = ok(maar(kubeconfig, "set", "4")).splitlines()
    assert ["shards: 3 to 4", "slots to move: 64 of 256"] == text[:2]
    assert ["  shard 0 to shard 3: 22", "  shard 1 to shard 3: 21", "  shard 2 to shard 3: 21"] == text[2:5]
    after = map_of(kubeconfig)
    assert (4, ShardMap.new(3).slots) == (after.shards, after.slots)
    assert "slots that have to move: 64 of 256\n" in ok(maar(kubeconfig))
    assert "shards: 4 already, nothing changes\n" == ok(maar(kubeconfig, "set", "4"))


def test_set_counts_the_nodes_and_queues_of_shards_that_end(kubeconfig: Path) -> None:
    made = ShardMap.new(2).raised(0, 1, "a").raised(1, 1, "b")
    lent = next(f"n{i}" for i in range(NODES) if made.owner_of(f"n{i}") == 0)
    with_map(kubeconfig, made.lent(lent, 1))
    nodes = 1 + sum(made.owner_of(f"n{i}") == 1 for i in range(NODES))
    queues = sum(made.shard_of(q) == 1 for q in ("root", "default", "red", "below"))
    text = ok(maar(kubeconfig, "set", "1")).splitlines()
    assert ["shards: 2 to 1", "slots to move: 128 of 256", "  shard 1 to shard 0: 128"] == text[:3]
    assert text[3].startswith(f"nodes to move: {nodes} of 20,")
    assert f"queues to move: {queues} of 4" == text[4]
    assert "no longer wanted, and still own something: 1\n" in ok(maar(kubeconfig))


@pytest.mark.parametrize("number", ["0", "65"])
def test_set_refuses_a_number_that_cannot_be(kubeconfig: Path, number: str) -> None:
    with_map(kubeconfig, ShardMap.new(3))
    refused = maar(kubeconfig, "set", number)
    assert (2, "", f"the number of shards must be 1 to 64: {number}\n") == (
        refused.exit_code,
        refused.stdout,
        refused.stderr,
    )
    assert ShardMap.new(3) == map_of(kubeconfig)


@pytest.mark.parametrize("arguments", [(), ("set", "2")])
def test_a_cluster_without_a_map_has_no_shards(kubeconfig: Path, arguments: tuple[str, ...]) -> None:
    refused = maar(kubeconfig, *arguments)
    assert (3, "") == (refused.exit_code, refused.stdout)
    assert "this cluster has no ShardMap: it has no shards\n" == refused.stderr


@pytest.mark.parametrize("arguments", [(), ("set", "2")])
def test_a_broken_map_is_named_and_not_written(kubeconfig: Path, arguments: tuple[str, ...]) -> None:
    with_map(kubeconfig, ShardMap.new(3))

    async def story(cluster: Live) -> None:
        await cluster.api.patch(SHARD_MAPS.path(name="maar"), {"spec": {"nodes": {"n1": 9}}})

    on(kubeconfig, story)
    refused = maar(kubeconfig, *arguments)
    assert (3, "ShardMap `maar`: spec.nodes[n1]: shard 9 is not in the ShardMap\n") == (
        refused.exit_code,
        refused.stderr,
    )


def test_set_keeps_what_holders_write_meanwhile(kubeconfig: Path) -> None:
    """A holder writes as often as it can, fewer times than `set` tries; nobody overwrites the other."""
    with_map(kubeconfig, ShardMap.new(2))
    last = TRIES - 2

    async def holder(cluster: Live) -> None:
        epoch = 0
        while epoch < last:
            stored = await read_map(cluster.api)
            assert stored is not None
            with contextlib.suppress(Conflict):
                await write_map(cluster.api, stored, stored.map.raised(0, epoch + 1, "maar-0"))
                epoch += 1

    async def both(cluster: Live) -> None:
        writing = asyncio.create_task(holder(cluster))
        done = await asyncio.to_thread(maar, kubeconfig, "set", "5")
        assert 0 == done.exit_code, done.stderr
        await writing

    on(kubeconfig, both)
    after = map_of(kubeconfig)
    assert (5, {0: last}) == (after.shards, after.epochs)
