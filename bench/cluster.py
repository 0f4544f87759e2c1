"""Measures a live Maar on a real API server: `make bench-cluster`.

Measures throughput in one run, each on a new server: a bare loop that only binds (no policy, no gangs), Maar on the
same gangs with and without intents (which it announces on its lease before it writes), and the bare loop again. Then
measures latency on an idle cluster, and the start with many running pods. The last line is JSON. `--only burst`
measures only Maar's throughput, `--only intents` what the intents cost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import until
from tests.support.real.cluster import RealCluster
from tests.support.real.processes import free_port

from bench.processes import cpu_seconds, memory_mb
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.informer import Changed, Delta, Informer, Removed, Replaced
from maar.kube.kinds import volcano_podgroup
from maar.kube.kinds.volcano_podgroup import VolcanoGroup
from maar.kube.wire.api_resources import NODES, PODS
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod

GANG = 20
NAMESPACE = "default"
CREATING = 32
"""Parallel creates."""
BINDING = 64
"""Parallel binds in the bare loop, as in Maar."""


def pod(name: str, group: str, node: str = "", scheduler: str = "maar") -> dict[str, Any]:
    of_group = {"scheduling.k8s.io/group-name": group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": of_group},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "train", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            **({"nodeName": node} if node else {}),
        },
    }


def group(name: str) -> dict[str, Any]:
    head = {"apiVersion": volcano_podgroup.KIND.resource.api_version, "kind": "PodGroup"}
    return {**head, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"minMember": GANG}}


async def in_parallel(works: list[Callable[[], Any]], many: int) -> None:
    """Await all calls, with limited parallelism."""
    left = iter(works)

    async def worker() -> None:
        for work in left:
            await work()

    await asyncio.gather(*(worker() for _ in range(many)))


async def make_nodes(api: Api, count: int) -> None:
    """Create nodes with room for all pods."""
    has = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{i:05}"}, "status": {"allocatable": has}}
        for i in range(count)
    ]
    await in_parallel([lambda n=node: api.create(NODES.path(), n) for node in nodes], CREATING)  # type: ignore[misc]


class Watcher:
    """Watches for pods with a node and running groups."""

    def __init__(self, api: Api) -> None:
        self.bound: dict[str, float] = {}
        """When each pod was first seen with a node."""
        self.running: dict[str, float] = {}
        self.last = 0.0
        """When the last of them was seen."""
        self.changed = asyncio.Event()
        self._pods = Informer(api, PODS, self._pod)
        self._groups = Informer(api, volcano_podgroup.KIND.resource, self._group)
        self._tasks = [asyncio.create_task(i.run()) for i in (self._pods, self._groups)]

    async def synced(self) -> None:
        """Wait until both are listed."""
        await asyncio.gather(self._pods.synced.wait(), self._groups.synced.wait())

    def _pod(self, delta: Delta[Pod]) -> None:
        if isinstance(delta, Changed) and isinstance(delta.object, Pod) and delta.object.spec.node_name:
            self._note(self.bound, delta.object.key)
        elif isinstance(delta, Removed):
            self.bound.pop(f"{delta.namespace}/{delta.name}", None)

    def _group(self, delta: Delta[VolcanoGroup]) -> None:
        if isinstance(delta, Replaced | Removed):
            return
        item: Object | Any = delta.object
        if isinstance(item, VolcanoGroup) and item.status.phase == "Running":
            self._note(self.running, item.key)

    def _note(self, where: dict[str, float], key: str) -> None:
        if key not in where:
            where[key] = self.last = time.perf_counter()
        self.changed.set()

    async def until(self, done: Callable[[], bool], patience: float = 180.0) -> None:
        """Wait until a condition on the watched objects holds."""
        async with asyncio.timeout(patience):
            while not done():
                self.changed.clear()
                await self.changed.wait()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def make_gangs(api: Api, prefix: str, pods: int, groups: bool = True, scheduler: str = "maar") -> None:
    """Create gangs as fast as possible."""
    names = [f"{prefix}-{i:04}" for i in range(pods // GANG)]
    path, group_path = PODS.path(NAMESPACE), volcano_podgroup.KIND.resource.path(NAMESPACE)

    async def gang(name: str) -> None:
        if groups:
            await api.create(group_path, group(name))
        for i in range(GANG):
            await api.create(path, pod(f"{name}-{i}", name, scheduler=scheduler))

    await in_parallel([lambda n=name: gang(n) for name in names], CREATING)  # type: ignore[misc]


async def burst(api: Api, watcher: Watcher, prefix: str, pods: int, groups: bool) -> float:
    """Create gangs as fast as possible. Returns the seconds from the first create to the last bind and status."""
    begun = time.perf_counter()
    await make_gangs(api, prefix, pods, groups)
    wanted = pods // GANG
    await watcher.until(lambda: len(watcher.bound) >= pods and (not groups or len(watcher.running) >= wanted))
    return watcher.last - begun


async def bare(kubeconfig: Path, nodes: int, pods: int) -> float:
    """Pods per second of a loop that only binds the next pod to the next node."""
    api, binder = await Api.open(load_access(str(kubeconfig))), await Api.open(load_access(str(kubeconfig)))
    watcher = Watcher(api)
    await watcher.synced()
    waiting: asyncio.Queue[Pod] = asyncio.Queue()
    seen: set[str] = set()

    def sink(delta: Delta[Pod]) -> None:
        if isinstance(delta, Changed) and isinstance(delta.object, Pod):
            item = delta.object
            if not item.spec.node_name and item.metadata.uid not in seen:
                seen.add(item.metadata.uid)
                waiting.put_nowait(item)

    async def bind(number: int) -> None:
        turn = number
        while True:
            item = await waiting.get()
            turn += BINDING
            await binder.bind(item.namespace, item.name, item.metadata.uid, f"node-{turn % nodes:05}")

    informer = Informer(binder, PODS, sink)
    tasks = [asyncio.create_task(informer.run()), *(asyncio.create_task(bind(i)) for i in range(BINDING))]
    await informer.synced.wait()
    seconds = await burst(api, watcher, "bare", pods, groups=False)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await watcher.close()
    await api.close()
    await binder.close()
    return pods / seconds


class Maar:
    """`maar run` as a child process, with its CPU time and memory."""

    def __init__(self, kubeconfig: Path, *options: str) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "maar.cli.main", "run", "--kubeconfig", str(kubeconfig)]
        self.begun = time.time()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        self._process = subprocess.Popen(
            [*command, "--history", "none", "--http-port", str(self.port), *(options or ("--no-leader-elect",))],
            stderr=self._log,
        )

    def first_cycle(self) -> float:
        """When its first cycle ended, in Unix seconds; 0 before. The page with the metrics may be a second old."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=1) as page:
                lines = page.read().decode().splitlines()
        except OSError:
            return 0.0
        return next((float(line.split()[1]) for line in lines if line.startswith("maar_first_cycle_timestamp")), 0.0)

    async def started(self, patience: float = 120.0) -> float:
        """Seconds until the end of its first cycle."""

        async def ended() -> float:
            if self._process.poll() is not None:
                raise RuntimeError("maar did not start")
            return self.first_cycle()

        return await until(ended, "maar has decided", patience) - self.begun

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_seconds(self) -> float:
        """CPU seconds used so far."""
        return cpu_seconds(self.pid)

    def rss_mb(self, field: str = "VmHWM") -> float:
        """Peak memory; with `VmRSS`, memory now."""
        if self._process.poll() is not None:
            self._log.seek(0)
            last = self._log.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"maar ended with exit code {self._process.returncode}: {last}")
        return memory_mb(self.pid, field)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def maar(kubeconfig: Path, *options: str) -> Iterator[Maar]:
    child = Maar(kubeconfig, *options)
    try:
        yield child
    finally:
        child.stop()


