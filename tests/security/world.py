"""A small cluster of two tenants, as Kubernetes objects: `good` works, `evil` writes what she can.

Both have a queue of their own with half of the 16 GPUs. `good` runs a gang of 4 GPUs on `n1`, and a gang of 2 pods with
2 GPUs each waits for room that is free. Whatever `evil` writes, that gang starts and no pod of `good` goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tests.support.objects import Json as Json
from tests.support.objects import decoded

from maar.config.config import Config
from maar.config.file import default_text, read_config
from maar.decide import decide
from maar.kube.picture.picture import Picture
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

T = TypeVar("T", bound=Callable[..., Any])
NOW = 1_000_000.0
TIME = "1970-01-12T13:46:40Z"
"""`NOW`, as Kubernetes writes it."""
OURS = frozenset({"maar", "volcano"})
GPU = "nvidia.com/gpu"


def row(name: str) -> Callable[[T], T]:
    """Marks a test with the row of the tables in docs/security*.md that it shows."""
    del name
    return lambda test: test


def thing(kind: str, name: str, namespace: str = "", version: str = "v1", **more: Any) -> Json:
    metadata = {
        "name": name,
        "uid": f"{kind}-{namespace}-{name}",
        "creationTimestamp": TIME,
        **more.pop("metadata", {}),
    }
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def node(name: str, gpus: int = 8, **more: Any) -> Json:
    allocatable = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
    return thing("Node", name, status={"allocatable": allocatable}, **more)


def queue(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata = {"annotations": annotations or {}}
    return thing("Queue", name, version="scheduling.volcano.sh/v1beta1", spec=spec, metadata=metadata)


def pod(
    namespace: str,
    name: str,
    *,
    gpus: int = 1,
    on: str = "",
    queue: str | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    metadata: Json | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """A pod of a tenant in her queue; with a node it has run for 100 seconds."""
    notes = {"volcano.sh/queue-name": namespace if queue is None else queue, **(annotations or {})}
    requests = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    full = {"schedulerName": "maar", "containers": [container], **({"nodeName": on} if on else {}), **spec}
    running = {"phase": "Running", "startTime": "1970-01-12T13:45:00Z"} if on else {}
    more = {"annotations": {k: v for k, v in notes.items() if v}, "labels": labels or {}, **(metadata or {})}
    return thing("Pod", name, namespace, spec=full, status={**running, **(status or {})}, metadata=more)


def group(
    namespace: str, name: str, *, annotations: dict[str, str] | None = None, phase: str = "", **spec: Any
) -> Json:
    metadata = {"annotations": annotations or {}}
    spec = {"minMember": 1, "queue": namespace, **spec}
    status = {"phase": phase} if phase else {}
    return thing(
        "PodGroup", name, namespace, "scheduling.volcano.sh/v1beta1", spec=spec, status=status, metadata=metadata
    )


def batch_job(
    namespace: str, name: str, *, size: int = 1, annotations: dict[str, str] | None = None, **more: Any
) -> Json:
    """A suspended elastic Job of one to four workers with one GPU each."""
    template = {
        "metadata": {"annotations": {"volcano.sh/queue-name": namespace}},
        "spec": pod(namespace, name)["spec"],
    }
    bounds = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}
    metadata = {"annotations": {**bounds, **(annotations or {})}}
    spec = {"parallelism": size, "suspend": True, "template": template, **more}
    return thing("Job", name, namespace, "batch/v1", spec=spec, metadata=metadata)


def config(tenants: str = "trusted", text: str | None = None) -> Config:
    return read_config(
        f"{text}\ntenants: {tenants}\n" if text else default_text().replace("tenants: trusted", f"tenants: {tenants}"),
        "test",
        catalog(),
    ).config


def good() -> list[Json]:
    """The nodes, the queues, and what `good` runs and wants."""
    return [
        node("n1"),
        node("n2"),
        queue("good", deserved={GPU: "8"}),
        queue("evil", deserved={GPU: "8"}),
        group("good", "runs", minMember=2, phase="Running"),
        *(
            pod("good", f"runs-{i}", gpus=2, on="n1", annotations={"scheduling.k8s.io/group-name": "runs"})
            for i in (0, 1)
        ),
        group("good", "waits", minMember=2, phase="Inqueue"),
        *(pod("good", f"waits-{i}", gpus=2, annotations={"scheduling.k8s.io/group-name": "waits"}) for i in (0, 1)),
    ]


def cluster(*items: Json | Iterable[Json]) -> Cluster:
    """What Maar makes of objects, as `maar plan` reads them."""
    picture = Picture(OURS, settling=None)
    for item in items:
        for one in [item] if isinstance(item, dict) else item:
            picture.put(*decoded(one))
    picture.read_short()
    return picture.cluster(picture.take(NOW).around)


def plan(*items: Json | Iterable[Json], tenants: str = "trusted", now: float = NOW, text: str | None = None) -> Plan:
    return decide(Snapshot(cluster(*items)), config(tenants, text), now)


def bound(plan: Plan, namespace: str = "") -> list[str]:
    return sorted(b.task for b in plan.bind if b.task.startswith(namespace))


def evicted(plan: Plan, namespace: str = "") -> list[str]:
    return sorted(e.task for e in plan.evict if e.task.startswith(namespace))


def codes(plan: Plan, job: str) -> list[str]:
    return [reason.code for wait in plan.waiting if wait.job == job for reason in wait.reasons]


def good_is_well(plan: Plan) -> None:
    """The gang of `good` starts, and no pod of `good` goes."""
    assert ["good/waits-0", "good/waits-1"] == bound(plan, "good/")
    assert [] == evicted(plan, "good/")
