"""Elastic jobs on a real API server, with the real training operator and kwok's nodes, grow and shrink by the plan.

A witness watches jobs, pods and nodes from the beginning and judges, in the order of resource versions, what was
written: sizes never leave their bounds, no growth ever takes more than the nodes have (shrinks come first), and worker
0 goes only with its job. After every event the sizes are what the bare algorithm says for that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maar.elastic.allocate import allocate
from maar.elastic.jobs import make_jobs
from maar.kube.informer import Changed, Delta, Informer, Removed, Replaced
from maar.kube.resources import NODES, PODS, Resource
from maar.kube.wire import Object
from maar.registry import catalog
from maar.testing.live import NAMESPACE, Live, connected
from maar.testing.real import RealCluster, available
from maar.testing.real_operator import start_training_operator
from maar.testing.scheduler import Child

CONFIG = """
actions: "enqueue, allocate, resize, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang, arguments: {gang.eviction: whole}}, {name: conformance}, {name: pdb}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
pools:
- {name: default, algorithm: elastic-fifo, rate-limit: 0, minimum-time: 0, hysteresis: 0, restart: 0}
"""
GPUS = 8
"""Of a node."""
PATIENCE = 60.0


class Anything(Object, frozen=True):
    """An object as it is."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


def _resource(group: str, version: str, plural: str, kind: str) -> Resource[Anything]:
    return Resource(group, version, plural, kind, True, Anything)


PYTORCH = _resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
MPI = _resource("kubeflow.org", "v1", "mpijobs", "MPIJob")
WATCHED = (
    PYTORCH,
    MPI,
    Resource("", "v1", PODS.plural, "Pod", True, Anything),
    Resource("", "v1", NODES.plural, "Node", False, Anything),
)
ROLES = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


class Step(msgspec.Struct, frozen=True):
    """Something that was written."""

    version: int
    kind: str
    name: str
    item: Anything | None = None


class Witness:
    """Sees all that is written, and judges it in the end."""

    def __init__(self, play: Live) -> None:
        self.steps: dict[int, Step] = {}
        self.jobs: dict[str, Anything] = {}
        self._informers = [Informer(play.api, r, self._sink(r)) for r in WATCHED]
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers]

    async def ready(self) -> None:
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _sink(self, resource: Resource[Anything]) -> Any:
        def take(delta: Delta[Anything]) -> None:
            match delta:
                case Replaced():
                    for item in delta.objects:
                        self._note(resource.kind, item)
                case Changed():
                    self._note(resource.kind, delta.object)
                case Removed():
                    if resource.kind in ROLES:
                        self.jobs.pop(delta.name, None)
                    version = max(self.steps, default=0) + 1
                    self.steps[version] = Step(version, resource.kind, delta.name)

        return take

    def _note(self, kind: str, item: Any) -> None:
        assert isinstance(item, Anything), item
        version = int(item.metadata.resource_version)
        self.steps[version] = Step(version, kind, item.name, item)
        if kind in ROLES:
            self.jobs[item.name] = item

    def sizes(self) -> dict[str, int]:
        """How many workers each job asks for now; none while it is suspended or over."""
        return {name: size_of(job) for name, job in self.jobs.items() if not is_over(job)}

    def judge(self) -> None:
        """Everything in order: bounds, room for growth, worker 0."""
        sizes: dict[str, int] = {}
        nodes: dict[str, int] = {}
        for step in sorted(self.steps.values(), key=lambda s: s.version):
            if step.kind == "Node":
                nodes.pop(step.name, None)
                if step.item is not None and not step.item.spec.get("unschedulable"):
                    nodes[step.name] = GPUS
            elif step.kind in ROLES:
                before = sizes.pop(step.name, 0)
                if step.item is None or is_over(step.item):
                    continue
                sizes[step.name] = now = size_of(step.item)
                low, high = bounds_of(step.item)
                assert now == 0 or low <= now <= high, f"{step.name} has {now} of {low} to {high}"
                if now > before:
                    assert sum(sizes.values()) <= GPUS * len(nodes), f"{step.name} grew to {now}: {sizes}"
            elif step.kind == "Pod" and step.name.endswith("worker-0") and step.item is not None:
                name = step.name.removesuffix("-worker-0")
                if step.item.metadata.deletion_timestamp is not None:
                    assert not sizes.get(name), f"worker 0 of {name} was deleted while its job has {sizes[name]}"


