"""How long binds wait while the first conditions of 20,000 waiting pods are unwritten: a part of `make bench-writes`.

Before Maar starts, eight namespaces have 20,000 pods that never fit. Then the owner of another namespace creates gangs
that fit at once, as long as some of the conditions are unwritten. Maar itself measures the time from the decision to
bind a pod to the moment at which the request is written (`maar_bind_delay_seconds`); p99 is interpolated in the
histogram.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.patience import until

from bench.cluster import CREATING, NAMESPACE, Maar, in_parallel, maar
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import NODES, PODS

TENANTS = 8
GANG = 4
NODE_COUNT, GPUS = 32, 8
GPU = "nvidia.com/gpu"
GROUPS = volcano_podgroup.KIND.resource
EVERY = 0.25
"""Seconds between two gangs."""
MOST = 2000
"""Binds: what the nodes have room for."""
BIND_P99_MS = 250
"""The bar."""
ENOUGH = 200
"""Binds without which p99 says little."""
SAMPLE = re.compile(r"(?P<name>maar_\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def samples(child: Maar, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """The values of a metric of Maar, by labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{child.port}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    found = (sample for line in lines if (sample := SAMPLE.fullmatch(line)) is not None and sample["name"] == name)
    return {frozenset(LABEL.findall(sample["labels"] or "")): float(sample["value"]) for sample in found}


class Delays:
    """The histogram of the delays of binds."""

    def __init__(self, child: Maar) -> None:
        found = samples(child, "maar_bind_delay_seconds_bucket")
        self.counts = {float(dict(labels)["le"]): round(count) for labels, count in found.items()}
        """Binds with at most this delay, by seconds."""

    @property
    def total(self) -> int:
        return max(self.counts.values(), default=0)

    def quantile_ms(self, quantile: float) -> float:
        """Interpolated in its bucket; infinite in the last one."""
        rank, below, counted = quantile * self.total, 0.0, 0
        for bound, count in sorted(self.counts.items()):
            if count >= rank:
                share = (rank - counted) / max(count - counted, 1)
                return 1000 * (bound if bound == float("inf") else below + share * (bound - below))
            below, counted = bound, count
        return 0.0


def conditions_written(child: Maar) -> int:
    """How often Maar has written to the status of a pod."""
    found = samples(child, "maar_writes_total").items()
    return round(sum(count for labels, count in found if ("resource", "pods/status") in labels))


def pod(name: str, namespace: str, resources: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": "c", "image": "train", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {}},
        "spec": {"schedulerName": "maar", "containers": containers},
    }


def hopeless(number: int) -> dict[str, Any]:
    """A pod that is larger than any node."""
    limits = {"limits": {GPU: str(2 * GPUS)}}
    return pod(f"hopeless-{number:05}", f"tenant-{number % TENANTS}", limits)


async def fill(api: Api, pods: int) -> None:
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
    status = {"allocatable": has, "capacity": has}
    for i in range(NODE_COUNT):
        head = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{i:02}"}}
        await api.create(NODES.path(), {**head, "status": status})
    for i in range(TENANTS):
        await api.create("/api/v1/namespaces", {"metadata": {"name": f"tenant-{i}"}})
    bodies = map(hopeless, range(pods))

    async def create() -> None:
        for body in bodies:
            await api.create(PODS.path(body["metadata"]["namespace"]), body)

    await in_parallel([create] * CREATING, CREATING)


async def create_gang(api: Api, begun: float, number: int) -> None:
    """One gang that fits, at its time."""
    await asyncio.sleep(max(begun + number * EVERY - time.monotonic(), 0.0))
    name = f"gang-{number:04}"
    metadata = {"name": name, "namespace": NAMESPACE}
    head = {"apiVersion": GROUPS.api_version, "kind": GROUPS.kind}
    await api.create(GROUPS.path(NAMESPACE), {**head, "metadata": metadata, "spec": {"minMember": GANG}})
    for i in range(GANG):
        body = pod(f"{name}-{i}", NAMESPACE, {"requests": {"cpu": "100m"}})
        body["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        await api.create(PODS.path(NAMESPACE), body)


async def flood(kubeconfig: Path, pods: int) -> dict[str, float]:
    api = await Api.open(load_access(str(kubeconfig)))
    begun = time.monotonic()
    await fill(api, pods)
    print(f"{pods:,} pods that never fit, created in {time.monotonic() - begun:.0f} s", flush=True)
    with maar(kubeconfig, "--lease-namespace", NAMESPACE) as child:
        await child.started()
        begun, unwritten = time.monotonic(), pods - conditions_written(child)
        print(f"first cycle: {unwritten:,} conditions are unwritten", flush=True)
        number = 0
        while conditions_written(child) < pods and number < MOST // GANG:
            await create_gang(api, begun, number)
            number += 1
        left = pods - conditions_written(child)
        await until(lambda: Delays(child).total >= number * GANG, "all binds are in the metrics")
        delays, spent, memory = Delays(child), child.cpu_seconds(), child.rss_mb()
        seconds = time.monotonic() - begun
    await api.close()
    print(
        f"{delays.total:,} binds in {seconds:.0f} s while {unwritten - left:,} conditions were written:"
        f" median {delays.quantile_ms(0.5):.0f} ms, p99 {delays.quantile_ms(0.99):.0f} ms; {spent:.0f} s CPU,"
        f" {memory:.0f} MB; {dict(sorted(delays.counts.items()))}",
        flush=True,
    )
    return {
        "waiting_pods": pods,
        "unwritten_conditions": unwritten,
        "flood_binds": delays.total,
        "bind_median_ms": round(delays.quantile_ms(0.5), 1),
        "bind_p99_ms": round(delays.quantile_ms(0.99), 1),
        "flood_rss_mb": round(memory, 1),
    }


def missed(found: dict[str, float]) -> list[str]:
    """What misses its bar."""
    few = found["flood_binds"] < ENOUGH or found["unwritten_conditions"] < 0.9 * found["waiting_pods"]
    slow = found["bind_p99_ms"] > BIND_P99_MS
    return [*(["too few binds while conditions were unwritten"] if few else []), *(["binds are late"] if slow else [])]
