"""What Maar knows about a kind of Kubernetes object, as one value per kind.

`Kind` is any kind that Maar reads. `GangSource` is a way in which pods form a gang. `PodGroupKind` and `JobKind` are
both: objects that state a gang, and objects that own its pods. The table of all of them is in `maar.kube.kinds`.

A kind's file fills in one of these; nothing else in Maar compares kinds by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from maar.kube.kinds.elastic import ElasticSpec, Kept, Stated, elastic_spec, write_kept
from maar.kube.kinds.gang import GangSpec
from maar.kube.kinds.status import Tally
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Object
from maar.kube.wire.jobs import JobStatus
from maar.kube.wire.pods import Pod
from maar.model.jobs import Phase

T = TypeVar("T", bound=Object)

READ = ("get", "list", "watch")
READ_UNWATCHED = ("get", "list")


class Right(NamedTuple):
    """What Maar must be allowed to do, as a rule of a ClusterRole says it."""

    group: str
    resource: str
    """`pods`, `pods/status`"""
    verbs: tuple[str, ...]


PRIORITY_IS_FIXED = "pods keep the priority that they were created with, and this kind has no priority beside theirs"


class Form(NamedTuple):
    """Where the JSON of an object has what its owner may leave out or change later; paths as `spec.tasks[].template`.

    `[]` means each item of a list, `*` each value of a map.
    """

    templates: tuple[str, ...] = ()
    """Its pod templates."""
    scheduler: str = ""
    """The field that names the scheduler of all pods; empty: their templates do."""
    suspend: str = ""
    """The field that is true while Maar keeps the job from starting; empty: nothing is set when it is submitted."""
    queue: str = ""
    """The field with its queue; empty: an annotation on the object."""
    priority_class: str = ""
    """The field with a priority class that may change; empty: there is none."""
    fixed_queue: str = ""
    """Why its queue cannot change; empty: it can."""
    fixed_priority: str = PRIORITY_IS_FIXED
    """Why its priority class cannot change, where `priority_class` is empty."""


NO_FORM = Form()


@dataclass(frozen=True, eq=False, kw_only=True)
class Kind(Generic[T]):
    """A kind of object that Maar reads."""

    resource: Resource[T]
    """Where it is served, and the struct it decodes into."""
    older: tuple[Resource[T], ...] = ()
    """Other versions that it is served in, newest first."""
    writes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Verbs that Maar uses besides reading, by subresource; the empty one is the object itself."""
    unread: frozenset[str] | None = None
    """Fields of its spec that Maar does not read. With those of its struct these are all; `None`: there are others."""
    also: tuple[Right, ...] = ()
    """Rights on other kinds that writing this one, or reading the same from elsewhere, needs."""
    only: str = ""
    """The name of the only object that Maar reads, in its own namespace; empty if it reads all of them."""
    form: Form = NO_FORM
    """What the training service completes and changes."""
    family: str = ""
    """Kinds of one family are switched off together (`--without`); empty: always read, because decisions need it."""
    watched: bool = True
    """Whether Maar watches it wherever it is served. The metrics API cannot be watched, and is read on request."""

    def __str__(self) -> str:
        return self.resource.kind

    @property
    def rights(self) -> tuple[Right, ...]:
        """Everything that Maar must be allowed to do with it."""
        group, plural = self.resource.group, self.resource.plural
        writes = (Right(group, f"{plural}/{sub}".rstrip("/"), verbs) for sub, verbs in self.writes.items())
        return (Right(group, plural, READ if self.watched else READ_UNWATCHED), *writes, *self.also)

    def key(self, namespace: str, name: str) -> str:
        """The key of an object: `namespace/name`, or its name where the kind has no namespaces."""
        return f"{namespace or 'default'}/{name}" if self.resource.namespaced else name

    def key_of(self, item: Object) -> str:
        return item.key if self.resource.namespaced else item.name


@dataclass(frozen=True, eq=False, kw_only=True)
class GangSource:
    """A way in which pods form a gang."""

    title: str
    """Tells gangs of the same name apart: `default/train@volcano`."""
    about: str
    """What is one gang, in one line of Markdown for users: the documentation lists it."""
    missing: Callable[[str, str, list[Pod]], GangSpec]
    """The gang of pods that name one which has no object: from namespace, name and pods."""
    name_in: Callable[[Pod], str] = lambda pod: ""
    """The name of a pod's gang; empty where the pod names none in this way."""
    settles: bool = False
    """Whether a gang without a stated minimum is complete once no pod has been added for a while."""


