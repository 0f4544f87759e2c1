"""A large cluster that several processes of Maar divide into shards, and the faults that hit them.

Without shards (`shards=0`) one process leads and the others stand by: the same users, faults and witness.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from tests.support.faults.crowd import Crowd
from tests.support.faults.replicas import LEASE_S, Replica, Replicas
from tests.support.faults.stage import CONFIG, Scene
from tests.support.faults.witness import FINISH_S, Watching, Wrong
from tests.support.faults.writes import Etcd, ended
from tests.support.live import connected
from tests.support.real.cluster import RealCluster
from tests.support.real.training_operator import start_training_operator

from maar.cli.asking.reading import read
from maar.config.file import read_config
from maar.decide import decide
from maar.kube.client.errors import ApiError
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.registry import catalog

CONTROLLERS = ("garbage-collector-controller", "replicaset-controller")
TAKE_OVER_S = LEASE_S + 2.0 + FINISH_S
"""How long a gang may be in part after the last fault that hit its shard, or after its holder has changed. The lease
expires after 3 s. Its successor fences, lists and decides in 2 s on an idle machine. If take-overs last longer in this
run, a gang may be in part for as long as the longest of them (`Witness.allowed_part`)."""
STILL = 3
"""Looks in a row at which one Maar would change nothing."""
LOOK_EVERY_S = 1.0
SCHEDULER_NAME, HOME, NAMESPACES = "maar", "kube-system", ("default",)
SHARE = {"kill": 9, "freeze": 7, "restart": 4}
"""How often each fault is chosen."""
FIRST_S = 2.0


def furnish(cluster: RealCluster, elastic: bool) -> None:
    """Start kubelets and controllers, and the training operator for elastic jobs."""
    cluster.start_kwok()
    cluster.start_controller_manager(CONTROLLERS)
    if elastic:
        start_training_operator(cluster)


class ShardScene(Scene):
    """Everything that a fault can touch."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "maar.yaml"

    def held(self) -> bool:
        """Whether every shard has a holder that lives and is not frozen."""
        return not self._orphans()

    def _orphans(self) -> list[int]:
        """Shards whose holder is dead or frozen."""
        shards = self.witness.shards
        alive = {shard for r in self.replicas.running if r.lives and not r.frozen for shard in shards.of_process(r.pid)}
        return [shard for shard in shards.members() if shard not in alive]

    def hit(self, replica: Replica) -> None:
        """Tell the witness that a fault hits a process, and so its shards and those that nobody holds now."""
        shards = self.witness.shards
        shards.disturb(time.monotonic(), {*shards.of_process(replica.pid), *self._orphans()})

    async def plan(self) -> Plan:
        """What one Maar would do now on the whole cluster, with the same configuration."""
        reading = await read(self.live.api, NAMESPACES, frozenset({SCHEDULER_NAME}), HOME)
        now = time.time()
        cluster = reading.picture.cluster(reading.picture.take(now).around)
        config = read_config(self.config.read_text(), str(self.config), catalog()).config
        return decide(Snapshot(cluster), config, now)

    async def settle(self, patience: float) -> None:
        """After the faults: everything that fits runs, and then every job runs and ends."""
        for replica in self.replicas.running:
            replica.go_on()
        await self.until(self.held, "every shard has a holder", patience)
        self.users.resting = True
        await self.watching.quiet(patience)
        await self._nothing_to_do(patience)
        self.users.resting = False
        await self.users.finish(patience)
        self.check_works()
        await self.watching.quiet(patience)

    async def _nothing_to_do(self, patience: float) -> None:
        """Wait until one Maar would bind, evict and resize nothing. What it still would do after a while went wrong."""
        ends, still = time.monotonic() + patience, 0
        left: list[str] = []
        while still < STILL:
            try:
                left = undone(await self.plan())
            except ApiError as error:
                left = [str(error)]
            still = 0 if left else still + 1
            if time.monotonic() > ends:
                self.witness.found(Wrong.UNDONE, f"{len(left)} changes: {left[:10]}; {self.who()}")
                return
            self.check_works()
            await asyncio.sleep(LOOK_EVERY_S)

    def who(self) -> str:
        """The holders of all shards."""
        return f"holders {self.witness.shards.by_shard()}"


def undone(plan: Plan) -> list[str]:
    """What a plan changes: binds, evictions and sizes."""
    changes = (*plan.bind, *plan.evict, *plan.resize, *plan.suspend, *plan.resume)
    return [f"{type(change).__name__} {msgspec.to_builtins(change)}" for change in changes]


