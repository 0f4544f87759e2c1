"""Job `batch/v1`: its size is `parallelism`, and `completions` with it where it is Indexed; bounds by annotation.

Its pods are gangs of one unless the Job, or its pods, are annotated `maar.dev/gang: "true"`, or it is elastic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from maar.kube.kinds.creating import CreatedMember, pod
from maar.kube.kinds.elastic import ElasticSpec, Role, Stated
from maar.kube.kinds.gang import GangSpec, from_object, set_minimum
from maar.kube.kinds.kind import End, Form, JobKind, Numbering, Request, WantedState, end_by, merge
from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Long, Object, Wire
from maar.kube.wire.jobs import JobStatus, PodTemplate
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import yes
from maar.model.text import LONGEST_NAME, quoted

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


class Spec(Wire, frozen=True):
    """How many pods a Job runs at once."""

    parallelism: Int = 1
    completions: Int | None = None
    completion_mode: str = ""
    suspend: bool = False
    active_deadline_seconds: Long | None = None
    template: PodTemplate = PodTemplate()

    @property
    def pods(self) -> int:
        return self.left(0)

    def left(self, succeeded: int) -> int:
        """Pods that run at once when some have succeeded."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions - succeeded)


class Status(JobStatus, frozen=True):
    """How a Job is doing."""

    active: Int = 0
    succeeded: Int = 0


class BatchJob(Object, frozen=True):
    """A Job of `batch`."""

    spec: Spec = Spec()
    status: Status = Status()


def gangs(item: BatchJob) -> tuple[GangSpec, ...]:
    """One gang, where the Job or its template says that its pods are one; an elastic Job is one too."""
    made = from_object(item)
    set_minimum(made, "spec.parallelism", item.spec.pods)
    made.left = item.spec.left(item.status.succeeded)
    made.gang = is_gang(item.metadata.annotations) or is_gang(item.spec.template.metadata.annotations)
    return (made,)


def labels_of(name: str, uid: str) -> dict[str, str]:
    """The labels that the API server adds to the pod template of a Job."""
    return {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }


def member(name: str, index: int, indexed: bool) -> CreatedMember:
    """A pod of a Job; only the pods of an Indexed Job carry their number."""
    number = {INDEX_LABEL: str(index)} if indexed else {}
    return CreatedMember(f"{name}-{index}", number, number)


def creates(item: BatchJob) -> Iterator[Pod]:
    spec = item.spec
    labels = labels_of(item.name, item.metadata.uid)
    for index in range(spec.left(item.status.succeeded)):
        made = member(item.name, index, spec.completion_mode == "Indexed")
        yield pod(item, KIND.resource, spec.template, made._replace(labels={**labels, **made.labels}))


def is_gang(annotations: Mapping[str, str]) -> bool:
    """Whether annotations say that pods are a gang."""
    return bool(annotations) and Notes(annotations).read(known.GANG, yes) is True


def end(item: BatchJob) -> End | None:
    return end_by(item.status, "Complete")


def look(item: BatchJob, made: Object | None) -> Stated | None:
    if item.status.holds("Complete", "Failed"):
        return None
    template = item.spec.template
    labels, annotations = template.metadata.labels, template.metadata.annotations
    return Stated(
        worker=Role(template, labels_of(item.name, item.metadata.uid), item.spec.pods),
        role=quoted(annotations.get(known.TASK_SPEC) or labels.get(known.TASK_SPEC, ""), LONGEST_NAME),
        suspended=item.spec.suspend,
    )


def write(item: BatchJob, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> list[Request]:
    """Size and suspension. An Indexed Job's two numbers may change only if they are equal before and after."""
    spec: dict[str, Any] = {}
    if wanted.size != was.size:
        spec["parallelism"] = wanted.size
        if item.spec.completion_mode == "Indexed" and item.spec.completions == item.spec.parallelism:
            spec["completions"] = wanted.size
    if wanted.suspended != was.suspended:
        spec["suspend"] = wanted.suspended
    return [merge(item, resource, spec, wanted)]


KIND = JobKind(
    family="jobs",
    resource=Resource("batch", "v1", "jobs", "Job", True, BatchJob),
    writes={"": ("patch",)},
    title="owner",
    about='its pods, where it or its pod template is annotated `maar.dev/gang: "true"`, or it is elastic',
    bounds="annotations",
    form=Form(templates=("spec.template",), suspend="spec.suspend"),
    gangs=gangs,
    claims=lambda pod: is_gang(pod.metadata.annotations),
    numbering=Numbering(INDEX_LABEL),
    end=end,
    look=look,
    write=write,
    creates=creates,
    deadline=lambda item: item.spec.active_deadline_seconds,
    counted=lambda item: item.status.active,
)
