"""MPIJob `kubeflow.org/v1` of the training operator, `v2beta1` of the MPI operator: bounds by annotation, or Voda's.

Group and plural are the same in both versions; discovery tells which one a server serves. Below its minimum Horovod
waits 600 seconds and then fails; so a job goes down to its minimum, or is suspended.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from maar.kube.kinds import batchjob
from maar.kube.kinds.creating import CreatedMember, owned, pod
from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.kind import Created, Inner
from maar.kube.kinds.kubeflow import family
from maar.kube.kinds.voda import said
from maar.kube.wire.api_resources import Resource

EVICTED = "MPIJobEvicted"


def look(item: family.KubeflowJob) -> Stated | None:
    return None if family.gave_up(item) else _stated(item)


def look_v2(item: family.KubeflowJob) -> Stated | None:
    """What an MPIJob of the MPI operator states; a job that failed by eviction, or has no completion time, restarts."""
    failed = [c for c in item.status.conditions if c.type == "Failed" and c.status == "True"]
    if failed and item.status.completion_time is not None and all(c.reason != EVICTED for c in failed):
        return None
    return _stated(item)


def _stated(item: family.KubeflowJob) -> Stated | None:
    return family.stated(item, **msgspec.structs.asdict(said(item.spec)))


def creates_v2(item: family.KubeflowJob, resource: Resource[family.KubeflowJob]) -> Iterator[Created]:
    """The MPI operator creates its workers as pods, and a Job for its launcher."""
    for role, spec in item.spec.roles.items():
        labels = {family.NAME_LABEL: item.name, family.LEADER_LABEL: role.lower()}
        if role in family.late(item):
            continue
        if role == "Launcher":
            meta = msgspec.structs.replace(spec.template.metadata, labels={**spec.template.metadata.labels, **labels})
            inner = batchjob.Spec(template=msgspec.structs.replace(spec.template, metadata=meta))
            launcher = owned(item, resource, CreatedMember(f"{item.name}-launcher", labels))
            yield Inner(batchjob.KIND, batchjob.BatchJob(metadata=launcher, spec=inner))
            continue
        for index in range(spec.replicas):
            made = CreatedMember(f"{item.name}-{role.lower()}-{index}", {**labels, family.INDEX_LABEL: str(index)})
            yield pod(item, resource, spec.template, made)


ABOUT = "all replicas, or `schedulingPolicy.minAvailable`; without a launcher that waits for its workers"
BOUNDS = "annotations, or Voda's environment variables"
KIND = family.kind("MPIJob", "mpiReplicaSpecs", look, about=ABOUT, bounds=BOUNDS)
KIND_V2 = family.kind("MPIJob", "mpiReplicaSpecs", look_v2, "v2beta1", about=ABOUT, bounds=BOUNDS, creates=creates_v2)
