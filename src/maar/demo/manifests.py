"""The objects of `maar demo`, as a user would write them."""

from __future__ import annotations

from typing import Any, NamedTuple

from maar.demo.picture import GPU
from maar.demo.sizes import POOL

Obj = dict[str, Any]


class Gang(NamedTuple):
    """A gang of the story: `pods` pods with `gpus` GPUs each."""

    name: str
    pods: int
    gpus: int
    queue: str
    priority: str = "normal"

    def __str__(self) -> str:
        return f"{self.name} ({self.pods} × {self.gpus} GPUs, queue {self.queue}, priority {self.priority})"


class Elastic(NamedTuple):
    """An elastic job of the story, with `low` to `high` workers."""

    name: str
    kind: str
    low: int
    high: int
    gpus: int
    pool: str
    queue: str = "research"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} ({self.low} to {self.high} workers of {self.gpus} GPUs, on {self.pool})"


def node(name: str, gpus: int, pool: str) -> Obj:
    offered = {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: str(gpus)}
    labels = {"kubernetes.io/hostname": name, POOL: pool}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": offered, "allocatable": offered},
    }


def priority_class(name: str, value: int) -> Obj:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


def queue(name: str) -> Obj:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    return {**kind, "metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": True}}


def job(gang: Gang) -> Obj:
    """A batch Job that starts as a gang."""
    about = {"maar.dev/gang": "true", "scheduling.volcano.sh/queue-name": gang.queue}
    template = _pod("train", gang.gpus, gang.priority)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": gang.name, "annotations": about},
        "spec": {
            "parallelism": gang.pods,
            "completions": gang.pods,
            "completionMode": "Indexed",
            "template": {"metadata": {"annotations": about}, "spec": {**template, "restartPolicy": "Never"}},
        },
    }


def elastic_job(job: Elastic) -> Obj:
    """A PyTorchJob or MPIJob of Kubeflow. It is created suspended; the scheduler starts it."""
    bounds = {"maar.dev/min-workers": str(job.low), "maar.dev/max-workers": str(job.high)}
    spec: Obj = {"runPolicy": {"suspend": True}}
    worker = {"replicas": job.low, "template": {"spec": _elastic_pod(job, job.gpus)}}
    if job.kind == "PyTorchJob":
        spec["elasticPolicy"] = {"minReplicas": job.low, "maxReplicas": job.high, "rdzvBackend": "c10d"}
        spec["pytorchReplicaSpecs"] = {"Worker": {**worker, "restartPolicy": "OnFailure"}}
        bounds = {}
    else:
        launcher = {"replicas": 1, "template": {"spec": _elastic_pod(job, 0)}}
        spec["mpiReplicaSpecs"] = {"Launcher": launcher, "Worker": worker}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": job.kind,
        "metadata": {"name": job.name, "annotations": {"scheduling.volcano.sh/queue-name": job.queue, **bounds}},
        "spec": spec,
    }


def _elastic_pod(job: Elastic, gpus: int) -> Obj:
    container = "pytorch" if job.kind == "PyTorchJob" else "mpi"
    return {**_pod(container, gpus, "normal"), "nodeSelector": {POOL: job.pool}}


def _pod(container: str, gpus: int, priority: str) -> Obj:
    resources: Obj = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {GPU: str(gpus)} if gpus else {}}
    return {
        "schedulerName": "maar",
        "priorityClassName": priority,
        "containers": [{"name": container, "image": "train", "resources": resources}],
    }
