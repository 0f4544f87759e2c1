"""The live picture's elastic jobs: which gang stands for each, and what was decided of it and not yet seen.

A part of `maar.kube.picture.picture`, which tells it what watches say and asks it for groups as they stand. It shares
the picture's groups and marks gangs as changed.
"""

from __future__ import annotations

import msgspec

from maar.kube.kinds.reading import Reading
from maar.kube.read.elastic import (
    AssumedJob,
    Identity,
    is_seen,
    joined,
    laid_over,
    selectors_of_workers,
    without_reading,
)
from maar.kube.read.groups import Group
from maar.kube.read.shapes import Shapes
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Object
from maar.model.selectors import PodSelector

OURS = (known.ELASTIC, known.HOLDS, known.WORKERS, known.PLANNED, known.WHY)
"""Annotations that Maar writes to elastic jobs: what counts of them is in the reading."""


class ElasticJob(msgspec.Struct, frozen=True):
    """An elastic job: its own object, what it says, and how it will stand."""

    identity: Identity
    item: Object
    reading: Reading
    standing: Reading


class ElasticJobs:
    """Jobs by their own identity, whichever gang stands for them."""

    def __init__(
        self,
        rank: int,
        groups: dict[Identity, Group],
        objects: dict[str, dict[str, Object]],
        dirty: set[Identity],
    ) -> None:
        self.assumed: dict[Identity, AssumedJob] = {}
        self._rank = rank
        """Of jobs by owner."""
        self._groups = groups
        self._objects = objects
        self._dirty = dirty
        self._homes: dict[Identity, str] = {}
        self._stand_ins: dict[Identity, set[Identity]] = {}
        """The PodGroups of each job."""
        self._unborn: dict[Identity, frozenset[PodSelector]] = {}
        """Elastic jobs, and the selectors that their workers to come will use."""

    # -- what watches say

    def note_group(self, identity: Identity, was: Group | None, made: Group | None) -> list[Identity]:
        """A PodGroup has changed: the jobs that it stood or stands for."""
        owners = {(self._rank, identity[1], group.owner) for group in (was, made) if group is not None and group.owner}
        for owner in owners:
            found = self._stand_ins.setdefault(owner, set())
            if made is not None and made.owner == owner[2]:
                found.add(identity)
            else:
                found.discard(identity)
            if not found:
                del self._stand_ins[owner]
            self._mark(owner)
        return sorted(owners)

    def note_owner(self, home: str, identity: Identity, was: Group | None, made: Group | None) -> bool:
        """A job has changed, and is among the groups already; false if only in what was assumed of it."""
        expected = None if was is None else self._laid(identity, was)
        self._homes.pop(identity, None)
        if made is not None:
            self._homes[identity] = home
        self._see(identity)
        if _alike(expected, None if made is None else self._laid(identity, made)):
            return False
        self._mark(identity)
        return True

    # -- what a cycle takes

    def everyone(self) -> set[Identity]:
        """Gangs of elastic jobs, which may have no pods."""
        return {gang for job in self._unborn for gang in (job, *self._stand_ins.get(job, ()))}

    def read_workers(self, shapes: Shapes) -> None:
        """The pods to come of elastic jobs that have changed."""
        for identity in self._dirty:
            if identity[0] == self._rank:
                group = self._groups.get(identity)
                self._unborn.pop(identity, None)
                if group is not None and group.reading is not None:
                    self._unborn[identity] = selectors_of_workers(group.reading, shapes)

    def selectors(self) -> frozenset[PodSelector]:
        """All by which workers to come will mean other pods."""
        return frozenset[PodSelector]().union(*self._unborn.values())

    def standing(self, identity: Identity) -> Group | None:
        """A group as it stands among the others: for its elastic job, or not."""
        group = self._groups.get(identity)
        if group is None:
            return None
        if identity[0] == self._rank:
            stands = group.reading is None or identity not in self._stand_ins
            return self._laid(identity, group) if stands else without_reading(group)
        of = (self._rank, identity[1], group.owner)
        owner = self._groups.get(of) if group.owner else None
        if owner is None or owner.reading is None or min(self._stand_ins[of]) != identity:
            return group
        return joined(group, self._laid(of, owner))

    # -- what was decided

    def of(self, identity: Identity) -> ElasticJob | None:
        """The elastic job for which a gang stands."""
        group = self._groups.get(identity)
        if group is None:
            return None
        own = identity if identity[0] == self._rank else (self._rank, identity[1], group.owner)
        owner, item = self._groups.get(own), self._item(own)
        if owner is None or owner.reading is None or item is None:
            return None
        return ElasticJob(own, item, owner.reading, laid_over(owner.reading, self.assumed.get(own)))

    def assume(self, identity: Identity, assumed: AssumedJob) -> None:
        """Lay over a job what was decided for it."""
        if self.assumed.get(identity) != assumed:
            self.assumed[identity] = assumed
            self._mark(identity)

    def wrote(self, identity: Identity, assumed: AssumedJob, version: str) -> None:
        """What was assumed is in this version of the object: whatever a later one says counts."""
        if self.assumed.get(identity) == assumed:
            self.assumed[identity] = msgspec.structs.replace(assumed, written=version)
            self._see(identity)

    def forget(self, identity: Identity) -> None:
        """What was assumed did not come true."""
        if self.assumed.pop(identity, None) is not None:
            self._mark(identity)

    def _mark(self, identity: Identity) -> None:
        self._dirty.update((identity, *self._stand_ins.get(identity, ())))

    def _laid(self, identity: Identity, group: Group) -> Group:
        """The group of a job with what was assumed of it."""
        assumed = self.assumed.get(identity)
        if group.reading is None or assumed is None:
            return group
        return msgspec.structs.replace(group, reading=laid_over(group.reading, assumed))

    def _see(self, identity: Identity) -> None:
        """What was assumed of a job goes once its object says as much."""
        assumed = self.assumed.get(identity)
        if assumed is None:
            return
        group, item = self._groups.get(identity), self._item(identity)
        version = "" if item is None else item.metadata.resource_version
        if group is None or is_seen(group.reading, group.uid, version, assumed):
            if group is not None and group.reading is not None and laid_over(group.reading, assumed) != group.reading:
                self._mark(identity)
            del self.assumed[identity]

    def _item(self, identity: Identity) -> Object | None:
        home = self._homes.get(identity)
        return None if home is None else self._objects[home].get(f"{identity[1]}/{identity[2]}")


def _alike(one: Group | None, other: Group | None) -> bool:
    """Whether two states of a job differ at most in what Maar has written to it for its owner."""
    if one is None or other is None:
        return one is other
    a, b = (msgspec.structs.replace(group, annotations=_not_ours(group)) for group in (one, other))
    return a == b


def _not_ours(group: Group) -> dict[str, str]:
    return {key: value for key, value in group.annotations.items() if key not in OURS}
