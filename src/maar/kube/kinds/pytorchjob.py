"""PyTorchJob `kubeflow.org/v1`: its bounds are those of `elasticPolicy`.

With `elasticPolicy.metrics` the operator makes an autoscaler that owns the size: then it is left alone.
"""

from __future__ import annotations

from maar.kube.kinds.kind import Kind
from maar.kube.kinds.kubeflow import fragile, gave_up, state, writer
from maar.kube.kinds.reading import Bound, Stated
from maar.kube.wire.groups import KubeflowJob
from maar.kube.wire.resources import KUBEFLOW_JOBS

(RESOURCE,) = (resource for resource in KUBEFLOW_JOBS if resource.kind == "PyTorchJob")


def look(item: KubeflowJob) -> Stated | None:
    """What a PyTorchJob says."""
    policy = item.spec.elastic_policy
    if gave_up(item) or (policy is not None and policy.metrics):
        return None
    if policy is None:
        return state(item, keeps=fragile(item))
    return state(
        item,
        keeps=fragile(item),
        least=Bound(policy.min_replicas, "spec.elasticPolicy.minReplicas"),
        most=Bound(policy.max_replicas, "spec.elasticPolicy.maxReplicas"),
    )


KIND = Kind(RESOURCE, look, writer("pytorchReplicaSpecs"))
