"""PyTorchJob `kubeflow.org/v1`: its bounds are those of `elasticPolicy`.

With `elasticPolicy.metrics` the operator creates an autoscaler that owns the size: then Maar leaves it alone.
"""

from __future__ import annotations

from maar.kube.kinds.elastic import Bound, Stated
from maar.kube.kinds.kubeflow.family import KubeflowJob, fragile, gave_up, kind, look_safely, stated


def look(item: KubeflowJob) -> Stated | None:
    policy = item.spec.elastic_policy
    if policy is None:
        return look_safely(item)
    if gave_up(item) or policy.metrics:
        return None
    return stated(
        item,
        keeps=fragile(item),
        least=Bound(policy.min_replicas, "spec.elasticPolicy.minReplicas"),
        most=Bound(policy.max_replicas, "spec.elasticPolicy.maxReplicas"),
    )


KIND = kind("PyTorchJob", "pytorchReplicaSpecs", look, bounds="annotations, or `elasticPolicy`")
