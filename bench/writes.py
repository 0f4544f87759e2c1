"""Measures how much Maar writes while thousands of gangs wait, and how soon, on a real API server: `make bench-writes`.

First, `bench.writes_flood` measures how long binds wait while the first conditions of 20,000 pods are unwritten.

Then 2,000 gangs of 4 pods wait on 16 full nodes. Every second one running gang ends, another one is created, and Maar
starts the next. This program is also the kubelets and the owners: it marks bound pods as running, ends and deletes
gangs.

All figures come from the API server's own `apiserver_request_total`: every request that writes, whatever its result,
minus the requests that this program sent itself, which it counts by the same labels. What is left is Maar, its lease
included; the few writes of the API server to its own lease count as Maar's too. What is written until the first minutes
are over (every gang and pod gets its first condition then) is reported apart. The measurement begins after them. The
last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.real.cluster import RealCluster

from bench.cluster import CREATING, NAMESPACE, Maar, in_parallel, maar
from bench.writes_flood import BIND_P99_MS, flood
from bench.writes_flood import missed as late
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.informer import Changed, Delta, Informer, Replaced
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import NODES, PODS, Resource
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod

GANG = 4
NODE_COUNT, GPUS = 16, 8
GPU = "nvidia.com/gpu"
GROUPS = volcano_podgroup.KIND.resource
WRITING = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
KEPT = 5
"""Ended gangs that are not deleted yet."""
SAMPLE = re.compile(r"apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
PER_BIND, CPU_PERCENT, GROWTH_PERCENT = 5, 20, 10
"""The bars: writes per bind, the lease included, percent of one core, and percent by which memory may grow."""
LAST_LINE = (
    *("waiting_pods", "unwritten_conditions", "flood_binds", "bind_p99_ms", "bind_p99_ms_bar"),
    *("minutes", "binds", "writes", "writes_per_bind", "writes_per_bind_bar", "cpu_percent", "rss_mb_start"),
    *("rss_mb_end", "ok"),
)
"""The fields of the last line; the others are printed before it."""

Requests = Counter[tuple[str, str, str]]
"""Requests that write, by verb, resource and subresource."""


async def written(api: Api) -> Requests:
    """All requests that write, as the API server counts them."""
    found: Requests = Counter()
    for line in (await api.get("/metrics")).decode().splitlines():
        if (sample := SAMPLE.fullmatch(line)) is not None:
            labels = dict(LABEL.findall(sample["labels"]))
            if labels["verb"] in WRITING:
                found[labels["verb"], labels["resource"], labels["subresource"]] += int(float(sample["value"]))
    return found


class Own:
    """A client that counts what it writes."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.sent: Requests = Counter()

    async def create(self, resource: Resource[Object], body: dict[str, Any]) -> None:
        self.sent["POST", resource.plural, ""] += 1
        await self._api.create(resource.path(NAMESPACE), body)

    async def set_phase(self, pod: str, phase: str) -> None:
        self.sent["PATCH", PODS.plural, "status"] += 1
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {"phase": phase, "conditions": [ready]}
        await self._api.patch(PODS.path(NAMESPACE, pod, "status"), {"status": status}, "strategic")

    async def delete(self, resource: Resource[Object], name: str) -> None:
        self.sent["DELETE", resource.plural, ""] += 1
        await self._api.delete(resource.path(NAMESPACE, name), grace=0)

    async def of_others(self) -> Requests:
        """All requests that write, but those that this program sent."""
        found = await written(self._api)
        found.subtract(self.sent)
        return found


