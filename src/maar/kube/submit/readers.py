"""What Maar will read in the manifest of a job, by the readers that read its object and pods later: pure.

A value that these readers refuse would make the job wait for ever, with the problem as its reason. Here it is a
`BadManifest` with the path of the field. What depends on the cluster, its queues and priority classes, is `names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from maar.kube.kinds import SOURCES, AnyKind
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.gang import GangSpec, from_object
from maar.kube.kinds.kind import Inner, JobKind, PodGroupKind
from maar.kube.read.jobs import alone, gang_of
from maar.kube.read.neighbours import Namespaces
from maar.kube.read.priorities import Priorities
from maar.kube.read.shapes import Shapes, strategy_problem
from maar.kube.read.tasks import Member, member
from maar.kube.submit.errors import BadManifest
from maar.kube.submit.paths import Json, found
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.base import Metadata, Object
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import on_hold, yes
from maar.model.jobs import Job

ANY = Priorities(())


class StatedPod(NamedTuple):
    """A pod that a manifest states, in a template or itself, and the path of the template."""

    path: str
    pod: Pod

    def inside(self, field: str) -> str:
        return f"{self.path}.{field}" if self.path else field


def check(kind: AnyKind, item: Object, document: Json, namespace: str) -> None:
    """Raise a `BadManifest` for the first value that Maar could not use."""
    for problem in _of_object(kind, item):
        if problem:
            _refuse("", kind, document, item.metadata, problem)
    for stated in pods_in(kind, item, document, namespace):
        for problem in _of_pod(stated):
            if problem:
                _refuse(stated.path, kind, document, stated.pod.metadata, problem)


def pods_in(kind: AnyKind, item: Object, document: Json, namespace: str) -> Iterator[StatedPod]:
    """The pods of a manifest, one for each template."""
    if kind is PODS:
        assert isinstance(item, Pod)
        yield StatedPod("", _in(namespace, item))
    for path in kind.form.templates:
        for template in found(document, path):
            try:
                made = decode(template.value, PodTemplate)
            except FieldError as error:
                raise BadManifest(f"{template.path}.{error.field}", error.problem) from None
            yield StatedPod(template.path, _in(namespace, Pod(metadata=made.metadata, spec=made.spec)))


def jobs_in(kind: AnyKind, item: Object, document: Json, namespace: str, priorities: Priorities) -> Iterator[Job]:
    """The jobs that a manifest makes, with the queue and the priority classes that Maar will read."""
    stated = list(pods_in(kind, item, document, namespace))
    members = [_member(one, priorities) for one in stated]
    specs = [spec for spec in _specs(kind, item) if spec.gang]
    for spec in specs:
        yield gang_of(f"{namespace}/{spec.name}", spec, members, priorities, 0.0).job
    if not specs:
        for one in members:
            yield gang_of(f"{namespace}/{item.name}", alone(one), [one], priorities, 0.0).job


def _of_object(kind: AnyKind, item: Object) -> Iterator[str]:
    notes = Notes(item.metadata.annotations)
    notes.read(known.HOLD, on_hold)
    notes.read(known.GANG, yes)
    yield notes.problem
    both = Notes(item.metadata.annotations, item.metadata.labels)
    both.read(known.PREEMPTABLE, yes)
    yield both.problem
    for spec in _specs(kind, item) or (from_object(item),):
        yield spec.broken
        yield from _of_job(gang_of(item.key, _without_class(spec), [], ANY, 0.0).job)
    if isinstance(kind, JobKind):
        elastic = kind.elastic(item, None, None)
        yield "" if elastic is None else elastic.broken


def _of_pod(stated: StatedPod) -> Iterator[str]:
    pod = stated.pod
    if not pod.spec.containers:
        yield "spec.containers: expected at least one container"
    try:
        one = _member(StatedPod(stated.path, _classless(pod)), ANY)
    except FieldError as error:
        raise BadManifest(stated.inside(error.field), error.problem) from None
    yield one.problem
    notes = Notes(pod.metadata.annotations)
    notes.read(known.GANG, yes)
    yield notes.problem
    yield strategy_problem(pod.metadata.annotations)
    yield from _of_job(gang_of(pod.key, alone(one), [one], ANY, 0.0).job)
    for source in SOURCES:
        if name := source.name_in(pod):
            broken = source.missing(pod.namespace, name, [pod]).broken
            yield broken if broken.startswith("`") else ""  # else it is that its PodGroup is another manifest


def _of_job(job: Job) -> Iterator[str]:
    yield job.broken
    yield "" if job.budget is None else job.budget.problem
    yield "" if job.task_topology is None else job.task_topology.problem


def _specs(kind: AnyKind, item: Object) -> tuple[GangSpec, ...]:
    """The gangs that an object states, or the objects that its controller makes of it."""
    if isinstance(kind, PodGroupKind):
        return (kind.gang(item),)
    if not isinstance(kind, JobKind):
        return ()
    inner = (made for made in kind.creates(item) if isinstance(made, Inner)) if kind.delegates else ()
    return (*kind.gangs(item), *(spec for made in inner for spec in _specs(made.kind, made.item)))


def _member(stated: StatedPod, priorities: Priorities) -> Member:
    draft = Shapes(Namespaces((), ())).draft(stated.pod)
    return member(stated.pod, draft, priorities, (), 0.0, foreign=False)


def _in(namespace: str, pod: Pod) -> Pod:
    meta = pod.metadata
    made = Metadata(name=meta.name or "x", namespace=namespace, labels=meta.labels, annotations=meta.annotations)
    return msgspec.structs.replace(pod, metadata=made)


def _classless(pod: Pod) -> Pod:
    """The pod without its priority class, which only the cluster knows."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority_class_name=""))


def _without_class(spec: GangSpec) -> GangSpec:
    elastic = spec.elastic
    if elastic is not None:
        elastic = msgspec.structs.replace(elastic, worker=_classless(elastic.worker))
    return msgspec.structs.replace(spec, priority_class="", elastic=elastic)


def _refuse(path: str, kind: AnyKind, document: Json, meta: Metadata, problem: str) -> None:
    """Raise the problem of a reader with the path of the field: readers begin with an annotation, or with a field."""
    if problem.startswith("pod `"):
        problem = problem.partition(": ")[2]
    field, colon, what = problem.partition(": ")
    if not colon:
        raise BadManifest(path, problem)
    key = field.strip("`")
    if field.startswith("`"):
        field = f"metadata.{'annotations' if key in meta.annotations else 'labels'}.{key}"
    elif not path:
        field = _whole(kind, document, field)
    raise BadManifest(f"{path}.{field}" if path else field, what)


def _whole(kind: AnyKind, document: Json, field: str) -> str:
    """The whole path of a field: `replicas` of a Kubeflow job is the sum of all roles, of which one is negative."""
    if field != "replicas":
        return field
    roles = (role for path in kind.form.templates for role in found(document, path.removesuffix(".template")))
    wrong = (f"{role.path}.{field}" for role in roles if isinstance(role.value, dict) and role.value.get(field, 0) < 0)
    return next(wrong, field)


def places_of(document: Any, keys: Iterable[str], value: str, at: str = "") -> Iterator[str]:
    """The paths at which one of some keys has a value."""
    wanted = frozenset(keys)
    if isinstance(document, Mapping):
        for key, inner in document.items():
            here = f"{at}.{key}" if at else str(key)
            if key in wanted and inner == value:
                yield here
            else:
                yield from places_of(inner, wanted, value, here)
    elif isinstance(document, list):
        for i, inner in enumerate(document):
            yield from places_of(inner, wanted, value, f"{at}[{i}]")
