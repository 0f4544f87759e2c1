"""TFJob `kubeflow.org/v1`: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.kubeflow.family import KubeflowJob, gave_up, kind, stated


def look(item: KubeflowJob) -> Stated | None:
    """What a TFJob states; the operator gives it up whenever a worker is deleted, unless workers may come and go."""
    leaves = "" if item.spec.enable_dynamic_worker else "it has no `enableDynamicWorker`"
    keeps = leaves and f"{leaves}, and its operator gives it up when a worker leaves"
    return None if gave_up(item) else stated(item, keeps=keeps)


KIND = kind("TFJob", "tfReplicaSpecs", look, bounds="annotations, with `enableDynamicWorker`")