class Load:
    """The owners of all gangs, and the kubelets."""

    def __init__(self, own: Own, api: Api) -> None:
        self._own = own
        self._created = 0
        self._bound: Counter[str] = Counter()
        self._known: set[str] = set()
        self.running: deque[str] = deque()
        self._ended: deque[str] = deque()
        self._to_run: asyncio.Queue[str] = asyncio.Queue()
        self.ends = 0
        self._informer = Informer(api, PODS, self._see)

    def _see(self, delta: Delta[Pod]) -> None:
        found = delta.objects if isinstance(delta, Replaced) else [delta.object] if isinstance(delta, Changed) else []
        for pod in (item for item in found if isinstance(item, Pod)):
            if pod.spec.node_name and pod.status.phase == "Pending" and pod.name not in self._known:
                self._known.add(pod.name)
                self._to_run.put_nowait(pod.name)

    async def kubelets(self) -> None:
        """Mark bound pods as running."""
        while True:
            pod = await self._to_run.get()
            await self._own.set_phase(pod, "Running")
            gang = pod.rpartition("-")[0]
            self._bound[gang] += 1
            if self._bound[gang] == GANG:
                self.running.append(gang)

    async def create(self, count: int) -> None:
        names = [f"gang-{self._created + i:05}" for i in range(count)]
        self._created += count
        await in_parallel([lambda n=name: self._gang(n) for name in names], CREATING)  # type: ignore[misc]

    async def _gang(self, name: str) -> None:
        head = {"apiVersion": GROUPS.api_version, "kind": GROUPS.kind}
        metadata = {"name": name, "namespace": NAMESPACE}
        await self._own.create(GROUPS, {**head, "metadata": metadata, "spec": {"minMember": GANG}})
        for i in range(GANG):
            await self._own.create(PODS, pod(f"{name}-{i}", name))

    async def ends_and_begins(self) -> None:
        """Every second one gang ends and another one is created; gangs that ended before are deleted."""
        begun = time.monotonic()
        while True:
            self.ends += 1
            await asyncio.sleep(max(begun + self.ends - time.monotonic(), 0.0))
            if not self.running:
                continue
            gang = self.running.popleft()
            for i in range(GANG):
                await self._own.set_phase(f"{gang}-{i}", "Succeeded")
            self._ended.append(gang)
            await self.create(1)
            if len(self._ended) > KEPT:
                await self._delete(self._ended.popleft())

    async def _delete(self, gang: str) -> None:
        for i in range(GANG):
            await self._own.delete(PODS, f"{gang}-{i}")
            self._known.discard(f"{gang}-{i}")
        await self._own.delete(GROUPS, gang)
        del self._bound[gang]

    @asynccontextmanager
    async def goes_on(self) -> AsyncIterator[None]:
        works = [self._informer.run(), self.kubelets(), self.ends_and_begins()]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await self._informer.synced.wait()
            yield
        finally:
            failed = [task.exception() for task in tasks if task.done() and not task.cancelled()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if any(failed):
                raise RuntimeError(f"the load stopped: {failed}")


def pod(name: str, group: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}, "limits": {GPU: "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"scheduling.k8s.io/group-name": group}},
        "spec": {
            "schedulerName": "maar",
            "containers": [{"name": "c", "image": "train", "resources": resources}],
        },
    }


def node(name: str) -> dict[str, Any]:
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(GPUS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": has, "capacity": has},
    }


async def measure(kubeconfig: Path, gangs: int, first: float, minutes: float) -> dict[str, float]:
    """Run the load for some minutes, and measure after the first ones."""
    apis = [await Api.open(load_access(str(kubeconfig))) for _ in range(2)]
    own = Own(apis[0])
    for i in range(NODE_COUNT):
        await apis[0].create(NODES.path(), node(f"node-{i:02}"))
        own.sent["POST", NODES.plural, ""] += 1
    load = Load(own, apis[1])
    at_start = await own.of_others()
    with maar(kubeconfig, "--lease-namespace", NAMESPACE) as child:
        await child.started()
        await load.create(gangs + NODE_COUNT * GPUS // GANG)
        started = time.monotonic()
        async with load.goes_on():
            await _sleep_until(child, started, first * 60)
            before, begun, cpu = await own.of_others(), time.monotonic(), child.cpu_seconds()
            memory = child.rss_mb("VmRSS")
            initial = before - at_start
            print(f"initial writes, in the first {first:g} minutes: {_total(initial):,}", flush=True)
            await _sleep_until(child, started, (first + minutes) * 60)
            writes, seconds = await own.of_others() - before, time.monotonic() - begun
            spent, end = child.cpu_seconds() - cpu, child.rss_mb("VmRSS")
    for api in apis:
        await api.close()
    for (verb, resource, sub), count in sorted(writes.items(), key=lambda pair: -pair[1]):
        print(f"  {verb} {resource}{'/' if sub else ''}{sub}: {count / seconds:.2f} per second", flush=True)
    binds = writes["POST", PODS.plural, "binding"]
    return {
        "minutes": minutes,
        "seconds": round(seconds, 1),
        "initial_writes": _total(initial),
        "binds": binds,
        "writes": _total(writes),
        "writes_per_bind": round(_total(writes) / max(binds, 1), 2),
        "cpu_percent": round(100 * spent / seconds, 1),
        "rss_mb_start": round(memory, 1),
        "rss_mb_end": round(end, 1),
    }


def _total(requests: Requests) -> int:
    return sum(requests.values())


async def _sleep_until(child: Maar, started: float, seconds: float) -> None:
    """Sleep until some seconds after the start, and print the memory of Maar every minute."""
    while (left := started + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 60.0 - (time.monotonic() - started) % 60.0))
        print(f"after {(time.monotonic() - started) / 60:.1f} min: {child.rss_mb('VmRSS'):.0f} MB", flush=True)


def bars(found: dict[str, float]) -> list[str]:
    """What misses its bar."""
    checks: list[tuple[str, Callable[[], bool]]] = [
        ("no gang was bound", lambda: found["binds"] > 0),
        ("too many writes", lambda: found["writes_per_bind"] <= PER_BIND),
        ("too much CPU", lambda: found["cpu_percent"] < CPU_PERCENT),
        ("memory grows", lambda: found["rss_mb_end"] <= found["rss_mb_start"] * (1 + GROWTH_PERCENT / 100)),
    ]
    return [what for what, holds in checks if not holds()]


def main() -> None:
    """Measure and print; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="length of the measurement")
    parser.add_argument("--first", type=float, default=2, help="minutes before it, once all gangs exist")
    parser.add_argument("--gangs", type=int, default=2000, help="gangs that wait")
    parser.add_argument("--pods", type=int, default=20_000, help="waiting pods whose first conditions are unwritten")
    parser.add_argument("--only", choices=("flood", "gangs"), help="measure this part only")
    given = parser.parse_args()
    found: dict[str, float] = {"bind_p99_ms_bar": BIND_P99_MS, "writes_per_bind_bar": PER_BIND}
    missed: list[str] = []
    if given.only != "gangs":
        with RealCluster() as cluster:
            found |= asyncio.run(flood(cluster.kubeconfig, given.pods))
        missed += late(found)
    if given.only != "flood":
        with RealCluster() as cluster:
            found |= asyncio.run(measure(cluster.kubeconfig, given.gangs, given.first, given.minutes))
        missed += bars(found)
    found["ok"] = not missed
    print(f"missed: {', '.join(missed)}" if missed else "all bars are kept", flush=True)
    print(", ".join(f"{name} {value:,}" for name, value in found.items() if name not in LAST_LINE), flush=True)
    print(json.dumps({name: found[name] for name in LAST_LINE if name in found}))
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
