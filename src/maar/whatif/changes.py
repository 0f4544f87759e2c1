"""The changes that may start a waiting job: one function for each kind, in the order in which they are tried.

Each returns the smallest change of its kind that works, as edits, or `None`. Changes that give back what exists come
before changes that take from others, and these before changes that cost money.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from maar.model.jobs import OnHold, Phase
from maar.model.nodes import Node
from maar.model.queues import ROOT, Queue
from maar.model.resources import CPU, EPHEMERAL, LARGEST, MEMORY, PODS, devices_first, total
from maar.model.snapshot import Quota
from maar.model.tasks import Status
from maar.plugins.resourcequota import plain
from maar.whatif.edit import Edit, ended
from maar.whatif.job_edits import HIGHEST, UNPLACED, EndJobs, Release, SetMinimum, SetPriority, SetQueue, SetRequest
from maar.whatif.node_edits import MOST_NODES, AddNodesLike, EndReservation, Uncordon, copy_of
from maar.whatif.queue_edits import LARGEST_WEIGHT, Field, OpenQueue, SetAmounts, SetQuota, SetWeight
from maar.whatif.search import EditSearch, bisected

MOST_ENDED = 4
"""Jobs whose end is one change: nobody acts on a longer list. Tuned by hand."""
TRIED = 12
"""Jobs and queues that are tried one by one. Tuned by hand."""
HEAVIEST = 1024
"""The largest factor by which a weight is raised. Tuned by hand."""
COARSE = {CPU: 100, MEMORY: 2**20, EPHEMERAL: 2**20}
"""The step in which requests are lowered: a tenth of a CPU, and Mi; all else in units."""

Edits = list[Edit] | None


def release(search: EditSearch) -> Edits:
    """Release the job, which its owner holds."""
    return None if search.job.on_hold is OnHold.NO else search.tried([Release(search.job.key)])


def reservation(search: EditSearch) -> Edits:
    """Release the nodes that are locked for another job."""
    elect = search.cluster.elect
    if elect is None or elect.job in (search.job.key, *ended(search.cluster)):
        return None
    return search.tried([EndReservation(elect.job)])


def uncordon(search: EditSearch) -> Edits:
    """Uncordon nodes."""
    names = sorted(node.name for node in search.cluster.nodes if node.unschedulable)
    return search.least_set(names, lambda chosen: [Uncordon(tuple(sorted(chosen)))])


def open_queue(search: EditSearch) -> Edits:
    """Open the queue, and the queues above it."""
    closed = [queue.name for queue in _path(search) if not queue.open]
    return search.least_set(closed, lambda names: [OpenQueue(name) for name in names])


def limit(search: EditSearch) -> Edits:
    """Raise the capability of the queue or of a queue above it, or a ResourceQuota of the namespace."""
    knobs: list[Knob] = []
    for queue in _path(search):
        has = queue.capability or {}
        knobs += [_of_queue(search, queue.name, "capability", r, has[r]) for r in _asks(search) if r in has]
    for quota in sorted(search.cluster.quotas, key=lambda q: q.key):
        if quota.namespace == search.job.namespace:
            knobs += [_of_quota(search, quota, resource) for resource in sorted(quota.hard)]
    return _raised(search, knobs)


def minimum(search: EditSearch) -> Edits:
    """Lower the job's minimum."""
    job = search.job
    lowest = 1 + (0 if job.elastic is None else len(job.elastic.beside))
    return search.least(job.min_member - lowest, lambda n: [SetMinimum(job.key, job.min_member - n)])


def priority(search: EditSearch) -> Edits:
    """Raise its priority. Only comparisons with those of others matter: the same as one of them, or one more."""
    payer = search.queues.payer(search.job)
    if payer >= 0 and search.queues.queues[payer].priority_classes is not None:
        return None  # the class that gives the priority may not be accepted
    spared = {search.job.key, *ended(search.cluster)}
    others = {job.priority for job in search.cluster.jobs if job.key not in spared}
    others.update(task.priority for task in search.cluster.tasks if task.job not in spared)
    more = {p for other in others for p in (other, other + 1)}
    steps = sorted(p for p in more if search.job.priority < p <= HIGHEST)
    return search.least(len(steps), lambda n: [SetPriority(search.job.key, steps[n - 1])])


