"""Two `maar run` on a real API server: a standby takes over from the leader. Also: a configuration changes live."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.support.live import NAMESPACE, Live, Seen, bound, connected
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import LEASES

LONG_S = 300
"""The longest lease: if a standby waits for its end, no test waits for the standby."""


Start = Callable[..., Child]


@pytest.fixture
def start(real_cluster: RealCluster, tmp_path: Path) -> Iterator[Start]:
    """Starts schedulers, which end with the test."""
    children: list[Child] = []

    def begin(*options: str) -> Child:
        children.append(Child(real_cluster.kubeconfig, tmp_path / f"maar-{len(children)}.log", *options))
        return children[-1]

    yield begin
    for child in children:
        child.end()


def live(cluster: RealCluster, story: Callable[[Live], Awaitable[None]], nodes: int) -> None:
    async def run() -> None:
        async with connected(cluster.kubeconfig) as play:
            await play.nodes(nodes, gpu=8)
            await story(play)

    asyncio.run(run())


async def holder(play: Live) -> str:
    """The holder of the lease."""
    try:
        lease = await play.get(LEASES.path(NAMESPACE, "maar"))
    except NotFound:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


async def until_leads(play: Live, child: Child) -> None:
    async def leads() -> bool:
        return (await holder(play)).endswith(f"_{child.pid}")

    await play.eventually(leads, "the process leads")


async def pair(play: Live, start: Start, *options: str) -> tuple[Child, Child]:
    """A leader, and a standby that has listed everything and looked at the lease."""
    leader = start(*options)
    await until_leads(play, leader)
    standby = start(*options)
    await play.eventually(lambda: standby.says("standing by"), "the standby has listed everything")
    return leader, standby


def is_whole(pods: list[Seen], size: int) -> bool:
    return all(count == size for count in Counter(p.group for p in pods if p.node).values())


def test_a_standby_takes_over_in_the_middle_of_a_burst(real_cluster: RealCluster, start: Start) -> None:
    async def story(play: Live) -> None:
        leader, standby = await pair(play, start)
        burst = asyncio.gather(*(play.gang(f"g{i}", 4, gpu=2) for i in range(20)))
        await play.until(lambda ps: sum(bool(p.node) for p in ps) >= 8, "some pods are bound")
        leader.end(signal.SIGKILL)
        taken = asyncio.create_task(until_leads(play, standby))
        await burst
        await play.gang("late", 4, gpu=2)
        left = {p.uid: p.node for p in await play.pods() if p.node}
        await taken
        pods = await play.until(lambda ps: sum(bool(p.node) for p in ps) == 84, "all 84 pods have a node")
        assert is_whole(pods, 4)
        assert {4} == set(Counter(p.node for p in pods).values())
        assert left.items() <= {p.uid: p.node for p in pods}.items()

    live(real_cluster, story, nodes=21)


def test_a_leader_that_is_stopped_hands_over_at_once(real_cluster: RealCluster, start: Start) -> None:
    async def story(play: Live) -> None:
        leader, standby = await pair(play, start, "--lease-duration", str(LONG_S))
        await play.gang("before", 2, gpu=8)
        await play.until(bound("before", 2))
        assert not standby.says("leading as")
        assert 0 == await asyncio.to_thread(leader.end, signal.SIGTERM)
        await until_leads(play, standby)  # in less than the patience of tests, and so before the lease would end
        assert leader.says("stopped")
        await play.gang("after", 2, gpu=8)
        await play.until(bound("after", 2))
        assert (await holder(play)).endswith(f"_{standby.pid}")

    live(real_cluster, story, nodes=4)


def test_a_configuration_with_a_typo_is_refused_and_a_good_one_applied(
    real_cluster: RealCluster, start: Start, tmp_path: Path
) -> None:
    """Without the plugin `gang` a gang starts in part, which shows which configuration is active."""
    whole = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
    config = tmp_path / "maar.yaml"
    config.write_text(whole)

    async def story(play: Live) -> None:
        child = start("--config", str(config))
        await until_leads(play, child)
        await play.gang("huge", 3, gpu=8)
        await play.until(lambda ps: all(p.message for p in ps), "the pods of huge have reasons")

        config.write_text(whole.replace("predicates", "predicate"))
        await play.eventually(lambda: child.says("configuration refused"), "the typo is refused")
        assert child.says("maar.yaml")
        await play.gang("small", 1, gpu=1)
        pods = await play.until(bound("small", 1))
        assert not any(p.node for p in pods if p.group == "huge")

        config.write_text("actions: allocate\ntiers:\n- plugins: [{name: predicates}]\n")
        await play.eventually(lambda: child.says("configuration reloaded"), "the good one is read")
        await play.until(lambda ps: any(p.node for p in ps if p.group == "huge"), "the new configuration is active")

    live(real_cluster, story, nodes=2)
