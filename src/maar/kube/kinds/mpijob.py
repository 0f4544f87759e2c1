"""MPIJob `kubeflow.org/v1`, of the training operator: bounds by annotation, or in Voda's words.

Below its minimum Horovod waits 600 seconds and then fails; so a job goes down to its minimum, or is suspended.
"""

from __future__ import annotations

from maar.kube.kinds.kind import Kind
from maar.kube.kinds.kubeflow import gave_up, state, writer
from maar.kube.kinds.reading import Stated
from maar.kube.kinds.voda import said
from maar.kube.wire.groups import KubeflowJob
from maar.kube.wire.resources import KUBEFLOW_JOBS

(RESOURCE,) = (resource for resource in KUBEFLOW_JOBS if resource.kind == "MPIJob")


def look(item: KubeflowJob) -> Stated | None:
    """What an MPIJob says."""
    return None if gave_up(item) else mpi_state(item)


def mpi_state(item: KubeflowJob) -> Stated | None:
    """What an MPIJob of either version says."""
    voda = said(item.spec)
    return state(
        item,
        least=voda.least,
        most=voda.most,
        late=("Launcher",) if item.spec.launcher_creation_policy == "WaitForWorkersReady" else (),
        requested=voda.requested,
        priority=voda.priority,
        category=voda.category,
        pool=voda.pool,
        epochs=voda.epochs,
        problem=voda.problem,
    )


KIND = Kind(RESOURCE, look, writer("mpiReplicaSpecs"))
