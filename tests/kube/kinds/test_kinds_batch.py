"""Batch Jobs and Volcano Jobs, from their bytes to readings and to requests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from maar.kube.kinds import batchjob, volcanojob
from maar.kube.kinds.batchjob import BatchJob
from maar.kube.kinds.elastic import ElasticSpec, Kept
from maar.kube.kinds.kind import Request, WantedState
from maar.kube.kinds.volcanojob import VolcanoJob
from maar.kube.wire.decoding import decode_json

MAAR = frozenset({"maar"})
BOUNDS = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}


def metadata(annotations: dict[str, str]) -> dict[str, Any]:
    about: dict[str, Any] = {"name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    return {**about, "annotations": annotations} if annotations else about


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [{"name": "c"}], "schedulerName": "maar", **spec}}


def batch(annotations: dict[str, str] = BOUNDS, status: Any = None, **spec: Any) -> BatchJob:
    said = {
        "metadata": metadata(annotations),
        "spec": {"parallelism": 2, "template": template(), **spec},
        "status": status or {},
    }
    return decode_json(msgspec.json.encode(said), BatchJob)


def volcano(annotations: dict[str, str] = BOUNDS, phase: str = "Running", **spec: Any) -> VolcanoJob:
    tasks = [{"name": n, "replicas": c, "template": template(schedulerName="x")} for n, c in (("ps", 1), ("worker", 2))]
    said = {
        "metadata": metadata(annotations),
        "spec": {"schedulerName": "maar", "minAvailable": 3, "tasks": tasks, **spec},
        "status": {"state": {"phase": phase}},
    }
    return decode_json(msgspec.json.encode(said), VolcanoJob)


def read(item: BatchJob | VolcanoJob, names: frozenset[str] | None) -> ElasticSpec | None:
    if isinstance(item, BatchJob):
        return batchjob.KIND.elastic(item, None, names)
    return volcanojob.KIND.elastic(item, None, names)


def reading(item: BatchJob | VolcanoJob) -> ElasticSpec:
    found = read(item, MAAR)
    assert found is not None
    return found


def wanted(size: int, suspended: bool = False, **kept: Any) -> WantedState:
    return WantedState(size, suspended, Kept(**kept))


def test_a_batch_job_is_elastic_by_annotation() -> None:
    found = reading(batch())
    assert (1, 4, 2, "", False) == (found.min, found.max, found.size, found.role, found.suspended)
    assert read(batch({}), MAAR) is None
    assert read(batch(template=template(schedulerName="other")), MAAR) is None


def test_a_batch_job_that_comes_suspended_is_ours() -> None:
    found = reading(batch({}, suspend=True))
    assert (2, 2, True, True) == (found.min, found.max, found.suspended, found.rigid)
    assert read(batch({}, suspend=True, parallelism=0), MAAR) is None


def test_a_batch_job_that_names_no_scheduler_stays_suspended_until_its_owner_resumes_it() -> None:
    both = frozenset({"maar", "default-scheduler"})
    unnamed = template(schedulerName="default-scheduler")
    assert read(batch({}, suspend=True, template=unnamed), both) is None
    assert read(batch({}, suspend=True), both) is not None
    for ours in (BOUNDS, {"maar.dev/hold": "stop"}, {"maar.dev/elastic": '{"rigid":true}'}):
        assert read(batch(ours, suspend=True, template=unnamed), both) is not None


@pytest.mark.parametrize(("type", "ended"), [("Complete", True), ("Failed", True), ("Suspended", False)])
def test_a_batch_job_ends(type: str, ended: bool) -> None:
    assert ended == (read(batch(status={"conditions": [{"type": type, "status": "True"}]}), MAAR) is None)


def written(item: BatchJob, to: WantedState) -> Any:
    (request,) = batchjob.write(item, batchjob.KIND.resource, reading(item), to)
    assert "/apis/batch/v1/namespaces/ns/jobs/train" == request.path
    assert isinstance(request.body, dict)
    assert ("u", "7") == tuple(request.body["metadata"][key] for key in ("uid", "resourceVersion"))
    return request.body.get("spec")


def test_parallelism_is_written_with_completions_if_indexed() -> None:
    assert {"parallelism": 3} == written(batch(), wanted(3))
    assert {"parallelism": 3} == written(batch(completions=9), wanted(3))
    indexed = batch(completionMode="Indexed", completions=2)
    assert {"parallelism": 3, "completions": 3} == written(indexed, wanted(3))
    queue = batch(completionMode="Indexed", completions=9)
    assert {"parallelism": 3} == written(queue, wanted(3))
    assert {"parallelism": 4, "suspend": False} == written(batch(suspend=True), wanted(4))
    assert {"suspend": True} == written(batch(), wanted(2, True))


def test_a_volcano_job_has_its_workers_in_a_task_of_that_name() -> None:
    found = reading(volcano())
    assert (1, 4, 2, "worker") == (found.min, found.max, found.size, found.role)
    assert ["ps"] == [p.metadata.labels["volcano.sh/task-spec"] for p in found.beside]
    only = reading(volcano(tasks=[{"name": "train", "replicas": 5, "template": template()}]))
    assert (5, "train", ()) == (only.size, only.role, only.beside)
    tasks = [{"name": n, "template": template()} for n in ("a", "b")]
    assert "spec.tasks: none of 2 is called `worker`" == reading(volcano(tasks=tasks)).broken
    assert read(volcano({}), MAAR) is None


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_a_volcano_job_ends(phase: str) -> None:
    assert read(volcano(phase=phase), MAAR) is None
    assert read(volcano(phase="Restarting"), MAAR) is not None


def test_a_volcano_job_is_resized_by_a_json_patch() -> None:
    item = volcano()
    (request,) = volcanojob.write(item, volcanojob.KIND.resource, reading(item), wanted(1, requested=2))
    assert "json" == request.patch
    assert [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/tasks/1/replicas", "value": 1},
        {"op": "add", "path": "/spec/minAvailable", "value": 2},
        {"op": "add", "path": "/metadata/annotations/maar.dev~1elastic", "value": '{"requested":2}'},
    ] == request.body


def commands(requests: list[Request]) -> list[str]:
    return [r.body["action"] if r.create and isinstance(r.body, dict) else r.patch for r in requests]


def test_a_volcano_job_is_paused_by_a_command() -> None:
    item = volcano()
    requests = volcanojob.write(item, volcanojob.KIND.resource, reading(item), wanted(2, True, running=False))
    assert ["json", "AbortJob"] == commands(requests)
    command = requests[1]
    assert "/apis/bus.volcano.sh/v1alpha1/namespaces/ns/commands" == command.path
    assert isinstance(command.body, dict)
    assert ("train", "u") == (command.body["target"]["name"], command.body["target"]["uid"])
    assert requests == volcanojob.write(item, volcanojob.KIND.resource, reading(item), wanted(2, True, running=False))


def test_a_volcano_job_is_not_said_to_run_before_it_is_resumed() -> None:
    item = volcano({**BOUNDS, "maar.dev/elastic": '{"running":false}'}, phase="Aborted")
    requests = volcanojob.write(item, volcanojob.KIND.resource, reading(item), wanted(3, False, running=True))
    assert ["json", "ResumeJob"] == commands(requests)
    assert {"op": "add", "path": "/metadata/annotations/maar.dev~1elastic", "value": '{"running":false}'} in requests[
        0
    ].body


def test_what_the_owner_of_a_volcano_job_paused_stays_paused() -> None:
    assert read(volcano(phase="Aborted"), MAAR) is None


def test_annotations_are_made_where_there_are_none() -> None:
    item = volcano()
    bare = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, annotations={}))
    (request,) = volcanojob.write(bare, volcanojob.KIND.resource, reading(item), wanted(2, requested=2))
    assert {"op": "add", "path": "/metadata/annotations", "value": {"maar.dev/elastic": '{"requested":2}'}} in (
        request.body
    )