def size_of(job: Anything) -> int:
    if job.spec.get("runPolicy", {}).get("suspend"):
        return 0
    size: int = _workers(job)["replicas"]
    return size


def bounds_of(job: Anything) -> tuple[int, int]:
    policy = job.spec.get("elasticPolicy")
    if policy is not None:
        return policy["minReplicas"], policy["maxReplicas"]
    notes = job.metadata.annotations
    return int(notes["maar.dev/min-workers"]), int(notes["maar.dev/max-workers"])


def is_over(job: Anything) -> bool:
    found = {c["type"] for c in job.status.get("conditions") or () if c["status"] == "True"}
    return bool(found & {"Succeeded", "Failed"})


def _workers(job: Anything) -> dict[str, Any]:
    roles = next(job.spec[key] for key in ROLES.values() if key in job.spec)
    found: dict[str, Any] = roles["Worker"]
    return found


def template(scheduler: str, container: str, priority: str, gpus: int = 1) -> dict[str, Any]:
    asks = {"requests": {"cpu": "100m"}, **({"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {})}
    if gpus:
        asks["requests"]["nvidia.com/gpu"] = str(gpus)
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": container, "image": "train", "command": ["train"], "resources": asks}],
    }
    return {"spec": {**spec, **({"priorityClassName": priority} if priority else {})}}


class Play:
    """The story's actor: what a cluster's users do, and what must come of it."""

    def __init__(self, live: Live, witness: Witness, scheduler: str) -> None:
        self.live = live
        self.witness = witness
        self._scheduler = scheduler
        self._asked: dict[str, tuple[Resource[Anything], int, int, int]] = {}
        self._order: list[str] = []
        self.nodes = 0

    async def add_nodes(self, count: int) -> None:
        await self.live.nodes(count, gpu=GPUS, first=self.nodes)
        self.nodes += count

    async def remove_node(self) -> None:
        """A node goes, and what ran on it: the pod collector is played here."""
        self.nodes -= 1
        name = f"n{self.nodes}"
        await self.live.api.delete(NODES.path(None, name))
        for pod in await self.live.pods():
            if pod.node == name:
                await self.live.api.delete(PODS.path(NAMESPACE, pod.name), grace=0)

    async def pytorch(self, name: str, low: int, high: int, restart: str = "OnFailure", priority: str = "") -> None:
        worker = {
            "replicas": low,
            "restartPolicy": restart,
            "template": template(self._scheduler, "pytorch", priority),
        }
        spec = {
            "runPolicy": {"suspend": True, "schedulingPolicy": {"minAvailable": low}},
            "elasticPolicy": {"minReplicas": low, "maxReplicas": high, "rdzvBackend": "c10d"},
            "pytorchReplicaSpecs": {"Worker": worker},
        }
        await self._create(PYTORCH, name, spec, {}, low, high)

    async def mpi(self, name: str, low: int, high: int) -> None:
        spec = {
            "slotsPerWorker": 1,
            "runPolicy": {"suspend": True, "cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": template(self._scheduler, "mpi", "", gpus=0)},
                "Worker": {"replicas": low, "template": template(self._scheduler, "mpi", "")},
            },
        }
        notes = {"maar.dev/min-workers": str(low), "maar.dev/max-workers": str(high)}
        await self._create(MPI, name, spec, notes, low, high)

    async def _create(
        self, resource: Resource[Anything], name: str, spec: Any, notes: dict[str, str], low: int, high: int
    ) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "annotations": notes}
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        await self.live.api.create(resource.path(NAMESPACE), {**head, "spec": spec})
        self._asked[name] = resource, low, high, 0
        self._order.append(name)

    def over(self, name: str) -> None:
        """Count a job no more."""
        del self._asked[name]

    async def delete(self, name: str) -> None:
        await self.live.api.delete(self._asked[name][0].path(NAMESPACE, name))
        self.over(name)

    async def prefer(self, name: str, priority: int) -> None:
        """Give a job another priority, by the class of its workers."""
        resource, low, high, _ = self._asked[name]
        key = ROLES[resource.kind]
        change = {"spec": {key: {"Worker": {"template": {"spec": {"priorityClassName": f"p{priority}"}}}}}}
        await self.live.api.patch(resource.path(NAMESPACE, name), change)
        self._asked[name] = resource, low, high, priority

    async def finish(self, name: str, phase: str = "Succeeded") -> None:
        """All pods of a job end."""
        for pod in await self.live.pods():
            if pod.name.startswith(f"{name}-") and pod.node:
                await self.live.pod_status(pod.name, phase=phase)
        self.over(name)

    def expected(self) -> dict[str, int]:
        """What the bare algorithm gives to the jobs that are there, in the order in which they came."""
        names = [name for name in self._order if name in self._asked]
        table = make_jobs(
            names,
            min=[self._asked[n][1] for n in names],
            max=[self._asked[n][2] for n in names],
            priority=[self._asked[n][3] for n in names],
            submit=[float(self._order.index(n)) for n in names],
        )
        given = allocate(catalog().algorithms["elastic-fifo"], table, GPUS * self.nodes)
        return dict(zip(names, given.tolist(), strict=True))

    async def settles(self, what: str) -> None:
        """The sizes become what the algorithm says, and the pods follow."""
        expected = self.expected()
        try:
            async with asyncio.timeout(PATIENCE):
                while self.witness.sizes() != expected or await self._running() != expected:
                    await asyncio.sleep(0.1)
        except TimeoutError:
            pods = [(p.name, p.node, p.phase) for p in await self.live.pods()]
            pytest.fail(
                f"{what}: expected {expected}, sizes {self.witness.sizes()}, running {await self._running()}: {pods}"
            )

    async def _running(self) -> dict[str, int]:
        count = dict.fromkeys(self._asked, 0)
        for pod in await self.live.pods():
            name = pod.name.rpartition("-worker-")[0]
            if name in count and pod.node and pod.phase == "Running":
                count[name] += 1
        return count


