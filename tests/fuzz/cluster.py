"""A healthy cluster and a waiting gang beside one broken object: from the bytes of a watch to the plan and the reports.

nothing raises, and no part of Maar has caught an unexpected error
the healthy gang starts, on healthy nodes, as without the broken object
the time is bounded
once the object is gone, everything is as if it had never been there
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from tests.fuzz.samples import SAMPLES, WORLD
from tests.kube.picture.test_one_reader import pod, thing, volcano_group
from tests.support.no_cycles import NoCycles
from tests.support.objects import Json, decoded
from tests.support.reported import reported

from maar.config.config import Config
from maar.config.file import default_config
from maar.controller.reporting.reports import Reports
from maar.controller.snapshots.cache import Cache
from maar.controller.watching import Sink
from maar.decide import decide
from maar.kube.client.errors import ApiError
from maar.kube.client.informer import Changed, Removed
from maar.kube.client.streams import Broken, event, page
from maar.kube.kinds import KINDS, AnyKind, kind_named
from maar.kube.kinds.cluster import QUEUES
from maar.kube.picture.picture import Picture
from maar.model.plan import Plan
from maar.registry import catalog

NOW = 1_800_000_000.0
OURS = frozenset({"maar"})
SLOWEST = 2.0
"""Seconds of CPU for one object; a sound one takes a hundredth of this."""
HEALTHY = "healthy"
GANG = [f"{HEALTHY}/good-{i}" for i in range(4)]


def _healthy() -> list[Json]:
    has = {"cpu": "64", "nvidia.com/gpu": "64", "pods": "500"}
    metadata = {"labels": {HEALTHY: "yes"}}
    nodes = [thing("v1", "Node", f"h{i}", metadata=metadata, status={"allocatable": has}) for i in range(2)]
    group = volcano_group("good", 4)
    group["spec"]["queue"] = HEALTHY
    chosen = {"nodeSelector": {HEALTHY: "yes"}}
    about = {"annotations": {"scheduling.k8s.io/group-name": "good"}}
    pods = [pod(f"good-{i}", spec=chosen, metadata=about) for i in range(4)]
    for item in (group, *pods):
        item["metadata"]["namespace"] = HEALTHY
    queue = thing("scheduling.volcano.sh/v1beta1", "Queue", HEALTHY, spec={"weight": 1})
    return [*nodes, queue, group, *pods]


@cache
def _base() -> list[tuple[AnyKind, Any]]:
    return [decoded(item) for item in (*WORLD, *_healthy())]


@cache
def _config() -> Config:
    return default_config(catalog())


class Cluster:
    """One picture with everything behind it, as in `maar run` without a server."""

    def __init__(self) -> None:
        self.picture = Picture(OURS, settling=None)
        self.cache = Cache(self.picture)
        self.reports = Reports(self.cache)
        self.sinks = {kind: Sink(self.picture, kind, NoCycles()) for kind in KINDS}
        for kind, item in _base():
            self.sinks[kind](Changed(item))

    def cycle(self, now: float) -> Plan:
        self.picture.read_short()
        self.cache.wake_all()
        plan = decide(self.cache.snapshot(now), _config(), now)
        for writes in reported(self.reports, self.cache.publish(1, plan, now)):
            for patch in writes.patches:
                msgspec.json.encode(patch.body)
            writes.event.encode()
        return plan


def healthy_part(plan: Plan) -> tuple[list[str], list[str]]:
    """The healthy pods that are bound, and the nodes of all of them."""
    found = {b.task: b.node for b in plan.bind if b.task in GANG}
    assert not [e for e in plan.evict if e.task.startswith(f"{HEALTHY}/")], "healthy pods are evicted"
    return sorted(found), sorted(set(found.values()))


def check_objects(broken: Iterable[tuple[int, bytes]]) -> None:
    """Mutated samples, each with its number in `SAMPLES`."""
    begun = time.process_time()
    cluster, known = Cluster(), list[tuple[AnyKind, str, str]]()
    for number, body in broken:
        sample = SAMPLES[number]
        kind = kind_named(sample["apiVersion"], sample["kind"])
        assert kind is not None
        for found in _arrivals(kind, body):
            cluster.sinks[kind](Changed(found))
            known.append((kind, found.namespace, found.name))
    bound, nodes = healthy_part(cluster.cycle(NOW))
    # A queue may be guaranteed everything: then the healthy gang waits, rightly.
    if not any(kind is QUEUES for kind, *_ in known):
        assert (GANG, True) == (bound, set(nodes) <= {"h0", "h1"}), "the healthy gang starts on healthy nodes"
    for kind, namespace, name in known:
        cluster.sinks[kind](Removed(namespace, name, None))  # type: ignore[arg-type]
    assert GANG == healthy_part(cluster.cycle(NOW + 100))[0]
    assert 0 == cluster.picture.problems.bugs, cluster.picture.problems.reasons()
    gone = {(str(kind), kind.key(namespace, name)) for kind, namespace, name in known}
    assert set() == gone & set(cluster.picture.problems.reasons()), "what is gone is not invalid"
    took = time.process_time() - begun
    assert took < SLOWEST, f"took {took:.1f} s"


def _arrivals(kind: AnyKind, body: bytes) -> Iterable[Any]:
    """The object as a list and as a watch show it; nothing if it has no name, or is not JSON."""
    resource = kind.resource
    try:
        whole = page(b'{"metadata":{"resourceVersion":"1"},"items":[' + body + b"]}", resource)
        yield from (item for item in whole.items if item.name)
        line = event(b'{"type":"MODIFIED","object":' + body + b"}\n", resource)
    except ApiError:
        return
    if line.object is not None and line.object.name:
        yield line.object
        if isinstance(line.object, Broken):
            line.object.error.encode()
