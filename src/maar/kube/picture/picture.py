"""The live picture: what watches have shown, and the model it makes, kept up to date object by object.

`to_cluster` reads everything at once; a picture does the same work only for what changed. Watches put objects in and
take them out; a cycle takes the jobs that changed since the last one. What has been decided but not yet seen (a bind on
its way, a nomination) is laid over the pods as `assumed`, so that the next decision knows it; so is a resize over the
elastic job.

This is the front, which says to whom an object matters. Behind it are rooms, each of which knows only those above it:

    Surroundings   nodes, queues, budgets and all else that is neither job nor task
    Groups         what the objects of gangs say
    ElasticJobs    what elastic jobs say beyond that
    Roster         which pods each gang has, and for whom it waits
    Unreadable     pods of which nothing but the name counts
    Pods           reads those that have changed, and enters them in the roster
    Gangs          makes jobs and tasks of it all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from maar.kube.picture.elastic_jobs import ElasticJob, ElasticJobs
from maar.kube.picture.gangs import Gangs
from maar.kube.picture.groups import GROUP_HOMES, OWNER_HOMES, OWNERS_RANK, Groups
from maar.kube.picture.pods import Assumed, Pods
from maar.kube.picture.roster import Roster
from maar.kube.picture.surroundings import Surroundings
from maar.kube.picture.unreadable import Unreadable
from maar.kube.read.jobs import Identity
from maar.kube.read.knowledge import Knowledge
from maar.kube.read.objects import KINDS
from maar.kube.read.storage import HOMES as STORAGE_HOMES
from maar.kube.read.storage import Storage
from maar.kube.wire import cluster as wire
from maar.kube.wire.base import Object
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job
from maar.model.nodes import Node
from maar.model.snapshot import Changed, Cluster

__all__ = ["CLUSTER_WIDE", "GROUP_HOMES", "OWNER_HOMES", "Assumed", "Picture", "Update"]

CLUSTER_WIDE = frozenset(kind.home for kind in KINDS.values() if not kind.namespaced)
"""Homes of objects that are in no namespace: their key is their name."""
STRUCTS = {kind.home: kind.struct for kind in KINDS.values()}


class Update(msgspec.Struct, frozen=True):
    """What has changed since the last one was taken."""

    rest: Cluster
    """Everything but jobs and tasks."""
    changed: dict[str, Changed]
    anew: bool
    """Nodes or queues changed: tables are made anew."""


class Picture:
    """All objects, and the model they make."""

    def __init__(
        self,
        scheduler_names: frozenset[str] | None = None,
        ours: Callable[[wire.Node], bool] = lambda _: True,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        """Home (as in `Objects`) to key to object."""
        self.assumed: dict[str, Assumed] = {}
        """What was decided of pods and is not seen yet."""
        self.storage = Storage(self.objects, self.assumed)
        self._names = scheduler_names
        self._dirty: set[Identity] = set()
        """Gangs that the next cycle makes anew; all who see a change of one mark it here."""
        self._around = Surroundings(self.objects, self.storage, ours)
        self._groups = Groups(scheduler_names)
        self.elastic = ElasticJobs(OWNERS_RANK, self._groups.there, self.objects, self._dirty)
        self._roster = Roster(self._groups, self._dirty)
        self._unreadable = Unreadable()
        self._pods = Pods(
            self.objects,
            self.assumed,
            self._around.nodes,
            self.storage,
            self._groups,
            self._roster,
            self._unreadable,
            scheduler_names,
        )
        self._broken_jobs: tuple[Job, ...] = ()
        """Those of unreadable pods as the last cycle took them: watches go on while it decides."""
        self._gangs = Gangs(self._groups, self._roster, self._pods, self.elastic, knowledge, self._dirty)

    # -- what watches say

    def put(self, home: str, item: Object) -> bool:
        """Take in an object as it is now. False if it changes nothing that a decision could see."""
        key = _key(home, item)
        there = self.objects.setdefault(home, {})
        before = there.get(key)
        there[key] = item
        if before is not None and _same(before, item):
            return False
        if home == "pods":
            self._unreadable.discard(key)
        return self._note(home, key, before, item)

    def drop(self, home: str, key: str) -> bool:
        """An object is gone."""
        before = self.objects.get(home, {}).pop(key, None)
        if home == "pods":
            self._unreadable.discard(key)
        return before is not None and self._note(home, key, before, None)

    def replace(self, home: str, items: Iterable[Object]) -> None:
        """All objects of a kind, after a list: those that are not among them are gone."""
        kept = set()
        for item in items:
            kept.add(_key(home, item))
            self.put(home, item)
        for key in [k for k in self.objects.get(home, {}) if k not in kept]:
            self.drop(home, key)

    def broken(self, home: str, key: str, error: str, scheduler: str | None = None) -> None:
        """An object does not decode: what it was before is gone, and whatever depends on it waits with the reason.

        A pod of ours becomes a job of its name. In the place of a group or a queue stands one that has only a name. A
        pod that has a node stays as it was: it has its room still.
        """
        before = self.objects.get(home, {}).get(key)
        if isinstance(before, Pod) and before.spec.node_name:
            return
        self.drop(home, key)
        if home == "queues":
            self.put(home, _nothing_but_named(home, key))
            self._around.note_queue(key, error)
        elif home in GROUP_HOMES:
            self.put(home, _nothing_but_named(home, key))
            self._groups.set_broken(home, key, error)
        elif home == "pods" and (self._names is None or scheduler is None or scheduler in self._names):
            self._unreadable.add(key, error)

    def confirm(self, pod: Pod) -> bool:
        """A bind that was assumed is seen: false if it is not just that, and the pod must be put in as any other."""
        return self._pods.confirm(pod)

    def can_wait(self, home: str, before: Object | None, after: Object) -> bool:
        """Whether what was just put in helps nobody yet: a pod of a gang that lacks others, or a group's new status."""
        if isinstance(after, Pod):
            return before is None and after.key not in self._pods.dirty
        return before is not None and home in GROUP_HOMES and _same(before, after, status=True)

    def read_short(self) -> None:
        """Gangs that lack pods have lacked them for a while: their owners are to know it."""
        self._pods.dirty.update(self._roster.short())

    def read_again(self, pods: Iterable[str]) -> None:
        """Something that these pods depend on has changed, which no watch shows."""
        self._pods.dirty.update(pods)

    def learn(self) -> bool:
        """Something may have become known of elastic jobs: whether it has, of one of them."""
        return self._gangs.learn()

    # -- what was decided

    def assume(self, pod: str, assumed: Assumed) -> None:
        """Lay over a pod what was decided for it."""
        self._pods.assume(pod, assumed)

    def forget(self, pod: str) -> None:
        """What was assumed of a pod did not come true."""
        self._pods.forget(pod)

    def admit(self, job: str) -> None:
        """Take the group of a job as admitted, until its object says as much."""
        identity = self._gangs.identity(job)
        if identity is not None and self._groups.admit(identity):
            self._dirty.add(identity)

    # -- what a cycle takes

    def take(self, now: float) -> Update:
        """The jobs that changed since the last time, and everything else."""
        if self._pods.outdated:
            self._gangs.mark_all()
        self._pods.read(now)
        self.elastic.read_workers(self._pods.shapes)
        self._roster.mark(self._around.cover(self._pods.members.values()))
        rest = self._around.take(now)
        changed = self._gangs.take(now, self._around.covered)
        changed.update(self._unreadable.take(self._gangs.keys()))
        self._broken_jobs = tuple(self._unreadable.jobs(self._gangs.keys()))
        # Last: what a cycle that fails has not made of it is left to the next.
        self._pods.outdated = False
        anew, self._around.anew = self._around.anew, False
        return Update(msgspec.structs.replace(rest, elect=self._gangs.elect()), changed, anew)

    def cluster(self, rest: Cluster) -> Cluster:
        """Everything, for tables made anew or a record."""
        jobs = (*self._gangs.jobs(), *self._broken_jobs)
        return msgspec.structs.replace(rest, tasks=tuple(self._gangs.tasks()), jobs=jobs)

    # -- look-ups

    def node(self, name: str) -> Node | None:
        """A node of ours, as it is now."""
        return self._around.nodes.get(name)

    def group_of(self, job: str) -> tuple[str, Object] | None:
        """The object of a job's group and its home, where it has one."""
        identity = self._gangs.identity(job)
        if identity is None or identity[0] >= len(GROUP_HOMES):
            return None
        home = GROUP_HOMES[identity[0]]
        found = self.objects.get(home, {}).get(f"{identity[1]}/{identity[2]}")
        return None if found is None else (home, found)

    def elastic_job(self, job: str) -> ElasticJob | None:
        """The elastic job that a job is, with its own object."""
        identity = self._gangs.identity(job)
        return None if identity is None else self.elastic.of(identity)

    def is_unreadable(self, pod: str) -> bool:
        """Whether a pod of ours is there of which nothing but its name can be read."""
        return pod in self._unreadable

    # -- to whom an object matters

    def _note(self, home: str, key: str, before: Object | None, after: Object | None) -> bool:
        if home == "pods":
            self._pods.note(key, before, after)
        elif home == "nodes":
            return self._note_node(key, after)
        elif home in GROUP_HOMES:
            return self._note_group(home, before, after)
        elif home in OWNER_HOMES:
            return self._note_owner(home, before, after)
        elif home in STORAGE_HOMES:
            pods = self.storage.note(home, key, before, after)
            self._pods.dirty.update(pods)
            return bool(pods) or self.storage.stale
        elif home == "queues":
            self._around.note_queue(key)
        else:
            self._pods.outdated |= home in ("priority_classes", "namespaces")
            self._around.note()
        return True

    def _note_node(self, key: str, after: Object | None) -> bool:
        was_there = key in self._around.nodes
        changed = self._around.note_node(key, after)
        if was_there != (key in self._around.nodes):
            self._pods.node_came_or_went()
        return changed

    def _note_group(self, home: str, before: Object | None, after: Object | None) -> bool:
        """A gang's own object; false if all that it says is known already, as after a write of ours."""
        change = self._groups.note_group(home, before, after)
        if change is None:
            return False
        owners = self.elastic.note_group(*change)
        self._pods.dirty.update(self._roster.regrouped(change, owners))
        self._dirty.add(change.identity)
        return True

    def _note_owner(self, home: str, before: Object | None, after: Object | None) -> bool:
        """A job that may own pods; false if what changed is only what was assumed of it already."""
        change = self._groups.note_owner(home, before, after)
        self._pods.dirty.update(self._roster.reowned(home, change))
        return self.elastic.note_owner(home, *change)


def _key(home: str, item: Object) -> str:
    return item.name if home in CLUSTER_WIDE else item.key


def _nothing_but_named(home: str, key: str) -> Object:
    namespace, _, name = key.rpartition("/")
    return msgspec.convert({"metadata": {"namespace": namespace, "name": name}}, STRUCTS[home])


def _same(before: Object, after: Object, *, status: bool = False) -> bool:
    """Whether an object changed in nothing that is read of it; with `status`, in nothing but its status."""
    old, new = before.metadata, after.metadata
    if status:
        before = msgspec.structs.replace(before, **{"status": getattr(after, "status")})  # noqa: B009
    if old.resource_version != new.resource_version:
        before = msgspec.structs.replace(
            before, metadata=msgspec.structs.replace(old, resource_version=new.resource_version)
        )
    return before == after
