"""Objects to the model: the one place where a picture of the cluster is put together.

Pure: what comes in are decoded objects, from files or from watches; what comes out is the `Cluster` that a decision is
made of. An object that cannot be decoded raises an `ObjectError` that names it; one that makes no sense never does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

from maar.kube.dialects import dialects
from maar.kube.read.budgets import budget, cover
from maar.kube.read.elastic import selectors_of_workers, with_elastic
from maar.kube.read.hypernodes import checked
from maar.kube.read.jobs import Gang, gangs
from maar.kube.read.neighbours import Matcher, Namespaces
from maar.kube.read.nodes import image_names, lock, node
from maar.kube.read.objects import Objects
from maar.kube.read.priorities import Priorities
from maar.kube.read.queues import namespace_weight, namespace_weights, queue
from maar.kube.read.shapes import Shapes
from maar.kube.read.storage import Storage
from maar.kube.read.tasks import Member, member, task
from maar.kube.read.volumes import needs
from maar.kube.wire import cluster as wire
from maar.kube.wire.base import Object
from maar.kube.wire.errors import FieldError, ObjectError
from maar.kube.wire.pods import Pod
from maar.model.nodes import Node
from maar.model.plan import Elect
from maar.model.snapshot import Budget, Cluster
from maar.model.tasks import Task

W = TypeVar("W", bound=Object)
M = TypeVar("M")


def to_cluster(objects: Objects, scheduler_names: frozenset[str] | None = None, now: float = 0.0) -> Cluster:
    """The cluster that those objects make.

    Of pods, those of `scheduler_names` are ours (`None`: all are). Others take room where they are bound, belong to no
    queue and are never evicted; unbound they are left out. `now` is the creation time of what does not state one.
    """
    nodes = _each("Node", objects.nodes, node)
    priorities = Priorities(objects.priority_classes)
    shapes = Shapes(_namespaces(objects), image_names(nodes))
    storage = Storage.of(objects)
    members = _members(objects, shapes, storage, priorities, nodes, scheduler_names, now)
    found = gangs(members, dialects(objects, scheduler_names), priorities, now)
    matcher = _matcher(found, shapes)
    budgets, covered = _budgets(objects, members)
    locks = (lock(n) for n in objects.nodes)
    return Cluster(
        nodes=tuple(nodes),
        tasks=tuple(_tasks(found, shapes, matcher, covered)),
        jobs=tuple(with_elastic(g.job, g.reading, shapes, matcher) for g in found),
        queues=tuple(_each("Queue", objects.queues, lambda q: queue(q, now))),
        budgets=tuple(budgets),
        hypernodes=tuple(_each("HyperNode", objects.hypernodes, checked)),
        namespace_weights=_namespace_weights(objects),
        elect=_elect(found),
        locks=tuple(held for held in locks if held is not None),
        rooms=storage.rooms({n.name: n for n in nodes}),
    )


def _namespaces(objects: Objects) -> Namespaces:
    return Namespaces(objects.namespaces, {pod.namespace for pod in objects.pods})


def _members(
    objects: Objects,
    shapes: Shapes,
    storage: Storage,
    priorities: Priorities,
    nodes: list[Node],
    scheduler_names: frozenset[str] | None,
    now: float,
) -> list[Member]:
    """All pods that count, each with what it says by itself."""
    names = {n.name for n in nodes}

    def read(pod: Pod) -> Member | None:
        foreign = scheduler_names is not None and pod.spec.scheduler_name not in scheduler_names
        if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name and not pod.finished:
            return None
        of_volumes = needs(storage, pod, names) if pod.spec.volumes else None
        return member(pod, shapes.draft(pod, of_volumes), priorities, names, now, foreign, of_volumes)

    return [m for m in _each("Pod", objects.pods, read) if m is not None]


def _namespace_weights(objects: Objects) -> dict[str, int]:
    def read(quota: wire.ResourceQuota) -> tuple[str, int | None]:
        return quota.namespace, namespace_weight(quota)

    return namespace_weights(_each("ResourceQuota", objects.quotas, read))


def _budgets(objects: Objects, members: list[Member]) -> tuple[list[Budget], dict[str, list[str]]]:
    """All budgets, and for each pod that some cover their keys."""
    covered: dict[str, list[str]] = {}
    if not objects.budgets:
        return [], covered
    by_namespace: dict[str, list[Member]] = defaultdict(list)
    for m in members:
        by_namespace[m.pod.namespace].append(m)

    def read(w: wire.PodDisruptionBudget) -> Budget:
        inside = cover(w, by_namespace.get(w.namespace, ()))
        for m in inside:
            covered.setdefault(m.pod.key, []).append(w.key)
        return budget(w, inside)

    return _each("PodDisruptionBudget", objects.budgets, read), covered


def _matcher(found: list[Gang], shapes: Shapes) -> Matcher:
    unborn = [selectors_of_workers(g.reading, shapes) for g in found if g.reading is not None]
    return Matcher({*shapes.selectors(), *(selector for part in unborn for selector in part)})


def _tasks(found: list[Gang], shapes: Shapes, matcher: Matcher, covered: dict[str, list[str]]) -> Iterable[Task]:
    for gang in found:
        for m in gang.members:
            shape = shapes.finish(m.draft, m.pod, matcher)
            budgets = tuple(sorted(covered.get(m.pod.key, ()))) if covered else ()
            yield task(m, gang.job.key, shape, budgets, gang.promise, gang.checkpoint)


def _elect(found: list[Gang]) -> Elect | None:
    """The elected job: of several (two writers, or a crash between two writes) the first one elected."""
    elected = [g.elect for g in found if g.elect is not None]
    return min(elected, key=lambda e: (e.since, e.job), default=None)


def _each(kind: str, objects: Iterable[W], read: Callable[[W], M]) -> list[M]:
    """All objects of a kind; the error of one says which."""
    made = []
    for item in objects:
        try:
            made.append(read(item))
        except FieldError as error:
            raise ObjectError(kind, item.key, error.field, error.problem) from None
    return made
