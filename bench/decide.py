"""Measures decisions: `make bench-decide`.

Prints (a) to (e), and one line of JSON at the end. Ratios are taken within one run, because machines are shared. Each
figure is the best of a few tries, also for the reference.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import reference, scenes
from maar.config.file import default_config
from maar.decide import decide
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

VOLCANO_PODS_PER_S = 419
"""Volcano's allocate in process with 1,000 nodes, measured on the same kind of machine."""

CONFIG = default_config(catalog())


def best(call: Callable[[], object], tries: int = 3) -> float:
    """Seconds of the fastest try."""
    times = []
    for _ in range(tries):
        gc.collect()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def placing(nodes: int, pods: int, tries: int = 3) -> tuple[float, float]:
    """Pods per second of a whole cycle, and of the reference on the same snapshot."""
    cluster = scenes.arriving(nodes, pods)
    snapshot = Snapshot(cluster)
    plan = decide(snapshot, CONFIG, 1e6)
    assert len(plan.bind) == pods, f"placed {len(plan.bind)} of {pods}: {plan.waiting[:3]}"
    seconds = best(lambda: decide(snapshot, CONFIG, 1e6), tries)
    assert reference.best_fit(Snapshot(cluster)) == pods
    return pods / seconds, pods / min(_yardstick(Snapshot(cluster)) for _ in range(tries))


def _yardstick(snapshot: Snapshot) -> float:
    return best(lambda: reference.best_fit(snapshot), 1)


def idle_ms() -> float:
    """Milliseconds of a cycle with nothing to do."""
    snapshot = Snapshot(scenes.running(5_000, 50_000))
    plan = decide(snapshot, CONFIG, 1e6)
    assert not plan.moves
    assert not plan.waiting
    return best(lambda: decide(snapshot, CONFIG, 1e6), 10) * 1000


def search_ms(cluster: Cluster, evicted_gangs: int) -> float:
    """Milliseconds of a cycle in which a gang needs room on a full cluster."""
    snapshot = Snapshot(cluster)
    plan = decide(snapshot, CONFIG, 1e6)
    assert len({e.task.rsplit("-", 1)[0] for e in plan.evict}) == evicted_gangs, plan.evict[:3]
    assert plan.waiting
    assert plan.waiting[0].reasons
    return best(lambda: decide(snapshot, CONFIG, 1e6), 5) * 1000


def rss_mb() -> float:
    """The memory of a process after one decision on 5,000 nodes and 50,000 pods."""
    command = [sys.executable, "-m", "bench.decide", "--memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def machine() -> str:
    """The machine of this run."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, Python {platform.python_version()}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="only hold the large cluster and print the memory")
    if parser.parse_args().memory:
        snapshot = Snapshot(scenes.running(5_000, 50_000))
        decide(snapshot, CONFIG, 1e6)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    print(f"on {machine()}")
    pods_per_s, reference_pods_per_s = placing(5_000, 50_000)
    print(
        f"(a) 50,000 pods in 2,500 gangs on 5,000 nodes: {50_000 / pods_per_s:.2f} s, {pods_per_s:,.0f} pods/s,"
        f" {pods_per_s / reference_pods_per_s:.2f} of a bare numpy loop ({reference_pods_per_s:,.0f} pods/s)"
    )
    small, _ = placing(1_000, 2_000, tries=5)
    print(
        f"    2,000 pods on 1,000 nodes: {2_000 / small * 1000:.0f} ms, {small:,.0f} pods/s,"
        f" {small / VOLCANO_PODS_PER_S:.0f} times Volcano's allocate"
    )
    idle = idle_ms()
    print(f"(b) nothing to do, 50,000 pods running on 5,000 nodes: {idle:.1f} ms")
    infeasible = search_ms(scenes.full(victims=False), 0)
    print(f"(c) 10 pods of 8 GPUs on 500 full nodes, no permitted victim: reasons in {infeasible:.1f} ms")
    print(f"    4,000 possible victims of which 10 gangs go: {search_ms(scenes.full(victims=True), 10):.0f} ms")
    memory = rss_mb()
    print(f"(d) memory of 5,000 nodes and 50,000 pods: {memory:.0f} MB")
    print("(e) how (a) grows:")
    for nodes, pods in ((1_000, 10_000), (2_500, 25_000), (5_000, 10_000), (10_000, 10_000), (10_000, 100_000)):
        speed, _ = placing(nodes, pods, tries=1)
        print(f"    {nodes:>6,} nodes, {pods:>7,} pods: {pods / speed:6.2f} s, {speed:>8,.0f} pods/s")
    print(
        json.dumps(
            {
                "pods_per_s": round(pods_per_s),
                "reference_pods_per_s": round(reference_pods_per_s),
                "small_pods_per_s": round(small),
                "idle_cycle_ms": round(idle, 2),
                "infeasible_ms": round(infeasible, 2),
                "rss_mb": round(memory),
            }
        )
    )


if __name__ == "__main__":
    main()
