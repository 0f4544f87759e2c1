"""Bursts of gangs that do not all fit, for tests that inject faults meanwhile.

At the end, whatever faults there were: every gang that fits runs, no gang runs in part, no node ever held too much, and
no pod was ever on two nodes. `Burst` reports when the cluster has settled. A witness (`tests.support.faults.witness`)
records what happens until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from importlib.resources import files
from pathlib import Path

from tests.support.live import NAMESPACE, Live, Seen
from tests.support.patience import until

from maar.kube.client.errors import AlreadyExists, ApiError, NotFound, ServerFault, TooManyRequests, Unreachable
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS

PER_NODE = 4
"""Pods that fit on a node: each needs a quarter of its 8 GPUs."""
TOO_MANY = 20
"""How many more pods than fit a fed burst ends with, at least. It is more than the largest gang has."""
NEARLY_FULL = 0.8
"""The share of the capacity from which on gangs of a fed burst end."""
MARKER = "one-more"
"""A pod that needs a whole node, which it most likely does not get."""
PAUSE_S = 0.05
"""Seconds before a refused write is tried again."""


class Burst:
    """Gangs of given sizes on equal nodes, created by a user who retries every write until it succeeds."""

    def __init__(self, cluster: Live, nodes: int) -> None:
        self.room = PER_NODE * nodes
        self.sizes: dict[str, int] = {}
        """The sizes of the existing gangs, by name."""
        self._made: set[str] = set()
        self._cluster = cluster
        self._nodes = nodes
        self._number = 0

    async def begin(self) -> None:
        """Create the nodes."""
        await self._cluster.nodes(self._nodes, gpu=2 * PER_NODE)

    async def create(self, sizes: Iterable[int]) -> None:
        """Create all gangs at once, and the pods of each gang one after the other."""
        await asyncio.gather(*(self._gang(size) for size in sizes))

    async def feed(self, continues: Callable[[], bool], every: float, dice: random.Random) -> None:
        """Create gangs one by one, and end gangs when the cluster is nearly full, while `continues` is true.

        Then end no more gangs, and create gangs until not all of them fit.
        """
        async with asyncio.TaskGroup() as group:
            while continues() or sum(self.sizes.values()) < self.room + TOO_MANY:
                group.create_task(self._gang(dice.randint(2, 5)))
                if continues():
                    await self._end_one(dice)
                await asyncio.sleep(every)

    async def _gang(self, size: int) -> None:
        name, cluster = f"g{self._number}", self._cluster
        self._number += 1
        self.sizes[name] = size
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
        await stubborn(lambda: cluster.group(name, size))
        for i in range(size):
            await stubborn(lambda i=i: cluster.pod(f"{name}-{i}", gpu=2, metadata=metadata))  # type: ignore[misc]
        self._made.add(name)

    async def _end_one(self, dice: random.Random) -> None:
        """End one whole gang if the cluster is nearly full: its owner deletes it."""
        try:
            running = in_use(await self._cluster.pods())
        except ApiError:
            return
        whole = sorted(g for g, count in running.items() if g in self._made and count == self.sizes[g])
        if not whole or running.total() < NEARLY_FULL * self.room:
            return
        name = dice.choice(whole)
        size = self.sizes.pop(name)
        for path in [PODS.path(NAMESPACE, f"{name}-{i}") for i in range(size)] + [
            volcano_podgroup.KIND.resource.path(NAMESPACE, name)
        ]:
            await stubborn(lambda p=path: self._remove(p))  # type: ignore[misc]

    async def _remove(self, path: str) -> None:
        try:
            await self._cluster.api.delete(path, grace=0)
        except NotFound:
            return

    def is_settled(self, pods: list[Seen]) -> bool:
        """Whether all pods exist, no gang runs in part, and some gangs wait but none of them fits."""
        sizes = Counter(p.group for p in pods)
        running = in_use(pods)
        waiting = [size for group, size in sizes.items() if not running[group]]
        return (
            dict(sizes) == self.sizes
            and all(sizes[group] == count for group, count in running.items())
            and self.room - running.total() < min(waiting, default=0)
        )

    async def until_settled(self, patience: float) -> None:
        """Wait until the burst has settled, and check it again after the scheduler decides about one more pod."""
        pods: list[Seen] = []

        async def settled() -> bool:
            pods.clear()
            with contextlib.suppress(ApiError):
                pods.extend(await self._cluster.pods())
            return self.is_settled(pods)

        try:
            await until(settled, "the burst has settled", patience)
        except TimeoutError as late:
            running = in_use(pods)
            raise AssertionError(f"{late}: {running.total()} of {self.room} run: {running}") from None
        await stubborn(lambda: self._cluster.pod(MARKER, gpu=2 * PER_NODE))
        pods = await self._cluster.until(lambda pods: any(p.name == MARKER and (p.node or p.message) for p in pods))
        assert self.is_settled([p for p in pods if p.name != MARKER])


def in_use(pods: Iterable[Seen]) -> Counter[str]:
    """How many pods of each gang have a node."""
    return Counter(p.group for p in pods if p.node)


def in_part(pods: Iterable[Seen]) -> list[str]:
    """Gangs in which some pods have a node and some do not."""
    pods = list(pods)
    running = in_use(pods)
    return sorted({p.group for p in pods if not p.node and running[p.group]})


async def stubborn(write: Callable[[], Awaitable[None]]) -> None:
    """Retry a write until it succeeds."""
    while True:
        try:
            return await write()
        except AlreadyExists:
            return
        except (Unreachable, ServerFault, TooManyRequests):
            await asyncio.sleep(PAUSE_S)


def without_locks(folder: Path) -> Path:
    """The default configuration without locks for waiting gangs, so a smaller gang that fits must run."""
    text = files("maar").joinpath("default.yaml").read_text()
    (line,) = re.findall('^actions: "(.*)"$', text, re.MULTILINE)
    actions = line.split(", ")
    assert {"elect", "reserve"} <= set(actions)
    place = folder / "maar.yaml"
    place.write_text(text.replace(line, ", ".join(a for a in actions if a not in ("elect", "reserve"))))
    return place
