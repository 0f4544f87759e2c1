"""The queues and priority classes that a job names, against those of the cluster: pure, but for `cluster_names`.

What the caller may not list is not checked: a note says so, and nothing is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from maar.kube.client.api import Api
from maar.kube.client.errors import Forbidden, NotFound
from maar.kube.read.priorities import SYSTEM, Priorities
from maar.kube.read.queues import queue
from maar.kube.submit.errors import BadManifest
from maar.kube.submit.manifests import Manifest
from maar.kube.submit.readers import jobs_in, places_of
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import PRIORITY_CLASSES, QUEUES, Resource
from maar.kube.wire.cluster import PriorityClass
from maar.kube.wire.cluster import Queue as WireQueue
from maar.kube.wire.decoding import decode
from maar.model.codes import NAMESPACE
from maar.model.jobs import Job
from maar.model.queues import DEFAULT, ROOT, QueueTree
from maar.model.words import SHOWN, listed, unknown

QUEUE_KEYS = (*known.QUEUE_NAME, "queue")
CLASS_KEYS = ("priorityClassName", "priorityClass")


class Names(NamedTuple):
    """What a cluster has; `None`: the caller may not list it."""

    queues: Sequence[WireQueue] | None = None
    classes: Sequence[PriorityClass] | None = None


class Wrong(NamedTuple):
    """A name that a job cannot use."""

    name: str
    problem: str
    is_class: bool = False


async def cluster_names(api: Api, queues: Sequence[WireQueue] | None = None) -> Names:
    """The queues and priority classes of a cluster, as far as the caller may list them, or `queues` if given."""
    if queues is not None:
        return Names(queues, await _listed(api, PRIORITY_CLASSES))
    return Names(*await asyncio.gather(_listed(api, QUEUES), _listed(api, PRIORITY_CLASSES)))


async def _listed(api: Api, resource: Resource[Any]) -> list[Any] | None:
    try:
        items = (await api.list(resource)).items
    except NotFound:  # the cluster has no such kind
        return []
    except Forbidden:
        return None
    return [item for item in items if isinstance(item, resource.struct)]


def check_names(manifest: Manifest, names: Names) -> list[str]:
    """Raise a `BadManifest` for a queue or a class that the job cannot use; returns what could not be checked."""
    jobs = list(_jobs(manifest, names))
    for wrong in (one for job in jobs for one in wrong_names(job, names)):
        keys = CLASS_KEYS if wrong.is_class else QUEUE_KEYS
        raise BadManifest(next(places_of(manifest.document, keys, wrong.name), ""), wrong.problem)
    notes = []
    if names.queues is None:
        notes += [f"queue `{q}` was not checked: you may not list queues" for q in _said(job.queue for job in jobs)]
    if names.classes is None:
        said = _said(name for job in jobs for name in job.priority_classes if name not in SYSTEM)
        notes += [f"priority class `{name}` was not checked: you may not list priority classes" for name in said]
    return notes


def _said(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name and name != DEFAULT]


def _jobs(manifest: Manifest, names: Names) -> Iterator[Job]:
    item = decode(manifest.document, manifest.kind.resource.struct)
    priorities = Priorities(names.classes or ())
    return jobs_in(manifest.kind, item, manifest.document, manifest.namespace, priorities)


def wrong_names(job: Job, names: Names) -> Iterator[Wrong]:
    """What a job names and cannot use."""
    if names.classes is not None:
        have = {one.name for one in names.classes} | SYSTEM.keys()
        for name in job.priority_classes:
            if name not in have and not name.isdecimal():
                yield Wrong(name, unknown("priority class", name, have, most=SHOWN), is_class=True)
    if names.queues is not None and job.queue:
        yield from _wrong_queue(job, QueueTree(map(queue, names.queues)))


def _wrong_queue(job: Job, tree: QueueTree) -> Iterator[Wrong]:
    row = tree.number.get(job.queue)
    usable = [q.name for q in tree.queues if q.name != ROOT and (q.namespaces is None or job.namespace in q.namespaces)]
    if row is None:
        yield Wrong(job.queue, unknown("queue", job.queue, usable, most=SHOWN))
        return
    refusal = tree.refusal(job)
    if refusal is not None and refusal.code == NAMESPACE.name:
        yield Wrong(job.queue, f"{refusal.words}; it may use: {listed(usable) or 'none'}")
    elif refusal is not None:
        accepted = listed(tree.queues[tree.payer(job)].priority_classes or ()) or "none but the default"
        name = next((n for n in job.priority_classes if f"`{n}`" in refusal.words), "")
        yield Wrong(name, f"{refusal.words}; it accepts: {accepted}", is_class=True)
    closed = next((tree.queues[q].name for q in tree.path[row] if not tree.queues[q].open), "")
    if closed:
        others = [name for name in usable if all(tree.queues[q].open for q in tree.path[tree.number[name]])]
        yield Wrong(job.queue, f"queue `{closed}` is closed: it takes no jobs; open: {listed(others) or 'none'}")
