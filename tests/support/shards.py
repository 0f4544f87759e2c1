"""Random workloads for simulated shards, and what must hold when they are quiet."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace
from tests.support.simulated_shards import Shards

from maar.config.config import Config
from maar.decide import decide
from maar.model.plan import Plan
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.shards.map import ShardMap
from maar.shards.shard import Step
from maar.testing.builders import GPU, Gang, gang, node
from maar.testing.builders import cluster as built
from maar.testing.scenario import check_invariants

STEPS = 600
"""Steps after which shards that are not quiet have failed."""


def electing(config: Config) -> Config:
    """Jobs are elected without a wait. Without `proportion`, which would keep room for a job's queue by itself."""
    tiers = tuple(
        tuple(
            replace(option, arguments=replace(option.arguments, after="0s")) if option.name == "reservation" else option
            for option in tier
            if option.name != "proportion"
        )
        for tier in config.tiers
    )
    return replace(config, tiers=tiers)


def workload(seed: int, *, nodes: tuple[int, int] = (10, 40), busy: bool = True) -> Cluster:
    """Gangs of two to four top-level queues that ask for about as many GPUs as there are; some run already."""
    dice = random.Random(seed)
    machines = [node(f"n{i}", gpu=dice.choice((4, 8)), cpu=64) for i in range(dice.randint(*nodes))]
    queues = [f"team-{number}" for number in dice.sample(range(100), dice.randint(2, 4))]
    gpus = sum(n.allocatable[GPU] for n in machines)
    free = {n.name: n.allocatable[GPU] for n in machines}
    asked, gangs = 0, list[Gang]()
    while asked < gpus * dice.choice((0.8, 1.1, 1.5)) and len(gangs) < 80:
        size, each = dice.choice((1, 1, 2, 3, 4, 6, 8, 12)), dice.choice((1, 1, 2, 4))
        minimum = size if dice.random() < 0.7 else dice.randint(1, size)
        asked += size * each
        on = list[str]()
        if busy and dice.random() < 0.4:
            on = fill(free, dice, size, each)
        gangs.append(
            gang(
                f"g{len(gangs):02}",
                size,
                minimum=minimum,
                gpu=each,
                on=on,
                priority=dice.choice((0, 0, 1, 2)),
                queue=dice.choice(queues),
                created=float(len(gangs)),
                task={"controlled": True},
            )
        )
    weights = [Queue(name, weight=dice.choice((1, 1, 2, 3))) for name in queues]
    if dice.random() < 0.3:
        weights[0] = replace(weights[0], capability={GPU: gpus // 2})
    return built(*machines, *gangs, *weights)


def fill(free: dict[str, int], dice: random.Random, size: int, each: int) -> list[str]:
    """Nodes with room for the whole gang, or none."""
    on, left = list[str](), dict(free)
    for name in dice.sample(sorted(left), len(left)):
        while left[name] >= each and len(on) < size:
            left[name] -= each
            on.append(name)
    if len(on) == size:
        free.update(left)
        return on
    return []


def turns(shards: int, seed: int) -> Iterator[int]:
    """A random order of steps in which each shard has its turn again and again."""
    dice = random.Random(seed)
    rounds = (dice.sample(range(shards), shards) for _ in range(STEPS // shards))
    return itertools.chain.from_iterable(rounds)


def settled(cluster: Cluster, config: Config, shards: int, seed: int = 0, now: float = 100.0) -> Shards:
    """The cluster after the shards have come to rest."""
    made = Shards(cluster, config, ShardMap.new(shards), now, check_step)
    assert made.settle(turns(shards, seed)), f"not quiet after {STEPS} steps"
    elected = [want for wants in made.wants.values() for want in wants if want.elected is not None]
    assert len(elected) <= 1, f"nodes are locked for several jobs: {elected}"
    return made


def check_step(before: Cluster, taken: Step, after: Cluster) -> None:
    """No node is over-committed, no gang in part, no queue above its limit, and nothing happens twice."""
    check_invariants(before, taken.plan, after)
    for queue in after.queues:
        used, was = _used(after, queue.name), _used(before, queue.name)
        over = {
            name: used[name] for name, most in (queue.capability or {}).items() if used[name] > max(most, was[name])
        }
        assert not over, f"queue {queue.name} is above its limit: {over}"
    assert not {lend.node for lend in taken.lends} & {bind.node for bind in taken.plan.bind}


def _used(cluster: Cluster, queue: str) -> Counter[str]:
    """What the running pods of a queue, and of the queues below it, request."""
    below = {queue} | {other.name for other in cluster.queues if other.parent == queue}
    jobs, used = {job.key for job in cluster.jobs if job.queue in below}, Counter[str]()
    for task in cluster.tasks:
        if task.status is Status.BOUND and task.job in jobs:
            used.update(dict(task.shape.requests))
    return used


def left_over(shards: Shards) -> Plan:
    """What one Maar would do on the cluster as the shards left it."""
    return decide(Snapshot(shards.virtual.cluster()), shards.config, shards.now)


def gpus_placed(cluster: Cluster) -> int:
    return sum(dict(t.shape.requests).get(GPU, 0) for t in cluster.tasks if t.status is Status.BOUND)


def running(cluster: Cluster) -> Counter[str]:
    return Counter(t.job for t in cluster.tasks if t.status in (Status.BOUND, Status.SUCCEEDED))
