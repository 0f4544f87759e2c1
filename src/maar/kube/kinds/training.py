"""The other kinds of the training operator: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.kind import Kind
from maar.kube.kinds.kubeflow import gave_up, state, writer
from maar.kube.kinds.reading import Stated
from maar.kube.resources import KUBEFLOW_JOBS
from maar.kube.wire_groups import KubeflowJob

FIELDS = {
    "TFJob": ("tf_replica_specs", "tfReplicaSpecs"),
    "XGBoostJob": ("xgb_replica_specs", "xgbReplicaSpecs"),
    "PaddleJob": ("paddle_replica_specs", "paddleReplicaSpecs"),
    "JAXJob": ("jax_replica_specs", "jaxReplicaSpecs"),
}
"""Where each has its roles, with us and on the wire."""


def look(item: KubeflowJob) -> Stated | None:
    """What such a job says."""
    return None if gave_up(item) else state(item)


KINDS = {FIELDS[r.kind][0]: Kind(r, look, writer(FIELDS[r.kind][1])) for r in KUBEFLOW_JOBS if r.kind in FIELDS}
"""By where they have their roles."""
