"""Measures `maar run` where thousands of gangs wait and work ends all the time: `make bench-live`.

On a real API server, 625 nodes of 8 GPUs are full: 5,000 pods run in gangs of 4. 5,000 more gangs of 4 wait in 50 equal
queues. Each second one in a hundred of the running pods ends, evenly over the second, and as many are created. This
program is also the kubelets and the owners: it marks bound pods as running, ends and deletes gangs.

A bind answers the room that was free for longest on its node: each node is full, so no other room is there. Measured
is the time between two events of one watch: a pod has ended, a pod is bound. So it includes how Maar's own watch learns
of the end, the decision, the announcement on the Lease, the request, and its way back. `cycles_per_s` counts decisions,
`cpu_percent` is of `maar run` alone, of one core, with all that it reads and writes. The last line is JSON, with the
bars and `ok`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.real.cluster import RealCluster

from bench.cluster import CREATING, NAMESPACE, Maar, in_parallel, maar, p99_of
from bench.writes import GPUS, GROUPS, node, pod
from bench.writes_flood import samples
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.informer import Changed, Delta, Informer, Replaced
from maar.kube.wire.api_resources import NODES, PODS, QUEUES
from maar.kube.wire.pods import Pod

GANG = 4
SHARE = 0.01
"""The part of the running pods that ends in a second."""
KUBELETS = 8
"""Pods that become running at once."""
CYCLES_PER_S, P99_MS, CPU_PERCENT, GROWTH_PERCENT = 5.0, 500.0, 50.0, 10.0
"""The bars."""


class Churn:
    """The owners of all gangs, and the kubelets."""

    def __init__(self, api: Api, nodes: int, waiting: int, queues: int) -> None:
        self._api = api
        self._nodes = nodes
        self._waiting = waiting
        self._queues = queues
        self._number = 0
        self._place: dict[str, str] = {}
        """The node of each bound pod, by name."""
        self._alive: Counter[str] = Counter()
        """The running pods of each gang."""
        self._running: deque[str] = deque()
        self._ended: deque[str] = deque()
        self._to_run: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._room: dict[str, deque[float]] = {}
        """When each free GPU became free, by node."""
        self.delays: list[float] = []
        """Milliseconds from room to bind."""
        self.gone = 0
        """Pods that Maar has evicted."""
        self.behind = 0.0
        """The most seconds by which an end came late."""
        self._watch = Informer(api, PODS, self._see)

    async def fill(self) -> None:
        """The nodes, the queues, the running gangs and the waiting ones."""
        nodes = [node(f"node-{i:05}") for i in range(self._nodes)]
        await in_parallel([partial(self._api.create, NODES.path(), body) for body in nodes], CREATING)
        for queue in range(self._queues):
            body = QUEUES.document({"name": f"queue-{queue:02}"}, spec={"weight": 1, "reclaimable": True})
            await self._api.create(QUEUES.path(), body)
        running = self._nodes * GPUS // GANG
        await in_parallel([partial(self._create, on_nodes=True)] * running, CREATING)
        await in_parallel([self._create] * self._waiting, CREATING)

    async def _create(self, on_nodes: bool = False) -> None:
        number = self._number
        self._number += 1
        name = f"gang-{number:06}"
        spec = {"minMember": GANG, "queue": f"queue-{number % self._queues:02}"}
        body = GROUPS.document({"name": name, "namespace": NAMESPACE}, spec=spec)
        await self._api.create(GROUPS.path(NAMESPACE), body)
        for i in range(GANG):
            body = pod(f"{name}-{i}", name)
            if on_nodes:
                body["spec"]["nodeName"] = f"node-{number * GANG // GPUS:05}"
            await self._api.create(PODS.path(NAMESPACE), body)
            if on_nodes:
                await self._start(f"{name}-{i}", body["spec"]["nodeName"])

    def _see(self, delta: Delta[Pod]) -> None:
        found = delta.objects if isinstance(delta, Replaced) else [delta.object] if isinstance(delta, Changed) else []
        now = time.perf_counter()
        for item in (item for item in found if isinstance(item, Pod)):
            place = self._place.get(item.name)
            if item.finished:
                if place:
                    self._place[item.name] = ""
                    self._room.setdefault(place, deque()).append(now)
            elif item.metadata.deletion_timestamp is not None:
                self.gone += 1
            elif item.spec.node_name and place is None:
                self._place[item.name] = item.spec.node_name
                self._to_run.put_nowait((item.name, item.spec.node_name))
                if room := self._room.get(item.spec.node_name):
                    self.delays.append(1000 * (now - room.popleft()))

    async def _kubelet(self) -> None:
        while True:
            await self._start(*await self._to_run.get())

    async def _start(self, name: str, place: str) -> None:
        self._place[name] = place
        await self._set_phase(name, "Running")
        gang = name.rpartition("-")[0]
        self._alive[gang] += 1
        if self._alive[gang] == GANG:
            self._running.append(gang)

    async def _set_phase(self, name: str, phase: str) -> None:
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        status = {"status": {"phase": phase, "conditions": [ready]}}
        await self._api.patch(PODS.path(NAMESPACE, name, "status"), status, "strategic")

    async def _turn(self, gang: str) -> None:
        """A gang ends, another one comes, and one that has ended before is deleted."""
        await asyncio.gather(*(self._set_phase(f"{gang}-{i}", "Succeeded") for i in range(GANG)), self._create())
        self._ended.append(gang)
        if len(self._ended) > GANG:
            await self._delete(self._ended.popleft())

    async def _delete(self, gang: str) -> None:
        for i in range(GANG):
            await self._api.delete(PODS.path(NAMESPACE, f"{gang}-{i}"), grace=0)
            self._place.pop(f"{gang}-{i}", None)
        await self._api.delete(GROUPS.path(NAMESPACE, gang), grace=0)
        del self._alive[gang]

    async def _turns(self) -> None:
        """Gangs end at fixed times, oldest first."""
        every = GANG / (SHARE * self._nodes * GPUS)
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while True:
                due += every
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
                self.behind = max(self.behind, time.monotonic() - due)
                if self._running:
                    group.create_task(self._turn(self._running.popleft()))

    @asynccontextmanager
    async def goes_on(self) -> AsyncIterator[None]:
        """Be the kubelets, and end gangs."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._watch.run()),
                *(group.create_task(self._kubelet()) for _ in range(KUBELETS)),
            ]
            await self._watch.synced.wait()
            tasks.append(group.create_task(self._turns()))
            yield
            for task in tasks:
                task.cancel()


