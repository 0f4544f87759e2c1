"""The live picture's gangs: groups and their pods to jobs and tasks.

A part of `maar.kube.picture.picture`, and the last in a cycle: pods have been read (`maar.kube.picture.pods`) and
entered (`maar.kube.picture.roster`), groups stand as they are (`maar.kube.picture.groups`,
`maar.kube.picture.elastic_jobs`). Whoever sees a change marks the gang in `dirty`; only those are made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping

import msgspec

from maar.kube.picture.elastic_jobs import ElasticJobs
from maar.kube.picture.groups import ALONE_RANK, OWNERS_RANK, PLAIN_RANK, Groups
from maar.kube.picture.pods import Pods
from maar.kube.picture.roster import Roster
from maar.kube.read.elastic import with_elastic
from maar.kube.read.jobs import Gang, Identity, alone, gang_of
from maar.kube.read.knowledge import Knowledge, Learning
from maar.kube.read.neighbours import Matcher
from maar.kube.read.tasks import task
from maar.model.jobs import Job
from maar.model.plan import Elect
from maar.model.selectors import PodSelector
from maar.model.snapshot import Changed
from maar.model.tasks import Task

SETTLING = 2.0
"""Seconds without a new pod after which a gang that nothing counts is taken to be complete."""


class Gangs:
    """All gangs as they were last made, by identity and by their job's key."""

    def __init__(
        self,
        groups: Groups,
        roster: Roster,
        pods: Pods,
        elastic: ElasticJobs,
        knowledge: Knowledge | None,
        dirty: set[Identity],
    ) -> None:
        self._groups = groups
        self._roster = roster
        self._pods = pods
        self._elastic = elastic
        self._learning = Learning(knowledge)
        self._dirty = dirty
        self._made: dict[Identity, tuple[Gang, tuple[Task, ...]]] = {}
        self._keys: dict[str, Identity] = {}
        self._selectors: frozenset[PodSelector] = frozenset()
        self._matcher = Matcher(())

    # -- look-ups

    def identity(self, job: str) -> Identity | None:
        """Which gang a job is."""
        return self._keys.get(job)

    def keys(self) -> KeysView[str]:
        """Of all jobs."""
        return self._keys.keys()

    def jobs(self) -> Iterator[Job]:
        """All of them."""
        return (gang.job for gang, _ in self._made.values())

    def tasks(self) -> Iterator[Task]:
        """All of them, gang by gang."""
        return (task for _, tasks in self._made.values() for task in tasks)

    def elect(self) -> Elect | None:
        """The elected job: of several the first one elected."""
        elected = [gang.elect for gang, _ in self._made.values() if gang.elect is not None]
        return min(elected, key=lambda e: (e.since, e.job), default=None)

    # -- what changes

    def mark_all(self) -> None:
        """Make all gangs anew that have pods, or that may get some."""
        self._dirty.update(self._roster.gangs(), self._elastic.everyone())

    def learn(self) -> bool:
        """Something may have become known of elastic jobs: whether it has, of one of them."""
        found = self._learning.outdated()
        self._dirty.update(found)
        return bool(found)

    def take(self, now: float, covered: Mapping[str, tuple[str, ...]]) -> dict[str, Changed]:
        """Make those anew that have changed; `covered` are the budgets of each pod that has some."""
        self._match_anew()
        changed: dict[str, Changed] = {}
        for identity in self._dirty:
            # All before the first is made: a job's key passes from the gang that stood for it to the one that does.
            was = self._made.pop(identity, None)
            if was is not None:
                changed[was[0].job.key] = None
                self._keys.pop(was[0].job.key, None)
                self._learning.forget(identity)
        for identity in sorted(self._dirty):
            made = self._make(identity, now, covered)
            if made is not None:
                self._made[identity] = made
                self._keys[made[0].job.key] = identity
                changed[made[0].job.key] = (made[0].job, made[1])
        self._dirty.clear()
        return changed

    def _match_anew(self) -> None:
        """A selector that nobody used before may match any pod: then all tasks are made again."""
        selectors = self._pods.selectors() | self._elastic.selectors()
        if selectors != self._selectors:
            self._selectors = selectors
            self._matcher = Matcher(selectors)
            self.mark_all()

    def _make(
        self, identity: Identity, now: float, covered: Mapping[str, tuple[str, ...]]
    ) -> tuple[Gang, tuple[Task, ...]] | None:
        rank, namespace, name = identity
        pods, shapes, matcher = self._pods, self._pods.shapes, self._matcher
        members = [pods.members[key] for key in self._roster.pods(identity)]
        group = self._elastic.standing(identity)
        if not members and (group is None or not group.stands or not group.gang):
            return None
        if rank == ALONE_RANK:
            group = alone(members[0])
        elif group is None:
            group = self._groups.missing(identity, [m.pod for m in members])
        key = f"{namespace}/{name}"
        if self._keys.get(key, identity) != identity:
            key = f"{key}@{self._groups.dialect(identity)}"
        gang = gang_of(key, group, members, pods.priorities, now)
        gang.job = self._groups.with_admission(identity, group, gang.job)
        gang.job = with_elastic(gang.job, gang.reading, shapes, matcher)
        gang.job = self._learning.laid_over(identity, gang.job, gang.reading)
        if rank in (PLAIN_RANK, OWNERS_RANK) and group.minimum is None:
            gang.job = msgspec.structs.replace(gang.job, settles=self._roster.grew(identity) + SETTLING)
        return gang, tuple(
            task(
                m,
                key,
                shapes.finish(m.draft, m.pod, matcher),
                covered.get(m.pod.key, ()),
                gang.promise,
                gang.checkpoint,
            )
            for m in members
        )