def share(search: EditSearch) -> Edits:
    """Raise what its queue deserves, or the weight of its queue."""
    own = next(iter(_path(search)), None)
    if own is None:
        return None
    has = own.deserved or {}
    knobs = [_of_queue(search, own.name, "deserved", r, has.get(r, 0)) for r in _asks(search)]
    most = min(own.weight * HEAVIEST, LARGEST_WEIGHT) - own.weight
    return _raised(search, knobs) or search.least(most, lambda n: [SetWeight(own.name, own.weight + n)])


def end(search: EditSearch) -> Edits:
    """One other job ends, else a few; running jobs first, and of these the ones that lose least.

    Jobs that have ended already, or are being deleted, are left out.
    """
    size: dict[str, int] = {}
    started: dict[str, float] = {}
    spared = {search.job.key, *ended(search.cluster)}
    for task in search.cluster.tasks:
        if task.resident or task.status is Status.RELEASING:
            spared.add(task.job)
        elif task.status is Status.BOUND:
            size[task.job] = size.get(task.job, 0) + 1
            started[task.job] = max(started.get(task.job, 0.0), task.started or task.created)
    order = sorted(
        (job for job in search.cluster.jobs if job.key not in spared),
        key=lambda j: (j.key not in size, j.priority, size.get(j.key, 0), -started.get(j.key, 0.0), j.key),
    )
    names = [job.key for job in order]
    if not names or not search.alone(_ended(names)):
        return None
    for name in names[:TRIED]:
        if search.works(_ended([name])):
            return _ended([name])
    found = search.smallest(names, _ended, MOST_ENDED)
    return None if found is None else _ended(found)


def _ended(names: Sequence[str]) -> list[Edit]:
    return [EndJobs(tuple(sorted(names)))]