class ShardFaults:
    """Faults at random times: processes are killed, frozen and restarted, the API server too, and N changes."""

    def __init__(
        self, scene: ShardScene, seconds: float, faults: int, *, server_restarts: int, numbers: Iterable[int] = ()
    ) -> None:
        self.done: Counter[str] = Counter()
        self._scene, self._dice = scene, scene.dice
        self._restarting = asyncio.Lock()
        self._seconds = seconds
        kinds = scene.dice.choices(list(SHARE), list(SHARE.values()), k=faults)
        whole: list[tuple[float, Callable[[], Awaitable[None]]]] = []
        whole += [(scene.dice.uniform(FIRST_S, seconds), lambda k=kind: self._process(k)) for kind in kinds]  # type: ignore[misc]
        wanted = list(numbers)
        whole += [(seconds * (i + 1) / (server_restarts + 1), self._server) for i in range(server_restarts)]
        for i, number in enumerate(wanted):
            whole.append((seconds * (i + 0.7) / (len(wanted) + 0.4), lambda n=number: self._number(n)))  # type: ignore[misc]
        self._whole = sorted(whole, key=lambda pair: pair[0])

    async def run(self) -> None:
        """Cause all of them."""
        begun = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for at, fault in self._whole:
                await asyncio.sleep(max(begun + at - time.monotonic(), 0.0))
                self._scene.check_works()
                group.create_task(_awaited(fault))
            await asyncio.sleep(max(begun + self._seconds - time.monotonic(), 0.0))

    async def _process(self, kind: str) -> None:
        replicas = self._scene.replicas
        replica = self._pick()
        self._scene.hit(replica)
        self.done[kind] += 1
        if kind == "freeze":
            await replicas.freeze(replica, LEASE_S + self._dice.uniform(0.5, 3.0))
        else:
            await replicas.kill(replica, signal.SIGKILL if kind == "kill" else signal.SIGTERM)

    def _pick(self) -> Replica:
        """A process that holds a shard twice as often as one that stands by."""
        running, shards = self._scene.replicas.running, self._scene.witness.shards
        among = [r for r in running if r.lives and not r.frozen] or running
        return self._dice.choice([*among, *(r for r in among if shards.of_process(r.pid))])

    async def _server(self) -> None:
        shards = self._scene.witness.shards
        async with self._restarting:  # a busy machine takes long
            working = asyncio.create_task(asyncio.to_thread(self._scene.cluster.restart_api_server))
            while not working.done():
                shards.disturb(time.monotonic())
                await asyncio.sleep(0.1)
            await working
            shards.disturb(time.monotonic())
            self.done["server"] += 1

    async def _number(self, number: int) -> None:
        """Run `maar shards set`, again if the API server does not answer."""
        command = [sys.executable, "-m", "maar.cli.main", "shards", "set", str(number)]
        command += ["--kubeconfig", str(self._scene.cluster.kubeconfig)]
        while True:
            asked = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
            if asked.returncode == 0:
                break
            print(f"maar shards set {number}: {asked.stdout}{asked.stderr}", flush=True)
            await asyncio.sleep(1.0)
        self.done["number"] += 1


async def _awaited(fault: Callable[[], Awaitable[None]]) -> None:
    await fault()


@asynccontextmanager
async def sharded(
    cluster: RealCluster,
    folder: Path,
    seed: int,
    *,
    shards: int,
    replicas: int,
    nodes: int,
    elastic: bool = True,
    longest_part: float = TAKE_OVER_S,
) -> AsyncIterator[ShardScene]:
    """A scene on a furnished cluster. Users are at work while it is open. `shards` 0: one leader."""
    dice = random.Random(seed)
    async with AsyncExitStack() as parts:
        live = await parts.enter_async_context(connected(cluster.kubeconfig))
        etcd = await parts.enter_async_context(Etcd(cluster.etcd))
        watching = await parts.enter_async_context(Watching(etcd, longest_part))
        users = Crowd(live, watching.witness, random.Random(seed), nodes, elastic)
        scene = ShardScene(cluster, etcd, live, watching, dice, users)
        scene.folder = folder
        scene.config.write_text(CONFIG)
        await users.begin()
        options = ["--kubeconfig", str(cluster.kubeconfig), "--config", str(scene.config), "--history", "none"]
        options += ["--shards", str(shards)] if shards else []
        scene.replicas = Replicas(cluster, options, watching.witness, dice)
        parts.push_async_callback(scene.replicas.stop)
        for _ in range(replicas):
            scene.replicas.start()
        scene.works = [asyncio.create_task(work) for work in (scene.replicas.keep(), users.work())]
        for work in scene.works:
            parts.push_async_callback(ended, work)
        yield scene
