"""MPIJob `kubeflow.org/v2beta1`, of the MPI operator: as v1, but for what counts as an end.

The group and the plural are those of v1; which of the two a server serves, discovery tells.
"""

from __future__ import annotations

from maar.kube.kinds.kind import Kind
from maar.kube.kinds.kubeflow import writer
from maar.kube.kinds.mpijob import mpi_state
from maar.kube.kinds.reading import Stated
from maar.kube.wire.groups import KubeflowJob
from maar.kube.wire.resources import MPI_JOBS_V2

EVICTED = "MPIJobEvicted"


def look(item: KubeflowJob) -> Stated | None:
    """What an MPIJob says. One that failed by eviction, or has no time of completion, the MPI operator starts again."""
    failed = [c for c in item.status.conditions if c.type == "Failed" and c.status == "True"]
    if failed and item.status.completion_time is not None and all(c.reason != EVICTED for c in failed):
        return None
    return mpi_state(item)


KIND = Kind(MPI_JOBS_V2, look, writer("mpiReplicaSpecs"))
