"""Small random scenes with two queues, and all choices of victims of one claim by brute force.

`worse(seed)` decides a scene and compares what `reclaim` evicts with every other set of pods that it might have evicted
at the same cost: equal in all that counts more than the shortfall below the share. It uses nothing of the search.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations
from typing import NamedTuple

from msgspec.structs import replace
from tests.support.confs import RECLAIM

from maar.decide import decide
from maar.model.plan import Cause
from maar.model.queues import Queue
from maar.model.snapshot import Cluster, Snapshot
from maar.testing.builders import GPU, Gang, cluster, gang, node
from maar.testing.scenario import configured

CONFIGS = {name: configured(RECLAIM.replace("proportion", name)) for name in ("capacity", "proportion")}


MOST_PODS = 9
"""So that there are at most 512 sets of victims."""


class Pod(NamedTuple):
    """A running pod of queue `a`."""

    key: str
    job: str
    node: int
    gpus: int


class Scene(NamedTuple):
    """What a claim of queue `b` meets; `due` is what queue `a` deserves."""

    config: str
    made: Cluster
    free: tuple[int, ...]
    pods: tuple[Pod, ...]
    minimum: dict[str, int]
    priority: dict[str, int]
    due: int
    gpus: int
    wanted: int


class Price(NamedTuple):
    """The cost of a set of victims, up to the shortfall."""

    breaks: bool
    priority: int
    shortfall: Fraction


def random_scene(seed: int) -> Scene:
    draw = random.Random(seed)
    sizes = [draw.choice([2, 3, 4, 6, 8]) for _ in range(draw.choice([1, 1, 2, 3]))]
    free, pods, jobs = list(sizes), list[Pod](), list[Gang]()
    minimum, priority = dict[str, int](), dict[str, int]()
    for number in range(12):
        count, gpus = draw.choice([1, 1, 1, 2, 3]), draw.choice([1, 1, 2, 2, 3, 4])
        places: list[int] = []
        for _ in range(count):
            open_ = [i for i, room in enumerate(free) if room >= gpus]
            if not open_ or len(pods) + len(places) == MOST_PODS:
                break
            places.append(draw.choice(open_))
            free[places[-1]] -= gpus
        if len(places) < count:
            for place in places:
                free[place] += gpus
            continue
        key = f"ns/a{number}"
        minimum[key], priority[key] = draw.randint(1, count), draw.choice([0, 0, 0, 1])
        started = {"started": float(draw.randrange(100))}
        names = [f"n{place}" for place in places]
        made = gang(key, count, minimum=minimum[key], cpu=0, memory=0, gpu=gpus, on=names, queue="a", task=started)
        jobs.append(Gang(replace(made.job, priority=priority[key]), made.tasks))
        pods += [Pod(f"{key}-{i}", key, place, gpus) for i, place in enumerate(places)]
    gpus, wanted = draw.choice([1, 1, 2, 2, 3, 4]), draw.choice([1, 1, 1, 2])
    has, total = sum(pod.gpus for pod in pods), sum(sizes)
    config = draw.choice(sorted(CONFIGS))
    if config == "capacity":
        due = draw.randrange(1, max(has, 2))
        queues = [Queue("a", deserved={GPU: due}), Queue("b", deserved={GPU: max(total - due, gpus * wanted)})]
    else:
        queues = [Queue("a", weight=draw.choice([1, 2, 3])), Queue("b", weight=draw.choice([1, 2, 3]))]
        due = _by_weight(total, queues[0].weight, queues[1].weight, has, gpus * wanted)
    claim = gang("ns/b", wanted, cpu=0, memory=0, gpu=gpus, queue="b", created=200.0)
    made_cluster = cluster([node(f"n{i}", gpu=size) for i, size in enumerate(sizes)], queues, jobs, claim)
    return Scene(config, made_cluster, tuple(free), tuple(pods), minimum, priority, due, gpus, wanted)


def _by_weight(total: int, mine: int, theirs: int, has: int, asks: int) -> int:
    """What `a` deserves of `total`: by weight, and what `b` does not ask for, up to what `a` has."""
    part = (2 * total * mine + mine + theirs) // (2 * (mine + theirs))  # the larger remainder is rounded up, `a` first
    return min(max(part, total - asks), has)


def _sizes(scene: Scene) -> list[int]:
    return [node.allocatable[GPU] for node in scene.made.nodes]


def price(scene: Scene, gone: frozenset[str]) -> Price | None:
    """The cost of a set of pods; `None` if they may not be evicted, or if the claim does not fit without them."""
    pods = [pod for pod in scene.pods if pod.key in gone]
    room = list(scene.free)
    for pod in pods:
        room[pod.node] += pod.gpus
    if sum(there // scene.gpus for there in room) < scene.wanted:
        return None
    size, of_job, left = Counter(p.job for p in scene.pods), Counter(p.job for p in pods), dict[str, int]()
    whole = {job for job, count in of_job.items() if size[job] - count < scene.minimum[job]}
    if any(of_job[job] < size[job] for job in whole):
        return None  # part of a minimum
    for pod in pods:
        # A surplus pod leaves alone. A minimum leaves as one, after the surplus of its gang.
        left[pod.job] = max(left.get(pod.job, 0), pod.gpus * (scene.minimum[pod.job] if pod.job in whole else 1))
    over, freed = sum(p.gpus for p in scene.pods) - scene.due, sum(p.gpus for p in pods)
    if freed - max(left.values(), default=0) >= over:
        return None  # whatever leaves last, the queue has no more than it deserves by then
    below = Fraction(max(freed - over, 0), scene.due) if scene.due else Fraction(0)
    return Price(bool(whole), max((scene.priority[p.job] for p in pods), default=0), below)


def choices(scene: Scene) -> Iterator[frozenset[str]]:
    keys = [pod.key for pod in scene.pods]
    for some in chain.from_iterable(combinations(keys, n) for n in range(1, len(keys) + 1)):
        yield frozenset(some)


def worse(seed: int) -> str:
    """How a better choice differs from what `reclaim` evicted, or that it evicted nothing though it could, or empty."""
    scene = random_scene(seed)
    plan = decide(Snapshot(scene.made), CONFIGS[scene.config], 100.0)
    gone = frozenset(e.task for e in plan.evict if e.cause is Cause.RECLAIMED)
    if not gone:
        kept = next(filter(None, (price(scene, other) for other in choices(scene))), None)
        within = scene.config == "capacity" or scene.gpus * scene.wanted <= sum(_sizes(scene)) - scene.due
        fits = sum(there // scene.gpus for there in scene.free) >= scene.wanted
        return f"seed {seed}: nothing is evicted" if kept is not None and within and not fits else ""
    ours = price(scene, gone)
    if ours is None:
        return f"seed {seed}: may not be evicted, or does not help: {sorted(gone)}"
    for other in choices(scene):
        theirs = price(scene, other)
        if theirs is not None and theirs[:2] == ours[:2] and theirs.shortfall < ours.shortfall:
            better = f"{sorted(other)} leaves a shortfall of {theirs.shortfall}"
            return f"seed {seed}: {better}, {sorted(gone)} of {ours.shortfall}"
    return ""
