"""Compares Maar with kube-scheduler 1.36 and Volcano 1.15 on a real API server: `make bench-peers`.

All get the same objects, on the same two cores: nodes, PodGroups and pods of gangs, with the scheduler's name in the
pods. kube-scheduler does not read the PodGroups: gangs are alpha in 1.36 and off, so it places pod by pod. Volcano's
scheduler runs alone, with the configuration of its Helm chart; its queue is opened here, which is all that its
controllers would do. The client limits of both are raised, so that they do not decide. Nobody is a kubelet.

Three scenes, each on a new server: a *burst* of gangs that are created as fast as possible, from the first create to
the last bind; a *backlog* of as many that were created before the scheduler starts; and on an *idle* cluster one pod at
a time, from create to bind, where the schedulers take turns on one server. The rounds go through the schedulers in
turn, the second one in reverse. Before and after them a loop that only binds measures the machine. Everything is the
mean of the rounds; latencies are of all pods of all rounds. The last line is JSON, the table before it is Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tests.support.real.cluster import RealCluster

from bench.cluster import (
    GANG,
    NAMESPACE,
    Watcher,
    bare_once,
    group,
    maar,
    make_gangs,
    make_nodes,
    one_by_one,
    p99_of,
    pod,
)
from bench.processes import cpu_seconds, memory_mb
from bench.writes import written
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.errors import AlreadyExists
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import QUEUES
from maar.model.queues import DEFAULT

RAISED = ("--kube-api-qps=10000", "--kube-api-burst=10000")
PATIENCE = 600.0
"""Seconds after which a scene fails."""
AFTER = 5.0
"""Seconds in which a scheduler writes what is left (statuses, events) before its cost is read; tuned by hand."""
PAUSE = 0.2
"""Mean seconds between two pods on the idle cluster: random, so that no period of a scheduler decides."""
MEDIAN_MS, P99_MS, P99_TIMES = 15.0, 15.0, 2.0
"""The bars: how many ms Maar's median may be above kube-scheduler's, and its p99 above `P99_TIMES` kube-scheduler's."""
SCENES = ("burst", "backlog", "idle")
Found = dict[str, float]


@dataclass(frozen=True, slots=True)
class Peer:
    """A scheduler."""

    name: str
    scheduler: str
    """What pods name."""
    run: Callable[[RealCluster], AbstractContextManager[int]]
    """Starts it; gives its process id."""
    singles: int
    """Pods of a round on the idle cluster: few for a scheduler that looks once a second."""


@contextmanager
def run_maar(cluster: RealCluster) -> Iterator[int]:
    with maar(cluster.kubeconfig) as child:
        yield child.pid


@contextmanager
def run_kube_scheduler(cluster: RealCluster) -> Iterator[int]:
    cluster.start_scheduler(flags=RAISED)
    yield cluster.processes.pid("kube-scheduler")
    cluster.processes.end("kube-scheduler")


@contextmanager
def run_volcano(cluster: RealCluster) -> Iterator[int]:
    cluster.start_volcano(flags=RAISED)
    yield cluster.processes.pid("volcano-scheduler")
    cluster.processes.end("volcano-scheduler")


PEERS = (
    Peer("maar", "maar", run_maar, 100),
    Peer("kube-scheduler", "default-scheduler", run_kube_scheduler, 100),
    Peer("volcano", "volcano", run_volcano, 25),
)


@contextmanager
def server() -> Iterator[RealCluster]:
    with RealCluster() as cluster:
        cluster.apply_volcano()
        yield cluster


async def prepare(api: Api, nodes: int) -> None:
    """Nodes, and an open default queue."""
    await make_nodes(api, nodes)
    body = QUEUES.document({"name": DEFAULT}, spec={"weight": 1, "reclaimable": True})
    with suppress(AlreadyExists):
        await api.create(QUEUES.path(), body)
    await api.patch(QUEUES.path("", DEFAULT, "status"), {"status": {"state": "Open"}}, "merge")


async def first_pod(api: Api, watcher: Watcher, peer: Peer, name: str) -> None:
    """Wait until the scheduler binds: it has read everything then."""
    await one_by_one(api, watcher, [await single(api, peer, name)])


async def single(api: Api, peer: Peer, name: str) -> dict[str, Any]:
    """A pod without a gang, with a PodGroup of its own, which Volcano's controllers would create."""
    body = group(name)
    body["spec"]["minMember"] = 1
    await api.create(volcano_podgroup.KIND.resource.path(NAMESPACE), body)
    return pod(name, name, scheduler=peer.scheduler)


