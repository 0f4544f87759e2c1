"""Job `batch/v1`: its size is `parallelism`, and `completions` with it where it is Indexed; bounds by annotation."""

from __future__ import annotations

from typing import Any

from maar.kube.kinds.kind import Kind, Request, Wanted, merge
from maar.kube.kinds.reading import Reading, Role, Stated
from maar.kube.kinds.roles import role
from maar.kube.wire.base import Metadata, Object
from maar.kube.wire.groups import BatchJob
from maar.kube.wire.pods import Pod
from maar.kube.wire.resources import BATCH_JOBS, Resource


def look(item: BatchJob) -> Stated | None:
    """What a Job says."""
    if item.status.holds("Complete", "Failed"):
        return None
    template = item.spec.template
    named = Metadata(labels=template.metadata.labels, annotations=template.metadata.annotations)
    return Stated(
        worker=Role(template, {"batch.kubernetes.io/job-name": item.name, "job-name": item.name}, item.spec.pods),
        role=role(Pod(metadata=named)),
        suspended=item.spec.suspend,
    )


def write(item: BatchJob, resource: Resource[Object], was: Reading, wanted: Wanted) -> list[Request]:
    """Size and suspension. An Indexed job's two numbers may change only if they are equal before and after."""
    spec: dict[str, Any] = {}
    if wanted.size != was.size:
        spec["parallelism"] = wanted.size
        if item.spec.completion_mode == "Indexed" and item.spec.completions == item.spec.parallelism:
            spec["completions"] = wanted.size
    if wanted.suspended != was.suspended:
        spec["suspend"] = wanted.suspended
    return [merge(item, resource, spec, wanted.notes)]


KIND = Kind(BATCH_JOBS, look, write)
