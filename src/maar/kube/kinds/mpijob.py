"""MPIJob `kubeflow.org/v1` of the training operator, `v2beta1` of the MPI operator: bounds by annotation, or Voda's.

Group and plural are the same in both versions; discovery tells which one a server serves. Below its minimum Horovod
waits 600 seconds and then fails; so a job goes down to its minimum, or is suspended.
"""

from __future__ import annotations

from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.kubeflow import KubeflowJob, gave_up, kind, stated
from maar.kube.kinds.voda import said

EVICTED = "MPIJobEvicted"


def look(item: KubeflowJob) -> Stated | None:
    return None if gave_up(item) else _stated(item)


def look_v2(item: KubeflowJob) -> Stated | None:
    """What an MPIJob of the MPI operator states; a job that failed by eviction, or has no completion time, restarts."""
    failed = [c for c in item.status.conditions if c.type == "Failed" and c.status == "True"]
    if failed and item.status.completion_time is not None and all(c.reason != EVICTED for c in failed):
        return None
    return _stated(item)


def _stated(item: KubeflowJob) -> Stated | None:
    voda = said(item.spec)
    return stated(
        item,
        least=voda.least,
        most=voda.most,
        requested=voda.requested,
        priority=voda.priority,
        category=voda.category,
        pool=voda.pool,
        epochs=voda.epochs,
        problem=voda.problem,
    )


ABOUT = "all replicas, or `schedulingPolicy.minAvailable`; without a launcher that waits for its workers"
BOUNDS = "annotations, or Voda's environment variables"
KIND = kind("MPIJob", "mpiReplicaSpecs", look, about=ABOUT, bounds=BOUNDS)
KIND_V2 = kind("MPIJob", "mpiReplicaSpecs", look_v2, "v2beta1", about=ABOUT, bounds=BOUNDS)
