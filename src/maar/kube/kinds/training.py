"""The other kinds of the training operator: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.kind import Kind
from maar.kube.kinds.kubeflow import fragile, gave_up, state, worker_role, writer
from maar.kube.kinds.reading import Stated
from maar.kube.wire.groups import KubeflowJob
from maar.kube.wire.resources import KUBEFLOW_JOBS

FIELDS = {
    "TFJob": ("tf_replica_specs", "tfReplicaSpecs"),
    "XGBoostJob": ("xgb_replica_specs", "xgbReplicaSpecs"),
    "PaddleJob": ("paddle_replica_specs", "paddleReplicaSpecs"),
    "JAXJob": ("jax_replica_specs", "jaxReplicaSpecs"),
}
"""Where each has its roles, with us and on the wire."""


def look(item: KubeflowJob) -> Stated | None:
    """What such a job says."""
    return None if gave_up(item) else state(item, keeps=_fragile(item))


def _fragile(item: KubeflowJob) -> str:
    """Two kinds are given up whenever a worker is being deleted, unless they say that workers come and go."""
    spec = item.spec
    if spec.tf_replica_specs:
        leaves = "it has no `enableDynamicWorker`" if not spec.enable_dynamic_worker else ""
    elif spec.xgb_replica_specs:
        policy = spec.roles[worker_role(spec.roles)].restart_policy
        leaves = "its workers' `restartPolicy` is not `ExitCode`" if policy != "ExitCode" else ""
    else:
        return fragile(item)
    return leaves and f"{leaves}, and its operator gives it up when a worker leaves"


KINDS = {FIELDS[r.kind][0]: Kind(r, look, writer(FIELDS[r.kind][1])) for r in KUBEFLOW_JOBS if r.kind in FIELDS}
"""By where they have their roles."""
