"""The picture: what watches or files have shown, and the model it makes, kept up to date object by object.

`put` and `drop` take objects in and out; `take` gives a cycle the jobs that changed since the last one. What has been
decided but not yet seen is laid over pods and elastic jobs as `assumed`, so that the next decision knows it. `maar
plan` fills a fresh picture from files and takes its cluster.

This is the front, which says what an object matters to. Behind it are parts, each of which knows only those above it:

    Store          all objects, by kind and key
    Images         images that pods use, and the nodes that have them
    Siblings       pods that belong together, by controllers and Services
    Surroundings   nodes, queues, budgets and all else that is neither job nor task
    Owners         which object made which, from pods to jobs
    Groups         the gangs that objects state
    ElasticJobs    what elastic jobs state beyond that
    Roster         which pods each gang has, and which gangs lack pods
    Pods           reads pods that have changed, and enters them in the roster
    Gangs          makes jobs and tasks of it all
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from maar.kube.kinds import ALONE, JOB_KINDS, AnyKind, Identity
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds.kind import JobKind, PodGroupKind
from maar.kube.picture.assumed import Assumed, Assumptions
from maar.kube.picture.elastic_jobs import ElasticJob, ElasticJobs
from maar.kube.picture.gangs import Gangs
from maar.kube.picture.groups import Groups
from maar.kube.picture.images import Images
from maar.kube.picture.owners import Owner, Owners
from maar.kube.picture.pods import Pods
from maar.kube.picture.problems import Problems
from maar.kube.picture.roster import Roster
from maar.kube.picture.siblings import Siblings
from maar.kube.picture.store import Store
from maar.kube.picture.surroundings import Surroundings
from maar.kube.read.facts import without_facts
from maar.kube.read.knowledge import Knowledge, Learning
from maar.kube.read.queues import may_admit
from maar.kube.read.storage.state import KINDS as STORAGE_KINDS
from maar.kube.read.storage.state import Storage
from maar.kube.wire import annotations as known
from maar.kube.wire import cluster as wire
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object, OwnerReference
from maar.kube.wire.pods import Pod
from maar.model.loads import Load
from maar.model.nodes import Node
from maar.model.snapshot import Changed, Cluster

SETTLING = 2.0
"""Seconds without a new pod after which a gang of unknown size is taken to be complete."""


MISSING = frozenset(
    (
        *STORAGE_KINDS,
        kinds.PRIORITY_CLASSES,
        kinds.HYPERNODES,
        kinds.NODE_METRICS,
        kinds.SERVICES,
        kinds.SHARD_MAPS,
        kinds.SHARDS,
    )
)
"""Kinds whose objects count as missing if they do not decode: pods that need one of them wait."""


class Update(msgspec.Struct, frozen=True):
    """What has changed since the last one was taken."""

    around: Cluster
    """Everything but jobs and tasks."""
    changed: dict[str, Changed]
    rebuild: bool
    """Nodes or queues changed: tables must be built again."""


class PodGroup(NamedTuple):
    """The PodGroup of a job."""

    kind: PodGroupKind[Any]
    item: Any


class Picture:
    """All objects, and the model they make."""

    def __init__(
        self,
        scheduler_names: frozenset[str] | None = None,
        ours: Callable[[wire.Node], bool] = lambda _: True,
        knowledge: Knowledge | None = None,
        problems: Problems | None = None,
        settling: float | None = SETTLING,
    ) -> None:
        """Pods with one of `scheduler_names` are ours (`None`: all are), and nodes by `ours`.

        Without `settling`, gangs of unknown size are complete as they are.
        """
        self.objects = Store()
        self.served: dict[AnyKind, Resource[Object]] = {}
        """The version of each kind that the API server serves, where it has been asked."""
        self.assumed: Assumptions[str, Assumed] = Assumptions(lambda pod: self.pods.dirty.add(pod))
        """What was decided for pods and is not seen yet."""
        of = self.objects.of
        self.storage = Storage(
            of(kinds.CLAIMS),
            of(kinds.VOLUMES),
            of(kinds.STORAGE_CLASSES),
            of(kinds.CSI_DRIVERS),
            of(kinds.CSI_CAPACITIES),
            self.assumed,
        )
        self.names = scheduler_names
        self.problems = problems or Problems()
        self._dirty: set[Identity] = set()
        """Gangs that the next cycle makes again; every part that sees a gang change marks it here."""
        self._images = Images()
        self._siblings = Siblings()
        self._around = Surroundings(self.objects, self.storage, self._images, self.problems, ours, scheduler_names)
        self.owners = Owners(self.objects)
        self._groups = Groups(self.owners, self.problems, scheduler_names)
        self.elastic = ElasticJobs(self.objects, self.owners, self._groups, self._dirty)
        self._roster = Roster(self._groups, self._dirty)
        self.pods = Pods(
            self.objects, self.assumed, self._around.nodes, self._images, self.storage, self.owners, self._groups,
            self._roster, self.problems, scheduler_names,
        )  # fmt: skip
        self._gangs = Gangs(
            self._groups, self._roster, self.pods, self.elastic, self._images, self._siblings, self.problems,
            Learning(knowledge), self._dirty, settling,
        )  # fmt: skip

    # -- what watches say

    def put(self, kind: AnyKind, item: Any) -> bool:
        """Take in an object as it is now. False if it changes nothing that a decision could see."""
        return self._put(kind, item, "")

    def broken(self, kind: AnyKind, namespace: str, name: str, error: str, item: Any = None) -> bool:
        """An object does not decode: take in what can be read of it. What depends on the rest waits with the reason.

        Without `item`, only the name can be read.
        """
        key = kind.key(namespace, name)
        stub = item or self.objects.of(kind).get(key) or _only_named(kind, namespace, name)
        if stub is None or kind in MISSING:
            self.problems.invalid(kind, key, error, "it counts as missing")
            return self._drop(kind, key)
        return self._put(kind, stub, error)

    def _put(self, kind: AnyKind, item: Any, error: str) -> bool:
        """Take in an object; `error` says which field of it could not be decoded."""
        key = kind.key_of(item)
        try:
            return self._take_in(kind, key, item, error)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            self.problems.bug(kind, key, bug)
            self.objects.of(kind).pop(key, None)
            self._around.note()
            self._around.rebuild = True  # it may have been a node or a queue
            return True

    def _take_in(self, kind: AnyKind, key: str, item: Any, error: str) -> bool:
        fresh = self._note_images(key, item.status.images) if kind is kinds.NODES else False
        if kind is kinds.NODES and item.status.images:
            item = msgspec.structs.replace(item, status=msgspec.structs.replace(item.status, images=()))
        if kind is kinds.PODS:
            item = item.slim()
        there = self.objects.of(kind)
        before = there.get(key)
        there[key] = item
        known = self.problems.undecoded.pop((kind, key), "")
        if error:
            self.problems.undecoded[kind, key] = error
        if before is not None and known == error and _same(before, item):
            return fresh
        self.problems.valid(kind, key)
        if error:
            self.problems.invalid(kind, key, error)
        return self._note(kind, key, before, item) or fresh

    def drop(self, kind: AnyKind, key: str) -> bool:
        self.problems.valid(kind, key)
        return self._drop(kind, key)

    def _drop(self, kind: AnyKind, key: str) -> bool:
        before = self.objects.of(kind).pop(key, None)
        self.problems.undecoded.pop((kind, key), None)
        try:
            if kind is kinds.NODES:
                self._note_images(key, None)
            return before is not None and self._note(kind, key, before, None)
        except Exception as bug:  # noqa: BLE001 a bug of ours affects this object only
            self.problems.bug(kind, key, bug)
            self._around.rebuild = True
            return True

    def can_wait(self, kind: AnyKind, before: Object | None, after: Object) -> bool:
        """Whether what was just put in helps no job yet: a pod of a gang that lacks others, or a group's new status."""
        if isinstance(after, Pod):
            return before is None and after.key not in self.pods.dirty
        return before is not None and isinstance(kind, PodGroupKind) and _same(before, after, status=True)

    def read_short(self) -> None:
        """Gangs that lack pods have lacked them for a while: read them, so that their owners learn it."""
        self.pods.dirty.update(self._roster.short())

    def read_again(self, pods: Iterable[str]) -> None:
        """Something that these pods depend on has changed, which no watch shows."""
        self.pods.dirty.update(pods)

    def measured(self, loads: Iterable[Load]) -> None:
        """The real load of nodes, as monitoring other than the metrics API has measured it; replaces all figures."""
        self._around.measured(tuple(loads))

    def learn(self) -> bool:
        """Something may have become known about elastic jobs: whether it has, about one of them."""
        return self._gangs.learn()

    # -- what was decided

    def make_again(self, job: str) -> None:
        """Make a job again although nothing of it has changed."""
        identity = self._gangs.identity(job)
        if identity is not None:
            self._dirty.add(identity)

    def admit(self, job: str) -> None:
        """Take the PodGroup of a job as admitted, until its object says so."""
        identity = self._gangs.identity(job)
        if identity is not None and self._groups.admit(identity):
            self._dirty.add(identity)

    # -- what a cycle takes

    def take(self, now: float) -> Update:
        """The jobs that changed since the last time, and everything else."""
        if self.pods.outdated:
            self._gangs.mark_all()
        self.pods.read(now)
        self._around.close_nodes(self.pods.full_nodes())
        self.elastic.read_workers(self.pods.shapes)
        self._roster.mark(self._around.cover(self.pods.members.values()))
        self._roster.mark(self._siblings.concerned(self.pods.members.values()))
        changed = self._gangs.take(now, self._around.covered)
        around = self._around.take(now)
        # Last: what a cycle that fails has not made of it is left to the next.
        self.pods.outdated = False
        rebuild, self._around.rebuild = self._around.rebuild, False
        return Update(around, changed, rebuild)

    def cluster(self, around: Cluster) -> Cluster:
        """Everything, for tables that are built again or a record."""
        return msgspec.structs.replace(around, tasks=tuple(self._gangs.tasks()), jobs=tuple(self._gangs.jobs()))

    # -- look-ups

    def path(self, kind: AnyKind, item: Object, sub: str | None = None) -> str:
        """The path of an object, or of a subresource of it, on the API server."""
        return self.resource(kind).path(item.namespace, item.name, sub)

    def resource(self, kind: AnyKind) -> Resource[Object]:
        """A kind in the version that the API server serves."""
        return self.served.get(kind, kind.resource)

    def jobs_without_pods(self) -> Iterator[Owner]:
        """Objects that should have pods and have none, nor an object of theirs that pods are made of, in order.

        Elastic jobs are not among them: these are planned without pods.
        """
        for kind in JOB_KINDS:
            for _, item in sorted(self.objects.of(kind).items()):
                owner = Owner.of(kind, item)
                outer = self.owners.chain(owner)[-1]
                planned = any(self._groups.there[part].elastic for part in self._groups.parts(outer.identity()))
                if planned or kind.end_of(item) is not None or any(self.owners.inside(owner)):
                    continue
                pods = (self.objects.of(kinds.PODS)[key] for key in self.owners.pods_naming((owner,)))
                if not any(self.owners.names(pod, owner) for pod in pods):
                    yield owner

    def group_for(self, owner: Owner) -> PodGroup | None:
        """The PodGroup that belongs to a job, where there is one; not of a job with several gangs."""
        job = self.owners.chain(owner)[-1].identity()
        found = next(iter(sorted(self.elastic.stand_ins(job))), None)
        if found is None or not isinstance(kind := found.source, PodGroupKind):
            return None
        return PodGroup(kind, self.objects.of(kind)[f"{found.namespace}/{found.name}"])

    @property
    def noted(self) -> frozenset[str]:
        """The nodes that show locks or facts."""
        return frozenset((*self._around.locks, *self._around.facts))

    def pod(self, key: str) -> Pod | None:
        """A pod as the last decision saw it; watches may have shown more since."""
        found = self.pods.members.get(key)
        return None if found is None else found.pod

    def node(self, name: str) -> Node | None:
        return self._around.nodes.get(name)

    def group_of(self, job: str) -> PodGroup | None:
        """The PodGroup of a job, where it has one."""
        identity = self._gangs.identity(job)
        if identity is None or not isinstance(kind := identity.source, PodGroupKind):
            return None
        item = self.objects.of(kind).get(f"{identity.namespace}/{identity.name}")
        return None if item is None else PodGroup(kind, item)

    def owner_of(self, job: str) -> Owner | OwnerReference | None:
        """The object that the owner of a job submitted, where neither its PodGroup nor its pods are it.

        A reference, if Maar does not know the kind. Gangs that only their pods state have one if all have the same.
        """
        identity = self._gangs.identity(job)
        if identity is None:
            return None
        if isinstance(identity.source, JobKind):
            item = self.objects.of(identity.source).get(f"{identity.namespace}/{identity.name}")
            return None if item is None else Owner.of(identity.source, item)
        if (group := self.group_of(job)) is not None:
            return self.owners.submitted(identity.namespace, group.item.metadata.owner_references)
        members = (self.pods.members.get(pod) for pod in self._roster.pods(identity))
        found = [
            self.owners.submitted(identity.namespace, m.pod.metadata.owner_references) for m in members if m is not None
        ]
        alone = identity.source is ALONE and not isinstance(found[0] if found else None, Owner)
        return None if alone or not found or any(_uid(o) != _uid(found[0]) for o in found) else found[0]

    def is_alone(self, job: str) -> bool:
        """Whether a job is one pod that names no gang. A gang may have the same name as its first pod."""
        identity = self._gangs.identity(job)
        return identity is not None and identity.source is ALONE

    def elastic_job(self, job: str) -> ElasticJob | None:
        """The elastic job that a job is, with its own object."""
        identity = self._gangs.identity(job)
        return None if identity is None else self.elastic.of(identity)

    # -- what an object matters to

    def _note(self, kind: AnyKind, key: str, before: Any, after: Any) -> bool:
        if kind is kinds.PODS:
            self.pods.note(key, before, after)
        elif kind is kinds.NODES:
            return self._note_node(key, after)
        elif isinstance(kind, PodGroupKind):
            return self._note_group(kind, before, after)
        elif isinstance(kind, JobKind):
            return self._note_job(kind, before, after)
        elif kind in STORAGE_KINDS:
            pods = self.storage.note(kind, key, before, after)
            self.pods.dirty.update(pods)
            return bool(pods) or self.storage.stale
        elif kind is kinds.QUEUES:
            if before is not None and after is not None and _same(without_facts(before), without_facts(after)):
                self._around.note()
                return False  # only Maar writes them
            self._around.note_queue()
        elif kind is kinds.QUOTAS:
            self._around.note()
            return may_admit(before, after)
        elif kind is kinds.SERVICES:
            self._siblings.note(before, after)
            return False  # the next decision about its pods is in time
        elif kind is kinds.PROVISIONING_REQUESTS or kind is kinds.SHARD_MAPS:
            pass  # Not in the snapshot, but the controller looks at it in each cycle.
        elif kind is kinds.SHARDS:
            return before is None or after is None or before.spec != after.spec
        else:
            self.pods.outdated |= kind in (kinds.PRIORITY_CLASSES, kinds.NAMESPACES)
            self._around.note()
        return True

    def _note_node(self, key: str, after: wire.Node | None) -> bool:
        was_there = key in self._around.nodes
        changed = self._around.note_node(key, after)
        self.pods.node_changed(key)
        if was_there != (key in self._around.nodes):
            self.pods.node_came_or_went()
        return changed

    def _note_images(self, node: str, images: Iterable[wire.Image] | None) -> bool:
        """The images of a node changed; false if no pod uses one of those that came or went."""
        users = self._images.note(node, images)
        self.pods.redraft({user for user in users if isinstance(user, str)})
        self._dirty.update(user for user in users if isinstance(user, Identity))
        return self._images.stale

    def _note_group(self, kind: PodGroupKind[Any], before: Any, after: Any) -> bool:
        """A PodGroup; false if everything that it says is known already, as after a write of ours."""
        change = self._groups.note_group(kind, before, after)
        if change is None:
            return False
        jobs = self.elastic.note_group(*change)
        self.pods.dirty.update(self._roster.restated(change, jobs))
        self._dirty.add(change.identity)
        return True

    def _note_job(self, kind: JobKind[Any], before: Any, after: Any) -> bool:
        """A job that may own pods; false if what changed is only what was assumed about it already."""
        item = after or before
        owner = Owner(kind, item.namespace, item.name, after)
        self.owners.note(kind, before, after)
        inside = list(self.owners.inside(Owner.of(kind, item)))
        # What it made is, or was, part of it; and it is, or was, part of what made it.
        chains = (self.owners.chain(Owner.of(kind, seen)) for seen in (before, after) if seen is not None)
        outer = {o.place: o for chain in chains for o in chain[1:]}
        changes = [c for o in (owner, *inside, *outer.values()) for c in self._groups.note_job(o)]
        if before is None or after is None or any((c.was is None) != (c.made is None) or _turned(c) for c in changes):
            self.pods.dirty.update(self.owners.pods_naming((owner, *inside)))
        if before is None or after is None or before.metadata.owner_references != after.metadata.owner_references:
            # PodGroups that it owns may belong to another job now.
            jobs = {o.identity() for o in (owner, *inside, *outer.values())}
            moved = self.elastic.mark_moved(jobs)
            self.pods.dirty.update(self._roster.all_pods(moved, jobs) if moved else ())
        if (turned := _hold(before) != _hold(after)) and before is not None and after is not None:
            self._roster.mark(self.owners.pods_naming((owner, *inside)))  # its pods may be gangs of one
        seen = [self.elastic.note_job(*change) for change in changes]
        for seen_owner in (owner, *outer.values()):
            self.elastic.note_untrue(seen_owner, self.names)
        unkept = self._groups.pods_of_unkept(owner.identity())
        self._roster.mark(unkept)  # the changes above are those of gangs that are kept
        return any(seen) or bool(unkept) or turned or (before is None) != (after is None)


