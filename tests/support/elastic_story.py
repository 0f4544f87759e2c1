"""Stories about elastic jobs: a `Play` does what the users of a cluster do, and waits for the right result.

Stories run on the embedded server with the simulated operator, and on a real one with Kubeflow's. After each event the
sizes must become what the bare algorithm gives, and the pods must follow. A witness records everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from tests.support.elastic_witness import GPU, MPI, PYTORCH, ROLES, Anything, Witness
from tests.support.live import NAMESPACE, Live
from tests.support.patience import PATIENCE, until

from maar.elastic.allocate import allocate
from maar.elastic.jobs import make_jobs
from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import NODES, PODS, Resource
from maar.registry import catalog

CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gang.eviction: whole}}, {name: conformance}, {name: pdb}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
pools:
- {name: default, algorithm: elastic-fifo, rate-limit: 0, minimum-time: 0, hysteresis: 0, restart: 0}
"""
"""All four brakes are zero, so the sizes follow the algorithm exactly."""
GPUS = 8
"""GPUs of a node."""


class Asked(msgspec.Struct, frozen=True):
    """A job as its owner created it."""

    resource: Resource[Anything]
    low: int
    high: int
    priority: int = 0
    gpus: int = 1


class Play:
    """Changes a cluster and waits for the expected result."""

    def __init__(self, live: Live, witness: Witness, scheduler: str = "maar", patience: float = PATIENCE) -> None:
        self.live = live
        self.witness = witness
        self.nodes = 0
        self.rigid = 0
        """GPUs in use by rigid gangs."""
        self._patience = patience
        self._scheduler = scheduler
        self._asked: dict[str, Asked] = {}
        self._order: list[str] = []

    # -- nodes

    async def add_nodes(self, count: int) -> None:
        await self.live.nodes(count, gpu=GPUS, first=self.nodes)
        self.nodes += count

    async def remove_node(self) -> None:
        """Delete a node and its pods, as the pod garbage collector does."""
        self.nodes -= 1
        name = f"n{self.nodes}"
        await self.live.api.delete(NODES.path(None, name))
        for pod in await self.live.pods():
            if pod.node == name:
                with suppress(NotFound):
                    await self.live.api.delete(PODS.path(NAMESPACE, pod.name), grace=0)

    # -- jobs

    async def pytorch(
        self, name: str, low: int, high: int, *, restart: str = "OnFailure", priority: int = 0, gpus: int = 1
    ) -> None:
        """Create a suspended PyTorchJob."""
        worker = {"replicas": low, "restartPolicy": restart, "template": self._template("pytorch", priority, gpus)}
        spec = {
            "runPolicy": {"suspend": True, "schedulingPolicy": {"minAvailable": low}},
            "elasticPolicy": {"minReplicas": low, "maxReplicas": high, "rdzvBackend": "c10d"},
            "pytorchReplicaSpecs": {"Worker": worker},
        }
        await self._create(name, Asked(PYTORCH, low, high, priority, gpus), spec)

    async def mpi(self, name: str, low: int, high: int) -> None:
        """Create a suspended MPIJob, with a launcher that needs no GPUs."""
        spec = {
            "slotsPerWorker": 1,
            "runPolicy": {"suspend": True, "cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": self._template("mpi", 0, 0)},
                "Worker": {"replicas": low, "template": self._template("mpi", 0, 1)},
            },
        }
        bounds = {"maar.dev/min-workers": str(low), "maar.dev/max-workers": str(high)}
        await self._create(name, Asked(MPI, low, high), spec, bounds)

    async def _create(
        self, name: str, asked: Asked, spec: dict[str, Any], annotations: dict[str, str] | None = None
    ) -> None:
        metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}}
        head = {"apiVersion": asked.resource.api_version, "kind": asked.resource.kind, "metadata": metadata}
        await self.live.api.create(asked.resource.path(NAMESPACE), {**head, "spec": spec})
        self._asked[name] = asked
        self._order.append(name)

    def _template(self, container: str, priority: int, gpus: int) -> dict[str, Any]:
        resources = {"requests": {"cpu": "100m"}, "limits": {GPU: str(gpus)} if gpus else {}}
        spec: dict[str, Any] = {
            "schedulerName": self._scheduler,
            "containers": [{"name": container, "image": "train", "command": ["train"], "resources": resources}],
        }
        return {"spec": {**spec, **({"priorityClassName": f"p{priority}"} if priority else {})}}

    async def gang(self, name: str, pods: int, gpus: int, priority: int) -> None:
        """Create a rigid gang."""
        await self.live.gang(name, pods, gpu=gpus, priorityClassName=f"p{priority}", schedulerName=self._scheduler)
        self.rigid += pods * gpus

    @property
    def names(self) -> list[str]:
        """The existing jobs, in the order of creation."""
        return [name for name in self._order if name in self._asked]

    # -- changes of jobs

    def over(self, name: str) -> None:
        """Stop counting a job."""
        del self._asked[name]

    async def delete(self, name: str) -> None:
        await self.live.api.delete(self._asked[name].resource.path(NAMESPACE, name))
        self.over(name)

    async def prefer(self, name: str, priority: int) -> None:
        """Change the priority of a job, through the priority class of its workers."""
        asked = self._asked[name]
        of_worker = {"Worker": {"template": {"spec": {"priorityClassName": f"p{priority}"}}}}
        change = {"spec": {ROLES[asked.resource.kind]: of_worker}}
        await self.live.api.patch(asked.resource.path(NAMESPACE, name), change)
        self._asked[name] = msgspec.structs.replace(asked, priority=priority)

    async def finish(self, name: str, phase: str = "Succeeded") -> None:
        """End all pods of a job."""
        for pod in await self.live.pods():
            if pod.name.startswith(f"{name}-") and pod.node:
                with suppress(NotFound):  # the operator deletes pods as soon as the first one has ended
                    await self.live.pod_status(pod.name, phase=phase)
        self.over(name)

    async def stumble(self, name: str) -> None:
        """Fail worker 0 of a job once, and wait until the operator replaces it."""
        pod = f"{name}-worker-0"
        before = {p.uid for p in await self.live.pods() if p.name == pod}
        await self.live.pod_status(pod, phase="Failed")
        await self.live.until(lambda pods: bool({p.uid for p in pods if p.name == pod} - before), f"{pod} is replaced")

    # -- results

    def expected(self) -> dict[str, int]:
        """The sizes that the bare algorithm gives. It orders jobs by creation time in seconds, then by name."""
        names = self.names
        asked = [self._asked[name] for name in names]
        table = make_jobs(
            names,
            min=[a.low for a in asked],
            max=[a.high for a in asked],
            priority=[a.priority for a in asked],
            gpus=[a.gpus for a in asked],
            submit=[self.witness.created(name) for name in names],
        )
        given = allocate(catalog().algorithms["elastic-fifo"], table, GPUS * self.nodes - self.rigid)
        return dict(zip(names, given.tolist(), strict=True))

    async def settles(self, what: str) -> dict[str, int]:
        """Wait until the sizes are what the algorithm gives, and the pods follow."""
        await self.live.eventually(lambda: self.witness.jobs.keys() >= set(self.names), "the witness sees all jobs")
        return await self.becomes(self.expected(), what)

    async def becomes(self, expected: dict[str, int], what: str) -> dict[str, int]:
        """Wait until the sizes are as expected, and the pods follow."""

        async def holds() -> bool:
            return self.witness.sizes() == expected == await self.running()

        try:
            await until(holds, what, self._patience)
        except TimeoutError as late:
            pods = [(p.name, p.node, p.phase, p.message) for p in await self.live.pods()]
            seen = f"sizes {self.witness.sizes()}, running {await self.running()}: {pods}"
            raise AssertionError(f"{late}: expected {expected}, {seen}") from None
        return expected

    async def running(self) -> dict[str, int]:
        """How many workers run, by job."""
        count = dict.fromkeys(self._asked, 0)
        for pod in await self.live.pods():
            name = pod.name.rpartition("-worker-")[0]
            if name in count and pod.node and pod.phase == "Running" and not pod.leaving:
                count[name] += 1
        return count


@asynccontextmanager
async def playing(
    live: Live,
    scheduler: str = "maar",
    patience: float = PATIENCE,
    priorities: tuple[int, ...] = (0, 5),
    *,
    judges: bool = True,
) -> AsyncIterator[Play]:
    """A play with a witness, which judges at the end, unless owners write what it judges."""
    for value in priorities:
        await live.priority(f"p{value}", value)
    witness = Witness(live.api)
    await witness.ready()
    try:
        yield Play(live, witness, scheduler, patience)
        if judges:
            witness.judge()
    finally:
        await witness.close()
