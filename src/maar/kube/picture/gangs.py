"""Gangs to jobs and tasks.

A part of the picture, and the last in a cycle: pods have been read (`pods`) and entered (`roster`), and gangs are
stated (`groups`, `elastic_jobs`). Every part that sees a gang change marks it in `dirty`; only those are made again.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, KeysView, Mapping
from dataclasses import dataclass, field

import msgspec

from maar.kube.kinds import ALONE, Identity
from maar.kube.kinds.elastic import ElasticSpec
from maar.kube.kinds.gang import GangSpec
from maar.kube.picture.elastic_jobs import ElasticJobs
from maar.kube.picture.groups import Groups
from maar.kube.picture.images import Images
from maar.kube.picture.pods import Pods
from maar.kube.picture.problems import Problems
from maar.kube.picture.roster import Roster
from maar.kube.picture.siblings import Siblings
from maar.kube.read.elastic import with_elastic
from maar.kube.read.jobs import Gang, alone, gang_of
from maar.kube.read.knowledge import Learning
from maar.kube.read.neighbours import Matcher
from maar.kube.read.shapes import names_of
from maar.kube.read.tasks import Member, bare_task, task
from maar.model.jobs import Job
from maar.model.selectors import PodSelector
from maar.model.snapshot import Changed
from maar.model.tasks import Task

GANG = "gang"
"""In the table of problems: a gang that cannot be made of objects that can be read."""


@dataclass(eq=False, slots=True)
class Gangs:
    """The jobs and tasks of all gangs, by identity and by job key."""

    _groups: Groups
    _roster: Roster
    _pods: Pods
    _elastic: ElasticJobs
    _images: Images
    _siblings: Siblings
    _problems: Problems
    _learning: Learning
    _dirty: set[Identity]
    _settling: float | None
    _named: dict[str, list[Identity]] = field(default_factory=dict)
    """The gangs that would have the same key, in order of precedence: the first one has it."""
    _made: dict[Identity, tuple[Gang, tuple[Task, ...]]] = field(default_factory=dict)
    _keys: dict[str, Identity] = field(default_factory=dict)
    _selectors: frozenset[PodSelector] = frozenset()
    _matcher: Matcher = field(default_factory=lambda: Matcher(()))

    # -- look-ups

    def identity(self, job: str) -> Identity | None:
        return self._keys.get(job)

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def jobs(self) -> Iterator[Job]:
        return (gang.job for gang, _ in self._made.values())

    def tasks(self) -> Iterator[Task]:
        return (task for _, tasks in self._made.values() for task in tasks)

    # -- what changes

    def mark_all(self) -> None:
        """Mark all gangs that have pods, or may get some, to be made again."""
        self._dirty.update(self._roster.gangs(), self._elastic.everyone())

    def learn(self) -> bool:
        """Mark elastic jobs about which something new is known; returns whether there are any."""
        found = self._learning.outdated()
        self._dirty.update(found)
        return bool(found)

    def take(self, now: float, covered: Mapping[str, tuple[str, ...]]) -> dict[str, Changed]:
        """Make the changed gangs again; `covered` has the budgets of each covered pod."""
        self._match_anew()
        changed: dict[str, Changed] = {}
        there = {identity for identity in self._dirty if self._is_there(identity)}
        self._dirty |= self._claim_keys(there)
        for identity in self._dirty:
            # All are removed before the first is made: a key may pass from one gang to another.
            was = self._made.pop(identity, None)
            if was is not None:
                changed[was[0].job.key] = None
                self._keys.pop(was[0].job.key, None)
                self._learning.forget(identity)
        for identity in sorted(self._dirty):
            if not self._is_there(identity):
                self._images.use(identity, ())
                self._pods.forget_unborn(identity)
                continue
            made = self._make(identity, now, covered)
            self._made[identity] = made
            self._keys[made[0].job.key] = identity
            changed[made[0].job.key] = (made[0].job, made[1])
        self._dirty.clear()
        return changed

    def _is_there(self, identity: Identity) -> bool:
        """Whether a gang is a job: it has pods, or is a job without pods."""
        if self._roster.has_pods(identity):
            return True
        gang = self._elastic.standing(identity)
        return gang is not None and gang.stands and gang.gang and not self._roster.is_foreign(identity)

    def _claim_keys(self, there: set[Identity]) -> set[Identity]:
        """Enter new gangs and remove gangs that are gone; returns the gangs whose key may have changed."""
        again: set[Identity] = set()
        for identity in self._dirty:
            named = self._named.get(identity.key, [])
            if (identity in named) == (identity in there):
                continue
            if identity in there:
                insort(named, identity)
                self._named[identity.key] = named
            else:
                named.remove(identity)
            again.update(named)
            if not named:
                del self._named[identity.key]
        return again

    def _key(self, identity: Identity) -> str:
        """The job key of a gang: its own, unless a gang of an earlier source has the same one."""
        named = self._named[identity.key]
        if named[0] == identity:
            return identity.key
        alike = [i for i in named[1:] if i.source.title == identity.source.title]
        number = "" if alike[0] == identity else f"-{alike.index(identity) + 1}"
        return f"{identity.key}@{identity.source.title}{number}"

    def _match_anew(self) -> None:
        """Selectors came or went: the tasks of the pods that they match are made again.

        Not all tasks: anyone can create a pod with a new selector every second.
        """
        selectors = self._pods.selectors() | self._elastic.selectors()
        if selectors == self._selectors:
            return
        gone, new = self._selectors - selectors, selectors - self._selectors
        self._matcher.change(gone, new)
        changed = Matcher(gone | new)
        pods = self._pods.members.items()
        self._roster.mark(key for key, m in pods if changed.matches(m.pod.namespace, m.pod.metadata.labels))
        self._dirty.update(self._elastic.matched(changed))
        self._selectors = selectors

    def _make(
        self, identity: Identity, now: float, covered: Mapping[str, tuple[str, ...]]
    ) -> tuple[Gang, tuple[Task, ...]]:
        pods, shapes, matcher, source = self._pods, self._pods.shapes, self._matcher, identity.source
        members = [pods.members[key] for key in self._roster.pods(identity)]
        group = self._elastic.standing(identity)
        if source is ALONE:
            group = alone(members[0])
        elif group is None:
            group = self._missing(identity, members)
        key = self._key(identity)
        try:
            images = self._images_of(identity, group.elastic)
            members += pods.unborn(identity, self._elastic.unborn(identity, group, key), images, now)
            submitted = self._groups.submitted(identity, group, [m.pod for m in members])
            deadline = self._groups.deadline(identity, group, [m.pod for m in members])
            gang = gang_of(key, group, members, pods.priorities, now, submitted, deadline)
            if source is ALONE and (siblings := self._siblings.of(members[0].pod)):
                gang.job = msgspec.structs.replace(gang.job, siblings=siblings)
            gang.job = self._groups.with_admission(identity, group, gang.job)
            before = gang.job.broken
            gang.job = with_elastic(gang.job, gang.elastic, shapes, matcher, images)
            if gang.job.broken != before and (own := self._elastic.of(identity)) is not None:
                self._problems.invalid(own.kind, own.item.key, gang.job.broken)
            gang.job = self._learning.laid_over(identity, gang.job, gang.elastic)
            of = gang.divided.of if gang.divided is not None else {}
            said = gang.promise, gang.checkpoint
            tasks = tuple(
                task(
                    m, key, shapes.finish(m.draft, m.pod, matcher), covered.get(m.pod.key, ()), *said, of.get(m.pod.key)
                )
                for m in members
            )
            self._problems.valid(GANG, key)
            if gang.divided is not None and gang.divided.doubt and not gang.job.broken:
                self._problems.doubtful(GANG, key, gang.divided.doubt)
        except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
            gang = Gang(Job(key, broken=self._problems.bug(GANG, key, error)), members)
            tasks = tuple(bare_task(m, key, covered.get(m.pod.key, ())) for m in members)
        if self._settling is not None and source.settles and group.minimum is None:
            gang.job = msgspec.structs.replace(gang.job, settles=self._roster.grew(identity) + self._settling)
        return gang, tasks

    def _missing(self, identity: Identity, members: list[Member]) -> GangSpec:
        """The gang of pods whose object does not exist."""
        try:
            return identity.source.missing(identity.namespace, identity.name, [m.pod for m in members])
        except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
            reason = self._problems.bug(GANG, identity.key, error)
            return GangSpec(namespace=identity.namespace, name=identity.name, minimum=None, broken=reason)

    def _images_of(self, identity: Identity, elastic: ElasticSpec | None) -> frozenset[str]:
        """The images of a job's future pods that are on some node."""
        pods = () if elastic is None else {id(pod): pod for pod in (elastic.worker, *elastic.beside)}.values()
        return frozenset(self._images.use(identity, {name for pod in pods for name in names_of(pod.spec)}))
