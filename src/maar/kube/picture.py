"""The live picture: what watches have shown, and the model it makes, kept up to date object by object.

`to_cluster` reads everything at once; a picture does the same work only for what changed. Watches put objects in and
take them out; a cycle takes the jobs that changed since the last one. What has been decided but not yet seen (a bind on
its way, a nomination) is laid over the pods as `assumed`, so that the next decision knows it; so is a resize over the
elastic job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from maar.kube import wire
from maar.kube.budgets import budget, cover
from maar.kube.dialects import dialects
from maar.kube.dialects.owners import Owners
from maar.kube.elastic import with_elastic
from maar.kube.elastic_jobs import ElasticJob, ElasticJobs
from maar.kube.errors import FieldError
from maar.kube.groups import Dialect, Group
from maar.kube.hypernodes import hypernode
from maar.kube.jobs import Gang, Identity, alone, gang_of, identity_of
from maar.kube.knowledge import Knowledge, Learning
from maar.kube.neighbours import Matcher, Namespaces
from maar.kube.nodes import lock, node
from maar.kube.objects import KINDS, Objects
from maar.kube.priorities import Priorities
from maar.kube.queues import namespace_weight, queue
from maar.kube.shapes import Shapes, selectors_of
from maar.kube.storage import HOMES as STORAGE_HOMES
from maar.kube.storage import Storage
from maar.kube.tasks import Member, member, moved_on, task
from maar.kube.volumes import needs
from maar.kube.wire_pods import Pod
from maar.model.jobs import Job, Phase
from maar.model.nodes import Node
from maar.model.plan import Elect, Lock
from maar.model.queues import Queue
from maar.model.selectors import PodSelector
from maar.model.shapes import Shape
from maar.model.snapshot import Budget, Changed, Cluster
from maar.model.tasks import Status, Task

W = TypeVar("W", bound=wire.Object)

GROUP_HOMES = ("upstream_groups", "volcano_groups", "plugins_groups")
"""Homes of group objects; their place here is their dialect's rank."""
OWNER_HOMES = ("kubeflow_jobs", "volcano_jobs", "job_sets", "batch_jobs")
STRUCTS = {kind.home: kind.struct for kind in KINDS.values()}
PLAIN_RANK, OWNERS_RANK = 3, 4
SETTLING = 2.0
"""Seconds without a new pod after which a gang that nothing counts is taken to be complete."""