def part_of(picture: Picture, namespaces: Collection[str]) -> Picture:
    """A picture of some namespaces, and of what is in none. To take it changes nothing in the whole one."""
    made = Picture(picture.names, settling=None)
    for kind in picture.served:
        for item in picture.objects.of(kind).values():
            if not item.namespace or item.namespace in namespaces:
                made.put(kind, item)
    return made


def _uid(owner: Owner | OwnerReference | None) -> str:
    """What tells owners apart."""
    if isinstance(owner, Owner):
        return str(owner.item.metadata.uid)
    return "" if owner is None else owner.uid


def _only_named(kind: AnyKind, namespace: str, name: str) -> Any:
    """An object that has only a name; `None` for kinds that need more."""
    try:
        return msgspec.convert({"metadata": {"namespace": namespace, "name": name}}, kind.resource.struct)
    except msgspec.ValidationError:
        return None


def _turned(change: Any) -> bool:
    """Whether a job became elastic, or is so no longer: pods whose PodGroup is missing change hands."""
    return (change.was.elastic is None) != (change.made.elastic is None)


def _hold(item: Object | None) -> str:
    return "" if item is None else item.metadata.annotations.get(known.HOLD[0], "")


def _same(before: Object, after: Object, *, status: bool = False) -> bool:
    """Whether an object changed in nothing that is read of it; with `status`, in nothing but its status."""
    old, new = before.metadata, after.metadata
    if isinstance(before, Pod) and isinstance(after, Pod):
        before = before.with_conditions_of(after)
    if isinstance(before, wire.Queue) and isinstance(after, wire.Queue):
        shown = {"allocated": after.status.allocated, "summary": after.status.summary}  # written by Maar itself
        same = msgspec.structs.replace(before.status, **shown)
        before = msgspec.structs.replace(before, status=same)
    if status:
        before = msgspec.structs.replace(before, **{"status": getattr(after, "status")})  # noqa: B009
    if old.resource_version != new.resource_version:
        before = msgspec.structs.replace(
            before, metadata=msgspec.structs.replace(old, resource_version=new.resource_version)
        )
    return before == after
