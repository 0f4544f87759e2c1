"""Who owns whom: from a pod through the objects that made it to the outermost known one, which is the job.

A part of the picture. Owners are followed by uid, and only through objects that exist: a TrainJob makes a JobSet, which
makes Jobs, which make pods. It also knows which pods name an object, so that they are read again when it comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from maar.kube.kinds import JOB_KINDS, AnyJobKind, Identity, named_by_label, owner_kinds
from maar.kube.kinds.kind import DELETED, End
from maar.kube.picture.store import Store
from maar.kube.wire.base import Object, OwnerReference
from maar.kube.wire.pods import Pod


class Owner(NamedTuple):
    """An object of a kind that makes gangs; `item` is missing where it is only named."""

    kind: AnyJobKind
    namespace: str
    name: str
    item: Any = None

    @classmethod
    def of(cls, kind: AnyJobKind, item: Object) -> Owner:
        return cls(kind, item.namespace, item.name, item)

    @property
    def place(self) -> tuple[AnyJobKind, str]:
        return self.kind, f"{self.namespace}/{self.name}"

    def identity(self, part: str = "") -> Identity:
        """The gang that it makes, or one of its parts."""
        return Identity.of(self.kind, self.namespace, self.name, part)


class Owners:
    """Objects that make gangs, by what they own and who owns them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._children: dict[str, dict[tuple[AnyJobKind, str], Owner]] = {}
        """Objects by what they name as their owner: a uid, or a namespace and name."""
        self._naming: dict[tuple[str, str], set[str]] = {}
        """Pods by the namespace and name of an owner that they name."""
        self._names: dict[str, frozenset[str]] = {}
        """The owners' names of each pod that names some."""

    # -- what changes

    def note(self, kind: AnyJobKind, before: Object | None, after: Object | None) -> None:
        """An object came, went or changed."""
        for item, add in ((before, False), (after, True)):
            if item is None:
                continue
            owner = Owner.of(kind, item)
            for parent in _parents(item):
                children = self._children.setdefault(parent, {})
                if add:
                    children[owner.place] = owner
                else:
                    children.pop(owner.place, None)
                if not children:
                    del self._children[parent]

    def note_pod(self, key: str, pod: Pod | None) -> None:
        names = frozenset[str]() if pod is None else frozenset(_named(pod))
        before = self._names.get(key, frozenset())
        if names == before:
            return
        namespace = key.partition("/")[0]
        for name in before - names:
            self._naming[namespace, name].discard(key)
            if not self._naming[namespace, name]:
                del self._naming[namespace, name]
        for name in names - before:
            self._naming.setdefault((namespace, name), set()).add(key)
        self._names.pop(key, None)
        if names:
            self._names[key] = names

    # -- look-ups

    def item(self, place: tuple[AnyJobKind, str]) -> Any:
        """The object of that kind and key, if it exists."""
        return self._store.of(place[0]).get(place[1])

    def job(self, namespace: str, name: str, uid: str) -> Owner | None:
        """The object of a job, if it exists."""
        found = (Owner(kind, namespace, name, self.item((kind, f"{namespace}/{name}"))) for kind in JOB_KINDS)
        return next((o for o in found if o.item is not None and o.item.metadata.uid == uid), None)

    def end_of(self, namespace: str, name: str, uid: str) -> End | None:
        """How the object of a job has ended; `None` if it has not."""
        owner = self.job(namespace, name, uid) if uid else None
        return End(DELETED) if owner is None else owner.kind.end_of(owner.item)

    def find(self, namespace: str, reference: OwnerReference) -> Owner | None:
        """The object that a reference means, if it exists."""
        for kind in owner_kinds(reference):
            item = self._store.of(kind).get(f"{namespace}/{reference.name}")
            if item is not None and reference.uid in ("", item.metadata.uid):
                return Owner(kind, namespace, reference.name, item)
        return None

    def outer(self, owner: Owner) -> Owner | None:
        """The known object that made this one, if it exists."""
        references = () if owner.item is None else owner.item.metadata.owner_references
        return next((o for r in references if (o := self.find(owner.namespace, r)) is not None), None)

    def chain(self, owner: Owner) -> list[Owner]:
        """An owner and all that made it, the outermost last."""
        found = [owner]
        while (outer := self.outer(found[-1])) is not None and all(outer.place != o.place for o in found):
            found.append(outer)
        return found

    def job_of(self, namespace: str, references: Iterable[OwnerReference]) -> Owner | None:
        """The outermost known object behind owner references."""
        found = (owner for r in references if (owner := self.find(namespace, r)) is not None)
        return next((self.chain(owner)[-1] for owner in found), None)

    def submitted(self, namespace: str, references: Iterable[OwnerReference]) -> Owner | OwnerReference | None:
        """The outermost object behind owner references; the controller itself, if its kind is not known."""
        references = tuple(references)
        known = self.job_of(namespace, references)
        return known if known is not None else next((r for r in references if r.controller), None)

    def inside(self, owner: Owner) -> Iterator[Owner]:
        """All known objects of its namespace that name an object as their owner, directly or not.

        Whether it exists or not. An owner reference never reaches another namespace; anyone can write one that tries.
        """
        seen, todo = {owner.place}, [owner]
        while todo:
            item = todo.pop().item
            if item is None:
                continue
            for parent in (item.metadata.uid, f"{item.namespace}/{item.name}"):
                for place, child in sorted(self._children.get(parent, {}).items(), key=lambda p: p[0][1]):
                    if place not in seen and child.namespace == owner.namespace:
                        seen.add(place)
                        todo.append(child)
                        yield child

    def made_by(self, kind: AnyJobKind, item: Object) -> Owner | None:
        """What an object of a kind that delegates made: the object that states its gangs."""
        outer = Owner.of(kind, item)
        inside = (o for o in self.inside(outer) if kind.delegates and not o.kind.delegates)
        return next((o for o in inside if self.chain(o)[-1].place == outer.place), None)

    def of_pod(self, pod: Pod) -> Owner | None:
        """The owner that a pod names, by label or by reference."""
        namespace, references = pod.namespace, pod.metadata.owner_references
        for kinds, name in named_by_label(pod):
            key = f"{namespace}/{name}"
            there = [Owner(kind, namespace, name, item) for kind in kinds if (item := self._store.of(kind).get(key))]
            if there:
                return there[0]
            said = (kind for r in references for kind in owner_kinds(r) if kind in kinds)
            return Owner(next(said, kinds[0]), namespace, name)
        for reference in references:
            if (found := self.find(namespace, reference)) is not None:
                return found
            if kinds := owner_kinds(reference):
                return Owner(kinds[0], namespace, reference.name)
        return None

    def names(self, pod: Pod, owner: Owner) -> bool:
        """Whether a pod names an existing owner, by label or by reference."""
        found = (self.of_pod(pod), *(self.find(pod.namespace, r) for r in pod.metadata.owner_references))
        return any(o is not None and o.place == owner.place for o in found)

    def pods_naming(self, owners: Iterable[Owner]) -> set[str]:
        """Pods that name one of these owners."""
        return {pod for o in owners for pod in self._naming.get((o.namespace, o.name), ())}


def describer(chain: list[Owner]) -> Owner:
    """The owner in a chain (an object and all that made it) that states the gangs."""
    return next((owner for owner in reversed(chain) if not owner.kind.delegates), chain[-1])


def name_and_uid(owner: Owner | OwnerReference | None) -> tuple[str, str]:
    """Name and uid of the object that the owner of a job submitted; empty if Maar does not know its kind."""
    return (owner.name, owner.item.metadata.uid) if isinstance(owner, Owner) else ("", "")


def _parents(item: Object) -> Iterator[str]:
    """The keys of the known owners of an object: their uids, or names where manifests have no uids."""
    for reference in item.metadata.owner_references:
        if owner_kinds(reference):
            yield reference.uid or f"{item.namespace}/{reference.name}"


def _named(pod: Pod) -> Iterator[str]:
    yield from (name for _, name in named_by_label(pod))
    yield from (r.name for r in pod.metadata.owner_references if owner_kinds(r))
