"""The live picture's groups: what the objects of gangs say, and to which gang a pod belongs.

A part of `maar.kube.picture.picture`, which tells it of PodGroups and of jobs that may own pods. An admission that was
decided is laid over its group until the object says as much. Groups know no pods: which ones each gang has is in
`maar.kube.picture.roster`; what is assumed of elastic jobs is in `maar.kube.picture.elastic_jobs`.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from maar.kube.dialects import dialects
from maar.kube.dialects.owners import Owners
from maar.kube.read.groups import Dialect, Group
from maar.kube.read.jobs import ALONE, Identity, identity_of
from maar.kube.read.objects import Objects
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job, Phase

GROUP_HOMES = ("upstream_groups", "volcano_groups", "plugins_groups")
"""Homes of group objects; their place here is their dialect's rank."""
OWNER_HOMES = ("kubeflow_jobs", "volcano_jobs", "job_sets", "batch_jobs")
PLAIN_RANK, OWNERS_RANK = 3, 4
ALONE_RANK = OWNERS_RANK + 1
"""Of pods that speak no dialect: each is a gang of one."""


class Regrouped(NamedTuple):
    """An object that makes a group came, went or changed: the group that it made, and the one that it makes now."""

    identity: Identity
    was: Group | None
    made: Group | None


class Groups:
    """All groups that have an object, by identity."""

    def __init__(self, scheduler_names: frozenset[str] | None) -> None:
        self.there: dict[Identity, Group] = {}
        owners = Owners(Objects(), scheduler_names)
        self._names = scheduler_names
        self._dialects: tuple[Dialect, ...] = (*dialects(Objects())[:OWNERS_RANK], owners)
        self._gang_jobs = owners.gang_jobs
        self._admitted: dict[Identity, str] = {}
        """Groups whose admission is decided and not seen yet, with their uids."""

    # -- what watches say

    def note_group(self, home: str, before: Object | None, after: Object | None) -> Regrouped | None:
        """A gang's own object; `None` if all that it says is known already, as after a write of ours."""
        change = self._regroup(GROUP_HOMES.index(home), home, before, after)
        identity, was, made = change
        if was is not None and made is not None and made == self._as_known(identity, was):
            if made.phase is not Phase.PENDING:
                self._admitted.pop(identity, None)
            return None
        if made is None:
            self._admitted.pop(identity, None)
        return change

    def note_owner(self, home: str, before: Object | None, after: Object | None) -> Regrouped:
        """A job that may own pods."""
        change = self._regroup(OWNERS_RANK, home, before, after)
        (_, namespace, name), was, made = change
        if home == "batch_jobs" and (was is None) != (made is None):
            (self._gang_jobs.discard if made is None else self._gang_jobs.add)(f"{namespace}/{name}")
        return change

    def set_broken(self, home: str, key: str, error: str) -> None:
        """An object of which only the name is known: nobody knows how many its gang needs, so all that are there."""
        namespace, _, name = key.rpartition("/")
        group = self.there[GROUP_HOMES.index(home), namespace, name]
        group.broken, group.gang, group.minimum = error, True, None

    # -- admissions

    def admit(self, identity: Identity) -> bool:
        """Take a group as admitted, until its object says as much; false if it has no object."""
        group = self.there.get(identity)
        if group is None:
            return False
        self._admitted[identity] = group.uid
        return True

    def with_admission(self, identity: Identity, group: Group, job: Job) -> Job:
        """The job of a group, in the queue if that was decided and nothing else has been seen since."""
        uid = self._admitted.get(identity)
        if uid is None:
            return job
        if group.phase is not Phase.PENDING or group.uid != uid:
            del self._admitted[identity]
            return job
        return msgspec.structs.replace(job, phase=Phase.INQUEUE)

    # -- whose gang

    def identity_of(self, pod: Pod) -> Identity:
        """To which gang a pod of ours belongs."""
        return identity_of(pod, self._dialects, self.there)

    def missing(self, identity: Identity, pods: list[Pod]) -> Group:
        """The group of pods that name one which has no object."""
        rank, namespace, name = identity
        return self._dialects[rank].missing(namespace, name, pods)

    def dialect(self, identity: Identity) -> str:
        """The name of the dialect in which a gang is said, which tells two gangs of one name apart."""
        rank = identity[0]
        return ALONE if rank == ALONE_RANK else self._dialects[rank].name

    def _regroup(self, rank: int, home: str, before: Object | None, after: Object | None) -> Regrouped:
        item = after or before
        assert item is not None
        identity = (rank, item.namespace, item.name)
        was = self.there.pop(identity, None)
        made = None if after is None else self._read(rank, home, after)
        if made is not None:
            self.there[identity] = made
        return Regrouped(identity, was, made)

    def _read(self, rank: int, home: str, item: Object) -> Group | None:
        """The group that one object makes; `None` where it makes none (a batch Job that is no gang)."""
        objects = Objects()
        getattr(objects, home).append(item)
        return next(iter(dialects(objects, self._names)[rank].groups()), None)

    def _as_known(self, identity: Identity, group: Group) -> Group:
        """A group as it was seen, with what was assumed of it."""
        if self._admitted.get(identity) != group.uid or group.phase is not Phase.PENDING:
            return group
        return msgspec.structs.replace(group, phase=Phase.INQUEUE)
