"""Processes of `maar run --shards N` on a real API server, for tests and benchmarks: who holds what, and take-overs."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from tests.support.live import NAMESPACE, Live
from tests.support.patience import PATIENCE, until
from tests.support.scheduler import Child

from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import LEASES, PODS, SHARD_MAPS
from maar.shards.slots import balanced, even, slot_of

LEASE_S = 3
INTENTS = "maar.dev/intents"
EVERY_S = 0.5
"""How often the other shards get work during a take-over."""


def numbers_in(shard: int, shards: int, prefix: str = "n") -> Iterator[int]:
    """Numbers for names: with 7, the name `n7` belongs to this shard. `shards`: how many a new cluster has."""
    slots = even(shards)
    return (i for i in itertools.count() if slots[slot_of(f"{prefix}{i}")] == shard)


def queue_in(shard: int, shards: int) -> str:
    """A queue name that belongs to this shard. `shards`: how many a new cluster has."""
    return f"team-{next(numbers_in(shard, shards, 'team-'))}"


def lease_name(shard: int) -> str:
    return f"maar-shard-{shard}" if shard else "maar"


class TakeOver(msgspec.Struct, frozen=True):
    """What happened after the holder of a shard was killed, in seconds from the kill."""

    announced: int
    lease_s: float
    """Another process had the Lease."""
    bind_s: float
    """A gang that was created after the kill was bound."""
    others_s: float
    """How long gangs of other shards waited meanwhile, at most; 0 if there are no others."""


class LiveShards:
    """Some processes that divide a cluster."""

    def __init__(
        self, live: Live, kubeconfig: Path, folder: Path, shards: int, *options: str, lease: int = LEASE_S
    ) -> None:
        self.live, self.shards = live, shards
        self.children: list[Child] = []
        self._kubeconfig, self._folder = kubeconfig, folder
        self._options = ("--shards", str(shards), "--lease-duration", str(lease), "--history", "none", *options)
        self._gangs = itertools.count()

    def start(self, *more: str) -> Child:
        log = self._folder / f"maar-{len(self.children)}.log"
        self.children.append(Child(self._kubeconfig, log, *self._options, *more))
        return self.children[-1]

    def end(self) -> None:
        for child in self.children:
            child.end()

    async def identity(self, shard: int) -> str:
        """The identity in the Lease of a shard; empty if nobody holds it."""
        try:
            lease = await self.live.get(LEASES.path(NAMESPACE, lease_name(shard)))
        except NotFound:
            return ""
        return str(lease["spec"].get("holderIdentity") or "")

    async def holder(self, shard: int) -> Child | None:
        """The living process that holds a shard."""
        found = await self.identity(shard)
        return next((child for child in self.children if child.lives and found.endswith(f"_{child.pid}")), None)

    async def holders(self) -> list[Child | None]:
        return [await self.holder(shard) for shard in range(self.shards)]

    async def until(self, holds: Callable[[list[Child | None]], bool], what: str) -> list[Child | None]:
        """Wait until a condition on the holders is true."""
        found: list[Child | None] = []

        async def check() -> bool:
            found[:] = await self.holders()
            return holds(found)

        try:
            await until(check, what)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {[child and child.pid for child in found]}: {self.logs()}") from None
        return found

    async def ready(self) -> list[Child | None]:
        """Wait until every shard has a holder and its slots, and decides: a gang of its own starts."""
        found = await self.divided()
        await self.live.eventually(self._balanced, "every shard has its slots")
        for shard in range(self.shards):
            await self.live.queue(queue_in(shard, self.shards), reclaimable=True)
        for shard in range(self.shards):
            await self.gang(shard)
        return found

    async def divided(self) -> list[Child | None]:
        """Wait until all shards are held, by as many processes as possible.

        A process that starts late finds that another one has taken two shards, and asks it for one of them.
        """
        living = sum(child.lives for child in self.children)
        most = min(self.shards, living)
        return await self.until(
            lambda found: all(found) and len({id(child) for child in found}) == most,
            f"{self.shards} shards are held by {most} processes",
        )

    async def _balanced(self) -> bool:
        spec = (await self.live.get(SHARD_MAPS.path(name="maar")))["spec"]
        return balanced(tuple(spec["slots"]), spec["shards"]) == tuple(spec["slots"])

    async def gang(self, shard: int, size: int = 1, patience: float = PATIENCE, gpu: int = 0) -> float:
        """Create a gang in the queue of a shard; returns the seconds until all of it is bound."""
        name, begun = f"g{next(self._gangs)}", time.monotonic()
        queue = {"queue": queue_in(shard, self.shards)}
        await self.live.gang(name, size, group=queue, gpu=gpu, cpu="10m")
        try:
            await until(lambda: self._bound(name, size), f"{name} of shard {shard} is bound", patience)
        except TimeoutError as late:
            raise AssertionError(f"{late}: {self.logs()}") from None
        return time.monotonic() - begun

    async def _bound(self, name: str, size: int) -> bool:
        for i in range(size):
            if not (await self.live.get(PODS.path(NAMESPACE, f"{name}-{i}")))["spec"].get("nodeName"):
                return False
        return True

    async def waiting_pods(self, count: int) -> None:
        """Pods of a gang that is never complete, for intents."""
        await self.live.group("never", count + 1)
        metadata = {"annotations": {"scheduling.k8s.io/group-name": "never"}}
        await asyncio.gather(*(self.live.pod(f"never-{i}", cpu="10m", metadata=metadata) for i in range(count)))

    async def freeze(self, shard: int, announced: int) -> Child:
        """Stop the holder of a shard, which then has announced this number of writes."""
        old = await self.holder(shard)
        assert old is not None
        os.kill(old.pid, signal.SIGSTOP)
        names = [f"never-{i}" for i in range(announced)]
        intents = json.dumps({PODS.path(NAMESPACE): names}) if names else ""
        path = LEASES.path(NAMESPACE, lease_name(shard))
        await self.live.api.patch(path, {"metadata": {"annotations": {INTENTS: intents}}}, "merge")
        return old

    async def renew(self, shard: int) -> None:
        """Renew the Lease of a shard in place of its holder, until cancelled."""
        path = LEASES.path(NAMESPACE, lease_name(shard))
        while True:
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            await self.live.api.patch(path, {"spec": {"renewTime": now}}, "merge")
            await asyncio.sleep(EVERY_S)

    async def take_over(self, shard: int, announced: int) -> TakeOver:
        """Kill the holder of a shard, and look what happens. `announced`: how many writes it had announced.

        Another process must stand by. The holder is stopped first, so that the intents can be put on its Lease.
        """
        old = await self.freeze(shard, announced)
        gone = await self.identity(shard)
        old.end()
        killed = time.monotonic()
        finishing = asyncio.create_task(self.gang(shard))
        others = [other for other in range(self.shards) if other != shard and await self.holder(other) is not None]
        working = asyncio.create_task(self._work(others, finishing))

        async def is_taken() -> bool:
            return await self.identity(shard) != gone

        try:
            await until(is_taken, f"a process takes shard {shard}")
        except TimeoutError as late:
            raise AssertionError(f"{late}: {self.logs()}") from None
        lease_s = time.monotonic() - killed
        await finishing
        bind_s = time.monotonic() - killed
        return TakeOver(announced, round(lease_s, 2), round(bind_s, 2), round(await working, 2))

    async def _work(self, shards: list[int], until: asyncio.Task[float]) -> float:
        """Give work to other shards until a task is done; returns how long a gang waited at most."""
        longest = 0.0
        while shards and not until.done():
            longest = max(longest, *await asyncio.gather(*(self.gang(shard) for shard in shards)))
            await asyncio.wait([until], timeout=EVERY_S)
        return longest

    async def set_number(self, number: int) -> str:
        """Change the number of shards by `maar shards set`; returns what it prints."""
        command = [sys.executable, "-m", "maar.cli.main", "shards", "set", str(number)]
        command += ["--kubeconfig", str(self._kubeconfig)]
        asked = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        self.shards = number
        return asked.stdout

    def logs(self) -> str:
        """The ends of all logs, for failure messages."""
        found = []
        for child in self.children:
            with suppress(OSError):
                found.append(f"{child.pid} {'lives' if child.lives else 'ended'}: {child.log.read_text()[-1500:]}")
        return "\n".join(found)
