"""Maar dies between two writes of one decision, and no queue ever has more than its limit.

The write that frees room in the queue does not get through: an eviction, a smaller size or a halt. Then Maar is killed,
and another one goes on. The witness of the long tests sees every write.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.support.faults.witness import Witness
from tests.support.faults.writes import Write
from tests.support.live import GPU, NAMESPACE, OUR_CRDS, Live, Seen, bound, connected
from tests.support.scheduler import Child

from maar.embedded.objects.store import Event
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds.kubeflow import pytorchjob

CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gang.eviction: whole}}, {name: conformance}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]
pools:
- {name: default, algorithm: elastic-fifo, rate-limit: 0, minimum-time: 0, hysteresis: 0, restart: 0}
"""
LIMIT = 8
JOBS = pytorchjob.KIND.resource
EVICTIONS, SIZES = re.compile("/eviction$"), re.compile("/pytorchjobs/")


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator()])
    server.start()
    yield server
    server.stop()


class Story:
    """Two nodes of 8 GPUs, and a queue that may use 8 GPUs."""

    def __init__(self, server: EmbeddedServer, live: Live, folder: Path) -> None:
        self.live, self.witness = live, Witness()
        self._server, self._folder = server, folder
        self._tried = 0
        self._probes = 0
        self._child: Child | None = None
        server.call(server.api.store.listeners.append, self._see)

    def _see(self, table: tuple[str, str], event: Event) -> None:
        resource = "/".join(part for part in table if part)
        after = None if event.type == "DELETED" else deepcopy(event.item.obj)
        self.witness.take(Write(event.item.version, resource, "/".join(part for part in event.key if part), after))

    async def begin(self) -> None:
        await self.live.crds(OUR_CRDS)
        await self.live.nodes(2, gpu=8)
        await self.live.priority("p5", 5)
        await self.live.queue("mine", capability={GPU: str(LIMIT)}, reclaimable=True)
        await self.live.queue("free", reclaimable=True)

    def start(self) -> None:
        config = self._folder / "maar.yaml"
        config.write_text(CONFIG)
        kubeconfig = self._server.kubeconfig(self._folder / "kubeconfig")
        # Without stand-by, the lease of a process of this host that has ended is taken at once.
        options = ("--config", str(config), "--no-leader-elect", "--history", "none")
        self._child = Child(kubeconfig, self._folder / "maar.log", *options)

    def kill(self) -> None:
        if self._child is not None:
            self._child.end()

    def stuck(self, writes: re.Pattern[str]) -> None:
        """From now on these writes fail."""

        def fails(method: str, path: str) -> bool:
            chosen = method != "GET" and writes.search(path) is not None
            self._tried += chosen
            return chosen

        faults = self._server.faults
        faults.fail_codes, faults.fails, faults.fail_share = (500,), fails, 1.0

    async def tried(self) -> None:
        """Wait until Maar has tried to write what is stuck, and has decided again since then."""
        await self.live.eventually(lambda: self._tried > 0, "it tries")
        for _ in range(2):
            name = f"probe-{self._probes}"
            self._probes += 1
            await self.live.gang(name, 1, group={"queue": "free"})
            await self.live.until(bound(name, 1), "it decides again")

    def mend(self) -> None:
        self._server.faults.clear()

    async def gang(self, name: str, size: int, **pod: Any) -> None:
        await self.live.gang(name, size, gpu=1, group={"queue": "mine"}, **pod)

    async def elastic(self, name: str, low: int, high: int) -> None:
        """An elastic job in the limited queue. It is suspended until Maar starts it."""
        container = {"name": "pytorch", "image": "train", "resources": {"limits": {GPU: "1"}}}
        spec: dict[str, Any] = {"schedulerName": "maar", "containers": [container]}
        policy = {"minAvailable": low, "queue": "mine"}
        body = {
            "runPolicy": {"suspend": True, "schedulingPolicy": policy},
            "elasticPolicy": {"minReplicas": low, "maxReplicas": high, "rdzvBackend": "c10d"},
            "pytorchReplicaSpecs": {"Worker": {"replicas": low, "template": {"spec": spec}}},
        }
        head = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name, "namespace": NAMESPACE}}
        await self.live.api.create(JOBS.path(NAMESPACE), {**head, "spec": body})

    async def workers(self, name: str, count: int) -> None:
        def there(pods: list[Seen]) -> bool:
            return sum(p.name.startswith(f"{name}-worker") and bool(p.node) and not p.leaving for p in pods) == count

        await self.live.until(there, f"{name} has {count} workers")

    async def size(self, name: str) -> int:
        """How many workers the job should have."""
        spec = (await self.live.get(JOBS.path(NAMESPACE, name)))["spec"]
        return 0 if spec["runPolicy"].get("suspend") else int(spec["pytorchReplicaSpecs"]["Worker"]["replicas"])

    async def has_none(self, name: str) -> None:
        """No pod of a gang has a node."""
        assert [] == [p.name for p in await self.live.pods() if p.name.startswith(f"{name}-") and p.node]


def play(server: EmbeddedServer, folder: Path, scene: Callable[[Story], Awaitable[None]]) -> None:
    async def main() -> None:
        async with connected(server.kubeconfig(folder / "kubeconfig")) as live:
            story = Story(server, live, folder)
            await story.begin()
            story.start()
            try:
                await scene(story)
            finally:
                story.kill()
            story.witness.check()

    asyncio.run(main())


def test_it_dies_before_it_evicts(server: EmbeddedServer, tmp_path: Path) -> None:
    async def scene(story: Story) -> None:
        await story.gang("low", 8)
        await story.live.until(bound("low", 8))
        story.stuck(EVICTIONS)
        await story.gang("high", 8, priorityClassName="p5")
        await story.tried()
        await story.has_none("high")
        story.kill()
        story.mend()
        story.start()
        await story.live.until(bound("high", 8))
        assert bound("low", 0)(await story.live.pods())

    play(server, tmp_path, scene)


def test_it_dies_before_a_job_shrinks(server: EmbeddedServer, tmp_path: Path) -> None:
    async def scene(story: Story) -> None:
        await story.elastic("wide", 2, 8)
        await story.workers("wide", 8)
        story.stuck(SIZES)
        await story.gang("high", 4, priorityClassName="p5")
        await story.tried()
        await story.has_none("high")
        story.kill()
        story.mend()
        story.start()
        await story.live.until(bound("high", 4))
        await story.workers("wide", 4)

    play(server, tmp_path, scene)


def test_it_dies_before_a_job_is_halted(server: EmbeddedServer, tmp_path: Path) -> None:
    async def scene(story: Story) -> None:
        await story.elastic("wide", 6, 8)
        await story.workers("wide", 8)
        story.stuck(SIZES)
        await story.gang("high", 4, priorityClassName="p5")
        await story.tried()
        await story.has_none("high")
        story.kill()
        story.mend()
        story.start()
        await story.live.until(bound("high", 4))
        assert 0 == await story.size("wide")

    play(server, tmp_path, scene)
