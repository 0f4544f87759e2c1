"""The workload of the simulated shards: a nearly full cluster, and bursts of gangs of queues of very different size.

All from one seed. Nodes of 8 GPUs stand in racks. Each top-level queue has work only on the nodes of its own shard when
the runs begin, as static shards would have left it, so that all kinds of shards begin with the same cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from maar.model.queues import Queue
from maar.model.snapshot import Cluster
from maar.shards.map import ShardMap
from maar.testing.builders import Gang, cluster, gang, node

GPUS = 8
RACK = 32
"""Nodes in a rack."""
QUEUES = 160
FINEST = 16
"""Running work lies within these shards. They are parts of the shards of any smaller power of two."""
FULL = 0.8
"""The share of nodes without a free GPU at the beginning."""
RUNNING_GANGS = (1, 2, 4, 8, 16, 32)
SIZES = ((1, 2, 3, 4), (6, 8, 12, 16), (24, 32, 48, 64), (128, 192, 256, 384))
"""Pods of an arriving gang, by class."""
SHARES = (75, 18, 6, 1)
"""How many of 100 arriving gangs are in each class."""
EACH = ((1, 1, 2, 4), (1, 2, 4, 8), (4, 8, 8, 8), (8,))
"""GPUs of a pod, by class."""
SKEW = 1.0
"""Exponent of the Zipf law of the queues: the first queue sends a sixth of all gangs."""


class Burst(msgspec.Struct, frozen=True):
    """What changes at one moment: running gangs that end, and gangs that arrive."""

    ends: tuple[str, ...]
    arrives: tuple[Gang, ...]


class Workload(msgspec.Struct, frozen=True):
    """A cluster with running work, and bursts."""

    cluster: Cluster
    bursts: tuple[Burst, ...]


def workload(seed: int, nodes: int, bursts: int, turnover: float) -> Workload:
    """A workload on this many nodes. In each burst gangs with `turnover` of all GPUs end, and larger ones arrive."""
    dice = random.Random(seed)
    names = [f"node-{i:05}" for i in range(nodes)]
    queues = [f"team-{i:03}" for i in range(QUEUES)]
    owners = ShardMap.new(FINEST)
    running = list[Gang]()
    for shard in range(FINEST):
        own = [name for name in names if owners.owner_of(name) == shard]
        running += _running(dice, own, [queue for queue in queues if owners.shard_of(queue) == shard], shard)
    begins = cluster(
        [
            node(name, gpu=GPUS, cpu=96, memory="768Gi", labels={"rack": f"r{i // RACK:04}"})
            for i, name in enumerate(names)
        ],
        [Queue(name) for name in queues],
        running,
    )
    ending = dice.sample(running, len(running))
    arriving = _arriving(dice, queues)
    amount = nodes * GPUS * turnover
    idle = nodes * GPUS - sum(map(gpus_of, running))
    return Workload(begins, tuple(_burst(ending, arriving, amount, idle / bursts) for _ in range(bursts)))


def _burst(ending: list[Gang], arriving: Iterator[Gang], amount: float, idle: float) -> Burst:
    """The gangs that arrive ask for all that becomes free in this burst, and for their part of what was idle before."""
    ends, arrives, free, asked = list[Gang](), list[Gang](), 0, 0
    while free < amount:
        ends.append(ending.pop())
        free += gpus_of(ends[-1])
    while asked < free + idle:
        arrives.append(next(arriving))
        asked += gpus_of(arrives[-1])
    return Burst(tuple(one.job.key for one in ends), tuple(arrives))


def gpus_of(made: Gang) -> int:
    """The GPUs of all pods of a gang."""
    return len(made.tasks) * dict(made.tasks[0].shape.requests)["nvidia.com/gpu"]


def _running(dice: random.Random, nodes: list[str], queues: list[str], shard: int) -> list[Gang]:
    """Gangs on these nodes that leave some room on some of them."""
    places: dict[int, list[str]] = {1: [], 2: [], 4: [], 8: []}
    for name in dice.sample(nodes, len(nodes)):
        left = GPUS - (0 if dice.random() < FULL else dice.choice((1, 2, 4, 8)))
        while left:
            each = dice.choice([size for size in places if size <= left and (size > 2 or left % 4)])
            places[each].append(name)
            left -= each
    made = list[Gang]()
    for each, where in places.items():
        at = 0
        while at < len(where):
            on = where[at : at + dice.choice(RUNNING_GANGS)]
            made.append(_gang(f"run-{shard:02}-{each}-{at:05}", len(on), each, dice.choice(queues), on=on))
            at += len(on)
    return made


def _arriving(dice: random.Random, queues: list[str]) -> Iterator[Gang]:
    order = dice.sample(queues, len(queues))
    weights = [1 / (place + 1) ** SKEW for place in range(len(order))]
    number = 0
    while True:
        number += 1
        (kind,) = dice.choices(range(len(SIZES)), SHARES)
        (queue,) = dice.choices(order, weights)
        size, each = dice.choice(SIZES[kind]), dice.choice(EACH[kind])
        yield _gang(f"new-{number:05}", size, each, queue, created=float(number))


def _gang(name: str, size: int, each: int, queue: str, on: list[str] | None = None, created: float = 0.0) -> Gang:
    """A gang that no other job may evict: this is about placing."""
    fields = {"preemptable": False, "controlled": True}
    return gang(name, size, cpu=each, gpu=each, queue=queue, on=on or [], created=created, task=fields)
