"""Measures a decision on a full cluster with a long backlog: `make bench-backlog`.

Every node is taken by gangs of whole nodes in ten queues; more gangs wait, of all sizes. Measured is the CPU time of a
first `decide` on a fresh snapshot, so nothing is known from an earlier cycle. A row is a size of the cluster and the
backlog, with priorities that differ or are all equal; the worst of five seeds counts. Each line also has the number of
evictions and a hash of the plan, so that two versions can be compared:

    python -m bench.backlog --nodes 600 --jobs 1000 --priorities differ --seeds 0

Before and after, the bare loop of `bench.decide` shows how fast the machine is: where others use it too, compare the
seconds of two runs as parts of it. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import time
from itertools import product
from typing import NamedTuple

import msgspec

from bench import reference, scenes
from maar.cli.reports.plan_json import plan_data
from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import Gang, cluster, gang, node

QUEUES, GPUS = 10, 8
PRIORITIES = (10, 100, 1000)
SEEDS = (0, 1, 2, 3, 4)
NOW = 1e6
BARS = {(600, 1_000): 0.15, (600, 5_000): 0.3, (5_000, 1_000): 0.8, (5_000, 5_000): 1.5}
"""CPU seconds by nodes and waiting gangs."""
KINDS = ("differ", "equal")
EVICTING = ("preempt", "reclaim")


class Found(NamedTuple):
    """What one decision took and decided."""

    seconds: float
    evictions: int
    plan: str
    """The start of a hash of the plan."""


def scene(nodes: int, jobs: int, *, differ: bool, seed: int) -> Cluster:
    """The full cluster with its backlog."""
    dice = random.Random(seed)
    names = [f"node-{i:05}" for i in range(nodes)]
    queues = [Queue(f"queue-{i}", weight=1 + i % 5) for i in range(QUEUES)]
    running: list[Gang] = []
    free = list(names)
    while free:
        pods = min(dice.randint(1, 8), len(free))
        on = [free.pop() for _ in range(pods)]
        running.append(_gang("runs", len(running), pods, GPUS, dice, differ, on))
    waiting = [_gang("waits", i, dice.randint(1, 32), dice.randint(1, GPUS), dice, differ) for i in range(jobs)]
    machines = [node(name, cpu=96, memory="768Gi", gpu=GPUS) for name in names]
    return cluster(machines, queues, running, waiting)


def _gang(
    name: str, i: int, pods: int, gpus: int, dice: random.Random, differ: bool, on: list[str] | None = None
) -> Gang:
    return gang(
        f"{name}-{i:05}",
        pods,
        cpu=4 * gpus,
        memory=f"{16 * gpus}Gi",
        gpu=gpus,
        on=on or (),
        priority=dice.choice(PRIORITIES) if differ else 0,
        queue=f"queue-{i % QUEUES}",
        created=float(i if on else 10_000 + i),
    )


def measure(nodes: int, jobs: int, config: Config, *, differ: bool, seed: int) -> Found:
    """One first decision."""
    snapshot = Snapshot(scene(nodes, jobs, differ=differ, seed=seed))
    gc.collect()
    start = time.process_time()
    plan = decide(snapshot, config, NOW)
    seconds = time.process_time() - start
    text = json.dumps(plan_data(plan), sort_keys=True)
    return Found(seconds, len(plan.evict), hashlib.sha256(text.encode()).hexdigest()[:16])


def bare_loop() -> float:
    """CPU seconds of the bare loop of `bench.decide`, 50,000 pods on 5,000 nodes: how fast the machine is now."""
    snapshot = Snapshot(scenes.arriving(5_000, 50_000))
    gc.collect()
    start = time.process_time()
    reference.best_fit(snapshot)
    return time.process_time() - start


def configured(*, evict: bool) -> Config:
    """The default configuration, or without the actions that evict."""
    config = default_config(catalog())
    actions = tuple(action for action in config.actions if evict or action.name not in EVICTING)
    return msgspec.structs.replace(config, actions=actions)


def main() -> None:
    """Measure and print the asked rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = sorted({nodes for nodes, _ in BARS}), sorted({jobs for _, jobs in BARS})
    parser.add_argument("--nodes", type=int, nargs="*", default=sizes[0])
    parser.add_argument("--jobs", type=int, nargs="*", default=sizes[1], help="how many gangs wait")
    parser.add_argument("--priorities", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--no-evictions", action="store_true", help="without the actions preempt and reclaim")
    given = parser.parse_args()
    config, rows, loop = configured(evict=not given.no_evictions), [], [bare_loop()]
    for nodes, jobs, kind in product(given.nodes, given.jobs, given.priorities):
        worst, bar = 0.0, BARS.get((nodes, jobs))
        for seed in given.seeds:
            found = measure(nodes, jobs, config, differ=kind == "differ", seed=seed)
            worst = max(worst, found.seconds)
            what = f"{nodes:>6,} nodes, {jobs:>6,} waiting gangs, {kind:<6} seed {seed}"
            print(f"{what}: {found.seconds:7.2f} s, {found.evictions:>4} evictions, plan {found.plan}", flush=True)
        row = {"nodes": nodes, "jobs": jobs, "priorities": kind, "seconds": round(worst, 3), "bar": bar}
        rows.append({**row, "ok": None if bar is None else worst <= bar})
    loop.append(bare_loop())
    print(f"the bare loop of bench.decide: {loop[0]:.2f} s before and {loop[1]:.2f} s after")
    print(json.dumps({"backlog": rows, "loop_s": round(min(loop), 3)}))


if __name__ == "__main__":
    main()
