"""When the loop decides at once and when it gathers events: on bytes over a socket, in time that only waits pass."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support import quick_time
from tests.support.live import OUR_CRDS, Live, connected, scheduling
from tests.support.patience import until

from maar.controller.loop import IN_A_THREAD
from maar.controller.scheduler import Scheduler
from maar.controller.settings.settings import Settings
from maar.controller.snapshots.cycle import Cycle
from maar.embedded.objects.kinds import PODS
from maar.embedded.server import EmbeddedServer

SETTINGS = Settings()
FEW = IN_A_THREAD - 1
"""Jobs that are decided in no thread: while a thread works, time passes."""
LONG = 2.5
"""Seconds in which nothing happens; no cycle because of time alone comes at their end."""


class Watched:
    """A scheduler on a quiet cluster, whose cycles take no time, and the times of its cycles since `begin`."""

    def __init__(self, server: EmbeddedServer, cluster: Live, scheduler: Scheduler) -> None:
        self._server = server
        self.cluster = cluster
        self._began = 0.0
        self.cycles: list[tuple[float, int]] = []
        """When each cycle decided, and how many pods it bound."""
        scheduler.loop.stopwatch = lambda: 0.0
        scheduler.loop.on_cycle.append(self._decided)

    def begin(self) -> None:
        self._began = quick_time.running().time()
        self.cycles.clear()

    def _decided(self, cycle: Cycle) -> None:
        self.cycles.append((round(quick_time.running().time() - self._began, 3), len(cycle.plan.bind)))

    async def written(self) -> None:
        """Wait until the server has a node for each pod."""
        await until(lambda: all(pod.obj["spec"].get("nodeName") for pod in self._server.api.objects(PODS)))

    async def bound(self, count: int) -> list[tuple[float, int]]:
        """The cycles until this many pods were bound since `begin`."""
        await until(lambda: sum(binds for _, binds in self.cycles) >= count, f"{count} pods are bound")
        return self.cycles


@asynccontextmanager
async def quiet(folder: Path) -> AsyncIterator[Watched]:
    """A cluster on which nothing has happened for a while."""
    server = EmbeddedServer(bookmark_seconds=15.0)
    server.faults.cut_watches_every = math.inf  # not even looked at: each look would take a moment of real time
    async with server, connected(server.kubeconfig(folder / "kubeconfig")) as cluster:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(4, gpu=8)
        async with scheduling(cluster, SETTINGS, clock=quick_time.wall) as scheduler:
            watched = Watched(server, cluster, scheduler)
            await cluster.eventually(lambda: scheduler.loop.cycles, "the first cycle")
            await asyncio.sleep(LONG)
            watched.begin()
            yield watched


def play(folder: Path, story: Callable[[Watched], Awaitable[None]]) -> None:
    async def run() -> None:
        async with quiet(folder) as watched:
            await story(watched)

    quick_time.run(run())


def test_an_event_on_a_quiet_cluster_is_decided_at_once(tmp_path: Path) -> None:
    async def story(watched: Watched) -> None:
        await watched.cluster.pod("first")
        assert [(0.0, 1)] == await watched.bound(1)
        await asyncio.sleep(LONG)
        watched.begin()
        await watched.cluster.pod("second")
        assert [(0.0, 1)] == await watched.bound(1)

    play(tmp_path, story)


def test_the_next_event_waits_only_a_moment_if_the_last_decision_is_written(tmp_path: Path) -> None:
    async def story(watched: Watched) -> None:
        for number in range(3):
            await watched.cluster.pod(f"p-{number}")
            await watched.written()
        assert [0.0, 0.01, 0.02] == pytest.approx([time for time, _ in watched.cycles], abs=0.002)

    play(tmp_path, story)


def test_pods_that_come_one_by_one_are_gathered_after_the_first(tmp_path: Path) -> None:
    async def story(watched: Watched) -> None:
        for number in range(FEW):
            await watched.cluster.pod(f"p-{number}")
            await asyncio.sleep(0.004)
        cycles = await watched.bound(FEW)
        assert (0.0, 1) == cycles[0]
        first, second = SETTINGS.quiet_interval, SETTINGS.min_interval
        assert [0.0, first, first + second, first + 2 * second] == pytest.approx(
            [time for time, _ in cycles], abs=0.002
        )

    play(tmp_path, story)


def test_pods_whose_room_is_given_back_together_are_decided_together(tmp_path: Path) -> None:
    async def story(watched: Watched) -> None:
        await watched.cluster.gang("old", 4, gpu=8)
        await watched.bound(4)
        await watched.cluster.gang("new", 4, gpu=8)
        await asyncio.sleep(LONG)
        watched.begin()
        for number in range(4):
            await watched.cluster.delete(f"old-{number}")
        assert [(SETTINGS.gather_room, 4)] == await watched.bound(4)

    play(tmp_path, story)
