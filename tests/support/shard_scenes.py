"""Random clusters for simulated shards with racks, trees of queues, DaemonSets, and a large job among small ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.shards import check_step, fill
from tests.support.simulated_shards import Shards

from maar.config.config import Config
from maar.model.jobs import Closeness, Job
from maar.model.nodes import Node
from maar.model.queues import Queue
from maar.model.selectors import NodeTerm, Requirement
from maar.model.snapshot import Cluster
from maar.model.tasks import Status, Task
from maar.shards.map import ShardMap
from maar.testing.builders import GPU, Gang, cluster, gang, node, shape, tasks


def racks(seed: int, shards: int, torn: bool) -> Cluster:
    """Gangs of which most must lie within one rack. Racks belong to one shard each, or are torn apart."""
    dice, owners = random.Random(seed), ShardMap.new(shards)
    machines = list[Node]()
    for rack in range(dice.randint(2, 4)):
        every = (f"r{rack}-n{i}" for i in itertools.count())
        names = (name for name in every if torn or owners.owner_of(name) == rack % shards)
        of_rack = itertools.islice(names, dice.randint(2, 4))
        machines += [node(name, gpu=4, labels={"rack": f"r{rack}"}) for name in of_rack]
    closeness = (Closeness("rack"), Closeness("rack"), Closeness("rack", hard=False), None)
    queues = _queues(dice)
    gangs = list(_gangs(dice, machines, queues, 1.2, lambda: {"closeness": dice.choice(closeness)}))
    return cluster(machines, gangs, queues)


def tree(seed: int) -> Cluster:
    """Queues below queues, with limits and shares at both levels."""
    dice = random.Random(seed)
    machines = [node(f"n{i}", gpu=4) for i in range(dice.randint(4, 10))]
    gpus, queues, leaves = 4 * len(machines), list[Queue](), list[Queue]()
    for number in dice.sample(range(100), dice.randint(2, 3)):
        top = Queue(f"top-{number}", deserved={GPU: dice.randint(0, gpus // 2)}, capability=_limit(dice, gpus))
        below = [
            Queue(f"{top.name}-{i}", parent=top.name, deserved={GPU: 1}, capability=_limit(dice, gpus))
            for i in range(dice.randint(1, 3))
        ]
        queues += [top, *below]
        leaves += below
    return cluster(machines, list(_gangs(dice, machines, leaves, 1.2)), queues)


def _limit(dice: random.Random, gpus: int) -> dict[str, int] | None:
    return {GPU: dice.randint(1, gpus)} if dice.random() < 0.6 else None


def daemons(seed: int) -> Cluster:
    """Gangs, and pods of DaemonSets that are tied to one node each; some nodes are full."""
    dice = random.Random(seed)
    machines = [node(f"n{i}", gpu=4, cpu=8) for i in range(dice.randint(3, 8))]
    queues = _queues(dice)
    pods = list[Task]()
    for machine in dice.sample(machines, dice.randint(1, len(machines))):
        here = (NodeTerm(fields=(Requirement("metadata.name", "In", (machine.name,)),)),)
        tied = shape(cpu=dice.choice((1, 4)), node_terms=here)
        pods += tasks(f"ns/daemon-{machine.name}", 1, tied, resident=True, priority=dice.choice((0, 3)))
    gangs = list(_gangs(dice, machines, queues, 1.1, cpu=2))
    return cluster(machines, gangs, queues, pods)


def _queues(dice: random.Random) -> list[Queue]:
    return [Queue(f"team-{number}") for number in dice.sample(range(100), dice.randint(2, 4))]


def _gangs(
    dice: random.Random,
    machines: list[Node],
    queues: list[Queue],
    load: float,
    more: Callable[[], dict[str, Any]] = dict,
    cpu: int = 1,
) -> Iterator[Gang]:
    """Gangs that ask for this multiple of all GPUs. Some run; those have no closeness, which could be broken."""
    free, asked, number = {n.name: n.allocatable[GPU] for n in machines}, 0, 0
    while asked < load * sum(n.allocatable[GPU] for n in machines):
        size, each = dice.choice((1, 1, 2, 3, 4, 6)), dice.choice((1, 1, 2, 4))
        on = fill(free, dice, size, each) if dice.random() < 0.4 else []
        yield gang(
            f"g{number:02}",
            size,
            minimum=size if dice.random() < 0.7 else dice.randint(1, size),
            gpu=each,
            cpu=cpu,
            on=on,
            priority=dice.choice((0, 0, 1)),
            queue=dice.choice(queues).name,
            created=float(number),
            task={"controlled": True},
            **({} if on else more()),
        )
        number, asked = number + 1, asked + size * each


def start_of_large(seed: int, shards: int, config: Config, most: int) -> int | None:
    """Rounds until a gang starts that needs 6 of 9 nodes, while small gangs end and more of them arrive."""
    dice = random.Random(seed)
    machines = [node(f"n{i}", gpu=4) for i in range(9)]
    queues = [Queue(f"team-{number}") for number in dice.sample(range(100), 4)]
    stays = {"preemptable": False}

    def small(number: int, on: list[str]) -> Gang:
        size, queue = len(on) or dice.choice((1, 2)), dice.choice(queues).name
        return gang(f"s{number:03}", size, gpu=2, on=on, queue=queue, created=float(number), task=stays)

    running = [small(number, [machine.name] * 2) for number, machine in enumerate(machines)]
    large = gang("large", 6, gpu=4, queue=queues[0].name, created=5.0, task=stays)
    made = Shards(
        cluster(machines, queues, running, large), config, ShardMap.new(shards), 100.0, check_step, 1.0 / shards
    )
    number = len(machines)
    for turn in range(most):
        jobs = {key: tasks for key, (_, tasks) in sorted(made.virtual.jobs.items())}
        made.virtual.remove(dice.choice([key for key in jobs if jobs[key][0].status is Status.BOUND]))
        for _ in range(dice.choice((1, 2))):
            made.virtual.put(*_parts(small(number, [])))
            number += 1
        for shard in dice.sample(range(shards), shards):
            made.step(shard)
        if all(task.status is Status.BOUND for task in made.virtual.jobs["ns/large"][1]):
            return turn
    return None


def _parts(made: Gang) -> tuple[Job, tuple[Task, ...]]:
    return made.job, made.tasks
