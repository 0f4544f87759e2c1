"""kube-scheduler and Maar on the same nodes: each sees what the other binds, and over-commits end with the race.

Two schedulers that decide at the same moment may choose the same room: the API server accepts both (docs/running.md).
Whatever is bound before a scheduler decides, it counts.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.live import Live, Seen, connected
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available
from tests.support.scheduler import Child

CPUS, NODES = 8, 4
EACH = 12
"""Pods of each scheduler in the race, of one CPU: together three quarters of the cluster."""


@pytest.fixture
def beside(new_cluster: Callable[..., RealCluster], tmp_path: Path) -> Iterator[RealCluster]:
    if not (found := available("node")):
        pytest.skip(found.why_not)
    cluster = new_cluster()
    cluster.start_kwok()
    cluster.start_scheduler()
    maar = Child(cluster.kubeconfig, tmp_path / "maar.log", "--no-leader-elect", "--history", "none")
    yield cluster
    maar.end()
    text = maar.log.read_text()
    print(text[-3000:])
    assert "Traceback" not in text


async def create(live: Live, name: str, count: int, scheduler: str, cpu: str = "1") -> None:
    for i in range(count):
        await live.pod(f"{name}-{i}", cpu=cpu, schedulerName=scheduler)


def of(pods: list[Seen], name: str) -> list[Seen]:
    return [pod for pod in pods if pod.name.startswith(f"{name}-")]


def used(pods: list[Seen]) -> Counter[str]:
    return Counter(pod.node for pod in pods if pod.node)


def test_what_kube_scheduler_has_bound_is_counted_and_the_other_way_round(beside: RealCluster) -> None:
    async def story() -> None:
        async with connected(beside.kubeconfig) as live:
            await live.nodes(NODES, cpu=CPUS)
            for first, second in (("default-scheduler", "maar"), ("maar", "default-scheduler")):
                one, other = f"a-{first[:4]}", f"b-{first[:4]}"
                room = NODES * CPUS
                await create(live, one, room - 4, first)
                await live.until(lambda pods, n=one: all(p.node for p in of(pods, n)), f"{one} is bound")  # type: ignore[misc]
                await create(live, other, 8, second)
                await live.until(
                    lambda pods, n=other: (
                        sum(bool(p.node) for p in of(pods, n)) == 4  # type: ignore[misc]
                        and sum(bool(p.message) for p in of(pods, n)) >= 4
                    ),
                    f"4 of {other} fit, and the others wait",
                )
                assert {CPUS} == set(used(await live.pods()).values()), "each node is exactly full"
                for pod in await live.pods():
                    await live.delete(pod.name)
                await live.until(lambda pods: not pods, "all are gone")

    asyncio.run(story())


def test_a_race_of_both_ends_and_what_follows_fits(beside: RealCluster) -> None:
    async def story() -> None:
        async with connected(beside.kubeconfig) as live:
            await live.nodes(NODES, cpu=CPUS)
            for turn in range(3):
                await asyncio.gather(
                    create(live, f"k{turn}", EACH, "default-scheduler"), create(live, f"m{turn}", EACH, "maar")
                )
                pods = await live.until(lambda pods: all(p.node for p in pods), "there is room for all of them")
                over = {name: count for name, count in used(pods).items() if count > CPUS}
                print(f"turn {turn}: over-committed after the race: {over}")
                # No race any more: one decides after the other is bound, and no node that is full gets another pod.
                before = used(pods)
                free = sum(max(CPUS - before[f"n{i}"], 0) for i in range(NODES))
                await create(live, f"late{turn}", free + 2, "maar")
                pods = await live.until(
                    lambda pods, n=f"late{turn}", f=free: (
                        sum(bool(p.node) for p in of(pods, n)) == f  # type: ignore[misc]
                        and sum(bool(p.message) for p in of(pods, n)) == 2
                    ),
                    "what fits is bound, and the rest waits",
                )
                assert all(used(pods)[name] == max(CPUS, before[name]) for name in used(pods))
                for pod in pods:
                    await live.delete(pod.name)
                await live.until(lambda pods: not pods, "all are gone")

    asyncio.run(story())
