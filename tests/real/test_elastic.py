"""Elastic jobs on a real API server, with the real training operator and kwok's nodes, grow and shrink as planned.

A witness records all writes to jobs, pods and nodes, and judges them in the order of resource versions. After every
event the sizes are what the bare algorithm gives. tests/controller/test_elastic_live.py has the same scenes, one by one
and on the embedded server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.elastic_story import CONFIG, playing
from tests.support.live import OUR_CRDS, bound, connected
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available
from tests.support.real.training_operator import start_training_operator
from tests.support.scheduler import Child


@pytest.fixture
def operated(real_parts: None, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster with kwok's nodes and the training operator, which creates PodGroups if the test asks for it."""
    if not (found := available("training-operator")):
        pytest.skip(found.why_not)
    with RealCluster() as cluster:
        cluster.start_kwok()
        cluster.start_controller_manager(("garbage-collector-controller",))
        start_training_operator(cluster, request.param)
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("operated", ["", "volcano"], indirect=True, ids=["by owner", "by PodGroup"])
def test_jobs_breathe(operated: RealCluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    scheduler = "volcano" if request.node.callspec.params["operated"] else "maar"
    config = tmp_path / "maar.yaml"
    config.write_text(CONFIG)
    options = ["--config", str(config), "--no-leader-elect", "--scheduler-name", scheduler, "--history", "none"]
    logs = (tmp_path / f"maar-{number}.log" for number in range(10))
    child = Child(operated.kubeconfig, next(logs), *options)

    async def story() -> None:
        nonlocal child
        async with connected(operated.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            async with playing(live, scheduler) as play:
                await play.add_nodes(2)
                # Jobs arrive.
                await play.pytorch("a", 2, 12)
                await play.settles("one job takes what it can use")
                await play.mpi("b", 2, 8)
                await play.settles("another arrives")
                await play.pytorch("c", 4, 6, restart="Never")
                await play.pytorch("d", 3, 16)
                await play.settles("two more")
                # The scheduler is killed, and another one starts: nothing changes.
                before = dict(play.witness.sizes())
                child.end()
                child = Child(operated.kubeconfig, next(logs), *options)
                # Like `c`, `e` must not restart: the operator fails it if its size changes before all workers run.
                await play.pytorch("e", 5, 7, restart="Never")
                assert before == {name: size for name, size in play.witness.sizes().items() if name != "e"}
                await play.settles("a job that waits, after a restart")
                # A priority changes the order of jobs.
                await play.prefer("e", 5)
                await play.settles("the waiting job gets a high priority")
                # Nodes come and go.
                await play.add_nodes(1)
                await play.settles("one more node")
                await play.remove_node()
                await play.settles("one node less")
                # A failure that the operator repairs does not end a job. A failure that it does not repair does.
                await play.stumble("a")
                await play.settles("a worker failed and was replaced")
                await play.finish("e", "Failed")
                await play.settles("a job failed: its capacity is free")
                # A rigid gang takes capacity from elastic jobs.
                await play.gang("rigid", 2, 2, priority=5)
                await live.until(bound("rigid", 2), "the rigid gang runs")
                await play.settles("elastic jobs use the rest")
                assert [] == play.witness.evicted()
                # One job is deleted, one ends.
                await play.delete("d")
                await play.settles("one job was deleted")
                await play.finish("a")
                await play.settles("one job has ended")

    try:
        asyncio.run(story())
    finally:
        child.end()
        print(child.log.read_text()[-4000:])


KILLS = 8
"""In the middle of resizes."""


@pytest.mark.slow
@pytest.mark.parametrize("operated", [""], indirect=True, ids=["by owner"])
def test_kills_in_the_middle_of_resizes(operated: RealCluster, tmp_path: Path) -> None:
    """kill -9 after the first, second or third write of a resize of jobs that run: no size is lost, or out of bounds.

    The witness judges each write: sizes within their bounds, shrinks before growths, and no worker evicted.
    """
    config = tmp_path / "maar.yaml"
    config.write_text(CONFIG)
    options = ["--config", str(config), "--no-leader-elect", "--history", "none"]
    logs = (tmp_path / f"maar-{number}.log" for number in range(KILLS + 1))
    children = [Child(operated.kubeconfig, next(logs), *options)]
    killed: list[int] = []

    async def story() -> None:
        async with connected(operated.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            async with playing(live) as play:
                await play.add_nodes(2)
                for name, low, high in (("a", 2, 12), ("b", 2, 10), ("c", 1, 8)):
                    await play.pytorch(name, low, high)
                await play.settles("all run")
                for turn in range(KILLS):
                    before = play.witness.resizes()
                    if turn % 2:
                        await play.remove_node()
                    else:
                        await play.add_nodes(1)
                    seen = before + 1 + turn % 3
                    expected = play.expected()

                    def resized(seen: int = seen, expected: dict[str, int] = expected) -> bool:
                        return play.witness.resizes() >= seen or play.witness.sizes() == expected

                    await live.eventually(resized, "a resize has begun")
                    children[-1].end()
                    killed.append(play.witness.resizes() - before)
                    children.append(Child(operated.kubeconfig, next(logs), *options))
                    await play.settles(f"after kill {turn + 1}")
                assert {"a", "b", "c"} == set(play.witness.sizes()), "no job is lost"
                assert [] == play.witness.evicted()

    try:
        asyncio.run(story())
    finally:
        for child in children:
            child.end()
        print(children[-1].log.read_text()[-4000:])
    assert all(killed), "each kill came after a write of its resize"
    assert not any(child.says("Traceback") for child in children)