async def throughput(kubeconfig: Path, pods: int, *options: str) -> tuple[float, float, float]:
    """Pods per second, CPU seconds and memory of Maar."""
    api = await Api.open(load_access(str(kubeconfig)))
    with maar(kubeconfig, "--no-leader-elect", *options) as child:
        await child.started()
        watcher = Watcher(api)
        await watcher.synced()
        before = child.cpu_seconds()
        seconds = await burst(api, watcher, "gang", pods, groups=True)
        spent, memory = child.cpu_seconds() - before, child.rss_mb()
        await watcher.close()
    await api.close()
    return pods / seconds, spent, memory


def singles(prefix: str, count: int) -> list[dict[str, Any]]:
    """Pods without a gang."""
    return [pod(f"{prefix}-{i}", "") for i in range(count)]


async def one_by_one(api: Api, watcher: Watcher, bodies: Iterable[dict[str, Any]], pause: float = 0.0) -> list[float]:
    """Milliseconds from create to bind, one pod at a time, with pauses of about this many seconds between them."""
    taken, dice = [], random.Random(0)
    for body in bodies:
        await asyncio.sleep(dice.uniform(0.5, 1.5) * pause)
        key = f"{NAMESPACE}/{body['metadata']['name']}"
        begun = time.perf_counter()
        await api.create(PODS.path(NAMESPACE), body)
        await watcher.until(lambda key=key: key in watcher.bound)  # type: ignore[misc]
        taken.append((watcher.bound[key] - begun) * 1000)
    return taken


def p99_of(taken: list[float]) -> float:
    return sorted(taken)[max(int(len(taken) * 0.99) - 1, 0)]


async def latencies(kubeconfig: Path, times: int) -> list[float]:
    """Milliseconds from create to bind, one pod at a time."""
    api = await Api.open(load_access(str(kubeconfig)))
    with maar(kubeconfig) as child:
        await child.started()
        watcher = Watcher(api)
        await watcher.synced()
        taken = await one_by_one(api, watcher, singles("single", times))
        await watcher.close()
    await api.close()
    return taken


