"""A witness of elastic jobs: records every write to jobs, pods and nodes of a cluster, and judges them at the end.

It has its own watches, and orders writes by resource version. It checks that sizes stay within their bounds; that a job
that grows or starts never takes more than the nodes have, so shrinks come first; that no node holds more than it has;
that worker 0 goes only with its job or its node; and that no worker is evicted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.informer import Changed, Delta, Informer, Removed, Replaced
from maar.kube.wire.api_resources import NODES, PODS, Resource
from maar.kube.wire.base import Object

GPU = "nvidia.com/gpu"


class Anything(Object, frozen=True):
    """An object with untyped spec and status."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


PYTORCH = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", True, Anything)
MPI = Resource("kubeflow.org", "v1", "mpijobs", "MPIJob", True, Anything)
ROLES = {"PyTorchJob": "pytorchReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
WATCHED = (
    PYTORCH,
    MPI,
    Resource("", "v1", PODS.plural, "Pod", True, Anything),
    Resource("", "v1", NODES.plural, "Node", False, Anything),
)


class Step(msgspec.Struct, frozen=True):
    """One write. If `gone`, the object as it was when it was removed."""

    version: int
    kind: str
    item: Anything
    gone: bool = False


class Witness:
    """Records all writes."""

    def __init__(self, api: Api) -> None:
        self.steps: dict[int, Step] = {}
        self.jobs: dict[str, Anything] = {}
        """The existing jobs that the scheduler resizes, by name."""
        self._informers = [Informer(api, r, self._sink(r)) for r in WATCHED]
        self._tasks = [asyncio.create_task(informer.run()) for informer in self._informers]

    async def ready(self) -> None:
        """Wait until all watches are synced."""
        await asyncio.gather(*(informer.synced.wait() for informer in self._informers))

    async def close(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _sink(self, resource: Resource[Anything]) -> Callable[[Delta[Anything]], None]:
        def take(delta: Delta[Anything]) -> None:
            match delta:
                case Replaced():
                    for item in delta.objects:
                        self._note(resource.kind, item)
                case Changed():
                    self._note(resource.kind, delta.object)
                case Removed():
                    self._note(resource.kind, delta.object, gone=True)

        return take

    def _note(self, kind: str, item: object, gone: bool = False) -> None:
        assert isinstance(item, Anything), item
        version = int(item.metadata.resource_version)
        self.steps[version] = Step(version, kind, item, gone)
        if kind in ROLES and is_ours(item):
            self.jobs[item.name] = item
            if gone:
                del self.jobs[item.name]

    def sizes(self) -> dict[str, int]:
        """How many workers each job requests now, 0 while it is suspended. Ended jobs are left out."""
        return {name: size_of(job) for name, job in self.jobs.items() if not is_over(job)}

    def created(self, name: str) -> float:
        """When a job was created, in seconds since 1970."""
        when = self.jobs[name].metadata.creation_timestamp
        assert when is not None, name
        return when.timestamp()

    def resizes(self) -> int:
        """How often a size has changed, including starts and stops."""
        return sum(map(len, self.history().values()))

    def history(self) -> dict[str, list[int]]:
        """The sizes of each job in order, from its first start."""
        sizes: dict[str, list[int]] = {}
        for step in in_order(self.steps.values()):
            if step.kind in ROLES and is_ours(step.item) and not step.gone:
                had = sizes.setdefault(step.item.name, [])
                if size_of(step.item) != (had[-1] if had else 0):
                    had.append(size_of(step.item))
        return sizes

    def evicted(self) -> list[str]:
        """Names of evicted pods."""
        return evicted(self.steps.values())

    def judge(self) -> None:
        """Check all writes so far."""
        judge(self.steps.values())


def judge(steps: Iterable[Step]) -> None:
    """Check all writes in order."""
    ordered = in_order(steps)
    court = _Court()
    for number, step in enumerate(ordered):
        try:
            court.take(step)
        except AssertionError as error:
            error.add_note("\n".join(["Before that:", *map(_line, ordered[max(number - 80, 0) : number + 5])]))
            raise
    elastic = {step.item.name for step in ordered if step.kind in ROLES and is_ours(step.item)}
    workers = [pod for pod in evicted(ordered) if pod.rpartition("-worker-")[0] in elastic]
    assert workers == [], f"evicted: {workers}"


def evicted(steps: Iterable[Step]) -> list[str]:
    """Names of evicted pods, sorted."""
    return sorted({step.item.name for step in steps if step.kind == "Pod" and _is_evicted(step.item)})


def in_order(steps: Iterable[Step]) -> list[Step]:
    """The writes in order of their versions."""
    return sorted(steps, key=lambda step: step.version)


class _Court:
    """The state of the cluster after each write, and the checks on it."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._gpus: dict[str, int] = {}
        """GPUs of one worker, by job."""
        self._nodes: dict[str, int] = {}
        self._pods: dict[str, tuple[str, int, bool]] = {}
        """Pods on nodes: the node, the GPUs, and whether the pod is outside elastic jobs and not terminating."""
        self._done: dict[str, set[str]] = {}
        """Succeeded workers, which need no capacity, by job. The status of the job may not show its end yet."""
        self._firsts: dict[str, set[str]] = {}
        """Uids of worker 0 of each job. A job that was stopped and started has several."""
        self._failed: set[str] = set()
        """Jobs whose worker 0 has failed and is not replaced yet."""
        self._may_go: set[str] = set()
        """Uids of pods that the operator may delete late: their job was stopped while they existed, or they replace a
        failed worker 0, which the operator deletes by name and maybe twice."""

    def take(self, step: Step) -> None:
        """Apply one more write."""
        item = step.item
        if step.kind == "Node":
            self._nodes[item.name] = 0 if step.gone else int((item.status.get("allocatable") or {}).get(GPU, 0))
        elif step.kind == "Pod":
            self._pod(item, step.gone)
        elif is_ours(item):
            self._job(item, step.gone or is_over(item))

    def _job(self, job: Anything, over: bool) -> None:
        before = self._sizes.pop(job.name, 0)
        if over:
            return
        self._sizes[job.name] = now = size_of(job)
        self._gpus[job.name] = gpus_of(workers_of(job)["template"]["spec"])
        low, high = bounds_of(job)
        assert now == 0 or low <= now <= high, f"{job.name} has {now} of {low} to {high}"
        if not now:
            self._may_go |= self._firsts.get(job.name, set())
        if now > before:
            self._fits(f"{job.name} grew from {before} to {now}")

    def _pod(self, pod: Anything, gone: bool) -> None:
        name, node = pod.metadata.name, pod.spec.get("nodeName", "")
        job, _, index = name.rpartition("-worker-")
        leaving = pod.metadata.deletion_timestamp is not None
        done = pod.status.get("phase") in ("Succeeded", "Failed")
        if index == "0":
            self._first(job, pod)
        exists = not node or self._nodes.get(node, 0) > 0
        stays = index == "0" and job in self._sizes and exists and pod.metadata.uid not in self._may_go
        if leaving and not gone and not done and stays:
            assert not self._sizes[job], f"worker 0 of {job} was deleted while its job has {self._sizes[job]}"
        finished = self._done.setdefault(job, set())
        finished.discard(pod.metadata.uid)
        if pod.status.get("phase") == "Succeeded" and not gone:
            finished.add(pod.metadata.uid)
        before = self._pods.pop(pod.metadata.uid, None)
        if not node or done or gone:
            return
        gpus = gpus_of(pod.spec)
        rigid = gpus > 0 and job not in self._gpus and not leaving
        self._pods[pod.metadata.uid] = node, gpus, rigid
        if before is None:
            held = sum(gpus for on, gpus, _ in self._pods.values() if on == node)
            assert held <= self._nodes.get(node, 0), f"{node} holds {held} GPUs after {name} was bound"
            if rigid:
                self._fits(f"{name} was bound")

    def _first(self, job: str, pod: Anything) -> None:
        """Record a worker 0."""
        known = self._firsts.setdefault(job, set())
        if pod.metadata.uid not in known and job in self._failed:
            self._failed.discard(job)
            self._may_go.add(pod.metadata.uid)
        known.add(pod.metadata.uid)
        if pod.status.get("phase") == "Failed" and pod.metadata.uid not in self._may_go:
            self._failed.add(job)

    def _fits(self, what: str) -> None:
        """Check that requested GPUs and the GPUs of other pods fit on the nodes: shrinks must come before growth."""
        left = {name: max(size - len(self._done.get(name, ())), 0) for name, size in self._sizes.items()}
        asked = sum(size * self._gpus[name] for name, size in left.items())
        others = sum(gpus for _, gpus, rigid in self._pods.values() if rigid)
        total = sum(self._nodes.values())
        assert asked + others <= total, f"{what}: {self._sizes}, others have {others}, of {total} GPUs"


# -- reading


def is_ours(job: Anything) -> bool:
    """Whether the job has bounds and no autoscaler owns its size."""
    policy = job.spec.get("elasticPolicy") or {}
    return not policy.get("metrics") and ("minReplicas" in policy or "maar.dev/min-workers" in job.metadata.annotations)


def size_of(job: Anything) -> int:
    """How many workers the job requests; 0 while it is suspended."""
    if job.spec.get("runPolicy", {}).get("suspend"):
        return 0
    size: int = workers_of(job)["replicas"]
    return size


def bounds_of(job: Anything) -> tuple[int, int]:
    """Minimum and maximum of workers."""
    policy = job.spec.get("elasticPolicy")
    if policy is not None:
        return policy["minReplicas"], policy["maxReplicas"]
    notes = job.metadata.annotations
    return int(notes["maar.dev/min-workers"]), int(notes["maar.dev/max-workers"])


def is_over(job: Anything) -> bool:
    """Whether the job has succeeded or failed."""
    found = {c["type"] for c in job.status.get("conditions") or () if c["status"] == "True"}
    return bool(found & {"Succeeded", "Failed"})


def workers_of(job: Anything) -> dict[str, Any]:
    """The worker role of the job."""
    roles = next(job.spec[key] for key in ROLES.values() if key in job.spec)
    found: dict[str, Any] = roles["Worker"]
    return found


def gpus_of(spec: dict[str, Any]) -> int:
    """The GPUs that a pod requests."""
    return sum(int((c.get("resources") or {}).get("limits", {}).get(GPU, 0)) for c in spec["containers"])


def _is_evicted(pod: Anything) -> bool:
    conditions = pod.status.get("conditions") or ()
    return any(c["type"] == "DisruptionTarget" and c.get("reason") == "EvictionByEvictionAPI" for c in conditions)


def _line(step: Step) -> str:
    """One line about a write, for failure messages."""
    item = step.item
    words = [str(step.version), step.kind, item.name, item.metadata.uid[:8], *(["removed"] if step.gone else [])]
    if step.kind == "Pod":
        leaving = ["leaving"] if item.metadata.deletion_timestamp is not None else []
        words += [item.spec.get("nodeName", "-"), str(item.status.get("phase")), *leaving]
    elif step.kind in ROLES and is_ours(item):
        words.append(f"size {size_of(item)}{', over' if is_over(item) else ''}")
    return " ".join(words)
