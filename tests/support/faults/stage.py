"""A stage for faults: a real cluster behind a proxy, replicas of Maar, users with jobs, and the witness of it all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.support.faults.jobs import Hopeless
from tests.support.faults.replicas import Replica, Replicas
from tests.support.faults.users import Users
from tests.support.faults.witness import Watching, Witness
from tests.support.faults.writes import STORED_AS_JSON, Etcd, ended
from tests.support.live import Live, connected
from tests.support.patience import PATIENCE, until
from tests.support.proxy import Proxy
from tests.support.real.cluster import RealCluster
from tests.support.real.training_operator import start_training_operator

CONFIG = """
actions: "enqueue, elect, allocate, resize, preempt, reclaim, backfill, reserve"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.eviction: whole}}
  - {name: conformance}
  - {name: pdb}
  - {name: reservation, arguments: {reservation.lock-interval: 1s, reservation.timeout: 20s}}
- plugins:
  - {name: predicates}
  - {name: capacity, enableHierarchy: true}
  - {name: nodeorder, arguments: {leastrequested.weight: 0}}
  - {name: binpack, arguments: {binpack.weight: 10}}
pools:
- {name: default, algorithm: elastic-fifo, rate-limit: 1s, minimum-time: 1s, hysteresis: 0, restart: 0s, hold: 20s}
"""
"""All actions, with short times, so that everything happens in a short test."""
CONTROLLERS = ("garbage-collector-controller", "job-controller")
NODES = 6


def witnessed_cluster() -> RealCluster:
    """A cluster, not started yet, whose etcd the witness can read."""
    return RealCluster(flags=[STORED_AS_JSON])


def furnish(cluster: RealCluster) -> None:
    """Start kubelets, controllers and the training operator."""
    cluster.start_kwok()
    cluster.start_controller_manager(CONTROLLERS)
    start_training_operator(cluster)


class Scene:
    """A cluster with users, replicas and a witness."""

    def __init__(
        self, cluster: RealCluster, etcd: Etcd, live: Live, watching: Watching, dice: random.Random, users: Users
    ) -> None:
        self.cluster = cluster
        self.etcd = etcd
        self.live = live
        self.watching = watching
        self.dice = dice
        self.users = users
        self.replicas: Replicas
        self.patience = PATIENCE
        self.works: list[asyncio.Task[None]] = []
        """What goes on all the time."""

    @property
    def witness(self) -> Witness:
        return self.watching.witness

    async def until(self, holds: Callable[[], bool], what: str, patience: float = 0.0) -> None:
        """Wait until a condition is true."""

        def check() -> bool:
            self.check_works()
            return holds()

        try:
            await until(check, what, patience or self.patience)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {self.story()}") from None

    def check_works(self) -> None:
        """Raise what has ended the users, the replicas or the witness."""
        for work in self.works:
            if work.done():
                work.result()

    async def progress(self, binds: int) -> None:
        """Wait until some more pods are bound."""
        before = self.witness.counts["binds"]
        await self.until(lambda: self.witness.counts["binds"] >= before + binds, f"{binds} more binds")

    def story(self) -> str:
        """What the cluster looks like, for failure messages."""
        jobs = {name: len(self.users.pods(name)) for name in self.users.jobs}
        logs = [f"{r.name}: {r.log.read_text(errors='replace')[-1500:]}" for r in self.replicas.running]
        waiting = [self.users.why(job) for job in self.users.jobs.values()]
        return "\n".join([f"jobs {jobs}", *waiting, f"left {self.witness.left_over()}", *logs])

    def check(self) -> None:
        """Fail if anything went wrong."""
        self.witness.check()
        assert [] == self.replicas.crashes


class Stage(Scene):
    """Everything that a fault can touch, with a proxy before the API server."""

    def __init__(
        self,
        cluster: RealCluster,
        etcd: Etcd,
        proxy: Proxy,
        live: Live,
        watching: Watching,
        dice: random.Random,
        users: Users,
    ) -> None:
        super().__init__(cluster, etcd, live, watching, dice, users)
        self.proxy = proxy

    async def leader(self) -> Replica:
        """Wait until a replica leads that is not frozen."""
        found: list[Replica] = []

        def leads() -> bool:
            found[:] = [r for r in [self.replicas.leader()] if r is not None and not r.frozen]
            return bool(found)

        await self.until(leads, "a replica leads")
        return found[0]

    async def settle(self, patience: float = PATIENCE) -> None:
        """Stop all faults, let every job run and end, and look for what is left, also for a job that can never run."""
        await self.heal()
        await self.watching.quiet(patience)
        hopeless = Hopeless("hopeless", self.dice, self.users.nodes)
        await hopeless.create(self.users)
        await self.users.finish(patience)
        self.check_works()
        await self.watching.nothing_left(patience)
        await hopeless.delete(self.users)
        await self.watching.nothing_left(patience)

    async def heal(self) -> None:
        self.proxy.heal()
        for replica in self.replicas.running:
            replica.go_on()
        await self.users.return_nodes()


@asynccontextmanager
async def staged(
    cluster: RealCluster,
    folder: Path,
    seed: int,
    *,
    options: Sequence[str] = (),
    replicas: int = 2,
    nodes: int = NODES,
    kinds: tuple[str, ...] = ("gang", "wide", "single"),
    config: str = CONFIG,
) -> AsyncIterator[Stage]:
    """A stage on a furnished cluster. Users are at work while it is open."""
    dice = random.Random(seed)
    file = folder / "maar.yaml"
    file.write_text(config)
    async with AsyncExitStack() as parts:
        proxy = await parts.enter_async_context(Proxy(cluster.server, cluster.ca, seed=seed))
        live = await parts.enter_async_context(connected(cluster.kubeconfig))
        etcd = await parts.enter_async_context(Etcd(cluster.etcd))
        watching = await parts.enter_async_context(Watching(etcd))
        watching.witness.evictions = proxy.evictions
        users = Users(live, watching.witness, random.Random(seed), nodes, kinds)
        stage = Stage(cluster, etcd, proxy, live, watching, dice, users)
        await users.begin()
        kubeconfig = proxy.kubeconfig(folder / "kubeconfig", cluster.token)
        common = ["--kubeconfig", str(kubeconfig), "--config", str(file), *(options or ("--history", "none"))]
        stage.replicas = Replicas(cluster, common, watching.witness, dice)
        parts.push_async_callback(stage.replicas.stop)
        for _ in range(replicas):
            stage.replicas.start()
        stage.works = [asyncio.create_task(work) for work in (stage.replicas.keep(), users.work())]
        for work in stage.works:
            parts.push_async_callback(ended, work)
        yield stage