PatchKind = Literal["merge", "strategic"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StatusRules(Generic[T]):
    """How the status of a PodGroup is written, in the words of its own API."""

    of: Callable[[T, Phase, str, str, float], dict[str, Any]]
    """The status of a group in a phase, at a time; the message why it waits and its reason, a word for programs, are
    empty where it does not wait."""
    says: Callable[[T, Phase], bool]
    """Whether the object already says that the group is in a phase."""
    says_why: Callable[[T, Phase, str], str | None] | None = None
    """The message with which the object says that the group waits, for a reason of that name; `None` if it does not.
    Missing where there is no field for it."""
    tally: Callable[[T], Tally | None] = lambda item: None
    """The pods that the status counts; `None` where it counts none."""
    sub: str | None = "status"
    """The subresource that it is written to; `None`: the object itself."""
    patch: PatchKind = "merge"


@dataclass(frozen=True, eq=False, kw_only=True)
class PodGroupKind(Kind[T], GangSource):
    """Objects that state a gang, and which its pods name."""

    gang: Callable[[T], GangSpec]
    status: StatusRules[T]
    enter: Callable[[Pod, str], Pod]
    """A pod that names the group of this name."""


class Numbering(NamedTuple):
    """Labels that number the pods of a role."""

    label: str
    """A pod's number among all, or within its group of pods."""
    group: str = ""
    """The number of its group."""
    groups: str = ""
    """How many groups of equal size there are."""


class End(NamedTuple):
    """How a job has ended."""

    how: str
    at: float | None = None
    """When, where the object says so."""


COMPLETED, FAILED, DELETED = "completed", "failed", "deleted"


def end_by(status: JobStatus, completed: str) -> End | None:
    """How a job has ended whose conditions are `completed`, as its kind calls it, and `Failed`."""
    if status.holds(completed):
        return End(COMPLETED, status.ended_at)
    return End(FAILED, status.ended_at) if status.holds("Failed") else None


class Request(msgspec.Struct, frozen=True):
    """One request to the API server: a patch, or (`create`) a new object."""

    path: str
    body: dict[str, Any] | list[dict[str, Any]]
    patch: Literal["merge", "json"] = "merge"
    create: bool = False


class WantedState(msgspec.Struct, frozen=True):
    """The state that a job is to get."""

    size: int
    suspended: bool
    kept: Kept
    annotations: dict[str, str | None] = {}
    """Written in the same request."""
    firm: bool = False
    """Whether it is written to whatever version the object has: its owner changed it again and again."""

    @property
    def notes(self) -> dict[str, str | None]:
        return {**self.annotations, known.ELASTIC: write_kept(self.kept)}


Write = Callable[[T, Resource[Object], ElasticSpec, WantedState], list[Request]]
"""The requests that give a job another state: from the object as last seen, the resource as the server serves it, what
the object says, and what is wanted. They name the version that was seen, so that no other change is
overwritten, unless the wanted state is firm."""


class Inner(NamedTuple):
    """An object of another kind that a controller creates, and that pods are made of."""

    kind: JobKind[Any]
    item: Object


Created = Pod | Inner


def created(kind: JobKind[Any], item: Object) -> Iterator[Created]:
    """The pods that are created for an object, the objects that its controller creates, and their pods."""
    for made in kind.creates(item):
        yield made
        if not isinstance(made, Pod):
            yield from created(made.kind, made.item)


def whole(item: Object | None, pod: Pod) -> str:
    """The part of a pod in a job that is one gang."""
    return ""


def no_pods(namespace: str, name: str, pods: list[Pod]) -> GangSpec:
    """The gang of pods whose owner has no object: the pods that are there."""
    return GangSpec(namespace=namespace, name=name, minimum=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class JobKind(Kind[T], GangSource):
    """Objects that own pods: each makes one gang of them, or several parts that start one after the other."""

    gangs: Callable[[T], Iterable[GangSpec]]
    """The gangs that an object states, one for each part."""
    beyond: Callable[[T, str], GangSpec | None] | None = None
    """One of many equal parts that `gangs` leaves out, stated only while it has pods; `None`: it leaves out none."""
    delegates: bool = False
    """Whether not it but the object that it made states the gangs."""
    missing: Callable[[str, str, list[Pod]], GangSpec] = no_pods
    labels: tuple[str, ...] = ()
    """Pod labels that name the object, also where another object stands between it and the pod."""
    part: Callable[[T | None, Pod], str | None] = whole
    """The part that a pod belongs to; `None`: it belongs to none and is a gang of one."""
    claims: Callable[[Pod], bool] = lambda pod: True
    """Whether pods are a gang although no object says so."""
    role_labels: tuple[str, ...] = ()
    role_of: Callable[[str], str] = str
    """The role that the value of such a label means."""
    numbering: Numbering | None = None
    bounds: str = ""
    """Where an object states how many workers it may have, for users; empty: its size never changes."""
    suspends: str = ""
    """What an object must have so that Maar may suspend it, for users; empty: nothing."""
    end: Callable[[T], End | None] = lambda item: None
    """How an object has ended; `None`: it has not."""
    look: Callable[[T, Object | None], Stated | None] = lambda item, made: None
    """Workers, size and suspension, from the object and what it made; `None` where the size is not ours to change."""
    write: Write[T] | None = None
    creates: Callable[[T], Iterable[Created]] = lambda item: ()
    """What its controller creates next for an object that has nothing yet; pods that come later are not in it."""
    creates_none: Callable[[T], str] = lambda item: ""
    """Why its controller creates nothing now, or nothing that can be told from the object; empty: it does."""
    deadline: Callable[[T], int | None] = lambda item: None
    """Seconds after its start at which its controller ends it, if the object states them."""
    counted: Callable[[T], int] = lambda item: 0
    """How many live pods the status of an object counts."""
    settles: bool = True

    def elastic(self, item: T, made: Object | None, names: frozenset[str] | None) -> ElasticSpec | None:
        """What an object says as an elastic job; `names` are our scheduler names (`None`: all are)."""
        if self.write is None or item.metadata.deletion_timestamp is not None:
            return None
        stated = self.look(item, made)
        return None if stated is None else elastic_spec(item, stated, names)

    def end_of(self, item: T) -> End | None:
        """How a job has ended: by itself, or because its object is being deleted."""
        return self.end(item) or (End(DELETED) if item.metadata.deletion_timestamp is not None else None)

    def is_suspended(self, item: T, made: Object | None = None) -> bool:
        """Whether Maar or the owner has suspended a job."""
        stated = self.look(item, made)
        return stated is not None and stated.suspended


def merge(item: Object, resource: Resource[Object], spec: dict[str, Any], wanted: WantedState) -> Request:
    """A merge patch for exactly the version of the object that was seen; a firm one for any of the same uid."""
    exactly = {"uid": item.metadata.uid}
    if not wanted.firm:
        exactly["resourceVersion"] = item.metadata.resource_version
    metadata = {**exactly, "annotations": wanted.notes}
    body: dict[str, Any] = {"metadata": metadata, "spec": spec} if spec else {"metadata": metadata}
    return Request(resource.path(item.namespace, item.name), body)


def write_suspend(item: Object, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> list[Request]:
    """The write of kinds that are suspended and resumed by `spec.suspend` and never change their size."""
    return [merge(item, resource, {"suspend": wanted.suspended} if wanted.suspended != was.suspended else {}, wanted)]


def json_patch(item: Object, resource: Resource[Object], values: Mapping[str, Any], wanted: WantedState) -> Request:
    """A JSON patch that sets values by path, for fields inside lists, which a merge patch would replace as a whole.

    Its `test`s make it a patch of exactly the version that was seen; a firm one of any with the same uid.
    """
    body: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": item.metadata.uid}]
    if not wanted.firm:
        version = item.metadata.resource_version
        body.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
    body += [{"op": "add", "path": path, "value": value} for path, value in values.items()]
    there = item.metadata.annotations
    notes = {key: value for key, value in wanted.notes.items() if value is not None or key in there}
    if there:
        for key, value in notes.items():
            path = "/metadata/annotations/" + key.replace("~", "~0").replace("/", "~1")
            body.append(
                {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}
            )
    else:
        body.append({"op": "add", "path": "/metadata/annotations", "value": notes})
    return Request(resource.path(item.namespace, item.name), body, "json")