def cycles(child: Maar) -> float:
    return sum(samples(child, "maar_cycle_seconds_count").values())


async def measure(kubeconfig: Path, given: argparse.Namespace) -> dict[str, float]:
    api = await Api.open(load_access(str(kubeconfig)))
    churn = Churn(api, given.nodes, given.jobs, given.queues)
    begun = time.monotonic()
    await churn.fill()
    print(f"the cluster is full and {given.jobs:,} gangs wait after {time.monotonic() - begun:.0f} s", flush=True)
    with maar(kubeconfig) as child:
        print(f"first cycle after {await child.started(600):.1f} s", flush=True)
        async with churn.goes_on():
            await asyncio.sleep(given.first * 60)
            churn.delays.clear()
            churn.behind = 0.0
            counted, began, cpu = cycles(child), time.monotonic(), child.cpu_seconds()
            memory = child.rss_mb("VmRSS")
            while (left := began + given.minutes * 60 - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 60.0))
                p99 = p99_of(churn.delays) if churn.delays else 0.0
                print(
                    f"after {(time.monotonic() - began) / 60:.1f} min: {len(churn.delays):,} binds, p99 {p99:.0f} ms,"
                    f" {child.cpu_seconds() - cpu:.0f} s CPU, {child.rss_mb('VmRSS'):.0f} MB",
                    flush=True,
                )
            seconds = time.monotonic() - began
            taken, spent, ran = list(churn.delays), child.cpu_seconds() - cpu, cycles(child) - counted
            end = child.rss_mb("VmRSS")
    await api.close()
    return {
        "minutes": given.minutes,
        "binds": len(taken),
        "binds_per_s": round(len(taken) / seconds, 1),
        "evicted": churn.gone,
        "load_late_s": round(churn.behind, 2),
        "cycles_per_s": round(ran / seconds, 1),
        "room_to_bind_median_ms": round(statistics.median(taken), 1) if taken else 0.0,
        "room_to_bind_p99_ms": round(p99_of(taken), 1) if taken else 0.0,
        "cpu_percent": round(100 * spent / seconds, 1),
        "cpu_ms_per_cycle": round(1000 * spent / max(ran, 1)),
        "rss_mb_start": round(memory, 1),
        "rss_mb_end": round(end, 1),
    }


def missed(found: dict[str, float]) -> list[str]:
    """What misses its bar."""
    checks: list[tuple[str, bool]] = [
        ("no pod was bound", found["binds"] > 0),
        ("too few cycles", found["cycles_per_s"] >= CYCLES_PER_S),
        ("binds come late", found["room_to_bind_p99_ms"] <= P99_MS),
        ("too much CPU", found["cpu_percent"] < CPU_PERCENT),
        ("memory grows", found["rss_mb_end"] <= found["rss_mb_start"] * (1 + GROWTH_PERCENT / 100)),
    ]
    return [what for what, holds in checks if not holds]


def main() -> None:
    """Measure and print; exit code 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="length of the measurement")
    parser.add_argument(
        "--first", type=float, default=3, help="minutes before it, in which every job gets its first condition"
    )
    parser.add_argument("--nodes", type=int, default=625)
    parser.add_argument("--jobs", type=int, default=5_000, help="gangs that wait")
    parser.add_argument("--queues", type=int, default=50)
    given = parser.parse_args()
    with RealCluster() as cluster:
        found: dict[str, Any] = asyncio.run(measure(cluster.kubeconfig, given))
    late = missed(found)
    print(f"missed: {', '.join(late) or 'nothing'}", flush=True)
    bars = {"cycles_per_s_bar": CYCLES_PER_S, "room_to_bind_p99_ms_bar": P99_MS, "cpu_percent_bar": CPU_PERCENT}
    print(json.dumps({**found, **bars, "ok": not late}))
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()