class Assumed(msgspec.Struct, frozen=True):
    """Where a pod will stand once what was decided has been carried out."""

    uid: str
    status: Status
    node: str = ""


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
        self.objects: dict[str, dict[str, wire.Object]] = {}
        """Home (as in `Objects`) to key to object."""
        self.assumed: dict[str, Assumed] = {}
        self.storage = Storage(self.objects, self.assumed)
        self._names = scheduler_names
        self._ours = ours
        self._learning = Learning(knowledge)
        self._nodes: dict[str, Node] = {}
        self._locks: dict[str, Lock] = {}
        self._members: dict[str, Member] = {}
        self._identity: dict[str, Identity] = {}
        self._pods_of: dict[Identity, dict[str, None]] = {}
        self._grew: dict[Identity, float] = {}
        """When a gang last got a pod."""
        self._short: dict[Identity, list[str]] = {}
        """Pods that came and are not read yet: those of gangs that lack others still."""
        self._admitted: dict[Identity, str] = {}
        """Groups whose admission is decided and not seen yet, with their uids."""
        self._groups: dict[Identity, Group] = {}
        self._gangs: dict[Identity, tuple[Gang, tuple[Task, ...]]] = {}
        self._keys: dict[str, Identity] = {}
        self._broken: dict[str, Job] = {}
        self._broken_queues: dict[str, str] = {}
        self._owners = Owners(Objects(), scheduler_names)
        self._dialects: tuple[Dialect, ...] = (*dialects(Objects())[:OWNERS_RANK], self._owners)
        self._dirty_pods: set[str] = set()
        self._dirty_gangs: set[Identity] = set()
        self.elastic = ElasticJobs(OWNERS_RANK, self._groups, self.objects, self._dirty_gangs)
        self._dirty_broken: set[str] = set()
        self._stale: set[str] = {"nodes", "queues", "rest", "shapes"}
        self._priorities = Priorities(())
        self._shapes = Shapes(Namespaces((), ()), frozenset())
        self._matcher = Matcher(())
        self._selectors: frozenset[PodSelector] = frozenset()
        self._choosy: Counter[Shape] = Counter()
        """Drafts that mean other pods, and how many pods have each."""
        self._covered: dict[str, tuple[str, ...]] = {}
        self._rest = Cluster()

    # -- what watches say

    def put(self, home: str, item: wire.Object) -> bool:
        """Take in an object as it is now. False if it changes nothing that a decision could see."""
        key = item.key if home not in CLUSTER_WIDE else item.name
        before = self.objects.setdefault(home, {}).get(key)
        self.objects[home][key] = item
        if before is not None and _same(before, item):
            return False
        self._unbreak(home, key)
        return self._note(home, key, before, item)

    def drop(self, home: str, key: str) -> bool:
        """An object is gone."""
        before = self.objects.get(home, {}).pop(key, None)
        self._unbreak(home, key)
        return self._note(home, key, before, None) if before is not None else False

    def replace(self, home: str, items: Iterable[wire.Object]) -> None:
        """All objects of a kind, after a list: those that are not among them are gone."""
        kept = set()
        for item in items:
            kept.add(item.key if home not in CLUSTER_WIDE else item.name)
            self.put(home, item)
        for key in [k for k in self.objects.get(home, {}) if k not in kept]:
            self.drop(home, key)

    def broken(self, home: str, key: str, error: str, scheduler: str | None = None) -> None:
        """An object does not decode: what it was before is gone, and whatever depends on it waits with the reason.

        A pod of ours becomes a job of its name. In the place of a group or a queue stands one that has only a name.
        """
        self.drop(home, key)
        if home in (*GROUP_HOMES, "queues"):
            namespace, _, name = key.rpartition("/")
            nothing_but = {"metadata": {"namespace": namespace, "name": name}}
            self.put(home, msgspec.convert(nothing_but, STRUCTS[home]))
            if home == "queues":
                self._broken_queues[key] = error
            else:
                group = self._groups[GROUP_HOMES.index(home), namespace, name]
                # Nobody knows how many it needs: all that are there.
                group.broken, group.gang, group.minimum = error, True, None
        elif home == "pods" and (self._names is None or scheduler is None or scheduler in self._names):
            self._broken[f"{home}:{key}"] = Job(key, broken=error)
            self._dirty_broken.add(key)

    def is_unreadable(self, pod: str) -> bool:
        """Whether a pod of ours is there of which nothing but its name can be read."""
        return f"pods:{pod}" in self._broken

    def assume(self, pod: str, assumed: Assumed) -> None:
        """Lay over a pod what was decided for it."""
        self.assumed[pod] = assumed
        self._dirty_pods.add(pod)

    def forget(self, pod: str) -> None:
        """What was assumed of a pod did not come true."""
        if self.assumed.pop(pod, None) is not None:
            self._dirty_pods.add(pod)

    def admit(self, job: str) -> None:
        """Take the group of a job as admitted, until its object says as much."""
        identity = self._keys.get(job)
        if identity is not None and identity in self._groups:
            self._admitted[identity] = self._groups[identity].uid
            self._dirty_gangs.add(identity)

    def confirm(self, pod: Pod) -> bool:
        """A bind that was assumed is seen: false if it is not just that, and the pod must be put in as any other."""
        key = pod.key
        assumed, before = self.assumed.get(key), self._members.get(key)
        if assumed is None or before is None or key in self._dirty_pods:
            return False
        if assumed.status is not Status.BOUND or assumed.uid != pod.metadata.uid or pod.status.start_time is not None:
            return False
        made = moved_on(before, pod, self._nodes)
        if made is None or (made.status, made.node) != (before.status, before.node) or before.made is None:
            return False
        made.made = before.made
        self.objects["pods"][key] = pod
        self._members[key] = made
        del self.assumed[key]
        return True

    def can_wait(self, home: str, before: wire.Object | None, after: wire.Object) -> bool:
        """Whether what was just put in helps nobody yet: a pod of a gang that lacks others, or a group's new status."""
        if isinstance(after, Pod):
            return before is None and after.key not in self._dirty_pods
        return before is not None and home in GROUP_HOMES and _same(before, after, status=True)

    def _note_pod(self, key: str, before: wire.Object | None, after: wire.Object | None) -> None:
        """Read a pod in the next cycle; where its gang cannot start yet, with those that it lacks."""
        if before is None and isinstance(after, Pod) and not after.spec.node_name:
            identity = identity_of(after, self._dialects, self._groups)
            group = self._groups.get(identity)
            if group is not None and group.minimum is not None and not group.owner and group.reading is None:
                waiting = self._short.setdefault(identity, [])
                waiting.append(key)
                if len(self._pods_of.get(identity, ())) + len(waiting) >= group.minimum:
                    self._dirty_pods.update(self._short.pop(identity))
                return
        self._dirty_pods.add(key)

    def read_short(self) -> None:
        """Gangs that lack pods have lacked them for a while: their owners are to know it."""
        for waiting in self._short.values():
            self._dirty_pods.update(waiting)
        self._short.clear()

    def _unbreak(self, home: str, key: str) -> None:
        if home == "queues":
            self._broken_queues.pop(key, None)
        if self._broken.pop(f"{home}:{key}", None) is not None:
            self._dirty_broken.add(key)

    def _note(self, home: str, key: str, before: wire.Object | None, after: wire.Object | None) -> bool:
        if home == "pods":
            self._note_pod(key, before, after)
        elif home == "nodes":
            return self._note_node(key, after)
        elif home in GROUP_HOMES:
            return self._note_group(home, before, after)
        elif home in OWNER_HOMES:
            return self._note_owner(home, before, after)
        elif home in STORAGE_HOMES:
            pods = self.storage.note(home, key, before, after)
            self._dirty_pods |= pods
            return bool(pods) or self.storage.stale
        elif home == "queues":
            self._stale.update(("queues", "rest"))
        elif home in ("priority_classes", "namespaces"):
            self._stale.add("shapes")
        else:
            self._stale.add("rest")
        return True

    def _note_node(self, key: str, after: wire.Object | None) -> bool:
        was = (self._nodes.pop(key, None), self._locks.pop(key, None))
        if isinstance(after, wire.Node) and self._ours(after):
            try:
                # Images change whenever a pod starts; they would make tables anew all the time for a small score.
                self._nodes[key] = msgspec.structs.replace(node(after), images={})
            except FieldError:
                self._nodes.pop(key, None)
            held = lock(after)
            if held is not None:
                self._locks[key] = held
        is_ = (self._nodes.get(key), self._locks.get(key))
        if was[0] != is_[0]:
            self._stale.update(("nodes", "rest"))
            self.storage.stale = True
            if (was[0] is None) != (is_[0] is None):
                # Those whose volumes are made for a node must know whether it is there.
                waiting = (k for k in self.storage.claims_of if k in self._members)
                self._dirty_pods.update(k for k in waiting if self._members[k].status is not Status.BOUND)
        if was[1] != is_[1]:
            self._stale.add("rest")
        return was != is_

    def _note_group(self, home: str, before: wire.Object | None, after: wire.Object | None) -> bool:
        """A gang's own object; false if all that it says is known already, as after a write of ours."""
        identity, was, made = self._regroup(GROUP_HOMES.index(home), home, before, after)
        if was is not None and made is not None and made == self._as_known(identity, was):
            if made.phase is not Phase.PENDING:
                self._admitted.pop(identity, None)
            return False
        if made is None:
            self._admitted.pop(identity, None)
        self._dirty_pods.update(self._short.pop(identity, ()))
        for owner in self.elastic.note_group(identity, was, made):
            if (was is None) != (made is None):
                # While there is no PodGroup its pods belong to the job itself.
                self._dirty_pods.update(self._pods_of.get(owner, ()), self._pods_of.get(identity, ()))
        if (was is None or was.gang) != (made is None or made.gang):
            self._dirty_pods.update(k for k, m in self._members.items() if m.pod.namespace == identity[1])
        self._dirty_gangs.add(identity)
        return True

    def _as_known(self, identity: Identity, group: Group) -> Group:
        """A group as it was seen, with what was assumed of it."""
        if self._admitted.get(identity) != group.uid or group.phase is not Phase.PENDING:
            return group
        return msgspec.structs.replace(group, phase=Phase.INQUEUE)

    def _note_owner(self, home: str, before: wire.Object | None, after: wire.Object | None) -> bool:
        """A job that may own pods; false if what changed is only what was assumed of it already."""
        identity, was, made = self._regroup(OWNERS_RANK, home, before, after)
        _, namespace, name = identity
        if home == "batch_jobs" and (was is None) != (made is None):
            (self._owners.gang_jobs.discard if made is None else self._owners.gang_jobs.add)(f"{namespace}/{name}")
            self._dirty_pods.update(k for k, m in self._members.items() if m.pod.namespace == namespace)
        if (was is None or was.reading is None) != (made is None or made.reading is None):
            # Pods whose PodGroup is not there change hands.
            for rank in range(OWNERS_RANK + 1):
                for group in (name, f"{name}-{(made or was or Group(namespace=namespace, name=name)).uid}"):
                    self._dirty_pods.update(self._pods_of.get((rank, namespace, group), ()))
        return self.elastic.note_owner(home, identity, was, made)

    def _regroup(
        self, rank: int, home: str, before: wire.Object | None, after: wire.Object | None
    ) -> tuple[Identity, Group | None, Group | None]:
        """Who it is, the group that it made, and the group that it makes now."""
        item = after or before
        assert item is not None
        identity = (rank, item.namespace, item.name)
        was = self._groups.pop(identity, None)
        made = None if after is None else _group(home, after, self._names)
        if made is not None:
            self._groups[identity] = made
        return identity, was, made

    # -- what a cycle takes

    def take(self, now: float) -> Update:
        """The jobs that changed since the last time, and everything else."""
        anew = bool(self._stale & {"nodes", "queues"})
        if "shapes" in self._stale:
            self._read_anew()
        self._read_pods(now, "shapes" in self._stale)
        self.elastic.read_workers(self._shapes)
        self._match_anew()
        rest = self._take_rest(now)
        changed = self._take_gangs(now)
        self._stale.clear()
        return Update(msgspec.structs.replace(rest, elect=self._elect()), changed, anew)

    def cluster(self, rest: Cluster) -> Cluster:
        """Everything, for tables made anew or a record."""
        gangs = self._gangs.values()
        return msgspec.structs.replace(
            rest,
            tasks=tuple(t for _, tasks in gangs for t in tasks),
            jobs=(*(g.job for g, _ in gangs), *self._unknown_broken()),
        )

    def group_of(self, job: str) -> tuple[str, wire.Object] | None:
        """The object of a job's group and its home, where it has one."""
        identity = self._keys.get(job)
        if identity is None or identity[0] >= len(GROUP_HOMES):
            return None
        home = GROUP_HOMES[identity[0]]
        found = self.objects.get(home, {}).get(f"{identity[1]}/{identity[2]}")
        return None if found is None else (home, found)

    def elastic_job(self, job: str) -> ElasticJob | None:
        """The elastic job that a job is, with its own object."""
        identity = self._keys.get(job)
        return None if identity is None else self.elastic.of(identity)

    def learn(self) -> bool:
        """Something may have become known of elastic jobs: whether it has, of one of them."""
        found = self._learning.outdated()
        self._dirty_gangs.update(found)
        return bool(found)

    def _unknown_broken(self) -> list[Job]:
        return list({job.key: job for job in self._broken.values() if job.key not in self._keys}.values())

    def _read_anew(self) -> None:
        """Priorities or namespaces changed: every pod is read again."""
        self._priorities = Priorities(self._all("priority_classes", wire.PriorityClass))
        spaces = self._all("namespaces", wire.Namespace)
        self._shapes = Shapes(
            Namespaces(spaces, {k.partition("/")[0] for k in self.objects.get("pods", {})}), frozenset()
        )
        self._dirty_pods.update(self.objects.get("pods", {}))
        self._dirty_gangs.update(self._pods_of, self.elastic.everyone())

    def read_again(self, pods: Iterable[str]) -> None:
        """Something that these pods depend on has changed, which no watch shows."""
        self._dirty_pods.update(pods)

    def node(self, name: str) -> Node | None:
        """A node of ours, as it is now."""
        return self._nodes.get(name)

    def _note_claims(self) -> None:
        """Which claims the pods use that are about to be read, and who else is concerned by that."""
        pods, concerned = self.objects.get("pods", {}), set()
        for key in self._dirty_pods:
            pod = pods.get(key)
            if key in self.storage.claims_of or (isinstance(pod, Pod) and pod.spec.volumes):
                concerned |= self.storage.use(key, pod if isinstance(pod, Pod) else None)
        self._dirty_pods |= concerned

    def _read_pods(self, now: float, anew: bool) -> None:
        self._note_claims()
        emptied: set[Identity] = set()
        for key in self._dirty_pods:
            was = self._identity.pop(key, None)
            if was is not None:
                self._pods_of[was].pop(key, None)
                if not self._pods_of[was]:
                    del self._pods_of[was]
                    emptied.add(was)
                self._dirty_gangs.add(was)
            before = self._members.pop(key, None)
            made = self._read_pod(key, now, None if anew else before)
            if made is None or before is None or made.draft is not before.draft:
                self._count_choosy(before, -1)
                self._count_choosy(made, 1)
            if made is not None:
                self._members[key] = made
                identity = identity_of(made.pod, self._dialects, self._groups)
                if made.foreign:
                    identity = (len(self._dialects), made.pod.namespace, made.pod.name)
                self._identity[key] = identity
                self._pods_of.setdefault(identity, {})[key] = None
                if was != identity:
                    self._grew[identity] = now
                self._dirty_gangs.add(identity)
        for identity in emptied - self._pods_of.keys():
            self._grew.pop(identity, None)
        self._dirty_pods.clear()

    def _count_choosy(self, of: Member | None, sign: int) -> None:
        if of is not None and any(True for _ in selectors_of(of.draft)):
            self._choosy[of.draft] += sign
            if not self._choosy[of.draft]:
                del self._choosy[of.draft]

    def _read_pod(self, key: str, now: float, before: Member | None) -> Member | None:
        pod = self.objects.get("pods", {}).get(key)
        if not isinstance(pod, Pod):
            self.assumed.pop(key, None)
            return None
        foreign = self._names is not None and pod.spec.scheduler_name not in self._names
        if not pod.spec.node_name and (foreign or (pod.metadata.deletion_timestamp is not None and not pod.finished)):
            return None
        if before is not None and before.foreign == foreign:
            known = moved_on(before, pod, self._nodes)
            if known is not None:
                return self._overlaid(key, known)
        try:
            volumes = needs(self.storage, pod, self._nodes) if pod.spec.volumes else None
            draft = self._shapes.draft(pod, volumes)
            made = member(pod, draft, self._priorities, self._nodes, now, foreign, volumes)
        except FieldError as error:
            if foreign:
                return None
            self._broken[f"pods:{key}"] = Job(key, broken=f"{error.field}: {error.problem}")
            self._dirty_broken.add(key)
            return None
        return self._overlaid(key, made)

    def _overlaid(self, key: str, made: Member) -> Member:
        """The pod with what was assumed of it, unless its object says as much by now."""
        assumed = self.assumed.get(key)
        if assumed is None:
            return made
        same = assumed.uid == made.pod.metadata.uid
        seen = (assumed.status, assumed.node) == (made.status, made.node)
        later = made.status in (Status.SUCCEEDED, Status.FAILED, Status.RELEASING) or (
            assumed.status is not Status.RELEASING and made.status is Status.BOUND
        )
        if not same or seen or later:
            del self.assumed[key]
            return made
        made.status, made.node = assumed.status, assumed.node or made.node
        return made

    def _match_anew(self) -> None:
        """A selector that nobody used before may match any pod: then all tasks are made again."""
        selectors = frozenset(pods for draft in self._choosy for pods in selectors_of(draft))
        selectors |= self.elastic.selectors()
        if selectors != self._selectors:
            self._selectors = selectors
            self._matcher = Matcher(selectors)
            self._dirty_gangs.update(self._pods_of, self.elastic.everyone())

    def _take_rest(self, now: float) -> Cluster:
        budgets = self.objects.get("budgets", {})
        if not self._stale and not budgets and not self.storage.stale:
            return self._rest
        found, covered = self._cover(budgets)
        for key in self._covered.keys() | covered.keys():
            if self._covered.get(key) != covered.get(key) and key in self._identity:
                self._dirty_gangs.add(self._identity[key])
        self._covered = covered
        self._rest = Cluster(
            nodes=tuple(self._nodes.values()),
            queues=tuple(self._queue(q, now) for q in self._all("queues", wire.Queue)),
            budgets=tuple(found),
            hypernodes=tuple(hypernode(h) for h in self._all("hypernodes", wire.HyperNode)),
            namespace_weights=self._weights(),
            locks=tuple(self._locks.values()),
            rooms=self.storage.rooms(self._nodes),
        )
        return self._rest

    def _queue(self, of: wire.Queue, now: float) -> Queue:
        made, error = queue(of, now), self._broken_queues.get(of.name)
        return made if error is None else msgspec.structs.replace(made, broken=error)

    def _cover(self, budgets: Mapping[str, wire.Object]) -> tuple[list[Budget], dict[str, tuple[str, ...]]]:
        found: list[Budget] = []
        covered: dict[str, tuple[str, ...]] = {}
        for item in budgets.values():
            if isinstance(item, wire.PodDisruptionBudget):
                inside = [m for m in self._members.values() if m.pod.namespace == item.namespace]
                inside = cover(item, inside)
                for m in inside:
                    covered[m.pod.key] = (*covered.get(m.pod.key, ()), item.key)
                found.append(budget(item, inside))
        return found, {key: tuple(sorted(keys)) for key, keys in covered.items()}

    def _take_gangs(self, now: float) -> dict[str, Changed]:
        changed: dict[str, Changed] = {}
        for identity in self._dirty_gangs:
            # All before the first is made: a job's key passes from the gang that stood for it to the one that does.
            was = self._gangs.pop(identity, None)
            if was is not None:
                changed[was[0].job.key] = None
                self._keys.pop(was[0].job.key, None)
                self._learning.forget(identity)
        for identity in sorted(self._dirty_gangs):
            made = self._make_gang(identity, now)
            if made is not None:
                self._gangs[identity] = made
                self._keys[made[0].job.key] = identity
                changed[made[0].job.key] = (made[0].job, made[1])
        for key in self._dirty_broken:
            if key not in self._keys:
                broken = next((j for j in self._unknown_broken() if j.key == key), None)
                changed[key] = None if broken is None else (broken, ())
        self._dirty_gangs.clear()
        self._dirty_broken.clear()
        return changed

    def _make_gang(self, identity: Identity, now: float) -> tuple[Gang, tuple[Task, ...]] | None:
        rank, namespace, name = identity
        members = [self._members[k] for k in sorted(self._pods_of.get(identity, ()))]
        group = self.elastic.standing(identity)
        if not members and (group is None or not group.stands or not group.gang):
            return None
        if rank == len(self._dialects):
            group = alone(members[0])
        elif group is None:
            group = self._dialects[rank].missing(namespace, name, [m.pod for m in members])
        key = f"{namespace}/{name}"
        if self._keys.get(key, identity) != identity:
            key = f"{key}@{(*(d.name for d in self._dialects), 'pod')[rank]}"
        gang = gang_of(key, group, members, self._priorities, now)
        if identity in self._admitted:
            gang.job = self._as_admitted(identity, group, gang.job)
        gang.job = with_elastic(gang.job, gang.reading, self._shapes, self._matcher)
        gang.job = self._learning.laid_over(identity, gang.job, gang.reading)
        if rank in (PLAIN_RANK, OWNERS_RANK) and group.minimum is None:
            gang.job = msgspec.structs.replace(gang.job, settles=self._grew[identity] + SETTLING)
        return gang, tuple(
            task(
                m,
                key,
                self._shapes.finish(m.draft, m.pod, self._matcher),
                self._covered.get(m.pod.key, ()),
                gang.promise,
                gang.checkpoint,
            )
            for m in members
        )

    def _as_admitted(self, identity: Identity, group: Group, job: Job) -> Job:
        if group.phase is not Phase.PENDING or group.uid != self._admitted[identity]:
            del self._admitted[identity]
            return job
        return msgspec.structs.replace(job, phase=Phase.INQUEUE)

    def _elect(self) -> Elect | None:
        elected = [g.elect for g, _ in self._gangs.values() if g.elect is not None]
        return min(elected, key=lambda e: (e.since, e.job), default=None)

    def _weights(self) -> dict[str, int]:
        weights: dict[str, int] = {}
        for quota in self._all("quotas", wire.ResourceQuota):
            weight = namespace_weight(quota)
            if weight is not None:
                weights[quota.namespace] = max(weight, weights.get(quota.namespace, 1))
        return weights

    def _all(self, home: str, struct: type[W]) -> list[W]:
        return [item for item in self.objects.get(home, {}).values() if isinstance(item, struct)]


def _same(before: wire.Object, after: wire.Object, *, status: bool = False) -> bool:
    """Whether an object changed in nothing that is read of it; with `status`, in nothing but its status."""
    old, new = before.metadata, after.metadata
    if status:
        before = msgspec.structs.replace(before, **{"status": getattr(after, "status")})  # noqa: B009
    if old.resource_version != new.resource_version:
        before = msgspec.structs.replace(
            before, metadata=msgspec.structs.replace(old, resource_version=new.resource_version)
        )
    return before == after


CLUSTER_WIDE = (
    *("nodes", "namespaces", "priority_classes", "queues", "hypernodes"),
    *("volumes", "storage_classes", "csi_nodes"),
)


def _group(home: str, item: wire.Object, names: frozenset[str] | None) -> Group | None:
    """The group that one object makes; `None` where it makes none (a batch Job that is no gang)."""
    objects = Objects()
    getattr(objects, home).append(item)
    rank = GROUP_HOMES.index(home) if home in GROUP_HOMES else OWNERS_RANK
    return next(iter(dialects(objects, names)[rank].groups()), None)
