"""The users of a cluster: they create jobs of all kinds, end jobs that have run, and replace pods that were evicted.

They see the cluster through the witness, and write to the API server directly, without the faulty proxy. They retry
every write. Each kind of job is in `jobs`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tests.support.burst import stubborn
from tests.support.faults.jobs import PATHS, PRIORITIES, QUEUES, Job, make
from tests.support.faults.witness import Witness, Wrong
from tests.support.faults.writes import Json
from tests.support.live import NAMESPACE, Live

from maar.kube.client.errors import ApiError, NotFound
from maar.kube.wire.api_resources import NODES, PODS

GPUS = 8
"""GPUs of a node."""
LOAD = 1.5
"""Jobs arrive while all jobs request less than this share of the cluster."""
ARRIVAL_S = 0.3
"""Seconds between two looks of the users."""
END_SHARE = {"low": 0.05, "high": 0.2}
"""The share of jobs that end at each look, of those that have run, by priority; tuned by hand. Jobs of low priority run
for long, so that others preempt them."""


class Users:
    """All users of one cluster."""

    most_ends = 1000
    """Jobs that end at one look, at most."""

    def __init__(self, live: Live, witness: Witness, dice: random.Random, nodes: int, kinds: tuple[str, ...]) -> None:
        self.jobs: dict[str, Job] = {}
        """The jobs that exist, by name."""
        self.names: list[str] = []
        """All jobs that were ever created."""
        self.nodes = nodes
        self.arriving = True
        self.resting = False
        """While this is true, no job arrives or ends; evicted pods are still replaced."""
        self._live = live
        self._witness = witness
        self._dice = dice
        self._kinds = kinds
        self._away: set[str] = set()
        """Nodes that were removed and not returned yet."""

    async def begin(self) -> None:
        """Create nodes, queues and priorities."""
        await self._live.nodes(self.nodes, gpu=GPUS)
        for name, value in PRIORITIES.items():
            await self._live.priority(name, value)
        for name in QUEUES:
            await self._live.queue(name, reclaimable=True)

    async def work(self) -> None:
        """Create, end and repair jobs, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(ARRIVAL_S)

    async def look(self) -> None:
        """Look at the cluster once."""
        if self.arriving and not self.resting:
            await self._arrive()
        ends = 0 if self.resting else self.most_ends
        for job in list(self.jobs.values()):
            if ends and self._has_run(job) and (not self.arriving or self._dice.random() < END_SHARE[job.priority]):
                ends -= 1
                await self.end(job)
            else:
                await job.repair(self)

    async def _arrive(self) -> None:
        asked = sum(job.gpus for job in self.jobs.values())
        if asked < LOAD * GPUS * self.nodes:
            await self.submit(self._dice.choice(self._kinds))

    async def submit(self, kind: str) -> Job:
        """Create a job of a kind of `jobs.KINDS`."""
        name = f"{kind}{len(self.names)}"
        self.names.append(name)
        job = self.jobs[name] = self._make(kind, name)
        await job.create(self)
        return job

    def _make(self, kind: str, name: str) -> Job:
        return make(kind, name, self._dice, self.nodes)

    def _has_run(self, job: Job) -> bool:
        return job.uid in self._witness.gangs.ran or job.ran(self)

    async def end(self, job: Job) -> None:
        """The owner deletes a job."""
        self.jobs.pop(job.name, None)
        self._witness.gangs.ending.add(f"{job.resource}/{NAMESPACE}/{job.name}")
        await job.delete(self)

    async def finish(self, patience: float) -> None:
        """Create no more jobs, and end every job once it has run. A job that does not run in time is lost."""
        self.arriving = False
        ends = time.monotonic() + patience
        while self.jobs and time.monotonic() < ends:
            await asyncio.sleep(ARRIVAL_S)
        for job in list(self.jobs.values()):
            self._witness.found(Wrong.LOST, f"never ran: {self.why(job)}")
            await self.end(job)

    def why(self, job: Job) -> str:
        """What the pods of a job say, and its object."""
        told = set()
        for pod in self.pods(job.name):
            conditions = (pod.get("status") or {}).get("conditions") or ()
            told |= {c.get("message", "") for c in conditions if c["type"] == "PodScheduled"}
        status = (self.object(job.resource, job.name) or {}).get("status") or {}
        return f"{job.name}: {len(self.pods(job.name))} of {job.size} pods: {sorted(told)}, status {status}"

    # -- for jobs

    def pods(self, job: str) -> list[Json]:
        """The pods of a job, as the API server stores them."""
        return [pod for key, pod in self._witness.objects["pods"].items() if key.startswith(f"{NAMESPACE}/{job}-")]

    def pod(self, name: str) -> Json | None:
        return self._witness.objects["pods"].get(f"{NAMESPACE}/{name}")

    def object(self, resource: str, name: str) -> Json | None:
        return self._witness.objects[resource].get(f"{NAMESPACE}/{name}")

    async def write(self, what: Callable[[Live], Awaitable[Any]]) -> None:
        """Write until it succeeds. An object that is gone is fine."""

        async def once() -> None:
            with suppress(NotFound):
                await what(self._live)

        await stubborn(once)

    async def remove(self, resource: str, name: str) -> None:
        """Delete an object for good."""
        self.expect_removal(resource, name)
        await self.write(lambda live: live.api.delete(f"{PATHS[resource]}/{name}", grace=0))

    def expect_removal(self, resource: str, name: str) -> None:
        """Tell the witness that an object is deleted by its user."""
        self._witness.expected.add(f"{resource}/{NAMESPACE}/{name}")

    async def restart(self, pod: Json) -> None:
        """Delete a pod, so that its controller creates it again."""
        self._witness.expected.add(pod["metadata"]["uid"])
        await self.write(lambda live: live.api.delete(PODS.path(NAMESPACE, pod["metadata"]["name"]), grace=0))

    # -- nodes

    async def remove_node(self) -> None:
        """Remove a node and restart every job that had a pod on it."""
        present = [f"n{i}" for i in range(self.nodes) if f"n{i}" not in self._away]
        if len(present) < 2:
            return
        node = self._dice.choice(present)
        self._away.add(node)
        await self.write(lambda live: live.api.delete(NODES.path(name=node)))
        for pod in [p for p in self._witness.objects["pods"].values() if p["spec"].get("nodeName") == node]:
            name = pod["metadata"]["name"]
            job = next((j for j in self.jobs.values() if name.startswith(f"{j.name}-")), None)
            for each in [pod] if job is None else self.pods(job.name):
                await self.restart(each)

    async def return_nodes(self) -> None:
        """Bring all nodes back, without cordons."""
        for node in sorted(self._away):
            await self.write(lambda live, n=node: live.nodes(1, gpu=GPUS, first=int(n[1:])))  # type: ignore[misc]
        self._away.clear()
        for i in range(self.nodes):
            await self.cordon(f"n{i}", False)

    async def cordon(self, node: str, on: bool = True) -> None:
        with suppress(ApiError):
            await self._live.api.patch(NODES.path(name=node), {"spec": {"unschedulable": on or None}}, "merge")
