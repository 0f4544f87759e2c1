"""Bursts of gangs on a real API server, behind a faulty proxy, while the server and the scheduler are killed.

The proxy cuts all watches every second and answers a fifth of all writes with 429 or 500 (`tests.support.proxy`). The
API server is killed twice. `tests.support.burst` says what must be true at the end.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.burst import PER_NODE, Burst, in_part, without_locks
from tests.support.faults.witness import Watching, Wrong, watching
from tests.support.live import Live, connected
from tests.support.patience import PATIENCE, until
from tests.support.proxy import Fate, Proxy
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.client.errors import ApiError

NODES = 40
KILLS = 30
BAD_SHARE = 0.2
CUT_EVERY_S = 1.0
GANG_EVERY_S = 0.5
MOST_KILLS = 10 * KILLS
LEASE_S = 300
"""A scheduler that loses its lease ends, and on a busy machine the server is away for longer than the usual lease."""


class Scene:
    """A cluster behind a faulty proxy, a burst, and a witness with a connection of its own."""

    def __init__(self, cluster: RealCluster, live: Live, proxy: Proxy, seen: Watching, folder: Path) -> None:
        self.cluster, self.live, self.proxy = cluster, live, proxy
        self.burst = Burst(live, NODES)
        self.witness = seen.witness
        self._seen = seen
        self._folder = folder
        self._kubeconfig = proxy.kubeconfig(folder / "kubeconfig", cluster.token)
        self._config = without_locks(folder)
        self._children: list[Child] = []

    def start(self) -> Child:
        """Start a scheduler without leader election, so that the next one need not wait for a lease."""
        log = self._folder / f"maar-{len(self._children)}.log"
        options = ["--config", str(self._config), "--history", str(self._folder / "history.db")]
        options += ["--no-leader-elect", "--lease-duration", str(LEASE_S)]
        self._children.append(Child(self._kubeconfig, log, *options))
        return self._children[-1]

    def end(self) -> None:
        for child in self._children:
            child.end()

    async def kill_the_server(self) -> None:
        """Kill the API server with SIGKILL and start it again."""
        await asyncio.to_thread(self.cluster.restart_api_server)

    async def until_settled(self) -> None:
        await self.burst.until_settled(PATIENCE)
        await self.live.until(lambda pods: all(p.phase == "Running" for p in pods if p.node), "all bound pods run")
        await self._seen.caught_up()

    def check(self) -> None:
        """Check that no pod was bound twice, no node held too much, and the requested faults happened."""
        self.witness.check(but=[Wrong.LOST])  # the users of a burst delete gangs
        assert PER_NODE == self.witness.most
        bound = self.proxy.bound
        assert {1} == {len(nodes) for nodes in bound.values()}
        # The witness may know more binds: a killed server may have bound a pod without sending the response.
        assert {uid: set(nodes) for uid, nodes in bound.items()} == {uid: self.witness.nodes[uid] for uid in bound}
        assert 0.1 < self.proxy.failed_share() < 0.3
        assert set(Fate) == self.proxy.fates.keys()
        assert self.proxy.cuts > 0
        assert [] == [child.log.name for child in self._children if child.says("Traceback")]


@asynccontextmanager
async def scene(cluster: RealCluster, folder: Path, seed: int) -> AsyncIterator[Scene]:
    bad = Proxy(cluster.server, cluster.ca, fail_share=BAD_SHARE, cut_every=CUT_EVERY_S, seed=seed)
    async with connected(cluster.kubeconfig) as live, watching(cluster) as seen, bad as proxy:
        made = Scene(cluster, live, proxy, seen, folder)
        await made.burst.begin()
        try:
            yield made
        finally:
            made.end()


class Killer:
    """Kills one scheduler after the other: during their start, their reads or their binds."""

    def __init__(self, of: Scene, dice: random.Random) -> None:
        self._scene = of
        self._dice = dice
        self.kills = 0
        self.halves = 0
        """Kills that left a gang bound in part."""

    @property
    def continues(self) -> bool:
        """Until there were enough kills, and one of them has left a gang in part."""
        return self.kills < KILLS or not self.halves

    async def run(self) -> None:
        """Kill all schedulers but the last one, which stays."""
        while self.continues:
            child = self._scene.start()
            await self._wait()
            assert -signal.SIGKILL == child.end(), "the scheduler ended by itself"
            self.kills += 1
            self.halves += await self._left_in_part()
            assert self.kills < MOST_KILLS, "no kill has left a gang in part"
        self._scene.start()

    async def _wait(self) -> None:
        proxy, dice = self._scene.proxy, self._dice
        requests, binds = proxy.requests, proxy.binds
        moment = dice.choice(("starts", "looks", "binds"))
        if moment == "starts":
            await asyncio.sleep(dice.uniform(0.1, 1.2))
        elif moment == "looks":
            await until(lambda: proxy.requests > requests)
            await asyncio.sleep(dice.uniform(0.0, 1.0))
        else:
            await until(lambda: proxy.binds > binds)
            await asyncio.sleep(dice.uniform(0.0, 0.3))

    async def _left_in_part(self) -> bool:
        try:
            return bool(in_part(await self._scene.live.pods()))
        except ApiError:
            return False


def test_a_burst_survives_30_kills_of_the_scheduler(real_cluster: RealCluster, tmp_path: Path) -> None:
    dice = random.Random(4)

    async def kill_the_server_twice(of: Scene, killer: Killer) -> None:
        for kills in (KILLS // 3, 2 * KILLS // 3):
            await until(lambda: killer.kills >= kills)  # noqa: B023
            await of.kill_the_server()

    async def story() -> None:
        async with scene(real_cluster, tmp_path, seed=4) as made:
            killer = Killer(made, dice)
            feeding = made.burst.feed(lambda: killer.continues, GANG_EVERY_S, dice)
            await asyncio.gather(killer.run(), feeding, kill_the_server_twice(made, killer))
            await made.until_settled()
            assert killer.kills >= KILLS
            made.check()

    real_cluster.start_kwok()
    asyncio.run(story())


def test_one_scheduler_lives_through_a_burst(real_cluster: RealCluster, tmp_path: Path) -> None:
    """A restart would repair a wrong cache. This scheduler is never restarted."""
    dice = random.Random(5)

    async def story() -> None:
        async with scene(real_cluster, tmp_path, seed=5) as made:
            child = made.start()
            killed = 0

            async def kill_the_server_twice() -> None:
                nonlocal killed
                for bound in (20, 60):
                    await until(lambda: len(made.proxy.bound) >= bound)  # noqa: B023
                    await made.kill_the_server()
                    killed += 1

            feeding = made.burst.feed(lambda: killed < 2, GANG_EVERY_S / 2, dice)
            await asyncio.gather(feeding, kill_the_server_twice())
            await made.until_settled()
            assert -signal.SIGKILL == child.end(), "the scheduler ended by itself"
            made.check()

    real_cluster.start_kwok()
    asyncio.run(story())
