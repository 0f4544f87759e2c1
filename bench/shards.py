"""Measures 1, 2 and 3 shards on the same machine: `make bench-shards`.

First the simulation (`bench.shards_sim`), if it is there. Then, live on a real API server and each on a new one: gangs
of 20 in several top-level queues are created as fast as possible, with one process for each shard. After that a gang
that needs nodes of other shards is compared with one that does not, and the holder of a shard is killed while another
process stands by.

`pods_per_s` is from the first create to the last bind. `cpu_s` and `rss_mb` are of all processes of Maar, for this
load. `takeover_s` is from the kill until a gang of that shard is bound, with nothing announced; the lease lasts 3 s.
`borrow_s` is how much longer a gang takes that must borrow. `writes_per_pod` are all writes that the API server counted
during the load, without those of this program. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from tests.support.live import NAMESPACE, Live
from tests.support.live_shards import LEASE_S, LiveShards, TakeOver, numbers_in
from tests.support.real.cluster import RealCluster

from bench.cluster import CREATING, GANG, Watcher, in_parallel, make_nodes, pod
from bench.processes import cpu_seconds, memory_mb
from bench.writes import Own, Requests
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import PODS
from maar.shards.slots import even, slot_of

MOST_SHARDS = 3
QUEUES_EACH = 2
"""Top-level queues for each shard, if there are three. One or two shards get the same queues."""
ANNOUNCED = (0, 16, 64, 256)
"""Announced writes of a dead holder."""
LENT, BORROWER = 20, 15
"""Nodes with one GPU in each shard, and the pods of a gang that needs one each: a second one must borrow 10."""
TIMES = 3
"""Gangs that borrow, in each of which the other gang comes first."""
SIMULATION = "bench.shards_sim"
GROUPS = volcano_podgroup.KIND.resource


def queue_names() -> list[str]:
    """Queues that are spread evenly over three shards."""
    slots, found = even(MOST_SHARDS), dict[int, list[str]]()
    for number in range(1000):
        name = f"team-{number}"
        found.setdefault(slots[slot_of(name)], []).append(name)
    return [name for shard in range(MOST_SHARDS) for name in found[shard][:QUEUES_EACH]]


async def load(api: Api, own: Own, pods: int) -> float:
    """Create gangs in all queues as fast as possible. Returns the seconds from the first create to the last bind."""
    watcher = Watcher(api)
    await watcher.synced()
    begun_with = len(watcher.bound)
    queues = queue_names()
    head = {"apiVersion": GROUPS.api_version, "kind": GROUPS.kind}

    async def gang(number: int) -> None:
        name = f"load-{number:04}"
        spec = {"minMember": GANG, "queue": queues[number % len(queues)]}
        await own.create(GROUPS, {**head, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
        for i in range(GANG):
            await own.create(PODS, pod(f"{name}-{i}", name))

    begun = time.perf_counter()
    await in_parallel([lambda n=number: gang(n) for number in range(pods // GANG)], CREATING)  # type: ignore[misc]
    await watcher.until(lambda: len(watcher.bound) >= begun_with + pods)
    seconds = watcher.last - begun
    await watcher.close()
    return seconds


async def borrow(play: LiveShards) -> float:
    """How much longer a gang takes that must borrow nodes; 0 with one shard, which has all of them."""
    if play.shards == 1:
        return 0.0
    for shard in range(play.shards):
        for number in islice(numbers_in(shard, play.shards, "n"), LENT):
            await play.live.nodes(1, gpu=1, first=number)
    more = []
    for turn in range(TIMES):
        shard = turn % play.shards
        fits = await play.gang(shard, BORROWER, gpu=1)
        borrows = await play.gang(shard, BORROWER, gpu=1)
        more.append(borrows - fits)
        print(f"  a gang that fits: {fits:.2f} s, one that must borrow: {borrows:.2f} s", flush=True)
        await _free_gpus(play.live)
    return statistics.median(more)


async def _free_gpus(live: Live) -> None:
    """Delete all pods that have a GPU, and wait until they are gone."""
    listed = await live.get(PODS.path(NAMESPACE))
    names = [
        item["metadata"]["name"]
        for item in listed["items"]
        if "limits" in (item["spec"]["containers"][0].get("resources") or {})
    ]
    await in_parallel([lambda n=name: live.api.delete(PODS.path(NAMESPACE, n), grace=0) for name in names], CREATING)  # type: ignore[misc]


async def take_overs(play: LiveShards, announced: tuple[int, ...]) -> list[TakeOver]:
    """Kill the holder of the last shard again and again, with more and more announced writes."""
    await play.waiting_pods(max(announced))
    found = []
    for number in announced:
        spare = play.start()
        await play.live.eventually(lambda s=spare: s.says("standing by"), "another process stands by")  # type: ignore[misc]
        found.append(await play.take_over(play.shards - 1, number))
        print(
            f"  {number} announced writes: the lease was taken after {found[-1].lease_s:.1f} s,"
            f" a gang bound after {found[-1].bind_s:.1f} s; gangs of other shards waited {found[-1].others_s:.2f} s",
            flush=True,
        )
    return found


async def measure(kubeconfig: Path, folder: Path, shards: int, nodes: int, pods: int) -> dict[str, Any]:
    """One run on a new server."""
    api = await Api.open(load_access(str(kubeconfig)))
    await make_nodes(api, nodes)
    live, own = Live(api), Own(api)
    play = LiveShards(live, kubeconfig, folder, shards)
    for name in queue_names():
        await live.queue(name, reclaimable=True)
    try:
        for _ in range(shards):
            play.start()
        await play.ready()
        before, spent = await own.of_others(), sum(cpu_seconds(child.pid) for child in play.children)
        seconds = await load(api, own, pods)
        cpu = sum(cpu_seconds(child.pid) for child in play.children) - spent
        memory = sum(memory_mb(child.pid) for child in play.children)
        writes = await own.of_others() - before
        _say(shards, pods, pods / seconds, cpu, memory, writes)
        borrowed = await borrow(play)
        found = await take_overs(play, ANNOUNCED)
    except BaseException:
        print(play.logs(), flush=True)
        raise
    finally:
        play.end()
        await api.close()
    return {
        "shards": shards,
        "pods_per_s": round(pods / seconds),
        "cpu_s": round(cpu, 1),
        "rss_mb": round(memory),
        "takeover_s": found[0].bind_s,
        "borrow_s": round(borrowed, 2),
        "writes_per_pod": round(sum(writes.values()) / pods, 2),
        "takeovers": {str(one.announced): one.bind_s for one in found},
        "others_waited_s": max(one.others_s for one in found),
    }


def _say(shards: int, pods: int, speed: float, cpu: float, memory: float, writes: Requests) -> None:
    print(
        f"{shards} {'shard' if shards == 1 else 'shards'}, {pods:,} pods in gangs of {GANG}: {speed:.0f} pods/s,"
        f" {cpu:.1f} s CPU, {memory:.0f} MB, {sum(writes.values()) / pods:.2f} writes for each pod",
        flush=True,
    )
    for (verb, resource, sub), count in sorted(writes.items(), key=lambda pair: -pair[1])[:6]:
        print(f"  {verb} {resource}{'/' if sub else ''}{sub}: {count:,}", flush=True)


def simulate() -> None:
    """Run the simulation, if it is there, in a process of its own: its memory is measured."""
    if importlib.util.find_spec(SIMULATION) is not None:
        subprocess.run([sys.executable, "-m", SIMULATION], check=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--shards", type=int, nargs="*", default=[1, 2, 3], help="numbers of shards")
    parser.add_argument("--only", choices=("simulated", "live"), help="measure this part only")
    given = parser.parse_args()
    if given.only != "live":
        simulate()
    if given.only == "simulated":
        return
    print(f"live, {given.nodes:,} nodes, one process for each shard, the lease lasts {LEASE_S} s", flush=True)
    runs = []
    for shards in given.shards:
        with RealCluster() as cluster, tempfile.TemporaryDirectory(prefix="maar-bench-") as folder:
            runs.append(asyncio.run(measure(cluster.kubeconfig, Path(folder), shards, given.nodes, given.pods)))
    print(json.dumps({"runs": runs}))


if __name__ == "__main__":
    main()
