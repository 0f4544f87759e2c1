"""Measures simulated shards, without an API server: `python -m bench.shards_sim`.

50,000 nodes of 8 GPUs, nearly full, and bursts of gangs (`bench.shards_scenes`). The same workload runs with one Maar,
with 4 and 16 shards that borrow, and with 4 and 16 static shards, which see only their own nodes, as with a consistent
hash in Volcano. Shards take steps in turn until a whole round changes nothing. Only decisions are measured, in CPU
seconds of one process: not the snapshots, and not what carries plans out. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace
from tests.support.simulated_shards import Shards

from bench.decide import machine
from bench.shards_scenes import Burst, Workload, gpus_of, workload
from maar.config.config import Config
from maar.config.file import default_config
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.shard import Standing, Step
from maar.sim.virtual import Virtual
from maar.testing.builders import GPU

SEED = 1
NODES, BURSTS, TURNOVER = 50_000, 8, 0.03
MOST_ROUNDS = 40
"""Rounds after which shards that are not quiet have failed; also the seconds that they have for wants."""


class Taken(NamedTuple):
    """One step of one shard."""

    turn: int
    """The round, counted over all bursts."""
    seconds: float
    changed: bool


class System(Protocol):
    """One kind of shards on one cluster."""

    virtual: Virtual
    """The whole cluster."""
    seconds: float
    """Of the last decision."""

    @property
    def lends(self) -> int: ...

    def step(self, shard: int) -> bool: ...
    def change(self, burst: Burst) -> None: ...


class Borrowing(Shards):
    """Shards as Maar has them. One shard is one Maar."""

    seconds = 0.0

    def __init__(self, cluster: Cluster, config: Config, shards: int) -> None:
        super().__init__(cluster, config, ShardMap.new(shards), pace=1.0 / shards)

    def decided(self, snapshot: Snapshot, standing: Standing) -> Step:
        start = time.process_time()
        taken = super().decided(snapshot, standing)
        self.seconds = time.process_time() - start
        return taken

    def change(self, burst: Burst) -> None:
        change(self.virtual, burst)

    @property
    def lends(self) -> int:
        return self.counts.lends


class Static:
    """Shards that see only their own nodes and the jobs of their own queues, each a cluster of its own."""

    lends = 0
    seconds = 0.0

    def __init__(self, cluster: Cluster, config: Config, shards: int) -> None:
        self.virtual = Virtual.of(cluster)
        self._config = config
        self._owners = ShardMap.new(shards)
        self._parts = [Virtual.of(self._part(cluster, shard)) for shard in range(shards)]

    def _part(self, cluster: Cluster, shard: int) -> Cluster:
        owners = self._owners
        jobs = tuple(job for job in cluster.jobs if owners.shard_of(job.queue) == shard)
        keys = {job.key for job in jobs}
        return replace(
            cluster,
            nodes=tuple(node for node in cluster.nodes if owners.owner_of(node.name) == shard),
            queues=tuple(queue for queue in cluster.queues if owners.shard_of(queue.name) == shard),
            jobs=jobs,
            tasks=tuple(task for task in cluster.tasks if task.job in keys),
        )

    def change(self, burst: Burst) -> None:
        change(self.virtual, burst)
        for shard, part in enumerate(self._parts):
            ends = tuple(key for key in burst.ends if key in part.jobs)
            arrives = tuple(one for one in burst.arrives if self._owners.shard_of(one.job.queue) == shard)
            change(part, Burst(ends, arrives))

    def step(self, shard: int) -> bool:
        snapshot = self._parts[shard].snapshot()
        start = time.process_time()
        plan = decide(snapshot, self._config, 0.0)
        self.seconds = time.process_time() - start
        self._parts[shard].carry_out(plan, 0.0)
        self.virtual.carry_out(plan, 0.0)
        return plan.moves


def change(virtual: Virtual, burst: Burst) -> None:
    """Some gangs end and others arrive."""
    for key in burst.ends:
        virtual.remove(key)
    for one in burst.arrives:
        virtual.put(one.job, one.tasks)


class Figures(NamedTuple):
    """What one kind of shards did with the workload."""

    name: str
    shards: int
    borrows: bool
    steps: list[Taken]
    idle: list[float]
    """Seconds of a step of each shard before anything waits."""
    rounds: list[int]
    """Rounds until quiet, of each burst."""
    pods: int
    gpus: list[int]
    """GPUs of arrived gangs that are placed, after each burst."""
    stranded: list[int]
    """GPUs that one Maar would place on the cluster as the shards left it, after each burst."""
    lends: int


def played(name: str, system: System, shards: int, work: Workload, config: Config) -> Figures:
    """Play all bursts."""
    gc.disable()  # most garbage is of the simulator
    made = Figures(name, shards, isinstance(system, Borrowing) and shards > 1, [], [], [], 0, [], [], 0)
    for _ in range(3):
        for shard in range(shards):
            assert not system.step(shard), f"{name}: not quiet at the beginning"
            made.idle.append(system.seconds)
    turn, arrived = 0, set[str]()
    for burst in work.bursts:
        system.change(burst)
        arrived.update(one.job.key for one in burst.arrives)
        first = turn
        while True:
            changed = False
            for shard in range(shards):
                moved = system.step(shard)
                made.steps.append(Taken(turn, system.seconds, moved))
                changed |= moved
            turn += 1
            if not changed:
                break
            assert turn - first < MOST_ROUNDS, f"{name}: not quiet after {MOST_ROUNDS} rounds"
        made.rounds.append(turn - first)
        made.gpus.append(_gpus_of_placed(system.virtual, arrived))
        made.stranded.append(_more(system.virtual.snapshot(), config))
        gc.collect()
    snapshot = system.virtual.snapshot()
    assert (snapshot.used <= snapshot.nodes.allocatable).all(), f"{name}: a node is over-committed"
    pods = sum(t.status is Status.BOUND for key in arrived for t in system.virtual.jobs[key][1])
    gc.enable()
    return made._replace(pods=pods, lends=system.lends)


def _gpus_of_placed(virtual: Virtual, arrived: Iterable[str]) -> int:
    tasks = (task for key in arrived for task in virtual.jobs[key][1] if task.status is Status.BOUND)
    return sum(dict(task.shape.requests)[GPU] for task in tasks)


def _more(snapshot: Snapshot, config: Config) -> int:
    """The GPUs that one Maar over the whole cluster would place now."""
    plan: Plan = decide(snapshot, config, 1e6)
    axis, tasks = snapshot.axes.index[GPU], snapshot.tasks
    shapes = tasks.shape[[tasks.number[bind.task] for bind in plan.bind]]
    return int(snapshot.shapes.requests[shapes, axis].sum())


class Row(NamedTuple):
    """The figures of one kind of shards, as printed."""

    kind: str
    shards: int
    borrows: bool
    pods: int
    pods_per_s: int
    """By one process that takes the steps of all shards in turn."""
    pods_per_s_own_cores: int
    """If each shard has its own core: the slowest step of each round counts."""
    busy_ms: float
    busy_p99_ms: float
    quiet_ms: float
    quiet_p99_ms: float
    idle_ms: float
    gpu_share: float
    """GPUs of arrived gangs that are placed, as a share of what one Maar places; mean over the bursts."""
    stranded_gpus: int
    """GPUs that are idle while a job waits that one Maar would place there; mean over the bursts."""
    lends: int
    rounds: float
    most_rounds: int


def row_of(made: Figures, one: Figures) -> Row:
    """The printed figures."""
    slowest = dict[int, float]()
    for taken in made.steps:
        slowest[taken.turn] = max(slowest.get(taken.turn, 0.0), taken.seconds)
    busy = [taken.seconds for taken in made.steps if taken.changed]
    quiet = [taken.seconds for taken in made.steps if not taken.changed]
    shares = [mine / theirs for mine, theirs in zip(made.gpus, one.gpus, strict=True)]
    return Row(
        made.name,
        made.shards,
        made.borrows,
        made.pods,
        round(made.pods / sum(taken.seconds for taken in made.steps)),
        round(made.pods / sum(slowest.values())),
        _ms(busy, 50),
        _ms(busy, 99),
        _ms(quiet, 50),
        _ms(quiet, 99),
        _ms(made.idle, 50),
        round(float(np.mean(shares)), 4),
        round(float(np.mean(made.stranded))),
        made.lends,
        round(float(np.mean(made.rounds)), 1),
        max(made.rounds),
    )


def _ms(seconds: list[float], percentile: int) -> float:
    return round(float(np.percentile(seconds, percentile)) * 1000, 1)


HEADINGS = (
    ("", "{0.kind}"),
    ("pods placed", "{0.pods:,}"),
    ("pods/s, all steps in one process", "{0.pods_per_s:,}"),
    ("pods/s, a core for each shard", "{0.pods_per_s_own_cores:,}"),
    ("busy step, median / p99, ms", "{0.busy_ms:.0f} / {0.busy_p99_ms:.0f}"),
    ("step that changes nothing, ms", "{0.quiet_ms:.0f} / {0.quiet_p99_ms:.0f}"),
    ("step when no job waits, ms", "{0.idle_ms:.0f}"),
    ("GPUs placed, share of one Maar", "{0.gpu_share:.4f}"),
    ("GPUs idle that one Maar would use", "{0.stranded_gpus:,}"),
    ("nodes lent", "{0.lends:,}"),
    ("rounds until quiet, mean / most", "{0.rounds:.1f} / {0.most_rounds}"),
)


def table(rows: list[Row]) -> str:
    """One line for each figure, one column for each kind."""
    lines = []
    for heading, form in HEADINGS:
        lines.append(f"{heading:<34}" + "".join(f"{form.format(row):>14}" for row in rows))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    # Locks come one a second, so that with `reserve` the result would depend on how long a round takes.
    config = default_config(catalog())
    config = replace(config, actions=tuple(a for a in config.actions if a.name not in ("elect", "reserve")))
    work = workload(options.seed, options.nodes, BURSTS, TURNOVER)
    arrive = [one for burst in work.bursts for one in burst.arrives]
    print(f"on {machine()}")
    print(
        f"{options.nodes:,} nodes of 8 GPUs, {len(work.cluster.tasks):,} pods running; {BURSTS} bursts of together"
        f" {len(arrive):,} gangs with {sum(len(a.tasks) for a in arrive):,} pods and"
        f" {sum(map(gpus_of, arrive)):,} GPUs, seed {options.seed}"
    )
    found = list[Figures]()
    for shards in (1, 4, 16):
        name = "one Maar" if shards == 1 else f"{shards} shards"
        found.append(played(name, Borrowing(work.cluster, config, shards), shards, work, config))
    for shards in (4, 16):
        found.append(played(f"{shards} static", Static(work.cluster, config, shards), shards, work, config))
    rows = [row_of(made, found[0]) for made in found]
    print(table(rows))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory {memory:.0f} MB, CPU {time.process_time():.0f} s")
    kept = [{name: value for name, value in row._asdict().items() if name != "kind"} for row in rows]
    print(json.dumps({"simulated": kept, "nodes": options.nodes, "rss_mb": round(memory)}))


if __name__ == "__main__":
    main()
