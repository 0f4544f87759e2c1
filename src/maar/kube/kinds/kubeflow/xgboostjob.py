"""XGBoostJob `kubeflow.org/v1`: bounds by annotation only, or rigid and started when the plan says so."""

from __future__ import annotations

from maar.kube.kinds.elastic import Stated
from maar.kube.kinds.kubeflow.family import KubeflowJob, gave_up, kind, stated, worker_role


def look(item: KubeflowJob) -> Stated | None:
    """What an XGBoostJob states; the operator gives it up when a worker is deleted, unless its exit code decides."""
    roles = item.spec.roles
    policy = roles[worker_role(roles)].restart_policy if roles else ""
    leaves = "its workers' `restartPolicy` is not `ExitCode`" if policy != "ExitCode" else ""
    keeps = leaves and f"{leaves}, and its operator gives it up when a worker leaves"
    return None if gave_up(item) else stated(item, keeps=keeps)


KIND = kind("XGBoostJob", "xgbReplicaSpecs", look, bounds="annotations, with `restartPolicy: ExitCode`")
