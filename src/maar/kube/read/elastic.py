"""Elastic jobs among the gangs: which gang stands for a job, and what was decided of it and not yet seen.

Where a PodGroup belongs to an elastic job, the PodGroup's gang is the job; operators delete it while the job is
suspended, and then the job itself is the gang, with or without pods. Either way the minimum is that of the job's
bounds, whatever its PodGroup says today: operators let that follow the size.
"""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec.structs import replace

from maar.kube.kinds.reading import Kept, Reading
from maar.kube.kinds.roles import role
from maar.kube.read.groups import Group
from maar.kube.read.neighbours import Matcher
from maar.kube.read.shapes import Shapes, selectors_of
from maar.kube.wire.errors import FieldError
from maar.model.jobs import Job
from maar.model.selectors import PodSelector

Identity = tuple[int, str, str]


class AssumedJob(msgspec.Struct, frozen=True):
    """How an elastic job will stand once what was decided has been carried out."""

    uid: str
    size: int
    suspended: bool
    kept: Kept
    holds: tuple[tuple[str, int], ...] = ()
    written: str = ""
    """The version of the object that has it; empty until the API server has said so."""


def laid_over(reading: Reading, assumed: AssumedJob | None) -> Reading:
    """A reading with what was decided."""
    if assumed is None:
        return reading
    of = assumed
    return replace(reading, size=of.size, suspended=of.suspended, kept=of.kept, holds=of.holds)


def is_seen(reading: Reading | None, uid: str, version: str, assumed: AssumedJob) -> bool:
    """Whether an object says as much as was assumed of it, or makes it meaningless."""
    if reading is None or uid != assumed.uid:
        return True
    kept = replace(assumed.kept, running=reading.kept.running)
    if laid_over(reading, replace(assumed, kept=kept)) == reading:
        return True
    return bool(assumed.written) and not _is_older(version, assumed.written)


def _is_older(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def joined(group: Group, owner: Group) -> Group:
    """The group of a PodGroup that belongs to an elastic job: as old as the job, and with what the job says."""
    assert owner.reading is not None
    made = with_reading(replace(group, created=owner.created), owner.reading)
    made.stands = True
    return made


def without_reading(group: Group) -> Group:
    """The group of an elastic job for which another stands."""
    return replace(group, reading=None, stands=False)


def with_reading(group: Group, reading: Reading) -> Group:
    """A group with its minimum, queue and priority as its elastic job says them."""
    made = replace(
        group,
        reading=reading,
        queue=group.queue or reading.queue,
        priority_class=group.priority_class or reading.priority_class,
        priority=reading.priority if group.priority is None else group.priority,
    )
    if reading.broken:
        made.broken = group.broken or reading.broken
        return made
    made.minimum, made.whole = reading.min + len(reading.beside), False
    made.role_min = {
        name: min(least, reading.min) if name == reading.role else least for name, least in group.role_min.items()
    }
    if reading.beside:
        # Workers do not stand in for a master or a launcher.
        made.role_min = {reading.role: reading.min, **Counter(map(role, reading.beside))}
    made.min_resources = None
    return made


def stand_in(groups: dict[Identity, Group], owners: int) -> None:
    """Let PodGroups stand for the elastic jobs that they belong to; `owners` is the rank of jobs by owner."""
    for identity in sorted(groups):
        rank, namespace, _ = identity
        group = groups[identity]
        of = (owners, namespace, group.owner)
        owner = groups.get(of)
        if rank < owners and group.owner and owner is not None and owner.reading is not None:
            groups[identity] = joined(group, owner)
            groups[of] = without_reading(owner)


def selectors_of_workers(reading: Reading, shapes: Shapes) -> frozenset[PodSelector]:
    """The selectors by which pods that do not exist yet will mean others."""
    pods = (reading.worker, *reading.beside)
    if all(p.spec.affinity is None and not p.spec.topology_spread_constraints for p in pods):
        return frozenset()
    try:
        return frozenset(found for pod in pods for found in selectors_of(shapes.draft(pod)))
    except FieldError:
        return frozenset()


def with_elastic(job: Job, reading: Reading | None, shapes: Shapes, matcher: Matcher) -> Job:
    """A job with what its workers ask for; a template that cannot be read breaks it."""
    if reading is None or reading.broken:
        return job
    try:
        worker, *beside = (shapes.finish(shapes.draft(p), p, matcher) for p in (reading.worker, *reading.beside))
    except FieldError as error:
        return replace(job, broken=job.broken or f"template of its workers: {error}")
    return replace(job, elastic=reading.elastic(worker, tuple(beside)))