def request(search: EditSearch) -> Edits:
    """Request less of one resource for each pod that has no node yet."""
    elastic = search.job.elastic
    shapes = [t.shape for t in search.tasks if t.status in UNPLACED]
    shapes += [] if elastic is None else [elastic.shape, *elastic.beside]
    now: dict[str, int] = {}
    for name, amount in (pair for shape in shapes for pair in shape.requests):
        now[name] = max(now.get(name, 0), amount)
    for name in devices_first(name for name in now if name != PODS):
        step = COARSE.get(name, 1)
        highest = (now[name] - 1) // step * step
        if (edits := search.least(highest // step, partial(_capped, search, name, highest + step, step))) is not None:
            return edits
    return None


def _capped(search: EditSearch, resource: str, above: int, step: int, n: int) -> list[Edit]:
    return [SetRequest(search.job.key, resource, above - n * step)]


def nodes(search: EditSearch) -> Edits:
    """Add as few nodes as possible, like those that have most of what the job asks for."""
    waiting = sum(task.status in UNPLACED for task in search.cluster.tasks)
    unborn = sum(job.min_member for job in search.cluster.jobs if job.phase is Phase.PENDING)
    most = min(waiting + unborn + search.job.min_member, MOST_NODES)
    alone = max(len(search.tasks), search.job.min_member)  # each of its pods has a node of its own
    for template in _templates(search):
        if (edits := search.least(most, partial(_added, template), alone)) is not None:
            return edits
    return None


def _added(template: Node, count: int) -> list[Edit]:
    return [AddNodesLike(template.name, count)]


def move(search: EditSearch) -> Edits:
    """Move it to another queue."""
    others = [queue.name for queue in search.queues.queues if queue.name not in (search.job.queue, ROOT)]
    tries = (search.tried([SetQueue(search.job.key, name)]) for name in others[:TRIED])
    return next((edits for edits in tries if edits is not None), None)


KINDS: Mapping[str, Callable[[EditSearch], Edits]] = {
    "release": release,
    "reservation": reservation,
    "uncordon": uncordon,
    "open": open_queue,
    "limit": limit,
    "minimum": minimum,
    "priority": priority,
    "share": share,
    "end": end,
    "request": request,
    "nodes": nodes,
    "move": move,
}
"""All kinds of changes, in the order of the answer."""
PROMISING = (
    "release",
    "minimum",
    "priority",
    "request",
    "move",
    "reservation",
    "open",
    "limit",
    "uncordon",
    "nodes",
    "share",
)
"""The kinds that are tried first, in this order; others follow. Changes of the job itself need no whole decision."""


# -- amounts that can be raised


class Knob(NamedTuple):
    """One amount that can be raised."""

    to: Callable[[int], Edit]
    now: int
    most: int
    step: int
    """Two amounts between the same multiples of it rarely differ."""

    def at(self, n: int) -> int:
        """The amount after `n` steps."""
        return min((self.now // self.step + n) * self.step, self.most)


def _of_queue(search: EditSearch, queue: str, field: Field, resource: str, now: int) -> Knob:
    return Knob(lambda amount: SetAmounts(queue, field, {resource: amount}), now, *_reach(search, resource, now))


def _of_quota(search: EditSearch, quota: Quota, resource: str) -> Knob:
    now, used = quota.hard[resource], quota.used.get(resource, 0)
    reach = _reach(search, resource, max(now, used))
    return Knob(lambda amount: SetQuota(quota.key, {resource: amount}), now, *reach)


def _reach(search: EditSearch, resource: str, now: int) -> tuple[int, int]:
    """An amount that limits no job, and the greatest common divisor of all requests of the resource."""
    snapshot, jobs = search.snapshot, search.snapshot.jobs.jobs
    groups = [*(job.min_resources or {} for job in jobs), *(job.quota_needs for job in jobs)]
    asked = [amount for amounts in groups for name, amount in amounts.items() if plain(name) == plain(resource)]
    dim = snapshot.axes.index.get(plain(resource))
    there = 0 if dim is None else total(snapshot.nodes.allocatable)[dim]
    if dim is not None:
        asked += snapshot.shapes.requests[snapshot.tasks.shape, dim].tolist()
    return min(max(there, now) + sum(asked), LARGEST), math.gcd(*asked) or 1


def _raised(search: EditSearch, knobs: Sequence[Knob]) -> Edits:
    """The fewest amounts, each raised as little as possible."""
    chosen = search.smallest(knobs, lambda some: [knob.to(knob.most) for knob in some])
    if chosen is None:
        return None
    values = [knob.most for knob in chosen]
    for i in range(len(chosen)):
        values[i] = _lowest(search, chosen, values, i)
    return [knob.to(value) for knob, value in zip(chosen, values, strict=True)]


def _lowest(search: EditSearch, knobs: Sequence[Knob], values: Sequence[int], i: int) -> int:
    """The smallest amount of one of several that works beside the values of the others, at most its own value."""
    knob = knobs[i]

    def edits(value: int) -> list[Edit]:
        return [other.to(value if n == i else values[n]) for n, other in enumerate(knobs)]

    def works(value: int) -> bool:
        return search.works(edits(value))

    steps = -(-(knob.most - knob.now) // knob.step) + 1
    n = search.lowest(steps, lambda n: edits(knob.at(n)))
    if n is None:
        return values[i]
    low, high = max(knob.at(n - 1), knob.now), knob.at(n)
    return bisected(low, high, works) if high - 1 > low and works(high - 1) else high


# -- the job and its surroundings


def _path(search: EditSearch) -> list[Queue]:
    """The queue of the job and the queues above it."""
    number = search.queues.number.get(search.job.queue)
    return [] if number is None else [search.queues.queues[q] for q in search.queues.path[number]]


def _asks(search: EditSearch) -> list[str]:
    """The resources that the job requests, with pod slots."""
    elastic = search.job.elastic
    shapes = {task.shape for task in search.tasks} | (set() if elastic is None else {elastic.shape})
    return devices_first({PODS, *(search.job.min_resources or ()), *(n for s in shapes for n, a in s.requests if a)})


def _templates(search: EditSearch) -> list[Node]:
    """One node of each kind, at most three: the largest in what the job asks for first."""
    kinds: dict[bytes, Node] = {}
    for node in sorted(search.cluster.nodes, key=lambda n: n.name):
        kinds.setdefault(msgspec.msgpack.encode(copy_of(node, ""), order="sorted"), node)
    size = [name for name in _asks(search) if name != PODS]
    return sorted(kinds.values(), key=lambda n: ([-n.allocatable.get(r, 0) for r in size], n.name))[:3]
