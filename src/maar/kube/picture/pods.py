"""Pods: objects to members, with decisions that are not yet seen laid over them.

A part of the picture. Watches and decisions mark pods as `dirty`; once a cycle these are read, and entered in `roster`.
A bind of ours that a watch shows is confirmed in place: it changes nothing that a decision sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field

from maar.kube.kinds import ALONE, Identity
from maar.kube.kinds.cluster import NAMESPACES, PODS, PRIORITY_CLASSES
from maar.kube.picture.assumed import Assumed, Assumptions
from maar.kube.picture.groups import Groups
from maar.kube.picture.images import Images
from maar.kube.picture.owners import Owners
from maar.kube.picture.problems import Problems
from maar.kube.picture.roster import Roster
from maar.kube.picture.store import Store
from maar.kube.read.limits import TooMuch
from maar.kube.read.neighbours import Namespaces
from maar.kube.read.priorities import Priorities
from maar.kube.read.requests import room_taken
from maar.kube.read.shapes import Shapes, names_of, selectors_of
from maar.kube.read.storage.state import Storage
from maar.kube.read.storage.volumes import needs
from maar.kube.read.tasks import Member, like_another, member, moved_on, unread_member
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Pod
from maar.model.nodes import Node
from maar.model.selectors import PodSelector
from maar.model.shapes import Shape
from maar.model.tasks import UNBORN, Status


@dataclass(eq=False, slots=True)
class Pods:
    """All pods that count, as last read."""

    _store: Store
    assumed: Assumptions[str, Assumed]
    _nodes: Mapping[str, Node]
    _images: Images
    _storage: Storage
    _owners: Owners
    _groups: Groups
    _roster: Roster
    _problems: Problems
    _names: frozenset[str] | None
    members: dict[str, Member] = field(default_factory=dict)
    dirty: set[str] = field(default_factory=set)
    """Pods to read in the next cycle."""
    outdated: bool = True
    """Whether priorities or namespaces have changed, so that all pods must be read again."""
    priorities: Priorities = field(default_factory=lambda: Priorities(()))
    shapes: Shapes = field(default_factory=lambda: Shapes(Namespaces((), ())))
    _pods: dict[str, Pod] = field(init=False)
    _choosy: Counter[Shape] = field(default_factory=Counter)
    """Drafts that select other pods, and the number of pods that have each."""
    _chosen: dict[Shape, frozenset[PodSelector]] = field(default_factory=dict)
    """The selectors of each of these drafts."""
    _unread_on: dict[str, str] = field(default_factory=dict)
    """Pods whose requests are unknown and that take room, with their nodes."""
    _filling: dict[str, str] = field(default_factory=dict)
    """Pods that take all of a resource on their nodes, because what they request cannot be read."""
    _redraft: set[str] = field(default_factory=set)
    """Pods whose shape must be made again although their object is the same."""
    _models: dict[str, Member] = field(default_factory=dict)
    """While pods are read: the last one of each stem of names, because the pods of a gang are mostly alike."""
    _unborn: dict[Identity, list[str]] = field(default_factory=dict)
    """The pods of suspended jobs that use claims, by the gang that they will be."""

    def __post_init__(self) -> None:
        self._pods = self._store.of(PODS)

    # -- what happens between cycles

    def note(self, key: str, before: Pod | None, after: Pod | None) -> None:
        """Read a pod in the next cycle, or together with the pods that its gang still lacks."""
        self._owners.note_pod(key, after)
        if before is not None and after is None:
            self._groups.forget_pod(before)
        if before is None and after is not None and not after.spec.node_name:
            self.dirty.update(self._roster.came(key, after))
        else:
            self.dirty.add(key)

    def node_came_or_went(self) -> None:
        """Read the waiting pods with volumes again: their volumes may be created for this node."""
        waiting = (key for key in self._storage.claims_of if key in self.members)
        self.dirty.update(key for key in waiting if self.members[key].status is not Status.BOUND)

    def node_changed(self, node: str) -> None:
        """Read the pods again that take all of a resource on a node."""
        if self._filling:
            self.redraft({pod for pod, on in self._filling.items() if on == node})

    def redraft(self, pods: Set[str]) -> None:
        """Make the shapes of these pods again: their nodes have changed."""
        self.dirty.update(pods)
        self._redraft.update(pods)

    def accept(self, key: str, uid: str, node: str) -> None:
        """The API server has accepted a bind. Its object may show that already."""
        pod = self._pods.get(key)
        if pod is not None and pod.metadata.uid == uid and not pod.spec.node_name:
            known = self.assumed.get(key)
            bind = Assumed(uid, Status.BOUND, node, () if known is None else known.chosen)
            self.assumed.accept(key, bind, bind)

    def confirm(self, pod: Pod) -> bool:
        """Confirm an assumed bind; false if the pod changed otherwise and must be put in like any other."""
        key = pod.key
        assumed, before = self.assumed.get(key), self.members.get(key)
        if assumed is None or before is None or key in self.dirty:
            return False
        if assumed.status is not Status.BOUND or assumed.uid != pod.metadata.uid or pod.status.start_time is not None:
            return False
        made = moved_on(before, pod, self._nodes)
        if made is None or (made.status, made.node) != (before.status, before.node) or before.made is None:
            return False
        made.made = before.made
        made.pod = self._pods[key] = pod.slim()
        self.members[key] = made
        self.assumed.confirm(key)
        return True

    # -- what a cycle reads

    def read(self, now: float) -> None:
        """Read the changed pods, and enter them in the roster."""
        self._models.clear()
        if self.outdated:
            self._prepare()
        self._note_claims()
        self._roster.mark_gangs(self._changed_unborn())
        for key in self.dirty:
            before = self.members.pop(key, None)
            made = self._read(key, now, None if self.outdated or key in self._redraft else before)
            if made is None or before is None or made.draft is not before.draft:
                self._count_choosy(before, -1)
                self._count_choosy(made, 1)
            self._count_unread(key, made)
            if made is None:
                self._roster.enter(key, None, now)
                continue
            self.members[key] = made
            self._roster.enter(key, self._identity(key, made), now)
        self.dirty.clear()
        self._redraft.clear()
        self._models.clear()
        self.shapes.tidy(len(self.members), (m.draft for m in self.members.values()))

    def unborn(self, gang: Identity, pods: Iterable[Pod], images: Collection[str], now: float) -> list[Member]:
        """The pods that the controller of a suspended job will create; some node has each of `images`.

        What is wrong with a template is stated as it will be of its pods. Their claims are noted as used, and the gang
        is made again when one changes.
        """
        self.forget_unborn(gang)
        found: list[Member] = []
        for pod in pods:
            if self._names is not None and pod.spec.scheduler_name not in self._names:
                continue
            try:
                if pod.spec.volumes:
                    self._unborn.setdefault(gang, []).append(pod.key)
                    self.dirty |= self._storage.use(pod.key, pod)
                volumes = needs(self._storage, pod, self._nodes) if pod.spec.volumes else None
                here = tuple(sorted(names_of(pod.spec).intersection(images))) if images else ()
                draft = self.shapes.draft(pod, volumes, here)
                found.append(member(pod, draft, self.priorities, self._nodes, now, False, volumes))
            except FieldError as error:
                found.append(unread_member(pod, f"template of its pods: {error}", now, False))
            found[-1].unborn = True
        return found

    def forget_unborn(self, gang: Identity) -> None:
        """The pods of a suspended job exist by now, or will never do so."""
        for key in self._unborn.pop(gang, ()):
            self.dirty |= self._storage.use(key, None)

    def _changed_unborn(self) -> set[Identity]:
        """Suspended jobs whose pods use a claim that has changed."""
        return {gang for gang, keys in self._unborn.items() if not self.dirty.isdisjoint(keys)}

    def _count_unread(self, key: str, made: Member | None) -> None:
        self._unread_on.pop(key, None)
        self._filling.pop(key, None)
        if made is not None and made.unread and made.status in (Status.BOUND, Status.RELEASING):
            self._unread_on[key] = made.node
        if made is not None and made.fills:
            self._filling[key] = made.node

    def full_nodes(self) -> frozenset[str]:
        """Nodes with pods whose requests are unknown: they take no other pods."""
        return frozenset(self._unread_on.values())

    def selectors(self) -> frozenset[PodSelector]:
        """All selectors of other pods that pods use."""
        return frozenset[PodSelector]().union(*self._chosen.values())

    def _prepare(self) -> None:
        """Priorities or namespaces changed: every pod is read again."""
        used = {key.partition("/")[0] for key in self._pods}
        self.priorities = Priorities(self._store.of(PRIORITY_CLASSES).values())
        self.shapes = Shapes(Namespaces(self._store.of(NAMESPACES).values(), used))
        self.dirty.update(self._pods)

    def _note_claims(self) -> None:
        """Take in the claims of the pods to read, and add the other pods that this concerns."""
        concerned: set[str] = set()
        for key in self.dirty:
            pod = self._pods.get(key)
            if UNBORN in key:
                continue  # its gang notes its claims
            if key in self._storage.claims_of or (pod is not None and pod.spec.volumes):
                concerned |= self._storage.use(key, pod)
        self.dirty |= concerned

    def _read(self, key: str, now: float, before: Member | None) -> Member | None:
        """One pod; `None` if it does not count."""
        pod = self._pods.get(key)
        foreign = pod is not None and self._names is not None and pod.spec.scheduler_name not in self._names
        if pod is None or (not pod.spec.node_name and pod.metadata.deletion_timestamp is not None and not pod.finished):
            self._roster.enter_foreign(key, None)
            self._images.use(key, ())
            if pod is None:
                self.assumed.confirm(key)
            return None
        try:
            self._roster.enter_foreign(key, self._groups.identity_of(pod) if foreign else None)
        except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
            self._problems.bug(PODS, key, error)
        if foreign and not pod.spec.node_name:
            return None
        reason, room = self._problems.undecoded.get((PODS, key), ""), None
        if before is not None and before.foreign == foreign and not reason:
            known = moved_on(before, pod, self._nodes)
            if known is not None:
                return self._overlaid(key, known)
        if not reason:
            try:
                made = self._member(key, pod, now, foreign)
            except FieldError as error:
                node = self._nodes.get(pod.spec.node_name)
                room = room_taken(pod, None if node is None else node.allocatable)
                reason = self._problems.found(PODS, pod, error, "it waits, or takes all of the resource on its node")
            except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
                reason = self._problems.bug(PODS, key, error)
        return self._overlaid(key, unread_member(pod, reason, now, foreign, room) if reason else made)

    def _member(self, key: str, pod: Pod, now: float, foreign: bool) -> Member:
        stem, images = key.rpartition("-")[0], self._images.use(key, names_of(pod.spec))
        model = self._models.get(stem)
        if model is not None and model.foreign == foreign and model.draft.images == images:
            like = like_another(model, pod, self._nodes, now)
            if like is not None:
                self._problems.valid(PODS, key)
                return like
        made = self._made(key, pod, now, foreign, images)
        self._models[stem] = made
        return made

    def _made(self, key: str, pod: Pod, now: float, foreign: bool, images: tuple[str, ...]) -> Member:
        volumes = needs(self._storage, pod, self._nodes) if pod.spec.volumes else None
        too_much = ""
        try:
            draft = self.shapes.draft(pod, volumes, images)
        except TooMuch as error:
            draft, too_much = self.shapes.bare(pod), str(error)  # what it requests is known, so its node stays open
        made = member(pod, draft, self.priorities, self._nodes, now, foreign, volumes)
        made.problem = made.problem or too_much
        if made.problem:
            self._problems.invalid(PODS, key, made.problem)
        else:
            self._problems.valid(PODS, key)
        return made

    def _identity(self, key: str, made: Member) -> Identity:
        """The gang of a pod: its own if it is not ours, or if finding the gang fails."""
        pod = made.pod
        if not made.foreign:
            try:
                return self._groups.identity_of(pod)
            except Exception as error:  # noqa: BLE001 a bug of ours affects this object only
                made.problem = self._problems.bug(PODS, key, error)
        return Identity.of(ALONE, pod.namespace, pod.name)

    def _overlaid(self, key: str, made: Member) -> Member:
        """The pod with what was assumed about it, unless its object shows it by now."""
        gone = self.assumed.confirm(key, lambda assumed: _is_seen(assumed, made))
        if gone is not None:
            if (gone.uid, gone.status, gone.node) == (made.pod.metadata.uid, made.status, made.node):
                made.chosen = gone.chosen
        elif (assumed := self.assumed.get(key)) is not None:
            made.status, made.node, made.chosen = assumed.status, assumed.node or made.node, assumed.chosen
        return made

    def _count_choosy(self, of: Member | None, sign: int) -> None:
        if of is not None and any(True for _ in selectors_of(of.draft)):
            self._choosy[of.draft] += sign
            if not self._choosy[of.draft]:
                del self._choosy[of.draft], self._chosen[of.draft]
            elif of.draft not in self._chosen:
                self._chosen[of.draft] = frozenset(selectors_of(of.draft))


def _is_seen(assumed: Assumed, made: Member) -> bool:
    """Whether a pod shows what was assumed, or more, or is another one."""
    if assumed.uid != made.pod.metadata.uid or (assumed.status, assumed.node) == (made.status, made.node):
        return True
    ends = made.status in (Status.SUCCEEDED, Status.FAILED, Status.RELEASING)
    return ends or (assumed.status is not Status.RELEASING and made.status is Status.BOUND)
