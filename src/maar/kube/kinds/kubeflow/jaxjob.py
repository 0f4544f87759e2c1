"""JAXJob `kubeflow.org/v1`: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.kubeflow.family import KubeflowJob, fragile, gave_up, kind, stated


def look(item: KubeflowJob) -> Stated | None:
    return None if gave_up(item) else stated(item, keeps=fragile(item))


KIND = kind("JAXJob", "jaxReplicaSpecs", look)