@dataclass(slots=True)
class Costs:
    """What a scheduler has used since a moment, and the API server with it."""

    api: Api
    server: int
    served: float
    writes: int
    cpu: float = 0.0

    @classmethod
    async def since_now(cls, api: Api, cluster: RealCluster, pid: int | None = None) -> Costs:
        """Without a process, the scheduler is not started yet."""
        server, writes = cluster.processes.pid("kube-apiserver"), (await written(api)).total()
        return cls(api, server, cpu_seconds(server), writes, 0.0 if pid is None else cpu_seconds(pid))

    async def until_now(self, scene: str, pid: int, own: int, pods: int) -> Found:
        """`own`: the writes of this program since then."""
        await asyncio.sleep(AFTER)
        cpu, served = cpu_seconds(pid) - self.cpu, cpu_seconds(self.server) - self.served
        writes = (await written(self.api)).total() - self.writes - own
        return {
            f"{scene}_cpu_s": cpu,
            f"{scene}_server_cpu_s": served,
            f"{scene}_rss_mb": memory_mb(pid),
            f"{scene}_writes_per_pod": writes / pods,
        }


async def burst(cluster: RealCluster, peer: Peer, nodes: int, pods: int) -> Found:
    """Gangs are created as fast as possible while the scheduler runs."""
    api = await Api.open(load_access(str(cluster.kubeconfig)))
    await prepare(api, nodes)
    with peer.run(cluster) as pid:
        watcher = Watcher(api)
        await watcher.synced()
        await first_pod(api, watcher, peer, "warm")
        costs = await Costs.since_now(api, cluster, pid)
        begun = time.perf_counter()
        await make_gangs(api, "gang", pods, scheduler=peer.scheduler)
        await watcher.until(lambda: len(watcher.bound) > pods, PATIENCE)
        found = {"burst_pods_per_s": pods / (max(watcher.bound.values()) - begun)}
        found |= await costs.until_now("burst", pid, pods + pods // GANG, pods)
        await watcher.close()
    await api.close()
    return found


async def backlog(cluster: RealCluster, peer: Peer, nodes: int, pods: int) -> Found:
    """The gangs exist before the scheduler starts."""
    api = await Api.open(load_access(str(cluster.kubeconfig)))
    await prepare(api, nodes)
    await make_gangs(api, "gang", pods, scheduler=peer.scheduler)
    watcher = Watcher(api)
    await watcher.synced()
    costs, begun = await Costs.since_now(api, cluster), time.perf_counter()
    with peer.run(cluster) as pid:
        await watcher.until(lambda: len(watcher.bound) >= pods, PATIENCE)
        first, last = min(watcher.bound.values()), max(watcher.bound.values())
        found = {"backlog_pods_per_s": pods / (last - first), "backlog_s": last - begun}
        found |= await costs.until_now("backlog", pid, 0, pods)
    await watcher.close()
    await api.close()
    return found


async def idle(cluster: RealCluster, peer: Peer, prefix: str, times: int) -> list[float]:
    """Milliseconds from create to bind, one pod at a time."""
    api = await Api.open(load_access(str(cluster.kubeconfig)))
    bodies = [await single(api, peer, f"{prefix}-{number}") for number in range(times)]
    with peer.run(cluster):
        watcher = Watcher(api)
        await watcher.synced()
        await first_pod(api, watcher, peer, f"{prefix}-warm")
        await asyncio.sleep(AFTER)
        taken = await one_by_one(api, watcher, bodies, PAUSE)
        await watcher.close()
    await api.close()
    return taken


def in_turn(peers: Sequence[Peer], rounds: int) -> Iterator[Peer]:
    for number in range(rounds):
        yield from (peers if number % 2 == 0 else reversed(peers))


def throughput(scene: str, peers: Sequence[Peer], given: argparse.Namespace) -> dict[str, Found]:
    """A scene with each scheduler, on a new server each time: the means of its figures."""
    measure = burst if scene == "burst" else backlog
    runs: dict[str, list[Found]] = {peer.name: [] for peer in peers}
    for peer in in_turn(peers, given.rounds):
        with server() as cluster:
            run = asyncio.run(measure(cluster, peer, given.nodes, given.pods))
        runs[peer.name].append(run)
        print(f"{scene}, {peer.name}: {', '.join(f'{key} {value:.4g}' for key, value in run.items())}", flush=True)
    return {name: {key: statistics.mean(run[key] for run in of) for key in of[0]} for name, of in runs.items()}


def latencies(peers: Sequence[Peer], given: argparse.Namespace) -> dict[str, Found]:
    taken: dict[str, list[float]] = {peer.name: [] for peer in peers}
    with server() as cluster:
        asyncio.run(_prepared(cluster, given.nodes))
        for number, peer in enumerate(in_turn(peers, given.rounds)):
            times = max(int(peer.singles * given.singles / 100), 1)
            run = asyncio.run(idle(cluster, peer, f"{peer.name}-{number}", times))
            taken[peer.name] += run
            print(f"idle, {peer.name}: median {statistics.median(run):.1f} ms, p99 {p99_of(run):.1f} ms", flush=True)
    return {
        name: {"idle_median_ms": statistics.median(of), "idle_p99_ms": p99_of(of), "idle_pods": len(of)}
        for name, of in taken.items()
    }


async def _prepared(cluster: RealCluster, nodes: int) -> None:
    api = await Api.open(load_access(str(cluster.kubeconfig)))
    await prepare(api, nodes)
    await api.close()


ROWS = (
    ("a burst of {pods:,} pods in gangs of {gang}", "burst_pods_per_s", "{:.0f} pods/s"),
    ("its CPU", "burst_cpu_s", "{:.1f} s"),
    ("its memory", "burst_rss_mb", "{:.0f} MB"),
    ("CPU of the API server meanwhile", "burst_server_cpu_s", "{:.1f} s"),
    ("writes for each pod", "burst_writes_per_pod", "{:.2f}"),
    ("a backlog of as many, from the first bind to the last", "backlog_pods_per_s", "{:.0f} pods/s"),
    ("from the start of the scheduler to the last bind", "backlog_s", "{:.1f} s"),
    ("its CPU", "backlog_cpu_s", "{:.1f} s"),
    ("one pod on an idle cluster, median", "idle_median_ms", "{:.0f} ms"),
    ("p99", "idle_p99_ms", "{:.0f} ms"),
)


def table(found: dict[str, Found], pods: int) -> str:
    """The comparison in Markdown."""
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for what, key, form in ROWS:
        if all(key in of for of in found.values()):
            cells = " | ".join(form.format(of[key]) for of in found.values())
            lines.append(f"| {what.format(pods=pods, gang=GANG)} | {cells} |")
    return "\n".join(lines)


def missed(found: dict[str, Found]) -> list[str]:
    """What misses its bar."""
    mine, theirs = found.get("maar", {}), found.get("kube-scheduler", {})
    if "idle_p99_ms" not in mine or "idle_p99_ms" not in theirs:
        return []
    median, p99 = theirs["idle_median_ms"] + MEDIAN_MS, P99_TIMES * theirs["idle_p99_ms"] + P99_MS
    late = [("median", mine["idle_median_ms"], median), ("p99", mine["idle_p99_ms"], p99)]
    return [f"{what} {value:.1f} ms, bar {bar:.1f} ms" for what, value, bar in late if value > bar]


def main() -> None:
    """Measure and print; exit code 1 if a bar is missed."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--singles", type=int, default=100, help="pods of a round on the idle cluster")
    parser.add_argument("--only", choices=SCENES, action="append", help="play this scene only (may be repeated)")
    parser.add_argument("--peer", choices=names, action="append", help="measure this scheduler only (may be repeated)")
    given = parser.parse_args()
    scenes, peers = given.only or SCENES, [peer for peer in PEERS if peer.name in (given.peer or names)]
    found: dict[str, Found] = {peer.name: {} for peer in peers}
    # The bare loop runs before and after, and the mean counts: the speed of a shared machine changes.
    bare = [bare_once(given.nodes, given.pods)] if "burst" in scenes else []
    for scene in scenes:
        measured = latencies(peers, given) if scene == "idle" else throughput(scene, peers, given)
        for name, figures in measured.items():
            found[name] |= {key: round(value, 3) for key, value in figures.items()}
    if bare:
        bare.append(bare_once(given.nodes, given.pods))
    late = missed(found)
    print(f"\n{table(found, given.pods)}\n\nmissed: {'; '.join(late) or 'nothing'}", flush=True)
    settings = {"pods": given.pods, "nodes": given.nodes, "rounds": given.rounds}
    speed = {"bare_pods_per_s": round(statistics.mean(bare))} if bare else {}
    print(json.dumps({**settings, **speed, "schedulers": found, "ok": not late}))
    raise SystemExit(1 if late else 0)


if __name__ == "__main__":
    main()