async def startup(kubeconfig: Path, nodes: int, pods: int) -> float:
    """Seconds from the start to the end of the first cycle, with many pods already running."""
    api = await Api.open(load_access(str(kubeconfig)))
    await make_nodes(api, nodes)
    path = PODS.path(NAMESPACE)
    bodies = [pod(f"old-{i}", f"old-{i // GANG}", f"node-{i % nodes:05}") for i in range(pods)]
    await in_parallel([lambda b=body: api.create(path, b) for body in bodies], CREATING)  # type: ignore[misc]
    await api.close()
    with maar(kubeconfig) as child:
        return await child.started()


PARTS = ("bare", "burst", "intents", "latency", "startup")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--start-pods", type=int, default=50_000)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part only (may be repeated)")
    given = parser.parse_args()
    parts = given.only or PARTS
    found: dict[str, float] = {}
    # The bare loop runs before and after the burst, and the mean counts: the speed of a shared machine changes.
    bare_speeds = [bare_once(given.nodes, given.pods)] if "bare" in parts else []
    if "intents" in parts:
        found |= intents_cost(given.nodes, given.pods)
    elif "burst" in parts:
        found |= burst_once(given.nodes, given.pods)
    if bare_speeds:
        bare_speeds.append(bare_once(given.nodes, given.pods))
        found["bare_pods_per_s"] = round(statistics.mean(bare_speeds))
    if bare_speeds and "pods_per_s" in found:
        print(f"Maar reaches {found['pods_per_s'] / found['bare_pods_per_s']:.2f} of the bare loop", flush=True)
    if "latency" in parts:
        found |= latency_once(given.nodes)
    if "startup" in parts:
        found |= startup_once(5_000, given.start_pods)
    print(json.dumps(found))


def bare_once(nodes: int, pods: int) -> float:
    with RealCluster() as cluster:
        asyncio.run(_nodes(cluster.kubeconfig, nodes))
        speed = asyncio.run(bare(cluster.kubeconfig, nodes, pods))
    print(f"a bare loop that only binds: {speed:.0f} pods/s", flush=True)
    return speed


def intents_cost(nodes: int, pods: int) -> dict[str, float]:
    """Measure with intents, without, and again in the other order, because the speed of a shared machine changes."""
    runs: dict[bool, list[dict[str, float]]] = {True: [], False: []}
    for announced in (True, False, False, True):
        runs[announced].append(burst_once(nodes, pods, announced))
    speed, cpu, memory = ([_mean(runs[announced], key) for announced in (True, False)] for key in BURST)
    slower, more = 1 - speed[0] / speed[1], cpu[0] / cpu[1] - 1
    print(
        f"intents cost {100 * slower:.0f} % of the throughput ({speed[0]:.0f} of {speed[1]:.0f} pods/s)"
        f" and {100 * more:.0f} % more CPU ({cpu[0]:.1f} s, {cpu[1]:.1f} s without)",
        flush=True,
    )
    found = {"pods_per_s": round(speed[0]), "cpu_s": round(cpu[0], 1), "rss_mb": round(memory[0])}
    return found | {"without_intents_pods_per_s": round(speed[1]), "without_intents_cpu_s": round(cpu[1], 1)}


def _mean(runs: list[dict[str, float]], key: str) -> float:
    return statistics.mean(run[key] for run in runs)


BURST = ("pods_per_s", "cpu_s", "rss_mb")


def burst_once(nodes: int, pods: int, announced: bool = True) -> dict[str, float]:
    options = () if announced else ("--without-intents",)
    with RealCluster() as cluster:
        asyncio.run(_nodes(cluster.kubeconfig, nodes))
        speed, cpu, memory = asyncio.run(throughput(cluster.kubeconfig, pods, *options))
    print(
        f"Maar{'' if announced else ' without intents'}, {pods:,} pods in gangs of {GANG} on {nodes:,} nodes:"
        f" {speed:.0f} pods/s, {cpu:.1f} s CPU, {memory:.0f} MB",
        flush=True,
    )
    return {"pods_per_s": round(speed), "cpu_s": round(cpu, 1), "rss_mb": round(memory)}


def latency_once(nodes: int) -> dict[str, float]:
    with RealCluster() as cluster:
        asyncio.run(_nodes(cluster.kubeconfig, nodes))
        taken = asyncio.run(latencies(cluster.kubeconfig, 200))
    p99 = p99_of(taken)
    print(
        f"one pod on an idle cluster, 200 times: median {statistics.median(taken):.0f} ms, p99 {p99:.0f} ms", flush=True
    )
    return {"latency_p99_ms": round(p99, 1)}


def startup_once(nodes: int, pods: int) -> dict[str, float]:
    with RealCluster() as cluster:
        start = asyncio.run(startup(cluster.kubeconfig, nodes, pods))
    print(f"start with {nodes:,} nodes and {pods:,} bound pods: first cycle after {start:.1f} s", flush=True)
    return {"startup_s": round(start, 1)}


async def _nodes(kubeconfig: Path, count: int) -> None:
    api = await Api.open(load_access(str(kubeconfig)))
    await make_nodes(api, count)
    await api.close()


if __name__ == "__main__":
    main()
