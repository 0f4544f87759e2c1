"""Job `batch.volcano.sh/v1alpha1`: its workers are the task `worker`, or its only one; bounds by annotation.

It is paused and resumed by a Command object, which Volcano's controller carries out later, and deletes. Until the next
change of its size a job that Maar has resumed is kept as one that Maar pauses and resumes, since between the two it
would look like one that its owner paused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from maar.kube.kinds.kind import Kind, Request, Wanted
from maar.kube.kinds.reading import Reading, Role, Stated
from maar.kube.wire.base import Object
from maar.kube.wire.groups import VolcanoJob, VolcanoTask
from maar.kube.wire.resources import VOLCANO_COMMANDS, VOLCANO_JOBS, Resource

ENDS = ("Completed", "Terminated", "Failed")
PAUSED = ("Aborting", "Aborted")
WORKER = "worker"


def look(item: VolcanoJob) -> Stated | None:
    """What a Volcano Job says."""
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
    labels = {"volcano.sh/job-name": item.name, "volcano.sh/task-spec": task.name}
    return Role(task.template, labels, task.replicas)


def workers(tasks: tuple[VolcanoTask, ...]) -> int | None:
    """Which task is that of the workers."""
    named = [i for i, task in enumerate(tasks) if task.name == WORKER]
    return named[0] if named else 0 if len(tasks) == 1 else None


def write(item: VolcanoJob, resource: Resource[Object], was: Reading, wanted: Wanted) -> list[Request]:
    """Size by a patch, suspension by a Command."""
    if wanted.suspended == was.suspended:
        return [_patch(item, resource, was, wanted)]
    ours = msgspec.structs.replace(wanted, kept=msgspec.structs.replace(wanted.kept, running=False))
    return [_patch(item, resource, was, ours), _command(item, "AbortJob" if wanted.suspended else "ResumeJob")]


def _patch(item: VolcanoJob, resource: Resource[Object], was: Reading, wanted: Wanted) -> Request:
    """A JSON patch, since a merge patch would replace all tasks; `test` makes it one of the version that was seen."""
    body = [_op("test", "/metadata/resourceVersion", item.metadata.resource_version)]
    if wanted.size != was.size:
        number = workers(item.spec.tasks) or 0
        body.append(_op("add", f"/spec/tasks/{number}/replicas", wanted.size))
        task = item.spec.tasks[number]
        if task.min_available is not None and task.min_available > was.min:
            body.append(_op("add", f"/spec/tasks/{number}/minAvailable", was.min))
        least = was.min + len(was.beside)
        if item.spec.min_available is not None and item.spec.min_available > least:
            body.append(_op("add", "/spec/minAvailable", least))
    there = item.metadata.annotations
    notes = {key: value for key, value in wanted.notes.items() if value is not None or key in there}
    if there:
        body.extend(
            _op("remove", f"/metadata/annotations/{_escaped(key)}")
            if value is None
            else _op("add", f"/metadata/annotations/{_escaped(key)}", value)
            for key, value in notes.items()
        )
    else:
        body.append(_op("add", "/metadata/annotations", notes))
    return Request(resource.path(item.namespace, item.name), body, "json")


def _command(item: VolcanoJob, action: str) -> Request:
    """Named for the version of the job that it is for, so that asking twice makes one."""
    meta = item.metadata
    target = {"apiVersion": VOLCANO_JOBS.api_version, "kind": VOLCANO_JOBS.kind, "name": item.name, "uid": meta.uid}
    name = f"{item.name[:200]}-{action.lower()}-{meta.resource_version or '0'}"
    body = {
        "apiVersion": VOLCANO_COMMANDS.api_version,
        "kind": VOLCANO_COMMANDS.kind,
        "metadata": {"name": name, "namespace": item.namespace, "ownerReferences": [{**target, "controller": True}]},
        "action": action,
        "target": {**target, "controller": True},
        "reason": "Maar",
    }
    return Request(VOLCANO_COMMANDS.path(item.namespace), body, create=True)


def _op(op: str, path: str, value: Any = None) -> dict[str, Any]:
    return {"op": op, "path": path} if op == "remove" else {"op": op, "path": path, "value": value}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


KIND = Kind(VOLCANO_JOBS, look, write)
