"""Job `batch.volcano.sh/v1alpha1`: its workers are the task `worker`, or its only one; bounds by annotation.

It is paused and resumed by a Command object, which Volcano's controller carries out later, and deletes. Until the next
change of its size a job that Maar has resumed is kept as one that Maar pauses and resumes, since between the two it
would look like one that its owner paused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from maar.kube.kinds.creating import CreatedMember, pod
from maar.kube.kinds.elastic import ElasticSpec, Role, Stated
from maar.kube.kinds.gang import GangSpec, NetworkTopology, closeness, from_object, set_minimum
from maar.kube.kinds.kind import (
    COMPLETED,
    FAILED,
    End,
    Form,
    JobKind,
    Numbering,
    Request,
    Right,
    WantedState,
    json_patch,
)
from maar.kube.kinds.status import CountingStatus
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import Plain, Resource
from maar.kube.wire.base import Int, Object, Wire
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import DEFAULT_SCHEDULER, Pod

ENDS = ("Completed", "Terminated", "Failed")
PAUSED = ("Aborting", "Aborted")
WORKER = "worker"
NAME_LABEL, INDEX_LABEL = "volcano.sh/job-name", "volcano.sh/task-index"


class VolcanoTask(Wire, frozen=True):
    """One role of a Volcano Job."""

    name: str = ""
    replicas: Int = 1
    min_available: Int | None = None
    template: PodTemplate = PodTemplate()


class Spec(Wire, frozen=True):
    """What a Volcano Job asks for."""

    scheduler_name: str = ""
    min_available: Int | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    tasks: tuple[VolcanoTask, ...] = ()


class Status(Wire, frozen=True):
    """How a Volcano Job is doing."""

    state: CountingStatus = CountingStatus()


class VolcanoJob(Object, frozen=True):
    """A Job of `batch.volcano.sh`."""

    spec: Spec = Spec()
    status: Status = Status()


def gangs(item: VolcanoJob) -> tuple[GangSpec]:
    """One gang: `minAvailable`, else the sum over its tasks."""
    made, spec = from_object(item), item.spec
    if spec.min_available is not None:
        set_minimum(made, "spec.minAvailable", spec.min_available)
    elif spec.tasks:
        least = [t.replicas if t.min_available is None else t.min_available for t in spec.tasks]
        set_minimum(made, "spec.tasks", sum(least))
    else:
        made.minimum = None
    stated = {t.name: t.min_available for t in spec.tasks if t.min_available is not None}
    made.role_min = {name: max(minimum, 0) for name, minimum in stated.items()}
    made.closeness = closeness(made, "spec.networkTopology", spec.network_topology)
    made.queue = spec.queue
    made.priority_class = spec.priority_class_name
    return (made,)


def end(item: VolcanoJob) -> End | None:
    phase = item.status.state.phase
    return None if phase not in ENDS else End(COMPLETED if phase == "Completed" else FAILED)


def look(item: VolcanoJob, made: Object | None) -> Stated | None:
    tasks, phase = item.spec.tasks, item.status.state.phase
    if not tasks or phase in ENDS:
        return None
    number = workers(tasks)
    worker = tasks[number or 0]
    return Stated(
        worker=_role(item, worker),
        role=worker.name,
        suspended=phase in PAUSED,
        ran=phase in PAUSED,
        beside=tuple(_role(item, task) for task in tasks if task is not worker),
        scheduler=item.spec.scheduler_name,
        queue=item.spec.queue,
        priority_class=item.spec.priority_class_name,
        problem="" if number is not None else f"spec.tasks: none of {len(tasks)} is called `{WORKER}`",
    )


def _role(item: VolcanoJob, task: VolcanoTask) -> Role:
    return Role(task.template, _labels(item, task), task.replicas)


def _labels(item: VolcanoJob, task: VolcanoTask) -> dict[str, str]:
    return {NAME_LABEL: item.name, known.TASK_SPEC: task.name}


def creates(item: VolcanoJob) -> Iterator[Pod]:
    """All pods of all tasks. The job's scheduler counts where a template names none."""
    for task in item.spec.tasks:
        template = task.template
        if item.spec.scheduler_name and template.spec.scheduler_name == DEFAULT_SCHEDULER:
            named = msgspec.structs.replace(template.spec, scheduler_name=item.spec.scheduler_name)
            template = msgspec.structs.replace(template, spec=named)
        for index in range(task.replicas):
            labels = {**_labels(item, task), INDEX_LABEL: str(index)}
            made = CreatedMember(f"{item.name}-{task.name}-{index}", labels, {known.TASK_SPEC: task.name})
            yield pod(item, KIND.resource, template, made)


def workers(tasks: tuple[VolcanoTask, ...]) -> int | None:
    """The index of the task of the workers."""
    named = [i for i, task in enumerate(tasks) if task.name == WORKER]
    return named[0] if named else 0 if len(tasks) == 1 else None


def write(item: VolcanoJob, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> list[Request]:
    """Size by a patch, suspension by a Command."""
    if wanted.suspended == was.suspended:
        return [_patch(item, resource, was, wanted)]
    ours = msgspec.structs.replace(wanted, kept=msgspec.structs.replace(wanted.kept, running=False))
    return [_patch(item, resource, was, ours), _command(item, "AbortJob" if wanted.suspended else "ResumeJob")]


def _patch(item: VolcanoJob, resource: Resource[Object], was: ElasticSpec, wanted: WantedState) -> Request:
    values: dict[str, Any] = {}
    if wanted.size != was.size:
        number = workers(item.spec.tasks) or 0
        task = item.spec.tasks[number]
        values[f"/spec/tasks/{number}/replicas"] = wanted.size
        if task.min_available is not None and task.min_available > was.min:
            values[f"/spec/tasks/{number}/minAvailable"] = was.min
        least = was.min + len(was.beside)
        if item.spec.min_available is not None and item.spec.min_available > least:
            values["/spec/minAvailable"] = least
    return json_patch(item, resource, values, wanted)


def _command(item: VolcanoJob, action: str) -> Request:
    """A Command named after the version of the job, so that a repetition creates no second one."""
    meta, job = item.metadata, KIND.resource
    target = {"apiVersion": job.api_version, "kind": job.kind, "name": item.name, "uid": meta.uid, "controller": True}
    name = f"{item.name[:200]}-{action.lower()}-{meta.resource_version or '0'}"
    metadata = {"name": name, "namespace": item.namespace, "ownerReferences": [target]}
    body = COMMANDS.document(metadata, action=action, target=target, reason="Maar")
    return Request(COMMANDS.path(item.namespace), body, create=True)


COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command", True, Plain)
"""Written only."""

KIND = JobKind(
    family="volcano",
    resource=Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", True, VolcanoJob),
    writes={"": ("patch",)},
    also=(Right(COMMANDS.group, COMMANDS.plural, ("create",)),),
    title="owner",
    about="`minAvailable` of its pods, or the sum over its tasks",
    bounds="annotations",
    form=Form(
        templates=("spec.tasks[].template",),
        scheduler="spec.schedulerName",
        queue="spec.queue",
        fixed_queue="Volcano refuses to change the queue of a Job",
        fixed_priority="Volcano refuses to change the priority class of a Job",
    ),
    gangs=gangs,
    labels=(NAME_LABEL,),
    role_labels=(known.TASK_SPEC,),
    numbering=Numbering(INDEX_LABEL),
    end=end,
    look=look,
    write=write,
    creates=creates,
    counted=lambda item: item.status.state.running,
)