@pytest.fixture
def operated(real_parts: None, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A cluster with kwok's nodes and the training operator, which makes PodGroups where the test asks for it."""
    if not (found := available("training-operator")):
        pytest.skip(found.why_not)
    with RealCluster() as cluster:
        cluster.start_kwok()
        cluster.start_controller_manager(("garbage-collector-controller",))
        start_training_operator(cluster, request.param)
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("operated", ["", "volcano"], indirect=True, ids=["by owner", "by PodGroup"])
def test_jobs_breathe(operated: RealCluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    scheduler = "volcano" if operated.processes.runs("training-operator") and _makes_groups(request) else "maar"
    config = tmp_path / "maar.yaml"
    config.write_text(CONFIG)
    options = ["--config", str(config), "--no-leader-elect", "--scheduler-name", scheduler, "--history", "none"]
    child = Child(operated.kubeconfig, tmp_path / "maar-0.log", *options)

    async def story() -> None:
        nonlocal child
        async with connected(operated.kubeconfig) as live:
            for value in (0, 5):
                await live.priority(f"p{value}", value)
            witness = Witness(live)
            await witness.ready()
            play = Play(live, witness, scheduler)
            await play.add_nodes(2)
            # They arrive.
            await play.pytorch("a", 2, 12)
            await play.settles("one job takes what it can use")
            await play.mpi("b", 2, 8)
            await play.settles("another arrives")
            await play.pytorch("c", 4, 6, restart="Never")
            await play.pytorch("d", 3, 16)
            await play.settles("two more")
            # The scheduler is restarted in the middle: nothing changes.
            before = dict(witness.sizes())
            child.end()
            child = Child(operated.kubeconfig, tmp_path / "maar-1.log", *options)
            await live.eventually(lambda: child.says("cycle") or child.says("leading") or True)
            await play.pytorch("e", 6, 6)
            assert before == {name: size for name, size in witness.sizes().items() if name != "e"}
            await play.settles("one that waits, after a restart")
            # Priority changes who comes first.
            await play.prefer("e", 5)
            await play.settles("the waiting one becomes important")
            # Nodes come and go.
            await play.add_nodes(1)
            await play.settles("a node more")
            await play.remove_node()
            await play.settles("a node less")
            # One fails for good, one ends, one is deleted.
            await play.finish("c", "Failed")
            await play.settles("one failed for good: its room is free")
            await play.delete("d")
            await play.settles("one was deleted")
            await play.finish("a")
            await play.settles("one has ended")
            await witness.close()
            witness.judge()

    try:
        asyncio.run(story())
    finally:
        child.end()
        print(child.log.read_text()[-4000:])


def _makes_groups(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.callspec.params["operated"])
